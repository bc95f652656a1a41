//! Support for tools for sharded clusters: the database `config`, the commands that shard, and the analysis of shard keys.

use bson::doc;
use shardlake_account::SplitAt;
use shardlake_mql::{Document, Value, equal};

use crate::client::{Client, Server, first_batch, of};

async fn ok(client: &mut Client, database: &str, command: bson::Document) -> Document {
    client.ok(database, of(&command)).await
}

async fn rows(client: &mut Client, collection: &str, filter: bson::Document) -> Vec<Document> {
    first_batch(&ok(client, "config", doc! { "find": collection, "filter": filter }).await)
}

async fn sharded(server: &Server, client: &mut Client) {
    ok(client, "d", doc! { "create": "s", "shardKey": { "k": "hashed" } }).await;
    let documents: Vec<bson::Document> =
        (0..60).map(|n| doc! { "_id": n, "k": n % 20, "pad": "x".repeat(100) }).collect();
    ok(client, "d", doc! { "insert": "s", "documents": documents }).await;
    ok(client, "d", doc! { "insert": "plain", "documents": [{ "_id": 1 }] }).await;
    let handle = server.account.router().container_for_items("d", "s").expect("the container");
    let split = server.account.maintenance().split(&handle, 0, SplitAt::Middle).await.expect("begins");
    split.finished().await.expect("ends well");
}

#[tokio::test]
async fn the_database_config_shows_shards_collections_and_chunks() {
    let server = Server::start().await;
    let mut client = server.connect();
    sharded(&server, &mut client).await;
    let collections = rows(&mut client, "collections", doc! { "_id": { "$regex": "^d\\." } }).await;
    assert_eq!(collections.len(), 1, "the other one is not sharded");
    assert_eq!(collections[0].value("_id").as_str(), Some("d.s"));
    assert!(equal(&collections[0].value("key"), &Value::document(Document::one("k", "hashed"))));
    let uuid = collections[0].value("uuid");
    // The query of `sh.status()`.
    let pipeline = vec![doc! { "$group": { "_id": "$shard", "cnt": { "$sum": 1 } } }];
    let counted =
        ok(&mut client, "config", doc! { "aggregate": "chunks", "pipeline": pipeline, "cursor": {} }).await;
    let counted = first_batch(&counted);
    assert_eq!(counted[0].value("_id").as_str(), Some("shard0"));
    assert_eq!(counted[0].value("cnt").to_i64_exact(), Some(2));
    let sorted = doc! { "find": "chunks", "filter": {}, "sort": { "min": 1 } };
    let chunks = first_batch(&ok(&mut client, "config", sorted).await);
    assert!(chunks.iter().all(|chunk| equal(&chunk.value("uuid"), &uuid)));
    let bound = |chunk: &Document, name: &str| chunk.value(name).as_document().expect("a bound").value("k");
    assert!(matches!(bound(&chunks[0], "min"), Value::MinKey));
    assert!(matches!(bound(&chunks[0], "max"), Value::Long(_)));
    assert!(equal(&bound(&chunks[0], "max"), &bound(&chunks[1], "min")));
    assert!(matches!(bound(&chunks[1], "max"), Value::MaxKey));
    let shards = rows(&mut client, "shards", doc! { "_id": "shard0" }).await;
    assert_eq!(shards[0].value("state").to_i64_exact(), Some(1));
    assert!(
        rows(&mut client, "databases", doc! {})
            .await
            .iter()
            .any(|row| row.value("_id").as_str() == Some("d"))
    );
    assert_eq!(rows(&mut client, "settings", doc! { "_id": "balancer" }).await.len(), 1);
    for name in ["version", "mongos"] {
        assert_eq!(rows(&mut client, name, doc! {}).await.len(), 1, "{name}");
    }
    for name in ["tags", "changelog", "locks"] {
        assert!(rows(&mut client, name, doc! {}).await.is_empty(), "{name}");
    }
    let count = ok(&mut client, "config", doc! { "count": "chunks" }).await;
    assert_eq!(count.value("n").to_i64_exact(), Some(2));
    let listed = first_batch(&ok(&mut client, "config", doc! { "listCollections": 1 }).await);
    assert!(listed.iter().any(|entry| entry.value("name").as_str() == Some("chunks")));
    assert_eq!(client.fails("config", of(&doc! { "insert": "chunks", "documents": [{}] })).await, 13);
}

