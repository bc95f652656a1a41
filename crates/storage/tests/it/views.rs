//! Views: made once a group and not once a read, and replaced when the engine has moved on past the
//! log. No planner waits for an engine.

use std::sync::Arc;

use shardlake_storage::fault::FaultEngine;
use shardlake_storage::slow::SlowEngine;
use shardlake_storage::witness::Planning;
use shardlake_storage::{Answer, Batch, Engine, Shard, ShardOptions};
use shardlake_testkit::Logs;

fn shard(engine: impl Engine) -> Shard {
    Shard::with_engine(Arc::new(engine), &ShardOptions::local("")).expect("the shard opens")
}

fn batch(number: u64) -> Batch {
    let mut batch = Batch::new();
    batch.put(number.to_be_bytes().to_vec(), vec![1]);
    batch
}

#[tokio::test]
async fn readers_share_one_view_until_the_next_group() {
    let _logs = Logs::watch();
    let engine = FaultEngine::new();
    let shard = shard(engine.clone());
    for number in 1..=20u64 {
        shard.commit(batch(number)).expect("room").await.expect("commits");
        assert_eq!((engine.views(), shard.view().seq()), (1 + number, number));
        for _ in 0..10 {
            assert!(shard.get(&number.to_be_bytes()).await.expect("reads").is_some());
        }
    }
    assert_eq!(engine.views(), 21, "no read made one");
}

#[tokio::test]
async fn view_is_replaced_once_when_the_engine_moves_on_beside_the_log() {
    let _logs = Logs::watch();
    let engine = FaultEngine::new();
    let shard = shard(engine.clone());
    shard.commit(batch(1)).expect("room").await.expect("commits");
    let before = engine.views();
    let Answer::Now(Ok(())) = engine.apply(vec![batch(2)]) else { panic!("memory answers at once") };
    for _ in 0..10 {
        assert!(shard.get(&2u64.to_be_bytes()).await.expect("reads").is_some());
    }
    assert_eq!((engine.views() - before, shard.view().seq()), (1, 1));
}

#[tokio::test]
async fn view_is_not_replaced_while_a_group_is_on_its_way() {
    let _logs = Logs::watch();
    let engine = FaultEngine::new();
    let shard = shard(engine.clone());
    engine.stall_syncs(true);
    let commit = shard.commit(batch(1)).expect("room");
    while shard.applied() < 1 {
        tokio::task::yield_now().await;
    }
    for _ in 0..10 {
        assert!(shard.get(&1u64.to_be_bytes()).await.expect("reads").is_none());
    }
    assert_eq!(engine.views(), 1);
    engine.stall_syncs(false);
    commit.await.expect("commits");
}

/// Whether a task panics that does this while it plans.
async fn panics(work: impl Future<Output = ()> + Send + 'static) -> bool {
    let planner = tokio::spawn(async move {
        let _planning = Planning::begin();
        work.await;
    });
    planner.await.is_err_and(|error| error.is_panic())
}

#[cfg(debug_assertions)]
#[tokio::test(start_paused = true)]
async fn planner_that_waits_for_the_engine_panics() {
    let _logs = Logs::watch();
    let shard = shard(SlowEngine::new());
    let (view, other) = (shard.view(), shard.clone());
    assert!(panics(async move { drop(view.get(b"key").await) }).await, "a read");
    let view = shard.view();
    let chunk = async move { drop(view.scan(vec![0]..vec![9], Default::default()).next_chunk().await) };
    assert!(panics(chunk).await, "a chunk of a scan");
    let commit = shard.commit(batch(1)).expect("room");
    assert!(panics(async move { drop(commit.await) }).await, "a commit");
    assert!(panics(async move { drop(other.wait_durable(1).await) }).await, "durability");
    let other = shard.clone();
    assert!(panics(async move { drop(other.turn_for(10_000).await) }).await, "a turn");
    shard.get(b"key").await.expect("others may wait");
}

#[tokio::test(start_paused = true)]
async fn planner_may_read_what_is_there_at_once_and_leave_the_rest() {
    let _logs = Logs::watch();
    let (near, far) = (shard(FaultEngine::new()), shard(SlowEngine::new()));
    let plan = async move {
        assert!(matches!(near.get(b"key"), Answer::Now(Ok(None))));
        near.view().get_many(vec!["a".into(), "b".into()]).await.expect("reads");
        assert!(matches!(far.get(b"key"), Answer::Later(_)), "noted, and read after planning");
        far.commit(batch(1)).map(drop).expect("room");
    };
    assert!(!panics(plan).await);
}
