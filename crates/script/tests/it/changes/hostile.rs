//! Hostile functions: each ends within its limits with an error that gives the reason, and the next run, of any
//! role, finds no trace.

use std::time::Duration;

use serde_json::{Value, json};
use shardlake_model::{ErrorKind, Result};
use shardlake_script::changes::{ChangesOutcome, FunctionWriteKind};
use shardlake_script::{ScriptLimits, ScriptSettings, Scripts};

use super::support::{Items, body, changes, run, run_with};
#[cfg(target_os = "linux")]
use crate::support::children;
use crate::support::{Documents, body as response, processes, refusal};

fn run_tight(scripts: &Scripts, source: &str) -> Result<ChangesOutcome> {
    let mut items = Items::with(&[json!({"id": "a", "category": "x"})]);
    let limits = ScriptLimits {
        time: Duration::from_millis(100),
        memory_bytes_max: 8 << 20,
        ..ScriptLimits::default()
    };
    run_with(scripts, &mut items, source, &changes(3), limits)
}

/// Each is refused as one of `kinds`, and the next run is served as if nothing had been.
fn all_end(corpus: &[&str], kinds: &[ErrorKind]) {
    let scripts = processes(1);
    for text in corpus {
        let (kind, message) = refusal(run_tight(&scripts, &body(text)));
        assert!(kinds.contains(&kind), "{text}: {kind:?} {message}");
        assert!(!message.is_empty(), "{text}");
        let next = run(&scripts, &mut Items::default(), &body("console.log(1 + 1)")).expect(text);
        assert_eq!(next.log, ["2"], "{text}");
    }
}

#[test]
fn endless_functions_are_stopped() {
    all_end(
        &[
            "for (;;);",
            "for (;;) { try { for (;;); } catch (e) {} finally { continue; } }",
            "for (;;) await null;",
            "for (;;) await c.read('a', 'x').then(() => { for (;;); });",
            "c.read('a', 'x').then(function f() { return Promise.resolve().then(f); });",
            "(function f() { Promise.resolve().then(f); })();",
            "await {then() { for (;;); }};",
            "Object.defineProperty(Object.prototype, 'then', {get() { for (;;); }}); await c.read('a', 'x');",
            "c.create({id: 'a', toJSON() { for (;;); }});",
            "c.create({get id() { for (;;); }});",
            "c.delete('a', 'x', {get ifMatch() { for (;;); }});",
            "c.delete('a', new Proxy(['x'], {get() { for (;;); }}));",
            "await c.query('SELECT 1', new Proxy({}, {ownKeys() { for (;;); }}));",
            "await c.query('SELECT 1', {}, {get max() { for (;;); }});",
            "context.deadLetter(changes[0], {toString() { for (;;); }});",
            "console.log({toJSON() { for (;;); }});",
            "throw {toJSON() { for (;;); }};",
            "const e = new Error('x'); Object.defineProperty(e, 'message', {get() { for (;;); }}); throw e;",
            "(0, eval)('for (;;);');",
            "new Function('for (;;);')();",
            r"/^(a+)+$/.test('a'.repeat(40) + 'b');",
            "Array.prototype.map.call({length: 2 ** 40, 0: 1}, x => x);",
        ],
        &[ErrorKind::Forbidden, ErrorKind::BadRequest],
    );
}

#[test]
fn a_function_in_a_built_in_function_is_killed() {
    let scripts = processes(1);
    for text in
        ["Array.prototype.reverse.call({length: 2 ** 53 - 1})", "'a'.repeat(1 << 24).replaceAll('a', 'bb')"]
    {
        let limits = ScriptLimits { time: Duration::from_millis(1), ..ScriptLimits::default() };
        let outcome = run_with(&scripts, &mut Items::default(), &body(text), &changes(1), limits);
        let (kind, message) = refusal(outcome);
        assert_eq!(kind, ErrorKind::Forbidden, "{text}: {message}");
        assert!(message.contains("ran for more than"), "{text}: {message}");
    }
    let next = run(&scripts, &mut Items::default(), &body("console.log(1)")).expect("another worker runs");
    assert_eq!(next.log, ["1"]);
}

