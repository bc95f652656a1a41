//! Hostile scripts: each ends within its limit with an error that gives the reason, others run meanwhile, and
//! the next one finds no trace.

use std::time::Duration;

use crate::support::{
    Documents, ELSEWHERE, HERE, block_on, body, children, functions, procedure, processes, refusal, run,
};
use serde_json::json;
use shardlake_model::{ErrorKind, Result};
use shardlake_script::{Completion, ScriptLimits, Scripts};

/// Short limits, so that the corpus is quick; the test checks that they hold, not their size.
fn tight() -> ScriptLimits {
    ScriptLimits { time: Duration::from_millis(100), memory_bytes_max: 8 << 20, ..ScriptLimits::default() }
}

fn run_tight(scripts: &Scripts, source: &str) -> Result<Completion> {
    let mut documents = Documents::with(&[json!({"id": "a"}), json!({"id": "b"})]);
    let invocation = shardlake_script::Invocation { limits: tight(), ..procedure(source, "[]") };
    block_on(scripts.run(HERE, invocation, &mut documents))
}

/// Harmless scripts have the usual time.
fn run_fine(scripts: &Scripts, source: &str) -> Result<Completion> {
    run(scripts, &mut Documents::with(&[json!({"id": "a"})]), source, "[]")
}

/// Each is refused as one of `kinds`, and the next script is served as if nothing had been.
fn all_end(corpus: &[(&str, &str)], kinds: &[ErrorKind]) {
    let scripts = processes(1);
    for (title, source) in corpus {
        let (kind, message) = refusal(run_tight(&scripts, source));
        assert!(kinds.contains(&kind), "{title}: {kind:?} {message}");
        let is_memory = title.starts_with("memory");
        assert!(
            !is_memory || message.contains("MiB of memory") || message.contains("ran for"),
            "{title}: {message}"
        );
        assert!(!message.is_empty(), "{title}");
        let next = run_fine(&scripts, "function () { __.response.setBody(1 + 1); }").expect(title);
        assert_eq!(body(&next), json!(2), "{title}");
    }
}

#[test]
fn endless_scripts_are_stopped() {
    all_end(
        &[
            ("loop", "function () { for (;;); }"),
            ("loop in a callback", "function () { __.readDocument('x/docs/a', () => { while (true) {} }); }"),
            (
                "loop that catches",
                "function () { for (;;) { try { for (;;); } catch (e) {} finally { continue; } } }",
            ),
            (
                "loop in a job",
                "function () { Promise.resolve().then(function f() { return Promise.resolve().then(f); }); }",
            ),
            ("jobs without end", "async function () { for (;;) await null; }"),
            ("loop in a getter of the body", "function () { __.response.setBody({get x() { for (;;); }}); }"),
            ("loop in toJSON", "function () { __.response.setBody({toJSON() { for (;;); }}); }"),
            (
                "loop in a getter of options",
                "function () { __.readDocument('x', {get ifNoneMatch() { for (;;); }}); }",
            ),
            ("loop in what is thrown", "function () { throw {toJSON() { for (;;); }}; }"),
            (
                "loop in the message thrown",
                "function () { const e = new Error('x'); Object.defineProperty(e, 'message', {get() { for (;;); }}); throw e; }",
            ),
            (
                "loop in a proxy",
                "function () { const p = new Proxy({}, {ownKeys() { for (;;); }}); __.createDocument('x', p); }",
            ),
            ("loop in a thenable", "async function () { await {then() { for (;;); }}; }"),
            ("loop in eval", "function () { (0, eval)('for (;;);'); }"),
            ("loop in a constructor of functions", "function () { new Function('for (;;);')(); }"),
            ("regular expression", r"function () { /^(a+)+$/.test('a'.repeat(40) + 'b'); }"),
            (
                "array of a lying length",
                "function () { Array.prototype.map.call({length: 2 ** 40, 0: 1}, x => x); }",
            ),
        ],
        &[ErrorKind::Forbidden, ErrorKind::BadRequest],
    );
}

