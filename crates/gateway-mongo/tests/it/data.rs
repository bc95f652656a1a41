//! Documents, collections and indexes over the wire.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bson::doc;
use shardlake_mql::{Document, Value};

use crate::client::{Client, Server, first_batch, of};

async fn ok(client: &mut Client, command: bson::Document) -> Document {
    client.ok("d", of(&command)).await
}

async fn found(client: &mut Client, command: bson::Document) -> Vec<Document> {
    first_batch(&ok(client, command).await)
}

/// The code of the first write error.
async fn refused(client: &mut Client, command: bson::Document) -> (i32, Document) {
    let reply = client.run("d", of(&command)).await;
    let errors = reply.value("writeErrors");
    let Some(error) = errors.as_array().and_then(|errors| errors.first()?.as_document().cloned()) else {
        return (reply.value("code").to_i32_exact().expect("an error"), reply);
    };
    (error.value("code").to_i32_exact().expect("a code"), Document::clone(&error))
}

fn number(document: &Document, name: &str) -> Option<i64> {
    document.value(name).to_i64_exact()
}

#[tokio::test]
async fn documents_are_written_read_changed_and_deleted() {
    let server = Server::start().await;
    let mut client = server.connect();
    let documents: Vec<bson::Document> =
        (0..250).map(|n| doc! { "_id": n, "n": n, "even": n % 2 == 0 }).collect();
    let inserted = ok(&mut client, doc! { "insert": "c", "documents": documents }).await;
    assert_eq!(number(&inserted, "n"), Some(250));
    let page =
        found(&mut client, doc! { "find": "c", "filter": { "even": true }, "sort": { "n": -1 }, "limit": 3 })
            .await;
    assert_eq!(page.iter().map(|found| number(found, "n").unwrap()).collect::<Vec<_>>(), [248, 246, 244]);
    let update = doc! { "update": "c", "updates": [{ "q": { "n": { "$lt": 10 } }, "u": { "$inc": { "n": 1000 } }, "multi": true }] };
    let updated = ok(&mut client, update).await;
    assert_eq!((number(&updated, "n"), number(&updated, "nModified")), (Some(10), Some(10)));
    let same = doc! { "update": "c", "updates": [{ "q": { "_id": 3 }, "u": { "$set": { "n": 1003 } } }] };
    let same = ok(&mut client, same).await;
    assert_eq!((number(&same, "n"), number(&same, "nModified")), (Some(1), Some(0)), "no change is none");
    let modify =
        doc! { "findAndModify": "c", "query": { "_id": 3 }, "update": { "$set": { "n": 1 } }, "new": true };
    let modified = ok(&mut client, modify).await;
    assert_eq!(number(modified.value("value").as_document().unwrap(), "n"), Some(1));
    let deleted =
        ok(&mut client, doc! { "delete": "c", "deletes": [{ "q": { "even": false }, "limit": 0 }] }).await;
    assert_eq!(number(&deleted, "n"), Some(125));
    assert_eq!(number(&ok(&mut client, doc! { "count": "c" }).await, "n"), Some(125));
    let (code, error) = refused(&mut client, doc! { "insert": "c", "documents": [{ "_id": 4 }] }).await;
    assert_eq!(code, 11000);
    assert!(
        error
            .value("errmsg")
            .as_str()
            .unwrap()
            .starts_with("E11000 duplicate key error collection: d.c index: _id_")
    );
}