#[test]
fn excess_ends_in_an_error() {
    all_end(
        &[
            "const a = []; for (;;) a.push(new Array(1000).fill(0));",
            "let a; for (;;) a = {a};",
            "let s = 'x'; for (;;) s += s;",
            "const a = []; for (;;) a.push('x'.repeat(100000) + a.length);",
            "'x'.repeat(2 ** 30);",
            "c.create({id: 'a', text: 'x'.repeat(2 ** 30)});",
            "c.create({id: 'x'.repeat(2 ** 30 - 100)});",
            "await c.read('x'.repeat(7 << 20), 'x');",
            "await c.read('a', 'x'.repeat(7 << 20));",
            "context.container('x'.repeat(7 << 20));",
            "c.delete('a', 'x', {ifMatch: 'x'.repeat(7 << 20)});",
            "new ArrayBuffer(2 ** 31 - 1);",
            "const a = []; for (;;) { try { for (;;) a.push(new Array(1000).fill(0)); } catch (e) {} }",
            "const a = []; for (;;) a.push(new Promise(() => {}), c.read('a', 'x'));",
            "const a = []; for (;;) a.push(Promise.reject(a));",
            "(function f() { f(); })();",
            "const o = {toString() { return '' + o; }}; '' + o;",
            "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; c.create({id: 'a', a});",
            "let a = []; for (let i = 0; i < 200; i++) a = [a]; c.create({id: 'a', a});",
            "const a = {id: 'a'}; a.a = a; c.create(a);",
            "c.delete('a', {length: 2 ** 32});",
            "const key = []; key.length = 2 ** 32 - 1; c.delete('a', key);",
            "JSON.parse('['.repeat(1e6));",
            "eval('('.repeat(1e6));",
        ],
        &[ErrorKind::Forbidden, ErrorKind::BadRequest, ErrorKind::TooLarge],
    );
}

#[test]
fn writes_are_bounded() {
    let scripts = processes(1);
    let source = body("for (let i = 0; i < 1e6; i++) c.upsert({id: 'i' + i, category: 'x'});");
    let (kind, message) = refusal(run(&scripts, &mut Items::default(), &source));
    assert_eq!(kind, ErrorKind::TooLarge, "{message}");
    assert!(message.contains("writes at most 1000 times: give it fewer changes in one batch"), "{message}");
    let source = body("for (;;) c.upsert({id: 'a', category: 'x', text: 'x'.repeat(1e6)});");
    let (kind, message) = refusal(run(&scripts, &mut Items::default(), &source));
    assert_eq!(kind, ErrorKind::TooLarge, "{message}");
    assert!(message.contains("writes at most 4 MB"), "{message}");
    // A write that was refused is not made, and the others are.
    let source =
        body("for (let i = 0; i < 1e5; i++) { try { c.upsert({id: 'i' + i, category: 'x'}); } catch {} }");
    let outcome = run(&scripts, &mut Items::default(), &source).expect("catches them");
    assert_eq!(outcome.writes.len(), 1_000);
}

#[test]
fn reads_logs_and_letters_are_bounded() {
    let scripts = processes(1);
    let mut items = Items::default();
    let source = body("for (let i = 0; i < 1e6; i++) await c.read('i' + i, 'x');");
    let (kind, message) = refusal(run(&scripts, &mut items, &source));
    assert_eq!(kind, ErrorKind::TooLarge, "{message}");
    assert!(message.contains("reads at most 10000 times"), "{message}");
    assert_eq!(items.asked.len(), 10_000);
    let source = body("const text = 'x'.repeat(400000); for (let i = 0; i < 100; i++) c.query(text + i);");
    let (kind, message) = refusal(run(&scripts, &mut Items::default(), &source));
    assert_eq!(kind, ErrorKind::TooLarge, "{message}");
    assert!(message.contains("await some of them first"), "{message}");
    let source =
        body("for (let i = 0; i < 1e5; i++) { console.log(i); context.deadLetter(changes[i % 3], i); }");
    let outcome = run(&scripts, &mut Items::default(), &source).expect("runs");
    assert_eq!((outcome.log.len(), outcome.letters.len()), (256, 3));
    assert_eq!(outcome.log.last().map(String::as_str), Some("[the log was cut here]"));
    let source = body("for (;;) console.log('x'.repeat(1e5));");
    assert_eq!(refusal(run_tight(&scripts, &source)).0, ErrorKind::Forbidden);
}