#[test]
fn built_in_functions_that_cannot_be_interrupted_are_killed() {
    let scripts = processes(2);
    for source in [
        "Array.prototype.reverse.call({length: 2 ** 53 - 1})",
        "Array.prototype.copyWithin.call({length: 2 ** 53 - 1}, 1, 0)",
        "Array.prototype.splice.call({length: 2 ** 53 - 1}, 0, 1)",
        "Array.prototype.unshift.call({length: 2 ** 53 - 10}, 1)",
        "Array.prototype.shift.call({length: 2 ** 53 - 10})",
        "Array.prototype.concat.call([], {length: 2 ** 53 - 2, [Symbol.isConcatSpreadable]: true})",
        "Array.prototype.sort.call({length: 2 ** 53 - 1})",
        "Array.prototype.flat.call({length: 2 ** 53 - 1})",
        "Array.prototype.join.call({length: 2 ** 31}, '')",
        "const a = []; a.length = 2 ** 32 - 1; a.sort()",
        "const a = []; a.length = 2 ** 32 - 1; JSON.stringify(a)",
        "const a = []; a.length = 2 ** 32 - 1; __.createDocument('x', {a})",
        "'a'.repeat(1 << 24).replaceAll('a', 'bb')",
        "'a'.repeat(1 << 23).indexOf('a'.repeat(1 << 22) + 'b')",
        "Array(200).fill(1n << 1000000n).join()",
        "new BigInt64Array(Array(200).fill('9'.repeat(300000)))",
    ] {
        let text = format!("function () {{ {source}; }}");
        // An uninterruptible call may end by itself on a fast machine: no time to spare, so that the limit
        // always decides.
        let limits = ScriptLimits { time: Duration::from_millis(1), ..ScriptLimits::default() };
        let invocation = shardlake_script::Invocation { limits, ..procedure(&text, "[]") };
        let (kind, message) = refusal(block_on(scripts.run(HERE, invocation, &mut Documents::default())));
        assert_eq!(kind, ErrorKind::Forbidden, "{source}");
        assert!(message.contains("ran for more than"), "{source}: {message}");
        let next = run_fine(&scripts, "function () { __.response.setBody(1 + 1); }").expect(source);
        assert_eq!(body(&next), json!(2), "{source}");
    }
}

#[test]
fn what_is_too_large_ends_in_an_error() {
    all_end(
        &[
            ("memory", "function () { const a = []; for (;;) a.push(new Array(1000).fill(0)); }"),
            ("memory in small objects", "function () { let a; for (;;) a = {a}; }"),
            (
                "memory in callbacks",
                "function () { const a = []; (function f() { for (let i = 0; i < 1e5; i++) a.push({}); Promise.resolve().then(f); })(); }",
            ),
            ("doubling strings", "function () { let s = 'x'; for (;;) s += s; }"),
            (
                "memory in rope strings",
                "function () { const a = []; for (;;) a.push('x'.repeat(100000) + a.length); }",
            ),
            ("memory in buffers", "function () { const a = []; for (;;) a.push(new Uint8Array(1 << 20)); }"),
            ("one large buffer", "function () { new ArrayBuffer(2 ** 31 - 1); }"),
            (
                "memory that is caught",
                "function () { const a = []; for (;;) { try { for (;;) a.push(new Array(1000).fill(0)); } catch (e) {} } }",
            ),
            ("repeat", "function () { 'x'.repeat(2 ** 30); }"),
            ("padStart", "function () { 'x'.padStart(2 ** 30, 'ab'); }"),
            ("replaceAll", "function () { 'a'.repeat(1 << 20).replaceAll('a', 'b'.repeat(1 << 20)); }"),
            ("recursion", "function f() { f(); }"),
            ("recursion in toString", "function () { const o = {toString() { return '' + o; }}; '' + o; }"),
            (
                "deep JSON",
                "function () { let a = []; for (let i = 0; i < 1e5; i++) a = [a]; __.response.setBody(a); }",
            ),
            ("deep JSON text", "function () { JSON.parse('['.repeat(1e6)); }"),
            ("circular body", "function () { const a = {}; a.a = a; __.response.setBody(a); }"),
            ("large integer", "function () { (3n ** (2n ** 24n)).toString(); }"),
            ("argument list", "function () { Math.max.apply(null, {length: 2 ** 31}); }"),
            ("deep regular expression", "function () { new RegExp('('.repeat(1e6)); }"),
            ("deep source", "function () { eval('('.repeat(1e6)); }"),
        ],
        &[ErrorKind::Forbidden, ErrorKind::BadRequest],
    );
}

