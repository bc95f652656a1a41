//! Positions in the answers to frames: range id, session token and LSN, in errors too. Clients of Direct mode repeat a read for
//! seconds whose 404, 409 or 412 has none.

use std::time::Duration;

use serde_json::{Value, json};
use shardlake_account::AccountOptions;

use crate::change_feed::{CONTAINER, split};
use crate::direct::{frame_to, master};
use crate::harness::{Answer, Call, Frame, ITEMS, READ_ONLY_KEY, Server};
use crate::throughput::metered;

const RANGE: &str = "x-ms-documentdb-partitionkeyrangeid";
const KEY: &str = r#"["k"]"#;

fn upsert<'s>(server: &'s Server, body: &Value) -> Call<'s> {
    server.post(ITEMS).key(KEY).header("x-ms-documentdb-is-upsert", "true").json(body.clone())
}

/// Requests, and the status of each where an item `a` with a unique `u` is the only one.
fn requests<'s>(server: &'s Server, range: &str) -> Vec<(&'static str, u16, Call<'s>)> {
    let query = || server.post(ITEMS).header("content-type", "application/query+json").header(RANGE, range);
    let patch = |operations: Value| server.item("PATCH", "a", KEY).json(json!({ "operations": operations }));
    let remove = json!([{ "op": "remove", "path": "/none" }]);
    let stale = |call: Call<'s>| call.header("if-match", "\"none\"");
    let select = |text: &str| json!({ "query": text });
    let conflicts = format!("{CONTAINER}/conflicts");
    let item = json!({ "id": "a", "pk": "k", "u": 1 });
    vec![
        ("missing item", 404, server.item("GET", "none", KEY)),
        (
            "missing item to replace",
            404,
            server.item("PUT", "none", KEY).json(json!({ "id": "none", "pk": "k" })),
        ),
        (
            "missing item to patch",
            404,
            server.item("PATCH", "none", KEY).json(json!({ "operations": remove })),
        ),
        ("missing item to delete", 404, server.item("DELETE", "none", KEY)),
        ("missing procedure", 404, server.post(format!("{CONTAINER}/sprocs/none")).key(KEY).json(json!([]))),
        ("missing conflict", 404, server.get(format!("{conflicts}/none"))),
        ("item without a key", 400, server.get(format!("{ITEMS}/a"))),
        ("item of a malformed key", 400, server.item("GET", "a", "[")),
        ("item of a long key", 400, server.item("GET", "a", r#"["k","l"]"#)),
        ("patch of a missing member", 400, patch(remove.clone())),
        ("patch without operations", 400, patch(json!([]))),
        ("create of another key", 400, server.post(ITEMS).key(r#"["z"]"#).json(item.clone())),
        ("create of a text", 400, server.post(ITEMS).key(KEY).body("text")),
        ("create", 409, server.post(ITEMS).key(KEY).json(item.clone())),
        ("create of a unique value", 409, upsert(server, &json!({ "id": "b", "pk": "k", "u": 1 }))),
        ("replace of a version", 412, stale(server.item("PUT", "a", KEY)).json(item.clone())),
        ("delete of a version", 412, stale(server.item("DELETE", "a", KEY))),
        ("large item", 413, upsert(server, &json!({ "id": "l", "pk": "k", "t": "x".repeat(3 << 20) }))),
        ("query with a fault", 400, query().json(select("SELECT"))),
        ("query that matches nothing", 200, query().json(select("SELECT * FROM c WHERE c.none"))),
        ("feed", 200, server.get(ITEMS).header(RANGE, range)),
        ("change feed", 200, server.get(ITEMS).header(RANGE, range).header("a-im", "Incremental feed")),
        ("feed with a token", 400, server.get(ITEMS).header(RANGE, range).header("x-ms-continuation", "x")),
        ("conflicts", 200, server.get(&conflicts).header(RANGE, range)),
        ("query of conflicts", 200, {
            let call = server.post(&conflicts).header("content-type", "application/query+json");
            call.header(RANGE, range).json(select("SELECT * FROM c"))
        }),
        ("read", 200, server.item("GET", "a", KEY)),
        ("token of a session", 400, server.item("GET", "a", KEY).header("x-ms-session-token", "x")),
    ]
}

fn position(answer: &Answer) -> Option<(String, String, u64)> {
    let token = answer.header("x-ms-session-token")?;
    let (range, rest) = token.split_once(':').expect("a range");
    let (version, lsn) = rest.split_once('#').expect("an LSN");
    assert_eq!(answer.header(RANGE), Some(range));
    for name in ["lsn", "x-ms-cosmos-llsn", "x-ms-quorum-acked-lsn", "x-ms-global-committed-lsn"] {
        assert_eq!(answer.header(name), Some(lsn), "{name}");
    }
    Some((range.to_owned(), version.to_owned(), lsn.parse().expect("a number")))
}

async fn with_unique_values() -> Server {
    let server = Server::start().await;
    let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
    let unique = json!({ "uniqueKeys": [{ "paths": ["/u"] }] });
    server.create_container(json!({ "id": "items", "partitionKey": key, "uniqueKeyPolicy": unique })).await;
    server
}

#[tokio::test]
async fn every_answer_from_a_container_has_the_position_of_its_partition() {
    let server = with_unique_values().await;
    server.create(json!({ "id": "a", "pk": "k", "u": 1 })).await;
    split(&server, "0").await;
    let range = server.item("GET", "a", KEY).send().await.header(RANGE).expect("a range").to_owned();
    let frame = frame_to(&server, &range).await;
    let token =
        server.item("GET", "a", KEY).send().await.header("x-ms-session-token").expect("one").to_owned();
    for (name, status, call) in requests(&server, &range) {
        let answer = call.framed(&frame).send().await;
        assert_eq!(answer.status, status, "{name}: {answer:?}");
        let (of, version, lsn) = position(&answer).unwrap_or_else(|| panic!("{name}: {answer:?}"));
        assert_eq!(of, range, "{name}");
        assert_eq!(format!("{of}:{version}#{lsn}"), token, "{name}: nothing was written");
    }
}

/// A prefix of a hierarchical key may lie in several ranges. Java repeats a request at the position of another range than its own.
#[tokio::test]
async fn a_request_with_a_prefix_of_a_key_has_the_position_of_the_range_that_it_names() {
    let server = Server::start().await;
    let key = json!({ "paths": ["/t", "/u"], "kind": "MultiHash", "version": 2 });
    server.create_container(json!({ "id": "items", "partitionKey": key })).await;
    for child in split(&server, "0").await {
        let frame = frame_to(&server, &child).await;
        let head = server.call("HEAD", CONTAINER).key(r#"["t"]"#).framed(&frame).send().await.expect(200);
        let fault = server.post(ITEMS).header("content-type", "application/query+json").key(r#"["t"]"#);
        let fault = fault.header(RANGE, &child).json(json!({ "query": "SELECT" }));
        for answer in [head, fault.framed(&frame).send().await.expect(400)] {
            assert_eq!(position(&answer).expect("a position").0, child);
        }
    }
}

/// The least LSN of a frame is 1, which the mapping to frames sees to: positions stay those of the partition.
#[tokio::test]
async fn an_empty_partition_has_a_position_as_well() {
    let server = with_unique_values().await;
    let frame = frame_to(&server, "0").await;
    let calls = requests(&server, "0");
    let calls =
        calls.into_iter().filter(|(name, ..)| name.contains("missing item") || name.contains("conflict"));
    for (name, status, call) in calls {
        let answer = call.framed(&frame).send().await.expect(status);
        let (range, _, lsn) = position(&answer).unwrap_or_else(|| panic!("{name}: {answer:?}"));
        assert_eq!((&*range, lsn), ("0", 0), "{name}");
    }
}

/// Over HTTP the answers are those of earlier versions: the Python SDK drops its ranges at a position in an error.
#[tokio::test]
async fn answers_over_http_get_no_position_for_it() {
    let server = with_unique_values().await;
    server.create(json!({ "id": "a", "pk": "k", "u": 1 })).await;
    for (name, status, call) in requests(&server, "0") {
        let answer = call.send().await.expect(status);
        if ["missing procedure", "missing conflict", "item without a key", "conflicts"].contains(&name) {
            assert_eq!(position(&answer), None, "{name}");
        }
    }
}

#[tokio::test]
async fn a_spent_budget_has_a_position_and_a_time_to_wait() {
    let server = metered(AccountOptions::default()).await;
    let frame = frame_to(&server, "0").await;
    let mut number = 0;
    let refused = loop {
        number += 1;
        assert!(number < 2_000, "the budget has an end");
        let call = server.post(ITEMS).key(KEY).json(json!({ "id": format!("i{number}"), "pk": "k" }));
        let answer = call.framed(&frame).send().await;
        if answer.status != 201 {
            break answer;
        }
    };
    let refused = refused.refused(429, 3200, "Request rate is large.");
    assert!(position(&refused).is_some() && refused.header("x-ms-retry-after-ms").is_some(), "{refused:?}");
    server.clock.advance(Duration::from_secs(2));
    server.item("GET", "i1", KEY).framed(&frame).send().await.expect(200);
}

/// Refusals that come before a partition is asked have no position, by which the mapping to frames knows them.
#[tokio::test]
async fn refusals_before_a_partition_have_none() {
    let server = with_unique_values().await;
    let frame = frame_to(&server, "0").await;
    let wrong_key = server.item("GET", "a", KEY).unsigned();
    let wrong_key = wrong_key.header("authorization", "type%3dmaster%26ver%3d1.0%26sig%3dx");
    let read_only = server.item("DELETE", "a", KEY).signed_with(READ_ONLY_KEY);
    let unsupported = server.item("GET", "a", KEY).header("x-ms-enumeration-direction", "Reverse");
    for (status, call) in [
        (401, wrong_key),
        (401, read_only),
        (405, server.call("POST", format!("{ITEMS}/a"))),
        (501, unsupported),
        (413, server.post(ITEMS).key(KEY).body(vec![b' '; 5 << 20])),
    ] {
        let answer = call.framed(&frame).send().await.expect(status);
        assert_eq!(position(&answer), None, "{answer:?}");
    }
    let of_master = server.get("/dbs/none").framed(&master()).send().await.expect(404);
    assert_eq!(position(&of_master), None);
    let stale = Frame { container_rid: Some("AAAAAYAAAAE=".into()), ..frame };
    let answer = server.item("GET", "a", KEY).framed(&stale).send().await.refused(400, 1024, "refresh");
    assert_eq!(position(&answer), None);
}
