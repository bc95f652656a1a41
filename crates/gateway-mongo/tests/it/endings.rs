//! Commands and cursors that end with their client, session or cursor.

use std::time::Duration;

use bson::doc;
use shardlake_gateway_mongo::MongoSettings;
use shardlake_mql::{Document, Value};

use crate::client::{Client, OP_MSG, Server, body_section, message, of};

/// Longer than any test.
const FOR_EVER: Duration = Duration::from_secs(24 * 3600);

async fn server() -> Server {
    let settings = MongoSettings { request_timeout: FOR_EVER, ..MongoSettings::default() };
    let server = Server::start_with(settings).await;
    let documents: Vec<bson::Document> = (0..10).map(|id| doc! { "_id": id }).collect();
    server.connect().ok("d", of(&doc! { "insert": "c", "documents": documents })).await;
    server
}

fn session(number: u8) -> bson::Document {
    let bytes = bson::Binary { subtype: bson::spec::BinarySubtype::Uuid, bytes: vec![number; 16] };
    doc! { "lsid": { "id": bytes } }
}

fn with(mut command: bson::Document, more: bson::Document) -> bson::Document {
    command.extend(more);
    command
}

async fn open(client: &mut Client, command: bson::Document) -> i64 {
    let reply = client.ok("d", of(&command)).await;
    reply.value("cursor").as_document().expect("a cursor").value("id").to_i64_exact().expect("an id")
}

fn watch() -> bson::Document {
    doc! { "aggregate": "c", "pipeline": [{ "$changeStream": {} }], "cursor": {} }
}

/// Sends a `getMore` that waits for an event, and waits until it is running.
async fn send_waiting(waiting: &mut Client, other: &mut Client, id: i64, more: bson::Document) {
    let command = doc! { "getMore": id, "collection": "c", "maxTimeMS": FOR_EVER.as_millis() as i64 };
    let command = with(with(command, more), doc! { "$db": "d" });
    waiting.send(OP_MSG, &message(0, &[body_section(&of(&command))])).await;
    while !is_at_work(other, "getMore").await {
        tokio::task::yield_now().await;
    }
}

pub async fn is_at_work(client: &mut Client, command: &str) -> bool {
    number_at_work(client, command).await.is_some()
}

/// The number of a running command, for `killOp`.
pub async fn number_at_work(client: &mut Client, command: &str) -> Option<i32> {
    let listed = client.ok("admin", of(&doc! { "currentOp": 1 })).await.value("inprog");
    let mut operations = listed.as_array().expect("a list").iter().filter_map(Value::as_document);
    let found = operations
        .find(|operation| operation.value("command").as_document().is_some_and(|own| own.has(command)));
    found.and_then(|operation| operation.value("opid").to_i32_exact())
}

async fn code_of(client: &mut Client) -> Option<i32> {
    client.receive().await.document().value("code").to_i32_exact()
}

#[tokio::test]
async fn a_cursor_without_a_session_ends_with_its_connection() {
    let server = server().await;
    let mut other = server.connect();
    let mut client = server.connect();
    let find = doc! { "find": "c", "batchSize": 1, "noCursorTimeout": true };
    let own = open(&mut client, find.clone()).await;
    let of_session = open(&mut client, with(find, session(1))).await;
    drop(client);
    while server.gateway.connections() > 1 {
        tokio::task::yield_now().await;
    }
    let get_more = |id: i64| doc! { "getMore": id, "collection": "c" };
    assert_eq!(other.fails("d", of(&get_more(own))).await, 43);
    other.ok("d", of(&with(get_more(of_session), session(1)))).await;
}

#[tokio::test]
async fn a_cursor_that_is_killed_ends_the_command_that_reads_it() {
    let server = server().await;
    let (mut waiting, mut other) = (server.connect(), server.connect());
    let id = open(&mut waiting, watch()).await;
    send_waiting(&mut waiting, &mut other, id, doc! {}).await;
    let killed = other.ok("d", of(&doc! { "killCursors": "c", "cursors": [id] })).await;
    assert_eq!(killed.value("cursorsKilled").as_array().map(|ids| ids.len()), Some(1));
    assert_eq!(code_of(&mut waiting).await, Some(237));
    assert_eq!(waiting.fails("d", of(&doc! { "getMore": id, "collection": "c" })).await, 43);
}

#[tokio::test]
async fn sessions_that_are_killed_end_their_commands() {
    let server = server().await;
    let (mut waiting, mut other) = (server.connect(), server.connect());
    let named = session(7).get_document("lsid").expect("there").clone();
    for kill in [
        doc! { "killSessions": [named.clone()] },
        doc! { "killSessions": [] },
        doc! { "killAllSessions": [] },
        doc! { "killAllSessionsByPattern": [{ "lsid": named.clone() }] },
    ] {
        let id = open(&mut waiting, with(watch(), session(7))).await;
        send_waiting(&mut waiting, &mut other, id, session(7)).await;
        other.ok("admin", of(&kill)).await;
        assert_eq!(code_of(&mut waiting).await, Some(11601), "{kill}");
    }
}

#[tokio::test]
async fn a_read_ends_when_its_client_has_gone() {
    let server = server().await;
    let (mut waiting, mut other) = (server.connect(), server.connect());
    let id = open(&mut waiting, watch()).await;
    send_waiting(&mut waiting, &mut other, id, doc! {}).await;
    drop(waiting);
    while is_at_work(&mut other, "getMore").await {
        tokio::task::yield_now().await;
    }
    while server.gateway.connections() > 1 {
        tokio::task::yield_now().await;
    }
    assert_eq!(other.fails("d", of(&doc! { "getMore": id, "collection": "c" })).await, 43);
}

#[tokio::test]
async fn a_write_goes_on_when_its_client_has_gone() {
    let server = server().await;
    let mut other = server.connect();
    for id in 100..120 {
        let mut client = server.connect();
        let insert = doc! { "insert": "c", "documents": [{ "_id": id }], "$db": "d" };
        client.send(OP_MSG, &message(0, &[body_section(&of(&insert))])).await;
        client.finish().await;
        let reply: Document = client.receive().await.document();
        assert_eq!(reply.value("n").to_i32_exact(), Some(1));
    }
    let counted = other.ok("d", of(&doc! { "count": "c", "query": { "_id": { "$gte": 100 } } })).await;
    assert_eq!(counted.value("n").to_i64_exact(), Some(20));
}
