//! Requests that the gateway refuses: unauthorized callers, missing resources, and unsupported features.

use std::time::Duration;

use serde_json::json;
use shardlake_gateway_nosql::GatewaySettings;

use crate::harness::{ITEMS, READ_ONLY_KEY, Server};

#[tokio::test]
async fn unsigned_wrongly_signed_and_outdated_requests_are_turned_away() {
    let server = Server::with_container().await;
    for path in ["/", "/dbs", ITEMS] {
        server.get(path).unsigned().send().await.expect(401);
    }
    let forged = "type%3Dmaster%26ver%3D1.0%26sig%3DAAAA";
    let call = server.get("/dbs").unsigned().header("x-ms-date", "Tue, 14 Nov 2023 22:13:20 GMT");
    let answer = call.header("authorization", forged).send().await;
    answer.refused(401, 0, "The input authorization token can't serve the request.");
}

#[tokio::test]
async fn a_date_beyond_the_skew_is_forbidden() {
    let settings = GatewaySettings { clock_skew_max: Duration::from_secs(60), ..GatewaySettings::default() };
    let server = Server::start_with(settings).await;
    let date = shardlake_testkit::http_date_after_epoch(Duration::from_secs(1_700_000_000 - 61));
    let token = shardlake_testkit::authorization("GET", "", "", &date, shardlake_testkit::EMULATOR_KEY);
    let call = server.get("/").unsigned().header("x-ms-date", &date).header("authorization", &token);
    call.send().await.refused(403, 0, "not valid at the current time");
}