#[tokio::test]
async fn data_is_told_by_shard() {
    let server = Server::start().await;
    let mut client = server.connect();
    sharded(&server, &mut client).await;
    let pipeline = vec![doc! { "$collStats": { "storageStats": {}, "count": {} } }];
    let stats = doc! { "aggregate": "s", "pipeline": &pipeline, "cursor": {} };
    let stats = first_batch(&ok(&mut client, "d", stats).await);
    assert_eq!(stats.len(), 1, "one storage shard");
    assert_eq!(stats[0].value("shard").as_str(), Some("shard0"));
    assert_eq!(stats[0].value("count").to_i64_exact(), Some(60));
    let storage = stats[0].value("storageStats");
    assert!(storage.as_document().expect("figures").value("sharded").is_true());
    let plain = doc! { "aggregate": "plain", "pipeline": pipeline, "cursor": {} };
    assert!(!first_batch(&ok(&mut client, "d", plain).await)[0].has("shard"));
    let whole = ok(&mut client, "d", doc! { "collStats": "s" }).await;
    assert!(whole.value("shards").as_document().is_some_and(|shards| shards.has("shard0")));
    let spread = doc! { "aggregate": 1, "pipeline": [{ "$shardedDataDistribution": {} }], "cursor": {} };
    let spread = first_batch(&ok(&mut client, "admin", spread).await);
    assert_eq!(spread.len(), 1);
    assert_eq!(spread[0].value("ns").as_str(), Some("d.s"));
}

#[tokio::test]
async fn uses_of_indexes_are_counted_and_sizes_that_are_not_known_left_out() {
    let server = Server::start().await;
    let mut client = server.connect();
    ok(&mut client, "d", doc! { "insert": "c", "documents": [{ "_id": 1, "a": 1, "b": 1 }] }).await;
    let indexes = vec![doc! { "key": { "a": 1 }, "name": "a" }, doc! { "key": { "b": 1 }, "name": "b" }];
    ok(&mut client, "d", doc! { "createIndexes": "c", "indexes": indexes }).await;
    for _ in 0..3 {
        ok(&mut client, "d", doc! { "find": "c", "filter": { "a": { "$gt": 0 } } }).await;
    }
    ok(&mut client, "d", doc! { "find": "c", "filter": { "_id": 1 } }).await;
    let update = doc! { "update": "c", "updates": [{ "q": { "_id": 1 }, "u": { "$set": { "c": 1 } } }] };
    ok(&mut client, "d", update).await;
    let stage = doc! { "aggregate": "c", "pipeline": [{ "$indexStats": {} }], "cursor": {} };
    let shown = first_batch(&ok(&mut client, "d", stage).await);
    let uses: Vec<(String, i64)> = shown
        .iter()
        .map(|index| {
            let accesses = index.value("accesses");
            let ops = accesses.as_document().expect("accesses").value("ops").to_i64_exact();
            (index.value("name").as_str().expect("a name").to_owned(), ops.expect("a number"))
        })
        .collect();
    assert_eq!(uses, [("_id_", 2), ("a", 3), ("b", 0)].map(|(name, ops)| (name.to_owned(), ops)));
    let stats = ok(&mut client, "d", doc! { "collStats": "c" }).await;
    assert!(!stats.has("totalIndexSize") && !stats.has("indexSizes"));
}

