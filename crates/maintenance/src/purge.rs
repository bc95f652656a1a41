//! Removes what has outlived its time to live, in the background: looks every second which partitions know of items that may
//! have run out, and sweeps those, a step of each in turn.
//!
//! One task per account, which holds it weakly. After each step it rests as the pacer of the shards says
//! (`crates/storage/src/background_pace.rs`): the more clients feel of it, the longer. A partition that has spent its request units is looked through
//! at that pace, and left alone but for one removal a second; nothing is charged, except in serverless accounts, where it costs what
//! deletes cost. Partitions on their way elsewhere are not swept; those that take their place are.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;
use shardlake_capacity::budget::{Reservation, Urgency};
use shardlake_model::{ErrorKind, Result};
use shardlake_partition::{Partition, PartitionUid, Sweep, SweepStep};

use crate::{Held, Upkeep};
use shardlake_router::CapacityMode;
use shardlake_router::ContainerEntry;
use shardlake_router::ContainerHandle;

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long to wait where a partition has no request units left, and where a shard has no room for work that can wait.
const WAIT_FOR_UNITS: Duration = Duration::from_millis(10);
const WAIT_FOR_ROOM: Duration = Duration::from_secs(1);
/// Rest between two sweeps of a partition, as a multiple of what the last one took: writes let it be due all the time.
const REST_AFTER_SWEEP: u32 = 10;
/// Rows of one commit where somebody waits for the end.
const ROWS_WHEN_ASKED: usize = 1024;
const RETRY_AFTER: Duration = Duration::from_secs(30);
/// How often something is removed from a partition without request units all the same.
const PATIENCE: Duration = Duration::from_secs(1);

/// A partition that is being swept.
struct Running {
    entry: Arc<ContainerEntry>,
    partition: Arc<Partition>,
    sweep: Sweep,
    began: Duration,
    /// When something of it was removed.
    removed: Duration,
}

/// How a turn of one partition ended.
enum Turn {
    /// It had none: there are no request units for it.
    Passed,
    Stepped(SweepStep),
}

#[derive(Default)]
struct Purge {
    running: VecDeque<Running>,
    /// Partitions whose next sweep is not before a moment.
    resting: FxHashMap<PartitionUid, Duration>,
}

pub(crate) fn start(upkeep: &Upkeep) {
    let held = Held::of(upkeep);
    tokio::spawn(async move {
        let mut purge = Purge::default();
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let Some(upkeep) = held.upkeep() else { return };
            purge.look(&upkeep).await;
            let mut work = (!purge.running.is_empty()).then(|| upkeep.0.shards.paced_work(1));
            drop(upkeep);
            // What becomes due meanwhile has its turn a second after the last of these.
            while let Some(work) = work.as_mut().filter(|_| !purge.running.is_empty()) {
                let Some(upkeep) = held.upkeep() else { return };
                let wait = purge.step(&upkeep, work.rows()).await;
                drop(upkeep);
                match wait {
                    Some(wait) => work.wait(wait).await,
                    None => work.pause().await,
                }
            }
        }
    });
}

impl Purge {
    /// Begins the sweeps that are due.
    async fn look(&mut self, upkeep: &Upkeep) {
        let now = upkeep.clock().elapsed();
        self.resting.retain(|_, until| *until > now);
        let catalog = upkeep.0.catalog.load_full();
        for entry in catalog.containers() {
            if entry.record.relocation.is_some() {
                continue;
            }
            for partition in upkeep.due_partitions(entry) {
                if self.resting.contains_key(&partition.uid) {
                    continue;
                }
                match partition.begin_sweep().await {
                    Ok(sweep) => self.running.push_back(Running {
                        entry: entry.clone(),
                        partition: partition.clone(),
                        sweep,
                        began: now,
                        removed: Duration::ZERO,
                    }),
                    Err(error) => self.give_up(upkeep, &partition, &error),
                }
            }
        }
    }

