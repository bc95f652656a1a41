//! Consistency while partitions move.
//!
//! Clients create, patch, replace, delete and read the same few items, alone and in batches; readers drain
//! queries and feeds; a follower of the change log must meet every commit once; meanwhile partitions are
//! split, merged and moved at random. Every operation on an item is recorded, and afterwards one order of
//! them must explain every answer (`shardlake_testkit::history`). No drained answer may lack a permanent
//! item, or have an item twice. No session may go back, no LSN may be given out twice. At the end everything
//! stored must be consistent, also after opening it again.
//!
//! A failure names its seed, which repeats the choices, though not the schedule. `SHARDLAKE_STORM_SEEDS` sets
//! the number of seeds (more when run by hand), `SHARDLAKE_SEED` the first of them.
#![allow(clippy::disallowed_methods, clippy::print_stdout)] // tests read the environment and report

mod clients;
mod crash;
mod feeds;
mod follower;
mod motion;
mod readers;
mod session;
mod world;

use crate::support::json_door::key_scope;
use std::sync::Arc;

use crate::support::{memory_shards, number_from_environment};
use feeds::Past;
use shardlake_account::{RelocationHooks, SeededBug, Shards, verify};
use shardlake_storage::fault::FaultEngine;
use shardlake_storage::{Durability, Shard, ShardOptions};
use shardlake_testkit::expects_log;
use shardlake_testkit::history::{Reply, SeenItem, Verdict, check};
use world::{LOGICAL, Notebooks, STABLE_ITEMS, Weather, World, logical_name};

/// Storms in which a mistake must show.
const NOTICED_WITHIN: u64 = 10;

/// Runs one storm to its end, and returns all problems.
async fn storm(weather: Weather) -> Vec<String> {
    let shards = shards_for(&weather).await;
    let world = World::open(shards.clone(), weather.clone()).await;
    world.populate().await;
    world.introduce().await;
    blow(&world).await;
    look_at_everything(&world).await;
    let notebooks = world.notebooks.clone();
    let Notebooks { recorder, commits, .. } = &notebooks;
    let mut problems = world.problems();
    println!(
        "seed {}: {} operations, {} commits, {:?}",
        weather.seed,
        recorder.calls().len(),
        commits.len(),
        world.counts
    );
    // From here on nothing is to go wrong that was not wrong before.
    let weather = Weather { hooks: RelocationHooks::default(), ..weather };
    world.account.close().await.expect("closes");
    drop(world);
    problems.extend(check_store(&shards).await);
    // Once more from the stored data. The shards are closed, so the work that a start continues stops.
    expects_log("the shard is closed");
    let again = World::over(shards, weather, notebooks.clone()).await;
    look_at_everything(&again).await;
    problems.extend(again.problems());
    match check(&recorder.calls()) {
        Verdict::Possible { .. } => {}
        Verdict::Impossible { report } => problems.push(report),
        Verdict::Undecided { report } => problems.push(format!("given up: {report}")),
    }
    problems
}

/// Awaited and deferred durability need an engine that distinguishes the two.
async fn shards_for(weather: &Weather) -> Shards {
    if weather.durability == Durability::Memory {
        return memory_shards(weather.shards).await;
    }
    let options = ShardOptions { durability: weather.durability, ..ShardOptions::memory() };
    let open = |_| {
        let engine = FaultEngine::new();
        engine.let_writers_lead();
        Shard::with_engine(Arc::new(engine), &options).expect("opens")
    };
    (0..weather.shards).map(open).collect::<Vec<_>>().into()
}

/// Runs all tasks at once, until each has done its share.
async fn blow(world: &Arc<World>) {
    let clients: Vec<_> =
        (0..world.weather.clients).map(|n| tokio::spawn(clients::run_client(world.clone(), n))).collect();
    let mut others: Vec<_> =
        (0..world.weather.readers).map(|n| tokio::spawn(readers::run_reader(world.clone(), n))).collect();
    others.push(tokio::spawn(motion::run_motions(world.clone())));
    others.push(tokio::spawn(feeds::run_feed_readers(world.clone())));
    // A follower that counts every commit needs all of them.
    if world.weather.past != Past::Compacted {
        others.push(tokio::spawn(follower::run_follower(world.clone())));
    }
    for other in clients.into_iter().chain(others) {
        other.await.expect("nobody panics");
    }
}

