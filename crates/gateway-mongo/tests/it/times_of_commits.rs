//! A client takes a time, reads, and opens a change stream from that time. Its read and its events
//! together contain every write, whatever was under way.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bson::doc;
use shardlake_account::SplitAt;
use shardlake_gateway_mongo::MongoSettings;
use shardlake_mql::{Document, Value};
use shardlake_stdx::Clock;
use shardlake_storage::fault::FaultEngine;
use shardlake_storage::{Durability, Shard, ShardOptions};

use crate::client::{Client, NOW, Server, first_batch, of};
use crate::transactions::Session;

async fn over(engine: &FaultEngine, clock: Clock) -> Server {
    let options = ShardOptions { durability: Durability::Sync, ..ShardOptions::memory() };
    let shard = Shard::with_engine(Arc::new(engine.clone()), &options).expect("opens");
    Server::over(vec![shard], MongoSettings::default(), clock).await
}

fn insert(ids: impl IntoIterator<Item = i64>) -> bson::Document {
    let documents: Vec<bson::Document> =
        ids.into_iter().map(|id| doc! { "_id": id, "k": format!("key {}", id % 7) }).collect();
    doc! { "insert": "c", "documents": documents }
}

/// A client's time, and the documents that it read then.
#[derive(Debug)]
struct Snapshot {
    time: bson::Timestamp,
    read: BTreeSet<i64>,
}

async fn read(client: &mut Client) -> BTreeSet<i64> {
    let reply = client.ok("d", of(&doc! { "find": "c", "batchSize": 100_000 })).await;
    first_batch(&reply).iter().map(|found| found.value("_id").to_i64_exact().expect("a number")).collect()
}

fn operation_time(reply: &Document) -> bson::Timestamp {
    let Value::Timestamp(time, increment) = reply.value("operationTime") else { panic!("no time") };
    bson::Timestamp { time, increment }
}

impl Snapshot {
    async fn take(client: &mut Client) -> Snapshot {
        let reply = client.ok("d", of(&doc! { "ping": 1 })).await;
        Snapshot { time: operation_time(&reply), read: read(client).await }
    }

    /// The documents in the events of a stream from the time.
    async fn told(&self, client: &mut Client) -> BTreeSet<i64> {
        let stream = doc! { "$changeStream": { "startAtOperationTime": self.time } };
        let command = doc! { "aggregate": "c", "pipeline": [stream], "cursor": { "batchSize": 0 } };
        let reply = client.ok("d", of(&command)).await;
        let cursor = reply.value("cursor");
        let id = cursor.as_document().expect("a cursor").value("id").to_i64_exact().expect("a number");
        let mut told = BTreeSet::new();
        loop {
            let more = doc! { "getMore": id, "collection": "c", "maxTimeMS": 1 };
            let reply = client.ok("d", of(&more)).await;
            let cursor = reply.value("cursor");
            let batch = cursor.as_document().expect("a cursor").value("nextBatch");
            let events = batch.as_array().expect("a list");
            for event in events.iter() {
                let event = event.as_document().expect("a document");
                let key = event.value("documentKey");
                let id = key.as_document().expect("a key").value("_id").to_i64_exact();
                told.insert(id.expect("a number"));
            }
            if events.is_empty() {
                client.ok("d", of(&doc! { "killCursors": "c", "cursors": [id] })).await;
                return told;
            }
        }
    }

    async fn expect_no_gap(&self, client: &mut Client, all: &BTreeSet<i64>) {
        let told = self.told(client).await;
        let missed: Vec<_> = all.iter().filter(|id| !self.read.contains(id) && !told.contains(id)).collect();
        let Snapshot { time, read } = self;
        let (read, told) = (read.len(), told.len());
        assert!(missed.is_empty(), "at {time:?}, read {read}, told {told}: never heard of {missed:?}");
    }
}

