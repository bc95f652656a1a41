//! What a crash may and may not undo, and that everything stored agrees with itself afterwards.
//!
//! The engine is one that forgets what was not synced. Writers run concurrently; at a random moment the power goes; the
//! account is opened again over what the "disk" holds. Every acknowledged write must be there, no batch may be half
//! there, and LSNs must go on where they were.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::support::{Fixture, json, none};
use shardlake_account::{BatchKind, BatchOperation, FeedScope, KeyInput, Shards, verify};
use shardlake_model::{ContainerDefinition, ErrorKind, PartitionKeyDefinition, Preconditions, UniqueKey};
use shardlake_stdx::Random;
use shardlake_storage::fault::FaultEngine;
use shardlake_storage::{Durability, Shard, ShardOptions};

fn shard_over(engine: Arc<FaultEngine>) -> Shard {
    let options = ShardOptions { durability: Durability::Sync, ..ShardOptions::memory() };
    Shard::with_engine(engine, &options).expect("opens")
}

fn definition() -> ContainerDefinition {
    let mut definition = ContainerDefinition::new("c", PartitionKeyDefinition::hash("/pk"));
    definition.unique_key_policy.unique_keys = vec![UniqueKey { paths: vec!["/u".into()] }];
    definition
}

fn write(kind: BatchKind, id: String, body: Option<String>) -> BatchOperation {
    let body = body.map(String::into_bytes);
    BatchOperation {
        kind,
        id: Some(id),
        body,
        patch: None,
        partition_key: None,
        preconditions: Preconditions::default(),
    }
}

/// Last acknowledged value per `key/id`; `None` for a deletion.
type Acknowledged = Arc<Mutex<BTreeMap<(String, String), Option<u64>>>>;

