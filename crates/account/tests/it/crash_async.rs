//! Exact losses of a power cut with `Durability::Async` on several shards: of each logical partition the last
//! acknowledged transactions, without a gap, and none of those that `wait_durable` promised. Partitions
//! split, merge and move from shard to shard meanwhile, and no cut may undo these catalog changes.
//!
//! Every transaction also writes its number into the item `clock` of its logical partition, so that
//! the state after a cut shows how far it goes, and there is one possible state for each number.

use crate::support::json_door::{BatchKind, BatchOperation, JsonDoor, KeyInput};
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::support::{Fixture, json, none};
use shardlake_account::{FeedScope, Shards, SplitAt, verify};
use shardlake_model::{ErrorKind, Preconditions};
use shardlake_stdx::Random;
use shardlake_storage::fault::FaultEngine;
use shardlake_storage::{Durability, Shard, ShardOptions};
use shardlake_testkit::expects_log;

const WRITERS: u64 = 6;
const STEPS: u64 = 60;

type Engines = Vec<Arc<FaultEngine>>;
/// The items of a logical partition, by id.
type State = BTreeMap<String, u64>;

/// History of one logical partition.
#[derive(Debug)]
struct History {
    /// After each transaction; the first is the state before all of them. The last may be of a refused one.
    states: Vec<State>,
    acknowledged: usize,
    promised: usize,
}

fn over(engines: &Engines) -> Shards {
    let options = ShardOptions { durability: Durability::Async, ..ShardOptions::memory() };
    let open = |engine: &Arc<FaultEngine>| {
        engine.let_writers_lead();
        Shard::with_engine(engine.clone(), &options).expect("opens")
    };
    engines.iter().map(open).collect::<Vec<_>>().into()
}

fn engines(count: usize) -> Engines {
    (0..count).map(|_| Arc::new(FaultEngine::new())).collect()
}

async fn settle(shards: &Shards) -> bool {
    for shard in shards.iter() {
        if shard.wait_durable(shard.applied()).await.is_err() {
            return false;
        }
    }
    true
}

fn operation(kind: BatchKind, pk: &str, id: &str, value: u64) -> BatchOperation {
    let body = (kind == BatchKind::Upsert)
        .then(|| format!(r#"{{"id":"{id}","pk":"{pk}","v":{value}}}"#).into_bytes());
    let (patch, partition_key) = (None, None);
    BatchOperation {
        kind,
        id: Some(id.to_owned()),
        body,
        patch,
        partition_key,
        preconditions: Preconditions::default(),
    }
}

/// The next transaction, and the state after it.
fn next(state: &State, pk: &str, random: &Random) -> (Vec<BatchOperation>, State) {
    let mut state = state.clone();
    let number = state.get("clock").copied().unwrap_or(0) + 1;
    let mut operations = vec![operation(BatchKind::Upsert, pk, "clock", number)];
    state.insert("clock".to_owned(), number);
    let id = random.below(4).to_string();
    if state.contains_key(&id) && random.below(3) == 0 {
        state.remove(&id);
        operations.push(operation(BatchKind::Delete, pk, &id, 0));
    } else {
        state.insert(id.clone(), number);
        operations.push(operation(BatchKind::Upsert, pk, &id, number));
    }
    (operations, state)
}

async fn run_writer(fixture: Arc<Fixture>, shards: Shards, writer: u64, seed: u64) -> (String, History) {
    let random = Random::seeded(seed * 1000 + writer);
    let container = fixture.account.router().container("db", "c").expect("there");
    let pk = format!("w{writer}");
    let key_text = format!("[\"{pk}\"]");
    let mut history = History { states: vec![State::new()], acknowledged: 0, promised: 0 };
    for _ in 0..STEPS {
        let (operations, state) = next(&history.states[history.acknowledged], &pk, &random);
        let reply =
            fixture.account.json_batch(&fixture.ctx(), &container, KeyInput(&key_text), operations).await;
        history.states.push(state);
        match reply.and_then(|reply| reply.outcome.map_err(|failure| failure.error)) {
            Ok(_) => history.acknowledged += 1,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
                break;
            }
        }
        if random.below(20) == 0 && settle(&shards).await {
            history.promised = history.acknowledged;
        }
    }
    (pk, history)
}

/// Moves partitions about until a disk fails or everything was done.
async fn run_motions(fixture: Arc<Fixture>, seed: u64) {
    let random = Random::seeded(seed ^ 0x51DE);
    let container = fixture.account.router().container("db", "c").expect("there");
    for _ in 0..6 {
        let ids: Vec<u32> = container.partition_key_ranges().iter().map(|range| range.id).collect();
        let id = ids[random.below(ids.len() as u64) as usize];
        let ticket = match random.below(3) {
            0 => fixture.account.maintenance().split(&container, id, SplitAt::Middle).await,
            1 => fixture.account.maintenance().merge(&container, &ids[..2]).await,
            _ => fixture.account.maintenance().move_partition(&container, id, random.below(2) as u16).await,
        };
        if let Ok(ticket) = ticket {
            let _ = ticket.finished().await;
        }
    }
}

/// Returns the number of acknowledged transactions that the cut lost.
async fn crash_once(shards: usize, seed: u64) -> usize {
    let random = Random::seeded(seed);
    let engines = engines(shards);
    expects_log("(injected)");
    expects_log("it is unknown whether the last change was stored");
    let opened = over(&engines);
    let fixture = Arc::new(Fixture::over(opened.clone()).await);
    fixture.container(12_000).await;
    // Every third seed: the power fails when all writers have finished, before the last sync.
    if !seed.is_multiple_of(3) {
        engines[(seed % shards as u64) as usize].fail_sync(1 + random.below(12));
    }
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| tokio::spawn(run_writer(fixture.clone(), opened.clone(), writer, seed)))
        .collect();
    let motions = (shards > 1).then(|| tokio::spawn(run_motions(fixture.clone(), seed)));
    let mut histories = BTreeMap::new();
    for writer in writers {
        let (pk, history) = writer.await.expect("no writer panics");
        histories.insert(pk, history);
    }
    if let Some(motions) = motions {
        motions.await.expect("no panic");
    }
    engines.iter().for_each(|engine| engine.fail_sync(1));
    // Background work must have stopped, or it would continue between the looks at the disks.
    fixture.account.close().await.expect_err("the power is off");
    let survivors: Engines =
        engines.iter().map(|engine| Arc::new(engine.crash(random.below(12) as usize))).collect();
    let opened = over(&survivors);
    let report = verify(&opened).await.expect("readable");
    assert_eq!(report.problem_count(), 0, "seed {seed}: {report:?}");
    check(&Fixture::over(opened).await, &histories, seed).await
}

