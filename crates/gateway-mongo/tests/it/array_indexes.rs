//! Arrays in indexes: unique values in arrays, arrays that an index refuses, and the counts of `validate`.

use bson::doc;
use shardlake_mql::{Document, Value};

use crate::client::{Client, Server, of};

async fn ok(client: &mut Client, command: bson::Document) -> Document {
    client.ok("d", of(&command)).await
}

/// The code of the write error, 0 for none.
async fn insert(client: &mut Client, document: bson::Document) -> i32 {
    let reply = client.run("d", of(&doc! { "insert": "c", "documents": [document] })).await;
    let errors = reply.value("writeErrors");
    let first = errors.as_array().and_then(|errors| errors.first()).cloned().unwrap_or_default();
    first.as_document().and_then(|error| error.value("code").to_i32_exact()).unwrap_or(0)
}

async fn index(client: &mut Client, key: bson::Document, is_unique: bool) {
    let index = doc! { "key": key, "name": "i", "unique": is_unique };
    ok(client, doc! { "createIndexes": "c", "indexes": [index] }).await;
}

#[tokio::test]
async fn unique_indexes_know_positions_arrays_in_arrays_and_regular_expressions() {
    let regex = |pattern: &str| {
        bson::Bson::RegularExpression(bson::Regex {
            pattern: pattern.try_into().expect("text"),
            options: "".try_into().expect("text"),
        })
    };
    let cases = [
        (doc! { "a.0": 1 }, doc! { "a": [1, 2] }, doc! { "a": [2, 1] }, doc! { "a": [1, 9] }),
        (
            doc! { "a.1.b": 1 },
            doc! { "a": [0, { "b": 1 }] },
            doc! { "a": [{ "b": 1 }] },
            doc! { "a": [9, { "b": 1 }] },
        ),
        (doc! { "a": 1 }, doc! { "a": [[1, 2]] }, doc! { "a": [[2, 1]] }, doc! { "a": [[1, 2], 5] }),
        (doc! { "a": 1 }, doc! { "a": regex("x") }, doc! { "a": regex("y") }, doc! { "a": [regex("x")] }),
        (
            doc! { "a.b": 1, "a.c": 1 },
            doc! { "a": [{ "b": 1, "c": 1 }, { "b": 2, "c": 2 }] },
            doc! { "a": [{ "b": 1, "c": 2 }] },
            doc! { "a": [{ "b": 2, "c": 2 }] },
        ),
        (
            doc! { "a.b": 1 },
            doc! { "a": [7, { "b": 1 }] },
            doc! { "a": { "b": 2 } },
            doc! { "x": "nothing is null" },
        ),
    ];
    for (key, first, other, taken) in cases {
        let server = Server::start().await;
        let mut client = server.connect();
        index(&mut client, key.clone(), true).await;
        assert_eq!(insert(&mut client, first.clone()).await, 0, "{key} {first}");
        assert_eq!(insert(&mut client, other.clone()).await, 0, "{key} {other}");
        assert_eq!(insert(&mut client, taken.clone()).await, 11000, "{key} {taken}");
        // The arrays are also found when the index is made later.
        let server = Server::start().await;
        let mut client = server.connect();
        assert_eq!(insert(&mut client, first).await, 0);
        assert_eq!(insert(&mut client, taken).await, 0);
        let unique = doc! { "key": &key, "name": "i", "unique": true };
        let late = doc! { "createIndexes": "c", "indexes": [unique] };
        assert_eq!(client.fails("d", of(&late)).await, 11000, "{key}");
    }
}

#[tokio::test]
async fn arrays_side_by_side_are_refused() {
    for is_unique in [false, true] {
        let server = Server::start().await;
        let mut client = server.connect();
        index(&mut client, doc! { "a": 1, "b": 1 }, is_unique).await;
        assert_eq!(insert(&mut client, doc! { "_id": 1, "a": [1, 2], "b": 3 }).await, 0);
        assert_eq!(insert(&mut client, doc! { "_id": 2, "a": [1, 2], "b": [3] }).await, 171);
        let push = doc! { "update": "c", "updates": [{ "q": { "_id": 1 }, "u": { "$set": { "b": [] } } }] };
        let reply = client.run("d", of(&push)).await;
        assert!(reply.has("writeErrors"), "{reply:?}");
        let upsert = doc! {
            "update": "c",
            "updates": [{ "q": { "_id": 5 }, "u": { "$set": { "a": [1], "b": [] } }, "upsert": true }],
        };
        assert!(client.run("d", of(&upsert)).await.has("writeErrors"));
    }
    let server = Server::start().await;
    let mut client = server.connect();
    assert_eq!(insert(&mut client, doc! { "a": [1], "b": [2] }).await, 0);
    let late = doc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1, "b": 1 }, "name": "i" }] };
    assert_eq!(client.fails("d", of(&late)).await, 171);
    // A partial index that does not cover the document is made.
    let partial = doc! { "key": { "a": 1, "b": 1 }, "name": "p", "partialFilterExpression": { "x": 1 } };
    ok(&mut client, doc! { "createIndexes": "c", "indexes": [partial] }).await;
    assert_eq!(insert(&mut client, doc! { "a": [1], "b": [2], "x": 1 }).await, 171);
    assert_eq!(insert(&mut client, doc! { "a": [{ "0": 1 }] }).await, 0);
    let position = doc! { "createIndexes": "c", "indexes": [{ "key": { "a.0": 1 }, "name": "z" }] };
    assert_eq!(client.fails("d", of(&position)).await, 16746);
}

