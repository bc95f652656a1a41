//! The power fails at every step of every kind of relocation, and at random, under clients. The next life
//! finds the old ranges or the new ones, completes interrupted work, and has all acknowledged writes.
//!
//! The engine loses everything that was not synced. Its next sync fails, which stops all writers,
//! and the account is opened again over the data that a restart would find.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use shardlake_account::{RelocationHooks, RelocationKind, RelocationStep, Shards, SplitAt};
use shardlake_stdx::Random;
use shardlake_storage::fault::FaultEngine;
use shardlake_storage::{Durability, Shard, ShardOptions};
use shardlake_testkit::expects_log;
use shardlake_testkit::history::{Verdict, check};

use super::feeds::Past;
use super::world::{Notebooks, Weather, World};
use super::{blow, check_store, look_at_everything};
use crate::support::eventually;

/// Two shards that forget.
struct Disks([Arc<FaultEngine>; 2]);

impl Disks {
    /// Each test makes them fail.
    fn new() -> Disks {
        expects_log("(injected)");
        expects_log("it is unknown whether the last change was stored");
        Disks([Arc::new(FaultEngine::new()), Arc::new(FaultEngine::new())])
    }

    fn shards(&self) -> Shards {
        self.shards_with(Durability::Sync)
    }

    fn shards_with(&self, durability: Durability) -> Shards {
        let options = ShardOptions { durability, ..ShardOptions::memory() };
        let open = |engine: &Arc<FaultEngine>| Shard::with_engine(engine.clone(), &options).expect("opens");
        self.0.iter().map(open).collect::<Vec<_>>().into()
    }

    /// Nothing becomes durable any more.
    fn cut(engines: &[Arc<FaultEngine>; 2]) {
        engines.iter().for_each(|engine| engine.fail_sync(1));
    }

    /// Data that a restart finds: some unsynced writes may have reached the disk.
    async fn after_power_cut(&self, world: Arc<World>, random: &Random) -> Disks {
        self.after_power_cut_with(world, [0, 1].map(|_| random.below(3) as usize)).await
    }

    /// As [`Self::after_power_cut`], with the number of unsynced writes that survive on each disk.
    async fn after_power_cut_with(&self, world: Arc<World>, lucky: [usize; 2]) -> Disks {
        Disks::cut(&self.0);
        // Background work must have stopped, or it would continue between the looks at the two disks.
        world.account.close().await.expect_err("the power is off");
        Disks([0, 1].map(|at| Arc::new(self.0[at].crash(lucky[at]))))
    }
}

/// The weather in which relocations happen only when the test asks.
fn weather(seed: u64) -> Weather {
    let calm = Weather { seed, motions: false, crashes: true, throughput: 400, ..Weather::default() };
    Weather { clients: 4, operations: 300, drains: 1, readers: 1, ..calm }
}

/// Cuts the power after a step of a relocation of a kind, and returns the problems afterwards.
async fn crash_at(kind: RelocationKind, step: RelocationStep, seed: u64) -> Vec<String> {
    let disks = Disks::new();
    let (is_armed, is_cut) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let goes_on = {
        let (is_armed, is_cut, engines) = (is_armed.clone(), is_cut.clone(), disks.0.clone());
        move |ended: RelocationStep| {
            let is_hit = is_armed.load(Ordering::Acquire) && ended == step;
            if is_hit {
                Disks::cut(&engines);
                is_cut.store(true, Ordering::Release);
            }
            !is_hit
        }
    };
    expects_log(&format!("stopped after '{}'", step.name()));
    let hooks = RelocationHooks { goes_on: Some(Arc::new(goes_on)), bug: None };
    let weather = Weather { hooks, is_cut, ..weather(seed) };
    let world = World::open(disks.shards(), weather.clone()).await;
    world.populate().await;
    world.introduce().await;
    let container = world.container();
    let split = world.account.maintenance().split(&container, 0, SplitAt::Middle).await.expect("begins");
    split.finished().await.expect("ends");
    let before = ranges_of(&world);
    let mover = {
        let world = world.clone();
        async move {
            while world.notebooks.recorder.calls().len() < 60 {
                tokio::task::yield_now().await;
            }
            is_armed.store(true, Ordering::Release);
            let ticket = match kind {
                RelocationKind::Split => {
                    world.account.maintenance().split(&container, 1, SplitAt::Middle).await
                }
                RelocationKind::Merge => world.account.maintenance().merge(&container, &[1, 2]).await,
                RelocationKind::Move => world.account.maintenance().move_partition(&container, 1, 1).await,
            };
            let outcome = ticket.expect("begins").finished().await;
            assert!(outcome.is_err(), "it was stopped");
        }
    };
    tokio::join!(blow(&world), mover);
    let mut problems = world.problems();
    let notebooks = world.notebooks.clone();
    let disks = disks.after_power_cut(world, &Random::seeded(seed)).await;
    problems.extend(check_store(&disks.shards()).await);
    let after = match kind {
        RelocationKind::Split => vec![3, 4, 2],
        RelocationKind::Merge => vec![3],
        RelocationKind::Move => before.clone(),
    };
    problems.extend(live_on(disks, &weather, notebooks, &[before, after]).await);
    problems
}

