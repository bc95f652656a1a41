//! Sparse and partial indexes: the documents that they cover, for uniqueness and for hints; indexes that become unique.

use bson::doc;
use shardlake_account::{ItemWrite, WriteCommand, item_of_json};
use shardlake_model::{ErrorKind, PartitionKey, RequestContext};
use shardlake_mql::{Document, Env, Filter, Scope};
use shardlake_stdx::{Guid, Random};

use crate::client::{Client, Server, first_batch, of};

async fn ok(client: &mut Client, command: bson::Document) -> Document {
    client.ok("d", of(&command)).await
}

async fn inserts(client: &mut Client, document: bson::Document) -> bool {
    let reply = client.run("d", of(&doc! { "insert": "c", "documents": [document] })).await;
    match reply.value("writeErrors").as_array() {
        None => true,
        Some(errors) => {
            let code = errors[0].as_document().expect("a document").value("code").to_i32_exact();
            assert_eq!(code, Some(11000), "{reply:?}");
            false
        }
    }
}

async fn index(client: &mut Client, name: &str, options: bson::Document) {
    let mut index = doc! { "key": { "email": 1 }, "name": name };
    index.extend(options);
    ok(client, doc! { "createIndexes": "c", "indexes": [index] }).await;
}

#[tokio::test]
async fn a_sparse_unique_index_leaves_out_documents_without_its_fields() {
    let server = Server::start().await;
    let mut client = server.connect();
    ok(
        &mut client,
        doc! { "insert": "c", "documents": [{ "_id": 1 }, { "_id": 2 }, { "_id": 3, "email": "a" }] },
    )
    .await;
    index(&mut client, "e", doc! { "unique": true, "sparse": true }).await;
    assert!(inserts(&mut client, doc! { "_id": 4 }).await, "any number of documents without it");
    assert!(inserts(&mut client, doc! { "_id": 5, "email": null }).await, "null is a value");
    assert!(!inserts(&mut client, doc! { "_id": 6, "email": null }).await);
    assert!(!inserts(&mut client, doc! { "_id": 6, "email": "a" }).await);
    // Through the NoSQL API, too.
    let ctx = RequestContext::internal(&server.clock, Guid([1; 16]));
    let container = server.account.router().container_for_items("d", "c").expect("the container");
    for (text, outcome) in [
        (r#"{"id":"x"}"#, None),
        (r#"{"id":"y","email":"a"}"#, Some(ErrorKind::Conflict)),
        (r#"{"id":"y"}"#, None),
    ] {
        let body = item_of_json(text.as_bytes(), server.account.router().limits()).expect("an item");
        let write = WriteCommand::of(Some(PartitionKey(vec![])), ItemWrite::Create { body });
        let refused =
            server.account.items().write_item(&ctx, &container, write).await.err().map(|error| error.kind());
        assert_eq!(refused, outcome, "{text}");
    }
    // A document that leaves the index frees its value, and a document that enters it claims one.
    let update = |id: i32, change: bson::Document| doc! { "update": "c", "updates": [{ "q": { "_id": id }, "u": change }] };
    ok(&mut client, update(3, doc! { "$unset": { "email": 1 } })).await;
    ok(&mut client, update(4, doc! { "$set": { "email": "a" } })).await;
    assert!(!inserts(&mut client, doc! { "_id": 6, "email": "a" }).await);
}

#[tokio::test]
async fn a_partial_unique_index_is_about_what_its_filter_matches() {
    let filters = [
        doc! { "active": true },
        doc! { "age": { "$gt": 3 }, "active": { "$exists": true } },
        doc! { "$or": [{ "age": { "$lte": 2 } }, { "tags": "x" }] },
        doc! { "age": { "$in": [1, "two", null] } },
        doc! { "$and": [{ "email": { "$type": "string" } }, { "age": { "$gte": 1.5 } }] },
        doc! { "age": null },
    ];
    for (seed, filter) in filters.into_iter().enumerate() {
        let server = Server::start().await;
        let mut client = server.connect();
        ok(&mut client, doc! { "create": "c" }).await;
        index(&mut client, "e", doc! { "unique": true, "partialFilterExpression": filter.clone() }).await;
        let parsed = Filter::parse(&of(&filter), &Scope::new()).expect("a filter");
        let random = Random::seeded(seed as u64);
        let mut taken: Vec<String> = Vec::new();
        for id in 0..120 {
            let mut document = doc! { "_id": id };
            if random.below(4) > 0 {
                document.insert("email", format!("e{}", random.below(6)));
            }
            match random.below(6) {
                0 => {}
                1 => drop(document.insert("age", "two")),
                2 => drop(document.insert("age", 2.0)),
                3 => drop(document.insert("age", bson::Bson::Null)),
                age => drop(document.insert("age", age as i32)),
            }
            if random.below(2) == 0 {
                document.insert("active", random.below(2) == 0);
            }
            if random.below(3) == 0 {
                document.insert("tags", vec!["x", "y"]);
            }
            let is_about = parsed.matches(&of(&document), &mut Env::new(0, 0)).expect("judged");
            let email = document.get_str("email").unwrap_or("").to_owned();
            let expected = !is_about || !taken.contains(&email);
            assert_eq!(inserts(&mut client, document.clone()).await, expected, "{filter}: {document}");
            if is_about && expected {
                taken.push(email);
            }
        }
        assert!(taken.len() > 2, "{filter} is about some documents: {taken:?}");
    }
}

#[tokio::test]
async fn filters_that_the_engine_cannot_judge_are_refused_for_unique_indexes_only() {
    let server = Server::start().await;
    let mut client = server.connect();
    let at = bson::DateTime::from_millis(0);
    let create = |unique: bool| doc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1 }, "name": "a", "unique": unique, "partialFilterExpression": { "at": { "$gt": at } } }] };
    assert_eq!(client.fails("d", of(&create(true))).await, 303);
    ok(&mut client, create(false)).await;
}

