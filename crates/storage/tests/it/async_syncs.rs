//! With `Durability::Async` every commit becomes durable without any further commit, whichever
//! thread wrote it: the committer, or the waiting writer itself. The events are the engine's syncs
//! and the durable watermark; no clock decides. A commit that is never synced shows as a test that
//! does not end.

use std::sync::Arc;

use proptest::prelude::*;
use shardlake_storage::fault::FaultEngine;
use shardlake_storage::{Batch, Durability, Shard, ShardOptions, StorageError};
use shardlake_testkit::{Logs, expects_log};

fn shard(engine: &FaultEngine) -> Shard {
    engine.let_writers_lead();
    let options = ShardOptions { durability: Durability::Async, ..ShardOptions::local("") };
    Shard::with_engine(Arc::new(engine.clone()), &options).expect("the shard opens")
}

fn batch(number: u64) -> Batch {
    let mut batch = Batch::new();
    batch.put(format!("{number:06}"), vec![7; 10]);
    batch
}

async fn write(shard: &Shard, number: u64) {
    shard.commit(batch(number)).expect("room").await.expect("commits");
}

/// Waits without asking for a sync, as if the client had left.
async fn see_durable(shard: &Shard, seq: u64) {
    while shard.durable() < seq {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn lone_writer_is_followed_by_one_sync_each_time_it_rests() {
    let _logs = Logs::watch();
    let engine = FaultEngine::new();
    let shard = shard(&engine);
    let mut seq = 0;
    for rest in 1..=6 {
        write(&shard, seq + 1).await;
        seq += 1;
        see_durable(&shard, seq).await;
        assert_eq!(engine.syncs(), rest, "one sync for what was written since the last");
    }
}

#[tokio::test]
async fn lone_writer_that_never_rests_is_synced_meanwhile() {
    let _logs = Logs::watch();
    let engine = FaultEngine::new();
    let shard = shard(&engine);
    let mut number = 0;
    while engine.syncs() < 3 {
        number += 1;
        write(&shard, number).await;
        tokio::task::yield_now().await;
    }
    assert!(number > 3, "but not every commit by itself");
}

#[tokio::test]
async fn waiting_for_durability_syncs_at_once() {
    let _logs = Logs::watch();
    let engine = FaultEngine::new();
    let shard = shard(&engine);
    for number in 1..=200 {
        write(&shard, number).await;
        shard.wait_durable(number).await.expect("synced");
        // A sync that came by itself in between leaves no work for the requested one.
        assert_eq!(engine.syncs(), number);
    }
    // Waiting again for a durable commit asks for no sync.
    shard.wait_durable(200).await.expect("durable");
    assert_eq!(engine.syncs(), 200);
}

#[tokio::test]
async fn failed_sync_behind_a_lone_writer_is_told_to_those_that_wait_and_to_the_next_writer() {
    let _logs = Logs::watch();
    expects_log("a shard refuses writes from now on");
    let engine = FaultEngine::new();
    let shard = shard(&engine);
    write(&shard, 1).await;
    shard.wait_durable(1).await.expect("synced");
    engine.fail_sync(1);
    write(&shard, 2).await;
    assert!(matches!(shard.wait_durable(2).await, Err(StorageError::Poisoned { .. })));
    assert!(matches!(shard.commit(batch(3)), Err(StorageError::Poisoned { .. })));
}

/// Writers of all kinds: some wait for their commits, some go away, some ask for durability.
async fn become_durable(writers: u64, commits: u64, manners: Vec<u8>) {
    let _logs = Logs::watch();
    let engine = FaultEngine::new();
    let shard = shard(&engine);
    let tasks: Vec<_> = (0..writers)
        .map(|writer| {
            let (shard, manner) = (shard.clone(), manners[writer as usize % manners.len()]);
            tokio::spawn(async move {
                let mut last = 0;
                for number in 0..commits {
                    let commit = shard.commit(batch(writer * 1000 + number)).expect("room");
                    last = commit.seq();
                    match manner {
                        0 => drop(commit),
                        1 => commit.await.expect("commits"),
                        _ => {
                            commit.await.expect("commits");
                            shard.wait_durable(last).await.expect("synced");
                        }
                    }
                }
                last
            })
        })
        .collect();
    let mut last = 0;
    for task in tasks {
        last = last.max(task.await.expect("no panic"));
    }
    assert_eq!(last, writers * commits);
    see_durable(&shard, last).await;
    let options = ShardOptions::local("");
    let after_crash = Shard::with_engine(Arc::new(engine.crash(0)), &options).expect("opens");
    let stats = after_crash.stats(vec![0], vec![0xFF]).await.expect("readable");
    assert_eq!(stats.keys, writers * commits, "and is on the disk");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_commit_becomes_durable_without_a_further_commit(
        writers in 1..5u64, commits in 1..30u64, manners in prop::collection::vec(0..3u8, 1..4),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.expect("a runtime").block_on(become_durable(writers, commits, manners));
    }
}
