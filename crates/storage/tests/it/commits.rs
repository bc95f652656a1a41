//! Committer over an engine with faults: grouping, order, bounds, poison, and the losses that a
//! crash may cause.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use shardlake_storage::fault::FaultEngine;
use shardlake_storage::{Batch, Durability, PendingCommit, Shard, ShardOptions, StorageError};
use shardlake_testkit::{Logs, expects_log};

fn shard(engine: &FaultEngine, options: &ShardOptions) -> Shard {
    Shard::with_engine(Arc::new(engine.clone()), options).expect("the shard opens")
}

fn options() -> ShardOptions {
    ShardOptions::local("")
}

/// Two keys that belong together, and a key that every commit overwrites.
fn batch(number: u64) -> Batch {
    let mut batch = Batch::new();
    batch.put(format!("a{number:06}"), number.to_be_bytes().to_vec());
    batch.put(format!("b{number:06}"), number.to_be_bytes().to_vec());
    batch.put("last", number.to_be_bytes().to_vec());
    batch
}

async fn last(shard: &Shard) -> u64 {
    let value = shard.get(b"last").await.expect("reads succeed");
    value.map_or(0, |value| u64::from_be_bytes(value[..].try_into().expect("eight bytes")))
}

/// The engine is working on one commit and will not finish it.
async fn stall(engine: &FaultEngine, shard: &Shard) -> PendingCommit {
    engine.stall_syncs(true);
    let commit = shard.commit(batch(1)).expect("the queue has room");
    while engine.applies() == 0 {
        tokio::task::yield_now().await;
    }
    commit
}

fn patient(number: u64) -> Batch {
    let mut batch = batch(number);
    batch.be_patient();
    batch
}

#[tokio::test]
async fn patient_commit_is_durable_without_another_and_keeps_its_place_among_others() {
    let _logs = Logs::watch();
    let engine = FaultEngine::new();
    let shard = shard(&engine, &options());
    shard.commit(patient(1)).expect("room").await.expect("commits");
    assert_eq!((engine.syncs(), shard.durable(), last(&shard).await), (1, 1, 1));
    // A caller that asks for durability does not wait for another commit.
    let kept = shard.commit(patient(2)).expect("room");
    shard.wait_durable(kept.seq()).await.expect("is durable");
    kept.await.expect("commits");
    let kept = shard.commit(patient(3)).expect("room");
    shard.commit(batch(4)).expect("room").await.expect("commits");
    assert!(shard.durable() >= kept.seq(), "commits keep their order");
    kept.await.expect("commits");
    assert_eq!(last(&shard).await, 4);
    // Closing the shard writes the commits that are still delayed.
    let kept = shard.commit(patient(5)).expect("room");
    shard.close().await.expect("closes");
    kept.await.expect("commits");
}

#[tokio::test]
async fn commits_that_arrive_during_a_sync_share_the_next() {
    let _logs = Logs::watch();
    let engine = FaultEngine::new();
    let shard = shard(&engine, &options());
    let first = stall(&engine, &shard).await;
    let others: Vec<_> = (2..=200).map(|number| shard.commit(batch(number)).expect("room")).collect();
    assert_eq!((shard.durable(), engine.applies()), (0, 1), "nothing is durable yet");
    engine.stall_syncs(false);
    first.await.expect("commits");
    for (index, commit) in others.into_iter().enumerate() {
        assert_eq!(commit.seq(), index as u64 + 2);
        commit.await.expect("commits");
    }
    assert_eq!((engine.applies(), engine.syncs()), (2, 2), "one write and one sync for 199 commits");
    assert_eq!((shard.applied(), shard.durable(), last(&shard).await), (200, 200, 200));
}

#[tokio::test]
async fn readers_neither_wait_for_a_sync_nor_see_what_it_has_not_reached() {
    let _logs = Logs::watch();
    let engine = FaultEngine::new();
    let shard = shard(&engine, &options());
    let commit = stall(&engine, &shard).await;
    while shard.applied() < 1 {
        tokio::task::yield_now().await;
    }
    assert_eq!((last(&shard).await, shard.durable()), (0, 0));
    let applied = shard.get_applied(b"last").await.expect("reads succeed");
    assert!(applied.is_some(), "who plans the next commit sees this one");
    let waiter = tokio::spawn({
        let shard = shard.clone();
        async move { shard.wait_durable(1).await.map(|()| shard.durable()) }
    });
    tokio::task::yield_now().await;
    assert!(!waiter.is_finished());
    engine.stall_syncs(false);
    commit.await.expect("commits");
    assert_eq!(waiter.await.expect("no panic").expect("durable"), 1);
    assert_eq!(last(&shard).await, 1, "who waited for the commit sees it");
}