/// The final content belongs to the history.
async fn look_at_everything(world: &World) {
    let container = world.container();
    let mut items = 0;
    for number in 0..LOGICAL {
        let logical = logical_name(number);
        let pending = world.notebooks.recorder.asks(u32::MAX, &logical, vec![]);
        let scope = key_scope(format!("[\"{logical}\"]"));
        let page = world.account.items().read_feed(&world.ctx(), &container, scope, Some(-1), None).await;
        let seen: Vec<SeenItem> = page.expect("a page").items.iter().map(clients::seen).collect();
        items += seen.len() as u64;
        pending.answered(Reply::Snapshot(seen));
    }
    let counted = container.usage().items;
    if counted != items + STABLE_ITEMS {
        world.problem(format!("{counted} items are counted, {items} and {STABLE_ITEMS} are there"));
    }
}

async fn check_store(shards: &Shards) -> Vec<String> {
    let report = verify(shards).await.expect("readable");
    let in_partitions = report.partitions.into_iter().flat_map(|partition| partition.report.problems);
    report.problems.into_iter().chain(in_partitions).map(|problem| format!("verify: {problem}")).collect()
}

async fn expect_calm(weather: Weather) {
    let problems = storm(weather.clone()).await;
    assert!(problems.is_empty(), "SHARDLAKE_SEED={} of {weather:?}:\n{}", weather.seed, problems.join("\n"));
}

fn seeds(usual: u64) -> std::ops::Range<u64> {
    let first = number_from_environment("SHARDLAKE_SEED").unwrap_or(0);
    first..first + number_from_environment("SHARDLAKE_STORM_SEEDS").unwrap_or(usual)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_wrong_while_nothing_moves() {
    for seed in seeds(2) {
        expect_calm(Weather { seed, motions: false, ..Weather::default() }).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_wrong_while_partitions_split_merge_and_move() {
    for seed in seeds(6) {
        expect_calm(Weather { seed, ..Weather::default() }).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_wrong_while_partitions_move_and_syncs_come_later() {
    for seed in seeds(1) {
        for past in [Past::Usual, Past::Compacted] {
            let durability = Durability::Async;
            expect_calm(Weather { seed, past, durability, ..Weather::default() }).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_change_feed_tells_everything_while_partitions_move() {
    for seed in seeds(2) {
        for past in [Past::Kept, Past::Compacted] {
            expect_calm(Weather { seed, past, ..Weather::default() }).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_read_is_noticed() {
    let weather = Weather { seed: 1, stale_reads: true, motions: false, ..Weather::default() };
    let problems = storm(weather).await;
    assert!(problems.iter().any(|problem| problem.contains("no order explains")), "{problems:?}");
}

/// Storms with a mistake in the routine, until one is noticed.
async fn expect_noticed(bug: SeededBug) {
    for seed in 0..NOTICED_WITHIN {
        let hooks = RelocationHooks { bug: Some(bug), ..RelocationHooks::default() };
        let problems = storm(Weather { seed, hooks, ..Weather::default() }).await;
        if let Some(problem) = problems.first() {
            println!("{bug:?}, seed {seed}: {problem}");
            return;
        }
    }
    panic!("{bug:?} was not noticed in {NOTICED_WITHIN} storms");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_skipped_batch_of_changes_is_noticed() {
    expect_noticed(SeededBug::SkippedCatchUp).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cutover_without_a_fence_is_noticed() {
    expect_noticed(SeededBug::NoFence).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lsns_that_start_again_are_noticed() {
    // A target that opens finds holes in its log beyond its last LSN.
    expects_log("the stored state contradicts itself");
    expect_noticed(SeededBug::LsnRestarts).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postings_at_the_wrong_partition_are_noticed() {
    expect_noticed(SeededBug::MisroutedPostings).await;
}
