//! Tests of the checks: each mistake in the write path must be noticed by the checks listed for it,
//! and without a mistake no check may complain.
//!
//! The checks are those that the other tests use: the oracle of the crash tests, `verify`, and
//! reading in every way (`everything.rs`), which compares the index with the scan, and the feeds
//! and the log with the items.

use crate::support::json_door::{JsonDoor, KeyInput};
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use shardlake_account::{KeyRange, verify};
use shardlake_partition::seeded::{Mistake, Seeded};
use shardlake_storage::fault::FaultEngine;
use shardlake_storage::{Durability, Shard, ShardOptions};

use crate::crash::Run;
use crate::support::everything::{Expected, body, definition, differences, key_of, operation, position};
use crate::support::{Fixture, none};

fn over(engine: FaultEngine) -> Shard {
    let options = ShardOptions { durability: Durability::Sync, ..ShardOptions::memory() };
    Shard::with_engine(Arc::new(engine), &options).expect("opens")
}

/// The checks that complain after one run of writes.
async fn complaints(mistake: Option<Mistake>) -> BTreeSet<&'static str> {
    let mut complaints = BTreeSet::new();
    let engine = FaultEngine::new();
    let run = Run::new(Fixture::over(over(engine.clone())).await);
    run.fixture.container_with(definition(), 400).await;
    {
        let _seeded = mistake.map(Seeded::new);
        for writer in 0..2 {
            run.clone().writer(writer, 7, 60).await;
        }
    }
    run.fixture.account.close().await.expect("closes");
    let survivor = engine.crash(0);
    if verify(over(survivor.crash(0))).await.map_or(1, |report| report.problem_count()) > 0 {
        complaints.insert("verify");
    }
    if !run.problems_of(&Fixture::over(over(survivor)).await).await.is_empty() {
        complaints.insert("oracle");
    }
    if !reads(mistake).await.is_empty() {
        complaints.insert("reads");
    }
    complaints
}

/// The differences between ways of reading after a few writes.
async fn reads(mistake: Option<Mistake>) -> Vec<String> {
    let fixture = Fixture::over(over(FaultEngine::new())).await;
    let container = fixture.container_with(definition(), 400).await;
    let mut expected = Expected { position: position(&fixture, &container).await, ..Expected::default() };
    let _seeded = mistake.map(Seeded::new);
    let (account, any) = (&fixture.account, none());
    for step in 0..30u64 {
        let (pk, id) = (format!("k{}", step % 2), format!("{}", step % 5));
        let (ctx, key_text) = (fixture.ctx(), key_of(&pk));
        let key = KeyInput(&key_text);
        if step % 7 == 6 {
            // Where a mistake has lost the item, the client gets an error.
            let _ = account.delete_item(&ctx, &container, Some(key), &id, &any).await;
            expected.items.remove(&(pk, id));
            continue;
        }
        let twin = format!("twin {id}");
        let operations = [&id, &twin]
            .map(|id| operation(crate::support::json_door::BatchKind::Upsert, id, Some(body(&pk, id, step))));
        let written = account.json_batch(&ctx, &container, key, operations.to_vec()).await;
        if written.is_ok_and(|reply| reply.outcome.is_ok()) {
            expected.items.extend([id, twin].map(|id| ((pk.clone(), id), step)));
        }
    }
    differences(&fixture, &container, &expected).await
}

#[tokio::test]
async fn each_mistake_is_noticed_by_the_checks_that_are_there_for_it() {
    assert_eq!(complaints(None).await, BTreeSet::new(), "without a mistake");
    let noticed: &[(Mistake, &[&str])] = &[
        (Mistake::LostCreate, &["oracle", "verify", "reads"]),
        (Mistake::LostReplacement, &["oracle", "reads"]),
        (Mistake::LostDelete, &["oracle", "verify", "reads"]),
        (Mistake::LostCommit, &["oracle", "reads"]),
        (Mistake::TornBatch, &["oracle", "verify", "reads"]),
        (Mistake::LostPosting, &["verify"]),
        (Mistake::LostPostings, &["verify", "reads"]),
        (Mistake::LeftPosting, &["verify"]),
        (Mistake::LostLogEntry, &["verify", "reads"]),
        (Mistake::LostLogOperation, &["verify", "reads"]),
        (Mistake::LostUniqueValue, &["verify"]),
        (Mistake::LostOrdinal, &["verify"]),
        (Mistake::LostVersion, &["reads"]),
    ];
    let mut wrong = Vec::new();
    for (mistake, checks) in noticed {
        let found = complaints(Some(*mistake)).await;
        let missing: Vec<_> = checks.iter().filter(|check| !found.contains(**check)).collect();
        if !missing.is_empty() || found.is_empty() {
            wrong.push(format!("{mistake:?} was not noticed by {missing:?}, but by {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Commits that were not visible when a time was given out, and have an earlier time.
async fn gaps(mistake: Option<Mistake>) -> Vec<u64> {
    let engine = FaultEngine::new();
    let fixture = Fixture::over(over(engine.clone())).await;
    let container = fixture.container_with(definition(), 400).await;
    let (account, any, key_text) = (&fixture.account, none(), key_of("a"));
    // The request's own time is from before the clock moves.
    let ctx = fixture.ctx();
    fixture.clock.advance(Duration::from_millis(5));
    let mut told = vec![account.router().times().seen_before()];
    let _seeded = mistake.map(Seeded::new);
    engine.stall_syncs(true);
    let body = body("a", "1", 1);
    let mut write =
        pin!(account.upsert_item(&ctx, &container, Some(KeyInput(&key_text)), body.as_bytes(), &any));
    while !engine.is_stalling() {
        let step = write.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(step.is_pending(), "it waits for its sync");
        tokio::task::yield_now().await;
    }
    fixture.clock.advance(Duration::from_millis(5));
    told.push(account.router().times().seen_before());
    engine.stall_syncs(false);
    write.await.expect("written");
    let page = account.items().changes(&container, 0, &KeyRange::full(), 0, 10).await.expect("a page");
    assert_eq!(page.entries.len(), 1);
    let time_ms = page.entries[0].1.timestamp_ms();
    told.into_iter().map(|told| told.milliseconds()).filter(|told| *told > time_ms).collect()
}

#[tokio::test]
async fn a_commit_that_does_not_count_as_under_way_is_noticed() {
    assert_eq!(Box::pin(gaps(None)).await, Vec::<u64>::new(), "without a mistake");
    assert_eq!(Box::pin(gaps(Some(Mistake::LostUnderWay))).await.len(), 1);
}