async fn run_writer(fixture: Arc<Fixture>, writer: u64, seed: u64, acknowledged: Acknowledged) {
    let random = Random::seeded(seed * 1000 + writer);
    let container = fixture.account.container("db", "c").expect("there");
    // Each writer owns its logical partitions, so that "acknowledged" is well defined without ordering writers.
    for step in 1..60u64 {
        let pk = format!("w{writer}-{}", random.below(3));
        let key_text = format!("[\"{pk}\"]");
        let key = KeyInput(&key_text);
        let id = random.below(6).to_string();
        let ctx = fixture.ctx();
        let body = format!(r#"{{"id":"{id}","pk":"{pk}","v":{step},"u":"{step}"}}"#);
        let result = match random.below(4) {
            0 => fixture
                .account
                .delete_item(&ctx, &container, Some(key), &id, &none())
                .await
                .map(|_| vec![(id, None)]),
            1 => {
                // Two items that must always agree.
                let twins = ["left", "right"].map(|twin| {
                    let body = format!(r#"{{"id":"{twin}","pk":"{pk}","v":{step},"u":"{twin}{step}"}}"#);
                    write(BatchKind::Upsert, twin.into(), Some(body))
                });
                let reply = fixture.account.batch(&ctx, &container, key, twins.to_vec()).await;
                reply
                    .and_then(|reply| reply.outcome.map_err(|failure| failure.error))
                    .map(|_| vec![("left".to_owned(), Some(step)), ("right".to_owned(), Some(step))])
            }
            _ => {
                let written =
                    fixture.account.upsert_item(&ctx, &container, Some(key), body.as_bytes(), &none()).await;
                written.map(|_| vec![(id, Some(step))])
            }
        };
        match result {
            Ok(changes) => {
                let mut acknowledged = acknowledged.lock().expect("no holder panics");
                acknowledged.extend(changes.into_iter().map(|(id, value)| ((pk.clone(), id), value)));
            }
            Err(error) if error.kind() == ErrorKind::Unavailable => return,
            Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{error:?}"),
        }
    }
}

async fn crash_once(shards: u64, seed: u64) {
    let engines: Vec<Arc<FaultEngine>> = (0..shards).map(|_| Arc::new(FaultEngine::new())).collect();
    let over = |engines: &[Arc<FaultEngine>]| -> Shards {
        engines.iter().cloned().map(shard_over).collect::<Vec<Shard>>().into()
    };
    let fixture = Arc::new(Fixture::over(over(&engines)).await);
    fixture.container_with(definition(), 12_000).await;
    let random = Random::seeded(seed);
    // The fault meets one shard; the power goes for all of them.
    let engine = &engines[(seed / 3 % shards) as usize];
    match seed % 3 {
        0 => engine.fail_sync(1 + random.below(40)),
        1 => engine.fail_apply(1 + random.below(40)),
        _ => {}
    }
    let acknowledged = Acknowledged::default();
    let writers =
        (0..8).map(|writer| tokio::spawn(run_writer(fixture.clone(), writer, seed, acknowledged.clone())));
    if seed % 3 == 2 {
        tokio::time::sleep(std::time::Duration::from_millis(random.below(20))).await;
        engine.fail_sync(1);
    }
    for writer in writers.collect::<Vec<_>>() {
        writer.await.expect("no writer panics");
    }
    let survivors: Vec<Arc<FaultEngine>> =
        engines.iter().map(|engine| Arc::new(engine.crash(random.below(3) as usize))).collect();
    let shards = over(&survivors);
    let report = verify(&shards).await.expect("readable");
    assert_eq!(report.problem_count(), 0, "seed {seed}: {report:?}");
    let fixture = Fixture::over(shards).await;
    check_acknowledged(&fixture, &acknowledged, seed).await;
}

async fn check_acknowledged(fixture: &Fixture, acknowledged: &Acknowledged, seed: u64) {
    let container = fixture.account.container("db", "c").expect("there");
    let ctx = fixture.ctx();
    let feed =
        fixture.account.read_feed(&ctx, &container, FeedScope::All, Some(-1), None).await.expect("a page");
    let mut stored = BTreeMap::new();
    for item in &feed.items {
        let item = json(item);
        let text = |name: &str| item[name].as_str().expect("text").to_owned();
        stored.insert((text("pk"), text("id")), item["v"].as_u64().expect("a number"));
    }
    let acknowledged = acknowledged.lock().expect("no holder panics").clone();
    for ((pk, id), value) in &acknowledged {
        let found = stored.get(&(pk.clone(), id.clone())).copied();
        // A write that was not acknowledged may still have reached the disk, but then it is a later one.
        match value {
            Some(value) => {
                let later_or_deleted = found.is_none_or(|found| found >= *value);
                assert!(later_or_deleted, "seed {seed}: {pk}/{id} went back from {value} to {found:?}");
            }
            None => assert!(found.is_none_or(|found| found > 0), "seed {seed}"),
        }
    }
    for ((pk, id), value) in &stored {
        if id == "left" {
            assert_eq!(
                stored.get(&(pk.clone(), "right".into())),
                Some(value),
                "seed {seed}: half a batch in {pk}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_and_nothing_stored_contradicts_itself() {
    for seed in 0..24 {
        crash_once(1, seed).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_on_every_one_of_two_shards() {
    for seed in 0..24 {
        crash_once(2, seed).await;
    }
}

#[tokio::test]
async fn dropped_containers_leave_nothing_behind_even_after_a_crash() {
    let engine = Arc::new(FaultEngine::new());
    let fixture = Fixture::over(shard_over(engine.clone())).await;
    let c = fixture.container(400).await;
    let (account, ctx) = (&fixture.account, fixture.ctx());
    for n in 0..50 {
        let body = format!(r#"{{"id":"{n}","pk":"a"}}"#);
        account.create_item(&ctx, &c, None, body.as_bytes()).await.expect("created");
    }
    account.delete_container(&ctx, "db", "c", &none()).await.expect("deleted");
    let late =
        account.create_item(&ctx, &c, None, br#"{"id":"late","pk":"a"}"#).await.expect_err("it is gone");
    assert_eq!(late.kind(), ErrorKind::OwnerNotFound);
    // The crash may come before the background deletion has run; the next start resumes it.
    let reopened = Fixture::over(shard_over(Arc::new(engine.crash(0)))).await;
    reopened.account.container("db", "c").expect_err("still gone");
    let recreated = reopened.container(400).await;
    assert_ne!(recreated.rid_text(), c.rid_text());
    assert_eq!(recreated.usage().items, 0);
}
