//! TTL indexes: expired documents are deleted, whichever API wrote them, and change streams return the deletions.

use std::time::Duration;

use bson::doc;
use shardlake_account::{AccountOptions, ItemWrite, SplitAt, WriteCommand, item_of_json};
use shardlake_gateway_mongo::MongoSettings;
use shardlake_model::{PartitionKey, RequestContext};
use shardlake_mql::{Document, Value, equal};
use shardlake_stdx::{Clock, Guid};
use shardlake_storage::{Shard, ShardOptions};

use crate::client::{Client, NOW, Server, first_batch, of};

const PAST: i64 = NOW.0 as i64 - 1_000_000;
const FUTURE: i64 = NOW.0 as i64 + 1_000_000;

fn date(milliseconds: i64) -> bson::Bson {
    bson::Bson::DateTime(bson::DateTime::from_millis(milliseconds))
}

async fn ok(client: &mut Client, command: bson::Document) -> Document {
    client.ok("d", of(&command)).await
}

async fn ids(client: &mut Client, collection: &str) -> Vec<String> {
    let found =
        first_batch(&ok(client, doc! { "find": collection, "sort": { "_id": 1 }, "batchSize": 1000 }).await);
    found.iter().map(|document| document.value("_id").to_string()).collect()
}

fn ttl(path: &str, seconds: i32) -> bson::Document {
    doc! { "key": { path: 1 }, "name": path, "expireAfterSeconds": seconds }
}

#[tokio::test]
async fn documents_go_when_their_date_is_over() {
    let server = Server::start().await;
    let mut client = server.connect();
    let documents = vec![
        doc! { "_id": 1, "at": date(PAST) },
        doc! { "_id": 2, "at": date(FUTURE) },
        doc! { "_id": 3, "at": [date(FUTURE), date(PAST), "x"] },
        doc! { "_id": 4, "at": [date(FUTURE)] },
        doc! { "_id": 5 },
        doc! { "_id": 6, "at": "2001-01-01" },
        doc! { "_id": 7, "at": 1i64 },
        doc! { "_id": 8, "at": { "deep": date(PAST) } },
        doc! { "_id": 9, "at": [] },
        doc! { "_id": 10, "at": date(-1_000_000_000_000) },
        doc! { "_id": 11, "at": null },
        // Expires a second later.
        doc! { "_id": 12, "at": date(NOW.0 as i64 - 99_000) },
    ];
    ok(&mut client, doc! { "insert": "c", "documents": documents }).await;
    ok(&mut client, doc! { "createIndexes": "c", "indexes": [ttl("at", 100)] }).await;
    // Through the NoSQL API.
    let ctx = RequestContext::internal(&server.clock, Guid([1; 16]));
    let container = server.account.router().container_for_items("d", "c").expect("the container");
    let text = br#"{"id":"rest","at":{"$date":"2001-01-01T00:00:00Z"}}"#;
    let body = item_of_json(text, server.account.router().limits()).expect("an item");
    let write = WriteCommand::of(Some(PartitionKey(vec![])), ItemWrite::Create { body });
    server.account.items().write_item(&ctx, &container, write).await.expect("written");
    assert_eq!(server.account.expire_documents().await, 4);
    assert_eq!(ids(&mut client, "c").await, ["2", "4", "5", "6", "7", "8", "9", "11", "12"]);
    server.clock.advance(Duration::from_secs(1));
    assert_eq!(server.account.expire_documents().await, 1);
    server.clock.advance(Duration::from_secs(2000));
    assert_eq!(server.account.expire_documents().await, 2);
    assert_eq!(ids(&mut client, "c").await, ["5", "6", "7", "8", "9", "11"]);
    assert_eq!(server.account.expire_documents().await, 0);
}

#[tokio::test]
async fn an_index_with_a_collation_has_the_documents_that_its_filter_means() {
    let server = Server::start().await;
    let mut client = server.connect();
    ok(&mut client, doc! { "create": "c", "collation": { "locale": "en", "strength": 2 } }).await;
    let mut index = ttl("at", 100);
    index.insert("partialFilterExpression", doc! { "state": { "$lte": "closed" } });
    ok(&mut client, doc! { "createIndexes": "c", "indexes": [index] }).await;
    // By bytes the third would be before the filter's value, and the second behind it.
    let documents = ["closed", "CLOSED", "Zombie", "zombie", "Archived"];
    let documents = documents.iter().enumerate();
    let documents: Vec<_> =
        documents.map(|(id, state)| doc! { "_id": id as i32, "state": *state, "at": date(PAST) }).collect();
    ok(&mut client, doc! { "insert": "c", "documents": documents }).await;
    let ctx = RequestContext::internal(&server.clock, Guid([1; 16]));
    let container = server.account.router().container_for_items("d", "c").expect("the container");
    let text = br#"{"id":"rest","state":"Closed","at":{"$date":"2001-01-01T00:00:00Z"}}"#;
    let body = item_of_json(text, server.account.router().limits()).expect("an item");
    let write = WriteCommand::of(Some(PartitionKey(vec![])), ItemWrite::Create { body });
    server.account.items().write_item(&ctx, &container, write).await.expect("written");
    assert_eq!(server.account.expire_documents().await, 4);
    assert_eq!(ids(&mut client, "c").await, ["2", "3"]);
}

