//! Settings of an index: unique rows, rows that outlive their items, upkeep at no charge.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use serde_json::json;
use shardlake_account::{IndexSettingsChange, ItemRead, ReadCommand, SplitAt};
use shardlake_model::{ErrorKind, ExpiredRows, IndexCharge, IndexSettings, KeyComponent, PartitionKey};
use shardlake_stdx::Random;
use shardlake_storage::fault::FaultEngine;

use crate::indexes::{over, seeds};
use crate::store::Store;
use crate::support::{Fixture, eventually, json as json_of, none};

const WRITERS: u64 = 8;
const KEYS: u64 = 1000;

fn unique() -> IndexSettings {
    IndexSettings { unique: true, ..IndexSettings::default() }
}

/// The items of the source by their key in the index, with the ids of those that have it.
async fn items_by_key(store: &Store<'_>) -> BTreeMap<String, Vec<String>> {
    let mut by_key: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for item in store.all("source").await {
        let text = |name: &str| item[name].as_str().expect("a text").to_owned();
        by_key.entry(text("k")).or_default().push(text("id"));
    }
    by_key.values_mut().for_each(|ids| ids.sort());
    by_key
}

/// Every key has one holder, which has the key as its id and is the least item.
async fn check_unique(store: &Store<'_>, seed: u64) {
    let (by_key, mut holders, mut duplicates) = (items_by_key(store).await, BTreeMap::new(), 0);
    for row in store.all("by_k").await {
        let text = |name: &str| row[name].as_str().expect("a text").to_owned();
        let (id, key) = (text("id"), text("k"));
        if id == key {
            assert_eq!(holders.insert(key, text("_id")), None, "seed {seed}: one holder");
        } else {
            assert_eq!(id, format!("{key}~{}", text("_row")), "seed {seed}");
            duplicates += 1;
        }
    }
    let expected: BTreeMap<String, String> =
        by_key.iter().map(|(key, ids)| (key.clone(), ids[0].clone())).collect();
    assert_eq!(holders, expected, "seed {seed}");
    let many: usize = by_key.values().map(|ids| ids.len() - 1).sum();
    assert_eq!(duplicates, many as u64, "seed {seed}");
    let found = store.fixture.account.copies().duplicates("db", "by_k").await.expect("unique");
    assert_eq!((found.count, found.listed.len() as u64), (duplicates, duplicates.min(1000)), "seed {seed}");
    // The task counts them when it begins to follow.
    eventually("they are counted", async || store.report("by_k").await.duplicates.is_some()).await;
    assert_eq!(store.report("by_k").await.duplicates, Some(duplicates), "seed {seed}");
    store.verify("by_k", seed).await;
}

async fn write(store: &Store<'_>, random: &Random, keys: u64, items: u64) {
    let (pk, id) = (format!("p{}", random.below(7)), random.below(items).to_string());
    loop {
        store.fixture.clock.advance(Duration::from_millis(1));
        let outcome = match random.below(4) {
            0 => match store.delete(&pk, &id).await {
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
                outcome => outcome,
            },
            _ => store.upsert(&json!({ "id": id, "pk": pk, "k": format!("k{}", random.below(keys)) })).await,
        };
        match outcome {
            Err(error) if error.kind() == ErrorKind::TooManyRequests => {}
            outcome => return outcome.expect("written"),
        }
    }
}

#[tokio::test]
async fn each_key_has_one_holder_after_many_writers() {
    let fixture = Fixture::new().await;
    let store = Store::new(&fixture, None, 100_000).await;
    store.index_with("source", ("by_k", "/k"), "SELECT c.k FROM c", unique()).await;
    let writers = (0..WRITERS).map(|number| {
        let (store, random) = (&store, Random::seeded(number));
        async move {
            for _ in 0..400 {
                write(store, &random, KEYS, 900).await;
            }
        }
    });
    join_all(writers.collect::<Vec<_>>()).await;
    store.settled().await;
    check_unique(&store, 0).await;
    // A look-up is a point read.
    let index = store.container("by_k");
    for (key, ids) in items_by_key(&store).await {
        let read = ItemRead { item: key.clone().into(), preconditions: none() };
        let of_key = PartitionKey(vec![KeyComponent::String(key.clone())]);
        let command = ReadCommand { key: Some(of_key), read };
        let reply = loop {
            fixture.clock.advance(Duration::from_millis(1));
            match fixture.account.items().read(&fixture.ctx(), &index, command.clone()).await {
                Err(error) if error.kind() == ErrorKind::TooManyRequests => {}
                reply => break reply.expect("there"),
            }
        };
        assert!(reply.meta.charge_centi <= 100, "{key}: {:?}", reply.meta);
        assert_eq!(json_of(&reply.item.expect("an item"))["_id"], ids[0]);
    }
}

