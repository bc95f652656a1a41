//! Numbers that neither 64 bits nor a double hold: refused by name, or rounded where the server is
//! configured to.

use serde_json::{Value, json};
use shardlake_document::binary_of_json;
use shardlake_model::{Limits, Numbers};

use crate::batch::statuses;
use crate::harness::{Call, ITEMS, Server};

const KEY: &str = r#"["k"]"#;
const LARGE: &str = "12345678901234567890";
const REMEDY: &str = "send it as a string";

async fn rounding() -> Server {
    Server::with_limits(Limits { numbers: Numbers::Rounded, ..Limits::default() }).await
}

fn item(id: &str, number: &str) -> String {
    format!(r#"{{"id":"{id}","pk":"k","in":[{{"n":{number}}}]}}"#)
}

fn batch<'s>(server: &'s Server, atomic: &str, operations: String) -> Call<'s> {
    let call = server.post(ITEMS).header("x-ms-cosmos-is-batch-request", "True").key(KEY);
    let call =
        call.header("x-ms-cosmos-batch-atomic", atomic).header("x-ms-documentdb-partitionkeyrangeid", "0");
    call.body(operations)
}

#[tokio::test]
async fn every_write_refuses_them_and_says_where_and_what_to_do() {
    let server = Server::with_container().await;
    let before = server.post(ITEMS).key(KEY).body(item("a", "1")).send().await.expect(201);
    let place = format!("{LARGE} at '/in/0/n'");
    for call in [
        server.post(ITEMS).key(KEY).body(item("b", LARGE)),
        server.post(ITEMS).key(KEY).header("x-ms-documentdb-is-upsert", "true").body(item("a", LARGE)),
        server.item("PUT", "a", KEY).body(item("a", LARGE)),
    ] {
        call.send().await.refused(400, 0, &place).refused(400, 0, REMEDY);
    }
    for (operations, place) in [
        (format!(r#"[{{"op":"set","path":"/m","value":{LARGE}}}]"#), "at '/m'"),
        (format!(r#"[{{"op":"add","path":"/in/0","value":{{"x":[0,-{LARGE}]}}}}]"#), "at '/in/0/x/1'"),
        (format!(r#"[{{"op":"incr","path":"/in/0/n","value":{LARGE}}}]"#), "at '/in/0/n'"),
    ] {
        let patch = server.item("PATCH", "a", KEY).body(operations.clone()).send().await;
        patch.refused(400, 0, place).refused(400, 0, REMEDY);
        let operation =
            format!(r#"[{{"operationType":"Patch","id":"a","resourceBody":{{"operations":{operations}}}}}]"#);
        batch(&server, "True", operation).send().await.refused(400, 0, place);
    }
    let create =
        format!(r#"[{{"operationType":"Create","partitionKey":["k"],"resourceBody":{}}}]"#, item("b", LARGE));
    for atomic in ["True", "False"] {
        let answer = batch(&server, atomic, create.clone()).send().await.expect(207);
        assert_eq!(statuses(&answer), [400]);
        assert!(answer.text.contains(&place) && answer.text.contains(REMEDY), "{}", answer.text);
    }
    assert_eq!(server.item("GET", "a", KEY).send().await.expect(200).json(), before.json());
    assert_eq!(server.get(ITEMS).send().await.expect(200).json()["_count"], 1);
}

#[tokio::test]
async fn the_binary_form_is_judged_like_the_text() {
    // {"id": "a", "pk": "k", "n": a 64-bit integer without sign}
    let binary = |number: u64| {
        let members =
            [&[0x2C, 0x81, b'a', 0x82, b'p', b'k', 0x81, b'k', 0x81, b'n', 0xC7][..], &number.to_le_bytes()];
        let members = members.concat();
        [&[0x80, 0xEA, members.len() as u8][..], &members].concat()
    };
    let server = Server::with_container().await;
    let refused = server.post(ITEMS).key(KEY).body(binary(u64::MAX)).send().await;
    refused.refused(400, 0, "18446744073709551615 at '/n'").refused(400, 0, REMEDY);
    for (number, text) in [
        (1 << 63, "9223372036854775808"),
        (12_345_678_901_234_567_168, "12345678901234567168"),
        (12_345_678_901_234_567_000, "12345678901234567168"),
        ((1 << 53) + 1, "9007199254740993"),
        (i64::MAX as u64, "9223372036854775807"),
    ] {
        let call = server.post(ITEMS).key(KEY).header("x-ms-documentdb-is-upsert", "true");
        let stored = call.body(binary(number)).send().await;
        assert!(stored.text.contains(&format!("\"n\":{text},")), "{}", stored.text);
    }
    let server = rounding().await;
    let rounded = server.post(ITEMS).key(KEY).body(binary(u64::MAX)).send().await.expect(201);
    assert!(rounded.text.contains("\"n\":18446744073709551616,"), "{}", rounded.text);
}

/// Numbers are read back as they were sent: as 64 bits, as the value of a double, or as its
/// shortest text, as JavaScript writes it. Fractions are read as doubles.
#[tokio::test]
async fn numbers_that_can_be_kept_are() {
    let server = Server::with_container().await;
    for (sent, kept) in [
        ("9007199254740993", "9007199254740993"),
        ("9223372036854775807", "9223372036854775807"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("9223372036854775808", "9223372036854775808"),
        ("18446744073709552000", "18446744073709551616"),
        ("12345678901234567000", "12345678901234567168"),
        ("-12345678901234567168", "-12345678901234567168"),
        ("100000000000000000000", "100000000000000000000"),
        ("0.1234567890123456789", "0.12345678901234568"),
        ("12345678901234567890.0", "12345678901234567168"),
        ("1.2345678901234567890e19", "12345678901234567168"),
        ("1e-400", "0"),
        ("1.0", "1"),
        ("-5.00", "-5"),
        ("1E+3", "1000"),
        ("-0", "-0"),
        ("-0.0", "-0"),
        ("1e20", "100000000000000000000"),
        ("1e21", "1e+21"),
        ("-1.5e22", "-1.5e+22"),
    ] {
        let call = server.post(ITEMS).key(KEY).header("x-ms-documentdb-is-upsert", "true");
        let stored = call.body(item("a", sent)).send().await;
        assert!(stored.text.contains(&format!("{{\"n\":{kept}}}")), "{sent}: {}", stored.text);
        let again = server.post(ITEMS).key(KEY).header("x-ms-documentdb-is-upsert", "true");
        again.body(stored.text.clone()).send().await.expect(200);
    }
    for sent in
        ["9223372036854775809", "-9223372036854775809", "18446744073709551615", "100000000000000000001"]
    {
        let refused = server.post(ITEMS).key(KEY).body(item("b", sent)).send().await;
        refused.refused(400, 0, &format!("the number {sent} at"));
    }
    let long = "9".repeat(300);
    let refused = server.post(ITEMS).key(KEY).body(item("b", &long)).send().await;
    refused.refused(400, 0, &format!("the number {}… at", &long[..40]));
    for sent in ["1e400", &"9".repeat(400)] {
        server.post(ITEMS).key(KEY).body(item("b", sent)).send().await.refused(400, 0, "out of range");
    }
    // The sent value of a system property is not kept.
    let with_ts = format!(r#"{{"id":"c","pk":"k","_ts":{LARGE}}}"#);
    server.post(ITEMS).key(KEY).body(with_ts).send().await.expect(201);
}

#[tokio::test]
async fn a_server_that_is_told_to_rounds_as_the_service_does() {
    let server = rounding().await;
    let created = server.post(ITEMS).key(KEY).body(item("a", LARGE)).send().await.expect(201);
    assert!(created.text.contains(r#"{"n":12345678901234567168}"#), "{}", created.text);
    let patch = format!(r#"[{{"op":"set","path":"/m","value":{LARGE}}}]"#);
    let patched = server.item("PATCH", "a", KEY).body(patch).send().await.expect(200);
    assert!(patched.text.contains(r#""m":12345678901234567168"#), "{}", patched.text);
    server.post(ITEMS).key(KEY).body(item("b", "1e400")).send().await.refused(400, 0, "out of range");
}

/// JavaScript would round them before the server sees them again.
#[tokio::test]
async fn scripts_do_not_get_them() {
    const CREATE: &str = "function (n) {
        var collection = getContext().getCollection();
        collection.createDocument(collection.getSelfLink(), { id: 'a', pk: 'k', n: n * 10 }, {});
    }";
    const TOUCH: &str =
        "function () { var request = getContext().getRequest(); request.setBody(request.getBody()); }";
    let server = Server::with_container().await;
    let container = "/dbs/db/colls/items";
    let procedure = json!({ "id": "create", "body": CREATE });
    server.post(format!("{container}/sprocs")).json(procedure).send().await.expect(201);
    let trigger = json!({ "id": "touch", "body": TOUCH, "triggerType": "Pre", "triggerOperation": "All" });
    server.post(format!("{container}/triggers")).json(trigger).send().await.expect(201);
    let run = |arguments: String| server.post(format!("{container}/sprocs/create")).key(KEY).body(arguments);
    run(format!("[{{\"x\":{LARGE}}}]")).send().await.refused(400, 0, "at '/0/x'").refused(400, 0, REMEDY);
    // A number that a script computes is a double, and is kept.
    run("[1234567890123456789]".into()).send().await.expect(200);
    let stored = server.item("GET", "a", KEY).send().await.expect(200);
    assert!(stored.text.contains("\"n\":12345678901234567168"), "{}", stored.text);
    let body = item("b", LARGE);
    let binary = binary_of_json(body.as_bytes()).expect("JSON");
    let touched = |body: Vec<u8>| {
        server.post(ITEMS).key(KEY).header("x-ms-documentdb-pre-trigger-include", "touch").body(body)
    };
    touched(body.into_bytes()).send().await.refused(400, 0, "at '/in/0/n'");
    // A document in binary form that this test can write has rounded it already.
    touched(binary).send().await.expect(201);
    let listed: Value = server.get(ITEMS).send().await.expect(200).json();
    assert_eq!(listed["_count"], 2);
}

#[tokio::test]
async fn numbers_that_json_lacks_are_no_answer() {
    let server = Server::with_container().await;
    server.create(json!({ "id": "a", "pk": "k", "n": 0 })).await;
    let body = r#"{"errors":[{"severity":"Error","code":4001,"message":"The response content contains a numeric value that cannot be represented in JSON (e.g. Infinity and NaN)"}]}"#;
    for value in ["LOG(c.n)", "c.n / c.n", "{\"in\": [1 / c.n]}"] {
        let text = format!("SELECT VALUE {value} FROM c");
        crate::queries::query(&server, &text).key(KEY).send().await.refused(400, 0, body);
    }
    let compared = crate::queries::query(&server, "SELECT VALUE c.id FROM c WHERE 1 / c.n > 1e308").key(KEY);
    assert_eq!(crate::queries::rows(&compared.send().await.expect(200)), [json!("a")]);
}
