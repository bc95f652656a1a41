//! After a failed write or sync: all reads continue, and show exactly the acknowledged writes.

use crate::support::json_door::{BatchKind, JsonDoor, KeyInput, Patch};
use std::sync::Arc;

use crate::support::everything::{Expected, body, definition, differences, key_of, operation, position};
use crate::support::{Fixture, none};
use shardlake_account::{ContainerHandle, PatchOperation, Shards, Value};
use shardlake_model::{Error, ErrorKind, Result};
use shardlake_storage::fault::FaultEngine;
use shardlake_storage::{Durability, Shard, ShardOptions};
use shardlake_testkit::expects_log;

const KEYS: u64 = 12;

#[derive(Debug, Clone, Copy)]
enum Fault {
    Sync,
    Apply,
    /// The engine shows the rows of the write that failed.
    AfterApply,
}

struct World {
    engines: Vec<Arc<FaultEngine>>,
    fixture: Arc<Fixture>,
    container: ContainerHandle,
    acknowledged: Expected,
}

fn over(engines: &[Arc<FaultEngine>], durability: Durability) -> Shards {
    let options = ShardOptions { durability, ..ShardOptions::memory() };
    let shard = |engine: &Arc<FaultEngine>| Shard::with_engine(engine.clone(), &options).expect("opens");
    engines.iter().map(shard).collect::<Vec<_>>().into()
}

fn pk(number: u64) -> String {
    format!("k{number}")
}

impl World {
    async fn new(shards: usize, durability: Durability) -> World {
        let engines: Vec<_> = (0..shards).map(|_| Arc::new(FaultEngine::new())).collect();
        let fixture = Arc::new(Fixture::over(over(&engines, durability)).await);
        let container = fixture.container_with(definition(), 30_000).await;
        let position = position(&fixture, &container).await;
        let mut acknowledged = Expected { position, ..Expected::default() };
        let Expected { items, absent, .. } = &mut acknowledged;
        for number in 0..KEYS {
            let pk = pk(number);
            for (id, v) in [("old", 1), ("changed", 2), ("removed", 3), ("gone", 4)] {
                put(&fixture, &container, &pk, id, number * 10 + v).await.expect("written");
                items.insert((pk.clone(), id.to_owned()), number * 10 + v);
            }
            delete(&fixture, &container, &pk, "gone").await.expect("deleted");
            items.remove(&(pk.clone(), "gone".to_owned()));
            absent.extend(["gone", "new", "newer"].map(|id| (pk.clone(), id.to_owned())));
        }
        World { engines, fixture, container, acknowledged }
    }

    async fn expect_acknowledged(&self, when: &str) {
        let found = differences(&self.fixture, &self.container, &self.acknowledged).await;
        assert!(found.is_empty(), "{when}: {found:#?}");
    }

    fn lsns(&self) -> Vec<u64> {
        self.container.partition_key_ranges().iter().map(|range| range.lsn).collect()
    }

    /// One commit per logical partition with every effect that a commit can have.
    fn unfinished(&self) -> Vec<tokio::task::JoinHandle<Result<()>>> {
        let start = |number: u64| {
            let (fixture, container) = (self.fixture.clone(), self.container.clone());
            tokio::spawn(async move {
                let pk = pk(number);
                let operations = vec![
                    operation(BatchKind::Create, "new", Some(body(&pk, "new", 7))),
                    operation(BatchKind::Create, "newer", Some(body(&pk, "newer", 6))),
                    operation(BatchKind::Replace, "changed", Some(body(&pk, "changed", 8))),
                    operation(BatchKind::Delete, "removed", None),
                ];
                let (ctx, key) = (fixture.ctx(), key_of(&pk));
                let reply = fixture.account.json_batch(&ctx, &container, KeyInput(&key), operations).await?;
                reply.outcome.map(drop).map_err(|failure| failure.error)
            })
        };
        (0..KEYS).map(start).collect()
    }
}

impl Drop for World {
    /// A shard ends with its last commit, which a failed test may have left in a stalled sync.
    fn drop(&mut self) {
        self.engines.iter().for_each(|engine| engine.stall_syncs(false));
    }
}

async fn put(fixture: &Fixture, container: &ContainerHandle, pk: &str, id: &str, v: u64) -> Result<()> {
    let (ctx, any, key, body) = (fixture.ctx(), none(), key_of(pk), body(pk, id, v));
    let key = Some(KeyInput(&key));
    fixture.account.upsert_item(&ctx, container, key, body.as_bytes(), &any).await.map(drop)
}

async fn delete(fixture: &Fixture, container: &ContainerHandle, pk: &str, id: &str) -> Result<()> {
    let (ctx, any, key) = (fixture.ctx(), none(), key_of(pk));
    fixture.account.delete_item(&ctx, container, Some(KeyInput(&key)), id, &any).await.map(drop)
}