#[tokio::test]
async fn a_read_only_key_reads_and_does_not_write() {
    let server = Server::with_container().await;
    server.create(json!({ "id": "a", "pk": "k" })).await;
    let read = server.item("GET", "a", r#"["k"]"#);
    read.signed_with(READ_ONLY_KEY).send().await.expect(200);
    let query = server.post("/dbs").header("content-type", "application/query+json");
    query.json(json!({ "query": "SELECT * FROM r" })).signed_with(READ_ONLY_KEY).send().await.expect(200);
    let batch = |is_atomic: &str, operations: serde_json::Value| {
        let call = server.post(ITEMS).key(r#"["k"]"#).header("x-ms-cosmos-is-batch-request", "True");
        call.header("x-ms-cosmos-batch-atomic", is_atomic).json(operations)
    };
    let reading = json!([{ "operationType": "Read", "id": "a", "partitionKey": "[\"k\"]" }]);
    for call in [
        server.item("DELETE", "a", r#"["k"]"#),
        server.post("/dbs").json(json!({ "id": "x" })),
        batch("True", reading.clone()),
        batch("False", reading),
    ] {
        let answer = call.signed_with(READ_ONLY_KEY).send().await;
        answer.refused(401, 0, "The input authorization token can't serve the request. The request is signed with a read-only key");
    }
    server.item("GET", "a", r#"["k"]"#).send().await.expect(200);
}

#[tokio::test]
async fn unknown_routes_are_404_and_wrong_verbs_405() {
    let server = Server::with_container().await;
    for path in ["/nothing", "/dbs/db/things", "/dbs/db/colls/items/docs/a/b"] {
        server.get(path).send().await.expect(404);
    }
    for (method, path) in [
        ("PUT", "/"),
        ("PUT", "/dbs"),
        ("PATCH", "/dbs/db"),
        ("DELETE", ITEMS),
        ("PUT", "/dbs/db/colls/items/pkranges"),
        ("POST", "/dbs/db/colls/items"),
        ("POST", "/offers"),
    ] {
        server.call(method, path).send().await.expect(405);
    }
    for method in ["HEAD", "OPTIONS", "TRACE"] {
        server.call(method, "/dbs").send().await.expect(405);
    }
}

#[tokio::test]
async fn a_link_that_is_no_link_of_an_offer_is_400() {
    let server = Server::start().await;
    for path in ["/offers/offers/X7kE/", "/offers/X7kE/more"] {
        for method in ["GET", "PUT"] {
            server.call(method, path).json(json!({})).send().await.refused(400, 0, "no link of an offer");
        }
    }
    server.get("/offers/X7kE").send().await.expect(404);
}

#[tokio::test]
async fn features_to_come_are_refused_by_name() {
    let server = Server::with_container().await;
    for (path, name) in [
        ("/dbs/db/clientencryptionkeys", "client encryption keys"),
        ("/dbs/db/colls/items/docs/a/attachments", "attachments"),
    ] {
        server.get(path).send().await.refused(501, 0, name);
    }
}

/// Signed as the .NET SDK signs it: by the type of the resource, without a link.
#[tokio::test]
async fn a_distributed_transaction_is_refused_with_the_words_where_dotnet_shows_them() {
    let server = Server::with_container().await;
    let date = shardlake_testkit::http_date_after_epoch(Duration::from_secs(1_700_000_000));
    let signed = |key| {
        let token = shardlake_testkit::authorization("POST", "distributedtransactionbatch", "", &date, key);
        let call = server.post("/operations/dtc").unsigned().header("x-ms-date", &date);
        let call = call.header("x-ms-cosmos-idempotency-token", "1dbaba3a-0532-4229-a6c4-dee833672a62");
        call.header("authorization", &token).json(json!({ "operations": [] }))
    };
    let answer = signed(shardlake_testkit::EMULATOR_KEY).send().await;
    let refused = answer.refused(501, 0, "distributed transactions").json();
    assert_eq!(refused["isRetriable"], false, "{refused}");
    assert_eq!(refused["operationResponses"], json!([]), "{refused}");
    assert!(
        refused["diagnosticString"].as_str().expect("words").starts_with("distributed transactions"),
        "{refused}"
    );
    server.post("/operations/dtc").json(json!({})).send().await.refused(
        401,
        0,
        "distributedtransactionbatch",
    );
}

#[tokio::test]
async fn headers_that_would_change_the_outcome_are_refused_not_ignored() {
    let server = Server::with_container().await;
    let create = || server.post(ITEMS).key(r#"["k"]"#).json(json!({ "id": "a", "pk": "k" }));
    create().header("x-ms-documentdb-pre-trigger-exclude", "t1").send().await.refused(501, 0, "t1");
    create().header("x-ms-indexing-directive", "Exclude").send().await.refused(501, 0, "Exclude");
    create().header("x-ms-consistency-level", "Strong").send().await.refused(400, 0, "stronger");
    let bucket = create().header("x-ms-cosmos-throughput-bucket", "256").send().await;
    bucket.refused(400, 0, "specified for the header 'x-ms-cosmos-throughput-bucket' is invalid.");
    create().header("x-ms-documentdb-is-upsert", "perhaps").send().await.expect(400);
    server.item("GET", "a", r#"["k"]"#).send().await.expect(404);
    create()
        .header("x-ms-consistency-level", "Eventual")
        .header("x-ms-indexing-directive", "Default")
        .send()
        .await
        .expect(201);
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused() {
    let settings = GatewaySettings { body_size_bytes_max: 1000, ..GatewaySettings::default() };
    let server = Server::start_with(settings).await;
    let answer = server.post("/dbs").body(vec![b' '; 1001]).send().await.expect(413);
    assert_eq!(answer.json()["code"], "RequestEntityTooLarge");
}

#[tokio::test]
async fn the_clients_activity_id_comes_back() {
    let server = Server::start().await;
    let id = "0f8fad5b-d9cb-469f-a165-70867728950e";
    let answer = server.get("/").header("x-ms-activity-id", id).send().await.expect(200);
    assert_eq!(answer.header("x-ms-activity-id"), Some(id));
    let other = server.get("/").header("x-ms-activity-id", "mine").send().await.expect(200);
    assert_ne!(other.header("x-ms-activity-id"), Some("mine"));
    let missing = server.get("/dbs/none").header("x-ms-activity-id", id).send().await.expect(404);
    assert!(missing.message().contains(&format!("ActivityId: {id}, Request URI: /dbs/none")));
}