/// Readers during many commits, the last of which fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn readers_see_every_acknowledged_commit_and_no_other() {
    let _logs = Logs::watch();
    expects_log("a shard refuses writes from now on");
    const COMMITS: u64 = 2000;
    let engine = FaultEngine::new();
    engine.fail_sync(COMMITS);
    let shard = shard(&engine, &options());
    let acknowledged = Arc::new(AtomicU64::new(0));
    let readers = [0, 1].map(|_| {
        let (shard, engine, acknowledged) = (shard.clone(), engine.clone(), acknowledged.clone());
        tokio::spawn(async move {
            let mut seen_before = 0;
            while !shard.is_poisoned() {
                let told_before = acknowledged.load(Ordering::SeqCst);
                let seen = last(&shard).await;
                assert!(told_before <= seen, "{told_before} was acknowledged, but {seen} is shown");
                assert!(seen_before <= seen, "readers went back from {seen_before} to {seen}");
                let synced = engine.syncs();
                assert!(seen <= synced, "{seen} is shown after {synced} syncs");
                seen_before = seen;
            }
            last(&shard).await
        })
    });
    for number in 1..=COMMITS {
        match shard.commit(batch(number)).expect("room").await {
            Ok(()) => acknowledged.store(number, Ordering::SeqCst),
            Err(error) => assert!(matches!(error, StorageError::Poisoned { .. }), "{error}"),
        }
    }
    for reader in readers {
        assert_eq!(reader.await.expect("no reader panics"), COMMITS - 1);
    }
    assert_eq!(acknowledged.load(Ordering::SeqCst), COMMITS - 1);
}

#[tokio::test]
async fn a_full_queue_refuses_by_number_and_by_size_and_recovers() {
    let _logs = Logs::watch();
    let engine = FaultEngine::new();
    let options = ShardOptions { queue_commits_max: 4, queue_bytes_max: 3_000, ..options() };
    let shard = shard(&engine, &options);
    let first = stall(&engine, &shard).await;
    let mut queued: Vec<_> = (2..=5).map(|number| shard.commit(batch(number)).expect("room")).collect();
    assert!(matches!(shard.commit(batch(6)), Err(StorageError::Overloaded)), "a fifth is too many");
    engine.stall_syncs(false);
    first.await.expect("commits");
    queued.pop().expect("four").await.expect("commits");
    // Refused commits took no place in the order.
    engine.stall_syncs(true);
    let applies = engine.applies();
    let next = shard.commit(batch(7)).expect("room again");
    assert_eq!(next.seq(), 6);
    while engine.applies() == applies {
        tokio::task::yield_now().await;
    }
    let large = |size| {
        let mut batch = Batch::new();
        batch.put("large", vec![0; size]);
        batch
    };
    let alone = shard.commit(large(10_000)).expect("a commit larger than the bound may queue alone");
    assert!(matches!(shard.commit(large(10)), Err(StorageError::Overloaded)), "but nothing behind it");
    engine.stall_syncs(false);
    alone.await.expect("commits");
    assert_eq!(shard.applied(), 7);
}

#[tokio::test]
async fn dropping_the_future_does_not_take_the_commit_back() {
    let _logs = Logs::watch();
    let engine = FaultEngine::new();
    let shard = shard(&engine, &options());
    drop(shard.commit(batch(1)).expect("room"));
    shard.wait_durable(1).await.expect("durable");
    assert_eq!(last(&shard).await, 1);
    drop(shard.commit(batch(2)).expect("room"));
    drop(shard);
    assert_eq!(last(&self::shard(&engine.crash(0), &options())).await, 2, "dropping the shard finishes it");
}

#[tokio::test]
async fn a_failure_poisons_for_ever_but_reads_go_on() {
    let _logs = Logs::watch();
    expects_log("a shard refuses writes from now on");
    for fails_sync in [false, true] {
        let engine = FaultEngine::new();
        let shard = shard(&engine, &options());
        shard.commit(batch(1)).expect("room").await.expect("commits");
        if fails_sync {
            engine.fail_sync(1)
        } else {
            engine.fail_apply(1)
        }
        engine.stall_syncs(true);
        let waiting: Vec<_> = (2..=4).filter_map(|number| shard.commit(batch(number)).ok()).collect();
        engine.stall_syncs(false);
        for commit in waiting {
            let error = commit.await.expect_err("never acknowledged");
            assert!(error.to_string().contains("(injected)"), "{error}");
        }
        assert!(shard.is_poisoned());
        let refused = shard.commit(batch(9)).map(|_| ());
        assert!(matches!(refused, Err(StorageError::Poisoned { .. })), "{refused:?}");
        assert!(matches!(shard.wait_durable(99).await, Err(StorageError::Poisoned { .. })));
        assert!(matches!(shard.flush().await, Err(StorageError::Poisoned { .. })));
        assert!(matches!(shard.close().await, Err(StorageError::Poisoned { .. })));
        assert!(last(&shard).await >= 1, "reads go on");
        assert_eq!(shard.durable(), 1);
        let reopened = self::shard(&engine.crash(0), &options());
        reopened.commit(batch(10)).expect("a new owner writes again").await.expect("commits");
    }
}

