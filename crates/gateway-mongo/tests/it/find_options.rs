//! `returnKey` and `showRecordId`: keys of the index in use, and record numbers.

use std::collections::BTreeSet;

use bson::doc;
use shardlake_mql::{Document, Value};

use crate::client::{Client, Server, first_batch, of};

async fn ok(client: &mut Client, command: bson::Document) -> Document {
    client.ok("d", of(&command)).await
}

async fn found(client: &mut Client, fields: bson::Document) -> Vec<Document> {
    let mut find = doc! { "find": "c" };
    find.extend(fields);
    first_batch(&ok(client, find).await)
}

fn texts(documents: &[Document]) -> Vec<String> {
    documents.iter().map(ToString::to_string).collect()
}

async fn filled() -> (Server, Client) {
    let server = Server::start().await;
    let mut client = server.connect();
    let documents = [
        doc! { "_id": 1, "n": 2, "s": "b", "h": "string to hash" },
        doc! { "_id": 2, "n": 3 },
        doc! { "_id": 3, "n": [5, 9], "s": "c", "in": { "x": 4 } },
    ];
    ok(&mut client, doc! { "insert": "c", "documents": documents.to_vec() }).await;
    let indexes = [
        doc! { "key": { "n": 1, "s": -1 }, "name": "ns" },
        doc! { "key": { "h": "hashed" }, "name": "h" },
        doc! { "key": { "in.x": 1 }, "name": "in", "sparse": true },
        doc! { "key": { "w.$**": 1 }, "name": "w" },
    ];
    ok(&mut client, doc! { "createIndexes": "c", "indexes": indexes.to_vec() }).await;
    ok(&mut client, doc! { "create": "v", "viewOn": "c" }).await;
    (server, client)
}

#[tokio::test]
async fn keys_are_those_of_the_index_that_answers() {
    let (_server, mut client) = filled().await;
    for (fields, keys) in [
        (doc! {}, vec!["{}", "{}", "{}"]),
        (doc! { "filter": { "s": null } }, vec!["{}"]),
        // Each field of an index serves alone, as explain shows.
        (doc! { "filter": { "s": "b" } }, vec![r#"{ n: 2, s: "b" }"#]),
        (doc! { "filter": { "_id": 2 } }, vec!["{ _id: 2 }"]),
        (doc! { "filter": { "n": 2 }, "projection": { "s": 1 } }, vec![r#"{ n: 2, s: "b" }"#]),
        (doc! { "filter": { "n": 3 } }, vec!["{ n: 3, s: null }"]),
        // The key of an array is its first matching element in the order of the index.
        (doc! { "filter": { "n": { "$gt": 6 } } }, vec![r#"{ n: 9, s: "c" }"#]),
        (doc! { "filter": { "n": { "$gt": 4 } } }, vec![r#"{ n: 5, s: "c" }"#]),
        (doc! { "filter": { "h": "string to hash" } }, vec!["{ h: 763543691661428748 }"]),
        (doc! { "hint": "in" }, vec!["{ in.x: 4 }"]),
        (
            doc! { "hint": { "n": 1, "s": -1 }, "sort": { "_id": 1 }, "limit": 2 },
            vec![r#"{ n: 2, s: "b" }"#, "{ n: 3, s: null }"],
        ),
        (doc! { "filter": { "n": 2 }, "hint": { "$natural": 1 } }, vec!["{}"]),
    ] {
        let mut asked = doc! { "returnKey": true };
        asked.extend(fields.clone());
        let shown = texts(&found(&mut client, asked).await);
        assert_eq!(shown, keys, "{fields}");
    }
    let of_view = doc! { "find": "v", "returnKey": true };
    assert_eq!(client.fails("d", of(&of_view)).await, 168);
    let of_wildcard = doc! { "find": "c", "filter": { "w.a": 1 }, "hint": "w", "returnKey": true };
    assert_eq!(client.fails("d", of(&of_wildcard)).await, 238, "one of its keys is not known");
}

fn record_ids(documents: &[Document]) -> Vec<(i64, i64)> {
    let number = |document: &Document, name: &str| document.value(name).to_i64_exact().expect("a number");
    let shown = documents.iter().map(|document| {
        assert!(matches!(document.get("$recordId"), Some(Value::Long(_))), "{document}");
        assert_eq!(document.iter().last().map(|(name, _)| &**name), Some("$recordId"));
        (number(document, "_id"), number(document, "$recordId"))
    });
    shown.collect()
}

#[tokio::test]
async fn a_document_keeps_its_number() {
    let (_server, mut client) = filled().await;
    let asked = doc! { "showRecordId": true, "sort": { "_id": 1 } };
    let numbers = record_ids(&found(&mut client, asked.clone()).await);
    assert_eq!(numbers.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(numbers.is_sorted_by_key(|(_, number)| *number), "{numbers:?}");
    let update = doc! { "q": { "_id": 2 }, "u": { "_id": 2, "other": true } };
    ok(&mut client, doc! { "update": "c", "updates": [update] }).await;
    ok(&mut client, doc! { "delete": "c", "deletes": [{ "q": { "_id": 1 }, "limit": 1 }] }).await;
    ok(&mut client, doc! { "insert": "c", "documents": [{ "_id": 0 }] }).await;
    let later = record_ids(&found(&mut client, asked).await);
    assert_eq!(later[1..], numbers[1..]);
    assert!(later[0].1 > numbers[2].1, "it was inserted last");
    let one = doc! { "filter": { "_id": 3 }, "showRecordId": true, "projection": { "n": 1 } };
    assert_eq!(record_ids(&found(&mut client, one).await), numbers[2..]);
    let with_keys = doc! { "filter": { "_id": 3 }, "showRecordId": true, "returnKey": true };
    let shown = found(&mut client, with_keys).await;
    assert_eq!(shown[0].to_string(), format!("{{ _id: 3, $recordId: {} }}", numbers[2].1));
    assert_eq!(client.fails("d", of(&doc! { "find": "v", "showRecordId": true })).await, 168);
    assert!(!found(&mut client, doc! { "showRecordId": false }).await[0].has("$recordId"));
}

#[tokio::test]
async fn numbers_of_documents_differ_through_all_partitions_and_batches() {
    let server = Server::start().await;
    let mut client = server.connect();
    ok(&mut client, doc! { "create": "c", "shardKey": { "k": "hashed" } }).await;
    let documents: Vec<_> = (0..60).map(|id| doc! { "_id": id, "k": id % 7 }).collect();
    ok(&mut client, doc! { "insert": "c", "documents": documents }).await;
    let reply = ok(&mut client, doc! { "find": "c", "showRecordId": true, "batchSize": 25, "skip": 5 }).await;
    let mut shown = record_ids(&first_batch(&reply));
    let cursor = reply.value("cursor");
    let mut id = cursor.as_document().expect("a cursor").value("id").to_i64_exact().expect("an id");
    while id != 0 {
        let reply = ok(&mut client, doc! { "getMore": id, "collection": "c", "batchSize": 25 }).await;
        let cursor = reply.value("cursor");
        let cursor = cursor.as_document().expect("a cursor");
        id = cursor.value("id").to_i64_exact().expect("an id");
        let batch = cursor.value("nextBatch");
        let batch = batch.as_array().expect("a batch").iter().filter_map(Value::as_document);
        shown.extend(record_ids(&batch.map(|found| Document::clone(found)).collect::<Vec<_>>()));
    }
    let numbers: BTreeSet<i64> = shown.iter().map(|(_, number)| *number).collect();
    assert_eq!((shown.len(), numbers.len()), (55, 55));
}
