//! Collections that are made and dropped between two reads of a change stream: the stream returns their drops or
//! an error for lost history, and never skips them silently.

use std::sync::Arc;
use std::time::Duration;

use bson::doc;
use shardlake_gateway_mongo::MongoSettings;
use shardlake_mql::Value;
use shardlake_storage::fault::FaultEngine;
use shardlake_storage::{Durability, Shard, ShardOptions};

use crate::change_streams::{Stream, aggregate, bson_of, end_of, insert, ok, rename, told};
use crate::client::{Client, Server, of};

const DATABASE: &str = "$cmd.aggregate";

async fn come_and_go(client: &mut Client, name: &str) {
    ok(client, doc! { "create": name }).await;
    ok(client, doc! { "drop": name }).await;
}

async fn come_and_go_written(client: &mut Client, name: &str) {
    insert(client, name, 1).await;
    ok(client, doc! { "drop": name }).await;
}

async fn is_lost(client: &mut Client, stream: &Stream) {
    let more = doc! { "getMore": stream.id, "collection": &stream.collection };
    for _ in 0..2 {
        assert_eq!(client.fails("d", of(&more)).await, 286);
    }
}

#[tokio::test]
async fn a_collection_that_came_and_went_is_told_to_its_database() {
    let server = Server::start().await;
    let mut client = server.connect();
    insert(&mut client, "other", 0).await;
    let mut stream = Stream::open(&mut client, DATABASE, doc! {}).await;
    let start = doc! { "resumeAfter": bson_of(&stream.token) };
    come_and_go(&mut client, "a").await;
    client.ok("elsewhere", of(&doc! { "insert": "x", "documents": [{ "_id": 1 }] })).await;
    client.ok("elsewhere", of(&doc! { "drop": "x" })).await;
    come_and_go(&mut client, "b").await;
    // Each token resumes with the events after it.
    let first = stream.next(&mut client, 1).await;
    let token = doc! { "resumeAfter": bson_of(first[0].value("_id").as_document().expect("a token")) };
    assert_eq!(told(&mut stream, &mut client).await, ["drop b"]);
    let mut again = Stream::open(&mut client, DATABASE, start.clone()).await;
    assert_eq!(told(&mut again, &mut client).await, ["drop a", "drop b"]);
    let mut again = Stream::open(&mut client, DATABASE, token).await;
    assert_eq!(told(&mut again, &mut client).await, ["drop b"]);
    insert(&mut client, "other", 1).await;
    assert_eq!(told(&mut stream, &mut client).await, ["insert other 1"]);
    // The history of this collection's writes is lost.
    let behind = doc! { "resumeAfter": bson_of(&stream.token) };
    come_and_go_written(&mut client, "a").await;
    is_lost(&mut client, &stream).await;
    for token in [start, behind] {
        let resumed = aggregate(DATABASE, token, vec![]);
        assert_eq!(client.fails("d", of(&resumed)).await, 286);
    }
    Stream::open(&mut client, DATABASE, doc! {}).await;
}

#[tokio::test]
async fn each_collection_that_had_the_name_ends_a_stream() {
    let server = Server::start().await;
    let mut client = server.connect();
    let mut stream = Stream::open(&mut client, "c", doc! {}).await;
    come_and_go(&mut client, "c").await;
    come_and_go(&mut client, "c").await;
    for _ in 0..2 {
        assert_eq!(told(&mut stream, &mut client).await, ["drop c", "invalidate"]);
        let end = doc! { "startAfter": bson_of(&stream.token) };
        stream = Stream::open(&mut client, "c", end).await;
    }
    insert(&mut client, "c", 1).await;
    assert_eq!(told(&mut stream, &mut client).await, ["insert c 1"]);
    // The stream's own collection, one without writes, and one whose changes are lost.
    ok(&mut client, doc! { "drop": "c" }).await;
    come_and_go(&mut client, "c").await;
    come_and_go_written(&mut client, "c").await;
    insert(&mut client, "c", 2).await;
    let end = end_of(&mut stream, &mut client).await;
    let mut next = Stream::open(&mut client, "c", doc! { "startAfter": end }).await;
    assert_eq!(told(&mut next, &mut client).await, ["drop c", "invalidate"]);
    let lost = aggregate("c", doc! { "startAfter": bson_of(&next.token) }, vec![]);
    assert_eq!(client.fails("d", of(&lost)).await, 286);
}