async fn check(fixture: &Fixture, histories: &BTreeMap<String, History>, seed: u64) -> usize {
    let container = fixture.account.router().container("db", "c").expect("there");
    let feed =
        fixture.account.items().read_feed(&fixture.ctx(), &container, FeedScope::All, Some(-1), None).await;
    let mut found: BTreeMap<String, State> = BTreeMap::new();
    for item in &feed.expect("a page").items {
        let item = json(item);
        let text = |name: &str| item[name].as_str().expect("text").to_owned();
        found.entry(text("pk")).or_default().insert(text("id"), item["v"].as_u64().expect("a number"));
    }
    let mut lost = 0;
    for (pk, history) in histories {
        let state = found.remove(pk).unwrap_or_default();
        let reached = state.get("clock").copied().unwrap_or(0) as usize;
        assert!(reached >= history.promised, "seed {seed}: {pk} was promised {history:?}, has {reached}");
        assert_eq!(history.states.get(reached), Some(&state), "seed {seed}: {pk} after {reached}");
        lost += history.acknowledged.saturating_sub(reached);
    }
    assert!(found.is_empty(), "seed {seed}: nobody wrote {found:?}");
    lost
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn power_cut_takes_only_the_end_of_what_one_shard_acknowledged() {
    let mut lost = 0;
    for seed in 0..12 {
        lost += crash_once(1, seed).await;
    }
    assert!(lost > 0, "the cuts came too late to show anything");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn power_cut_takes_only_the_end_of_what_each_of_two_shards_acknowledged() {
    let mut lost = 0;
    for seed in 0..24 {
        lost += crash_once(2, seed).await;
    }
    assert!(lost > 0, "the cuts came too late to show anything");
}

/// No other client writes: every step must wait for its own syncs.
#[tokio::test]
async fn every_change_of_the_catalog_ends_for_a_lone_client_of_two_shards() {
    let opened = over(&engines(2));
    let fixture = Fixture::over(opened.clone()).await;
    let container = fixture.container(400).await;
    let (account, ctx) = (&fixture.account, fixture.ctx());
    for number in 0..20 {
        let body = format!(r#"{{"id":"{number}","pk":"{number}"}}"#);
        account.create_item(&ctx, &container, None, body.as_bytes()).await.expect("created");
    }
    let split = account.maintenance().split(&container, 0, SplitAt::Middle).await.expect("begins");
    split.finished().await.expect("ends");
    let moved = account.maintenance().move_partition(&container, 1, 1).await.expect("begins");
    moved.finished().await.expect("ends");
    let merged = account.maintenance().merge(&container, &[1, 2]).await.expect("begins");
    merged.finished().await.expect("ends");
    account.definitions().create_database(&ctx, "other", None).await.expect("created");
    account.definitions().delete_database(&ctx, "other", &none()).await.expect("deleted");
    let feed = account.items().read_feed(&ctx, &container, FeedScope::All, Some(-1), None).await;
    assert_eq!(feed.expect("a page").items.len(), 20);
    account.close().await.expect("closes");
    assert_eq!(verify(&opened).await.expect("readable").problem_count(), 0);
}
