//! Cursors: batches, owners, and ends.

use std::time::Duration;

use shardlake_gateway_mongo::{CursorLimits, MongoSettings};
use shardlake_mql::{Document, Value};

use crate::client::{Client, Server, doc};

async fn filled(server: &Server, count: i32) -> Client {
    let mut client = server.connect();
    let documents = (0..count).map(|number| Document::one("_id", number).into()).collect();
    let insert = doc([("insert", Value::string("c")), ("documents", Value::array(documents))]);
    client.ok("d", insert).await;
    client
}

fn find(batch_size: i32) -> Document {
    doc([
        ("find", Value::string("c")),
        ("batchSize", Value::Int(batch_size)),
        ("sort", Document::one("_id", 1).into()),
    ])
}

fn get_more(id: i64) -> Document {
    doc([("getMore", Value::Long(id)), ("collection", Value::string("c"))])
}

fn with_session(mut command: Document, number: u8) -> Document {
    let id = Value::Binary(4, [number; 16].as_slice().into());
    command.push("lsid", Document::one("id", id).into());
    command
}

/// The cursor's id, and the documents of the batch.
fn batch(reply: &Document) -> (i64, Vec<i32>) {
    let cursor = reply.value("cursor");
    let cursor = cursor.as_document().expect("a cursor");
    let documents = cursor.get("firstBatch").or_else(|| cursor.get("nextBatch")).expect("a batch");
    let id = |item: &Value| item.as_document()?.value("_id").to_i32_exact();
    let ids = documents.as_array().expect("a list").iter().map(|item| id(item).expect("a number"));
    (cursor.value("id").to_i64_exact().expect("an id"), ids.collect())
}

#[tokio::test]
async fn batches_are_as_large_as_asked_and_together_everything() {
    let server = Server::start().await;
    let mut client = filled(&server, 250).await;
    let (id, first) = batch(&client.ok("d", doc([("find", Value::string("c"))])).await);
    assert_eq!((id > 0, first.len()), (true, 101));
    let (id, first) = batch(&client.ok("d", find(0)).await);
    assert_eq!((id > 0, first.len()), (true, 0));
    let mut command = get_more(id);
    command.push("batchSize", Value::Int(7));
    let (same, next) = batch(&client.ok("d", command).await);
    assert_eq!((same, next), (id, (0..7).collect::<Vec<_>>()));
    let (end, rest) = batch(&client.ok("d", get_more(id)).await);
    assert_eq!((end, rest), (0, (7..250).collect::<Vec<_>>()));
    assert_eq!(client.fails("d", get_more(id)).await, 43);
}

#[tokio::test]
async fn a_cursor_is_for_its_session_and_collection_on_any_connection() {
    let server = Server::start().await;
    let mut client = filled(&server, 250).await;
    let (id, _) = batch(&client.ok("d", with_session(find(2), 1)).await);
    assert_eq!(client.fails("d", get_more(id)).await, 50738);
    assert_eq!(client.fails("d", with_session(get_more(id), 2)).await, 50738);
    assert_eq!(client.fails("e", with_session(get_more(id), 1)).await, 13);
    let mut other = server.connect();
    let (same, next) = batch(&other.ok("d", with_session(get_more(id), 1)).await);
    assert_eq!((same, next.len()), (0, 248));
    let (id, _) = batch(&client.ok("d", find(2)).await);
    assert_eq!(client.fails("d", with_session(get_more(id), 1)).await, 50738);
}

#[tokio::test]
async fn wrong_requests_for_more_leave_the_cursor_alone() {
    let server = Server::start().await;
    let mut client = filled(&server, 20).await;
    let (id, _) = batch(&client.ok("d", find(2)).await);
    let with = |name: &str, value: Value| {
        let mut command = get_more(id);
        command.push(name, value);
        command
    };
    let int = doc([("getMore", Value::Int(5)), ("collection", Value::string("c"))]);
    let null = doc([("getMore", Value::Null), ("collection", Value::string("c"))]);
    for (code, wrong) in [
        (14, int),
        (40414, null),
        (40414, doc([("getMore", Value::Long(id))])),
        (2, with("batchSize", Value::Int(-1))),
        (14, with("batchSize", Value::string("1"))),
        (40415, with("nosuch", Value::Int(1))),
        (2, with("maxTimeMS", Value::Int(5))),
    ] {
        assert_eq!(client.fails("d", wrong).await, code);
    }
    assert_eq!(batch(&client.ok("d", get_more(id)).await).1.len(), 18);
}

#[tokio::test]
async fn cursors_are_killed_by_name_time_or_with_their_session() {
    let server = Server::start().await;
    let mut client = filled(&server, 20).await;
    let open = async |client: &mut Client| batch(&client.ok("d", with_session(find(2), 1)).await).0;
    let (first, second, third) = (open(&mut client).await, open(&mut client).await, open(&mut client).await);
    let ids = Value::array(vec![Value::Long(first), Value::Long(5)]);
    let kill = doc([("killCursors", Value::string("c")), ("cursors", ids)]);
    let killed = client.ok("d", kill).await;
    let listed = |name: &str| killed.value(name).as_array().map(|ids| ids.len());
    assert_eq!(listed("cursorsKilled"), Some(1));
    assert_eq!(listed("cursorsNotFound"), Some(1));
    assert_eq!(client.fails("d", with_session(get_more(first), 1)).await, 43);
    // One invalid id, and no cursor is killed.
    let ids = Value::array(vec![Value::Long(second), Value::string("x")]);
    assert_eq!(client.fails("d", doc([("killCursors", Value::string("c")), ("cursors", ids)])).await, 14);
    client.ok("d", with_session(get_more(second), 1)).await;
    let session = Document::one("id", Value::Binary(4, [1; 16].as_slice().into()));
    client.ok("admin", doc([("endSessions", Value::array(vec![session.into()]))])).await;
    assert_eq!(client.fails("d", with_session(get_more(third), 1)).await, 43);
    let (fourth, _) = batch(&client.ok("d", find(2)).await);
    server.clock.advance(Duration::from_secs(601));
    assert_eq!(client.fails("d", get_more(fourth)).await, 43);
}

#[tokio::test]
async fn only_so_many_cursors_are_open() {
    let cursors = CursorLimits { count_max: 3, ..CursorLimits::default() };
    let server = Server::start_with(MongoSettings { cursors, ..MongoSettings::default() }).await;
    let mut client = filled(&server, 20).await;
    for _ in 0..3 {
        client.ok("d", find(2)).await;
    }
    assert_eq!(client.fails("d", find(2)).await, 16500);
    server.clock.advance(Duration::from_secs(601));
    client.ok("d", find(2)).await;
}
