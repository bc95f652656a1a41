//! `explain` of a sharded collection: the partitions that are read, and the work of each.

use bson::doc;
use shardlake_account::SplitAt;
use shardlake_mql::{Document, Value};

use crate::client::{Client, Server, of};

const PARTITIONS: usize = 3;
const DOCUMENTS: i32 = 100;

async fn sharded() -> (Server, Client) {
    let server = Server::start().await;
    let mut client = server.connect();
    client.ok("d", of(&doc! { "create": "c", "shardKey": { "tenant": "hashed" } })).await;
    let documents: Vec<_> = (0..DOCUMENTS).map(|n| doc! { "_id": n, "tenant": n % 20, "n": n }).collect();
    client.ok("d", of(&doc! { "insert": "c", "documents": documents, "ordered": false })).await;
    for range in [0, 1] {
        let handle = server.account.router().container_for_items("d", "c").expect("the container");
        let split =
            server.account.maintenance().split(&handle, range, SplitAt::Middle).await.expect("begins");
        split.finished().await.expect("ends well");
    }
    (server, client)
}

async fn explained(client: &mut Client, command: bson::Document) -> Document {
    client.ok("d", of(&doc! { "explain": command, "verbosity": "executionStats" })).await
}

fn inner(document: &Document, path: &[&str]) -> Document {
    path.iter().fold(document.clone(), |inner, name| {
        let value = inner.value(name);
        Document::clone(
            value.as_document().unwrap_or_else(|| panic!("{name} in {}", Value::from(inner.clone()))),
        )
    })
}

fn number(document: &Document, name: &str) -> i64 {
    document
        .value(name)
        .to_i64_exact()
        .unwrap_or_else(|| panic!("{name} in {}", Value::from(document.clone())))
}

fn charge(document: &Document) -> f64 {
    document.value("requestCharge").to_f64().expect("a charge")
}

fn shards(document: &Document) -> Vec<Document> {
    let shards = document.value("shards");
    let shards = shards.as_array().expect("shards").iter();
    shards.map(|shard| Document::clone(shard.as_document().expect("a shard"))).collect()
}

fn sum(shards: &[Document], name: &str) -> i64 {
    shards.iter().map(|shard| number(shard, name)).sum()
}

#[tokio::test]
async fn a_find_by_the_shard_key_asks_one_partition_and_another_asks_all() {
    let (_server, mut client) = sharded().await;
    for (command, stage, asked, returned) in [
        (doc! { "find": "c", "filter": { "tenant": 7 } }, "SINGLE_SHARD", 1, 5),
        (doc! { "find": "c", "filter": { "tenant": 7, "_id": 27 } }, "SINGLE_SHARD", 1, 1),
        (doc! { "find": "c", "filter": { "n": { "$gte": 90 } } }, "SHARD_MERGE", PARTITIONS, 10),
        (doc! { "find": "c", "filter": {}, "sort": { "n": -1 } }, "SHARD_MERGE_SORT", PARTITIONS, 100),
        (doc! { "find": "c", "skip": 5, "limit": 20 }, "SHARD_MERGE", PARTITIONS, 20),
        (doc! { "count": "c", "query": { "n": { "$lt": 4 } } }, "SHARD_MERGE", PARTITIONS, 4),
        (doc! { "delete": "c", "deletes": [{ "q": { "tenant": 3 }, "limit": 0 }] }, "SINGLE_SHARD", 1, 5),
    ] {
        let told = explained(&mut client, command.clone()).await;
        let plan = inner(&told, &["queryPlanner", "winningPlan"]);
        let stats = inner(&told, &["executionStats"]);
        let stages = inner(&stats, &["executionStages"]);
        for stages in [&plan, &stages] {
            assert_eq!(stages.value("stage").as_str(), Some(stage), "{command}");
            assert_eq!(shards(stages).len(), asked, "{command}");
        }
        assert_eq!(number(&stats, "partitionsAsked"), asked as i64, "{command}");
        assert_eq!(number(&stats, "partitions"), PARTITIONS as i64, "{command}");
        assert_eq!(number(&stats, "nReturned"), returned, "{command}");
        let shards = shards(&stages);
        assert!(sum(&shards, "nReturned") >= returned, "{command}");
        assert_eq!(sum(&shards, "totalDocsExamined"), number(&stats, "totalDocsExamined"), "{command}");
        let charges: f64 = shards.iter().map(charge).sum();
        assert!((charges - charge(&stats)).abs() < 0.001, "{command}: {charges} of {}", charge(&stats));
        let mut numbers: Vec<_> = shards.iter().map(|shard| number(shard, "partition")).collect();
        numbers.dedup();
        assert_eq!(numbers.len(), asked, "{command}: each partition once");
    }
    let left = client.ok("d", of(&doc! { "count": "c" })).await;
    assert_eq!(number(&left, "n"), i64::from(DOCUMENTS), "nothing is deleted");
}

#[tokio::test]
async fn a_collection_that_is_not_sharded_shows_no_shards() {
    let server = Server::start().await;
    let mut client = server.connect();
    client.ok("d", of(&doc! { "insert": "c", "documents": [{ "_id": 1 }] })).await;
    let told = explained(&mut client, doc! { "find": "c" }).await;
    assert_eq!(inner(&told, &["queryPlanner", "winningPlan"]).value("stage").as_str(), Some("COLLSCAN"));
    assert!(!inner(&told, &["executionStats"]).has("partitionsAsked"));
}