#[test]
fn a_response_past_its_size_is_told_as_such_and_can_be_handled() {
    let scripts = processes(1);
    let run = |source: &str| run(&scripts, &mut Documents::default(), source, "[]");
    let (kind, message) = refusal(run("function () { __.response.setBody('x'.repeat(5 << 20)); }"));
    assert_eq!(kind, ErrorKind::TooLarge, "{message}");
    assert!(message.contains("Resulting message would be too large because of \"Body\""), "{message}");
    let grown = "function () { for (;;) __.response.appendBody('x'.repeat(1 << 16)); }";
    assert_eq!(refusal(run(grown)).0, ErrorKind::TooLarge);
    let careful = "function () {
        try { __.response.setBody('x'.repeat(5 << 20)); } catch (e) { __.response.setBody([e.number, ErrorCodes.RequestEntityTooLarge]); }
    }";
    assert_eq!(body(&run(careful).expect("runs")), json!([413, 413]));
}

#[test]
fn calls_and_logs_without_end_are_bounded() {
    let scripts = processes(1);
    let calls = "function () {
        let accepted = 0;
        for (let i = 0; i < 1e5; i++) if (__.readDocument('x/docs/a', () => {})) accepted++;
        __.response.setBody(accepted);
    }";
    let mut documents = Documents::with(&[json!({"id": "a"})]);
    let accepted = body(&run(&scripts, &mut documents, calls, "[]").expect("runs"));
    assert_eq!(accepted, json!(documents.requests.len()));
    assert!(documents.requests.len() <= 10_000, "{accepted}");

    let log = "function () { for (let i = 0; i < 1e4; i++) console.log('%d %s', i, 'x'.repeat(1000)); }";
    let completion = run(&scripts, &mut documents, log, "[]").expect("runs");
    let limit = ScriptLimits::default().log_bytes_max;
    assert!(completion.log.len() <= limit + 100, "{}", completion.log.len());
    assert!(completion.log.starts_with("0 xxx") && completion.log.ends_with("cut here]"));
}

#[test]
fn callbacks_without_end_come_to_one() {
    let source = "function () {
        (function next() { if (!__.readDocument('x/docs/a', next)) __.response.setBody('no more'); })();
    }";
    assert_eq!(body(&run_tight(&processes(1), source).expect("runs")), json!("no more"));
}

#[test]
fn nothing_of_a_script_is_seen_by_the_next() {
    let scripts = processes(1);
    let tamper = "function () {
        const own = Object.getOwnPropertyNames(globalThis);
        Object.prototype.evil = 1;
        Array.prototype.push = Array.prototype.map = JSON.parse = JSON.stringify = () => 'evil';
        Function.prototype.call = Function.prototype.apply = Function.prototype.toString = () => 'evil';
        Promise.prototype.then = () => 'evil';
        Object.defineProperty(Object.prototype, 'then', {get() { return 'evil'; }, configurable: true});
        globalThis.getContext = globalThis.__ = globalThis.console = globalThis.ErrorCodes = 'evil';
        globalThis.evil = Symbol.for('evil');
        Date.now = Math.random = () => 'evil';
        RegExp.prototype.exec = String.prototype.toWellFormed = () => 'evil';
        throw new Error(own.length);
    }";
    let look = "function () {
        __.response.setBody([
            typeof evil, typeof ({}).evil, [1].map(x => x + 1), JSON.parse('[1]'), typeof getContext().getCollection(),
            typeof Math.random(), ErrorCodes.NotFound, (function () {}).call(1) === undefined, 'then' in {},
        ]);
    }";
    for _ in 0..2 {
        let (kind, _) = refusal(run_tight(&scripts, tamper));
        assert_eq!(kind, ErrorKind::BadRequest);
        let seen = body(&run_fine(&scripts, look).expect("runs"));
        assert_eq!(seen, json!(["undefined", "undefined", [2], [1], "object", "number", 404, true, false]));
    }
    let mut prepared =
        functions(&scripts, &[("f", "function () { return typeof evil; }")], tight()).expect("prepares");
    assert_eq!(
        prepared.call("f", &[vec![]], tight().time).expect("calls"),
        [Some("\"undefined\"".to_owned())]
    );
}

