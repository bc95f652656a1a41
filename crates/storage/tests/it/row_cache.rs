//! Rows in front of the engine: never another state than the acknowledged one, whatever is on its way or has failed.
//! `suite.rs` compares them with the model on random histories.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use shardlake_storage::fault::FaultEngine;
use shardlake_storage::{Batch, Durability, Found, MemoryEngine, Shard, ShardOptions};
use shardlake_testkit::{Logs, expects_log};

const KEY: &[u8] = b"key";

fn write(value: &'static str) -> Batch {
    let mut batch = Batch::new();
    batch.put(KEY, value);
    batch
}

async fn found(shard: &Shard) -> Option<Found> {
    shard.get_hot(KEY).await.expect("reads")
}

async fn value(shard: &Shard) -> Option<Bytes> {
    found(shard).await.map(|found| found.value)
}

#[tokio::test]
async fn row_that_was_read_is_kept_with_its_form() {
    let _logs = Logs::watch();
    let shard = Shard::with_engine(Arc::new(FaultEngine::new()), &ShardOptions::local("")).expect("opens");
    shard.commit(write("one")).expect("room").await.expect("commits");
    assert!(found(&shard).await.expect("there").hot.is_none(), "read from the engine");
    let hot = found(&shard).await.expect("there").hot.expect("kept by the first read");
    assert_eq!(hot.form(), None);
    hot.keep_form(&"ONE".into());
    let again = found(&shard).await.and_then(|found| found.hot).expect("kept");
    assert_eq!(again.form(), Some(&"ONE".into()));
    shard.commit(write("two")).expect("room").await.expect("commits");
    let found = found(&shard).await.expect("there");
    assert_eq!((&*found.value, found.hot.is_none()), (&b"two"[..], true), "the form went with its row");
}

#[tokio::test]
async fn write_shows_when_it_is_acknowledged_and_not_before() {
    let _logs = Logs::watch();
    expects_log("refuses writes");
    let engine = FaultEngine::new();
    let shard = Shard::with_engine(Arc::new(engine.clone()), &ShardOptions::local("")).expect("opens");
    shard.commit(write("one")).expect("room").await.expect("commits");
    assert_eq!(value(&shard).await, Some("one".into()));
    engine.stall_syncs(true);
    let commit = shard.commit(write("two")).expect("room");
    while shard.applied() < 2 {
        tokio::task::yield_now().await;
    }
    for _ in 0..3 {
        assert_eq!(value(&shard).await, Some("one".into()), "a crash can undo the second");
    }
    engine.stall_syncs(false);
    commit.await.expect("commits");
    assert_eq!(value(&shard).await, Some("two".into()));
    engine.fail_sync(1);
    shard.commit(write("three")).expect("room").await.expect_err("the sync fails");
    for _ in 0..3 {
        assert_eq!(value(&shard).await, Some("two".into()), "nobody was told of the third");
    }
}

#[tokio::test]
async fn rows_that_nobody_said_are_read_again_are_not_kept() {
    let _logs = Logs::watch();
    let shard = Shard::with_engine(Arc::new(FaultEngine::new()), &ShardOptions::local("")).expect("opens");
    shard.reads_hot(|key| key != KEY);
    shard.commit(write("one")).expect("room").await.expect("commits");
    for _ in 0..3 {
        assert!(found(&shard).await.expect("there").hot.is_none(), "kept");
    }
    shard.commit(write("two")).expect("room").await.expect("commits");
    assert_eq!(value(&shard).await, Some("two".into()));
}

/// A writer counts up; a reader finds at least the last acknowledged count, and no reader sees the
/// count go down.
async fn readers_follow_a_writer(durability: Durability) {
    const READERS: usize = 3;
    const WRITES: u64 = 300;
    let options = ShardOptions { durability, ..ShardOptions::memory() };
    let shard = Shard::with_engine(Arc::new(MemoryEngine::new()), &options).expect("opens");
    let (told, has_ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let reader = || {
        let (shard, told, has_ended) = (shard.clone(), told.clone(), has_ended.clone());
        tokio::spawn(async move {
            let mut last = 0;
            while !has_ended.load(Ordering::SeqCst) {
                let least = told.load(Ordering::SeqCst).max(last);
                let found = found(&shard).await;
                let number = |found: Found| found.value.as_ref().try_into().expect("a number");
                last = found.map_or(0, |found| u64::from_be_bytes(number(found)));
                assert!(last >= least, "read {last} after {least}");
                tokio::task::yield_now().await;
            }
        })
    };
    let readers: Vec<_> = (0..READERS).map(|_| reader()).collect();
    for number in 1..=WRITES {
        let mut batch = Batch::new();
        batch.put(KEY, number.to_be_bytes().to_vec());
        shard.commit(batch).expect("room").await.expect("commits");
        told.store(number, Ordering::SeqCst);
        tokio::task::yield_now().await;
    }
    has_ended.store(true, Ordering::SeqCst);
    for reader in readers {
        reader.await.expect("no reader saw an older value");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_never_see_less_than_writers_were_told() {
    let _logs = Logs::watch();
    for durability in [Durability::Sync, Durability::Async, Durability::Memory] {
        readers_follow_a_writer(durability).await;
    }
}