/// Names of the global object, and of a text that is evaluated in any way.
#[test]
fn evaluated_texts_reach_nothing_more() {
    let scripts = processes(1);
    let names = "Object.getOwnPropertyNames(globalThis).sort().join()";
    let procedure = format!("function () {{ __.response.setBody({names}); }}");
    let procedures =
        crate::support::run(&scripts, &mut Documents::default(), &procedure, "[]").expect("runs");
    let procedures = response(&procedures);
    let seen = run(&scripts, &mut Items::default(), &body(&format!("console.log({names})"))).expect("runs");
    let expected: Vec<&str> = procedures
        .as_str()
        .expect("a text")
        .split(',')
        .filter(|name| !["getContext", "__", "ErrorCodes"].contains(name))
        .collect();
    assert_eq!(seen.log, [expected.join(",")]);
    let probe = "'typeof [typeof require, typeof process, typeof std, typeof os, typeof Deno, typeof fetch, typeof setTimeout, \
                 typeof context, typeof getContext, typeof Atomics].find(kind => kind !== `undefined`)'";
    let text = format!(
        "const probe = {probe};
        console.log((0, eval)(probe), new Function('return ' + probe)(), context.container.constructor('return ' + probe)(),
            Object.getPrototypeOf(async () => 1).constructor('return ' + probe)() instanceof Promise,
            c.read.constructor('return this')() === globalThis, c.constructor === Object);
        for (const name of ['std', 'os', '/etc/passwd', 'data:text/javascript,1'])
            await import(name).then(() => console.log('imported'), () => console.log('refused'));"
    );
    let seen = run(&scripts, &mut Items::default(), &body(&text)).expect("runs");
    let refused = "refused";
    assert_eq!(
        seen.log,
        ["undefined undefined undefined true true true", refused, refused, refused, refused]
    );
}

#[test]
fn tampering_harms_only_the_function_itself() {
    let scripts = processes(1);
    let text = "const { log } = console;
        Array.prototype.push = Array.prototype.shift = () => { throw new Error('push'); };
        JSON.stringify = JSON.parse = () => { throw new Error('JSON'); };
        Function.prototype.apply = Function.prototype.call = () => { throw new Error('call'); };
        Promise.resolve = Promise.prototype.constructor = globalThis.Promise = () => { throw new Error('promise'); };
        for (const name of ['ifMatch', 'partitionKey', 'read', 'query', 'create', 'place', 'message'])
            Object.defineProperty(Object.prototype, name, {get() { return undefined; }, set() { throw new Error(name); }});
        Array.prototype[Symbol.iterator] = () => { throw new Error('iterator'); };
        const other = context.container('product');
        other.create({id: 'made', category: 'x'});
        log((await other.read('made', 'x')).id, (await other.read('a', 'x')).id);";
    let mut items = Items::with(&[json!({"id": "a", "category": "x"})]);
    let outcome = run(&scripts, &mut items, &body(text)).expect("runs");
    assert_eq!((outcome.log, outcome.writes.len()), (vec!["made a".to_owned()], 1));
}

/// A method that runs in the middle of another one, through a getter.
#[test]
fn methods_may_be_called_from_within_methods() {
    let text = "let depth = 0;
        const again = () => { if (depth++ < 8) { c.upsert({id: 'i' + depth, category: 'x'}); c.read('a', 'x'); c.read('i1', 'x'); } };
        Object.defineProperty(Object.prototype, 'then', {get() { again(); }, configurable: true});
        Object.defineProperty(Error.prototype, 'number', {set() { again(); }, configurable: true});
        c.upsert({get id() { again(); return 'outer'; }, category: 'x'});
        try { c.delete('a', {get 0() { again(); }, x: 1}); } catch {}
        await c.query('SELECT 1', {get '@a'() { again(); return 1; }}, {get max() { again(); return 2; }});
        for (let i = 0; i < 20; i++) await c.read('i1', 'x');
        delete Object.prototype.then;
        console.log(depth > 8);";
    let mut items = Items::with(&[json!({"id": "a", "category": "x"})]);
    let outcome = run(&processes(1), &mut items, &body(text)).expect("runs");
    assert_eq!((outcome.log, outcome.writes.len()), (vec!["true".to_owned()], 9));
}

