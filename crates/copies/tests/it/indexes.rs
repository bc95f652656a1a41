//! An index is its definition over its source, for all writes of clients and all places of partitions.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use shardlake_account::{AccountOptions, SplitAt};
use shardlake_catalog::Holder;
use shardlake_model::Limits;
use shardlake_stdx::Random;
use shardlake_storage::fault::FaultEngine;
use shardlake_storage::{Durability, Shard, ShardOptions};
use shardlake_testkit::expects_log;

use crate::groups::{BOARD, TAGS};
use crate::store::Store;
use crate::support::{Fixture, eventually, none, number_from_environment, some_time};

#[tokio::test]
async fn an_index_is_built_and_follows_its_source() {
    let fixture = Fixture::new().await;
    let store = Store::new(&fixture, None, 100_000).await;
    for number in 0..700 {
        store.put(&format!("p{}", number % 9), &number.to_string(), &format!("k{}", number % 40)).await;
    }
    store.index("source", "by_k", "/k", "SELECT c.k, c.n FROM c").await;
    store.settled().await;
    assert_eq!(store.rows("by_k").await.len(), 700);
    store.check("source", "by_k").await;
    store.put("p1", "1", "moved").await;
    store.put("p1", "new", "k1").await;
    store.delete("p2", "2").await.expect("deleted");
    store.settled().await;
    store.check("source", "by_k").await;
    let report = store.report("by_k").await;
    assert_eq!((report.state, report.rows, report.refused), ("Active", 700, 0));
    // Nothing moves: no change of the catalog.
    eventually("its position is stored", async || {
        let live = fixture.account.router().live_catalog();
        let stored = live.definitions.checkpoints.get(&report.number);
        stored.is_some_and(|stored| stored.source == report.places)
    })
    .await;
}

#[tokio::test]
async fn an_index_continues_after_a_restart() {
    let engines: Vec<Arc<FaultEngine>> = (0..2).map(|_| Arc::new(FaultEngine::new())).collect();
    let fixture = Fixture::over(over(&engines)).await;
    let store = Store::new(&fixture, None, 100_000).await;
    for number in 0..50 {
        store.put("p", &number.to_string(), &format!("k{}", number % 4)).await;
    }
    store.index("source", "by_k", "/k", "SELECT * FROM c").await;
    store.settled().await;
    fixture.account.copies().pause("db", "by_k").await.expect("paused");
    store.put("p", "1", "moved").await;
    store.delete("p", "2").await.expect("deleted");
    assert_eq!(store.report("by_k").await.state, "Paused");
    let engines: Vec<_> = engines.iter().map(|engine| Arc::new(engine.crash(0))).collect();
    drop(fixture);
    let fixture = Fixture::over(over(&engines)).await;
    let store = Store { fixture: &fixture };
    let report = store.report("by_k").await;
    assert_eq!((report.state, report.rows), ("Paused", 50), "it has not followed");
    store.put("p", "3", "moved").await;
    fixture.account.copies().resume("db", "by_k").await.expect("resumed");
    store.settled().await;
    store.check("source", "by_k").await;
}

#[tokio::test]
async fn an_index_of_an_index_follows_and_goes_with_its_container() {
    let fixture = Fixture::new().await;
    let store = Store::new(&fixture, None, 100_000).await;
    store.index("source", "by_k", "/k", "SELECT c.k, c.n FROM c").await;
    store.index("by_k", "by_n", "/n", "SELECT c.n, c.k FROM c").await;
    for number in 0..30 {
        store.put("p", &number.to_string(), &format!("k{}", number % 4)).await;
    }
    store.settled().await;
    store.check("source", "by_k").await;
    eventually("the second one is level", async || store.rows("by_n").await.len() == 30).await;
    store.put("p", "1", "moved").await;
    store.settled().await;
    store.settled().await;
    store.check("by_k", "by_n").await;
    let context = fixture.ctx();
    let deleted = fixture.account.definitions().delete_container(&context, "db", "by_n", &none()).await;
    deleted.expect("deleted");
    assert_eq!(fixture.account.copies().indexes().await.len(), 1);
}