#[tokio::test]
async fn an_index_becomes_unique_in_two_steps() {
    let server = Server::start().await;
    let mut client = server.connect();
    ok(
        &mut client,
        doc! { "insert": "c", "documents": [{ "_id": 1, "email": "a" }, { "_id": 2, "email": "a" }] },
    )
    .await;
    index(&mut client, "e", doc! {}).await;
    let change = |options: bson::Document| {
        let mut index = doc! { "name": "e" };
        index.extend(options);
        doc! { "collMod": "c", "index": index }
    };
    let reply = client.run("d", of(&change(doc! { "prepareUnique": true }))).await;
    assert_eq!(reply.value("code").to_i32_exact(), Some(359), "{reply:?}");
    let violations = reply.value("violations");
    let ids = violations.as_array().expect("an array")[0].as_document().expect("a document").value("ids");
    assert_eq!(ids.as_array().expect("an array").len(), 2, "it says which");
    ok(&mut client, doc! { "delete": "c", "deletes": [{ "q": { "_id": 2 }, "limit": 1 }] }).await;
    assert_eq!(client.fails("d", of(&change(doc! { "unique": true }))).await, 72, "not prepared");
    let reply = ok(&mut client, change(doc! { "prepareUnique": true })).await;
    assert!(reply.value("prepareUnique_new").is_true());
    assert!(!inserts(&mut client, doc! { "_id": 3, "email": "a" }).await, "enforced from here on");
    let mut dry = change(doc! { "unique": true });
    dry.insert("dryRun", true);
    assert!(!ok(&mut client, dry).await.has("unique_new"));
    assert!(ok(&mut client, change(doc! { "unique": true })).await.value("unique_new").is_true());
    let listed = first_batch(&ok(&mut client, doc! { "listIndexes": "c" }).await);
    assert!(listed[1].value("unique").is_true() && !listed[1].has("prepareUnique"), "{listed:?}");
    assert!(!inserts(&mut client, doc! { "_id": 3, "email": "a" }).await);
    // An index that is made with `prepareUnique` is enforced, too, until the option is removed.
    let made = doc! { "key": { "n": 1 }, "name": "n", "prepareUnique": true };
    ok(&mut client, doc! { "createIndexes": "c", "indexes": [made] }).await;
    assert!(inserts(&mut client, doc! { "_id": 4, "n": 1, "email": "b" }).await);
    assert!(!inserts(&mut client, doc! { "_id": 5, "n": 1, "email": "c" }).await);
    ok(&mut client, doc! { "collMod": "c", "index": { "name": "n", "prepareUnique": false } }).await;
    assert!(inserts(&mut client, doc! { "_id": 5, "n": 1, "email": "c" }).await);
}

