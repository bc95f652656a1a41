//! Every operation, dropped wherever it can wait, as by a client that disconnects.
//!
//! For each entry of a table of operations the harness builds a small world, has the operation run
//! until it waits for a sync (the first, the second, … until there is none), or only for its first
//! few steps, and drops it there. Then the sync continues, other operations follow, and the world
//! must be an allowed result of the operation: live, by every way of reading, and again after a
//! restart. [`Case`] defines an operation and its allowed results; everything else is here.

use crate::support::json_door::{JsonDoor, KeyInput};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use shardlake_account::{ContainerHandle, FeedScope, KeyRange, verify};
use shardlake_model::ContainerDefinition;
use shardlake_stdx::Timestamp;
use shardlake_storage::fault::FaultEngine;
use shardlake_storage::{Durability, Shard, ShardOptions};

use super::everything::{self, Expected, Items, body, definition, differences, key_of, position};
use super::{Fixture, json, none};

/// Steps of an operation that are run alone, before it waits for a stalled sync.
const STEPS_MAX: usize = 6;
/// More commits than any operation of the table makes.
const SYNCS_MAX: u64 = 64;

pub struct World {
    pub engine: FaultEngine,
    pub fixture: Fixture,
    pub container: ContainerHandle,
    position: String,
}

pub type Work<'w> = Pin<Box<dyn Future<Output = ()> + 'w>>;

/// An operation and its allowed results.
pub struct Case {
    /// As the façade calls it.
    pub name: &'static str,
    pub run: for<'w> fn(&'w World) -> Work<'w>,
    /// Whether the items may be these, given those before. All of the operation or nothing: see [`all_or_nothing`].
    pub may_leave: fn(before: &Items, now: &Items) -> bool,
}

/// Allowed results of a writing operation: the state before, or its whole effect.
pub fn all_or_nothing(before: &Items, now: &Items, effect: impl Fn(&mut Items)) -> bool {
    let mut done = before.clone();
    effect(&mut done);
    assert_ne!(done, *before, "the operation has an effect");
    now == before || *now == done
}

/// Where an operation is dropped.
#[derive(Debug, Clone, Copy)]
pub enum Drops {
    /// After this number of steps, while no sync returns.
    AfterSteps(usize),
    /// When it waits for the `n`th sync from its beginning.
    AtSync(u64),
}

pub fn over(engine: &FaultEngine) -> Shard {
    let options = ShardOptions { durability: Durability::Sync, ..ShardOptions::memory() };
    Shard::with_engine(Arc::new(engine.clone()), &options).expect("opens")
}

impl World {
    async fn new() -> World {
        let engine = FaultEngine::new();
        let fixture = Fixture::over(over(&engine)).await;
        let definition = ContainerDefinition { default_ttl: Some(-1), ..definition() };
        let container = fixture.container_with(definition, 400).await;
        let position = position(&fixture, &container).await;
        let world = World { engine, fixture, container, position };
        for (id, v) in [("1", 1), ("2", 2), ("3", 3)] {
            world.put("a", id, v).await;
            world.put("b", id, v).await;
        }
        world.let_some_run_out().await;
        let names = ["run", "change"];
        let bodies = [
            "for (let i = 0; i < 3; i++) c.createDocument(self, {id: 'new' + i, pk: 'a', v: i, u: 'u' + i}, must);",
            "getContext().getRequest().setBody(getContext().getRequest().getBody());",
        ];
        world.fixture.procedure(&world.container, names[0], "", bodies[0]).await;
        let before = (shardlake_model::TriggerType::Pre, shardlake_model::TriggerOperation::All);
        world.fixture.trigger(&world.container, names[1], before, bodies[1]).await;
        World { container: world.fixture.account.router().container("db", "c").expect("there"), ..world }
    }