#[tokio::test]
async fn a_panic_in_the_engine_answers_everyone() {
    let _logs = Logs::watch();
    expects_log("a shard refuses writes from now on");
    struct Panics(FaultEngine);
    impl shardlake_storage::Engine for Panics {
        fn apply(&self, _: Vec<Batch>) -> shardlake_storage::Answer<'_, ()> {
            panic!("a bug in an engine (expected by this test)")
        }
        fn sync(&self) -> shardlake_storage::Answer<'_, ()> {
            self.0.sync()
        }
        fn view(&self) -> Box<dyn shardlake_storage::EngineView> {
            self.0.view()
        }
        fn flush(&self) -> shardlake_storage::Answer<'_, ()> {
            self.0.sync()
        }
        fn close(&self) -> shardlake_storage::Answer<'_, ()> {
            self.0.sync()
        }
        fn disk_bytes(&self) -> u64 {
            0
        }
    }
    let shard = Shard::with_engine(Arc::new(Panics(FaultEngine::new())), &options()).expect("opens");
    let commit = shard.commit(batch(1)).expect("room");
    assert!(matches!(commit.await, Err(StorageError::Poisoned { .. })));
    while !shard.is_poisoned() {
        tokio::task::yield_now().await;
    }
    assert!(shard.commit(batch(2)).is_err());
    assert!(shard.wait_durable(1).await.is_err());
}

#[tokio::test]
async fn closing_finishes_what_is_queued_and_refuses_the_rest() {
    let _logs = Logs::watch();
    let engine = FaultEngine::new();
    let shard = shard(&engine, &options());
    let commits: Vec<_> = (1..=50).map(|number| shard.commit(batch(number)).expect("room")).collect();
    let (first, second) = tokio::join!(shard.close(), shard.close());
    first.and(second).expect("closing twice is closing once");
    assert!(matches!(shard.commit(batch(51)), Err(StorageError::Closed)));
    for commit in commits {
        commit.await.expect("commits");
    }
    assert_eq!((last(&shard).await, shard.durable()), (50, 50));
}

#[tokio::test]
async fn keys_that_no_engine_stores_are_refused() {
    let _logs = Logs::watch();
    let engine = FaultEngine::new();
    let shard = shard(&engine, &options());
    for length in [0, 65_536] {
        let mut batch = Batch::new();
        batch.put(vec![1; length], "value");
        assert!(
            matches!(shard.commit(batch), Err(StorageError::KeyLength { length: found }) if found == length)
        );
    }
    let commit = shard.commit(batch(1)).expect("room");
    assert_eq!(commit.seq(), 1, "a refused commit takes no place in the order");
    commit.await.expect("commits");
}

#[tokio::test]
async fn a_writer_does_not_commit_where_it_waits_when_the_engine_is_held_up() {
    let _logs = Logs::watch();
    let engine = FaultEngine::new();
    engine.let_writers_lead();
    let shard = shard(&engine, &options());
    let me = std::thread::current().id();
    let mut number = 0;
    while engine.last_writer() != Some(me) {
        number += 1;
        shard.commit(batch(number)).expect("room").await.expect("commits");
    }
    // Queued with the writer to lead, and held up before it does.
    let applies = engine.applies();
    let queued = shard.commit(batch(number + 1)).expect("room");
    engine.hold_up();
    queued.await.expect("commits");
    assert_eq!(engine.applies(), applies + 1);
    assert_ne!(engine.last_writer(), Some(me));
}

#[tokio::test]
async fn async_commits_are_synced_soon_even_when_they_never_pause() {
    let _logs = Logs::watch();
    expects_log("a shard refuses writes from now on");
    let engine = FaultEngine::new();
    let shard = shard(&engine, &ShardOptions { durability: Durability::Async, ..options() });
    let mut number = 0;
    while engine.syncs() < 2 {
        number += 1;
        shard.commit(batch(number)).expect("room").await.expect("commits");
    }
    shard.wait_durable(number).await.expect("synced without another commit");
    assert!(engine.applies() > 2 * engine.syncs(), "but not every commit by itself");
    engine.fail_sync(1);
    shard.commit(batch(0)).expect("room").await.expect("acknowledged before the sync fails");
    assert!(matches!(shard.wait_durable(number + 1).await, Err(StorageError::Poisoned { .. })));
    assert!(shard.commit(batch(0)).is_err());
}

