//! Updates over the wire: every command that updates applies all operators to the document before it.

use bson::doc;
use shardlake_mql::Document;

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
    // Words about the command itself stand alone.
    let wrong = doc! { "findAndModify": "c", "query": { "_id": 1 }, "update": { "$no": 1 } };
    let reply = client.run("d", of(&wrong)).await;
    assert!(
        reply.value("errmsg").as_str().is_some_and(|words| words.starts_with("Unknown modifier")),
        "{reply}"
    );
}
