//! The members of `changes` and `context`.

use serde_json::{Value, json};
use shardlake_model::ErrorKind;
use shardlake_script::StoreFailure;

use super::support::{Items, body, run, shown};
use crate::support::{processes, refusal};

fn log(items: &mut Items, text: &str) -> Vec<String> {
    run(&processes(1), items, &body(text)).expect(text).log
}

/// The message of the exception.
fn thrown(text: &str) -> String {
    let (kind, message) = refusal(run(&processes(1), &mut Items::default(), &body(text)));
    assert!(matches!(kind, ErrorKind::BadRequest | ErrorKind::TooLarge), "{text}: {kind:?} {message}");
    message
}

#[test]
fn a_function_sees_its_changes_and_its_context() {
    let text = "for (const { id, partitionKey, operation, current, lsn, time } of changes)
            console.log(id, partitionKey[0], operation, current.number, lsn, time);
        console.log(context.function, context.version, context.attempt, Object.keys(context).join());";
    let seen = log(&mut Items::default(), text);
    assert_eq!(
        seen,
        [
            "c0 k create 0 10 2026-11-30T20:00:00Z",
            "c1 k create 1 11 2026-11-30T20:00:00Z",
            "c2 k create 2 12 2026-11-30T20:00:00Z",
            "f 3 2 container,deadLetter,function,version,attempt"
        ]
    );
}

#[test]
fn reads_one_after_the_other_and_together() {
    let mut items =
        Items::with(&[json!({"id": "a", "category": "x", "_etag": "1"}), json!({"id": "b", "category": 2})]);
    let text = "const a = await c.read('a', 'x'), none = await c.read('a', 'y');
        const [b, again] = await Promise.all([c.read('b', [2]), c.read('a', ['x'])]);
        console.log(a, none, b, again, again !== a);
        const rows = await c.query('SELECT * FROM c WHERE c.n > @n', {'@n': 1}, {partitionKey: 'x', max: 1});
        const all = await context.container('events').query('SELECT 1', undefined, {partitionKey: ['t']});
        await c.query('SELECT 2', {}, {partitionKey: null}); await c.query('SELECT 3', {}, {partitionKey: [undefined]});
        await context.container('events').read('e', ['t', undefined]);
        await context.container('events').read('e', ['t', {}]);
        console.log(rows.length, all.length);";
    let seen = log(&mut items, text);
    let a = json!({"id": "a", "category": "x", "_etag": "1"});
    assert_eq!(seen, [format!("{a} undefined {} {a} true", json!({"id": "b", "category": 2})), "1 2".into()]);
    assert_eq!(
        items.asked,
        [
            r#"read product ["x"] a"#,
            r#"read product ["y"] a"#,
            "read product [2] b",
            r#"read product ["x"] a"#,
            r#"query product SELECT * FROM c WHERE c.n > @n {"@n":1} ["x"] 1"#,
            r#"query events SELECT 1 {} ["t"] 1001"#,
            "query product SELECT 2 {} [null] 1001",
            "query product SELECT 3 {} [{}] 1001",
            r#"read events ["t",{}] e"#,
            r#"read events ["t",{}] e"#,
        ]
    );
}

#[test]
fn many_reads_at_once_are_answered_in_order() {
    let items: Vec<Value> =
        (0..300).map(|number| json!({"id": format!("i{number}"), "category": "x"})).collect();
    let text = "const names = [...Array(300).keys()].map((n) => 'i' + n);
        const read = await Promise.all(names.map(async (id) => (await c.read(id, 'x')).id));
        const rows = await Promise.all(names.slice(0, 20).map((id) => c.query('SELECT ' + id)));
        console.log(read.join() === names.join(), rows.length);";
    let mut items = Items::with(&items);
    assert_eq!(log(&mut items, text), ["true 20"]);
    assert_eq!(items.asked.len(), 320);
}

#[test]
fn writes_are_kept_in_order_and_returned() {
    let text =
        "c.create({id: 'a', category: 'x', n: 1}); c.upsert({id: 'b', category: 'x'}, {ifMatch: 'e1'});
        c.replace({id: 'c', category: 'x'}, {ifMatch: 'e2'});
        c.patch('d', 'x', [{op: 'incr', path: '/n', value: 1}], {ifMatch: 'e3'});
        c.delete('e', ['x']); context.container('events').delete('f', ['t', 7], {ifMatch: undefined});";
    let outcome = run(&processes(1), &mut Items::default(), &body(text)).expect("runs");
    assert_eq!(
        shown(&outcome),
        [
            r#"product: create {"id":"a","category":"x","n":1}"#,
            r#"product: upsert {"id":"b","category":"x"} if e1"#,
            r#"product: replace {"id":"c","category":"x"} if e2"#,
            r#"product: patch ["x"] d [{"op":"incr","path":"/n","value":1}] if e3"#,
            r#"product: delete ["x"] e"#,
            r#"events: delete ["t",7] f"#,
        ]
    );
}

