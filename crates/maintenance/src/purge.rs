//! Removes expired items in the background: looks every second for partitions with items that may have
//! expired, and sweeps those step by step, round robin.
//!
//! One task per account, which holds it weakly. After each step it rests for the time that the shards' pacer
//! sets (`crates/storage/src/background_pace.rs`): the more the step slows clients, the longer. A partition
//! that has spent its request units is scanned at that pace, and only one removal a second is made in it.
//! Nothing is charged, except in serverless accounts, where a removal costs as much as a delete. Partitions
//! that are being relocated are not swept; their successors are.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;
use shardlake_capacity::budget::{Reservation, Urgency};
use shardlake_model::{ErrorKind, Result};
use shardlake_partition::{PartitionUid, Sweep, SweepStep};

use crate::{Held, Upkeep};
use shardlake_router::CapacityMode;
use shardlake_router::ContainerHandle;
use shardlake_router::{ContainerEntry, PartitionHandle};

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Wait where a partition has no request units left, and where a shard does not accept deferrable work.
const WAIT_FOR_UNITS: Duration = Duration::from_millis(10);
const WAIT_FOR_ROOM: Duration = Duration::from_secs(1);
/// Rest between two sweeps of a partition, as a multiple of the last sweep's duration: with steady writes a
/// partition is always due.
const REST_AFTER_SWEEP: u32 = 10;
/// Rows of one commit where a caller waits for the end.
const ROWS_WHEN_ASKED: usize = 1024;
const RETRY_AFTER: Duration = Duration::from_secs(30);
/// How often an item is removed from a partition that has no request units.
const PATIENCE: Duration = Duration::from_secs(1);

/// A partition that is being swept.
struct Running {
    entry: Arc<ContainerEntry>,
    partition: PartitionHandle,
    sweep: Sweep,
    began: Duration,
    /// Time of the last removal.
    removed: Duration,
}

/// End of one partition's time slice.
enum Turn {
    /// It did nothing: there are no request units for it.
    Passed,
    Stepped(SweepStep),
}

#[derive(Default)]
struct Purge {
    running: VecDeque<Running>,
    /// Partitions with the earliest time of their next sweep.
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
            let mut work = (!purge.running.is_empty()).then(|| upkeep.0.router.stores().paced_work(1));
            drop(upkeep);
            // Partitions that become due meanwhile are swept a second after the last of these.
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
        let now = upkeep.router().clock().elapsed();
        self.resting.retain(|_, until| *until > now);
        let catalog = upkeep.0.router.catalog().load_full();
        for entry in catalog.containers() {
            if entry.record.relocation.is_some() {
                continue;
            }
            for partition in upkeep.due_partitions(entry) {
                if self.resting.contains_key(&partition.uid()) {
                    continue;
                }
                match partition.hosted().partition().begin_sweep().await {
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

    /// Gives the next partition its time slice, which may remove up to `rows_max` rows. Returns a wait where
    /// there is a reason for one other than the pace.
    async fn step(&mut self, upkeep: &Upkeep, rows_max: usize) -> Option<Duration> {
        let mut running = self.running.pop_front()?;
        let started = upkeep.router().clock().elapsed();
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
            // The next sweep uses the new definition.
            Ok(Turn::Stepped(SweepStep::Superseded)) => None,
            Ok(Turn::Stepped(SweepStep::Complete)) => {
                let now = upkeep.router().clock().elapsed();
                let took = now.saturating_sub(running.began);
                self.resting.insert(running.partition.uid(), now + took * REST_AFTER_SWEEP);
                None
            }
            Err(error) => {
                self.give_up(upkeep, &running.partition, &error);
                None
            }
        }
    }

    fn give_up(&mut self, upkeep: &Upkeep, partition: &PartitionHandle, error: &shardlake_model::Error) {
        let has_ended = matches!(error.kind(), ErrorKind::PartitionGone | ErrorKind::OwnerNotFound);
        if has_ended || upkeep.router().is_closing() {
            return;
        }
        self.resting.insert(partition.uid(), upkeep.router().clock().elapsed() + RETRY_AFTER);
        tracing::warn!(partition = partition.uid().0, %error, "removing items whose time has run out stopped");
    }
}

impl Upkeep {
    /// The partitions of a container with items that may have expired.
    fn due_partitions(&self, entry: &ContainerEntry) -> Vec<PartitionHandle> {
        let now = self.router().clock().now().seconds();
        let is_due = |partition: &&PartitionHandle| {
            partition.hosted().partition().expiry_due(entry.shape.default_ttl).is_some_and(|due| due <= now)
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
        let step = partition
            .hosted()
            .partition()
            .sweep_step(&entry.shape, self.router().clock().now(), sweep, rows_max)
            .await?;
        if let (Some(reservation), SweepStep::Went { charge_centi, .. }) = (reservation, step) {
            reservation.settle(charge_centi);
        }
        Ok(Turn::Stepped(step))
    }

    /// Whether request units are left for purging, with the budget to charge where purging is charged.
    fn leave_to_purge(
        &self,
        entry: &ContainerEntry,
        partition: &PartitionHandle,
        waited: Duration,
    ) -> Option<Option<Reservation>> {
        let now = self.router().clock().elapsed();
        if self.0.router.throughput_rules().capacity == CapacityMode::Serverless {
            return entry.budget.admit(partition.range_id(), Urgency::Low, || now).ok();
        }
        let reports = entry.budget.report(now);
        let own = reports.iter().find(|(range_id, _)| *range_id == partition.range_id());
        let is_left = own.is_none_or(|(_, report)| report.level_centi > 0);
        (is_left || waited >= PATIENCE).then_some(None)
    }

    /// Removes the expired items of a container now and without rest. Returns the number of items removed.
    /// For tests and tools: clients never see expired items.
    pub async fn purge_expired(&self, container: &ContainerHandle) -> Result<u64> {
        let entry = self.router().current_entry(&container.entry)?;
        let mut items = 0;
        for partition in self.due_partitions(&entry) {
            let mut sweep = partition.hosted().partition().begin_sweep().await?;
            loop {
                match partition
                    .hosted()
                    .partition()
                    .sweep_step(&entry.shape, self.router().clock().now(), &mut sweep, ROWS_WHEN_ASKED)
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
