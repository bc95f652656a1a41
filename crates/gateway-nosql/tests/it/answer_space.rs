//! Memory of answers: holders, amounts and times.

use serde_json::json;

use crate::harness::{ITEMS, Server};

/// Bytes that every request in flight holds.
const BASE_BYTES: u64 = 16 << 10;

#[tokio::test]
async fn answers_hold_nothing_after_they_were_taken() {
    let server = Server::with_container().await;
    server.create(json!({ "id": "1", "pk": "a", "text": "x".repeat(100_000) })).await;
    for call in [server.get(ITEMS), server.item("GET", "1", r#"["a"]"#), server.get("/dbs/none")] {
        assert!(call.send().await.status > 0);
        assert_eq!(server.space.answer_bytes(), 0);
    }
    let query = server.post(ITEMS).header("x-ms-documentdb-isquery", "true").key(r#"["a"]"#);
    let query = query.header("content-type", "application/query+json");
    query.json(json!({ "query": "SELECT * FROM c" })).send().await.expect(200);
    assert_eq!((server.space.answer_bytes(), server.space.body_bytes()), (0, 0));
}

/// A reader that waits for a change holds no memory for a page meanwhile: a few readers would leave none for others.
#[tokio::test]
async fn a_reader_that_waits_for_a_change_holds_no_room() {
    let server = Server::with_container().await;
    let start = server.get(ITEMS).header("a-im", "Incremental feed").header("if-none-match", "*");
    let etag = start.send().await.expect(304).header("etag").expect("an etag").to_owned();
    let waiting = server.get(ITEMS).header("a-im", "Incremental feed").header("if-none-match", &etag);
    let waiting = waiting.header("x-shardlake-feed-wait-ms", "60000").send();
    let mut waiting = std::pin::pin!(waiting);
    let mut looked = 0;
    while looked < 50 {
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        tokio::task::yield_now().await;
        looked += 1;
    }
    assert_eq!(server.space.answer_bytes(), BASE_BYTES);
    server.create(json!({ "id": "1", "pk": "a" })).await;
    assert_eq!(waiting.await.expect(200).json()["_count"], 1);
    assert_eq!(server.space.answer_bytes(), 0);
}

/// A hundred reads of 2 MB would answer 200 MB. The SDKs know this refusal, and read the rest in another request.
#[tokio::test]
async fn the_reads_of_one_request_answer_as_much_as_a_page() {
    let server = Server::with_container().await;
    for id in ["1", "2", "3"] {
        server.create(json!({ "id": id, "pk": "a", "text": "x".repeat(1_800_000) })).await;
    }
    let read = |id: &str| json!({ "operationType": "Read", "id": id, "partitionKey": r#"["a"]"# });
    let reads = json!([read("1"), read("2"), read("3")]);
    let batch = |atomic: &str| {
        let call = server.post(ITEMS).key(r#"["a"]"#).header("x-ms-cosmos-is-batch-request", "true");
        let call = call.header("x-ms-cosmos-batch-atomic", atomic);
        call.header("x-ms-cosmos-batch-continue-on-error", "true").json(reads.clone()).send()
    };
    let results = batch("false").await.expect(207).json();
    let statuses: Vec<_> =
        results.as_array().expect("results").iter().map(|one| &one["statusCode"]).collect();
    assert_eq!(statuses, [200, 200, 413]);
    assert_eq!(results[2]["subStatusCode"], 3402);
    let results = batch("true").await.expect(207).json();
    let statuses: Vec<_> =
        results.as_array().expect("results").iter().map(|one| &one["statusCode"]).collect();
    assert_eq!(statuses, [424, 424, 413]);
    assert_eq!(server.space.answer_bytes(), 0);
}

/// A patch of a few bytes answers its whole item. Those whose items are not wanted answer an etag and hold nothing.
#[tokio::test]
async fn the_patches_of_one_request_answer_as_much_as_a_page() {
    let server = Server::with_container().await;
    let created = json!({ "id": "1", "pk": "a", "n": 0, "text": "x".repeat(1_800_000) });
    server.create(created).await;
    let batch = async |atomic: &str, is_minimal: bool| {
        let patch = json!({
            "operationType": "Patch",
            "id": "1",
            "partitionKey": r#"["a"]"#,
            "resourceBody": { "operations": [{ "op": "incr", "path": "/n", "value": 1 }] },
            "minimalReturnPreference": is_minimal,
        });
        let call = server.post(ITEMS).key(r#"["a"]"#).header("x-ms-cosmos-is-batch-request", "true");
        let call = call.header("x-ms-cosmos-batch-atomic", atomic);
        let answer =
            call.header("x-ms-cosmos-batch-continue-on-error", "true").json(json!(vec![patch; 4])).send();
        let results = answer.await.json().as_array().expect("results").clone();
        let statuses: Vec<u64> =
            results.iter().map(|one| one["statusCode"].as_u64().expect("a status")).collect();
        (statuses, results)
    };
    let count = async || {
        let item = server.get(format!("{ITEMS}/1")).key(r#"["a"]"#).send().await.expect(200).json();
        item["n"].as_u64().expect("a number")
    };
    let (statuses, results) = batch("true", false).await;
    assert_eq!(statuses, [424, 424, 413, 424]);
    assert_eq!((&results[2]["subStatusCode"], count().await), (&json!(3402), 0));
    let (statuses, results) = batch("false", false).await;
    let done = statuses.iter().filter(|status| **status == 200).count() as u64;
    assert!(statuses.iter().all(|status| [200, 413].contains(status)), "{statuses:?}");
    assert_eq!(count().await, done, "what answers 200 is done, and nothing else");
    assert_eq!(results.iter().filter(|one| one["resourceBody"].is_object()).count(), 2);
    for atomic in ["true", "false"] {
        let before = count().await;
        let (statuses, results) = batch(atomic, true).await;
        assert_eq!((statuses, count().await), (vec![200; 4], before + 4));
        assert!(results.iter().all(|one| one["eTag"].is_string() && one["resourceBody"].is_null()));
    }
    assert_eq!(server.space.answer_bytes(), 0);
}