#[test]
fn reads_see_the_writes_of_the_run() {
    let mut items = Items::with(&[
        json!({"id": "s", "category": "x", "n": 1, "list": [1, 2], "_etag": "s1", "_ts": 5}),
        json!({"id": "r", "category": "x", "n": 1, "_etag": "r1"}),
    ]);
    let text = "const show = async (id) => console.log(await c.read(id, 'x'));
        c.create({id: 'a', category: 'x', n: 1, _etag: 'old'}); await show('a');
        c.patch('a', 'x', [{op: 'add', path: '/m', value: {k: [1]}}, {op: 'move', from: '/n', path: '/m/n'}]); await show('a');
        c.delete('a', 'x'); await show('a');
        c.upsert({id: 'a', category: 'x', n: 2}); await show('a');
        const before = c.read('s', 'x');
        c.patch('s', 'x', [{op: 'incr', path: '/n', value: 2}, {op: 'remove', path: '/list/0'}]);
        const between = c.read('s', 'x');
        c.patch('s', 'x', [{op: 'set', path: '/n', value: 'x'}, {op: 'replace', path: '/list', value: null}]);
        console.log(await before, await between); await show('s');
        c.replace({id: 'r', category: 'x', n: 2}); await show('r');
        c.delete('none', 'x'); await show('none'); await show('never');";
    let seen = log(&mut items, text);
    assert_eq!(
        seen,
        [
            r#"{"id":"a","category":"x","n":1}"#,
            r#"{"id":"a","category":"x","m":{"k":[1],"n":1}}"#,
            "undefined",
            r#"{"id":"a","category":"x","n":2}"#,
            concat!(
                r#"{"id":"s","category":"x","n":1,"list":[1,2],"_etag":"s1","_ts":5} "#,
                r#"{"id":"s","category":"x","n":3,"list":[2]}"#
            ),
            r#"{"id":"s","category":"x","n":"x","list":null}"#,
            r#"{"id":"r","category":"x","n":2}"#,
            "undefined",
            "undefined",
        ]
    );
    let item = r#"read product ["x"] s"#;
    assert_eq!(items.asked, [item, item, item, r#"read product ["x"] never"#], "own items are not asked for");
}

#[test]
fn a_replace_of_an_item_that_was_read_has_its_etag() {
    let items = || {
        let item = |id: &str| json!({"id": id, "category": "x", "n": 1, "_etag": format!("{id}1")});
        Items::with(&[item("a"), item("b"), item("c"), item("d")])
    };
    let text = "for (const id of ['a', 'b', 'c', 'd']) await c.read(id, 'x');
        c.replace({id: 'a', category: 'x'}); c.replace({id: 'a', category: 'x', again: 1});
        c.patch('b', 'x', [{op: 'incr', path: '/n', value: 1}]); c.patch('b', 'x', [{op: 'incr', path: '/n', value: 1}]);
        c.replace({id: 'b', category: 'x'});
        c.replace({id: 'c', category: 'x'}, {ifMatch: 'mine'});
        c.upsert({id: 'd', category: 'x'}); c.replace({id: 'd', category: 'x'});
        c.replace({id: 'e', category: 'x'});";
    let outcome = run(&processes(1), &mut items(), &body(text)).expect("runs");
    let conditions: Vec<_> = outcome.writes.iter().map(|write| write.if_match.as_deref()).collect();
    let none = None;
    assert_eq!(
        conditions,
        [Some("a1"), none, Some("b1"), none, none, Some("mine"), none, none, none],
        "{:#?}",
        shown(&outcome)
    );
}

#[test]
fn of_two_versions_that_a_run_reads_the_first_is_the_condition() {
    struct Moving(u32);
    impl shardlake_script::changes::ChangesStore for Moving {
        fn read<'a>(
            &'a mut self,
            _: shardlake_script::changes::FunctionRead,
        ) -> futures::future::BoxFuture<'a, Result<Option<String>, StoreFailure>> {
            self.0 += 1;
            let item = json!({"id": "a", "category": "x", "_etag": self.0.to_string()}).to_string();
            Box::pin(async { Ok(Some(item)) })
        }

        fn query<'a>(
            &'a mut self,
            _: shardlake_script::changes::FunctionQuery,
        ) -> futures::future::BoxFuture<'a, Result<String, StoreFailure>> {
            Box::pin(async { Ok("[]".to_owned()) })
        }
    }
    let text = body("const a = await c.read('a', 'x'); await c.read('a', 'x'); c.replace(a);");
    let paths = super::support::key_paths(&["/category"]);
    let containers = [shardlake_script::changes::FunctionContainer {
        name: "product",
        key_paths: &paths,
        may_write: true,
    }];
    let invocation = shardlake_script::changes::ChangesInvocation {
        name: "f",
        version: 1,
        attempt: 1,
        source: &text,
        changes: "[]",
        containers: &containers,
        limits: shardlake_script::ScriptLimits::default(),
    };
    let scripts = processes(1);
    let mut moving = Moving(0);
    let run = scripts.run_changes(super::support::KEY, &invocation, &mut moving);
    let outcome = crate::support::block_on(run).expect("runs");
    assert_eq!(outcome.writes[0].if_match.as_deref(), Some("1"));
}

