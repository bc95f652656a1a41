//! Throughput, charges and shard keys, in the commands of applications for Cosmos DB for MongoDB.

use bson::doc;
use shardlake_mql::{Document, Value};

use crate::client::{Client, Server, first_batch, of};

async fn ok(client: &mut Client, command: bson::Document) -> Document {
    client.ok("d", of(&command)).await
}

fn charge(statistics: &Document) -> f64 {
    statistics.value("RequestCharge").to_f64().expect("a charge")
}

#[tokio::test]
async fn the_last_request_of_a_session_says_what_it_cost() {
    let server = Server::start().await;
    let mut client = server.connect();
    let session =
        |n: u8| doc! { "id": bson::Binary { subtype: bson::spec::BinarySubtype::Uuid, bytes: vec![n; 16] } };
    let documents: Vec<bson::Document> =
        (0..300).map(|n| doc! { "_id": n, "pad": "x".repeat(500) }).collect();
    ok(&mut client, doc! { "insert": "c", "documents": documents, "lsid": session(1) }).await;
    let of_insert = ok(&mut client, doc! { "getLastRequestStatistics": 1, "lsid": session(1) }).await;
    assert_eq!(of_insert.value("CommandName").as_str(), Some("insert"));
    assert!(charge(&of_insert) > 300.0, "each document costs: {of_insert:?}");
    let again = ok(&mut client, doc! { "getLastRequestStatistics": 1, "lsid": session(1) }).await;
    assert_eq!(charge(&again), charge(&of_insert), "it does not count itself");
    // A cursor's next batch is a command of its own; other sessions do not disturb.
    let first = ok(&mut client, doc! { "find": "c", "batchSize": 10, "lsid": session(1) }).await;
    let of_find = ok(&mut client, doc! { "getLastRequestStatistics": 1, "lsid": session(1) }).await;
    assert_eq!(of_find.value("CommandName").as_str(), Some("find"));
    ok(&mut client, doc! { "find": "c", "filter": { "_id": 1 }, "lsid": session(2) }).await;
    let cursor = first.value("cursor").as_document().unwrap().value("id").to_i64_exact().unwrap();
    ok(&mut client, doc! { "getMore": cursor, "collection": "c", "lsid": session(1) }).await;
    let of_more = ok(&mut client, doc! { "getLastRequestStatistics": 1, "lsid": session(1) }).await;
    assert_eq!(of_more.value("CommandName").as_str(), Some("getMore"));
    assert!(
        charge(&of_find) > 1.0 && charge(&of_more) > charge(&of_find),
        "each pays for its own batch: {of_find:?} {of_more:?}"
    );
    let of_connection = ok(&mut client, doc! { "getLastRequestStatistics": 1 }).await;
    assert_eq!(of_connection.value("CommandName").as_str(), Some("getMore"), "the connection's last");
    let told = ok(&mut client, doc! { "find": "c", "filter": { "_id": 1 }, "$requestCharge": true }).await;
    assert!(told.value("requestCharge").to_f64().unwrap() >= 1.0, "{told:?}");
    assert!(!ok(&mut client, doc! { "find": "c" }).await.has("requestCharge"), "only where it is asked for");
}