#[tokio::test]
async fn a_name_that_is_free_after_a_rename_may_come_and_go() {
    let server = Server::start().await;
    let mut client = server.connect();
    insert(&mut client, "c", 1).await;
    let mut stream = Stream::open(&mut client, "c", doc! {}).await;
    rename(&mut client, "c", "e").await;
    come_and_go(&mut client, "c").await;
    assert_eq!(told(&mut stream, &mut client).await, ["rename c to e", "invalidate"]);
    let end = doc! { "startAfter": bson_of(&stream.token) };
    let mut next = Stream::open(&mut client, "c", end).await;
    assert_eq!(told(&mut next, &mut client).await, ["drop c", "invalidate"]);
}

#[tokio::test]
async fn a_stream_from_a_time_hears_of_what_ended_since() {
    let server = Server::start().await;
    let mut client = server.connect();
    insert(&mut client, "c", 1).await;
    insert(&mut client, "other", 0).await;
    server.clock.advance(Duration::from_millis(5));
    let mut times = Vec::new();
    for written in [true, false] {
        let reply = ok(&mut client, doc! { "ping": 1 }).await;
        let Value::Timestamp(time, increment) = reply.value("operationTime") else { panic!("no time") };
        times.push(doc! { "startAtOperationTime": bson::Timestamp { time, increment } });
        if written {
            insert(&mut client, "c", 2).await;
            server.clock.advance(Duration::from_millis(5));
        }
    }
    ok(&mut client, doc! { "drop": "c" }).await;
    insert(&mut client, "other", 1).await;
    for collection in ["c", DATABASE] {
        let lost = aggregate(collection, times[0].clone(), vec![]);
        assert_eq!(client.fails("d", of(&lost)).await, 286, "an insert of {collection}");
    }
    // No write to the collection came after this token.
    let mut stream = Stream::open(&mut client, DATABASE, times[1].clone()).await;
    assert_eq!(told(&mut stream, &mut client).await, ["drop c", "insert other 1"]);
    let mut stream = Stream::open(&mut client, "c", times[1].clone()).await;
    assert_eq!(told(&mut stream, &mut client).await, ["drop c", "invalidate"]);
}

#[tokio::test]
async fn a_restart_and_the_years_forget_no_end_in_silence() {
    let engine = FaultEngine::new();
    let over = |engine: &FaultEngine| {
        let options = ShardOptions { durability: Durability::Sync, ..ShardOptions::memory() };
        Shard::with_engine(Arc::new(engine.clone()), &options).expect("opens")
    };
    let clock = shardlake_stdx::Clock::manual(crate::client::NOW);
    let server = Server::over(vec![over(&engine)], MongoSettings::default(), clock.clone()).await;
    let mut client = server.connect();
    let start = bson_of(&Stream::open(&mut client, DATABASE, doc! {}).await.token);
    come_and_go(&mut client, "c").await;
    server.account.close().await.expect("closes");
    let server = Server::over(vec![over(&engine.crash(0))], MongoSettings::default(), clock).await;
    let mut client = server.connect();
    let resumed = doc! { "resumeAfter": start };
    let mut stream = Stream::open(&mut client, DATABASE, resumed.clone()).await;
    assert_eq!(told(&mut stream, &mut client).await, ["drop c"]);
    server.clock.advance(Duration::from_secs(3601));
    let still = Stream::open(&mut client, DATABASE, doc! { "resumeAfter": bson_of(&stream.token) }).await;
    come_and_go(&mut client, "e").await;
    let lost = aggregate(DATABASE, resumed, vec![]);
    assert_eq!(client.fails("d", of(&lost)).await, 286, "the end of 'c' is forgotten");
    let mut still = still;
    assert_eq!(told(&mut still, &mut client).await, ["drop e"]);
}
