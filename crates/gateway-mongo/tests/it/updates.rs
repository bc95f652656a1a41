//! Updates over the wire: every command that updates applies all operators to the document before it.

use bson::doc;
use shardlake_mql::{Document, Value};

use crate::client::{Client, Server, first_batch, of};

/// Two documents, each with a pending line and a sent one.
async fn filled(server: &Server) -> Client {
    let mut client = server.connect();
    let lines = [doc! { "s": "new", "t": 0 }, doc! { "s": "sent", "t": 0 }];
    let documents: Vec<bson::Document> = (0..2).map(|id| doc! { "_id": id, "l": lines.clone() }).collect();
    client.ok("d", of(&doc! { "insert": "c", "documents": documents })).await;
    client
}

/// The status of the new lines changes, and their time with it. Sent lines are lost.
#[tokio::test]
async fn array_filters_of_every_command_see_the_document_before_the_update() {
    let update = doc! {
        "$set": { "l.$[new].s": "sent", "l.$[new].z": 1, "l.$[sent].s": "lost" },
        "$inc": { "l.$[new].t": 1 },
    };
    let filters = [doc! { "new.s": "new" }, doc! { "sent.s": "sent" }];
    let after = "l: [ { s: \"sent\", t: 1, z: 1 }, { s: \"lost\", t: 0 } ] }";
    let query = doc! { "_id": { "$gte": 0 } };
    let one = doc! { "q": { "_id": 0 }, "u": update.clone(), "arrayFilters": filters.to_vec() };
    let many =
        doc! { "q": query.clone(), "u": update.clone(), "arrayFilters": filters.to_vec(), "multi": true };
    let modify = doc! {
        "findAndModify": "c", "query": { "_id": 0 }, "update": update.clone(), "arrayFilters": filters.to_vec(),
    };
    let op = doc! {
        "update": 0, "filter": query, "updateMods": update, "arrayFilters": filters.to_vec(), "multi": true,
    };
    for (database, command, changed) in [
        ("d", doc! { "update": "c", "updates": [one] }, 1),
        ("d", doc! { "update": "c", "updates": [many] }, 2),
        ("d", modify, 1),
        ("admin", doc! { "bulkWrite": 1, "ops": [op], "nsInfo": [{ "ns": "d.c" }] }, 2),
    ] {
        let server = Server::start().await;
        let mut client = filled(&server).await;
        let reply: Document = client.ok(database, of(&command)).await;
        assert!(!reply.has("writeErrors"), "{reply}");
        let found = first_batch(&client.ok("d", of(&doc! { "find": "c", "sort": { "_id": 1 } })).await);
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        for (id, document) in found.iter().enumerate() {
            let is_changed = document.ends_with(after);
            assert_eq!(is_changed, id < changed, "{command}: {document}");
        }
    }
}

/// The words are those of the reference.
#[tokio::test]
async fn find_and_modify_says_that_its_change_failed() {
    let server = Server::start().await;
    let mut client = server.connect();
    client.ok("d", of(&doc! { "insert": "c", "documents": [{ "_id": 1, "a": [1, 2, 3] }] })).await;
    let update = doc! { "$set": { "a.b": 1 } };
    let modify = doc! { "findAndModify": "c", "query": { "_id": 1 }, "update": update.clone() };
    let words = "Cannot create field 'b' in element {a: [ 1, 2, 3 ]}";
    let reply = client.run("d", of(&modify)).await;
    assert_eq!(reply.value("code").to_i32_exact(), Some(28), "{reply}");
    let prefix = "Plan executor error during findAndModify :: caused by :: ";
    assert_eq!(reply.value("errmsg").as_str(), Some(format!("{prefix}{words}").as_str()), "{reply}");
    let update = doc! { "update": "c", "updates": [{ "q": { "_id": 1 }, "u": update }] };
    let reply = client.ok("d", of(&update)).await;
    let errors = reply.value("writeErrors");
    let error =
        errors.as_array().and_then(|errors| errors.first()?.as_document().cloned()).expect("an error");
    assert_eq!(error.value("errmsg").as_str(), Some(words), "{reply}");
    // Messages about the command itself have no prefix.
    let wrong = doc! { "findAndModify": "c", "query": { "_id": 1 }, "update": { "$no": 1 } };
    let reply = client.run("d", of(&wrong)).await;
    assert!(
        reply.value("errmsg").as_str().is_some_and(|words| words.starts_with("Unknown modifier")),
        "{reply}"
    );
}