#[tokio::test]
async fn rows_follow_times_to_live_and_deleted_keys() {
    let fixture = Fixture::new().await;
    let store = Store::new(&fixture, Some(-1), 100_000).await;
    store.index("source", "by_k", "/k", "SELECT c.k FROM c").await;
    for number in 0..20 {
        let mut item = json!({ "id": number.to_string(), "pk": format!("p{}", number % 2), "k": "x" });
        if number % 4 == 0 {
            item["ttl"] = json!(5);
        }
        store.upsert(&item).await.expect("written");
    }
    store.settled().await;
    assert_eq!(store.rows("by_k").await.len(), 20);
    fixture.clock.advance(Duration::from_secs(10));
    eventually("expired items are removed", async || store.rows("by_k").await.len() == 15).await;
    let (source, key) = (store.container("source"), crate::support::json_door::KeyInput("[\"p1\"]"));
    use crate::support::json_door::JsonDoor;
    fixture.account.json_key_delete(&fixture.ctx(), &source, key).await.expect("deleted");
    store.settled().await;
    store.check("source", "by_k").await;
    assert_eq!(store.rows("by_k").await.len(), 5);
}

#[tokio::test]
async fn rows_of_arrays_are_numbered_and_end_one_by_one() {
    let fixture = Fixture::new().await;
    let store = Store::new(&fixture, None, 100_000).await;
    store.index("source", "by_tag", "/tag", "SELECT t AS tag, c.n FROM c JOIN t IN c.tags").await;
    let item = |tags: serde_json::Value| json!({ "id": "1", "pk": "p", "n": 1, "tags": tags });
    for tags in [json!(["a", "b", "c"]), json!(["a", "c"]), json!([]), json!(["x", "a", "a"])] {
        store.upsert(&item(tags.clone())).await.expect("written");
        store.settled().await;
        store.check("source", "by_tag").await;
        assert_eq!(store.rows("by_tag").await.len(), tags.as_array().expect("an array").len());
    }
}

#[tokio::test]
async fn what_cannot_be_written_is_counted_and_named() {
    let fixture = Fixture::new().await;
    let store = Store::new(&fixture, None, 100_000).await;
    store.index("source", "by_k", "/k", "SELECT c.k FROM c").await;
    store.put("p", "1", "short").await;
    store.put("p", "2", "short").await;
    store.settled().await;
    store.put("p", "1", &"x".repeat(3000)).await;
    eventually("it is incomplete", async || store.report("by_k").await.state == "Incomplete").await;
    let report = store.report("by_k").await;
    assert_eq!((report.refused, report.refusals[0].id.as_str(), report.rows), (1, "1", 1));
    assert!(report.refusals[0].reason.contains("partition key"), "{:?}", report.refusals);
    store.put("p", "1", "shorter").await;
    store.settled().await;
    store.check("source", "by_k").await;
    assert_eq!(store.rows("by_k").await.len(), 2);
}

#[tokio::test]
async fn refused_items_are_known_after_a_restart() {
    let engines: Vec<Arc<FaultEngine>> = (0..2).map(|_| Arc::new(FaultEngine::new())).collect();
    let fixture = Fixture::over(over(&engines)).await;
    let store = Store::new(&fixture, None, 100_000).await;
    store.index("source", "by_k", "/k", "SELECT c.k FROM c").await;
    store.put("p", "1", &"x".repeat(3000)).await;
    store.put("p", "2", &"y".repeat(3000)).await;
    eventually("they are refused", async || {
        let live = fixture.account.router().live_catalog();
        live.definitions.secondary_indexes.values().any(|record| record.state.failed_rows == 2)
    })
    .await;
    let before = store.report("by_k").await.refusals;
    let engines: Vec<_> = engines.iter().map(|engine| Arc::new(engine.crash(0))).collect();
    drop(fixture);
    let fixture = Fixture::over(over(&engines)).await;
    let store = Store { fixture: &fixture };
    let report = store.report("by_k").await;
    assert_eq!((report.refused, &report.refusals), (2, &before));
    // So an item that is mended does not count any more.
    store.put("p", "1", "short").await;
    eventually("one is left", async || store.report("by_k").await.refused == 1).await;
    store.delete("p", "2").await.expect("deleted");
    eventually("none is left", async || store.report("by_k").await.state == "Active").await;
    store.check("source", "by_k").await;
}

#[tokio::test]
async fn a_rebuild_deletes_rows_of_no_item() {
    let fixture = Fixture::new().await;
    let store = Store::new(&fixture, None, 100_000).await;
    store.index("source", "by_k", "/k", "SELECT c.k FROM c").await;
    for number in 0..20 {
        store.put("p", &number.to_string(), &format!("k{}", number % 3)).await;
    }
    store.settled().await;
    fixture.account.copies().rebuild("db", "by_k").await.expect("begun");
    store.settled().await;
    let report = store.report("by_k").await;
    assert_eq!((report.generation, report.rows), (2, 20));
    store.check("source", "by_k").await;
}

