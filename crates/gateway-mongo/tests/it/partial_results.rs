//! Commands that fail in the middle, and cursors over documents that are deleted meanwhile: which writes stay, and which documents come.

use bson::{Bson, doc};
use shardlake_mql::{Document, Value};

use crate::client::{Client, Server, of};

async fn ids(client: &mut Client, collection: &str) -> Vec<i32> {
    let reply = client.ok("d", of(&doc! { "find": collection, "sort": { "_id": 1 } })).await;
    ids_of(&reply, "firstBatch")
}

fn ids_of(reply: &Document, batch: &str) -> Vec<i32> {
    let cursor = reply.value("cursor").as_document().cloned().expect("a cursor");
    let batch = cursor.value(batch);
    let documents = batch.as_array().expect("a batch").iter().filter_map(Value::as_document);
    documents.map(|document| document.value("_id").to_i32_exact().expect("a number")).collect()
}

fn cursor_id(reply: &Document) -> i64 {
    let cursor = reply.value("cursor").as_document().cloned().expect("a cursor");
    cursor.value("id").to_i64_exact().expect("an id")
}

/// A server whose collection `from` has the documents 0 to 9.
async fn filled() -> (Server, Client) {
    let server = Server::start().await;
    let mut client = server.connect();
    let documents: Vec<_> = (0..10).map(|n| doc! { "_id": n, "a": n }).collect();
    client.ok("d", of(&doc! { "insert": "from", "documents": documents })).await;
    (server, client)
}

fn aggregate(stages: &[bson::Document]) -> Document {
    of(&doc! { "aggregate": "from", "pipeline": stages, "cursor": {} })
}

#[tokio::test]
async fn a_merge_that_fails_on_one_document_writes_the_others() {
    let (_server, mut client) = filled().await;
    let all: Vec<i32> = (0..10).collect();
    let merge = |into: &str, matched: &str, otherwise: &str| {
        aggregate(&[
            doc! { "$sort": { "_id": 1 } },
            doc! { "$merge": { "into": into, "whenMatched": matched, "whenNotMatched": otherwise } },
        ])
    };
    // The document in the middle is there already.
    client.ok("d", of(&doc! { "insert": "matched", "documents": [{ "_id": 5, "old": true }] })).await;
    assert_eq!(client.fails("d", merge("matched", "fail", "insert")).await, 11000);
    assert_eq!(ids(&mut client, "matched").await, all);
    let kept = client.ok("d", of(&doc! { "find": "matched", "filter": { "old": true } })).await;
    assert_eq!(ids_of(&kept, "firstBatch"), [5], "the matched document stays");

    // The document in the middle is not there.
    let others: Vec<_> = (0..10).filter(|n| *n != 5).map(|n| doc! { "_id": n }).collect();
    client.ok("d", of(&doc! { "insert": "missing", "documents": others })).await;
    assert_eq!(client.fails("d", merge("missing", "merge", "fail")).await, 13113);
    let merged =
        client.ok("d", of(&doc! { "find": "missing", "filter": { "a": { "$exists": true } } })).await;
    let mut merged = ids_of(&merged, "firstBatch");
    merged.sort_unstable();
    assert_eq!(merged, [0, 1, 2, 3, 4, 6, 7, 8, 9]);

    // The validator and a unique index refuse the document in the middle.
    client.ok("d", of(&doc! { "create": "valid", "validator": { "a": { "$ne": 5 } } })).await;
    assert_eq!(client.fails("d", merge("valid", "replace", "insert")).await, 121);
    assert_eq!(ids(&mut client, "valid").await, [0, 1, 2, 3, 4, 6, 7, 8, 9]);
    let index = doc! { "key": { "a": 1 }, "name": "a", "unique": true };
    client.ok("d", of(&doc! { "createIndexes": "unique", "indexes": [index] })).await;
    client.ok("d", of(&doc! { "insert": "unique", "documents": [{ "_id": 50, "a": 5 }] })).await;
    assert_eq!(client.fails("d", merge("unique", "replace", "insert")).await, 11000);
    assert_eq!(ids(&mut client, "unique").await, [0, 1, 2, 3, 4, 6, 7, 8, 9, 50]);
}