async fn reads_after(fault: Fault, shards: usize) {
    let world = World::new(shards, Durability::Sync).await;
    world.expect_acknowledged("before").await;
    let (lsns, applies) = (world.lsns(), world.engines.iter().map(|engine| engine.applies()));
    let applies: Vec<_> = applies.collect();
    for engine in &world.engines {
        engine.stall_syncs(true);
        expects_log("(injected)");
        match fault {
            Fault::Sync => engine.fail_sync(1),
            Fault::Apply => engine.fail_apply(1),
            Fault::AfterApply => engine.fail_after_apply(1),
        }
    }
    let unfinished = world.unfinished();
    for (engine, before) in world.engines.iter().zip(applies) {
        while engine.applies() == before {
            tokio::task::yield_now().await;
        }
    }
    // Reads neither wait for the unfinished writes nor see them.
    world.expect_acknowledged("while it is written").await;
    assert_eq!(world.lsns(), lsns, "{fault:?}");
    world.engines.iter().for_each(|engine| engine.stall_syncs(false));
    for write in unfinished {
        expect_refused(write.await.expect("no writer panics"), "a write that failed");
    }
    world.expect_acknowledged("afterwards").await;
    assert_eq!(world.lsns(), lsns, "{fault:?}: session tokens stay where they were");
    expect_no_write(&world).await;
    world.expect_acknowledged("after more writes were refused").await;
    assert_eq!(world.lsns(), lsns, "{fault:?}");
    expect_the_same_after_a_restart(&world).await;
}

fn expect_refused<T: std::fmt::Debug>(outcome: Result<T>, what: &str) {
    let error: Error = outcome.expect_err(what);
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{what}: {error}");
    assert!(error.message().contains("restart"), "{what}: {error}");
}

/// Every kind of write is refused because of the failure, whatever else is wrong with it.
async fn expect_no_write(world: &World) {
    let World { fixture, container, .. } = world;
    let (account, ctx, any) = (&fixture.account, &fixture.ctx(), &none());
    for number in 0..KEYS {
        let (pk, key) = (pk(number), key_of(&pk(number)));
        let whole_key = KeyInput(&key);
        let key = Some(whole_key);
        let [old, new, gone] = ["old", "new", "gone"].map(|id| body(&pk, id, 9).into_bytes());
        expect_refused(account.create_item(ctx, container, key, &new).await, "a create");
        expect_refused(account.create_item(ctx, container, key, &old).await, "a create that conflicts");
        expect_refused(account.upsert_item(ctx, container, key, &old, any).await, "an upsert");
        expect_refused(account.replace_item(ctx, container, key, "old", &old, any).await, "a replace");
        expect_refused(account.replace_item(ctx, container, key, "gone", &gone, any).await, "a miss");
        let value = Value::Int(5);
        let set = Patch {
            operations: vec![PatchOperation::Set { path: vec!["v".into()], value }],
            condition: None,
        };
        expect_refused(account.patch_item(ctx, container, key, "old", set, any).await, "a patch");
        expect_refused(account.delete_item(ctx, container, key, "old", any).await, "a delete");
        let whole = account.json_key_delete(ctx, container, whole_key).await;
        expect_refused(whole, "a delete of a key");
        let batch = vec![operation(BatchKind::Delete, "old", None)];
        expect_refused(account.json_batch(ctx, container, whole_key, batch).await, "a batch");
    }
}

/// A restart may find any whole commits among the failed writes, but no acknowledged write is lost.
async fn expect_the_same_after_a_restart(world: &World) {
    let survivors: Vec<_> = world.engines.iter().map(|engine| Arc::new(engine.crash(0))).collect();
    let reopened = Fixture::over(over(&survivors, Durability::Sync)).await;
    let container = reopened.account.router().container("db", "c").expect("there");
    let found = differences(&reopened, &container, &world.acknowledged).await;
    assert!(found.is_empty(), "after a restart: {found:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_read_shows_what_was_acknowledged_after_a_failed_sync() {
    reads_after(Fault::Sync, 1).await;
    reads_after(Fault::Sync, 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_read_shows_what_was_acknowledged_after_a_failed_write() {
    reads_after(Fault::Apply, 1).await;
    reads_after(Fault::Apply, 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_read_shows_what_was_acknowledged_after_a_write_that_failed_when_it_showed() {
    reads_after(Fault::AfterApply, 1).await;
    reads_after(Fault::AfterApply, 3).await;
}

/// Where writes are acknowledged before they are durable, acknowledged writes stay visible until the server stops.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn asynchronous_writes_stay_visible_after_a_failed_sync() {
    expects_log("(injected)");
    let mut world = World::new(1, Durability::Async).await;
    world.engines[0].fail_sync(1);
    for number in 0.. {
        // The sync comes a tenth of a second after the first write, independent of other writers.
        match put(&world.fixture, &world.container, "k0", "late", number).await {
            Ok(()) => drop(world.acknowledged.items.insert(("k0".into(), "late".into()), number)),
            failed => {
                expect_refused(failed, "a write after the sync");
                break;
            }
        }
    }
    world.expect_acknowledged("after the failed sync").await;
    expect_no_write(&world).await;
    world.expect_acknowledged("after more writes were refused").await;
}