async fn stalled(engine: &FaultEngine) {
    while !engine.is_stalling() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_write_that_is_not_shown_yet_comes_behind_the_time() {
    let engine = FaultEngine::new();
    let server = over(&engine, Clock::manual(NOW)).await;
    let (mut writer, mut reader) = (server.connect(), server.connect());
    reader.ok("d", of(&insert([0]))).await;
    engine.stall_syncs(true);
    let writing = tokio::spawn(async move { writer.ok("d", of(&insert(1..40))).await });
    stalled(&engine).await;
    server.clock.advance(Duration::from_millis(10));
    let snapshot = Snapshot::take(&mut reader).await;
    assert_eq!(snapshot.read, BTreeSet::from([0]));
    engine.stall_syncs(false);
    let reply = writing.await.expect("it ends");
    let all = read(&mut reader).await;
    assert_eq!(all.len(), 40);
    snapshot.expect_no_gap(&mut reader, &all).await;
    let after = operation_time(&reply);
    assert!(after > snapshot.time, "nothing is under way any more: {after:?}");
}

#[tokio::test]
async fn so_does_a_write_whose_client_has_gone_away() {
    let engine = FaultEngine::new();
    let server = over(&engine, Clock::manual(NOW)).await;
    let (mut writer, mut reader) = (server.connect(), server.connect());
    reader.ok("d", of(&insert([0]))).await;
    engine.stall_syncs(true);
    let writing = tokio::spawn(async move { writer.ok("d", of(&insert([1]))).await });
    stalled(&engine).await;
    writing.abort();
    assert!(writing.await.expect_err("it was ended").is_cancelled());
    server.clock.advance(Duration::from_millis(10));
    let snapshot = Snapshot::take(&mut reader).await;
    engine.stall_syncs(false);
    // Committed after the write whose client has gone away.
    reader.ok("d", of(&insert([2]))).await;
    let all = read(&mut reader).await;
    assert_eq!((snapshot.read.len(), all.len()), (1, 3));
    snapshot.expect_no_gap(&mut reader, &all).await;
}

#[tokio::test]
async fn a_transaction_has_the_time_of_its_commit() {
    let server = Server::start().await;
    let (mut writer, mut reader) = (server.connect(), server.connect());
    reader.ok("d", of(&insert([0]))).await;
    let mut session = Session::new(1);
    session.begin();
    let began = writer.ok("d", session.part(&insert([1, 2]))).await;
    // This write waits until the transaction has ended.
    let mut waiter = server.connect();
    let waiting = tokio::spawn(async move { waiter.run("d", of(&insert([2]))).await });
    server.clock.advance(Duration::from_secs(3));
    let snapshot = Snapshot::take(&mut reader).await;
    assert_eq!(snapshot.read, BTreeSet::from([0]));
    // The transaction reads a state older than the time of the other client.
    let find = session.part(&doc! { "find": "c" });
    let seen = writer.ok("d", find).await;
    assert_eq!(operation_time(&seen), operation_time(&began));
    assert!(operation_time(&seen) < snapshot.time);
    writer.ok("admin", session.commit()).await;
    waiting.await.expect("it ends");
    let all = read(&mut reader).await;
    assert_eq!(all.len(), 3);
    snapshot.expect_no_gap(&mut reader, &all).await;
}

/// Documents that each writer writes.
const WRITTEN: i64 = 240;

/// Writes repeatedly, in one of several ways.
async fn write(server: Arc<Server>, way: i64) {
    let mut client = server.connect();
    let mut ids = (way * 10_000..).take(WRITTEN as usize).peekable();
    let mut session = Session::new(way as u8);
    while ids.peek().is_some() {
        match way {
            1 => drop(client.ok("d", of(&insert(ids.by_ref().take(1)))).await),
            2 => drop(client.ok("d", of(&insert(ids.by_ref().take(40)))).await),
            _ => {
                session.begin();
                for _ in 0..4 {
                    client.ok("d", session.part(&insert(ids.by_ref().take(1)))).await;
                }
                client.ok("admin", session.commit()).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn what_is_read_and_what_is_told_since_hold_every_write() {
    let engine = FaultEngine::new();
    let server = Arc::new(over(&engine, Clock::System).await);
    let mut client = server.connect();
    client.ok("d", of(&doc! { "create": "c", "shardKey": { "k": "hashed" } })).await;
    let handle = server.account.router().container_for_items("d", "c").expect("the container");
    let split = server.account.maintenance().split(&handle, 0, SplitAt::Middle).await.expect("begins");
    split.finished().await.expect("ends well");

    let is_over = Arc::new(AtomicBool::new(false));
    let at_work = Arc::new(AtomicUsize::new(3));
    // Syncs stall now and then, so that commits of several partitions are under way.
    let stalls = std::thread::spawn({
        let (engine, is_over) = (engine.clone(), is_over.clone());
        move || {
            while !is_over.load(Ordering::SeqCst) {
                engine.stall_syncs(true);
                (0..2_000).for_each(|_| std::thread::yield_now());
                engine.stall_syncs(false);
                (0..200).for_each(|_| std::thread::yield_now());
            }
        }
    });
    let writers: Vec<_> = (1..=3)
        .map(|way| {
            let (server, at_work) = (server.clone(), at_work.clone());
            tokio::spawn(async move {
                write(server, way).await;
                at_work.fetch_sub(1, Ordering::SeqCst);
            })
        })
        .collect();
    let mut snapshots = Vec::new();
    while at_work.load(Ordering::SeqCst) > 0 {
        snapshots.push(Snapshot::take(&mut client).await);
    }
    for writer in writers {
        writer.await.expect("it ends well");
    }
    is_over.store(true, Ordering::SeqCst);
    stalls.join().expect("it ends well");

    let all = read(&mut client).await;
    assert_eq!(all.len(), 3 * WRITTEN as usize);
    // Neighbours differ little, so some thirty of them are enough.
    let step = snapshots.len().div_ceil(30);
    for snapshot in snapshots.iter().step_by(step) {
        snapshot.expect_no_gap(&mut client, &all).await;
    }
}