#[test]
fn tampering_with_shared_objects_harms_only_the_script_itself() {
    let scripts = processes(1);
    let source = "function () {
        Object.defineProperty(Object.prototype, 'pageSize', {get() { return 'all'; }});
        Array.prototype.push = Array.prototype.shift = () => { throw new Error('push'); };
        JSON.stringify = () => { throw new Error('stringify'); };
        Function.prototype.apply = Function.prototype.call = () => { throw new Error('call'); };
        for (const name of ['getCollection', 'getSelfLink', 'createDocument', 'filter', 'response', 'setBody'])
            Object.defineProperty(Object.prototype, name, {get() { return 'mine'; }, set() { throw new Error(name); }});
        const c = getContext().getCollection();
        c.createDocument(c.getSelfLink(), {id: 'made'}, (error, made) => __.response.setBody(made.id));
    }";
    assert_eq!(body(&run_fine(&scripts, source).expect("runs")), json!("made"));
}

/// A script finds the same objects by every path, and its changes to them affect only its own run.
#[test]
fn objects_of_the_model_are_made_once_and_only_for_one_run() {
    let scripts = processes(1);
    let look = "function () {
        const context = getContext(), collection = context.getCollection();
        const seen = [
            getContext() === context, context.getCollection() === collection, __ === __,
            Object.getPrototypeOf(__) === collection, __.response === context.getResponse(),
            typeof collection.mine, typeof context.mine, typeof __.mine, Object.keys(context), Object.keys(__),
            Object.keys(collection).length, Object.keys(globalThis).filter(name => name !== 'performance'), typeof __.spatial.distance,
        ];
        collection.getSelfLink = collection.queryDocuments = context.getResponse().appendBody = () => 'evil';
        collection.mine = context.mine = __.mine = 1;
        __.filter(document => document.mine === undefined, (error, found, options) => {
            seen.push(error === undefined, found.length);
            globalThis.__ = 'mine';
            seen.push(__, typeof getContext().getResponse().setBody);
            context.getResponse().setBody(seen);
        });
    }";
    let expected = json!([
        true,
        true,
        true,
        true,
        true,
        "undefined",
        "undefined",
        "undefined",
        ["getCollection", "abort", "getResponse"],
        ["response"],
        25,
        [],
        "function",
        true,
        1,
        "mine",
        "function",
    ]);
    for _ in 0..2 {
        assert_eq!(body(&run_fine(&scripts, look).expect("runs")), expected);
    }
}

/// A worker serves queries and runs in turns, whichever runtime waits for it.
#[test]
#[cfg(target_os = "linux")]
fn a_worker_is_kept_from_one_order_to_the_next() {
    let scripts = processes(1);
    let count = "function () { __.response.setBody(typeof globalThis.seen); globalThis.seen = 1; }";
    let fine = ScriptLimits::default();
    let several = async || {
        for _ in 0..3 {
            let mut documents = Documents::default();
            let done = scripts.run(HERE, procedure(count, "[]"), &mut documents).await.expect("runs");
            assert_eq!(body(&done), json!("undefined"));
            let one = [("f", "function () { return 1; }")];
            let mut prepared = functions(&scripts, &one, fine).expect("prepares");
            let values = prepared.call("f", &[vec![]], fine.time).expect("calls");
            assert_eq!(values, [Some("1".to_owned())]);
            drop(prepared);
            let done = scripts.run(HERE, procedure(count, "[]"), &mut documents).await.expect("runs");
            assert_eq!(body(&done), json!("undefined"));
        }
    };
    block_on(several());
    let workers = children();
    assert_eq!(workers.split_whitespace().count(), 1, "{workers}");
    block_on(several());
    assert_eq!(children(), workers);
}

#[test]
fn there_is_nothing_to_reach_from_a_script() {
    let scripts = processes(1);
    let source = "function () {
        const names = ['require', 'process', 'std', 'os', 'fetch', 'XMLHttpRequest', 'setTimeout', 'Deno', 'WebAssembly',
            'importScripts', 'print', 'scriptArgs', 'load', 'bjson', 'Worker', 'Atomics', 'SharedArrayBuffer'];
        __.response.setBody(names.filter(name => name in globalThis));
    }";
    assert_eq!(body(&run_fine(&scripts, source).expect("runs")), json!([]));
    let (kind, _) = refusal(run_tight(&scripts, "async function () { await import('os'); }"));
    assert_eq!(kind, ErrorKind::BadRequest);
}

