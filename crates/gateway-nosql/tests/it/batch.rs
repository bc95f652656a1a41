//! Transactional batches and bulk requests over the wire.

use std::sync::Arc;

use serde_json::{Value, json};
use shardlake_storage::fault::FaultEngine;
use shardlake_storage::{Shard, ShardOptions};

use crate::harness::{Answer, ITEMS, Server};

pub async fn atomic(server: &Server, operations: Value) -> Answer {
    let call = server.post(ITEMS).header("x-ms-cosmos-is-batch-request", "True");
    call.header("x-ms-cosmos-batch-atomic", "True").key(r#"["k"]"#).json(operations).send().await
}

async fn bulk(server: &Server, continue_on_error: &str, operations: Value) -> Answer {
    let call = server.post(ITEMS).header("x-ms-cosmos-is-batch-request", "true");
    let call =
        call.header("x-ms-cosmos-batch-atomic", "false").header("x-ms-documentdb-partitionkeyrangeid", "0");
    call.header("x-ms-cosmos-batch-continue-on-error", continue_on_error).json(operations).send().await
}

pub fn statuses(answer: &Answer) -> Vec<u64> {
    let results = answer.json();
    let results = results.as_array().expect("an array");
    results.iter().map(|result| result["statusCode"].as_u64().expect("a number")).collect()
}

#[tokio::test]
async fn every_kind_of_operation_works_in_one_transaction() {
    let server = Server::with_container().await;
    let before = server.create(json!({ "id": "old", "pk": "k", "n": 1 })).await;
    let answer = atomic(
        &server,
        json!([
            { "operationType": "Create", "resourceBody": { "id": "a", "pk": "k" } },
            { "operationType": "Upsert", "resourceBody": { "id": "b", "pk": "k" } },
            { "operationType": "Replace", "id": "a", "resourceBody": { "id": "a", "pk": "k", "n": 2 } },
            { "operationType": "Read", "id": "a" },
            { "operationType": "Patch", "id": "old", "resourceBody": { "operations": [{ "op": "incr", "path": "/n", "value": 1 }] } },
            { "operationType": "Delete", "id": "b" },
        ]),
    )
    .await
    .expect(200);
    assert_eq!(statuses(&answer), [201, 201, 200, 200, 200, 204]);
    let results = answer.json();
    assert_eq!(results[3]["resourceBody"]["n"], 2);
    assert_eq!(results[3]["eTag"], results[3]["resourceBody"]["_etag"]);
    assert_eq!(results[4]["resourceBody"]["n"], 2);
    assert!(results[0]["requestCharge"].as_f64().expect("a number") > 0.0);
    assert_eq!(answer.lsn(), before.lsn() + 1, "a batch is one commit");
    assert_eq!(
        answer.header("x-ms-session-token"),
        Some(format!("0:1700000000000#{}", answer.lsn()).as_str())
    );
    assert!(answer.charge() > 5.0);
}

#[tokio::test]
async fn minimal_responses_leave_bodies_out_except_of_reads() {
    let server = Server::with_container().await;
    let operations = json!([
        { "operationType": "Create", "resourceBody": { "id": "a", "pk": "k" } },
        { "operationType": "Read", "id": "a" },
    ]);
    let call =
        server.post(ITEMS).header("x-ms-cosmos-is-batch-request", "True").header("prefer", "return=minimal");
    let answer = call
        .header("x-ms-cosmos-batch-atomic", "True")
        .key(r#"["k"]"#)
        .json(operations)
        .send()
        .await
        .expect(200);
    let results = answer.json();
    assert!(results[0].get("resourceBody").is_none() && results[0]["eTag"].is_string());
    assert_eq!(results[1]["resourceBody"]["id"], "a");
}

#[tokio::test]
async fn bulk_operations_stand_for_themselves() {
    let server = Server::with_container().await;
    let operations = json!([
        { "operationType": "Create", "resourceBody": { "id": "a", "pk": "k" }, "partitionKey": "[\"k\"]" },
        { "operationType": "Delete", "id": "none", "partitionKey": "[\"k\"]" },
        { "operationType": "Create", "resourceBody": { "id": "b", "pk": "m" }, "partitionKey": "[\"m\"]" },
    ]);
    let answer = bulk(&server, "true", operations.clone()).await.expect(207);
    assert_eq!(statuses(&answer), [201, 404, 201]);
    // With the version of the container, so that clients can use it in any request.
    let session = format!("0:1700000000000#{}", answer.lsn());
    assert_eq!(answer.header("x-ms-session-token"), Some(session.as_str()));
    assert!(answer.json()[1]["message"].as_str().expect("text").contains("does not exist"));
    server.item("GET", "b", r#"["m"]"#).send().await.expect(200);

    let answer = bulk(&server, "false", operations).await.expect(207);
    assert_eq!(statuses(&answer), [409, 424, 424]);
}

#[tokio::test]
async fn malformed_batches_are_refused_as_a_whole() {
    let server = Server::with_container().await;
    atomic(&server, json!([])).await.refused(400, 0, "Batch request has no operations.");
    atomic(&server, json!({})).await.expect(400);
    // A condition that is misspelt is none.
    let body = json!({ "id": "a", "pk": "k" });
    let misspelt = json!([{ "operationType": "Upsert", "resourceBody": body, "ifmatch": "\"x\"" }]);
    atomic(&server, misspelt).await.refused(400, 0, "'0.ifmatch'");
    let call = server
        .post(ITEMS)
        .header("x-ms-cosmos-is-batch-request", "True")
        .header("x-ms-cosmos-batch-atomic", "True");
    call.json(json!([{ "operationType": "Read", "id": "a" }])).send().await.refused(400, 0, "partitionkey");
    let call = server
        .post(ITEMS)
        .header("x-ms-cosmos-is-batch-request", "True")
        .header("x-ms-cosmos-batch-atomic", "True");
    let binary = call.key(r#"["k"]"#).body([0x81, 0x00, 0x01]).send().await;
    binary.refused(400, 0, "not valid HybridRow");
}

#[tokio::test]
async fn a_batch_with_the_key_of_another_partition_is_refused_as_a_whole() {
    let server = Server::with_container().await;
    let words = "One or more operations within the batch request have a different partition key value than the request.";
    let body = json!({ "id": "a", "pk": "k" });
    for key in [json!(r#"["other"]"#), json!(["other"]), json!("k"), json!("\"k\""), json!(r#"["k","l"]"#)] {
        let create = |key: Option<&Value>| match key {
            Some(key) => json!({ "operationType": "Create", "resourceBody": body, "partitionKey": key }),
            None => json!({ "operationType": "Create", "resourceBody": body }),
        };
        let answer = atomic(&server, json!([create(None), create(Some(&key))])).await;
        answer.refused(400, 0, words);
    }
    server.item("GET", "a", r#"["k"]"#).send().await.expect(404);
    let own = |key: Value| json!([{ "operationType": "Upsert", "resourceBody": body, "partitionKey": key }]);
    atomic(&server, own(json!(r#"["k"]"#))).await.expect(200);
    atomic(&server, own(json!(["k"]))).await.expect(200);
    // The key of the body is the mistake of its operation.
    let foreign = json!([{ "operationType": "Create", "resourceBody": { "id": "b", "pk": "other" } }]);
    assert_eq!(statuses(&atomic(&server, foreign).await.expect(207)), [400]);
}

/// A session position that the server has not reached. Plain writes do not look at it either.
#[tokio::test]
async fn a_session_position_ahead_holds_for_batches_that_read() {
    let server = Server::with_container().await;
    server.create(json!({ "id": "a", "pk": "k" })).await;
    let upsert = json!({ "operationType": "Upsert", "resourceBody": { "id": "b", "pk": "k" } });
    let read = json!({ "operationType": "Read", "id": "a" });
    let batch = |operations: Value| {
        let call = server.post(ITEMS).header("x-ms-cosmos-is-batch-request", "True");
        let call = call.header("x-ms-cosmos-batch-atomic", "True").key(r#"["k"]"#);
        call.header("x-ms-session-token", "0:1700000000000#1000000").json(operations)
    };
    assert_eq!(statuses(&batch(json!([upsert])).send().await.expect(200)), [201]);
    batch(json!([upsert, read])).send().await.refused(404, 1002, "read session is not available");
    batch(json!([read])).send().await.refused(404, 1002, "read session is not available");
}

/// The client has the item already when `ifMatch` names its etag.
#[tokio::test]
async fn a_read_with_the_current_etag_in_if_match_is_304() {
    let server = Server::with_container().await;
    let etag = server.create(json!({ "id": "a", "pk": "k" })).await.etag();
    let key = r#"["k"]"#;
    let read =
        |etag: &str| json!([{ "operationType": "Read", "id": "a", "partitionKey": key, "ifMatch": etag }]);
    for (etag, status) in [(etag.as_str(), 304), ("\"00000000-0000-0000-0000-000000000000\"", 200)] {
        for answer in [atomic(&server, read(etag)).await, bulk(&server, "true", read(etag)).await] {
            assert_eq!(statuses(&answer), [status], "{answer:?}");
            assert_eq!(answer.json()[0].get("resourceBody").is_some(), status == 200);
        }
    }
}

/// The charges of the results, in hundredths.
pub fn charges(answer: &Answer) -> u64 {
    let results = answer.json();
    let results = results.as_array().expect("an array");
    results.iter().map(|result| hundredths(result["requestCharge"].as_f64().expect("a number"))).sum()
}

pub fn hundredths(charge: f64) -> u64 {
    (charge * 100.0).round() as u64
}

#[tokio::test]
async fn the_charge_of_a_failed_batch_is_the_sum_of_its_operations() {
    let server = Server::with_container().await;
    server.create(json!({ "id": "old", "pk": "k" })).await;
    let create = |id: &str| json!({ "operationType": "Create", "resourceBody": { "id": id, "pk": "k" } });
    let foreign = json!({ "operationType": "Create", "resourceBody": { "id": "b", "pk": "other" } });
    for (operations, expected) in [
        (json!([create("a"), create("old"), create("c")]), [424, 409, 424]),
        (json!([create("a"), foreign, create("c")]), [424, 400, 424]),
        (json!([create("a"), { "operationType": "Delete", "id": "none" }, create("c")]), [424, 404, 424]),
    ] {
        let answer = atomic(&server, operations).await.expect(207);
        assert_eq!(statuses(&answer), expected);
        assert_eq!(charges(&answer), hundredths(answer.charge()), "{answer:?}");
        assert!(answer.charge() >= 1.0, "{answer:?}");
    }
    // The budget pays for operations that were done and undone.
    let answer = atomic(&server, json!([create("a"), create("old")])).await;
    let done = atomic(&server, json!([create("a")])).await;
    assert_eq!(answer.json()[0]["requestCharge"], done.json()[0]["requestCharge"]);
}

#[tokio::test]
async fn a_bulk_request_that_names_the_range_of_another_key_is_gone() {
    let server = Server::start().await;
    server.post("/dbs").json(json!({ "id": "db" })).send().await.expect(201);
    let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
    let create = server.post("/dbs/db/colls").header("x-ms-offer-throughput", "30000");
    create.json(json!({ "id": "items", "partitionKey": key })).send().await.expect(201);
    let range_of = async |key: &str| {
        let item = json!({ "id": "probe", "pk": key });
        let made = server.create(item).await;
        made.header("x-ms-documentdb-partitionkeyrangeid").expect("a range").to_owned()
    };
    let mut keys: Vec<(String, String)> = Vec::new();
    for number in 0..20 {
        let key = format!("k{number}");
        keys.push((range_of(&key).await, key));
    }
    let (own, key) = keys[0].clone();
    let (_, other) = keys.iter().find(|(range, _)| *range != own).expect("several ranges").clone();
    let send = |range: &str, operations: Value| {
        let call = server.post(ITEMS).header("x-ms-cosmos-is-batch-request", "true");
        let call = call.header("x-ms-cosmos-batch-atomic", "false");
        let call = call.header("x-ms-cosmos-batch-continue-on-error", "true");
        call.header("x-ms-documentdb-partitionkeyrangeid", range).json(operations)
    };
    let named = |id: &str, key: &str| json!({ "operationType": "Create", "resourceBody": { "id": id, "pk": key }, "partitionKey": json!([key]).to_string() });
    let unnamed =
        |id: &str, key: &str| json!({ "operationType": "Create", "resourceBody": { "id": id, "pk": key } });
    let foreign = [
        named("b", &other),
        unnamed("b", &other),
        json!({ "operationType": "Read", "id": "probe", "partitionKey": json!([other]).to_string() }),
    ];
    for foreign in foreign {
        send(&own, json!([named("a", &key), foreign])).send().await.refused(410, 1002, "refresh");
    }
    send("99", json!([named("a", &key)])).send().await.refused(410, 1002, "refresh");
    server.item("GET", "a", &json!([key]).to_string()).send().await.expect(404);
    let both = json!([named("a", &key), unnamed("b", &key)]);
    assert_eq!(statuses(&send(&own, both).send().await.expect(200)), [201, 201]);
}

async fn over(engine: &FaultEngine) -> Server {
    let shard = Shard::with_engine(Arc::new(engine.clone()), &ShardOptions::memory()).expect("opens");
    let server = Server::over(shard).await;
    let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
    server.create_container(json!({ "id": "items", "partitionKey": key })).await;
    server.create(json!({ "id": "old", "pk": "k", "n": 1 })).await;
    server
}

/// Every kind of write.
fn writes() -> Vec<Value> {
    let increment = json!({ "operations": [{ "op": "incr", "path": "/n", "value": 1 }] });
    let mut writes = vec![
        json!({ "operationType": "Create", "resourceBody": { "id": "a", "pk": "k" } }),
        json!({ "operationType": "Upsert", "resourceBody": { "id": "b", "pk": "k" } }),
        json!({ "operationType": "Replace", "id": "old", "resourceBody": { "id": "old", "pk": "k", "n": 1 } }),
        json!({ "operationType": "Patch", "id": "old", "resourceBody": increment }),
        json!({ "operationType": "Delete", "id": "old" }),
    ];
    for write in &mut writes {
        write["partitionKey"] = json!(r#"["k"]"#);
    }
    writes
}

#[track_caller]
fn refused_by_the_store(answer: Answer) {
    assert_eq!(answer.header("x-ms-retry-after-ms"), Some("2000"), "{answer:?}");
    answer.refused(503, 0, "the store does not answer");
}

/// The store may stop answering at every read of a batch: the batch is done or refused, as a whole.
#[tokio::test]
async fn a_batch_that_the_store_refuses_is_refused_as_a_whole() {
    let engine = FaultEngine::new();
    let server = over(&engine).await;
    let mut operations = writes();
    operations.insert(0, json!({ "operationType": "Read", "id": "old" }));
    for answered in 0..1_000 {
        engine.refuse_reads_after(answered);
        let answer = atomic(&server, json!(operations)).await;
        engine.answer_reads();
        if answer.status == 200 {
            assert!(answered >= 3, "a batch reads its items: {answered}");
            return;
        }
        refused_by_the_store(answer);
        let old = server.item("GET", "old", r#"["k"]"#).send().await.expect(200);
        assert_eq!(old.json()["n"], 1, "a refused batch changes nothing");
    }
    panic!("the batch is never done");
}

/// A bulk request whose every operation is refused was refused itself. Others report each operation.
#[tokio::test]
async fn a_bulk_request_that_the_store_refuses_is_refused_as_a_whole() {
    let engine = FaultEngine::new();
    let server = over(&engine).await;
    engine.refuse_reads_after(0);
    for on_error in ["True", "False"] {
        refused_by_the_store(bulk(&server, on_error, json!(writes())).await);
    }
    let faulty =
        json!({ "operationType": "Create", "resourceBody": { "pk": "k" }, "partitionKey": r#"["k"]"# });
    let answer = bulk(&server, "True", json!([faulty, writes()[0]])).await.expect(207);
    assert_eq!(statuses(&answer), [400, 503]);
    let answer = bulk(&server, "False", json!([faulty, writes()[0]])).await.expect(207);
    assert_eq!(statuses(&answer), [400, 424]);
    engine.answer_reads();
    bulk(&server, "False", json!(writes())).await.expect(200);
}