#[tokio::test]
async fn an_index_says_which_documents_have_an_end_and_when() {
    let server = Server::start().await;
    let mut client = server.connect();
    let documents = vec![
        doc! { "_id": 1, "a": { "at": date(PAST) }, "done": true, "mail": "m" },
        doc! { "_id": 2, "a": { "at": date(PAST) }, "done": false },
        doc! { "_id": 3, "a": [{ "at": date(FUTURE) }, { "at": date(PAST) }], "done": true },
    ];
    ok(&mut client, doc! { "insert": "c", "documents": documents }).await;
    let mut index = ttl("a.at", 100_000);
    index.insert("partialFilterExpression", doc! { "done": true });
    let unique = doc! { "key": { "mail": 1 }, "name": "mail", "unique": true, "sparse": true };
    ok(&mut client, doc! { "createIndexes": "c", "indexes": [index, unique] }).await;
    assert_eq!(server.account.expire_documents().await, 0, "not over yet");
    ok(&mut client, doc! { "collMod": "c", "index": { "name": "a.at", "expireAfterSeconds": 10 } }).await;
    assert_eq!(server.account.expire_documents().await, 2);
    assert_eq!(ids(&mut client, "c").await, ["2"]);
    ok(&mut client, doc! { "insert": "c", "documents": [{ "_id": 4, "mail": "m" }] }).await;
    ok(&mut client, doc! { "dropIndexes": "c", "index": "a.at" }).await;
    ok(
        &mut client,
        doc! { "update": "c", "updates": [{ "q": { "_id": 2 }, "u": { "$set": { "done": true } } }] },
    )
    .await;
    assert_eq!(server.account.expire_documents().await, 0, "the index is gone");
}

#[tokio::test]
async fn documents_of_all_partitions_go_also_after_splits() {
    let server = Server::start().await;
    let mut client = server.connect();
    ok(&mut client, doc! { "create": "s", "shardKey": { "k": "hashed" } }).await;
    ok(&mut client, doc! { "createIndexes": "s", "indexes": [ttl("at", 0)] }).await;
    let documents: Vec<bson::Document> = (0..3000)
        .map(|n| doc! { "_id": n, "k": n % 40, "at": date(if n % 3 == 0 { FUTURE } else { PAST }) })
        .collect();
    ok(&mut client, doc! { "insert": "s", "documents": documents }).await;
    let handle = server.account.router().container_for_items("d", "s").expect("the container");
    let split = server.account.maintenance().split(&handle, 0, SplitAt::Middle).await.expect("begins");
    split.finished().await.expect("ends well");
    assert_eq!(server.account.expire_documents().await, 2000);
    let count = ok(&mut client, doc! { "count": "s" }).await;
    assert_eq!(count.value("n").to_i64_exact(), Some(1000));
}

#[tokio::test]
async fn the_server_looks_by_itself_and_change_streams_tell_of_it() {
    let shard = Shard::open(ShardOptions::memory()).await.expect("a shard in memory opens");
    let options =
        AccountOptions { expiry_every: Some(Duration::from_millis(1)), ..AccountOptions::default() };
    let server =
        Server::with_options(vec![shard], MongoSettings::default(), Clock::manual(NOW), options).await;
    let mut client = server.connect();
    ok(&mut client, doc! { "createIndexes": "c", "indexes": [ttl("at", 0)] }).await;
    let stream = doc! {
        "aggregate": "c", "cursor": {},
        "pipeline": [{ "$changeStream": {} }, { "$match": { "operationType": "delete" } }],
    };
    let opened = ok(&mut client, stream).await;
    let cursor = opened.value("cursor").as_document().expect("a cursor").value("id").to_i64_exact();
    ok(&mut client, doc! { "insert": "c", "documents": [{ "_id": 1, "at": date(PAST) }] }).await;
    // Waits for the event, however long it takes.
    let event = loop {
        let more = doc! { "getMore": cursor, "collection": "c", "maxTimeMS": 1000 };
        let reply = ok(&mut client, more).await;
        server.clock.advance(Duration::from_millis(1));
        let batch = reply.value("cursor").as_document().expect("a cursor").value("nextBatch");
        if let Some(event) = batch.as_array().and_then(|events| events.first()).cloned() {
            break event;
        }
    };
    let key = event.as_document().expect("an event").value("documentKey");
    assert!(equal(&key, &Value::document(Document::one("_id", Value::Int(1)))), "{key}");
}
