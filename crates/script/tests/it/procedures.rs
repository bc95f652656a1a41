//! Capabilities and failures of stored procedures.

use std::sync::Arc;

use crate::support::{Documents, HERE, Shared, block_on, body, procedure, processes, refusal, run};
use futures::future::BoxFuture;
use serde_json::json;
use shardlake_model::ErrorKind;
use shardlake_script::{Scripts, Store, StoreAnswer, StoreReply, StoreRequest};

#[test]
fn a_procedure_answers_with_its_body_and_nothing_else() {
    let scripts = processes(2);
    let mut documents = Documents::default();
    let mut answer = |source: &str, arguments: &str| {
        run(&scripts, &mut documents, source, arguments).expect("runs").response_body
    };
    assert_eq!(
        answer("function (a, b) { getContext().getResponse().setBody(a + b); }", "[1, 2]").as_deref(),
        Some("3")
    );
    assert_eq!(answer("function f() { return 5; }", "[]"), None);
    assert_eq!(answer("() => __.response.setBody('done')", "[]").as_deref(), Some("\"done\""));
    assert_eq!(
        answer("async function f(x) { await null; __.response.setBody({x}); }", "[7]").as_deref(),
        Some("{\"x\":7}")
    );
}

#[test]
fn callbacks_run_in_order_after_the_function_that_called() {
    let scripts = processes(2);
    let mut documents = Documents::default();
    let source = r#"function () {
        const order = [], c = getContext().getCollection();
        const accepted = c.createDocument(c.getSelfLink(), {id: 'a', n: 1}, (error, created) => {
            order.push(created.n);
            c.readDocument(c.getSelfLink() + 'docs/a', {}, (error, read) => {
                order.push(read.id);
                c.deleteDocument(c.getSelfLink() + 'docs/a', (error, options) => {
                    order.push(typeof options);
                    getContext().getResponse().setBody(order);
                });
            });
        });
        c.readDocument(c.getSelfLink() + 'docs/none', (error) => order.push(error.number));
        order.push(accepted);
    }"#;
    let done = run(&scripts, &mut documents, source, "[]").expect("runs");
    assert_eq!(body(&done), json!([true, 1, 404, "a", "object"]));
}

#[test]
fn an_error_may_begin_with_its_number_and_is_an_error_like_others() {
    let scripts = processes(2);
    let mut documents = Documents::default();
    let source = r#"function () {
        class Mine extends Error { constructor(text) { super(418, text); } }
        const made = [new Error(404, 'a'), Error(404, 'b'), new Mine('c'), new Error('d'), new Error('e', {cause: 1}), Error(5), new TypeError('f')];
        made.push(made[0].constructor('g'));
        const told = made.map((error) => [error.number, error.message, error instanceof Error]);
        told.push(made[2] instanceof Mine, made[4].cause, String(made[0]), Error.name, made[0].constructor === Error);
        __.response.setBody(told);
    }"#;
    let done = run(&scripts, &mut documents, source, "[]").expect("runs");
    let made = json!([
        [404, "a", true],
        [404, "b", true],
        [418, "c", true],
        [null, "d", true],
        [null, "e", true],
        [null, "5", true],
        [null, "f", true],
        [null, "g", true],
        true,
        1,
        "Error: a",
        "Error",
        true
    ]);
    assert_eq!(body(&done), made);
    let mut thrown = |source: &str| run(&scripts, &mut documents, source, "[]").expect_err("throws");
    assert_eq!(thrown("function () { throw new Error(404, 'no order'); }").substatus(), Some(404));
    assert_eq!(thrown("async () => { throw new Error(404, 'no order'); }").substatus(), Some(404));
    assert_eq!(thrown("() => getContext().abort(new Error(404, 'no order'))").substatus(), Some(404));
    assert_eq!(thrown("function () { throw new Error(-1, 'no order'); }").substatus(), None);
    assert_eq!(thrown("function () { throw new Error('no order'); }").substatus(), None);
}

