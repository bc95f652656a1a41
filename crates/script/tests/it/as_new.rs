//! An engine serves one script after the other, and each finds it in its original state: all reachable
//! objects are compared before and after.

use std::time::Duration;

use crate::support::{
    Documents, ELSEWHERE, HERE, block_on, body, children, functions, procedure, processes, refusal, run,
};
use shardlake_model::ErrorKind;
use shardlake_script::{Completion, Invocation, ScriptLimits, ScriptSettings, Scripts};

/// Everything that a script can reach: names, kinds, flags, texts of functions, prototypes, and which things are the same.
const LOOK: &str = "function () {
    const ownKeys = Reflect.ownKeys, descriptor = Object.getOwnPropertyDescriptor, proto = Object.getPrototypeOf;
    const seen = new Map(), lines = [];
    const look = (value, path) => {
        if (value === null || (typeof value !== 'object' && typeof value !== 'function')) {
            if (!path.endsWith('timeOrigin')) lines.push(path + ' ' + typeof value + ' ' + String(value));
            return;
        }
        if (seen.has(value)) { lines.push(path + ' is ' + seen.get(value)); return; }
        seen.set(value, path);
        lines.push(path + ' ' + typeof value + ' ' + Object.isExtensible(value) + (typeof value === 'function' ? ' ' + value : ''));
        look(proto(value), path + '^');
        for (const key of ownKeys(value)) {
            const found = descriptor(value, key), to = path + '.' + String(key);
            lines.push(to + ' ' + [found.writable, found.enumerable, found.configurable]);
            for (const part of ['value', 'get', 'set']) if (part in found) look(found[part], to + ':' + part);
        }
    };
    const context = getContext();
    look(globalThis, 'global');
    look(context, 'context');
    look(context.getCollection(), 'collection');
    look(context.getResponse(), 'response');
    look(__, 'shorthand');
    look((function* () {})(), 'generator');
    look(async () => 1, 'asynchronous');
    look(Symbol.for('mine').description, 'symbol');
    context.getResponse().setBody(lines.join('\\n'));
}";

/// Visits all reachable objects, the deepest last, and runs `DO` on each.
const THROUGH: &str = "
    const ownKeys = Reflect.ownKeys, descriptor = Object.getOwnPropertyDescriptor, proto = Object.getPrototypeOf;
    const remove = Reflect.deleteProperty, define = Reflect.defineProperty, setProto = Reflect.setPrototypeOf, freeze = Object.freeze;
    const has = Set.prototype.has, add = Set.prototype.add, apply = Reflect.apply, push = Array.prototype.push;
    const seen = new Set(), all = [];
    const go = (value) => {
        if (value === null || (typeof value !== 'object' && typeof value !== 'function')) return;
        if (apply(has, seen, [value]) || value === all || value === seen) return;
        apply(add, seen, [value]);
        apply(push, all, [value]);
        go(proto(value));
        const keys = ownKeys(value);
        for (let i = 0; i < keys.length; i++) {
            const found = descriptor(value, keys[i]);
            go(found.value); go(found.get); go(found.set);
        }
    };
    const context = getContext(), collection = context.getCollection();
    go(globalThis); go(context); go(collection); go(context.getResponse()); go(__);
    for (let i = 0; i < all.length; i++) {
        const value = all[i], keys = ownKeys(value);
        for (let j = 0; j < keys.length; j++) { const key = keys[j]; DO }
    }
";

fn look(scripts: &Scripts) -> String {
    let seen: Completion = run(scripts, &mut Documents::default(), LOOK, "[]").expect("looks");
    body(&seen).as_str().expect("a text").to_owned()
}

fn through(what: &str) -> String {
    format!("function () {{ {} }}", THROUGH.replace("DO", what))
}

