//! Engine with latency: round trips, waits, and the losses that a crash may cause. The clock is
//! tokio's and stands still but for the engine's delays, so that times are exact.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use shardlake_storage::fault::FaultEngine;
use shardlake_storage::slow::SlowEngine;
use shardlake_storage::{Batch, Durability, ScanOptions, Shard, ShardOptions, StorageError};
use shardlake_testkit::{Logs, expects_log};
use tokio::time::{Instant, sleep};

fn shard_with(engine: &SlowEngine, durability: Durability) -> Shard {
    let options = ShardOptions { durability, ..ShardOptions::local("") };
    Shard::with_engine(Arc::new(engine.clone()), &options).expect("the shard opens")
}

fn shard(engine: &SlowEngine) -> Shard {
    shard_with(engine, Durability::Sync)
}

fn key(number: u64) -> bytes::Bytes {
    format!("key{number:06}").into()
}

fn batch(number: u64) -> Batch {
    let mut batch = Batch::new();
    batch.put(key(number), number.to_be_bytes().to_vec());
    batch
}

async fn fill(shard: &Shard, rows: u64) {
    let mut load = shard.bulk_load();
    load.push((0..rows).map(|number| (key(number), vec![7].into())).collect()).await.expect("takes rows");
    assert_eq!(load.finish().await.expect("loads"), rows);
}

#[tokio::test(start_paused = true)]
async fn many_keys_of_one_call_travel_together() {
    let _logs = Logs::watch();
    let engine = SlowEngine::new();
    let shard = shard(&engine);
    fill(&shard, 200).await;
    let (view, started) = (shard.view(), Instant::now());
    assert!(view.get(&key(3)).await.expect("reads").is_some());
    assert_eq!((engine.round_trips(), started.elapsed()), (1, SlowEngine::READ));
    let values = view.get_many((0..130).map(key).collect()).await.expect("reads");
    assert!(values.iter().all(Option::is_some));
    assert_eq!((engine.round_trips(), engine.keys_read()), (1 + 2, 131), "128 keys at a time");
    assert_eq!(started.elapsed(), 3 * SlowEngine::READ);
}

