//! Fail points as suites of drivers set them, on a server that is started for tests.

use bson::doc;
use shardlake_gateway_mongo::MongoSettings;
use shardlake_mql::Document;

use crate::client::{Client, Server, of};
use crate::transactions::Session;

async fn server() -> Server {
    Server::start_with(MongoSettings { has_test_commands: true, ..MongoSettings::default() }).await
}

async fn set(client: &mut Client, mode: bson::Document, data: bson::Document) {
    client.ok("admin", of(&doc! { "configureFailPoint": "failCommand", "mode": mode, "data": data })).await;
}

fn labels(reply: &Document) -> String {
    reply.value("errorLabels").to_string()
}

#[tokio::test]
async fn a_fail_point_passes_commands_over_and_then_strikes_so_many() {
    let server = server().await;
    let mut client = server.connect();
    let data =
        doc! { "failCommands": ["find"], "errorCode": 5, "codeName": "unknown fields are passed over" };
    set(&mut client, doc! { "times": 1, "skip": 1 }, data).await;
    let find = doc! { "find": "c" };
    client.ok("d", of(&find)).await;
    assert_eq!(client.fails("d", of(&find)).await, 5);
    client.ok("d", of(&find)).await;
}

#[tokio::test]
async fn a_fail_point_means_every_spelling_one_collection_and_one_application() {
    let server = server().await;
    let mut client = server.connect();
    let once = || doc! { "times": 1 };
    set(&mut client, once(), doc! { "failCommands": ["hello", "ismaster"], "errorCode": 91 }).await;
    assert_eq!(client.fails("admin", of(&doc! { "isMaster": 1 })).await, 91);
    let data = doc! { "failCommands": ["find"], "errorCode": 5, "namespace": "d.c", "errorExtraInfo": { "more": 1 } };
    set(&mut client, once(), data).await;
    client.ok("d", of(&doc! { "find": "e" })).await;
    let reply = client.run("d", of(&doc! { "find": "c" })).await;
    assert_eq!(reply.value("more").to_i32_exact(), Some(1), "{reply}");
    set(&mut client, once(), doc! { "failCommands": ["hello"], "errorCode": 91, "appName": "tests" }).await;
    let greeting = doc! { "hello": 1, "client": { "application": { "name": "tests" } } };
    assert_eq!(server.connect().fails("admin", of(&greeting)).await, 91, "the first greeting");
}

#[tokio::test]
async fn errors_of_fail_points_have_the_labels_of_their_commands() {
    let server = server().await;
    let mut client = server.connect();
    let mut session = Session::new(1);
    let insert = |id: i32| doc! { "insert": "c", "documents": [{ "_id": id }] };
    for (id, code) in [251, 112, 24, 246, 267].into_iter().enumerate() {
        session.begin();
        client.ok("d", session.part(&insert(id as i32))).await;
        set(
            &mut client,
            doc! { "times": 1 },
            doc! { "failCommands": ["commitTransaction"], "errorCode": code },
        )
        .await;
        let reply = client.run("admin", session.commit()).await;
        assert!(labels(&reply).contains("TransientTransactionError"), "{reply}");
        client.ok("admin", session.commit()).await;
    }
    session.begin();
    client.ok("d", session.part(&insert(10))).await;
    let concern = doc! { "code": 91, "errmsg": "shutting down" };
    let data = doc! { "failCommands": ["commitTransaction"], "writeConcernError": concern };
    set(&mut client, doc! { "times": 1 }, data).await;
    let reply = client.ok("admin", session.commit()).await;
    assert!(labels(&reply).contains("RetryableWriteError"), "{reply}");
    // An error before the `getMore` runs is no error of the stream; one within it is.
    let pipeline = vec![doc! { "$changeStream": {} }];
    let opened = client.ok("d", of(&doc! { "aggregate": "c", "pipeline": pipeline, "cursor": {} })).await;
    let cursor = opened.value("cursor");
    let id = cursor.as_document().and_then(|cursor| cursor.value("id").to_i64_exact()).expect("a cursor");
    let more = doc! { "getMore": id, "collection": "c", "maxTimeMS": 1 };
    set(&mut client, doc! { "times": 1 }, doc! { "failCommands": ["getMore"], "errorCode": 6 }).await;
    let reply = client.run("d", of(&more)).await;
    assert!(!labels(&reply).contains("Resumable"), "{reply}");
    let inside = doc! {
        "configureFailPoint": "failGetMoreAfterCursorCheckout", "mode": { "times": 1 }, "data": { "errorCode": 6 },
    };
    client.ok("admin", of(&inside)).await;
    let reply = client.run("d", of(&more)).await;
    assert!(labels(&reply).contains("ResumableChangeStreamError"), "{reply}");
}