/// Another life, in which interrupted work is completed; and a storm in it.
async fn live_on(
    disks: Disks,
    weather: &Weather,
    notebooks: Notebooks,
    possible: &[Vec<u32>],
) -> Vec<String> {
    let weather = Weather {
        hooks: RelocationHooks::default(),
        is_cut: Arc::default(),
        crashes: true,
        motions: false,
        ..weather.clone()
    };
    let shards = disks.shards();
    let world = World::over(shards.clone(), weather, notebooks.clone()).await;
    let found = ranges_of(&world);
    if !possible.is_empty() && !possible.contains(&found) {
        world.problem(format!("the ranges are {found:?}, neither of {possible:?}"));
    }
    look_at_everything(&world).await;
    blow(&world).await;
    // Interrupted work is completed by itself.
    eventually("the end of a relocation", async || world.container().relocation().is_none()).await;
    look_at_everything(&world).await;
    let mut problems = world.problems();
    world.account.close().await.expect("closes");
    drop(world);
    problems.extend(check_store(&shards).await);
    match check(&notebooks.recorder.calls()) {
        Verdict::Possible { .. } => {}
        Verdict::Impossible { report } => problems.push(report),
        Verdict::Undecided { report } => problems.push(format!("given up: {report}")),
    }
    problems
}

fn ranges_of(world: &World) -> Vec<u32> {
    world.container().partition_key_ranges().iter().map(|range| range.id).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_after_any_step_leaves_the_old_ranges_or_the_new() {
    for seed in super::seeds(2) {
        for kind in [RelocationKind::Split, RelocationKind::Merge, RelocationKind::Move] {
            for step in RelocationStep::ALL {
                let problems = crash_at(kind, step, seed).await;
                assert!(
                    problems.is_empty(),
                    "SHARDLAKE_SEED={seed}, {kind:?} stopped after {step:?}:\n{}",
                    problems.join("\n")
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_at_random_while_partitions_move_loses_nothing() {
    for seed in super::seeds(12) {
        let past = [Past::Usual, Past::Kept, Past::Compacted][seed as usize % 3];
        let random = Random::seeded(seed ^ 0xC4A5);
        let disks = Disks::new();
        let weather = Weather { motions: true, operations: 1500, moves: 12, past, ..weather(seed) };
        let world = World::open(disks.shards(), weather.clone()).await;
        world.populate().await;
        world.introduce().await;
        let (at, is_write, count) = (random.below(2), random.below(2) == 0, 1 + random.below(300));
        let engine = &disks.0[at as usize];
        if is_write {
            engine.fail_apply(count)
        } else {
            engine.fail_sync(count)
        }
        println!("seed {seed}: disk {at} fails at {} {count}", if is_write { "write" } else { "sync" });
        blow(&world).await;
        let at_work = world.container().relocation();
        println!("seed {seed}: {:?}, ranges {:?}, at work: {at_work:?}", world.counts, ranges_of(&world));
        let mut problems = world.problems();
        let notebooks = world.notebooks.clone();
        let disks = disks.after_power_cut(world, &random).await;
        problems.extend(check_store(&disks.shards()).await);
        problems.extend(live_on(disks, &weather, notebooks, &[]).await);
        assert!(problems.is_empty(), "SHARDLAKE_SEED={seed}:\n{}", problems.join("\n"));
    }
}

/// Without a sync before each answer, the last acknowledged writes may be lost (`crash_async.rs`),
/// but no awaited ones, whatever moved meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_waited_for_outlives_a_power_cut_when_syncs_come_later() {
    for seed in super::seeds(2) {
        let past = [Past::Usual, Past::Kept, Past::Compacted][seed as usize % 3];
        let disks = Disks::new();
        let shards = disks.shards_with(Durability::Async);
        let weather = Weather { motions: true, operations: 800, moves: 8, past, ..weather(seed) };
        let world = World::open(shards.clone(), weather.clone()).await;
        world.populate().await;
        world.introduce().await;
        blow(&world).await;
        let mut problems = world.problems();
        for shard in shards.iter() {
            shard.wait_durable(shard.applied()).await.expect("synced");
        }
        let notebooks = world.notebooks.clone();
        let disks = disks.after_power_cut_with(world, [0, 0]).await;
        problems.extend(check_store(&disks.shards()).await);
        problems.extend(live_on(disks, &weather, notebooks, &[]).await);
        assert!(problems.is_empty(), "SHARDLAKE_SEED={seed}:\n{}", problems.join("\n"));
    }
}

/// The catalog's disk fails when a cutover is to be published, and the change is stored all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_acknowledges_nothing_once_its_end_is_in_doubt() {
    let disks = Disks::new();
    let is_armed = Arc::<AtomicBool>::default();
    let goes_on = {
        let (is_armed, engine) = (is_armed.clone(), disks.0[0].clone());
        move |ended: RelocationStep| {
            if is_armed.load(Ordering::Acquire) && ended == RelocationStep::Fenced {
                engine.fail_sync(1);
            }
            true
        }
    };
    let hooks = RelocationHooks { goes_on: Some(Arc::new(goes_on)), bug: None };
    let weather = Weather { hooks, ..weather(7) };
    let world = World::open(disks.shards(), weather.clone()).await;
    world.populate().await;
    world.introduce().await;
    let container = world.container();
    // Its shard continues to work when the catalog's fails.
    let there = world.account.maintenance().move_partition(&container, 0, 1).await.expect("begins");
    there.finished().await.expect("ends");
    let mover = {
        let world = world.clone();
        async move {
            is_armed.store(true, Ordering::Release);
            let back = world.account.maintenance().move_partition(&container, 0, 0).await.expect("begins");
            back.finished().await.expect_err("it cannot be published");
        }
    };
    tokio::join!(blow(&world), mover);
    let mut problems = world.problems();
    let notebooks = world.notebooks.clone();
    let disks = disks.after_power_cut_with(world, [10, 0]).await;
    problems.extend(check_store(&disks.shards()).await);
    problems.extend(live_on(disks, &weather, notebooks, &[vec![0]]).await);
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