#[tokio::test]
async fn a_hint_of_an_index_that_holds_some_documents_gives_these() {
    let server = Server::start().await;
    let mut client = server.connect();
    ok(&mut client, doc! { "insert": "c", "documents": [{ "_id": 1, "email": "a" }, { "_id": 2 }, { "_id": 3, "email": null, "n": 5 }] }).await;
    index(&mut client, "sparse", doc! { "sparse": true }).await;
    let partial =
        doc! { "key": { "n": 1 }, "name": "partial", "partialFilterExpression": { "n": { "$gt": 1 } } };
    let hidden = doc! { "key": { "h": 1 }, "name": "hidden", "hidden": true };
    ok(&mut client, doc! { "createIndexes": "c", "indexes": [partial, hidden] }).await;
    for (hint, expected) in [("sparse", 2), ("partial", 1)] {
        let reply = ok(&mut client, doc! { "find": "c", "hint": hint }).await;
        assert_eq!(first_batch(&reply).len(), expected, "{hint}");
        let reply = ok(&mut client, doc! { "count": "c", "hint": hint }).await;
        assert_eq!(reply.value("n").to_i64_exact(), Some(expected as i64), "{hint}");
        let reply = ok(&mut client, doc! { "aggregate": "c", "pipeline": [{ "$match": { "_id": { "$lt": 3 } } }], "hint": hint, "cursor": {} }).await;
        assert_eq!(first_batch(&reply).len(), expected - 1, "{hint}");
    }
    assert_eq!(client.fails("d", of(&doc! { "find": "c", "hint": "hidden" })).await, 2);
}

#[tokio::test]
async fn a_unique_index_that_cannot_be_made_leaves_nothing_behind() {
    let server = Server::start().await;
    let mut client = server.connect();
    let violating = vec![
        doc! { "_id": 0, "email": 5 },
        doc! { "_id": 1, "email": [1, 2] },
        doc! { "_id": 2, "email": 1 },
    ];
    ok(&mut client, doc! { "insert": "c", "documents": violating }).await;
    let unique = doc! { "key": { "email": 1 }, "name": "e", "unique": true };
    assert_eq!(
        client.fails("d", of(&doc! { "createIndexes": "c", "indexes": [unique.clone()] })).await,
        11000
    );
    let names = |listed: Vec<Document>| listed.len();
    assert_eq!(
        names(first_batch(&ok(&mut client, doc! { "listIndexes": "c" }).await)),
        1,
        "no half of it stays"
    );
    assert!(inserts(&mut client, doc! { "_id": 3, "email": 5 }).await);
    index(&mut client, "e", doc! {}).await;
    let prepare = doc! { "collMod": "c", "index": { "name": "e", "prepareUnique": true } };
    assert_eq!(client.fails("d", of(&prepare)).await, 359, "an element is a value");
    ok(&mut client, doc! { "delete": "c", "deletes": [{ "q": { "_id": { "$gte": 2 } }, "limit": 0 }] }).await;
    ok(&mut client, prepare).await;
    // Values behind an array of documents differ.
    ok(&mut client, doc! { "insert": "o", "documents": [{ "o": [{ "z": 1 }] }, { "o": [{ "z": 2 }] }] })
        .await;
    let behind = doc! { "key": { "o.z": 1 }, "name": "oz", "unique": true };
    ok(&mut client, doc! { "createIndexes": "o", "indexes": [behind] }).await;
}