#[tokio::test]
async fn async_commits_are_synced_by_closing() {
    let _logs = Logs::watch();
    let engine = FaultEngine::new();
    let shard = shard(&engine, &ShardOptions { durability: Durability::Async, ..options() });
    shard.commit(batch(1)).expect("room").await.expect("commits");
    shard.close().await.expect("closes");
    assert_eq!(last(&self::shard(&engine.crash(0), &options())).await, 1);
}

/// Writers that commit until the engine fails, then a crash that keeps everything synced and a few writes more.
async fn crash_history(fails_at: u64, fails_sync: bool, writers: u64, lucky: usize) {
    let _logs = Logs::watch();
    expects_log("a shard refuses writes from now on");
    let engine = FaultEngine::new();
    let shard = shard(&engine, &options());
    if fails_sync {
        engine.fail_sync(fails_at)
    } else {
        engine.fail_apply(fails_at)
    }
    let tasks: Vec<_> = (0..writers)
        .map(|writer| {
            let shard = shard.clone();
            tokio::spawn(async move {
                let (mut acknowledged, mut refused) = (Vec::new(), Vec::new());
                for number in (1 + writer..).step_by(writers as usize) {
                    let Ok(commit) = shard.commit(batch(number)) else { break };
                    let seq = commit.seq();
                    match commit.await {
                        Ok(()) => acknowledged.push((seq, number)),
                        Err(_) => refused.push((seq, number)),
                    }
                }
                (acknowledged, refused)
            })
        })
        .collect();
    let (mut acknowledged, mut submitted) = (Vec::new(), Vec::new());
    for task in tasks {
        let (more, refused) = task.await.expect("no panic");
        acknowledged.extend(more.iter().copied());
        submitted.extend(more.into_iter().chain(refused));
    }
    submitted.sort_unstable();
    let recovered = self::shard(&engine.crash(lucky), &options());
    let mut expected_last = 0;
    let mut was_lost = false;
    for &(seq, number) in &submitted {
        let mut halves = 0;
        for half in ["a", "b"] {
            let value = recovered.get(format!("{half}{number:06}").as_bytes()).await.expect("reads succeed");
            halves += usize::from(value.is_some());
        }
        assert_ne!(halves, 1, "commit {seq} is torn");
        assert!(halves == 2 || !acknowledged.contains(&(seq, number)), "acknowledged commit {seq} is lost");
        assert!(!(was_lost && halves == 2), "commit {seq} survived a lost earlier one");
        was_lost |= halves == 0;
        expected_last = if halves == 2 { number } else { expected_last };
    }
    assert_eq!(last(&recovered).await, expected_last, "the last survivor wrote last");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_crash_takes_nothing_acknowledged_and_tears_nothing(
        fails_at in 1..60u64, fails_sync: bool, writers in 1..9u64, lucky in 0..3usize,
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let history = crash_history(fails_at, fails_sync, writers, lucky);
        let limit = async { tokio::time::timeout(Duration::from_secs(600), history).await };
        runtime.expect("a runtime").block_on(limit).expect("the history ends");
    }
}

#[tokio::test]
async fn dropped_range_keeps_nothing_of_commits_that_were_queued_before() {
    let _logs = Logs::watch();
    let engine = FaultEngine::new();
    let shard = shard(&engine, &options());
    let first = stall(&engine, &shard).await;
    let queued: Vec<_> = (2..=20).map(|number| shard.commit(batch(number)).expect("room")).collect();
    // The drop is under way before any of them is applied.
    let mut dropping = Box::pin(shard.drop_range(b"a".to_vec(), b"z".to_vec()));
    assert!(futures::poll!(&mut dropping).is_pending());
    engine.stall_syncs(false);
    let _deleted = dropping.await.expect("drops");
    first.await.expect("commits");
    for commit in queued {
        commit.await.expect("commits");
    }
    let left = shard.stats(b"a".to_vec(), b"z".to_vec()).await.expect("reads");
    assert_eq!(left.keys, 0, "the writer had stopped before the drop began");
}

#[tokio::test]
async fn fenced_owner_is_told_so_and_acknowledges_nothing_more() {
    let _logs = Logs::watch();
    expects_log("a shard refuses writes from now on");
    let engine = FaultEngine::new();
    let old = shard(&engine, &options());
    old.commit(batch(1)).expect("room").await.expect("commits");
    let new = shard(&engine.take_over(7).expect("a higher epoch"), &options());
    let is_fenced = |error: &StorageError| matches!(error, StorageError::Fenced { epoch: 7 });
    let late = old.commit(batch(2)).expect("room").await.expect_err("fenced");
    assert!(is_fenced(&late), "{late}");
    let refused = old.commit(batch(3)).expect_err("fenced");
    assert!(is_fenced(&refused), "{refused}");
    assert!(is_fenced(&old.wait_durable(99).await.expect_err("fenced")));
    assert_eq!(last(&new).await, 1);
}