/// Few keys, so that names pass on often, through splits, merges and restarts.
async fn storm(seed: u64) {
    let random = Random::seeded(seed);
    let mut engines: Vec<Arc<FaultEngine>> = (0..2).map(|_| Arc::new(FaultEngine::new())).collect();
    let mut fixture = Fixture::over(over(&engines)).await;
    {
        let store = Store::new(&fixture, None, 400).await;
        store.index_with("source", ("by_k", "/k"), "SELECT c.k FROM c", unique()).await;
    }
    for round in 0..3 {
        {
            let store = Store { fixture: &fixture };
            let writes = async {
                for _ in 0..80 {
                    write(&store, &random, 5, 12).await;
                }
            };
            let motion = async {
                for container in ["source", "by_k", "by_k"] {
                    let handle = store.container(container);
                    let ids: Vec<u32> = handle.partition_key_ranges().iter().map(|range| range.id).collect();
                    let ticket = match ids.as_slice() {
                        [one] => fixture.account.maintenance().split(&handle, *one, SplitAt::Middle).await,
                        several => fixture.account.maintenance().merge(&handle, several).await,
                    };
                    if let Ok(ticket) = ticket {
                        let _outcome = ticket.finished().await;
                    }
                }
            };
            tokio::join!(writes, motion);
            if round == 1 {
                fixture.account.copies().rebuild("db", "by_k").await.expect("begun");
                store.settled().await;
                check_unique(&store, seed).await;
            }
        }
        engines = engines.iter().map(|engine| Arc::new(engine.crash(random.below(3) as usize))).collect();
        drop(fixture);
        fixture = Fixture::over(over(&engines)).await;
    }
    let store = Store { fixture: &fixture };
    store.settled().await;
    check_unique(&store, seed).await;
}

#[tokio::test]
async fn names_pass_on_through_splits_merges_and_restarts() {
    for seed in seeds(3) {
        storm(seed).await;
    }
}

#[tokio::test]
async fn rows_may_outlive_items_whose_time_has_ended() {
    let fixture = Fixture::new().await;
    let store = Store::new(&fixture, Some(-1), 100_000).await;
    let settings = IndexSettings { expired: ExpiredRows::Keep, ..IndexSettings::default() };
    store.index_with("source", ("by_k", "/k"), "SELECT c.k FROM c", settings).await;
    for number in 0..20 {
        let mut item = json!({ "id": number.to_string(), "pk": "p", "k": "x" });
        if number % 4 == 0 {
            item["ttl"] = json!(5);
        }
        store.upsert(&item).await.expect("written");
    }
    store.settled().await;
    fixture.clock.advance(Duration::from_secs(10));
    let stored =
        || store.container("source").entry.map.iter().map(|partition| partition.items()).sum::<u64>();
    eventually("expired items are removed", async || stored() == 15).await;
    store.delete("p", "1").await.expect("deleted");
    store.settled().await;
    assert_eq!(store.rows("by_k").await.len(), 19, "the deleted item has no row any more");
    store.verify("by_k", 0).await;
    // A new item in the place of an expired one has the row.
    store.upsert(&json!({ "id": "4", "pk": "p", "k": "x" })).await.expect("written");
    fixture.account.copies().rebuild("db", "by_k").await.expect("begun");
    store.settled().await;
    assert_eq!(store.rows("by_k").await.len(), 19);
    store.verify("by_k", 0).await;
    let change = IndexSettingsChange { expired: Some(ExpiredRows::Delete), ..IndexSettingsChange::default() };
    fixture.account.definitions().set_index("db", "by_k", change).await.expect("changed");
    store.upsert(&json!({ "id": "2", "pk": "p", "k": "x", "ttl": 5 })).await.expect("written");
    store.settled().await;
    fixture.clock.advance(Duration::from_secs(10));
    eventually("its row is deleted", async || store.rows("by_k").await.len() == 18).await;
}

#[tokio::test]
async fn upkeep_may_be_free() {
    let fixture = Fixture::new().await;
    let store = Store::new(&fixture, None, 100_000).await;
    for (id, charge) in [("free", IndexCharge::None), ("paid", IndexCharge::Containers)] {
        let settings = IndexSettings { charge, ..IndexSettings::default() };
        store.small_index("source", (id, "/k"), "SELECT c.k FROM c", settings, 400).await;
    }
    for number in 0..600 {
        fixture.clock.advance(Duration::from_micros(100));
        store.put("p", &number.to_string(), "k").await;
    }
    // Budgets are not filled while the clock stands still.
    eventually("the free one is level", async || store.report("free").await.rows == 600).await;
    let paid = async || {
        let report = store.report("paid").await;
        report.rows < 600 && report.reason.is_some()
    };
    eventually("the other one waits for its budget", paid).await;
    let change = IndexSettingsChange { charge: Some(IndexCharge::None), ..IndexSettingsChange::default() };
    fixture.account.definitions().set_index("db", "paid", change).await.expect("changed");
    eventually("it is level, too", async || store.report("paid").await.rows == 600).await;
    assert_eq!(store.report("paid").await.settings.charge, IndexCharge::None);
}
