//! Batches and bulk requests in HybridRow, as the .NET SDK sends them.

use serde_json::{Value, json};
use shardlake_document::binary_of_json;
use shardlake_hybrid_row::OperationKind::{Create, Delete, Patch, Read, Replace, Upsert};
use shardlake_hybrid_row::{Operation, OperationKind, start, write_operation};

use crate::batch::{charges, hundredths, statuses};
use crate::harness::{Answer, Call, ITEMS, Server};

const KEY: &str = r#"["k"]"#;

fn transaction(server: &Server) -> Call<'_> {
    let call = server.post(ITEMS).header("x-ms-cosmos-is-batch-request", "True").key(KEY);
    call.header("x-ms-cosmos-batch-atomic", "True").header("x-ms-cosmos-batch-ordered", "True")
}

fn bulk(server: &Server) -> Call<'_> {
    let call = server.post(ITEMS).header("x-ms-cosmos-is-batch-request", "True");
    let call = call.header("x-ms-cosmos-batch-atomic", "False");
    let call = call.header("x-ms-cosmos-batch-continue-on-error", "True");
    call.header("x-ms-documentdb-partitionkeyrangeid", "0")
}

fn operation<'b>(kind: OperationKind, id: &'b str, body: &'b str) -> Operation<'b> {
    let text = |text: &'b str| Some(text).filter(|text| !text.is_empty());
    Operation { id: text(id), resource_body: text(body).map(str::as_bytes), ..Operation::new(kind) }
}

/// The same operation in JSON.
fn in_json(operation: &Operation<'_>) -> Value {
    let mut members = json!({ "operationType": format!("{:?}", operation.kind) });
    for (name, text) in [
        ("id", operation.id),
        ("partitionKey", operation.partition_key),
        ("ifMatch", operation.if_match),
        ("ifNoneMatch", operation.if_none_match),
    ] {
        if let Some(text) = text {
            members[name] = json!(text);
        }
    }
    if let Some(body) = operation.resource_body {
        members["resourceBody"] = serde_json::from_slice(body).expect("JSON");
    }
    if let Some(minimal) = operation.minimal_return_preference {
        members["minimalReturnPreference"] = json!(minimal);
    }
    members
}