#[tokio::test]
async fn names_with_slashes_and_numbers_that_json_lacks_are_told_apart() {
    let server = Server::start().await;
    let mut client = server.connect();
    let made = doc! { "key": { "a/b": 1, "x.c\"d": 1 }, "name": "slash", "unique": true, "sparse": true };
    ok(&mut client, doc! { "createIndexes": "c", "indexes": [made] }).await;
    assert!(inserts(&mut client, doc! { "_id": 1, "a/b": 1 }).await);
    assert!(inserts(&mut client, doc! { "_id": 2, "a/b": 2 }).await);
    assert!(!inserts(&mut client, doc! { "_id": 3, "a/b": 1 }).await);
    ok(&mut client, doc! { "drop": "c" }).await;
    index(&mut client, "e", doc! { "unique": true, "partialFilterExpression": { "v": { "$gt": 1 } } }).await;
    assert!(inserts(&mut client, doc! { "_id": 1, "email": "a", "v": f64::INFINITY }).await);
    assert!(!inserts(&mut client, doc! { "_id": 2, "email": "a", "v": f64::INFINITY }).await);
    assert!(
        inserts(&mut client, doc! { "_id": 2, "email": "a", "v": f64::NAN }).await,
        "no number is above 1"
    );
    // More elements than a unique index compares.
    ok(&mut client, doc! { "drop": "c" }).await;
    index(&mut client, "e", doc! { "unique": true }).await;
    let many: Vec<i32> = (0..1001).collect();
    let reply =
        client.run("d", of(&doc! { "insert": "c", "documents": [{ "_id": 1, "email": many }] })).await;
    assert!(reply.has("writeErrors"), "{reply:?}");
    assert!(inserts(&mut client, doc! { "_id": 1, "email": (0..1000).collect::<Vec<i32>>() }).await);
}

#[tokio::test]
async fn a_hint_of_a_partial_index_bounds_what_a_write_reaches() {
    let server = Server::start().await;
    let mut client = server.connect();
    let documents: Vec<bson::Document> = (0..10).map(|n| doc! { "_id": n, "email": n }).collect();
    ok(&mut client, doc! { "insert": "c", "documents": documents }).await;
    index(&mut client, "e", doc! { "partialFilterExpression": { "email": { "$gte": 7 } } }).await;
    let update = doc! { "update": "c", "updates": [{ "q": {}, "u": { "$set": { "m": 1 } }, "multi": true, "hint": "e" }] };
    assert_eq!(ok(&mut client, update).await.value("n").to_i64_exact(), Some(3));
    let delete = doc! { "delete": "c", "deletes": [{ "q": {}, "limit": 0, "hint": "e" }] };
    assert_eq!(ok(&mut client, delete).await.value("n").to_i64_exact(), Some(3));
}

#[tokio::test]
async fn upserts_that_race_for_a_unique_value_meet_in_one_document() {
    let server = Server::start().await;
    let mut client = server.connect();
    index(&mut client, "e", doc! { "unique": true }).await;
    let upserts = (0..8).map(|_| {
        let mut client = server.connect();
        async move {
            for n in 0..20 {
                let update = doc! { "q": { "email": n }, "u": { "$inc": { "n": 1 } }, "upsert": true };
                let reply = client.run("d", of(&doc! { "update": "c", "updates": [update] })).await;
                assert!(!reply.has("writeErrors"), "{reply:?}");
            }
        }
    });
    futures::future::join_all(upserts).await;
    let found = first_batch(&ok(&mut client, doc! { "find": "c" }).await);
    assert_eq!(found.len(), 20);
    assert!(found.iter().all(|document| document.value("n").to_i64_exact() == Some(8)), "{found:?}");
}

