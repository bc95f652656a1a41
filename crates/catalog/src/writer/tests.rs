//! Commits that are interrupted, that fail, and that wait for one another.

use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt;
use shardlake_model::{Database, DatabaseRid};
use shardlake_storage::fault::FaultEngine;
use shardlake_storage::{Durability, ShardOptions};

use super::*;
use crate::load;

async fn writer(engine: &FaultEngine) -> (Writer, Shard) {
    let options = ShardOptions { durability: Durability::Sync, ..ShardOptions::memory() };
    let shard = Shard::with_engine(Arc::new(engine.clone()), &options).expect("a shard");
    let definitions = Arc::new(load(&shard).await.expect("readable"));
    (Writer::new(shard.clone(), false, definitions).expect("sound"), shard)
}

fn with_database(turn: &CatalogLock, number: u32) -> Arc<Change> {
    let mut draft = Definitions::clone(turn.definitions());
    let rid = DatabaseRid(number);
    draft
        .databases
        .put(rid, Database { id: format!("d{number}"), rid, etag: [0; 16], timestamp: 0, kept: None });
    turn.plan(draft).expect("sound")
}

#[tokio::test]
async fn commit_goes_on_when_its_caller_goes_away_at_any_poll() {
    // However often the caller polls before it is dropped.
    for polls in 0..4 {
        let engine = FaultEngine::new();
        let (writer, _shard) = writer(&engine).await;
        engine.stall_syncs(true);
        let turn = writer.lock(Urgency::Ordinary).await.expect("open");
        let change = with_database(&turn, 1);
        let shown = Arc::new(AtomicBool::new(false));
        let publish = {
            let shown = shown.clone();
            move || shown.store(true, Ordering::SeqCst)
        };
        let mut commit = Box::pin(turn.commit(change, publish));
        for _ in 0..polls {
            assert!((&mut commit).now_or_never().is_none(), "the sync is stalled");
            tokio::task::yield_now().await;
        }
        drop(commit);
        engine.stall_syncs(false);
        let turn = writer.lock(Urgency::Ordinary).await.expect("in no doubt");
        let count = turn.definitions().databases.len();
        // Never looked at, never begun; else all of it.
        assert_eq!(count, usize::from(polls > 0), "after {polls} polls");
        assert_eq!(shown.load(Ordering::SeqCst), polls > 0);
        let change = with_database(&turn, 2);
        turn.commit(change, || ()).await.expect("stored");
        let (reopened, _shard) = self::writer(&engine.crash(0)).await;
        let turn = reopened.lock(Urgency::Ordinary).await.expect("open");
        assert_eq!(turn.definitions().databases.len(), count + 1, "memory and disk agree");
        assert_eq!(turn.definitions().numbers.version, count as u64 + 1);
    }
}

#[tokio::test]
async fn commit_in_doubt_refuses_all_later_ones() {
    let engine = FaultEngine::new();
    let (writer, _shard) = writer(&engine).await;
    engine.fail_sync(1);
    let turn = writer.lock(Urgency::Ordinary).await.expect("open");
    let change = with_database(&turn, 1);
    let shown = Arc::new(AtomicBool::new(false));
    let publish = {
        let shown = shown.clone();
        move || shown.store(true, Ordering::SeqCst)
    };
    assert!(matches!(turn.commit(change, publish).await, Err(CatalogError::Storage(_))));
    assert!(!shown.load(Ordering::SeqCst));
    assert!(matches!(writer.lock(Urgency::CutOver).await, Err(CatalogError::InDoubt)));
    assert!(writer.is_in_doubt().await);
}

#[tokio::test]
async fn panic_while_a_change_is_shown_refuses_all_later_ones() {
    let engine = FaultEngine::new();
    let (writer, _shard) = writer(&engine).await;
    let turn = writer.lock(Urgency::Ordinary).await.expect("open");
    let change = with_database(&turn, 1);
    let outcome = turn.commit(change, || panic!("injected")).await;
    assert!(matches!(outcome, Err(CatalogError::InDoubt)));
    assert!(writer.is_in_doubt().await);
}

#[tokio::test]
async fn draft_that_contradicts_itself_is_refused_and_changes_nothing() {
    let engine = FaultEngine::new();
    let (writer, _shard) = writer(&engine).await;
    let turn = writer.lock(Urgency::Ordinary).await.expect("open");
    let mut draft = Definitions::clone(turn.definitions());
    for number in [1, 2] {
        let rid = DatabaseRid(number);
        draft
            .databases
            .put(rid, Database { id: "twin".into(), rid, etag: [0; 16], timestamp: 0, kept: None });
    }
    assert!(matches!(turn.plan(draft), Err(CatalogError::Refused(_))));
    drop(turn);
    assert_eq!(engine.applies(), 0);
    assert!(writer.lock(Urgency::Ordinary).await.expect("open").definitions().databases.is_empty());
}

#[tokio::test]
async fn cut_over_passes_ordinary_changes_that_wait() {
    let engine = FaultEngine::new();
    let (writer, _shard) = writer(&engine).await;
    let held = writer.lock(Urgency::Ordinary).await.expect("open");
    let mut waiting: Vec<_> = (0..5).map(|_| Box::pin(writer.lock(Urgency::Ordinary))).collect();
    for turn in &mut waiting {
        assert!(turn.now_or_never().is_none());
    }
    let mut cut_over = Box::pin(writer.lock(Urgency::CutOver));
    assert!((&mut cut_over).now_or_never().is_none());
    drop(held);
    // One ordinary change was before it in the queue.
    let first = (&mut waiting[0]).now_or_never().expect("its turn").expect("open");
    drop(first);
    for turn in &mut waiting[1..] {
        assert!(turn.now_or_never().is_none(), "it waits behind the cut-over");
    }
    assert!(cut_over.now_or_never().is_some());
}

#[tokio::test]
async fn closed_writer_refuses_changes() {
    let engine = FaultEngine::new();
    let (writer, _shard) = writer(&engine).await;
    writer.close().await;
    assert!(matches!(writer.lock(Urgency::Ordinary).await, Err(CatalogError::Closed)));
    assert!(!writer.is_in_doubt().await);
}