#[tokio::test]
async fn an_out_that_fails_leaves_the_old_collection_as_it_was() {
    let (_server, mut client) = filled().await;
    let index = doc! { "key": { "a": 1 }, "name": "a", "unique": true };
    client.ok("d", of(&doc! { "createIndexes": "to", "indexes": [index] })).await;
    client.ok("d", of(&doc! { "insert": "to", "documents": [{ "_id": 100, "a": 0 }] })).await;
    let twice = doc! { "$set": { "a": { "$cond": [{ "$eq": ["$_id", 5] }, 4, "$a"] } } };
    assert_eq!(client.fails("d", aggregate(&[twice, doc! { "$out": "to" }])).await, 11000);
    assert_eq!(ids(&mut client, "to").await, [100]);
    // The pipeline itself fails in the middle.
    let fails = doc! { "$set": { "b": { "$divide": [1, { "$subtract": ["$a", 5] }] } } };
    for stage in [doc! { "$out": "to" }, doc! { "$merge": "to" }] {
        let code = client.fails("d", aggregate(&[fails.clone(), stage.clone()])).await;
        assert_eq!(code, 2, "{stage}");
    }
    assert!(ids(&mut client, "to").await.contains(&100));
    client.ok("d", aggregate(&[doc! { "$out": "to" }])).await;
    assert_eq!(ids(&mut client, "to").await, (0..10).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_cursor_does_not_give_documents_that_were_deleted_after_its_last_batch() {
    let (_server, mut client) = filled().await;
    let first = client.ok("d", of(&doc! { "find": "from", "batchSize": 2 })).await;
    assert_eq!(ids_of(&first, "firstBatch"), [0, 1]);
    let delete = |ids: &[i32]| {
        let deletes = ids.iter().map(|id| doc! { "q": { "_id": id }, "limit": 1 }).collect::<Vec<_>>();
        of(&doc! { "delete": "from", "deletes": deletes })
    };
    let more = |id: i64, size: i32| of(&doc! { "getMore": id, "collection": "from", "batchSize": size });
    client.ok("d", delete(&[0, 2, 4])).await;
    client
        .ok(
            "d",
            of(&doc! { "update": "from", "updates": [{ "q": { "_id": 3 }, "u": { "$set": { "b": 1 } } }] }),
        )
        .await;
    let second = client.ok("d", more(cursor_id(&first), 2)).await;
    assert_eq!(ids_of(&second, "nextBatch"), [3, 5]);
    let shown = second.value("cursor").as_document().expect("a cursor").value("nextBatch").to_string();
    assert!(shown.contains("b: 1"), "the document as it is now: {shown}");
    client.ok("d", delete(&[6, 7, 8, 9])).await;
    let third = client.ok("d", more(cursor_id(&second), 2)).await;
    assert_eq!(ids_of(&third, "nextBatch"), [0; 0]);
    assert_eq!(cursor_id(&third), 0);
}

#[tokio::test]
async fn a_full_batch_leaves_its_cursor_open() {
    let (_server, mut client) = filled().await;
    let first = client.ok("d", of(&doc! { "find": "from", "batchSize": 5 })).await;
    let more = |id: i64| of(&doc! { "getMore": id, "collection": "from", "batchSize": 5 });
    let second = client.ok("d", more(cursor_id(&first))).await;
    assert_eq!(ids_of(&second, "nextBatch"), [5, 6, 7, 8, 9]);
    let third = client.ok("d", more(cursor_id(&second))).await;
    assert_eq!((ids_of(&third, "nextBatch"), cursor_id(&third)), (Vec::new(), 0));
    let limited = client.ok("d", of(&doc! { "find": "from", "batchSize": 5, "limit": 5 })).await;
    assert_eq!(cursor_id(&limited), 0, "a limit ends the cursor");
}

#[tokio::test]
async fn distinct_keeps_values_and_no_documents() {
    let server = Server::start().await;
    let mut client = server.connect();
    // More than a command may hold of documents would be needed to see a difference in memory; the bound on values is that of MongoDB.
    let long = "x".repeat(3 << 20);
    for n in 0..6 {
        let document =
            doc! { "_id": n, "few": n % 2, "many": format!("{n}{long}"), "list": [n, [n], Bson::Null] };
        client.ok("d", of(&doc! { "insert": "c", "documents": [document] })).await;
    }
    let distinct = |key: &str| of(&doc! { "distinct": "c", "key": key });
    let few = client.ok("d", distinct("few")).await;
    assert_eq!(few.value("values").to_string(), "[ 0, 1 ]");
    let list = client.ok("d", distinct("list")).await;
    assert_eq!(list.value("values").as_array().map(|values| values.len()), Some(13));
    assert_eq!(client.fails("d", distinct("many")).await, 17217);
    let narrowed = of(&doc! { "distinct": "c", "key": "many", "query": { "_id": { "$lt": 5 } } });
    assert_eq!(client.ok("d", narrowed).await.value("values").as_array().map(|values| values.len()), Some(5));
}