/// Everything that a function can reach: names, kinds, flags, texts of functions, prototypes, and which things are the same.
const LOOK: &str = "
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
    look(globalThis, 'global'); look(context, 'context'); look(c, 'container'); look(changes, 'changes');
    look((function* () {})(), 'generator'); look(async () => 1, 'asynchronous'); look(c.read('a', 'x'), 'promise');
    c.upsert({id: 'look', category: 'x', text: lines.join('\\n')});";

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
    go(globalThis); go(context); go(c); go(changes); go(c.read('a', 'x'));
    for (let i = 0; i < all.length; i++) {
        const value = all[i], keys = ownKeys(value);
        for (let j = 0; j < keys.length; j++) { const key = keys[j]; DO }
    }";

fn look(scripts: &Scripts) -> String {
    let outcome = run(scripts, &mut Items::default(), &body(LOOK)).expect("looks");
    let FunctionWriteKind::Upsert { item } = &outcome.writes[0].kind else { panic!("an upsert") };
    let item: Value = serde_json::from_str(item).expect("JSON");
    item["text"].as_str().expect("a text").to_owned()
}

fn spoil(scripts: &Scripts) {
    let before = look(scripts);
    assert!(before.lines().count() > 3_000, "it looks at {} things", before.lines().count());
    let through = |deed: &str| THROUGH.replace("DO", deed);
    let corpus = [
        through("remove(value, key);"),
        through("try { value[key] = key; } catch {}"),
        through("define(value, key, {get() { return 1; }, configurable: true});"),
        through("freeze(value);"),
        through("setProto(value, null);"),
        through("value.tie = all; define(value, Symbol.for('mine'), {value: all});"),
        "globalThis.mine = Symbol.for('mine'); throw {mine};".into(),
        "globalThis.p = new Promise(() => 1); p.then(p); Promise.reject(p); await p;".into(),
        "for (let i = 0; i < 90; i++) c.read('a' + i, 'x').then(() => i); throw context;".into(),
        "const all = []; for (let i = 0; i < 90; i++) all.push(c.query('SELECT ' + i)); await Promise.race(all); throw all;".into(),
        "for (let i = 0; i < 90; i++) (async () => { throw c; })();".into(),
        "for (const change of changes) { context.deadLetter(change, 'x'); c.delete(change.id, 'x'); } globalThis.kept = changes;".into(),
        "Object.defineProperty(Object.prototype, 'then', {get() { throw this; }, configurable: true}); await c.read('a', 'x');".into(),
        "for (;;);".into(),
        "const a = []; for (;;) a.push(c.read('a', 'x'), new Array(1000).fill(0));".into(),
    ];
    for text in corpus {
        let _ = run_tight(scripts, &body(&text));
        let after = look(scripts);
        let difference = before.lines().zip(after.lines()).find(|(before, after)| before != after);
        assert!(before == after, "{text}: {difference:?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn whatever_a_function_did_the_next_finds_everything_as_it_was() {
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

/// Orders of all roles follow one another in one worker.
#[test]
fn roles_share_a_worker_without_a_trace() {
    let scripts = processes(1);
    for _ in 0..4 {
        let tamper = "Object.prototype.evil = 1; globalThis.evil = changes; Array.prototype.map = null;";
        run(&scripts, &mut Items::default(), &body(tamper)).expect("runs");
        let look = "function () { __.response.setBody([typeof evil, typeof ({}).evil, [1].map(x => x)]); Object.prototype.mine = 1; }";
        let seen = crate::support::run(&scripts, &mut Documents::default(), look, "[]").expect("runs");
        assert_eq!(response(&seen), json!(["undefined", "undefined", [1]]));
        let look = "console.log(typeof evil, typeof ({}).mine, [1].map(x => x));";
        let seen = run(&scripts, &mut Items::default(), &body(look)).expect("runs");
        assert_eq!(seen.log, ["undefined undefined [1]"]);
    }
}
