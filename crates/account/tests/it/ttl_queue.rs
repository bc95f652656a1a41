//! The expiry queues, against a model: after any writes, changes of the default, splits, merges and
//! restarts a purge removes exactly the expired items, and `verify` agrees with the queues.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use shardlake_account::{AccountOptions, ContainerHandle, Purging, SplitAt, verify};
use shardlake_model::{ContainerDefinition, PartitionKeyDefinition};
use shardlake_partition::seeded::{Mistake, Seeded};
use shardlake_stdx::Random;
use shardlake_storage::fault::FaultEngine;
use shardlake_storage::{Durability, Shard, ShardOptions};

use crate::support::json_door::{JsonDoor, KeyInput};
use crate::support::{Fixture, none};

/// When an item was written, in seconds, and its own time to live.
type Model = BTreeMap<String, (u64, Option<i64>)>;

fn options() -> AccountOptions {
    AccountOptions { purging: Purging::WhenAsked, ..AccountOptions::default() }
}

fn definition(default_ttl: Option<i64>) -> ContainerDefinition {
    let mut definition = ContainerDefinition::new("c", PartitionKeyDefinition::hash("/pk"));
    definition.default_ttl = default_ttl;
    definition
}

fn over(engine: &FaultEngine) -> Shard {
    let options = ShardOptions { durability: Durability::Sync, ..ShardOptions::memory() };
    Shard::with_engine(Arc::new(engine.clone()), &options).expect("opens")
}

struct Run {
    engine: FaultEngine,
    shard: Shard,
    fixture: Fixture,
    random: Random,
    items: Model,
    default_ttl: Option<i64>,
}

impl Run {
    async fn new(seed: u64) -> Run {
        let engine = FaultEngine::new();
        let shard = over(&engine);
        let fixture = Fixture::over_with(&shard, options()).await;
        fixture.container_with(definition(Some(-1)), 400).await;
        let random = Random::seeded(seed);
        Run { engine, shard, fixture, random, items: Model::new(), default_ttl: Some(-1) }
    }

    fn container(&self) -> ContainerHandle {
        self.fixture.account.router().container("db", "c").expect("there")
    }

    fn now(&self) -> u64 {
        self.fixture.clock.now().seconds()
    }

    fn is_expired(&self, (written, ttl): (u64, Option<i64>)) -> bool {
        let Some(default_ttl) = self.default_ttl else { return false };
        match ttl.unwrap_or(default_ttl) {
            -1 => false,
            seconds => written + seconds as u64 <= self.now(),
        }
    }

    async fn write(&mut self) {
        let (key, id) = (self.random.below(12), self.random.below(60));
        let (key, id) = (format!("k{}", (id + key / 11) % 12), format!("i{id}"));
        let name = format!("{key}/{id}");
        let (account, ctx, c) = (&self.fixture.account, self.fixture.ctx(), self.container());
        if self.random.below(5) == 0 {
            let key = format!(r#"["{key}"]"#);
            // An expired item does not exist for its client.
            let _ = account.delete_item(&ctx, &c, Some(KeyInput(&key)), &id, &none()).await;
            if self.items.get(&name).is_some_and(|item| !self.is_expired(*item)) {
                self.items.remove(&name);
            }
            return;
        }
        let ttl = [None, None, None, Some(-1), Some(3), Some(10), Some(25)][self.random.below(7) as usize];
        let own = ttl.map_or_else(String::new, |ttl| format!(r#","ttl":{ttl}"#));
        let body = format!(r#"{{"id":"{id}","pk":"{key}"{own}}}"#);
        account.upsert_item(&ctx, &c, None, body.as_bytes(), &none()).await.expect("upserted");
        self.items.insert(name, (self.now(), ttl));
    }

    async fn change(&mut self) {
        match self.random.below(6) {
            0 | 1 => {
                self.default_ttl = [None, Some(-1), Some(5), Some(20)][self.random.below(4) as usize];
                let (account, ctx) = (&self.fixture.account, self.fixture.ctx());
                let definition = definition(self.default_ttl);
                account
                    .definitions()
                    .replace_container(&ctx, "db", "c", definition, &none())
                    .await
                    .expect("replaced");
            }
            2 => {
                let ranges: Vec<u32> =
                    self.container().partition_key_ranges().iter().map(|range| range.id).collect();
                let chosen = ranges[self.random.below(ranges.len() as u64) as usize];
                let split = self
                    .fixture
                    .account
                    .maintenance()
                    .split(&self.container(), chosen, SplitAt::Middle)
                    .await;
                split.expect("begins").finished().await.expect("ends");
            }
            3 => {
                let ranges: Vec<u32> =
                    self.container().partition_key_ranges().iter().map(|range| range.id).collect();
                if ranges.len() > 1 {
                    let merge =
                        self.fixture.account.maintenance().merge(&self.container(), &ranges[..2]).await;
                    merge.expect("begins").finished().await.expect("ends");
                }
            }
            4 => {
                // The previous account may still have background work, which must not be on the same store.
                self.fixture.account.close().await.expect("closes");
                self.engine = self.engine.crash(0);
                self.shard = over(&self.engine);
                let later = self.fixture.clock.now();
                self.fixture = Fixture::over_with(&self.shard, options()).await;
                let passed = later.0 - self.fixture.clock.now().0;
                self.fixture.clock.advance(Duration::from_millis(passed));
            }
            _ => {}
        }
    }

    async fn purge(&mut self, seed: u64, round: u32) {
        let (before, now) = (self.items.len(), self.now());
        let expired: Vec<_> = self
            .items
            .iter()
            .filter(|(_, item)| self.is_expired(**item))
            .map(|(name, _)| name.clone())
            .collect();
        self.items.retain(|name, _| !expired.contains(name));
        let place = format!("seed {seed}, round {round}, second {now}, default {:?}", self.default_ttl);
        self.fixture.account.maintenance().purge_expired(&self.container()).await.expect("purged");
        let left = self.container().usage().items;
        assert_eq!(left, self.items.len() as u64, "{place}: of {before} items {} had run out", expired.len());
        let report = verify(self.shard.clone()).await.expect("readable");
        assert_eq!(report.problem_count(), 0, "{place}: {report:?}");
    }
}

#[tokio::test]
async fn a_purge_removes_exactly_what_has_run_out() {
    for seed in 0..12 {
        let mut run = Run::new(seed).await;
        for round in 0..25 {
            for _ in 0..run.random.below(40) {
                run.write().await;
                if run.random.below(8) == 0 {
                    run.fixture.clock.advance(Duration::from_millis(run.random.below(2500)));
                }
            }
            run.change().await;
            if run.random.below(3) > 0 {
                run.purge(seed, round).await;
            }
            run.fixture.clock.advance(Duration::from_secs(run.random.below(8)));
        }
    }
}

#[tokio::test]
async fn verify_notices_an_end_that_is_not_queued() {
    let run = Run::new(1).await;
    let (ctx, c) = (run.fixture.ctx(), run.container());
    let create = async |id: &str| {
        let body = format!(r#"{{"id":"{id}","pk":"a","ttl":9}}"#);
        run.fixture.account.create_item(&ctx, &c, None, body.as_bytes()).await.map(drop).expect("created");
    };
    create("kept").await;
    assert_eq!(verify(run.shard.clone()).await.expect("readable").problem_count(), 0);
    let seeded = Seeded::new(Mistake::LostEnd);
    create("lost").await;
    drop(seeded);
    assert_eq!(verify(run.shard.clone()).await.expect("readable").problem_count(), 1);
}