fn assert_same(before: &str, after: &str, title: &str) {
    let difference = before.lines().zip(after.lines()).find(|(before, after)| before != after);
    assert!(before == after, "{title}: {difference:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn whatever_a_script_did_the_next_finds_everything_as_it_was() {
    let scripts = processes(1);
    look(&scripts);
    let workers = children();
    spoil(&scripts);
    assert_eq!(children(), workers, "one worker has served all of them");
}

#[test]
fn a_worker_on_a_thread_ends_as_well_as_it_began() {
    spoil(&Scripts::new(ScriptSettings { workers_max: 1, ..ScriptSettings::default() }));
}

fn spoil(scripts: &Scripts) {
    let before = look(scripts);
    assert!(before.lines().count() > 3_000, "it looks at {} things", before.lines().count());
    let corpus = [
        ("removes everything", through("remove(value, key);")),
        ("removes everything and needs memory", {
            let wasteful = "for (let n = 0, a = []; n < 300000; n++) { a = { a, n, f() {} }; if (n % 1000 === 0) a = null; }";
            format!("function () {{ {} {wasteful} }}", THROUGH.replace("DO", "remove(value, key);"))
        }),
        ("overwrites everything", through("try { value[key] = key; } catch {}")),
        ("redefines everything", through("define(value, key, {get() { return 1; }, configurable: true});")),
        ("freezes everything", through("freeze(value);")),
        ("cuts every prototype off", through("setProto(value, null);")),
        ("ties everything together", through("value.tie = all; define(value, Symbol.for('mine'), {value: all});")),
        ("throws", "function () { globalThis.mine = Symbol.for('mine'); throw {mine}; }".into()),
        ("aborts", "function () { getContext().abort({mine: getContext}); }".into()),
        ("leaves promises", "async function () { globalThis.p = new Promise(() => 1); p.then(p); Promise.reject(p); await p; }".into()),
        ("leaves calls", "function () { for (let i = 0; i < 90; i++) __.readDocument(__.getSelfLink() + 'docs/x', () => i); }".into()),
        ("leaves generators", "function () { globalThis.g = (function* () { try { yield g; } finally { g = 1; } })(); g.next(); }".into()),
        ("waits for the collector", "function () {
            globalThis.registry = new FinalizationRegistry(() => { globalThis.late = 1; });
            for (let i = 0; i < 10000; i++) { registry.register({i}, i); globalThis['r' + i % 50] = new WeakRef({}); }
        }".into()),
        ("makes classes", "function () {
            class A extends Error { #secret = 1; static s = {}; get secret() { return this.#secret; } }
            globalThis.A = A; Error.prepareStackTrace = () => 'mine'; Error.stackTraceLimit = 1; new A().stack;
            RegExp.prototype.flags; 'mine'.match(/(m)(i)/); new Intl.Mine;
        }".into()),
        ("needs the extension", "function () { __.filter(x => x, () => 1); globalThis.mine = __.spatial; __.chain = mine; }".into()),
        ("takes much memory", "function () { globalThis.big = []; for (let i = 0; i < 40; i++) big.push(new ArrayBuffer(1 << 20), 'x'.repeat(1 << 18) + i); }".into()),
        ("grows a text", "function () { globalThis.t = ''; for (let i = 0; i < 200000; i++) t += i; globalThis.m = new Map(); for (let i = 0; i < 50000; i++) m.set(i, {i}); }".into()),
    ];
    for round in 0..2 {
        for (title, source) in &corpus {
            // Most end with an error, since the objects they need are missing.
            let _ = run(scripts, &mut Documents::default(), source, "[]");
            assert_same(&before, &look(scripts), &format!("{title}, round {round}"));
        }
        let mut prepared = functions(
            scripts,
            &[(
                "f",
                "function () { Object.prototype.mine = globalThis; return typeof getContext + typeof mine; }",
            )],
            ScriptLimits::default(),
        )
        .expect("prepares");
        let values = prepared.call("f", &[vec![]], ScriptLimits::default().time).expect("calls");
        assert_eq!(values, [Some("\"undefinedobject\"".to_owned())]);
        drop(prepared);
        assert_same(&before, &look(scripts), "functions");
    }
}

#[test]
fn limits_that_are_passed_leave_nothing_either() {
    let scripts = processes(1);
    let before = look(&scripts);
    let tight = ScriptLimits {
        time: Duration::from_millis(200),
        memory_bytes_max: 4 << 20,
        ..ScriptLimits::default()
    };
    for source in [
        "function () { globalThis.a = []; for (;;) a.push({a}); }",
        "function () { globalThis.t = 'x'; for (;;) t += t; }",
        "function () { globalThis.n = 0; for (;;) n++; }",
        "function f() { return f() + f(); }",
        "function () { Array.prototype.toString = function () { return [this] + ''; }; return [1] + ''; }",
        "async function () { for (;;) await null; }",
    ] {
        for _ in 0..2 {
            let invocation = Invocation { limits: tight, ..procedure(source, "[]") };
            block_on(scripts.run(HERE, invocation, &mut Documents::default())).expect_err(source);
            assert_same(&before, &look(&scripts), source);
        }
    }
}

#[test]
fn random_numbers_are_others_in_each_run() {
    let scripts = processes(1);
    let draw = "function () { const a = []; for (let i = 0; i < 1000; i++) a.push(Math.random()); __.response.setBody(a); }";
    let mut drawn = Vec::new();
    for _ in 0..3 {
        let done = run(&scripts, &mut Documents::default(), draw, "[]").expect("draws");
        let numbers = body(&done);
        drawn.extend(
            numbers.as_array().expect("a list").iter().map(|number| number.as_f64().expect("a number")),
        );
    }
    assert!(drawn.iter().all(|number| (0.0..1.0).contains(number)));
    let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
    assert!((0.4..0.6).contains(&mean), "{mean}");
    drawn.sort_by(f64::total_cmp);
    drawn.dedup();
    assert_eq!(drawn.len(), 3_000);
}

/// A script that runs again is not compiled again, and behaves the same, however many scripts there are and
/// whatever ran in between.
#[test]
fn scripts_that_come_again_run_as_at_first() {
    let scripts = processes(1);
    let sources: Vec<String> = (0..12)
        .map(|n| {
            format!(
                "function () {{ const fresh = typeof globalThis.seen; globalThis.seen = Array.prototype.mine = {n}; \
                 arguments.callee.own = (arguments.callee.own || 0) + 1; \
                 __.readDocument(__.getSelfLink() + 'docs/a', (error, found) => __.response.setBody([fresh, {n}, arguments.callee.own, found.id])); }}"
            )
        })
        .collect();
    let random = shardlake_stdx::Random::seeded(5);
    let mut documents = Documents::with(&[serde_json::json!({"id": "a"})]);
    for turn in 0..300 {
        // A few of them often, then all.
        let n = random.below(if turn < 100 { 3 } else { 12 }) as usize;
        let seen = body(&run(&scripts, &mut documents, &sources[n], "[]").expect("runs"));
        assert_eq!(seen, serde_json::json!(["undefined", n, 1, "a"]), "turn {turn}");
        match random.below(6) {
            0 => {
                run(&scripts, &mut documents, "function () { throw 1; }", "[]").expect_err("throws");
            }
            1 => {
                let source = format!("function () {{ return typeof mine + {}; }}", random.below(3));
                let mut prepared =
                    functions(&scripts, &[("f", &source), ("g", "(x) => x")], ScriptLimits::default())
                        .expect("prepares");
                let time = ScriptLimits::default().time;
                let values = prepared.call("f", &[vec![]], time).expect("calls");
                assert!(values[0].as_ref().expect("a text").starts_with("\"undefined"), "{values:?}");
                let same = prepared.call("g", &[vec![Some("[1]".to_owned())]], time).expect("calls");
                assert_eq!(same, [Some("[1]".to_owned())]);
            }
            2 => {
                block_on(scripts.check(HERE, &sources[n])).expect("is a function");
                block_on(scripts.check(HERE, "1 + function () {}")).expect_err("is none");
            }
            _ => {}
        }
    }
}

/// Texts that run code before they evaluate to a function, and control their printed form: they used to pass
/// for functions.
#[test]
fn what_prints_itself_as_one_function_is_not_taken_for_it() {
    let itself = "(function f() {
        const text = '(' + f + ')()';
        Function.prototype.toString = () => text;
        if (typeof __ !== 'undefined') __.mine = __.getSelfLink();
        return function () { __.response.setBody('ran'); };
    })()";
    let by_name = "function a(){},(function f(){var m='a(){},('+f+')()/*',b=(function(){__.response.setBody('ran')}).bind();\
        Object.defineProperty(b,'name',{value:m});return b})()/*() {\n    [native code]\n}/**/";
    // A call followed by a block, which as a member of an object is one method.
    let call = |head: &str| {
        let escaped = head.replace('\\', "\\\\").replace('\n', "\\n");
        format!(
            "{head}{{ var get, set, async; var q = function () {{ globalThis.n = 1; if (typeof __ != 'undefined') __.response.setBody(n); \
             var s = '{escaped}{{ var get, set, async; var q = ' + q + '; q(); }}'; var d = Object.getOwnPropertyDescriptor((0, eval)('({{' + s + '}})'), 'eval'); return d.get || d.value; }}; q(); }}"
        )
    };
    let (escape, getter) = (call("\\u0065val()\n"), call("get\neval()\n"));
    let generator = call("async *eval()\n");
    let scripts = processes(1);
    for text in [itself, by_name, &escape, &getter, &generator] {
        let (kind, _) = refusal(block_on(scripts.check(HERE, text)));
        assert_eq!(kind, ErrorKind::BadRequest);
        for _ in 0..4 {
            let (kind, message) = refusal(run(&scripts, &mut Documents::default(), text, "[]"));
            assert_eq!(kind, ErrorKind::BadRequest);
            assert!(message.contains("SyntaxError"), "{message}");
        }
    }
    let honest = "function () { __.response.setBody('[native code]'); }";
    assert_eq!(body(&run(&scripts, &mut Documents::default(), honest, "[]").expect("runs")), "[native code]");
}

