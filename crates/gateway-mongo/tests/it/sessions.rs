//! Sessions, and repeated writes.

use std::time::Duration;

use shardlake_gateway_mongo::{MongoSettings, SessionLimits};
use shardlake_mql::{Document, Value};

use crate::client::{Client, Server, doc};

fn in_session(mut command: Document, number: u8) -> Document {
    command.push("lsid", session(number).into());
    command
}

fn session(number: u8) -> Document {
    Document::one("id", Value::Binary(4, [number; 16].as_slice().into()))
}

fn numbered(command: Document, session: u8, number: i64) -> Document {
    let mut command = in_session(command, session);
    command.push("txnNumber", Value::Long(number));
    command
}

fn increment() -> Document {
    let statement = doc([
        ("q", Document::one("_id", 1).into()),
        ("u", Document::one("$inc", Document::one("n", 1)).into()),
        ("upsert", Value::Bool(true)),
    ]);
    doc([("update", Value::string("c")), ("updates", Value::array(vec![statement.into()]))])
}

async fn counted(client: &mut Client) -> Option<i32> {
    let reply = client.ok("d", doc([("find", Value::string("c"))])).await;
    let cursor = reply.value("cursor");
    let found = cursor.as_document()?.value("firstBatch");
    found.as_array()?.first()?.as_document()?.value("n").to_i32_exact()
}

#[tokio::test]
async fn a_write_that_is_sent_twice_is_done_once_and_answered_alike() {
    let server = Server::start().await;
    let mut client = server.connect();
    let first = client.ok("d", numbered(increment(), 1, 5)).await;
    let mut other = server.connect();
    let second = other.ok("d", numbered(increment(), 1, 5)).await;
    assert_eq!(first.to_bytes(), second.to_bytes());
    assert_eq!(counted(&mut client).await, Some(1));
    assert_eq!(client.fails("d", numbered(increment(), 1, 4)).await, 225);
    client.ok("d", numbered(increment(), 1, 6)).await;
    client.ok("d", numbered(increment(), 2, 5)).await;
    assert_eq!(counted(&mut client).await, Some(3), "a new number, and another session");
}

#[tokio::test]
async fn both_of_two_at_once_are_one_write() {
    let server = Server::start().await;
    let (mut left, mut right) = (server.connect(), server.connect());
    let (first, second) =
        tokio::join!(left.ok("d", numbered(increment(), 1, 5)), right.ok("d", numbered(increment(), 1, 5)));
    assert_eq!(first.to_bytes(), second.to_bytes());
    assert_eq!(counted(&mut left).await, Some(1));
}

#[tokio::test]
async fn numbers_stand_on_writes_that_can_be_repeated_only() {
    let server = Server::start().await;
    let mut client = server.connect();
    let ping = || doc([("ping", Value::Int(1))]);
    assert_eq!(client.fails("d", numbered(ping(), 1, 5)).await, 50768);
    assert_eq!(client.fails("d", numbered(increment(), 1, -1)).await, 72);
    let mut without_session = increment();
    without_session.push("txnNumber", Value::Long(1));
    assert_eq!(client.fails("d", without_session).await, 72);
    let mut int = in_session(increment(), 1);
    int.push("txnNumber", Value::Int(1));
    assert_eq!(client.fails("d", int).await, 14);
}

#[tokio::test]
async fn session_names_are_uuids() {
    let server = Server::start().await;
    let mut client = server.connect();
    let with = |id: Value| doc([("ping", Value::Int(1)), ("lsid", Document::one("id", id).into())]);
    let bytes = |subtype: u8, size: usize| Value::Binary(subtype, vec![1; size].into());
    client.ok("d", with(bytes(4, 16))).await;
    for (code, wrong) in
        [(14, bytes(3, 16)), (14, Value::string("x")), (207, bytes(4, 15)), (40414, Value::Null)]
    {
        assert_eq!(client.fails("d", with(wrong)).await, code);
    }
    let started = client.ok("admin", doc([("startSession", Value::Int(1))])).await;
    assert_eq!(started.value("timeoutMinutes").to_i32_exact(), Some(30));
}

#[tokio::test]
async fn sessions_are_bounded_and_run_out() {
    let limits = SessionLimits { count_max: 2, ..SessionLimits::default() };
    let server = Server::start_with(MongoSettings { sessions: limits, ..MongoSettings::default() }).await;
    let mut client = server.connect();
    let ping = |number| in_session(doc([("ping", Value::Int(1))]), number);
    client.ok("d", ping(1)).await;
    client.ok("d", ping(2)).await;
    assert_eq!(client.fails("d", ping(3)).await, 261);
    server.clock.advance(Duration::from_secs(20 * 60));
    client.ok("admin", doc([("refreshSessions", Value::array(vec![session(1).into()]))])).await;
    server.clock.advance(Duration::from_secs(11 * 60));
    client.ok("d", ping(3)).await;
    assert_eq!(client.fails("d", ping(2)).await, 261, "the first lives on, the second has run out");
    client.ok("admin", doc([("killAllSessions", Value::array(vec![]))])).await;
    client.ok("d", ping(2)).await;
}