#[test]
fn others_run_while_a_worker_hangs_and_after_it_is_killed() {
    let scripts = processes(2);
    block_on(async {
        let hang = async {
            let limits = ScriptLimits { time: Duration::from_secs(1), ..tight() };
            let source = "function () { Array.prototype.reverse.call({length: 2 ** 53 - 1}); }";
            let invocation = shardlake_script::Invocation { limits, ..procedure(source, "[]") };
            scripts.run(HERE, invocation, &mut Documents::default()).await
        };
        let work = async {
            let mut done = 0;
            for _ in 0..100 {
                let source = "function () { __.createDocument('x', {id: 'a'}); }";
                let procedure = procedure(source, "[]");
                scripts.run(ELSEWHERE, procedure, &mut Documents::default()).await.expect("runs");
                done += 1;
            }
            done
        };
        let (hung, done) = futures::join!(hang, work);
        assert_eq!(refusal(hung).0, ErrorKind::Forbidden);
        assert_eq!(done, 100);
    });
}

/// Ends only by force from the test.
fn endless() -> shardlake_script::Invocation<'static> {
    let limits = ScriptLimits { time: Duration::from_secs(3600), ..ScriptLimits::default() };
    shardlake_script::Invocation { limits, ..procedure("function () { for (;;); }", "[]") }
}

#[test]
fn a_client_that_goes_away_takes_its_worker_with_it_and_nobody_elses() {
    let scripts = processes(1);
    block_on(async {
        for _ in 0..3 {
            let mut documents = Documents::default();
            let run = scripts.run(HERE, endless(), &mut documents);
            assert!(tokio::time::timeout(Duration::from_millis(20), run).await.is_err());
            let next =
                scripts.run(HERE, procedure("function () { __.response.setBody(1); }", "[]"), &mut documents);
            assert_eq!(body(&next.await.expect("runs")), json!(1));
        }
    });
}

#[test]
fn what_a_script_ties_in_a_circle_is_let_go_of() {
    let circles = "function () {
        const context = getContext(), c = context.getCollection();
        getContext.context = context; c.context = context; c.shorthand = __; c.readDocument.c = c; context.abort.c = c;
        console.log.c = c; __.response.setBody.c = c; c.spatial.c = c; c.chain.c = c;
        __.chain().filter(() => c);
        const held = {}; held.self = held;
        c.readDocument('x/docs/a', function f() { f.f = f; f.held = held; held.f = f; });
        new Promise(() => held);
        throw Object.assign(new Error('circle'), {c});
    }";
    // Two in a worker: an engine that could not be freed would have ended it.
    all_end(&[("circles", circles), ("circles again", circles)], &[ErrorKind::BadRequest]);
}

#[test]
fn too_many_that_wait_are_refused_and_functions_do_not_wait_for_scripts() {
    let program = env!("CARGO_BIN_EXE_shardlake-script-worker").into();
    let workers = shardlake_script::WorkerKind::Process { program, arguments: Vec::new() };
    let settings = shardlake_script::ScriptSettings { workers, workers_max: 1, ..Default::default() };
    let scripts = Scripts::new(shardlake_script::ScriptSettings { waiting_max: 1, ..settings });
    block_on(async {
        let source = "function () { for (let i = 0; i < 1e5; i++); }";
        let run = async || scripts.run(HERE, procedure(source, "[]"), &mut Documents::default()).await;
        let outcomes = futures::future::join_all([run(), run(), run()]).await;
        let refused: Vec<_> = outcomes.into_iter().filter_map(|outcome| outcome.err()).collect();
        assert_eq!(refused.iter().map(|error| error.kind()).collect::<Vec<_>>(), [ErrorKind::Unavailable]);

        let mut documents = Documents::default();
        let held = scripts.run(HERE, endless(), &mut documents);
        let mut held = std::pin::pin!(held);
        assert!(tokio::time::timeout(Duration::from_millis(20), &mut held).await.is_err());
        let mut prepared = functions(&scripts, &[("f", "x => x")], tight()).expect("has a worker of its own");
        assert_eq!(prepared.call("f", &[vec![None]], tight().time).expect("calls"), [None]);
    });
}

