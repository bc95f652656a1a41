//! Exactly once: counters that are kept by reading, changing and writing them stay exact, although the power fails at any
//! step, and source and targets are split, merged and moved
//! meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use shardlake_account::{Account, SplitAt};
use shardlake_model::Result;
use shardlake_stdx::Random;
use shardlake_storage::fault::FaultEngine;
use shardlake_storage::{Durability, Shard, ShardOptions};
use shardlake_testkit::expects_log;

use crate::shop::{container, context, function, items, level, put, report, with};
use crate::support::json_door::JsonDoor;
use crate::support::{Fixture, none, number_from_environment, some_time};

/// Each event counts in two counters, which lie in partitions of their own.
const COUNT: &str = r#"async function (changes, context) {
  const counters = context.container("counter");
  for (const { current } of changes) for (const id of current.counts) {
    const counter = await counters.read(id, id);
    if (counter) counters.replace({ ...counter, n: counter.n + 1 });
    else counters.create({ id, n: 1 });
  }
}"#;
const SHARDS: usize = 3;
const COUNTERS: u64 = 12;

fn over(engines: &[Arc<FaultEngine>]) -> Vec<Shard> {
    let options = ShardOptions { durability: Durability::Sync, ..ShardOptions::memory() };
    engines.iter().map(|engine| Shard::with_engine(engine.clone(), &options).expect("opens")).collect()
}

async fn event(account: &Account, number: u64, random: &Random) -> Result<()> {
    let counts = [random.below(COUNTERS), random.below(COUNTERS)].map(|counter| format!("n{counter}"));
    let event = json!({ "id": format!("e{number}"), "counts": counts });
    let container = account.router().container("db", "event")?;
    let json = event.to_string();
    account.upsert_item(&context(account), &container, None, json.as_bytes(), &none()).await.map(drop)
}

/// Splits or moves a partition of the source or of the target, or merges two.
async fn relocate(account: &Account, random: &Random) {
    let name = ["event", "counter"][random.below(2) as usize];
    let Ok(container) = account.router().container("db", name) else { return };
    let ranges: Vec<u32> = container.entry.map.iter().map(|partition| partition.range_id()).collect();
    let range = ranges[random.below(ranges.len() as u64) as usize];
    let maintenance = account.maintenance();
    // A crash may end it, and a small partition may have no place to be split at.
    let _may_fail = match random.below(4) {
        3 => {
            let shard = u16::try_from(random.below(SHARDS as u64)).expect("few shards");
            maintenance.move_partition(&container, range, shard).await.map(drop)
        }
        0 if ranges.len() > 1 => maintenance.merge(&container, &ranges[..2]).await.map(drop),
        _ => maintenance.split(&container, range, SplitAt::Middle).await.map(drop),
    };
}

/// The counters as the events in the store have them.
fn expected(events: &[Value]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for event in events {
        for counter in event["counts"].as_array().expect("a list") {
            *counts.entry(counter.as_str().expect("a name").to_owned()).or_default() += 1;
        }
    }
    counts
}

async fn crash_once(seed: u64) {
    let random = Random::seeded(seed);
    let mut engines: Vec<Arc<FaultEngine>> = (0..SHARDS).map(|_| Arc::new(FaultEngine::new())).collect();
    {
        let fixture = Fixture::over(over(&engines)).await;
        container(&fixture, "event", "/id", 12_000).await;
        container(&fixture, "counter", "/id", 18_000).await;
        let count = with(function("count", "event", &["counter"], COUNT), "batch", json!({ "changes": 4 }));
        put(&fixture.account, &count).await.expect("valid");
        fixture.account.flush().await.expect("durable");
    }
    let mut number = 0;
    for _ in 0..3 {
        let fixture = Fixture::over(over(&engines)).await;
        let at = 1 + random.below(80);
        ["(injected)", "definitions cannot be changed"].into_iter().for_each(expects_log);
        let engine = &engines[random.below(SHARDS as u64) as usize];
        if random.below(2) == 0 {
            engine.fail_sync(at)
        } else {
            engine.fail_apply(at)
        }
        for _ in 0..40 {
            number += 1;
            if event(&fixture.account, number, &random).await.is_err() {
                break;
            }
            if random.below(12) == 0 {
                relocate(&fixture.account, &random).await;
            }
            some_time(&random, 3).await;
        }
        engines = engines.iter().map(|engine| Arc::new(engine.crash(random.below(3) as usize))).collect();
        drop(fixture);
    }
    let shards = over(&engines);
    let found = shardlake_account::verify(&shards[..]).await.expect("readable");
    assert_eq!(found.problem_count(), 0, "seed {seed}: {found:?}");
    let fixture = Fixture::over(shards).await;
    let account = &fixture.account;
    level(account, "count").await;
    let counters = items(account, "counter").await;
    let counters: BTreeMap<String, u64> = counters
        .iter()
        .map(|counter| {
            (counter["id"].as_str().expect("a name").to_owned(), counter["n"].as_u64().expect("a count"))
        })
        .collect();
    assert_eq!(counters, expected(&items(account, "event").await), "seed {seed}");
    let found = report(account, "count").await;
    assert_eq!(found.counts.dead_letters, 0, "seed {seed}: {:?}", found.last_error);
}

#[tokio::test]
async fn counters_are_exact_whenever_the_power_fails() {
    let seeds = match number_from_environment("FUNCTIONS_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number_from_environment("FUNCTIONS_SEEDS").unwrap_or(24),
    };
    for seed in seeds {
        crash_once(seed).await;
    }
}