pub fn over(engines: &[Arc<FaultEngine>]) -> Vec<Shard> {
    let options = ShardOptions { durability: Durability::Sync, ..ShardOptions::memory() };
    engines.iter().map(|engine| Shard::with_engine(engine.clone(), &options).expect("opens")).collect()
}

/// Moves partitions of the source and of the index while clients write.
async fn storm(seed: u64) {
    let random = Random::seeded(seed);
    let mut engines: Vec<Arc<FaultEngine>> = (0..2).map(|_| Arc::new(FaultEngine::new())).collect();
    let mut fixture = Fixture::over(over(&engines)).await;
    {
        let store = Store::new(&fixture, Some(-1), 400).await;
        store.index("source", "by_k", "/k", "SELECT c.k, c.n FROM c").await;
        store.index("source", "filtered", "/n", "SELECT c.n, c.k FROM c WHERE c.n > 3").await;
        store.index("source", "by_tag", "/tag", "SELECT t AS tag FROM c JOIN t IN c.tags").await;
        store.index("source", "board", "/board", BOARD).await;
        store.index("source", "tags", "/tag", TAGS).await;
    }
    for round in 0..4 {
        {
            let store = Store { fixture: &fixture };
            let writes = async {
                for _ in 0..120 {
                    write(&store, &random).await;
                    if random.below(10) == 0 {
                        fixture.clock.advance(Duration::from_millis(700));
                        some_time(&random, 3).await;
                    }
                }
            };
            let motion = async {
                for container in ["source", "by_k", "source", "by_tag", "board"] {
                    relocate(&store, container).await;
                    some_time(&random, 5).await;
                }
            };
            tokio::join!(writes, motion);
            if round % 2 == 1 {
                store.settled().await;
                check_all(&store, seed).await;
            }
        }
        // As after a kill: everything that was acknowledged is there, and some of the rest.
        engines = engines.iter().map(|engine| Arc::new(engine.crash(random.below(3) as usize))).collect();
        drop(fixture);
        fixture = Fixture::over(over(&engines)).await;
    }
    let store = Store { fixture: &fixture };
    store.settled().await;
    check_all(&store, seed).await;
}

async fn check_all(store: &Store<'_>, seed: u64) {
    // Between two readings items may be removed that have expired.
    let mut tries = 0;
    eventually("rows are those of the definitions", async || {
        store.settled().await;
        tries += 1;
        for index in ["by_k", "filtered", "by_tag", "board", "tags"] {
            let (rows, expected) = (store.rows(index).await, store.expected("source", index).await);
            if rows != expected {
                let extra: Vec<_> = rows.keys().filter(|name| !expected.contains_key(*name)).collect();
                let missing: Vec<_> = expected.keys().filter(|name| !rows.contains_key(*name)).collect();
                let reports = store.fixture.account.copies().indexes().await;
                assert!(
                    tries < 300,
                    "seed {seed}, {index}: {extra:#?} too much, {missing:#?} missing: {reports:#?}"
                );
                return false;
            }
        }
        true
    })
    .await;
    for index in ["by_k", "filtered", "by_tag", "board", "tags"] {
        store.verify(index, seed).await;
    }
}

async fn write(store: &Store<'_>, random: &Random) {
    let (pk, id) = (format!("p{}", random.below(5)), random.below(8).to_string());
    if random.below(4) == 0 {
        let _absent = store.delete(&pk, &id).await;
        return;
    }
    let tags: Vec<String> = (0..random.below(4)).map(|_| format!("t{}", random.below(5))).collect();
    let mut item = json!({ "id": id, "pk": pk, "k": format!("k{}", random.below(6)), "n": random.below(8), "tags": tags });
    if random.below(6) == 0 {
        item["ttl"] = json!(1 + random.below(20));
    }
    while store.upsert(&item).await.is_err() {
        store.fixture.clock.advance(Duration::from_millis(200));
    }
}

pub async fn relocate(store: &Store<'_>, container: &str) {
    let account = &store.fixture.account;
    let handle = store.container(container);
    let ids: Vec<u32> = handle.partition_key_ranges().iter().map(|range| range.id).collect();
    let ticket = match ids.as_slice() {
        [one] => account.maintenance().split(&handle, *one, SplitAt::Middle).await,
        several => account.maintenance().merge(&handle, several).await,
    };
    if let Ok(ticket) = ticket {
        let _outcome = ticket.finished().await;
    }
}

#[tokio::test]
async fn indexes_are_their_definitions_after_a_storm() {
    for seed in seeds(3) {
        storm(seed).await;
    }
}