#[test]
fn functions_are_bounded_too() {
    let scripts = processes(1);
    let definitions = [
        ("hang", "function () { Array.prototype.reverse.call({length: 2 ** 53 - 1}); }"),
        ("loop", "function () { for (;;); }"),
        ("throw", "function (x) { throw new TypeError('not ' + x); }"),
        ("fine", "function (x) { return x; }"),
    ];
    let mut prepared = functions(&scripts, &definitions, tight()).expect("prepares");
    let row = || vec![vec![Some("1".to_owned())]];
    assert_eq!(prepared.call("loop", &row(), tight().time).expect_err("loops").kind(), ErrorKind::Forbidden);
    assert!(
        prepared
            .call("throw", &row(), tight().time)
            .expect_err("throws")
            .message()
            .contains("TypeError: not 1")
    );
    assert_eq!(prepared.call("fine", &row(), tight().time).expect("calls"), [Some("1".to_owned())]);
    assert_eq!(prepared.call("hang", &row(), tight().time).expect_err("hangs").kind(), ErrorKind::Forbidden);
    assert!(prepared.call("fine", &row(), tight().time).is_err(), "the worker is gone");
    drop(prepared);
    let mut prepared = functions(&scripts, &definitions, tight()).expect("prepares");
    assert_eq!(prepared.call("fine", &row(), tight().time).expect("calls"), [Some("1".to_owned())]);
}

#[test]
fn a_text_that_is_no_function_is_refused_whatever_it_does() {
    let scripts = processes(1);
    for source in [
        "",
        "1",
        "x",
        "function () {}, 1",
        "(() => { for (;;); })()",
        "function () {})(",
        "class A {}",
        "function* g() {}",
        "function () {} function () {}",
        "function () { \0 }",
        "`${(() => { for (;;); })()}`",
    ] {
        let error = block_on(scripts.check(HERE, source)).expect_err(source);
        assert!(matches!(error.kind(), ErrorKind::BadRequest | ErrorKind::Forbidden), "{source}: {error}");
    }
}

/// Workers release a script's memory, or are replaced.
#[test]
#[cfg(target_os = "linux")]
fn memory_comes_back() {
    let scripts = processes(1);
    let resident = || {
        let workers = children_memory_kilobytes();
        assert!(workers.len() <= 1, "{workers:?}");
        workers.iter().sum::<u64>()
    };
    let greedy = "function () { const a = []; for (;;) a.push(new Array(1000).fill({})); }";
    for _ in 0..80 {
        let _ = run_tight(&scripts, greedy);
    }
    run_fine(&scripts, "function () {}").expect("runs");
    assert!(resident() < 100_000, "{} KB", resident());
}

/// Resident memory of the processes that this thread started.
#[cfg(target_os = "linux")]
fn children_memory_kilobytes() -> Vec<u64> {
    let read = |path: String| std::fs::read_to_string(path).unwrap_or_default();
    let children = children();
    let status = |child: &str| read(format!("/proc/{child}/status"));
    let resident = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().strip_suffix(" kB")?.parse().ok()
    };
    children.split_whitespace().filter_map(|child| resident(status(child))).collect()
}

#[test]
fn memory_that_runs_out_where_nobody_looks_ends_the_script_too() {
    let scripts = processes(1);
    for source in [
        "function () { Promise.resolve().then(function f() { return Promise.resolve().then(f); }); }",
        "function () { Promise.resolve().then(() => { const a = []; for (;;) a.push('x'.repeat(100) + a.length); }); __.response.setBody(1); }",
        "function () { (async () => { const a = []; for (;;) a.push('x'.repeat(100) + a.length); })(); __.response.setBody(1); }",
    ] {
        let (kind, message) = refusal(run_fine(&scripts, source));
        assert_eq!(kind, ErrorKind::Forbidden, "{source}: {message}");
    }
    let caught = "async function () {
        const hungry = async () => { const a = []; for (;;) a.push('x'.repeat(100) + a.length); };
        try { await hungry(); } catch { __.response.setBody('caught'); }
    }";
    assert_eq!(body(&run_fine(&scripts, caught).expect("caught")), json!("caught"));
    // Other unhandled rejections are ignored.
    let silent = "function () { Promise.reject(new Error('x')); __.response.setBody(1); }";
    assert_eq!(body(&run_fine(&scripts, silent).expect("runs")), json!(1));
}