    /// Items that expire before the operation begins: they are invisible, but stored until they are removed.
    async fn let_some_run_out(&self) {
        for id in ["x", "y"] {
            let body = format!(r#"{{"id":"{id}","pk":"a","v":1,"u":"{id}","ttl":1}}"#);
            let (ctx, account) = (self.fixture.ctx(), &self.fixture.account);
            account.create_item(&ctx, &self.container, None, body.as_bytes()).await.expect("written");
        }
        self.fixture.clock.advance(Duration::from_secs(2));
    }

    pub async fn put(&self, pk: &str, id: &str, v: u64) -> u64 {
        let (ctx, any, key, body) = (self.fixture.ctx(), none(), key_of(pk), body(pk, id, v));
        let key = Some(KeyInput(&key));
        let account = &self.fixture.account;
        let written = account.upsert_item(&ctx, &self.container, key, body.as_bytes(), &any).await;
        written.expect("written").meta.lsn
    }

    async fn items(&self) -> Items {
        let ctx = self.fixture.ctx();
        let feed =
            self.fixture.account.items().read_feed(&ctx, &self.container, FeedScope::All, Some(-1), None);
        let page = feed.await.expect("a page");
        page.items.iter().map(|item| everything::named(&json(item))).collect()
    }

    /// LSNs of the log, which has an entry for every commit.
    async fn lsns(&self) -> Vec<u64> {
        let full = KeyRange::full();
        let page = self.fixture.account.items().changes(&self.container, 0, &full, 0, 10_000).await;
        page.expect("a page").entries.into_iter().map(|(lsn, _)| lsn).collect()
    }

    /// The time and the last visible commit that a client gets now.
    fn told(&self) -> (Timestamp, u64) {
        self.fixture.clock.advance(Duration::from_millis(7));
        let seen_before = self.fixture.account.router().times().seen_before();
        let partition = self.container.entry.map.iter().next().expect("one");
        (seen_before, partition.durable_lsn())
    }

    /// Commits that were invisible at some time have no earlier time than the one given out then.
    async fn expect_no_gap(&self, (seen_before, last_seen): (Timestamp, u64), what: &str) {
        let full = KeyRange::full();
        let page = self.fixture.account.items().changes(&self.container, 0, &full, last_seen, 10_000).await;
        for (lsn, entry) in page.expect("a page").entries {
            assert!(
                entry.timestamp_ms() >= seen_before.milliseconds(),
                "{what}: commit {lsn} of {} came after {seen_before:?} was told, which named all before it seen",
                entry.timestamp_ms()
            );
        }
        self.fixture.clock.advance(Duration::from_millis(7));
        let now = self.fixture.clock.now();
        assert_eq!(
            self.fixture.account.router().times().seen_before(),
            now,
            "{what}: nothing is under way any more"
        );
    }

    async fn expect_to_hold(&self, items: &Items, what: &str) {
        let expected = Expected { items: items.clone(), absent: Vec::new(), position: self.position.clone() };
        let found = differences(&self.fixture, &self.container, &expected).await;
        assert!(found.is_empty(), "{what}: {found:#?}");
    }
}

/// Drops an operation at every point at which it can wait, and returns the number of syncs it waited for.
pub async fn cancel_everywhere(case: &Case) -> u64 {
    for steps in 0..=STEPS_MAX {
        Box::pin(cancel(case, Drops::AfterSteps(steps))).await;
    }
    for sync in 1..SYNCS_MAX {
        if Box::pin(cancel(case, Drops::AtSync(sync))).await {
            return sync - 1;
        }
    }
    panic!("{}: syncs without end", case.name)
}

/// Returns whether the operation completed.
async fn cancel(case: &Case, drops: Drops) -> bool {
    let world = World::new().await;
    let what = format!("{} dropped {drops:?}", case.name);
    let before = world.items().await;
    let (is_done, told) = drop_at(&world.engine, (case.run)(&world), drops, || world.told()).await;
    // After the queued writes of the dropped operation, in its logical partition and in another.
    let (first, second) = (world.put("a", "later", 8).await, world.put("b", "later", 9).await);
    assert_eq!(second, first + 1, "{what}: LSNs go up by one");
    // Totals count expired items until they are removed.
    let purged = world.fixture.account.maintenance().purge_expired(&world.container).await;
    let last = second + u64::from(purged.expect("removed") > 0);
    let mut now = world.items().await;
    assert_eq!(world.lsns().await, (1..=last).collect::<Vec<_>>(), "{what}: every commit has its LSN");
    world.expect_to_hold(&now, &what).await;
    world.expect_no_gap(told, &what).await;
    let Fixture { account, .. } = &world.fixture;
    account.close().await.expect("closes");
    let survivor = world.engine.crash(0);
    let report = verify(over(&survivor.crash(0))).await.expect("readable");
    assert_eq!(report.problem_count(), 0, "{what}: {report:?}");
    let fixture = Fixture::over(over(&survivor)).await;
    let container = fixture.account.router().container("db", "c").expect("there");
    let position = world.position.clone();
    World { engine: survivor, fixture, container, position }.expect_to_hold(&now, &what).await;
    for pk in ["a", "b"] {
        now.remove(&(pk.to_owned(), "later".to_owned()));
    }
    assert!((case.may_leave)(&before, &now), "{what}: {before:?} became {now:?}");
    is_done
}

/// Has an operation run until it is to be dropped, drops it, and looks at the state then; no sync
/// is stalled afterwards. Returns whether the operation completed.
pub async fn drop_at<T>(
    engine: &FaultEngine,
    work: Work<'_>,
    drops: Drops,
    look: impl FnOnce() -> T,
) -> (bool, T) {
    let is_done = match drops {
        Drops::AfterSteps(steps) => {
            engine.stall_syncs(true);
            steps_of(work, |taken| taken == steps).await
        }
        Drops::AtSync(sync) => {
            engine.stall_syncs_after(sync - 1);
            steps_of(work, |_| engine.is_stalling()).await
        }
    };
    let seen = look();
    engine.stall_syncs(false);
    (is_done, seen)
}

/// Runs steps until the operation is done or is to be dropped; concurrent tasks continue between them.
async fn steps_of(mut work: Work<'_>, is_to_be_dropped: impl Fn(usize) -> bool) -> bool {
    let mut taken = 0;
    while !is_to_be_dropped(taken) {
        if let Poll::Ready(()) = work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return true;
        }
        taken += 1;
        tokio::task::yield_now().await;
    }
    false
}