/// As object mappers have them, whose identities are ObjectIds.
#[tokio::test]
async fn a_partial_unique_index_is_about_values_of_any_type() {
    let id = bson::oid::ObjectId::from_bytes([4; 12]);
    let decimal: bson::Decimal128 = "1.5".parse().expect("a decimal");
    let text = |text: &str| bson::raw::CString::try_from(text).expect("no zero in it");
    let of_types: [(&str, i32, bson::Bson); 9] = [
        ("double", 1, 1.5.into()),
        ("binData", 5, bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: vec![1] }.into()),
        ("objectId", 7, id.into()),
        ("date", 9, bson::DateTime::from_millis(7).into()),
        ("regex", 11, bson::Bson::RegularExpression(bson::Regex { pattern: text("a"), options: text("") })),
        ("timestamp", 17, bson::Timestamp { time: 4, increment: 2 }.into()),
        ("decimal", 19, decimal.into()),
        ("minKey", -1, bson::Bson::MinKey),
        ("maxKey", 127, bson::Bson::MaxKey),
    ];
    for (name, number, value) in of_types {
        for kind in [bson::Bson::from(name), bson::Bson::from(number)] {
            let server = Server::start().await;
            let mut client = server.connect();
            index(
                &mut client,
                "e",
                doc! { "unique": true, "partialFilterExpression": { "email": { "$type": kind } } },
            )
            .await;
            assert!(inserts(&mut client, doc! { "_id": 1, "email": value.clone() }).await, "{name}");
            assert!(!inserts(&mut client, doc! { "_id": 2, "email": value.clone() }).await, "{name}");
            for _ in 0..2 {
                assert!(inserts(&mut client, doc! { "email": "text" }).await, "{name}: another type");
                assert!(inserts(&mut client, doc! {}).await, "{name}: nothing");
            }
        }
    }
}

#[tokio::test]
async fn a_hint_of_a_partial_index_goes_by_the_collation_of_the_index() {
    let server = Server::start().await;
    let mut client = server.connect();
    let documents: Vec<bson::Document> = ["on", "ON", "off"]
        .iter()
        .enumerate()
        .map(|(n, s)| doc! { "_id": n as i32, "email": *s, "t": "X" })
        .collect();
    ok(&mut client, doc! { "insert": "c", "documents": documents }).await;
    let no_case = doc! { "locale": "en", "strength": 2 };
    index(&mut client, "bytes", doc! { "partialFilterExpression": { "email": "on" } }).await;
    let folded = doc! { "key": { "t": 1 }, "name": "folded", "collation": no_case.clone(), "partialFilterExpression": { "email": "on" } };
    ok(&mut client, doc! { "createIndexes": "c", "indexes": [folded] }).await;
    let match_any = doc! { "t": { "$in": ["x", "X"] } };
    for (hint, collation, expected) in [
        ("bytes", None, 1),
        ("bytes", Some(no_case.clone()), 1),
        ("folded", None, 2),
        ("folded", Some(no_case.clone()), 2),
    ] {
        let with = |mut command: bson::Document| {
            collation.iter().for_each(|collation| drop(command.insert("collation", collation.clone())));
            command
        };
        let words = format!("{hint} {collation:?}");
        let number = |reply: &Document| reply.value("n").to_i64_exact();
        let find = with(doc! { "find": "c", "filter": match_any.clone(), "hint": hint });
        assert_eq!(first_batch(&ok(&mut client, find).await).len(), expected, "{words}");
        let count = with(doc! { "count": "c", "hint": hint });
        assert_eq!(number(&ok(&mut client, count).await), Some(expected as i64), "{words}");
        let aggregate = with(doc! { "aggregate": "c", "pipeline": [], "hint": hint, "cursor": {} });
        assert_eq!(first_batch(&ok(&mut client, aggregate).await).len(), expected, "{words}");
        let update =
            with(doc! { "q": match_any.clone(), "u": { "$inc": { "m": 1 } }, "multi": true, "hint": hint });
        let update = doc! { "update": "c", "updates": [update] };
        assert_eq!(number(&ok(&mut client, update).await), Some(expected as i64), "{words}");
        // The filter of the command uses the collation of the command.
        let lower = with(doc! { "find": "c", "filter": { "t": "x" }, "hint": hint });
        let lower = first_batch(&ok(&mut client, lower).await).len();
        assert_eq!(lower, if collation.is_some() { expected } else { 0 }, "{words}");
    }
}
