//! Compacts the change logs of partitions in the background: looks every second for logs that have grown
//! enough, and compacts them step by step, round robin.
//!
//! One task per account, which holds it weakly. After each step it rests for the time that the shards' pacer
//! sets (`crates/storage/src/background_pace.rs`), so that work for clients has priority. Sources of a
//! relocation are not compacted as soon as the catalog names them: the targets follow their logs, also after
//! a restart in the middle.

use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;
use shardlake_model::{ContainerRid, ErrorKind, Result};
use shardlake_partition::{Compaction, CompactionStep, PartitionUid};

use crate::{Held, Upkeep, log_holds};
use shardlake_router::{ContainerEntry, PartitionHandle};

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Divisor of the task's share of the time: no client waits for it.
const PATIENCE: u32 = 4;
const REST_MAX: Duration = Duration::from_secs(1);
const RETRY_AFTER: Duration = Duration::from_secs(30);

pub(crate) fn start(upkeep: &Upkeep) {
    let held = Held::of(upkeep);
    tokio::spawn(async move {
        let mut running: FxHashMap<PartitionUid, Compaction> = FxHashMap::default();
        let mut resting: FxHashMap<PartitionUid, Duration> = FxHashMap::default();
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            loop {
                let Some(upkeep) = held.upkeep() else { return };
                let mut due = upkeep.logs_due();
                running.retain(|uid, _| due.iter().any(|(_, partition)| partition.uid() == *uid));
                let now = upkeep.router().clock().elapsed();
                resting.retain(|_, until| *until > now);
                drop(upkeep);
                let mut has_gone_on = false;
                let mut work = None;
                due.retain(|(_, partition)| !resting.contains_key(&partition.uid()));
                for (rid, partition) in &due {
                    let Some(upkeep) = held.upkeep() else { return };
                    let work = work.get_or_insert_with(|| upkeep.0.router.stores().paced_work(PATIENCE));
                    let started = upkeep.router().clock().elapsed();
                    let step = upkeep
                        .compact_step(*rid, partition, running.entry(partition.uid()).or_default())
                        .await;
                    match step {
                        Ok(CompactionStep::Went { .. }) => has_gone_on = true,
                        Ok(CompactionStep::Idle) => {}
                        Ok(CompactionStep::Overloaded) => {
                            resting.insert(partition.uid(), started + REST_MAX);
                        }
                        Err(error) => {
                            upkeep.note_compaction_failure(partition, &error);
                            resting.insert(partition.uid(), started + RETRY_AFTER);
                        }
                    }
                    drop(upkeep);
                    work.pause().await;
                }
                if !has_gone_on {
                    break;
                }
            }
        }
    });
}

impl Upkeep {
    /// Compacts every change log as far as possible now. The server does so by itself, a little at a time.
    pub async fn compact_change_logs(&self) -> Result<u64> {
        let mut removed_total = 0;
        for (rid, partition) in self.logs_due() {
            let mut compaction = Compaction::default();
            loop {
                match self.compact_step(rid, &partition, &mut compaction).await? {
                    CompactionStep::Went { removed } => removed_total += removed as u64,
                    CompactionStep::Idle => break,
                    // Storage accepts more when its queue is written.
                    CompactionStep::Overloaded => {}
                }
                tokio::task::yield_now().await;
            }
        }
        Ok(removed_total)
    }

    /// Stores the holds of followers on change logs now. The server does so by itself, each ten seconds.
    pub async fn store_log_holds(&self) -> Result<()> {
        log_holds::store(self).await
    }

    /// Partitions with change logs that may need compaction.
    fn logs_due(&self) -> Vec<(ContainerRid, PartitionHandle)> {
        let now = self.router().clock().now();
        let catalog = self.0.router.catalog().load();
        let entries = catalog.containers();
        let of_entry = |entry: &Arc<ContainerEntry>| {
            let is_due = |partition: &&PartitionHandle| {
                partition.hosted().partition().compaction_due(self.router().limits(), now)
            };
            let due: Vec<_> = entry.map.iter().filter(is_due).cloned().collect();
            let rid = entry.record.container.rid;
            due.into_iter().map(move |partition| (rid, partition))
        };
        entries.filter(|entry| entry.record.relocation.is_none()).flat_map(of_entry).collect()
    }

    /// One step, unless the partition is being relocated at that time. A relocation that begins later copies
    /// the log as the step leaves it.
    async fn compact_step(
        &self,
        rid: ContainerRid,
        partition: &PartitionHandle,
        compaction: &mut Compaction,
    ) -> Result<CompactionStep> {
        let is_moving =
            self.router().entry_of_rid(rid).map_or(true, |entry| entry.record.relocation.is_some());
        if is_moving {
            return Ok(CompactionStep::Idle);
        }
        partition
            .hosted()
            .partition()
            .compact(compaction, self.router().limits(), self.router().clock().now())
            .await
    }

    fn note_compaction_failure(&self, partition: &PartitionHandle, error: &shardlake_model::Error) {
        let has_ended = matches!(error.kind(), ErrorKind::PartitionGone | ErrorKind::OwnerNotFound);
        if !has_ended && !self.router().is_closing() {
            tracing::warn!(partition = partition.uid().0, %error, "compacting a change log stopped");
        }
    }
}