#[tokio::test]
async fn every_kind_of_operation_works_in_one_transaction() {
    let server = Server::with_container().await;
    let before = server.create(json!({ "id": "old", "pk": "k", "n": 1 })).await;
    let operations = [
        operation(Create, "", r#"{"id":"a","pk":"k"}"#),
        operation(Upsert, "", r#"{"id":"b","pk":"k"}"#),
        operation(Replace, "a", r#"{"id":"a","pk":"k","n":2}"#),
        operation(Read, "a", ""),
        operation(Patch, "old", r#"{"operations":[{"op":"incr","path":"/n","value":1}]}"#),
        operation(Delete, "b", ""),
    ];
    let answer = transaction(&server).rows(&operations).send().await.expect(200);
    assert!(answer.is_rows);
    assert_eq!(statuses(&answer), [201, 201, 200, 200, 200, 204]);
    let results = answer.json();
    assert_eq!(results[3]["resourceBody"]["n"], 2);
    assert_eq!(results[3]["eTag"], results[3]["resourceBody"]["_etag"]);
    assert_eq!(results[4]["resourceBody"]["n"], 2);
    assert!(results[5].get("eTag").is_none() && results[5].get("resourceBody").is_none());
    assert_eq!(charges(&answer), hundredths(answer.charge()), "{answer:?}");
    assert_eq!(answer.lsn(), before.lsn() + 1, "a batch is one commit");
}

#[tokio::test]
async fn a_failed_transaction_changes_nothing_and_names_the_fault() {
    let server = Server::with_container().await;
    server.create(json!({ "id": "old", "pk": "k" })).await;
    let operations = [
        operation(Create, "", r#"{"id":"a","pk":"k"}"#),
        operation(Create, "", r#"{"id":"old","pk":"k"}"#),
        operation(Read, "old", ""),
    ];
    let answer = transaction(&server).rows(&operations).send().await.expect(207);
    assert!(answer.is_rows);
    assert_eq!(statuses(&answer), [424, 409, 424]);
    assert_eq!(charges(&answer), hundredths(answer.charge()));
    server.item("GET", "a", KEY).send().await.expect(404);
    let foreign = [operation(Create, "", r#"{"id":"a","pk":"other"}"#)];
    let answer = transaction(&server).rows(&foreign).send().await.expect(207);
    assert_eq!(answer.json()[0]["statusCode"], 400);
    assert_eq!(answer.json()[0]["subStatusCode"], 1001);
}

/// Every case of both formats has the same results, on servers with the same history.
#[tokio::test]
async fn both_formats_have_the_same_results() {
    let (in_rows, in_text) = (Server::with_container().await, Server::with_container().await);
    let etag = in_rows.create(json!({ "id": "old", "pk": "k", "n": 1 })).await.etag();
    assert_eq!(in_text.create(json!({ "id": "old", "pk": "k", "n": 1 })).await.etag(), etag);
    let other = "\"00000000-0000-0000-0000-000000000000\"";
    let keyed = |operation: Operation<'static>| Operation { partition_key: Some(KEY), ..operation };
    let read = keyed(operation(Read, "old", ""));
    let upsert = keyed(operation(Upsert, "", r#"{"id":"old","pk":"k","n":2}"#));
    let increment =
        r#"{"condition":"from c where c.n = 7","operations":[{"op":"incr","path":"/n","value":1}]}"#;
    let cases = [
        vec![read.clone(), keyed(operation(Read, "none", ""))],
        vec![Operation { if_none_match: Some(&etag), ..read.clone() }],
        vec![Operation { if_none_match: Some(other), ..read.clone() }],
        vec![Operation { if_match: Some(&etag), ..read.clone() }],
        vec![Operation { if_match: Some(other), ..read.clone() }],
        vec![keyed(operation(Patch, "old", increment)), read.clone()],
        vec![keyed(operation(Create, "", r#"{"id":"old","pk":"k"}"#)), read.clone()],
        vec![keyed(operation(Delete, "none", "")), read.clone()],
        vec![keyed(operation(Create, "", "[1]")), read.clone()],
        vec![Operation { if_match: Some(other), ..upsert.clone() }],
        vec![
            Operation { if_match: Some(&etag), minimal_return_preference: Some(true), ..upsert.clone() },
            read,
        ],
        vec![
            keyed(operation(Replace, "old", r#"{"id":"new","pk":"k"}"#)),
            keyed(operation(Delete, "new", "")),
        ],
    ];
    for case in cases {
        let text: Value = case.iter().map(in_json).collect();
        for (call, twin) in [(transaction(&in_rows), transaction(&in_text)), (bulk(&in_rows), bulk(&in_text))]
        {
            let (rows, json) = (call.rows(&case).send().await, twin.json(text.clone()).send().await);
            assert_eq!(
                (rows.status, rows.charge(), rows.is_rows),
                (json.status, json.charge(), true),
                "{text}"
            );
            let mut expected = json.json();
            for result in expected.as_array_mut().expect("results") {
                result.as_object_mut().expect("an object").remove("message");
                result["requestCharge"] = json!(result["requestCharge"].as_f64().expect("a number"));
            }
            assert_eq!(rows.json(), expected, "{text}");
        }
    }
}

#[tokio::test]
async fn bulk_operations_have_keys_of_their_own() {
    let server = Server::with_container().await;
    let keyed = |key: &'static str, operation: Operation<'static>| Operation {
        partition_key: Some(key),
        ..operation
    };
    let operations = [
        keyed(KEY, operation(Create, "", r#"{"id":"a","pk":"k"}"#)),
        keyed(KEY, operation(Delete, "none", "")),
        keyed("[5.0]", operation(Create, "", r#"{"id":"b","pk":5}"#)),
        keyed("[{}]", operation(Create, "", r#"{"id":"c"}"#)),
        keyed("[null]", operation(Create, "", r#"{"id":"d","pk":null}"#)),
        keyed(KEY, operation(Create, "", r#"{"id":"e","pk":"other"}"#)),
        keyed("no key", operation(Read, "a", "")),
        operation(Read, "a", ""),
    ];
    let answer = bulk(&server).rows(&operations).send().await.expect(207);
    assert_eq!(statuses(&answer), [201, 404, 201, 201, 201, 400, 400, 400]);
    assert_eq!(answer.json()[5]["subStatusCode"], 1001);
    assert_eq!(charges(&answer), hundredths(answer.charge()));
    server.item("GET", "b", "[5]").send().await.expect(200);
}

#[tokio::test]
async fn a_transaction_with_the_key_of_another_partition_is_refused_as_a_whole() {
    let server = Server::with_container().await;
    let words = "One or more operations within the batch request have a different partition key value than the request.";
    for key in [r#"["other"]"#, "k", "\"k\"", r#"["k","l"]"#] {
        let own = operation(Create, "", r#"{"id":"a","pk":"k"}"#);
        let foreign = Operation { partition_key: Some(key), ..operation(Read, "a", "") };
        transaction(&server).rows(&[own, foreign]).send().await.refused(400, 0, words);
    }
    server.item("GET", "a", KEY).send().await.expect(404);
    let own = Operation { partition_key: Some(KEY), ..operation(Create, "", r#"{"id":"a","pk":"k"}"#) };
    transaction(&server).rows(&[own]).send().await.expect(200);
}

#[tokio::test]
async fn items_and_patches_may_be_binary_json() {
    let server = Server::with_container().await;
    let binary = |text: &str| binary_of_json(text.as_bytes()).expect("JSON");
    let item = binary(r#"{"id":"a","pk":"k","n":1}"#);
    let patch = binary(r#"{"operations":[{"op":"incr","path":"/n","value":1}]}"#);
    let operations = [
        Operation { resource_body: Some(&item), ..Operation::new(Create) },
        Operation { id: Some("a"), resource_body: Some(&patch), ..Operation::new(Patch) },
    ];
    let answer = transaction(&server).rows(&operations).send().await.expect(200);
    assert_eq!(answer.json()[1]["resourceBody"]["n"], 2);
    let read = [operation(Read, "a", "")];
    // Clients that accept HybridRow alone, text or binary JSON, and binary JSON alone.
    for (formats, first) in [("HybridRow", b'{'), ("JsonText,CosmosBinary", b'{'), ("CosmosBinary", 0x80)] {
        let call = transaction(&server).rows(&read).in_formats(formats);
        let response = call.prepared().handled().await;
        let body =
            http_body_util::BodyExt::collect(response.into_body()).await.expect("in memory").to_bytes();
        let result =
            shardlake_hybrid_row::results_in(&body).expect("rows").next().expect("one").expect("valid");
        assert_eq!(result.resource_body.expect("an item")[0], first, "{formats}");
        let answer = transaction(&server).rows(&read).in_formats(formats).send().await.expect(200);
        assert_eq!(answer.json()[0]["resourceBody"]["n"], 2, "{formats}");
    }
    let refused = transaction(&server).json(json!([in_json(&read[0])])).in_formats("HybridRow").send().await;
    refused.refused(501, 0, "HybridRow");
}

#[tokio::test]
async fn limits_are_those_of_json() {
    let server = Server::with_container().await;
    let read = operation(Read, "a", "");
    let many = vec![read.clone(); 101];
    let words = "It has 101, and the limit is 100.";
    transaction(&server).rows(&many).send().await.refused(400, 0, words);
    let created = vec![operation(Upsert, "", r#"{"id":"a","pk":"k"}"#); 100];
    let answer = transaction(&server).rows(&created).send().await.expect(200);
    assert_eq!(answer.json().as_array().map(Vec::len), Some(100));
    assert_eq!(statuses(&bulk(&server).rows(&many).send().await.expect(207)), [400; 101]);
    let large = format!(r#"{{"id":"b","pk":"k","text":"{}"}}"#, "x".repeat(2_500_000));
    transaction(&server).rows(&[operation(Create, "", &large)]).send().await.refused(413, 0, "bytes");
    let large = Operation { partition_key: Some(KEY), ..operation(Create, "", &large) };
    assert_eq!(statuses(&bulk(&server).rows(&[large]).send().await.expect(207)), [413]);
    transaction(&server).rows(&[]).send().await.refused(400, 0, "Batch request has no operations.");
}

#[tokio::test]
async fn malformed_bodies_are_refused_before_anything_is_done() {
    let server = Server::with_container().await;
    let mut body = Vec::new();
    start(&mut body);
    write_operation(&mut body, &operation(Create, "", r#"{"id":"a","pk":"k"}"#));
    let first = body.len();
    write_operation(&mut body, &operation(Create, "", r#"{"id":"b","pk":"k"}"#));
    for length in first + 1..body.len() {
        let answer: Answer = transaction(&server).body(&body[..length]).send().await;
        answer.refused(400, 0, "not valid HybridRow");
    }
    for at in 0..body.len() {
        let mut changed = body.clone();
        changed[at] ^= 0x10;
        // Without its first byte it is another format.
        let words = if at == 0 { "must be a JSON array" } else { "not valid HybridRow" };
        transaction(&server).body(changed).send().await.refused(400, 0, words);
    }
    server.item("GET", "a", KEY).send().await.expect(404);
    let unknown = Operation { indexing_directive: Some("Exclude"), ..operation(Read, "a", "") };
    transaction(&server).rows(&[unknown]).send().await.refused(501, 0, "indexing directive");
}