#[test]
fn what_a_failed_run_had_set_is_seen_by_nobody() {
    let scripts = processes(1);
    let victim = "function () { console.log('secret'); __.response.setBody({secret: 1}); throw 1; }";
    let other = "function () { __.response.setBody([__.getSelfLink(), __.getAltLink(), typeof __.response.getBody()]); }";
    for _ in 0..4 {
        let failing = Invocation { self_link: "dbs/VVVV/colls/VVVV/", ..procedure(victim, "[]") };
        block_on(scripts.run(ELSEWHERE, failing, &mut Documents::default())).expect_err("throws");
        let done = run(&scripts, &mut Documents::default(), other, "[]").expect("runs");
        assert_eq!(body(&done), serde_json::json!(["dbs/AAAA/colls/BBBB/", "dbs/d/colls/c", "undefined"]));
        assert_eq!(done.log, "");
    }
}

/// Also of those that are too long for an image.
#[test]
fn long_scripts_come_again_as_well() {
    let scripts = processes(1);
    for kilobytes in [4, 30, 60, 100, 400] {
        let mut source = String::from("function (n) { if (n > 1) { let x = 1;");
        while source.len() < kilobytes << 10 {
            source.push_str("(function (y) { return x + y; })(x => x + 1);");
        }
        source.push_str("} globalThis.n = (globalThis.n || 0) + n; __.response.setBody(globalThis.n); }");
        for _ in 0..5 {
            let done = run(&scripts, &mut Documents::default(), &source, "[1]").expect("runs");
            assert_eq!(body(&done), serde_json::json!(1), "{kilobytes} KB");
        }
    }
}