#[tokio::test]
async fn an_index_that_missed_changes_is_built_anew() {
    let limits = Limits { change_log_entries_kept: 8, ..Limits::default() };
    let fixture = Fixture::with_options(AccountOptions { limits, ..AccountOptions::default() }).await;
    let store = Store::new(&fixture, None, 400).await;
    store.index("source", "by_k", "/k", "SELECT c.k FROM c").await;
    for number in 0..60 {
        store.put("p", &number.to_string(), &format!("k{}", number % 3)).await;
    }
    store.settled().await;
    fixture.account.copies().pause("db", "by_k").await.expect("paused");
    for number in 0..40 {
        store.delete("p", &number.to_string()).await.expect("deleted");
    }
    // As if the index had been too slow.
    let (router, number) = (fixture.account.router(), store.report("by_k").await.number);
    let source = store.container("source").entry.record.container.rid;
    router.release_hold(source, Holder::Copy(number)).await.expect("released");
    fixture.account.maintenance().compact_change_logs().await.expect("compacted");
    assert_eq!(store.rows("by_k").await.len(), 60);
    expects_log("built anew");
    fixture.account.copies().resume("db", "by_k").await.expect("resumed");
    eventually("it is built anew", async || store.report("by_k").await.generation == 2).await;
    store.settled().await;
    store.check("source", "by_k").await;
    assert_eq!(store.rows("by_k").await.len(), 20);
    let holds = router.live_catalog().definitions.log_holds_of(source).count();
    assert_eq!(holds, 1, "its log is held again");
}

/// An engine that loses unsynced data has a power failure at some time.
async fn crash_once(seed: u64) {
    let random = Random::seeded(seed);
    let engines: Vec<Arc<FaultEngine>> = (0..2).map(|_| Arc::new(FaultEngine::new())).collect();
    let fixture = Fixture::over(over(&engines)).await;
    let store = Store::new(&fixture, None, 100_000).await;
    for number in 0..12 {
        store.put(&format!("p{}", number % 3), &number.to_string(), &format!("k{}", number % 4)).await;
    }
    store.index("source", "by_k", "/k", "SELECT c.k FROM c").await;
    store.index("source", "board", "/board", BOARD).await;
    let at = 1 + random.below(60);
    expects_log("(injected)");
    match seed % 2 {
        0 => engines[(seed / 2 % 2) as usize].fail_sync(at),
        _ => engines[(seed / 2 % 2) as usize].fail_apply(at),
    }
    for _ in 0..40 {
        let (pk, id) = (format!("p{}", random.below(3)), random.below(12).to_string());
        let item = json!({ "id": id, "pk": pk, "k": format!("k{}", random.below(4)),
            "n": random.below(5) });
        let outcome = match random.below(3) {
            0 => store.delete(&pk, &id).await,
            _ => store.upsert(&item).await,
        };
        let is_broken = outcome.is_err_and(|error| error.kind() == shardlake_model::ErrorKind::Unavailable);
        if is_broken {
            break;
        }
        some_time(&random, 4).await;
    }
    let survivors: Vec<Arc<FaultEngine>> =
        engines.iter().map(|engine| Arc::new(engine.crash(random.below(3) as usize))).collect();
    drop(fixture);
    let shards = over(&survivors);
    let report = shardlake_account::verify(&shards[..]).await.expect("readable");
    assert_eq!(report.problem_count(), 0, "seed {seed}: {report:?}");
    let fixture = Fixture::over(shards).await;
    let store = Store { fixture: &fixture };
    let router = fixture.account.router();
    if ["by_k", "board"].iter().any(|index| router.container("db", index).is_err()) {
        return;
    }
    // Before an interrupted build has begun again.
    for _ in 0..6 {
        let (pk, id) = (format!("p{}", random.below(3)), random.below(12).to_string());
        let _absent = store.delete(&pk, &id).await;
    }
    store.settled().await;
    store.check("source", "by_k").await;
    store.verify("by_k", seed).await;
    store.check("source", "board").await;
    store.verify("board", seed).await;
}

/// The seeds of a run: `SHARDLAKE_SEED` and as many as usual, or `SHARDLAKE_SEEDS` of them.
pub fn seeds(usual: u64) -> std::ops::Range<u64> {
    let first = number_from_environment("SHARDLAKE_SEED").unwrap_or(0);
    first..first + number_from_environment("SHARDLAKE_SEEDS").unwrap_or(usual)
}

#[tokio::test]
async fn whenever_the_power_goes_an_index_is_its_definition() {
    for seed in seeds(16) {
        crash_once(seed).await;
    }
}
