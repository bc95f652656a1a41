//! Foreseen answers: the script and its caller see the same as without foresight, or the run is abandoned.

use serde_json::{Value, json};
use shardlake_model::{ErrorKind, Result};
use shardlake_script::{Completion, Invocation, ScriptLimits, Scripts, is_misjudged};

use crate::support::{Documents, HERE, block_on, body, procedure, processes};

/// Creates documents one after the other, each when the one before is there, as the bulk import of the samples does.
const IMPORT: &str = "function (items) {
    const collection = getContext().getCollection();
    let count = 0;
    next();
    function next() {
        if (count === items.length || !collection.createDocument(collection.getSelfLink(), items[count], callback))
            getContext().getResponse().setBody(count);
    }
    function callback(err, doc, options) {
        if (err) throw err;
        count++;
        next();
    }
}";

fn run(scripts: &Scripts, documents: &mut Documents, source: &str, arguments: &str) -> Result<Completion> {
    let invocation = Invocation { foresees: true, ..procedure(source, arguments) };
    block_on(scripts.run(HERE, invocation, documents))
}

fn items(count: usize) -> String {
    json!([(0..count).map(|number| json!({"id": format!("{number:04}")})).collect::<Vec<_>>()]).to_string()
}

/// The outcome of a script and its calls: with foresight, and without.
fn both_ways(documents: &Documents, source: &str, arguments: &str) -> [(Result<Completion>, Documents); 2] {
    let scripts = processes(1);
    [true, false].map(|foresees| {
        let mut documents = documents.clone();
        let invocation = Invocation { foresees, ..procedure(source, arguments) };
        let outcome = block_on(scripts.run(HERE, invocation, &mut documents));
        (outcome, documents)
    })
}

#[track_caller]
fn assert_same(documents: &Documents, source: &str, arguments: &str) -> Result<Completion> {
    let [(foreseen, with), (plain, without)] = both_ways(documents, source, arguments);
    let shown = |outcome: &Result<Completion>| match outcome {
        Ok(completion) => Ok(completion.clone()),
        Err(error) => Err((error.kind(), error.substatus(), error.message().to_owned())),
    };
    assert_eq!(shown(&foreseen), shown(&plain), "{source}");
    assert_eq!(with.requests, without.requests, "{source}");
    assert_eq!(with.items, without.items, "{source}");
    foreseen
}

#[test]
fn imports_of_any_length_come_to_the_same() {
    for count in [0, 1, 2, 63, 64, 65, 255, 256, 257, 600] {
        let done = assert_same(&Documents::default(), IMPORT, &items(count)).expect("runs");
        assert_eq!(body(&done), json!(count));
    }
}

#[test]
fn scripts_of_every_kind_of_call_come_to_the_same() {
    let documents = Documents::with(&[json!({"id": "a", "n": 1}), json!({"id": "b", "n": 2})]);
    let link = "const c = __, link = c.getSelfLink(), doc = (id) => link + 'docs/' + id;";
    for script in [
        // All at once, with callbacks that look at nothing, and with none.
        "c.createDocument(link, {id: 'x'}); c.upsertDocument(link, {id: 'a', n: 3}, () => {}); c.deleteDocument(doc('b'), (e) => { c.response.setBody([1]); });",
        // A callback that looks at its document, between callbacks that do not.
        "c.createDocument(link, {id: 'x'}, (e) => { log('x'); }); c.createDocument(link, {id: 'y'}, (e, d) => { log(d.id); }); c.createDocument(link, {id: 'z'}, () => { log('z'); });",
        // A read of foreseen writes.
        "c.replaceDocument(doc('a'), {id: 'a', n: 5}, (e) => { c.readDocument(doc('a'), (e, d) => log(d.n)); });",
        "c.createDocument(link, {id: 'x'}, () => { c.queryDocuments(link, 'SELECT * FROM c', (e, rows) => log(rows.length)); });",
        // Errors thrown after a foreseen call, and the calls of the same batch.
        "c.createDocument(link, {id: 'x'}, () => { throw new Error(404, 'gone'); }); c.createDocument(link, {id: 'y'});",
        "c.createDocument(link, {id: 'x'}, () => { getContext().abort('enough'); });",
        "c.createDocument(link, {id: 'x'}, () => { let big = []; for (;;) big.push('x'.repeat(1e6) + big.length); });",
        // More calls from callbacks, more than a batch has, and promises.
        "for (let i = 0; i < 200; i++) c.createDocument(link, {id: 'n' + i}, (e) => { if (i % 50 == 0) c.upsertDocument(link, {id: 'm' + i}, () => log(i)); });",
        "return (async () => { await new Promise(done => c.createDocument(link, {id: 'x'}, done)); log('after'); })();",
        "function seen() { log(arguments.length + ' ' + JSON.stringify(arguments[1])); } c.createDocument(link, {id: 'x'}, seen);",
        "c.createDocument(link, {id: 'x'}, ((e, d) => log(d.id)).bind(null));",
    ] {
        let source = format!("function () {{ const log = (text) => console.log(text); {link} {script} }}");
        let _ = assert_same(&documents, &source, "[]");
    }
}

