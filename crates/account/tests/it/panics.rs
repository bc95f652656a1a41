//! A panic in the middle of a write ends its physical partition, and leaves nothing half done in storage.

use crate::support::json_door::{BatchKind, JsonDoor, KeyInput};
use std::sync::Arc;

use futures::FutureExt;
use shardlake_account::{FeedScope, verify};
use shardlake_model::{ErrorKind, Result};
use shardlake_partition::seeded::{Mistake, Seeded};
use shardlake_storage::fault::FaultEngine;
use shardlake_storage::{Durability, Shard, ShardOptions};
use shardlake_testkit::expects_log;

use crate::support::everything::{self, Items, body, definition, key_of, operation};
use crate::support::{Fixture, json};

fn over(engine: FaultEngine) -> Shard {
    let options = ShardOptions { durability: Durability::Sync, ..ShardOptions::memory() };
    Shard::with_engine(Arc::new(engine), &options).expect("opens")
}

async fn batch(fixture: &Fixture, pk: &str, ids: [&str; 2]) -> Result<()> {
    let container = fixture.account.router().container("db", "c").expect("there");
    let operations = ids.map(|id| operation(BatchKind::Create, id, Some(body(pk, id, 1)))).to_vec();
    let (ctx, key) = (fixture.ctx(), key_of(pk));
    let reply = fixture.account.json_batch(&ctx, &container, KeyInput(&key), operations).await?;
    reply.outcome.map(drop).map_err(|failure| failure.error)
}

async fn stored(fixture: &Fixture) -> Result<Items> {
    let container = fixture.account.router().container("db", "c").expect("there");
    let page =
        fixture.account.items().read_feed(&fixture.ctx(), &container, FeedScope::All, Some(-1), None).await?;
    Ok(page.items.iter().map(|item| everything::named(&json(item))).collect())
}

fn expect_ended<T: std::fmt::Debug>(outcome: Result<T>) {
    let error = outcome.expect_err("the partition has ended");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.message().contains("restart the server"), "{error}");
}

async fn a_panic_ends_the_partition(mistake: Mistake, left_items: usize) {
    let engine = FaultEngine::new();
    let fixture = Fixture::over(over(engine.clone())).await;
    fixture.container_with(definition(), 400).await;
    batch(&fixture, "a", ["1", "2"]).await.expect("written");
    {
        let _seeded = Seeded::new(mistake);
        expects_log("a panic in a write has stopped the partition");
        let panicked = std::panic::AssertUnwindSafe(batch(&fixture, "a", ["3", "4"])).catch_unwind().await;
        panicked.expect_err("the write panics");
    }
    // Later requests get an error, instead of continuing with the state left in memory.
    expect_ended(batch(&fixture, "a", ["5", "6"]).await);
    expect_ended(batch(&fixture, "b", ["5", "6"]).await);
    expect_ended(stored(&fixture).await);
    // A queued commit is finished; no client got its result.
    fixture.account.close().await.expect("closes");
    drop(fixture);
    let survivor = engine.crash(0);
    let report = verify(over(survivor.crash(0))).await.expect("readable");
    assert_eq!(report.problem_count(), 0, "{mistake:?}: {report:?}");
    let reopened = Fixture::over(over(survivor)).await;
    assert_eq!(stored(&reopened).await.expect("serves").len(), left_items, "{mistake:?}");
    batch(&reopened, "a", ["5", "6"]).await.expect("writes go on after a restart");
}

#[tokio::test]
async fn a_panic_while_a_write_is_planned_ends_the_partition() {
    a_panic_ends_the_partition(Mistake::PanicWhilePlanning, 2).await;
}

#[tokio::test]
async fn a_panic_while_a_commit_is_queued_ends_the_partition() {
    a_panic_ends_the_partition(Mistake::PanicWhileQueueing, 4).await;
}
