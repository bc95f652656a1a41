//! Transactional batches and bulk requests over the wire.

use serde_json::{Value, json};

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
    binary.refused(501, 0, "HybridRow");
}