#[test]
fn what_is_thrown_is_told_with_its_place() {
    let scripts = processes(2);
    let mut documents = Documents::default();
    let mut refused = |source: &str| refusal(run(&scripts, &mut documents, source, "[]"));
    let (kind, message) = refused("function () {\n  throw new Error('no way');\n}");
    assert_eq!(kind, ErrorKind::BadRequest);
    assert!(
        message.starts_with("Encountered exception while executing Javascript. Exception = Error: no way"),
        "{message}"
    );
    assert!(message.contains("p.js:2:"), "{message}");
    let (_, message) = refused("function () { __.readDocument('x/docs/y'); }");
    assert!(message.contains("there is no such document"), "{message}");
    let (_, message) = refused("async function () { await null; throw {a: 1}; }");
    assert!(message.contains(r#"{"a":1}"#), "{message}");
    let (_, message) = refused("function () { undefined.x; }");
    assert!(
        message.ends_with("TypeError: cannot read property 'x' of undefined\n   at <anonymous> (p.js:1:15)"),
        "{message}"
    );
}

#[test]
fn a_text_is_checked_with_line_and_column() {
    let scripts = processes(1);
    let check = |source: &str| block_on(scripts.check(HERE, source));
    for fine in [
        "function f() {}",
        "// why\nfunction (a) { return a; };",
        "(a) => { let b = a; }",
        "async function f() {}",
    ] {
        check(fine).expect(fine);
    }
    for (source, expected) in [
        (
            "function () {\n  let a = ;\n}",
            "SyntaxError: unexpected token in expression: ';' at line 2, column 11",
        ),
        ("function ( {}", "at line 1, column"),
        ("function () {}, 3", "SyntaxError"),
        ("(function () {}, 3)", "a script is the text of a function"),
        ("function a() {}\nfunction b( {}", "at line 2, column"),
        ("const a = 1;", "SyntaxError"),
        ("", "SyntaxError"),
    ] {
        let error = check(source).expect_err(source);
        assert_eq!(error.kind(), ErrorKind::BadRequest);
        assert!(error.message().contains(expected), "{source}: {error}");
        assert!(error.message().starts_with("Encountered exception while compiling Javascript."), "{error}");
    }
}

#[test]
fn the_first_function_is_the_entry_and_the_rest_is_in_its_scope() {
    let scripts = processes(1);
    let mut documents = Documents::default();
    let mut answer = |source: &str| {
        // The third run is of an image that was made with the text compiled.
        let bodies: Vec<_> = (0..3)
            .map(|_| run(&scripts, &mut documents, source, "[2]").map(|done| done.response_body))
            .collect();
        bodies.into_iter().collect::<Result<Vec<_>, _>>()
    };
    for source in [
        "function main(a) { __.response.setBody(help(a)); } function help(a) { return a + 1; }",
        "\"use strict\";\nvar __n = (this && this.__n) || function (a) { return a + 1; };\nfunction main(a) { __.response.setBody(__n(a)); }",
        "// why\nfunction (a) { __.response.setBody(new Help(a).value); } class Help { constructor(a) { this.value = a + ONE; } }\nconst ONE = 1;",
        "const main = (a) => { help(a); }; function help(a) { __.response.setBody(a + 1); }",
        "let runs = 1; async function main(a) { await null; runs++; __.response.setBody(a + runs - 1); };",
    ] {
        check_all(&scripts, source);
        assert_eq!(answer(source).expect(source), vec![Some("3".to_owned()); 3], "{source}");
    }
    let thrown = "function main() { help(); }\n  function help() { throw new Error('no'); }";
    let (kind, message) = refusal(answer(thrown));
    assert_eq!(kind, ErrorKind::BadRequest, "{message}");
    assert!(message.contains("help (p.js:2:27)") || message.contains(".js:2:"), "{message}");
    assert!(!message.contains("shardlakeEntry"), "{message}");
}

/// A check runs no statement of a text, not even after a bracket that closes the function around the text.
#[test]
fn nothing_runs_when_a_text_with_helpers_is_checked() {
    let scripts = processes(1);
    check_all(&scripts, "while (true) { } function main() { }");
    for source in
        ["function main() { } } function () { while (false) { }", "function main() { } }, function () {"]
    {
        block_on(scripts.check(HERE, source)).expect_err(source);
    }
}

fn check_all(scripts: &Scripts, source: &str) {
    block_on(scripts.check(HERE, source)).expect(source);
}

#[test]
fn bodies_grow_by_appending() {
    let scripts = processes(1);
    let mut documents = Documents::default();
    let mut answer =
        |source: &str| run(&scripts, &mut documents, source, "[]").map(|done| done.response_body);
    let body = |json: &str| Some(json.to_owned());
    let text = "function () { const r = __.response; r.appendBody('a'); r.appendValue('Body', 'b\"'); r.appendBody({c: 1}); }";
    assert_eq!(answer(text).expect("runs"), body(r#""ab\"{\"c\":1}""#));
    let list = "function () { const r = __.response; r.setBody([]); r.appendBody([1]); r.appendBody([]); r.appendBody([2, 3]); }";
    assert_eq!(answer(list).expect("runs"), body("[1,2,3]"));
    assert_eq!(answer("function () { __.response.setBody(1); __.response.setBody(); }").expect("runs"), None);
    let numbers = "function () { const r = __.response; r.setBody(1); r.appendBody(2); }";
    assert_eq!(answer(numbers).expect("runs"), body("\"12\""));
    let mixed =
        "function () { const r = __.response; r.setBody([1]); r.appendBody('a'); r.appendBody({b: 2}); }";
    assert_eq!(answer(mixed).expect("runs"), body(r#""[1]a{\"b\":2}""#));
    let wrong = "function () { __.response.setValue('Head', 1); }";
    let (kind, message) = refusal(answer(wrong));
    assert_eq!(kind, ErrorKind::BadRequest, "{message}");
    let changing = "function () { const r = __.response, a = [1]; r.setBody(a); a.push(2); r.appendBody([3]); a.push(4); }";
    assert_eq!(answer(changing).expect("runs"), body("[1,2,3]"));
}

#[test]
fn a_body_is_the_object_as_it_is_at_the_end() {
    let scripts = processes(1);
    let mut documents = Documents::with(&[json!({"id": "a"})]);
    let mut answer = |statements: &str| {
        let source = format!("function () {{ const r = __.response; {statements} }}");
        run(&scripts, &mut documents, &source, "[]").map(|done| done.response_body)
    };
    for (statements, expected) in [
        ("const b = {n: 1}; r.setBody(b); b.n = 2;", Some(r#"{"n":2}"#)),
        ("const b = {n: 1}; r.setBody(b); r.getBody().n = 3;", Some(r#"{"n":3}"#)),
        ("const b = {n: 1}; r.setBody(b); r.setBody([r.getBody() === b]);", Some("[true]")),
        ("const b = {n: 1}; r.setBody(b); r.setBody('text'); b.n = 2;", Some("\"text\"")),
        (
            "const b = {n: 1}; r.setBody(b); __.readDocument(__.getSelfLink() + 'docs/a', (e, d) => { b.id = d.id; });",
            Some(r#"{"n":1,"id":"a"}"#),
        ),
        ("const b = {toJSON: () => b.text, text: 1}; r.setBody(b); b.text = undefined;", None),
        ("r.setBody({toJSON() { r.setBody({n: 2}); return {n: 1}; }});", Some(r#"{"n":1}"#)),
    ] {
        assert_eq!(answer(statements).expect(statements).as_deref(), expected, "{statements}");
    }
    // The last rendering runs code of the script, too.
    let late = "let ends = false; const b = {toJSON() { return ends ? __.readDocument(__.getSelfLink() + 'docs/a', () => {}) : 0; }};
        r.setBody(b); ends = true;";
    assert_eq!(answer(late).expect("runs").as_deref(), Some("false"), "no call is accepted that late");
    let (kind, message) = refusal(answer("const b = {}; r.setBody(b); b.self = b;"));
    assert_eq!(kind, ErrorKind::BadRequest);
    assert!(message.contains("TypeError"), "{message}");
    let grows = "const b = {}; r.setBody(b); b.text = 'x'.repeat(5 << 20);";
    assert_eq!(refusal(answer(grows)).0, ErrorKind::TooLarge);
}

#[test]
fn arguments_are_taken_as_apply_takes_them() {
    let scripts = processes(1);
    let mut documents = Documents::default();
    let source =
        "function () { __.response.setBody(Array.from(arguments, (a) => a === undefined ? 'none' : a)); }";
    let mut answer =
        |arguments: &str| run(&scripts, &mut documents, source, arguments).map(|done| body(&done));
    for (arguments, expected) in [
        (r#"["a", null]"#, json!(["a", null])),
        ("null", json!([])),
        ("{}", json!([])),
        (r#"{"0": 4}"#, json!([])),
        (r#"{"0": "a", "length": 1}"#, json!(["a"])),
        (r#"{"0": "a", "1": "b", "length": "1"}"#, json!(["a"])),
        (r#"{"0": "a", "1": "b", "length": 1.9}"#, json!(["a"])),
        (r#"{"1": "b", "length": 2}"#, json!(["none", "b"])),
        (r#"{"0": "a", "length": -1}"#, json!([])),
        (r#"{"0": "a", "length": {}}"#, json!([])),
    ] {
        assert_eq!(answer(arguments).expect(arguments), expected, "{arguments}");
    }
    for arguments in ["1", "true", "\"text\"", r#"{"length": 1e9}"#] {
        assert_eq!(refusal(answer(arguments)).0, ErrorKind::BadRequest, "{arguments}");
    }
}

#[test]
fn responses_show_the_use_and_the_limit_of_the_storage() {
    let scripts = processes(1);
    let source = "function () {
        const response = getContext().getResponse();
        response.setBody([response.getResourceQuotaCurrentUsage(), response.getMaxResourceQuota()]);
    }";
    let done = run(&scripts, &mut Documents::default(), source, "[]").expect("runs");
    assert_eq!(body(&done), json!(["collectionSize=1;", "collectionSize=2;"]));
}

#[test]
fn what_is_asked_of_the_data_is_checked_and_handed_on() {
    let scripts = processes(1);
    let mut documents = Documents::with(&[json!({"id": "a", "_etag": "\"1\""})]);
    let source = r#"function () {
        const c = getContext().getCollection(), link = c.getSelfLink(), given = {id: '', n: 1};
        c.createDocument(link, given);
        c.upsertDocument(link, '{"id":"b"}', {etag: null, indexAction: 'default', unknown: 1}, null);
        c.createDocument(link, {n: 2}, {disableAutomaticIdGeneration: false}, () => {});
        c.replaceDocument(link + 'docs/a', {id: 'a', n: 3}, {etag: '"1"'});
        c.readDocument(link + 'docs/a', {ifNoneMatch: 'x'}, () => {});
        c.queryDocuments(link, {query: 'SELECT @p', parameters: [{name: '@p', value: 1}], more: 1}, {pageSize: 7, enableScan: true});
        c.queryDocuments(link, 'SELECT "1"', {continuation: '1', pageSize: -1});
        c.deleteDocument(c.getAltLink() + '/docs/a', {etag: 'y'});
        __.response.setBody([given, c.getAltLink()]);
    }"#;
    let done = run(&scripts, &mut documents, source, "[]").expect("runs");
    assert_eq!(body(&done), json!([{"id": "", "n": 1}, "dbs/d/colls/c"]));
    let seen: Vec<_> = documents.requests.iter().map(|request| request.body.as_deref()).collect();
    let expected = [
        Some(r#"{"n":1}"#),
        Some(r#"{"id":"b"}"#),
        Some(r#"{"n":2}"#),
        Some(r#"{"id":"a","n":3}"#),
        None,
        Some(r#"{"query":"SELECT @p","parameters":[{"name":"@p","value":1}]}"#),
        Some(r#""SELECT \"1\"""#),
        None,
    ];
    assert_eq!(seen, expected);
    let requests = &documents.requests;
    assert_eq!(requests[3].if_match.as_deref(), Some("\"1\""));
    assert_eq!(requests[4].if_none_match.as_deref(), Some("x"));
    assert_eq!((requests[5].page_size, requests[6].page_size), (Some(7), Some(-1)));
    assert_eq!(requests[6].continuation.as_deref(), Some("1"));
    assert_eq!(
        (requests[7].link.as_str(), requests[7].if_match.as_deref()),
        ("dbs/d/colls/c/docs/a", Some("y"))
    );
}

#[test]
fn wrong_arguments_are_refused_by_name() {
    let scripts = processes(1);
    for (call, expected) in [
        ("readDocument()", "the link of the document must be a string, and is undefined"),
        ("readDocument('')", "must not be empty"),
        ("readDocument('x', 1)", "options must be an object, and are a number"),
        ("readDocument('x', {}, 1)", "the callback must be a function"),
        ("readDocument('x', {ifNoneMatch: 1})", "option 'ifNoneMatch' must be a string"),
        ("createDocument('x', 1)", "a document must be an object"),
        ("createDocument('x', [])", "and is an array"),
        ("createDocument('x', '[]')", "and is an array"),
        ("createDocument('x', 'nonsense')", "SyntaxError"),
        ("createDocument('x', {toJSON() {}})", "toJSON"),
        ("createDocument('x', {n: 1n})", "TypeError"),
        (
            "createDocument('x', {}, {indexAction: 'exclude'})",
            "'indexAction' with 'exclude' is not supported",
        ),
        ("createDocument('x', {}, {disableAutomaticIdGeneration: 'no'})", "must be true or false"),
        ("deleteDocument('x', {partitionKeyContent: 1})", "'partitionKeyContent' is not supported"),
        ("queryDocuments('x')", "a query must be a string or an object"),
        ("queryDocuments('x', {})", "must have its text in 'query'"),
        ("queryDocuments('x', {query: '', parameters: {}})", "must be an array"),
        ("queryDocuments('x', '', {pageSize: 0})", "'pageSize' must be -1 or a whole number above 0"),
        ("queryDocuments('x', '', {pageSize: 1.5})", "'pageSize' must be"),
        ("readDocuments('\\ud800')", "no well-formed text"),
        ("readAttachments('x')", "readAttachments is not supported"),
        ("spatial.within(1, 2)", "__.spatial.within is not supported"),
        ("filter(1)", "the predicate of filter must be a function"),
        ("filter(x => x, {pageSize: 0})", "'pageSize'"),
        ("filter(x => x, {continuation: 'mine'})", "none that this function returned"),
    ] {
        let source = format!("function () {{ __.{call}; }}");
        let (kind, message) = refusal(run(&scripts, &mut Documents::default(), &source, "[]"));
        assert_eq!(kind, ErrorKind::BadRequest, "{call}: {message}");
        assert!(message.contains(expected), "{call}: {message}");
        assert!(message.contains("p.js:1:"), "{call}: {message}");
    }
}

#[test]
fn a_script_learns_when_no_more_is_accepted() {
    let scripts = processes(1);
    let mut documents = Documents { calls_max: Some(3), ..Documents::with(&[json!({"id": "a"})]) };
    let source = "function () {
        let calls = 0;
        (function next(error) {
            if (error) throw error;
            if (__.readDocument('x/docs/a', next)) calls++; else __.response.setBody(calls);
        })();
    }";
    let done = run(&scripts, &mut documents, source, "[]").expect("runs");
    assert_eq!(body(&done), json!(3));
}

#[test]
fn a_script_can_abort_and_nobody_catches_it() {
    let scripts = processes(1);
    for (call, expected) in [
        ("getContext().abort()", "the script was aborted"),
        ("getContext().abort('enough')", "Exception = enough"),
        ("try { getContext().abort(new Error('enough')); } catch (e) {}", "Error: enough"),
    ] {
        let source = format!("function () {{ {call}; }}");
        let (kind, message) = refusal(run(&scripts, &mut Documents::default(), &source, "[]"));
        assert_eq!(kind, ErrorKind::BadRequest);
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn logs_are_formatted_and_kept_only_when_asked_for() {
    let scripts = processes(1);
    let source = r#"function () {
        console.log('The value of %s is %d%%.', 'x', 1, 'more', {a: [1]});
        console.log('%j %i %q', {b: null}, 2.7);
        console.log({c: 1}, undefined, null, new Error('e'));
        console.log();
    }"#;
    let mut invocation = crate::support::procedure(source, "[]");
    let log = |invocation: &shardlake_script::Invocation<'_>| {
        block_on(scripts.run(HERE, invocation.clone(), &mut Documents::default())).expect("runs").log
    };
    let expected =
        "The value of x is 1%. more {\"a\":[1]}\n{\"b\":null} 2 %q\n{\"c\":1} undefined null Error: e\n";
    assert_eq!(log(&invocation), expected);
    invocation.logs = false;
    assert_eq!(log(&invocation), "");
}

#[test]
fn triggers_see_the_request_and_the_response_that_are_theirs() {
    use shardlake_model::TriggerOperation;
    use shardlake_script::{Invocation, Role};
    let scripts = processes(1);
    let run = |source: &str, role: Role<'_>| {
        let invocation = Invocation { role, ..crate::support::procedure(source, "[]") };
        block_on(scripts.run(HERE, invocation, &mut Documents::default())).expect("runs")
    };
    let pre = "function () {
        const context = getContext(), request = context.getRequest(), body = request.getBody();
        body.seen = [request.getOperationType(), typeof context.getResponse, typeof __.response, typeof __.request];
        request.setBody(body);
    }";
    let request_body = Some(r#"{"id":"a"}"#);
    let done = run(pre, Role::PreTrigger { operation: TriggerOperation::Create, request_body });
    assert_eq!(
        done.request_body.as_deref(),
        Some(r#"{"id":"a","seen":["Create","undefined","undefined","object"]}"#)
    );
    assert_eq!(done.response_body, None);
    let post = "function () {
        const request = getContext().getRequest(), response = getContext().getResponse();
        response.setBody([request.getBody(), response.getBody(), request.getOperationType(), typeof request.setBody]);
    }";
    let role =
        Role::PostTrigger { operation: TriggerOperation::Replace, request_body, response_body: Some("[1]") };
    let done = run(post, role);
    assert_eq!(done.response_body.as_deref(), Some(r#"[{"id":"a"},[1],"Replace","undefined"]"#));
    assert_eq!(done.request_body, None);
    let untouched =
        run("function () {}", Role::PreTrigger { operation: TriggerOperation::Delete, request_body: None });
    assert_eq!(untouched.request_body, None);
    // An object that was read counts once it is set, changed before or after.
    for (statements, expected) in [
        ("const b = r.getBody(); r.setBody(b); b.late = 1;", r#"{"id":"a","late":1}"#),
        ("const b = r.getBody(); b.late = 1; r.setBody(r.getBody());", r#"{"id":"a","late":1}"#),
        ("r.getBody().late = 1;", r#"{"id":"a"}"#),
    ] {
        let source = format!("function () {{ const r = getContext().getRequest(); {statements} }}");
        let done = run(&source, Role::PreTrigger { operation: TriggerOperation::Create, request_body });
        assert_eq!(done.request_body.as_deref(), Some(expected), "{statements}");
    }
}

/// Records the begin of its invocation, and answers on request.
struct Patient {
    begun: Shared<Vec<&'static str>>,
    name: &'static str,
    answers: Option<tokio::sync::oneshot::Receiver<()>>,
}

impl Store for Patient {
    fn begin(&mut self) {
        self.begun.lock().expect("nobody panics").push(self.name);
    }

    fn call<'a>(&'a mut self, _: StoreRequest) -> BoxFuture<'a, StoreReply> {
        Box::pin(async {
            if let Some(answers) = self.answers.take() {
                answers.await.expect("is told");
            }
            StoreReply { outcome: Ok(StoreAnswer::default()), accepts_more: true }
        })
    }
}

#[test]
fn an_invocation_begins_when_it_has_its_worker() {
    let scripts = processes(1);
    let begun = Shared::default();
    let (tell, answers) = tokio::sync::oneshot::channel();
    let mut first = Patient { begun: Arc::clone(&begun), name: "first", answers: Some(answers) };
    let mut second = Patient { begun: Arc::clone(&begun), name: "second", answers: None };
    let asks = "function () { __.deleteDocument(__.getSelfLink() + 'docs/a'); }";
    let told = async {
        // The second has nothing left to do but to wait.
        while begun.lock().expect("nobody panics").is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(*begun.lock().expect("nobody panics"), ["first"]);
        tell.send(()).expect("is awaited");
    };
    let runs = async {
        tokio::join!(
            scripts.run(HERE, procedure(asks, "[]"), &mut first),
            scripts.run(HERE, procedure(asks, "[]"), &mut second),
            told
        )
    };
    let (first, second, ()) = block_on(runs);
    first.expect("runs");
    second.expect("runs");
    assert_eq!(*begun.lock().expect("nobody panics"), ["first", "second"]);
}
