//! What stored procedures can do and how they fail.

mod support;

use serde_json::json;
use shardlake_model::ErrorKind;
use support::{Documents, block_on, body, processes, refusal, run};

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
    println!("{message}");
    let checked = block_on(scripts.check("function () {\n  let a = ;\n}")).expect_err("is refused");
    println!("{checked}");
    let checked = block_on(scripts.check("function () {}, 3")).expect_err("is refused");
    println!("{checked}");
    block_on(scripts.check("function f() {}")).expect("is one function");
}