    /// Gives the next partition its turn, in which it may remove so many rows. Says how long to wait after it where there is a
    /// reason besides the pace.
    async fn step(&mut self, upkeep: &Upkeep, rows_max: usize) -> Option<Duration> {
        let mut running = self.running.pop_front()?;
        let started = upkeep.clock().elapsed();
        match upkeep.turn(&mut running, started, rows_max).await {
            Ok(Turn::Passed) => {
                self.running.push_back(running);
                Some(WAIT_FOR_UNITS)
            }
            Ok(Turn::Stepped(SweepStep::Went { purged, .. })) => {
                if purged > 0 {
                    running.removed = started;
                }
                self.running.push_back(running);
                None
            }
            Ok(Turn::Stepped(SweepStep::Overloaded)) => {
                self.running.push_back(running);
                Some(WAIT_FOR_ROOM)
            }
            // The next look goes by the new definition.
            Ok(Turn::Stepped(SweepStep::Superseded)) => None,
            Ok(Turn::Stepped(SweepStep::Complete)) => {
                let now = upkeep.clock().elapsed();
                let took = now.saturating_sub(running.began);
                self.resting.insert(running.partition.uid, now + took * REST_AFTER_SWEEP);
                None
            }
            Err(error) => {
                self.give_up(upkeep, &running.partition, &error);
                None
            }
        }
    }

    fn give_up(&mut self, upkeep: &Upkeep, partition: &Partition, error: &shardlake_model::Error) {
        let has_ended = matches!(error.kind(), ErrorKind::PartitionGone | ErrorKind::OwnerNotFound);
        if has_ended || upkeep.is_closing() {
            return;
        }
        self.resting.insert(partition.uid, upkeep.clock().elapsed() + RETRY_AFTER);
        tracing::warn!(partition = partition.uid.0, %error, "removing items whose time has run out stopped");
    }
}

impl Upkeep {
    /// The partitions of a container with items whose time may have run out.
    fn due_partitions(&self, entry: &ContainerEntry) -> Vec<Arc<Partition>> {
        let now = self.clock().now().seconds();
        let is_due = |partition: &&Arc<Partition>| {
            partition.expiry_due(entry.shape.default_ttl).is_some_and(|due| due <= now)
        };
        entry.map.iter().filter(is_due).cloned().collect()
    }

    async fn turn(&self, running: &mut Running, now: Duration, rows_max: usize) -> Result<Turn> {
        let Running { entry, partition, sweep, removed, .. } = running;
        partition.check_open()?;
        if entry.motion.state().step.is_some() {
            // The partitions that come of it know nothing, and are swept.
            return Ok(Turn::Stepped(SweepStep::Superseded));
        }
        let Some(reservation) = self.leave_to_purge(entry, partition, now.saturating_sub(*removed)) else {
            return Ok(Turn::Passed);
        };
        let step = partition.sweep_step(&entry.shape, self.clock().now(), sweep, rows_max).await?;
        if let (Some(reservation), SweepStep::Went { charge_centi, .. }) = (reservation, step) {
            reservation.settle(charge_centi);
        }
        Ok(Turn::Stepped(step))
    }

    /// Whether request units are left over, and what is to be paid from where purging is paid for.
    fn leave_to_purge(
        &self,
        entry: &ContainerEntry,
        partition: &Partition,
        waited: Duration,
    ) -> Option<Option<Reservation>> {
        let now = self.clock().elapsed();
        if self.0.throughput.capacity == CapacityMode::Serverless {
            return entry.budget.admit(partition.range_id, Urgency::Low, || now).ok();
        }
        let reports = entry.budget.report(now);
        let own = reports.iter().find(|(range_id, _)| *range_id == partition.range_id);
        let is_left = own.is_none_or(|(_, report)| report.level_centi > 0);
        (is_left || waited >= PATIENCE).then_some(None)
    }

    /// Removes what has run out in a container now and without rest. Gives how many items went. For tests and tools: nobody
    /// sees these items anyway.
    pub async fn purge_expired(&self, container: &ContainerHandle) -> Result<u64> {
        let entry = self.current_entry(&container.entry)?;
        let mut items = 0;
        for partition in self.due_partitions(&entry) {
            let mut sweep = partition.begin_sweep().await?;
            loop {
                match partition
                    .sweep_step(&entry.shape, self.clock().now(), &mut sweep, ROWS_WHEN_ASKED)
                    .await?
                {
                    SweepStep::Went { purged, .. } => items += purged,
                    SweepStep::Overloaded => tokio::time::sleep(WAIT_FOR_UNITS).await,
                    SweepStep::Superseded | SweepStep::Complete => break,
                }
            }
        }
        Ok(items)
    }
}