#[tokio::test]
async fn a_unique_index_takes_duplicates_when_it_is_told_to() {
    let server = Server::start().await;
    let mut client = server.connect();
    index(&mut client, doc! { "a": 1 }, true).await;
    assert_eq!(insert(&mut client, doc! { "a": 1 }).await, 0);
    assert_eq!(insert(&mut client, doc! { "a": 1 }).await, 11000);
    let change = doc! { "collMod": "c", "index": { "name": "i", "forceNonUnique": true } };
    let reply = ok(&mut client, change).await;
    assert!(reply.value("forceNonUnique_new").is_true());
    assert_eq!(insert(&mut client, doc! { "a": 1 }).await, 0);
    let listed = ok(&mut client, doc! { "listIndexes": "c" }).await;
    assert!(!Value::document(listed).to_string().contains("unique"));
    let off = doc! { "collMod": "c", "index": { "name": "i", "forceNonUnique": false } };
    assert_eq!(client.fails("d", of(&off)).await, 2);
}

#[tokio::test]
async fn validate_reads_documents_and_counts_what_indexes_hold() {
    let server = Server::start().await;
    let mut client = server.connect();
    let documents =
        vec![doc! { "_id": 1, "a": [1, 2, 3] }, doc! { "_id": 2, "a": 1, "b": 1 }, doc! { "_id": 3, "b": 2 }];
    ok(&mut client, doc! { "insert": "c", "documents": documents }).await;
    let indexes = vec![
        doc! { "key": { "a": 1 }, "name": "a" },
        doc! { "key": { "a": 1, "b": 1 }, "name": "sparse", "sparse": true },
        doc! { "key": { "b": 1 }, "name": "partial", "partialFilterExpression": { "b": { "$gt": 1 } } },
        doc! { "key": { "$**": 1 }, "name": "all" },
    ];
    ok(&mut client, doc! { "createIndexes": "c", "indexes": indexes }).await;
    ok(&mut client, doc! { "collMod": "c", "validator": { "a": { "$exists": true } } }).await;
    let told = ok(&mut client, doc! { "validate": "c" }).await;
    let number = |name: &str| told.value(name).to_i64_exact();
    assert_eq!(
        (number("nrecords"), number("nNonCompliantDocuments"), number("nIndexes")),
        (Some(3), Some(1), Some(5))
    );
    assert!(told.value("valid").is_true());
    let keys = told.value("keysPerIndex");
    let keys = keys.as_document().expect("a document");
    let counted: Vec<(String, i64)> = keys
        .iter()
        .map(|(name, count)| (name.to_string(), count.to_i64_exact().expect("a number")))
        .collect();
    let expected = [("_id_", 3), ("a", 5), ("sparse", 5), ("partial", 1)];
    assert_eq!(counted, expected.map(|(name, count)| (name.to_owned(), count)));
    assert!(ok(&mut client, doc! { "validate": "c", "metadata": true }).await.has("valid"));
    // PyMongo's options: the documents are read if `scandata` or `full` is set.
    for (scans, full, is_read) in [(false, false, false), (false, true, true), (true, false, true)] {
        let told = ok(&mut client, doc! { "validate": "c", "scandata": scans, "full": full }).await;
        assert_eq!(told.value("nrecords").to_i64_exact(), Some(3));
        assert_eq!(told.has("keysPerIndex"), is_read, "{told}");
    }
    let both = doc! { "validate": "c", "metadata": true, "full": true };
    assert_eq!(client.fails("d", of(&both)).await, 72);
    assert_eq!(client.fails("d", of(&doc! { "validate": "c", "repair": true })).await, 238);
}

#[tokio::test]
async fn an_index_with_a_wildcard_takes_arrays_in_the_fields_of_the_wildcard_alone() {
    let server = Server::start().await;
    let mut client = server.connect();
    let index = doc! { "key": { "a.b": 1, "$**": 1 }, "name": "i", "wildcardProjection": { "a.b": 0 } };
    let create = |collection: &str| of(&doc! { "createIndexes": collection, "indexes": [index.clone()] });
    client.ok("d", create("c")).await;
    for (document, code) in [
        (doc! { "_id": 1, "a": { "b": [1, 2] } }, 7_246_301),
        (doc! { "_id": 2, "a": [{ "b": 1 }] }, 7_246_301),
        (doc! { "_id": 3, "a": { "b": 1, "c": [1] }, "d": [1, [2]] }, 0),
        (doc! { "_id": 4, "a": 5 }, 0),
    ] {
        assert_eq!(insert(&mut client, document.clone()).await, code, "{document}");
    }
    let update = doc! { "q": { "_id": 3 }, "u": { "$set": { "a.b": [3] } } };
    let reply = ok(&mut client, doc! { "update": "c", "updates": [update] }).await;
    assert!(Value::from(reply.clone()).to_string().contains("7246301"), "{}", Value::from(reply));
    client.ok("d", of(&doc! { "insert": "full", "documents": [{ "_id": 1, "a": { "b": [1] } }] })).await;
    assert_eq!(client.fails("d", create("full")).await, 7_246_301);
}