#[tokio::test]
async fn what_the_server_balances_by_itself_is_told_and_not_ordered() {
    let server = Server::start().await;
    let mut client = server.connect();
    sharded(&server, &mut client).await;
    let status = ok(&mut client, "admin", doc! { "balancerStatus": 1 }).await;
    assert_eq!(status.value("mode").as_str(), Some("full"));
    let of_collection = ok(&mut client, "admin", doc! { "balancerCollectionStatus": "d.s" }).await;
    assert!(of_collection.value("balancerCompliant").is_true());
    assert_eq!(client.fails("admin", of(&doc! { "balancerCollectionStatus": "d.plain" })).await, 118);
    ok(&mut client, "admin", doc! { "flushRouterConfig": 1 }).await;
    ok(&mut client, "admin", doc! { "isdbgrid": 1 }).await;
    for command in [
        doc! { "reshardCollection": "d.s", "key": { "n": 1 } },
        doc! { "refineCollectionShardKey": "d.s", "key": { "k": 1, "n": 1 } },
        doc! { "configureQueryAnalyzer": "d.s", "mode": "full", "samplesPerSecond": 1 },
        doc! { "moveChunk": "d.s", "find": { "k": 1 }, "to": "shard0" },
        doc! { "balancerStop": 1 },
        doc! { "addShard": "x/y:1" },
    ] {
        let reply = client.run("admin", of(&command)).await;
        assert_eq!(reply.value("code").to_i32_exact(), Some(115), "{command}");
        let (name, _) = command.iter().next().expect("a name");
        assert!(
            reply.value("errmsg").as_str().is_some_and(|words| words.starts_with(name.as_str())),
            "{reply:?}"
        );
    }
}

#[tokio::test]
async fn a_shard_key_is_analyzed_from_the_documents() {
    let server = Server::start().await;
    let mut client = server.connect();
    let mut documents: Vec<bson::Document> =
        (0..50).map(|n| doc! { "_id": n, "k": n % 10, "u": n }).collect();
    documents.extend((50..80).map(|n| doc! { "_id": n, "k": 3.0, "u": n }));
    ok(&mut client, "d", doc! { "insert": "c", "documents": documents }).await;
    let unique = doc! { "key": { "u": 1 }, "name": "u", "unique": true };
    ok(&mut client, "d", doc! { "createIndexes": "c", "indexes": [unique] }).await;
    let analyze = |key: bson::Document| doc! { "analyzeShardKey": "d.c", "key": key };
    let told = ok(&mut client, "admin", analyze(doc! { "k": "hashed" })).await;
    let found = told.value("keyCharacteristics");
    let found = found.as_document().expect("characteristics");
    let number = |name: &str| found.value(name).to_i64_exact();
    assert_eq!(
        (number("numDocsTotal"), number("numDocsSampled"), number("numDistinctValues")),
        (Some(80), Some(80), Some(10))
    );
    assert!(!found.value("isUnique").is_true());
    let common = found.value("mostCommonValues");
    let first = common.as_array().expect("a list")[0].clone();
    let first = first.as_document().expect("a value");
    assert_eq!(first.value("frequency").to_i64_exact(), Some(35), "3 and 3.0 are one value");
    assert_eq!(common.as_array().map(|list| list.len()), Some(5));
    let reads = told.value("readDistribution");
    let size = reads.as_document().expect("reads").value("sampleSize");
    assert_eq!(
        size.as_document().expect("counts").value("total").to_i64_exact(),
        Some(0),
        "queries are not sampled"
    );
    let told = ok(&mut client, "admin", analyze(doc! { "u": 1 })).await;
    let found = told.value("keyCharacteristics");
    assert!(found.as_document().expect("characteristics").value("isUnique").is_true());
    let mut some = analyze(doc! { "k": 1 });
    some.insert("sampleSize", 20);
    some.insert("readWriteDistribution", false);
    let told = ok(&mut client, "admin", some).await;
    assert!(!told.has("readDistribution"));
    let found = told.value("keyCharacteristics");
    let sampled = found.as_document().expect("characteristics").value("numDocsSampled").to_i64_exact();
    assert!(sampled.is_some_and(|sampled| (1..80).contains(&sampled)), "{sampled:?}");
    for (fields, code) in [
        (doc! { "sampleRate": 0.5, "sampleSize": 5 }, 72),
        (doc! { "sampleRate": 2.0 }, 2),
        (doc! { "keyCharacteristics": false, "readWriteDistribution": false }, 72),
        (doc! { "analyzeShardKey": "d.none" }, 26),
        (doc! { "analyzeShardKey": "config.chunks" }, 20),
        (doc! { "key": {} }, 72),
    ] {
        let mut command = analyze(doc! { "k": 1 });
        command.extend(fields.clone());
        assert_eq!(client.fails("admin", of(&command)).await, code, "{fields}");
    }
    ok(&mut client, "d", doc! { "create": "empty" }).await;
    let empty = doc! { "analyzeShardKey": "d.empty", "key": { "k": 1 } };
    assert_eq!(client.fails("admin", of(&empty)).await, 20);
}
