//! Read feeds and partition key ranges.

use std::collections::BTreeSet;

use serde_json::json;

use crate::harness::{ITEMS, Server};

const RANGES: &str = "/dbs/db/colls/items/pkranges";

/// With five physical partitions and `count` items, each its own logical partition.
async fn server_with_ranges(count: usize) -> Server {
    let server = Server::start().await;
    server.post("/dbs").json(json!({ "id": "db" })).send().await.expect(201);
    let container =
        json!({ "id": "items", "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 } });
    server
        .post("/dbs/db/colls")
        .header("x-ms-offer-throughput", "30000")
        .json(container)
        .send()
        .await
        .expect(201);
    for number in 0..count {
        server.create(json!({ "id": format!("i{number}"), "pk": format!("k{number}") })).await;
    }
    server
}

#[tokio::test]
async fn pages_follow_each_other_until_everything_was_seen_once() {
    let server = server_with_ranges(23).await;
    let (mut seen, mut continuation, mut pages) = (BTreeSet::new(), None::<String>, 0);
    loop {
        let mut call = server.get(ITEMS).header("x-ms-max-item-count", "5");
        if let Some(token) = &continuation {
            call = call.header("x-ms-continuation", token);
        }
        let answer = call.send().await.expect(200);
        let page = answer.json();
        let items = page["Documents"].as_array().expect("an array");
        assert_eq!(page["_count"], items.len());
        assert_eq!(answer.header("x-ms-item-count"), Some(items.len().to_string().as_str()));
        assert!(items.len() <= 5);
        for item in items {
            assert!(seen.insert(item["id"].as_str().expect("text").to_owned()), "{item}");
        }
        pages += 1;
        continuation = answer.header("x-ms-continuation").map(str::to_owned);
        let Some(token) = &continuation else { break };
        assert!(token.len() < 1024);
    }
    assert_eq!(seen.len(), 23);
    assert!(pages >= 5);
}

#[tokio::test]
async fn a_feed_is_scoped_by_key_and_by_range() {
    let server = server_with_ranges(20).await;
    let one = server.get(ITEMS).key(r#"["k7"]"#).send().await.expect(200).json();
    assert_eq!((&one["_count"], &one["Documents"][0]["id"]), (&json!(1), &json!("i7")));
    let ranges = server.get(RANGES).send().await.expect(200).json();
    let mut total = 0;
    for range in ranges["PartitionKeyRanges"].as_array().expect("an array") {
        let id = range["id"].as_str().expect("text");
        let answer =
            server.get(ITEMS).header("x-ms-documentdb-partitionkeyrangeid", id).send().await.expect(200);
        let token = answer.header("x-ms-session-token").expect("a token");
        assert!(token.starts_with(&format!("{id}:1700000000000#")) && !token.contains(','), "{token}");
        total += answer.json()["_count"].as_u64().expect("a number");
    }
    assert_eq!(total, 20);
    let gone = server.get(ITEMS).header("x-ms-documentdb-partitionkeyrangeid", "99").send().await;
    gone.refused(410, 1002, "");
}

#[tokio::test]
async fn an_invalid_page_size_or_token_is_refused() {
    let server = Server::with_container().await;
    for size in ["-2", "many"] {
        server.get(ITEMS).header("x-ms-max-item-count", size).send().await.expect(400);
    }
    server.get(ITEMS).header("x-ms-max-item-count", "-1").send().await.expect(200);
    server.get(ITEMS).header("x-ms-continuation", "nonsense").send().await.expect(400);
}

#[tokio::test]
async fn ranges_cover_the_whole_space_and_stop_with_304() {
    let server = server_with_ranges(0).await;
    let incremental =
        || server.get(RANGES).header("a-im", "Incremental Feed").header("x-ms-max-item-count", "-1");
    let answer = incremental().send().await.expect(200);
    let feed = answer.json();
    let ranges = feed["PartitionKeyRanges"].as_array().expect("an array");
    assert_eq!(ranges.len(), 5);
    let mut lower = json!("");
    for range in ranges {
        assert_eq!(range["minInclusive"], lower);
        lower = range["maxExclusive"].clone();
        assert_eq!((&range["status"], &range["parents"]), (&json!("online"), &json!([])));
        assert!(range["id"].is_string() && range["_rid"].is_string() && range["throughputFraction"] == 0.2);
    }
    assert_eq!(lower, "FF");
    let unchanged = incremental().header("if-none-match", &answer.etag()).send().await.expect(304);
    assert_eq!(unchanged.etag(), answer.etag());
    incremental().header("if-none-match", "\"older\"").send().await.expect(200);
    server.get("/dbs/db/colls/none/pkranges").send().await.refused(404, 1003, "");
}

/// A window of effective partition keys is honoured, not ignored: windows partition the container.
#[tokio::test]
async fn windows_of_effective_keys_divide_the_items() {
    let server = Server::with_container().await;
    for number in 0..32 {
        server.create(json!({ "id": format!("i{number}"), "pk": format!("k{number}") })).await;
    }
    let bounds = ["", "0FFFFFFF", "1FFFFFFF", "2FFFFFFF", "FF"];
    let mut counts = Vec::new();
    for window in bounds.windows(2) {
        let call = server.get(ITEMS).header("x-ms-read-key-type", "EffectivePartitionKeyRange");
        let call = call.header("x-ms-start-epk", window[0]).header("x-ms-end-epk", window[1]);
        let answer = call.header("x-ms-documentdb-partitionkeyrangeid", "0").send().await.expect(200);
        counts.push(answer.json()["_count"].as_u64().expect("a number"));
    }
    assert_eq!(counts.iter().sum::<u64>(), 32, "{counts:?}");
    assert!(counts.iter().all(|count| *count < 32), "{counts:?}");
}

#[tokio::test]
async fn the_conflict_feed_is_empty() {
    let server = Server::with_container().await;
    let path = "/dbs/db/colls/items/conflicts";
    let feed = server.get(path).send().await.expect(200).json();
    assert_eq!((&feed["Conflicts"], &feed["_count"]), (&json!([]), &json!(0)));
    let query = || {
        let call = server.post(path).header("content-type", "application/query+json");
        call.json(json!({ "query": "SELECT * FROM c" }))
    };
    query().key(r#"["k"]"#).send().await.expect(200);
    query().header("x-ms-documentdb-query-enablecrosspartition", "true").send().await.expect(200);
    query().send().await.refused(400, 0, "Cross partition query is required but disabled");
    server.get(format!("{path}/a")).send().await.expect(404);
    server.delete(format!("{path}/a")).send().await.expect(404);
    server.get("/dbs/db/colls/none/conflicts").send().await.refused(404, 1003, "");
}