#[test]
fn writes_that_cannot_succeed_are_refused_at_once() {
    for (text, words) in [
        (
            "c.create({id: 'a', category: 1}); c.create({id: 'a', category: 1})",
            "this run has written it already",
        ),
        ("c.delete('a', 1); c.replace({id: 'a', category: 1})", "this run has deleted it"),
        ("c.delete('a', 1); c.delete('a', 1)", "delete of an item of 'product' is refused"),
        (
            "c.create({id: 'a', category: 1}); c.patch('a', 1, [{op: 'remove', path: '/n'}])",
            "'/n' does not exist",
        ),
        ("c.patch('a', 1, [{op: 'remove', path: '/n'}]); await c.read('a', 1)", "'a', which does not exist"),
        ("c.patch('a', 1, [])", "a patch has 1 to 10 operations"),
        ("c.patch('a', 1, {op: 'remove'})", "patch takes an array of operations, and not an object"),
        ("c.patch('a', 1, [{op: 'set', path: '/category', value: 1}])", "part of the partition key"),
        ("c.create({category: 1})", "an item needs an 'id'"),
        ("c.create({id: 7, category: 1})", "an item needs an 'id'"),
        ("c.create([1])", "an object, and not an array"),
        ("c.create()", "an object, and not undefined"),
        ("c.create({id: 'a', toJSON() {}})", "has no JSON form"),
        ("c.create({id: '\\ud800'})", "half of a surrogate pair"),
        ("c.create({id: 'a', b: 'x'.repeat(3 << 20)})", "more than the limit"),
        ("c.create({id: 'a'}, {ifMatch: 'e'})", "create takes no 'ifMatch'"),
        ("c.replace({id: 'a'}, {ifmatch: 'e'})", "there is no option 'ifmatch'"),
        ("c.replace({id: 'a'}, {ifMatch: 7})", "which is a text, and not a number"),
        ("c.replace({id: 'a'}, 'e')", "options are an object, and not a string"),
        ("c.delete('a')", "the partition key is missing"),
        ("c.delete('', 1)", "must not be empty"),
        ("c.delete('a', [1, 2])", "the partition key of 'product' has 1 values, and 2 are given"),
        ("context.container('events').delete('a', ['t'])", "the partition key of 'events' has 2 values"),
        ("c.delete('a', {b: 1})", "and not an object"),
        ("c.delete('a', NaN)", "no JSON number"),
        ("c.delete('a', -0)", "-0"),
        ("c.delete('a', 1n)", "and not a number"),
        ("await c.query('')", "a query must not be empty"),
        ("await c.query('SELECT 1', {n: 1})", "begins with '@', unlike 'n'"),
        ("await c.query('SELECT 1', [1])", "and not an array"),
        ("await c.query('SELECT 1', {}, {max: 1001})", "'max' is a whole number from 1 to 1000"),
        ("await c.query('SELECT 1', {}, {max: 0})", "'max' is a whole number from 1 to 1000"),
        (
            "await c.query('SELECT 1', {}, {partitionKey: changes.key})",
            "leave it out to query the whole container",
        ),
        ("await c.query('SELECT 1', {}, {key: 1})", "there is no option 'key'"),
        ("await c.query('x'.repeat(600000))", "at most 524288 bytes"),
        ("const {read} = c; await read('a', 1)", "TypeError"),
        ("context.deadLetter({...changes[0]}, 'x')", "not a copy"),
        ("context.deadLetter()", "not a copy"),
    ] {
        let message = thrown(text);
        assert!(message.contains(words), "{text}: {message}");
    }
}

#[test]
fn only_containers_of_the_access_are_there() {
    let message = thrown("context.container('orders')");
    assert!(message.contains("may not use the container 'orders'"), "{message}");
    assert!(message.contains("names 'product', 'meta', 'events'"), "{message}");
    for write in [
        "create({id: 'a'})",
        "upsert({id: 'a'})",
        "replace({id: 'a'})",
        "patch('a', 1, [])",
        "delete('a', 1)",
    ] {
        let message = thrown(&format!("context.container('meta').{write}"));
        assert!(message.contains("may read the container 'meta' and not write to it"), "{message}");
    }
    assert!(thrown("context.container(7)").contains("is a text, and not a number"));
    let read = log(&mut Items::default(), "console.log(await context.container('meta').read('a', 1))");
    assert_eq!(read, ["undefined"]);
}