#[tokio::test]
async fn collections_have_throughput_by_custom_actions() {
    let server = Server::start().await;
    let mut client = server.connect();
    ok(&mut client, doc! { "customAction": "CreateDatabase" }).await;
    let create = doc! {
        "customAction": "CreateCollection", "collection": "c", "shardKey": "a.b", "offerThroughput": 1000,
        "indexes": [{ "key": { "_id": 1 }, "name": "_id_1" }, { "key": { "n": 1 }, "name": "n_1" }],
    };
    ok(&mut client, create).await;
    let shown = ok(&mut client, doc! { "customAction": "GetCollection", "collection": "c" }).await;
    assert_eq!(shown.value("provisionedThroughput").to_i64_exact(), Some(1000));
    let key = shown.value("shardKeyDefinition");
    assert_eq!(key.as_document().unwrap().value("a.b").as_str(), Some("hashed"));
    let update = doc! {
        "customAction": "UpdateCollection", "collection": "c", "autoScaleSettings": { "maxThroughput": 4000 },
        "indexes": [{ "key": { "_id": 1 }, "name": "_id_1" }, { "key": { "m": 1 }, "name": "m_1" }],
    };
    ok(&mut client, update).await;
    let shown = ok(&mut client, doc! { "customAction": "GetCollection", "collection": "c" }).await;
    assert_eq!(shown.value("provisionedThroughput").to_i64_exact(), Some(400), "a tenth");
    let settings = shown.value("autoScaleSettings");
    assert_eq!(settings.as_document().unwrap().value("maxThroughput").to_i64_exact(), Some(4000));
    let listed = first_batch(&ok(&mut client, doc! { "listIndexes": "c" }).await);
    let names: Vec<String> =
        listed.iter().filter_map(|index| index.value("name").as_str().map(str::to_owned)).collect();
    assert!(names.iter().any(|name| name == "m_1") && !names.iter().any(|name| name == "n_1"), "{names:?}");
    for (command, code) in [
        (doc! { "customAction": "Other" }, 2),
        (doc! { "customAction": "CreateCollection" }, 2),
        (doc! { "customAction": "CreateCollection", "collection": "c" }, 48),
        (doc! { "customAction": "GetCollection", "collection": "none" }, 26),
        (doc! { "customAction": "CreateCollection", "collection": "e", "offerThroughput": 20000 }, 2),
        (doc! { "customAction": "CreateCollection", "collection": "e", "offerThroughput": 10 }, 2),
        (doc! { "customAction": "UpdateCollection", "collection": "c", "indexes": [] }, 2),
        (
            doc! { "customAction": "CreateDatabase", "offerThroughput": 400, "autoScaleSettings": { "maxThroughput": 1000 } },
            2,
        ),
    ] {
        assert_eq!(client.fails("d", of(&command)).await, code, "{command}");
    }
    // Created with the throughput of one new partition, then raised.
    let create =
        doc! { "customAction": "CreateCollection", "collection": "fixed", "offerThroughput": 10_000 };
    ok(&mut client, create).await;
    let shown = ok(&mut client, doc! { "customAction": "GetCollection", "collection": "fixed" }).await;
    assert_eq!(shown.value("provisionedThroughput").to_i64_exact(), Some(10_000));
    let odd = doc! { "customAction": "CreateCollection", "collection": "odd", "offerThroughput": 9_950 };
    assert_eq!(client.fails("d", of(&odd)).await, 2);
    assert_eq!(
        client.fails("d", of(&doc! { "customAction": "GetCollection", "collection": "odd" })).await,
        26
    );
    // A database with throughput shares it.
    client.ok("shared", of(&doc! { "customAction": "CreateDatabase", "offerThroughput": 800 })).await;
    client.ok("shared", of(&doc! { "customAction": "UpdateDatabase", "offerThroughput": 900 })).await;
    let shown = client.ok("shared", of(&doc! { "customAction": "GetDatabase" })).await;
    assert_eq!(shown.value("provisionedThroughput").to_i64_exact(), Some(900));
    client.ok("shared", of(&doc! { "customAction": "CreateCollection", "collection": "c" })).await;
    let shown = client.ok("shared", of(&doc! { "customAction": "GetCollection", "collection": "c" })).await;
    assert!(!shown.has("provisionedThroughput"), "{shown:?}");
}