/// The time that every write command stores in the place of an empty timestamp, at the top level and below it.
#[tokio::test]
async fn empty_timestamps_become_the_time_unless_the_command_keeps_them() {
    let server = Server::start().await;
    let mut client = server.connect();
    let empty = || bson::Timestamp { time: 0, increment: 0 };
    let new = |id: i32| doc! { "_id": id, "t": empty(), "below": { "t": empty() } };
    let replacement = || doc! { "t": empty(), "below": { "t": empty() } };
    let query = |id: i32| doc! { "_id": id };
    for keeps in [false, true] {
        client
            .ok("d", of(&doc! { "insert": "c", "documents": [{ "_id": 2 }, { "_id": 4 }, { "_id": 7 }] }))
            .await;
        let ops = vec![
            doc! { "insert": 0, "document": new(6) },
            doc! { "update": 0, "filter": query(7), "updateMods": replacement() },
        ];
        let update =
            |id: i32, is_upsert: bool| doc! { "q": query(id), "u": replacement(), "upsert": is_upsert };
        let commands = [
            ("d", doc! { "insert": "c", "documents": [new(1)] }),
            ("d", doc! { "update": "c", "updates": [update(2, false), update(3, true)] }),
            ("d", doc! { "findAndModify": "c", "query": query(4), "update": replacement() }),
            ("d", doc! { "findAndModify": "c", "query": query(5), "update": replacement(), "upsert": true }),
            ("admin", doc! { "bulkWrite": 1, "ops": ops, "nsInfo": [{ "ns": "d.c" }] }),
        ];
        for (database, mut command) in commands {
            command.insert("bypassEmptyTsReplacement", keeps);
            let reply = client.ok(database, of(&command)).await;
            assert!(!reply.has("writeErrors"), "{reply}");
        }
        let found = first_batch(&client.ok("d", of(&doc! { "find": "c", "sort": { "_id": 1 } })).await);
        assert_eq!(found.len(), 7);
        for document in found {
            let is_empty = |value: Value| matches!(value, Value::Timestamp(0, 0));
            assert_eq!(is_empty(document.value("t")), keeps, "{document}");
            let below = document.value("below");
            assert!(is_empty(below.as_document().expect("a document").value("t")), "{document}");
        }
        client.ok("d", of(&doc! { "drop": "c" })).await;
    }
    // Timestamps that an operator sets stay as they are, and other types of the option are refused.
    client.ok("d", of(&doc! { "insert": "c", "documents": [{ "_id": 1 }] })).await;
    let set = doc! { "update": "c", "updates": [{ "q": {}, "u": { "$set": { "t": empty() } } }] };
    client.ok("d", of(&set)).await;
    let found = client.ok("d", of(&doc! { "find": "c", "filter": { "t": empty() } })).await;
    assert_eq!(first_batch(&found).len(), 1);
    let wrong = doc! { "insert": "c", "documents": [{}], "bypassEmptyTsReplacement": "yes" };
    assert_eq!(client.fails("d", of(&wrong)).await, 14);
}

#[tokio::test]
async fn timestamps_of_one_command_ascend() {
    let server = Server::start().await;
    let mut client = filled(&server).await;
    let stamp = |field: &str| doc! { "$currentDate": { field: { "$type": "timestamp" } } };
    let many = doc! { "q": {}, "u": stamp("a"), "multi": true };
    let again = doc! { "q": {}, "u": stamp("b"), "multi": true };
    let upsert = doc! { "q": { "_id": 7 }, "u": stamp("a"), "upsert": true };
    client.ok("d", of(&doc! { "update": "c", "updates": [many, again, upsert] })).await;
    let modify = doc! { "findAndModify": "c", "query": { "_id": 0 }, "update": stamp("c") };
    client.ok("d", of(&modify)).await;
    let found = first_batch(&client.ok("d", of(&doc! { "find": "c", "sort": { "_id": 1 } })).await);
    let stamps = |field: &str| {
        let stamp = |document: &Document| match document.value(field) {
            Value::Timestamp(seconds, increment) => Some((seconds, increment)),
            _ => None,
        };
        found.iter().filter_map(stamp).collect::<Vec<_>>()
    };
    let (first, second, last) = (stamps("a"), stamps("b"), stamps("c"));
    assert_eq!((first.len(), second.len(), last.len()), (3, 2, 1));
    let mut all = [first.clone(), second.clone(), last.clone()].concat();
    assert!(first[..2].iter().max() < second.iter().min() && second.iter().max() < first.get(2));
    assert!(first.get(2) < last.first());
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 6, "each of them is another one");
}