#[tokio::test(start_paused = true)]
async fn scan_travels_once_a_chunk_and_sweep_travels_while_its_reader_works() {
    let _logs = Logs::watch();
    let engine = SlowEngine::new();
    let shard = shard(&engine);
    fill(&shard, 1000).await;
    for (options, milliseconds) in [(ScanOptions::default(), 4 * 40), (ScanOptions::SWEEP, 20 + 4 * 20)] {
        let (before, started) = (engine.round_trips(), Instant::now());
        let mut scan = shard.view().scan(key(0).to_vec()..key(1000).to_vec(), options);
        let mut rows = 0;
        while let Some(chunk) = scan.next_chunk().await.expect("scans") {
            rows += chunk.len();
            sleep(Duration::from_millis(20)).await;
        }
        assert_eq!((rows, engine.round_trips() - before), (1000, 4), "and none to learn that it is over");
        assert_eq!(started.elapsed(), Duration::from_millis(milliseconds), "{options:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn sweep_whose_reader_went_away_and_came_back_misses_no_rows() {
    let _logs = Logs::watch();
    let engine = SlowEngine::new();
    let shard = shard(&engine);
    fill(&shard, 1000).await;
    let mut scan = shard.view().scan(key(0).to_vec()..key(1000).to_vec(), ScanOptions::SWEEP);
    let mut rows = scan.next_chunk().await.expect("scans").expect("rows").len();
    loop {
        // Given up in the middle of the trip, and asked again.
        let _ = tokio::time::timeout(SlowEngine::READ / 2, scan.next_chunk()).await.map(|_| unreachable!());
        let Some(chunk) = scan.next_chunk().await.expect("scans") else { break };
        rows += chunk.len();
        if rows == 1000 {
            break;
        }
    }
    assert_eq!(rows, 1000);
}

#[tokio::test(start_paused = true)]
async fn commits_are_applied_while_a_sync_is_under_way_and_share_the_next() {
    let _logs = Logs::watch();
    let engine = SlowEngine::new();
    let shard = shard(&engine);
    let started = Instant::now();
    let first = shard.commit(batch(1)).expect("room");
    sleep(Duration::from_millis(10)).await;
    let mut others = Vec::new();
    for number in 2..=40 {
        others.push(shard.commit(batch(number)).expect("room"));
        sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(
        (shard.applied(), shard.durable(), shard.view().seq()),
        (40, 0, 0),
        "applied, and seen by nobody"
    );
    first.await.expect("commits");
    assert_eq!(started.elapsed(), SlowEngine::SYNC);
    assert_eq!((shard.durable(), shard.view().seq()), (1, 1), "what the sync covered, and no more");
    let (view, planners_value) = (shard.view(), shard.lookup_applied(&key(2)));
    for commit in others {
        commit.await.expect("commits");
    }
    assert_eq!(started.elapsed(), 2 * SlowEngine::SYNC);
    assert_eq!((engine.disk().syncs(), shard.durable(), shard.view().seq()), (2, 40, 40));
    assert!(view.get(&key(1)).await.expect("reads").is_some());
    assert!(view.get(&key(2)).await.expect("reads").is_none());
    assert!(planners_value.await.expect("reads").is_some(), "planners see what is applied");
}

#[tokio::test(start_paused = true)]
async fn after_a_failed_sync_readers_go_on_and_no_writer_of_it_or_later_is_told_well() {
    let _logs = Logs::watch();
    expects_log("a shard refuses writes from now on");
    let engine = SlowEngine::new();
    let shard = shard(&engine);
    shard.commit(batch(1)).expect("room").await.expect("commits");
    engine.disk().fail_sync(1);
    let failed = shard.commit(batch(2)).expect("room");
    sleep(SlowEngine::SYNC / 2).await;
    let behind = shard.commit(batch(3)).expect("room");
    for commit in [failed, behind] {
        assert!(matches!(commit.await, Err(StorageError::Poisoned { .. })));
    }
    assert!(matches!(shard.commit(batch(4)), Err(StorageError::Poisoned { .. })));
    assert!(shard.wait_durable(2).await.is_err());
    assert!(shard.get(&key(1)).await.expect("reads go on").is_some());
    assert!(shard.get(&key(2)).await.expect("reads go on").is_none());
    assert!(shard.close().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn async_commits_wait_for_no_sync_and_one_follows_within_its_interval() {
    let _logs = Logs::watch();
    let engine = SlowEngine::new();
    let shard = shard_with(&engine, Durability::Async);
    let started = Instant::now();
    for number in 1..=10 {
        shard.commit(batch(number)).expect("room").await.expect("commits");
    }
    assert_eq!((started.elapsed(), shard.view().seq()), (Duration::ZERO, 10));
    while shard.durable() < 10 {
        sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(engine.disk().syncs(), 1);
    let asked = Instant::now();
    shard.commit(batch(11)).expect("room").await.expect("commits");
    shard.wait_durable(11).await.expect("synced");
    assert_eq!(asked.elapsed(), SlowEngine::SYNC, "who waits for it does not wait for the interval");
    shard.commit(batch(12)).expect("room").await.expect("commits");
    shard.close().await.expect("closes");
    assert_eq!(shard.durable(), 12);
}

#[tokio::test(start_paused = true)]
async fn closing_finishes_what_is_queued_and_shards_that_nobody_closes_do_too() {
    let _logs = Logs::watch();
    for closes in [true, false] {
        let engine = SlowEngine::new();
        let shard = shard(&engine);
        let commits: Vec<_> = (1..=100).map(|number| shard.commit(batch(number)).expect("room")).collect();
        if closes {
            shard.close().await.expect("closes");
            assert!(matches!(shard.commit(batch(101)), Err(StorageError::Closed)));
        }
        drop(shard);
        for commit in commits {
            commit.await.expect("commits");
        }
        let found = self::shard(&SlowEngine::over(engine.disk().crash(0)));
        assert_eq!(found.stats(vec![0], vec![0xFF]).await.expect("reads").keys, 100);
    }
}

#[tokio::test(start_paused = true)]
async fn load_has_several_commits_under_way() {
    let _logs = Logs::watch();
    let engine = SlowEngine::new();
    let shard = shard(&engine);
    let started = Instant::now();
    fill(&shard, 40_000).await;
    let one_by_one = (40_000 / 2048 + 1) * SlowEngine::SYNC;
    assert!(started.elapsed() * 3 < one_by_one, "{:?} of {one_by_one:?}", started.elapsed());
}

/// Writers until the sync `fails_at` fails, and a crash in the middle of the next.
async fn crash_history(fails_at: u64, writers: u64, cut_short_at: Duration) {
    let _logs = Logs::watch();
    let engine = SlowEngine::over(FaultEngine::new());
    engine.disk().fail_sync(fails_at);
    let shard = shard(&engine);
    let tasks: Vec<_> = (0..writers)
        .map(|writer| {
            let shard = shard.clone();
            tokio::spawn(async move {
                let mut acknowledged = Vec::new();
                for number in 0..10 {
                    sleep(Duration::from_millis(7 * writer)).await;
                    let number = writer * 1000 + number;
                    let Ok(commit) = shard.commit(batch(number)) else { break };
                    match tokio::time::timeout(cut_short_at, commit).await {
                        Ok(Ok(())) => acknowledged.push(number),
                        Ok(Err(_)) => break,
                        Err(_) => {}
                    }
                }
                acknowledged
            })
        })
        .collect();
    let mut acknowledged = Vec::new();
    for task in tasks {
        acknowledged.extend(task.await.expect("no panic"));
    }
    let found = self::shard(&SlowEngine::over(engine.disk().crash(0)));
    for number in acknowledged {
        assert!(found.get(&key(number)).await.expect("reads").is_some(), "{number} was acknowledged");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn crash_takes_nothing_that_was_acknowledged(
        fails_at in 1..30u64, writers in 1..6u64, cut_short_at in 1..200u64,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        expects_log("a shard refuses writes from now on");
        let history = crash_history(fails_at, writers, Duration::from_millis(cut_short_at));
        runtime.expect("a runtime").block_on(history);
    }
}