#[tokio::test]
async fn a_token_of_a_custom_action_begins_a_change_stream() {
    let server = Server::start().await;
    let mut client = server.connect();
    ok(&mut client, doc! { "insert": "c", "documents": [{ "_id": 1 }] }).await;
    let told = ok(&mut client, doc! { "customAction": "GetChangeStreamTokens", "collection": "c" }).await;
    let tokens = told.value("resumeAfterTokens");
    let token = tokens.as_array().expect("a list")[0].as_document().expect("a token").value("_data");
    server.clock.advance(std::time::Duration::from_millis(1));
    ok(&mut client, doc! { "insert": "c", "documents": [{ "_id": 2 }] }).await;
    server.clock.advance(std::time::Duration::from_millis(1));
    let resume = doc! { "resumeAfter": { "_data": token.as_str().expect("text") } };
    let stream = doc! { "aggregate": "c", "pipeline": [{ "$changeStream": resume }], "cursor": {} };
    let opened = ok(&mut client, stream).await;
    let cursor = opened.value("cursor").as_document().expect("a cursor").value("id").to_i64_exact();
    let mut events = first_batch(&opened);
    while events.is_empty() {
        let more = doc! { "getMore": cursor, "collection": "c", "maxTimeMS": 1000 };
        let batch =
            ok(&mut client, more).await.value("cursor").as_document().expect("a cursor").value("nextBatch");
        let found = batch.as_array().expect("a list").iter();
        events.extend(found.map(|event| Document::clone(event.as_document().expect("an event"))));
        server.clock.advance(std::time::Duration::from_millis(1));
    }
    let key = events[0].value("documentKey");
    assert_eq!(
        key.as_document().expect("a key").value("_id").to_i64_exact(),
        Some(2),
        "what came behind the token"
    );
    let none = doc! { "customAction": "GetChangeStreamTokens", "collection": "none" };
    assert_eq!(client.fails("d", of(&none)).await, 26);
}

#[tokio::test]
async fn collections_are_sharded_before_they_are_made() {
    let server = Server::start().await;
    let mut client = server.connect();
    client.ok("admin", of(&doc! { "enableSharding": "d" })).await;
    let shard = |name: &str, key: bson::Document| doc! { "shardCollection": name, "key": key };
    let reply = client.ok("admin", of(&shard("d.c", doc! { "tenant": "hashed" }))).await;
    assert_eq!(reply.value("collectionsharded").as_str(), Some("d.c"));
    assert!(matches!(reply.value("collectionUUID"), Value::Binary(4, _)));
    client.ok("admin", of(&shard("d.c", doc! { "tenant": "hashed" }))).await;
    assert_eq!(client.fails("admin", of(&shard("d.c", doc! { "other": 1 }))).await, 20);
    let without = client.run("d", of(&doc! { "insert": "c", "documents": [{ "_id": 1 }] })).await;
    assert!(without.has("writeErrors"), "a document needs the key: {without:?}");
    ok(&mut client, doc! { "insert": "c", "documents": [{ "_id": 1, "tenant": "a" }] }).await;
    let mut unique = shard("d.u", doc! { "a": 1, "b": 1 });
    unique.insert("unique", true);
    client.ok("admin", of(&unique)).await;
    ok(&mut client, doc! { "insert": "u", "documents": [{ "_id": 1, "a": 1, "b": 1 }] }).await;
    let twice =
        client.run("d", of(&doc! { "insert": "u", "documents": [{ "_id": 2, "a": 1, "b": 1 }] })).await;
    assert!(twice.has("writeErrors"), "{twice:?}");
    ok(&mut client, doc! { "insert": "plain", "documents": [{ "_id": 1 }] }).await;
    for (command, code) in [
        (shard("d.plain", doc! { "_id": 1 }), 20),
        (shard("d.x", doc! { "a": -1 }), 72),
        (shard("d.x", doc! {}), 72),
        (shard("d.x", doc! { "a": 1, "b": 1, "c": 1, "e": 1 }), 72),
        (shard("nodot", doc! { "a": 1 }), 73),
        (doc! { "shardCollection": "d.x", "key": { "a": "hashed" }, "unique": true }, 72),
    ] {
        assert_eq!(client.fails("admin", of(&command)).await, code, "{command}");
    }
    assert_eq!(client.fails("d", of(&shard("d.x", doc! { "a": 1 }))).await, 13, "on admin only");
    let shards = client.ok("admin", of(&doc! { "listShards": 1 })).await;
    assert_eq!(shards.value("shards").as_array().unwrap().len(), 1);
}