#[test]
fn changes_are_given_up_with_a_reason() {
    let text = "const [first, second, third] = changes; changes.reverse(); changes.length = 0;
        context.deadLetter(third, 'first'); context.deadLetter(first, new Error('no')); context.deadLetter(second);
        context.deadLetter(third, 'x'.repeat(2000));";
    let outcome = run(&processes(1), &mut Items::default(), &body(text)).expect("runs");
    let expected =
        [(0, "Error: no".into()), (1, "the function gave no reason".into()), (2, "x".repeat(1_000))];
    assert_eq!(outcome.letters, expected);
}

#[test]
fn a_failed_read_is_an_error_that_can_be_caught() {
    let failing = || Items {
        failure: Some(StoreFailure { number: 404, message: "the container was deleted".into() }),
        ..Items::default()
    };
    let text = "try { await c.read('a', 1) } catch (e) { console.log(e.number, e.body, e instanceof Error) }";
    assert_eq!(log(&mut failing(), text), ["404 the container was deleted true"]);
    for text in ["await c.read('a', 1)", "c.read('a', 1)", "c.query('SELECT 1'); await null"] {
        let (kind, message) = refusal(run(&processes(1), &mut failing(), &body(text)));
        assert_eq!(kind, ErrorKind::BadRequest, "{text}");
        assert!(message.contains("the container was deleted"), "{text}: {message}");
    }
}

#[test]
fn the_run_ends_when_all_its_promises_are_settled() {
    let mut items = Items::with(&[json!({"id": "a", "category": "x"})]);
    // Reads that nothing awaits belong to the run, too.
    let text =
        "c.read('a', 'x').then(() => c.read('b', 'x')).then(() => c.upsert({id: 'late', category: 'x'}));";
    let outcome = run(&processes(1), &mut items, &body(text)).expect("runs");
    assert_eq!(shown(&outcome), [r#"product: upsert {"id":"late","category":"x"}"#]);
    for text in
        ["await new Promise(() => {})", "await Promise.all([c.read('a', 'x'), new Promise(() => {})])"]
    {
        assert!(thrown(text).contains("waits for a promise that never settles"), "{text}");
    }
    assert!(thrown("throw new Error('mine')").contains("Error: mine"));
    assert!(thrown("await null; throw {code: 7}").contains("{\"code\":7}"));
    assert!(thrown("(async () => { throw new Error('lost') })(); await null").contains("Error: lost"));
    let many = "const all = []; for (let i = 0; i < 10001; i++) all.push(Promise.reject(i));
        await null; for (const p of all) try { await p } catch {}";
    assert!(thrown(many).contains("more than 10000 promises were rejected"));
    let handled = "const p = Promise.reject(new Error('x')); await null; try { await p } catch { console.log('caught') }";
    assert_eq!(log(&mut Items::default(), handled), ["caught"]);
}

#[test]
fn functions_have_every_form_of_a_script() {
    for source in [
        "(changes, context) => { console.log('ran'); }",
        "function main(changes, context) { help(); } function help() { console.log('ran'); }",
        "async function (changes, context) { await null; console.log('ran'); }",
        "async (changes) => console.log('ran')",
    ] {
        let outcome = run(&processes(1), &mut Items::default(), source).expect(source);
        assert_eq!(outcome.log, ["ran"], "{source}");
    }
    let (kind, message) = refusal(run(&processes(1), &mut Items::default(), "function ( {"));
    assert_eq!(kind, ErrorKind::BadRequest, "{message}");
}

#[test]
fn a_query_with_more_rows_than_fit_is_refused_and_not_cut() {
    let rows = |count: usize| Items { rows: Some(json!(vec![1; count]).to_string()), ..Items::default() };
    let query = body("console.log((await c.query('SELECT 1')).length)");
    assert_eq!(run(&processes(1), &mut rows(1_000), &query).expect("fits").log, ["1000"]);
    let (kind, message) = refusal(run(&processes(1), &mut rows(1_001), &query));
    assert_eq!(kind, ErrorKind::TooLarge, "{message}");
    assert!(message.contains("more than 1000 rows: give it a condition, or a 'max'"), "{message}");
    let mut large = Items { rows: Some(json!(["x".repeat(5 << 20)]).to_string()), ..Items::default() };
    let (kind, message) = refusal(run(&processes(1), &mut large, &query));
    assert_eq!(kind, ErrorKind::TooLarge, "{message}");
    assert!(message.contains("more than the limit of 4194304"), "{message}");
}