#[tokio::test]
async fn an_ordered_insert_stops_where_it_fails_and_an_unordered_one_goes_on() {
    let server = Server::start().await;
    let mut client = server.connect();
    let documents = || {
        vec![doc! { "_id": 1 }, doc! { "_id": 2 }, doc! { "_id": 2 }, doc! { "_id": 3 }, doc! { "_id": 1 }]
    };
    let ordered = ok(&mut client, doc! { "insert": "ordered", "documents": documents() }).await;
    assert_eq!(number(&ordered, "n"), Some(2));
    assert_eq!(ordered.value("writeErrors").as_array().unwrap().len(), 1);
    let unordered =
        ok(&mut client, doc! { "insert": "unordered", "documents": documents(), "ordered": false }).await;
    assert_eq!(number(&unordered, "n"), Some(3));
    let errors = unordered.value("writeErrors");
    let places =
        errors.as_array().unwrap().iter().map(|error| number(error.as_document().unwrap(), "index").unwrap());
    assert_eq!(places.collect::<Vec<_>>(), [2, 4]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn changes_of_one_document_by_many_clients_are_all_there() {
    const CLIENTS: i64 = 8;
    const EACH: i64 = 25;
    let server = Server::start().await;
    ok(&mut server.connect(), doc! { "create": "c" }).await;
    let work = (0..CLIENTS).map(|_| {
        let mut client = server.connect();
        tokio::spawn(async move {
            let mut made = 0;
            for _ in 0..EACH {
                let statement =
                    doc! { "q": { "_id": "counter" }, "u": { "$inc": { "n": 1 } }, "upsert": true };
                let reply = ok(&mut client, doc! { "update": "c", "updates": [statement] }).await;
                made += i32::from(reply.has("upserted"));
            }
            made
        })
    });
    let mut made = 0;
    for task in work.collect::<Vec<_>>() {
        made += task.await.expect("a client works to its end");
    }
    assert_eq!(made, 1, "one of them made the document");
    let counter = found(&mut server.connect(), doc! { "find": "c" }).await;
    assert_eq!(number(&counter[0], "n"), Some(CLIENTS * EACH));
}

#[tokio::test]
async fn sharded_collections_want_their_key_and_keep_it() {
    let server = Server::start().await;
    let mut client = server.connect();
    ok(&mut client, doc! { "create": "c", "shardKey": { "tenant": "hashed" } }).await;
    assert_eq!(refused(&mut client, doc! { "insert": "c", "documents": [{ "_id": 1 }] }).await.0, 61);
    let documents = vec![
        doc! { "_id": 1, "tenant": "a" },
        doc! { "_id": 1, "tenant": "b" },
        doc! { "_id": 2, "tenant": "b" },
    ];
    assert_eq!(number(&ok(&mut client, doc! { "insert": "c", "documents": documents }).await, "n"), Some(3));
    let change =
        doc! { "update": "c", "updates": [{ "q": { "_id": 2 }, "u": { "$set": { "tenant": "c" } } }] };
    assert_eq!(refused(&mut client, change).await.0, 66);
    assert_eq!(found(&mut client, doc! { "find": "c", "filter": { "tenant": "b" } }).await.len(), 2);
    assert_eq!(found(&mut client, doc! { "find": "c", "filter": { "_id": 1 } }).await.len(), 2);
    let explained =
        ok(&mut client, doc! { "explain": { "find": "c", "filter": { "_id": 1, "tenant": "a" } } }).await;
    let stats = explained.value("executionStats");
    assert_eq!(number(stats.as_document().unwrap(), "totalDocsExamined"), Some(1), "a read of one document");
}

#[tokio::test]
async fn unique_indexes_hold_for_every_kind_and_element_and_end_with_their_drop() {
    let server = Server::start().await;
    let mut client = server.connect();
    let id = |n: u8| bson::oid::ObjectId::from_bytes([n; 12]);
    let documents =
        vec![doc! { "_id": 1, "v": id(1) }, doc! { "_id": 2, "v": id(2) }, doc! { "_id": 3, "v": [7, 8] }];
    ok(&mut client, doc! { "insert": "c", "documents": documents }).await;
    let index = doc! { "key": { "v": 1 }, "name": "v_1", "unique": true };
    ok(&mut client, doc! { "createIndexes": "c", "indexes": [index.clone()] }).await;
    for taken in [doc! { "v": id(1) }, doc! { "v": 8.0 }, doc! { "v": [9, 7] }] {
        let (code, error) = refused(&mut client, doc! { "insert": "c", "documents": [taken.clone()] }).await;
        assert_eq!(code, 11000, "{taken}");
        assert_eq!(error.value("keyPattern").as_document().unwrap().len(), 1);
    }
    ok(&mut client, doc! { "insert": "c", "documents": [{ "_id": 4, "v": id(4) }, { "_id": 5 }] }).await;
    assert_eq!(
        refused(&mut client, doc! { "insert": "c", "documents": [{ "_id": 6 }] }).await.0,
        11000,
        "nothing is one value"
    );
    ok(&mut client, doc! { "dropIndexes": "c", "index": "v_1" }).await;
    assert_eq!(
        number(&ok(&mut client, doc! { "insert": "c", "documents": [{ "_id": 6 }] }).await, "n"),
        Some(1)
    );
    let again = client.run("d", of(&doc! { "createIndexes": "c", "indexes": [index] })).await;
    assert_eq!(number(&again, "code"), Some(11000), "two documents have nothing there");
}

#[tokio::test]
async fn pipelines_group_join_and_write() {
    let server = Server::start().await;
    let mut client = server.connect();
    let orders: Vec<bson::Document> = (0..60).map(|n| doc! { "_id": n, "who": n % 3, "total": n }).collect();
    ok(&mut client, doc! { "insert": "orders", "documents": orders }).await;
    ok(
        &mut client,
        doc! { "insert": "people", "documents": [{ "_id": 0, "name": "Ada" }, { "_id": 1, "name": "Bo" }] },
    )
    .await;
    let pipeline = vec![
        doc! { "$match": { "total": { "$gte": 30 } } },
        doc! { "$group": { "_id": "$who", "sum": { "$sum": "$total" } } },
        doc! { "$lookup": { "from": "people", "localField": "_id", "foreignField": "_id", "as": "person" } },
        doc! { "$sort": { "_id": 1 } },
        doc! { "$out": "sums" },
    ];
    ok(&mut client, doc! { "aggregate": "orders", "pipeline": pipeline, "cursor": {} }).await;
    let sums = found(&mut client, doc! { "find": "sums", "sort": { "_id": 1 } }).await;
    assert_eq!(sums.iter().map(|sum| number(sum, "sum").unwrap()).collect::<Vec<_>>(), [435, 445, 455]);
    assert_eq!(sums[2].value("person").as_array().unwrap().len(), 0);
    // A view is the same pipeline each time, and takes no writes.
    ok(&mut client, doc! { "create": "large", "viewOn": "orders", "pipeline": [{ "$match": { "total": { "$gt": 57 } } }] }).await;
    assert_eq!(found(&mut client, doc! { "find": "large" }).await.len(), 2);
    assert_eq!(refused(&mut client, doc! { "insert": "large", "documents": [{ "_id": 100 }] }).await.0, 166);
    assert_eq!(
        number(&ok(&mut client, doc! { "count": "orders" }).await, "n"),
        Some(60),
        "a view changes nothing"
    );
}

#[tokio::test]
async fn renamed_and_replaced_collections_go_by_their_new_names() {
    let server = Server::start().await;
    let mut client = server.connect();
    for name in ["a", "b"] {
        ok(&mut client, doc! { "insert": name, "documents": [{ "_id": name }] }).await;
    }
    let rename =
        |from: &str, to: &str, drops: bool| doc! { "renameCollection": from, "to": to, "dropTarget": drops };
    assert_eq!(client.fails("admin", of(&rename("d.a", "d.b", false))).await, 48);
    client.ok("admin", of(&rename("d.a", "d.b", true))).await;
    assert_eq!(found(&mut client, doc! { "find": "a" }).await.len(), 0);
    let kept = found(&mut client, doc! { "find": "b" }).await;
    assert_eq!(kept[0].value("_id").as_str(), Some("a"));
    // The old name is free again.
    ok(&mut client, doc! { "insert": "a", "documents": [{ "_id": 1 }] }).await;
    let listed = ok(&mut client, doc! { "listCollections": 1, "nameOnly": true }).await;
    let names: Vec<String> =
        first_batch(&listed).iter().map(|found| found.value("name").as_str().unwrap().to_owned()).collect();
    assert_eq!(names, ["a", "b"]);
}

#[tokio::test]
async fn one_command_writes_to_several_collections() {
    let server = Server::start().await;
    let mut client = server.connect();
    let operations = vec![
        doc! { "insert": 0, "document": { "_id": 1 } },
        doc! { "insert": 1, "document": { "_id": 1 } },
        doc! { "update": 0, "filter": { "_id": 1 }, "updateMods": { "$set": { "a": 1 } } },
        doc! { "insert": 0, "document": { "_id": 1 } },
        doc! { "delete": 1, "filter": {} },
    ];
    let command = doc! { "bulkWrite": 1, "ops": operations, "nsInfo": [{ "ns": "d.a" }, { "ns": "d.b" }], "ordered": false };
    let reply = client.ok("admin", of(&command)).await;
    let totals = ["nErrors", "nInserted", "nMatched", "nModified", "nDeleted"]
        .map(|name| number(&reply, name).unwrap());
    assert_eq!(totals, [1, 2, 1, 1, 1]);
    assert_eq!(first_batch(&reply).len(), 5);
}

#[tokio::test]
async fn an_index_on_the_time_of_the_last_write_is_the_time_to_live() {
    let server = Server::start().await;
    let mut client = server.connect();
    let index = doc! { "key": { "_ts": 1 }, "name": "ttl", "expireAfterSeconds": 100 };
    ok(&mut client, doc! { "createIndexes": "c", "indexes": [index] }).await;
    ok(&mut client, doc! { "insert": "c", "documents": [{ "_id": 1 }] }).await;
    server.clock.advance(std::time::Duration::from_secs(99));
    assert_eq!(found(&mut client, doc! { "find": "c" }).await.len(), 1);
    server.clock.advance(std::time::Duration::from_secs(2));
    assert_eq!(found(&mut client, doc! { "find": "c" }).await.len(), 0);
}

#[tokio::test]
async fn options_of_a_collection_mean_what_they_say() {
    let server = Server::start().await;
    let mut client = server.connect();
    // Level moderate: a document that was invalid before may stay invalid.
    ok(&mut client, doc! { "insert": "c", "documents": [{ "_id": 1, "n": "old" }, { "_id": 2, "n": 2 }] })
        .await;
    let moderate =
        doc! { "collMod": "c", "validator": { "n": { "$type": "int" } }, "validationLevel": "moderate" };
    ok(&mut client, moderate).await;
    let update =
        |id: i32| doc! { "update": "c", "updates": [{ "q": { "_id": id }, "u": { "$set": { "n": "x" } } }] };
    assert!(!ok(&mut client, update(1)).await.has("writeErrors"));
    assert!(client.run("d", of(&update(2))).await.has("writeErrors"));
    let insert = doc! { "insert": "c", "documents": [{ "_id": 3, "n": "x" }] };
    assert!(client.run("d", of(&insert)).await.has("writeErrors"));
    // The same name with another shard key is an error.
    ok(&mut client, doc! { "create": "s", "shardKey": { "a": "hashed" } }).await;
    ok(&mut client, doc! { "create": "s", "shardKey": { "a": "hashed" } }).await;
    assert_eq!(client.fails("d", of(&doc! { "create": "s", "shardKey": { "b": "hashed" } })).await, 48);
}

#[tokio::test]
async fn what_is_not_supported_is_refused_by_name_and_changes_nothing() {
    let server = Server::start().await;
    let mut client = server.connect();
    for (command, code) in [
        (doc! { "create": "c", "timeseries": { "timeField": "t" } }, 303),
        (doc! { "createIndexes": "c", "indexes": [{ "key": { "t": "text" }, "name": "t" }] }, 303),
        (doc! { "find": "c", "filter": { "$text": { "$search": "x" } } }, 27),
    ] {
        let reply = client.run("d", of(&command)).await;
        assert_eq!(number(&reply, "code"), Some(code), "{command}: {}", Value::from(reply.clone()));
    }
    let listed = ok(&mut client, doc! { "listCollections": 1 }).await;
    assert!(first_batch(&listed).is_empty());
}

#[tokio::test]
async fn expressions_that_double_a_value_are_ended_by_a_bound() {
    let server = Server::start().await;
    let mut client = server.connect();
    ok(&mut client, doc! { "insert": "c", "documents": [{ "_id": 1, "s": "a".repeat(100_000) }] }).await;
    for grows in [
        doc! { "$replaceAll": { "input": "$s", "find": "a", "replacement": "$s" } },
        doc! { "$reduce": { "input": { "$range": [0, 40] }, "initialValue": [1, 2, 3], "in": { "$concatArrays": ["$$value", "$$value"] } } },
        doc! { "$reduce": { "input": { "$range": [0, 60] }, "initialValue": [1], "in": ["$$value", "$$value"] } },
        doc! { "$reduce": { "input": { "$range": [0, 60] }, "initialValue": "$s", "in": { "$concat": ["$$value", "$$value"] } } },
        doc! { "$map": { "input": { "$range": [0, 5000] }, "in": { "$range": [0, 20_000] } } },
        doc! { "$map": { "input": { "$range": [0, 1000] }, "in": { "$concat": ["$s", "x"] } } },
        doc! { "a": "$s", "b": { "$map": { "input": { "$range": [0, 700] }, "in": "$s" } } },
    ] {
        let pipeline = vec![doc! { "$project": { "x": grows.clone() } }];
        let reply = client.run("d", of(&doc! { "aggregate": "c", "pipeline": pipeline, "cursor": {} })).await;
        assert_eq!(reply.value("code").to_i32_exact(), Some(146), "{grows}");
    }
    let stage = doc! { "$set": { "s": { "$concat": ["$s", "$s"] } } };
    let reply =
        client.run("d", of(&doc! { "aggregate": "c", "pipeline": vec![stage; 30], "cursor": {} })).await;
    assert_eq!(reply.value("code").to_i32_exact(), Some(146));
}

/// Each command would take years, so this test ends only if the server ends all of them.
#[tokio::test]
async fn expressions_and_stages_that_repeat_without_end_are_ended_when_the_command_has_had_its_time() {
    let server = Server::start().await;
    let mut client = server.connect();
    ok(
        &mut client,
        doc! { "insert": "c", "documents": [{ "_id": 1, "list": (0..1000).collect::<Vec<_>>() }] },
    )
    .await;
    let nested = |body: bson::Bson| {
        (0..5).fold(body, |body, _| doc! { "$sum": { "$map": { "input": "$list", "in": body } } }.into())
    };
    let mapped = nested(1.into());
    let reduced = doc! { "$reduce": { "input": "$list", "initialValue": 0, "in": { "$add": ["$$value", mapped.clone()] } } };
    let filtered = doc! { "$filter": { "input": "$list", "cond": { "$gt": [mapped.clone(), -1] } } };
    let unwound = vec![
        doc! { "$set": { "a": "$list", "b": "$list", "c": "$list", "d": "$list" } },
        doc! { "$unwind": "$a" },
        doc! { "$unwind": "$b" },
        doc! { "$unwind": "$c" },
        doc! { "$unwind": "$d" },
        doc! { "$count": "n" },
    ];
    let time = 60_000;
    // The clock advances while the commands run.
    let is_done = Arc::new(AtomicBool::new(false));
    let ticking = std::thread::spawn({
        let (clock, is_done) = (server.clock.clone(), is_done.clone());
        move || {
            while !is_done.load(Ordering::Relaxed) {
                clock.advance(Duration::from_millis(1));
                std::thread::yield_now();
            }
        }
    });
    for command in [
        doc! { "find": "c", "filter": { "$expr": { "$gt": [mapped.clone(), 0] } }, "maxTimeMS": time },
        doc! { "find": "c", "projection": { "x": reduced.clone() }, "maxTimeMS": time },
        doc! { "count": "c", "query": { "$expr": filtered.clone() }, "maxTimeMS": time },
        doc! { "aggregate": "c", "pipeline": [{ "$set": { "x": reduced.clone() } }], "cursor": {}, "maxTimeMS": time },
        doc! { "aggregate": "c", "pipeline": unwound, "cursor": {}, "maxTimeMS": time },
        doc! { "findAndModify": "c", "query": { "_id": 1 }, "update": [{ "$set": { "x": filtered } }], "maxTimeMS": time },
    ] {
        let reply = client.run("d", of(&command)).await;
        assert_eq!(reply.value("code").to_i32_exact(), Some(50), "{command}: {reply:?}");
    }
    is_done.store(true, Ordering::Relaxed);
    ticking.join().unwrap();
    // A cursor's next batch has its own time.
    ok(&mut client, doc! { "insert": "c", "documents": [{ "_id": 2 }, { "_id": 3 }] }).await;
    let slow = doc! { "$map": { "input": { "$range": [0, 100] }, "in": "$$this" } };
    let opened = doc! { "find": "c", "projection": { "x": slow }, "batchSize": 1, "maxTimeMS": 60_000 };
    let cursor = ok(&mut client, opened).await;
    server.clock.advance(Duration::from_secs(70));
    let id = cursor.value("cursor").as_document().unwrap().value("id").to_i64_exact().unwrap();
    let rest = ok(&mut client, doc! { "getMore": id, "collection": "c" }).await;
    let rest = rest.value("cursor").as_document().unwrap().value("nextBatch");
    assert_eq!(rest.as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn an_index_is_made_while_others_insert_without_a_pause() {
    let server = Server::start().await;
    let mut client = server.connect();
    ok(&mut client, doc! { "insert": "c", "documents": [{ "_id": -1, "a": 1 }] }).await;
    let is_made = AtomicBool::new(false);
    let writers = (0..3).map(|writer| {
        let (mut client, is_made) = (server.connect(), &is_made);
        async move {
            let mut n = writer * 10_000_000;
            while !is_made.load(Ordering::Relaxed) {
                ok(&mut client, doc! { "insert": "c", "documents": [{ "_id": n, "a": n }] }).await;
                n += 1;
            }
        }
    });
    let make = async {
        let mut client = server.connect();
        let made = doc! { "key": { "a": 1 }, "name": "a_1" };
        ok(&mut client, doc! { "createIndexes": "c", "indexes": [made] }).await;
        is_made.store(true, Ordering::Relaxed);
    };
    futures::future::join(make, futures::future::join_all(writers)).await;
    let all = number(&ok(&mut client, doc! { "count": "c" }).await, "n").expect("a number");
    let by_index = ok(&mut client, doc! { "count": "c", "query": { "a": { "$gte": 0 } } }).await;
    assert_eq!(number(&by_index, "n"), Some(all), "every document is in it");
}