#[test]
fn a_script_cannot_make_its_callbacks_look_blind() {
    let source = "function () {
        Function.prototype.toString = () => 'function () { }';
        Object.prototype.toString = Function.prototype.toString;
        const seeing = (error, doc) => __.response.setBody(doc);
        seeing.toString = () => 'function () { }';
        __.createDocument(__.getSelfLink(), {id: 'x'}, seeing);
    }";
    let done = assert_same(&Documents::default(), source, "[]").expect("runs");
    assert_eq!(body(&done), json!({"id": "x"}));
}

#[test]
fn a_call_that_fails_after_all_gives_the_run_up() {
    let scripts = processes(1);
    let there = Documents::with(&[json!({"id": "0001"})]);
    let catches = "function () {
        const done = (error) => { __.response.setBody(error ? error.number : 'created'); };
        __.createDocument(__.getSelfLink(), {id: '0001'}, done);
    }";
    for (source, arguments) in [(IMPORT, items(3)), (catches, "[]".to_owned()), (IMPORT, items(1000))] {
        let mut documents = there.clone();
        let error = run(&scripts, &mut documents, source, &arguments).expect_err("it is misjudged");
        assert!(is_misjudged(&error), "{error}");
    }
    // A worker is there for the next one.
    let done = run(&scripts, &mut Documents::default(), IMPORT, &items(2)).expect("runs");
    assert_eq!(body(&done), json!(2));
    let caught = block_on(scripts.run(HERE, procedure(catches, "[]"), &mut there.clone())).expect("runs");
    assert_eq!(body(&caught), json!(409));
}

#[test]
fn a_store_that_accepts_no_more_is_not_foreseen() {
    let mut documents = Documents { calls_max: Some(2), ..Documents::default() };
    let error = run(&processes(1), &mut documents, IMPORT, &items(5)).expect_err("it is misjudged");
    assert!(is_misjudged(&error), "{error}");
    let mut documents = Documents { calls_max: Some(2), ..Documents::default() };
    let done = block_on(processes(1).run(HERE, procedure(IMPORT, &items(5)), &mut documents)).expect("runs");
    assert_eq!(body(&done), json!(2));
}

#[test]
fn documents_that_nobody_looks_at_are_not_asked_for() {
    let mut documents = Documents::default();
    let source = "function () {
        const c = __, link = c.getSelfLink();
        c.createDocument(link, {id: '1'}, (e) => { });
        c.createDocument(link, {id: '2'}, (e, doc) => { c.response.setBody(doc.id); });
        c.deleteDocument(link + 'docs/1', (e, options) => { });
        c.readDocument(link + 'docs/2');
    }";
    let _ = run(&processes(1), &mut documents, source, "[]").expect("runs");
    let wants: Vec<Value> = documents.requests.iter().map(|request| json!(request.wants_body)).collect();
    assert_eq!(wants, [false, true, false, false]);
}

#[test]
fn a_worker_tells_of_its_calls_before_it_tells_how_it_ended() {
    let source = "function () { __.createDocument(__.getSelfLink(), {id: 'x'}, () => { for (;;); }); }";
    let limits = ScriptLimits { steps_max: 20_000, ..ScriptLimits::default() };
    let invocation = Invocation { foresees: true, limits, ..procedure(source, "[]") };
    let mut documents = Documents::default();
    let error = block_on(processes(1).run(HERE, invocation, &mut documents)).expect_err("it does not end");
    assert_eq!((error.kind(), documents.requests.len()), (ErrorKind::Forbidden, 1), "{error}");
}
