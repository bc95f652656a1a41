//! Carries relocations out: copy, catch up, cut over, publish, clean up; or gives them up.
//!
//! One relocation per container at a time, and none while an index is filled. The work does not belong to the request that
//! asked for it: it goes on when the client has gone, and after a restart.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use shardlake_model::{Error, ErrorKind, Result};
use shardlake_partition::{
    Cutover, Partition, Relocation, RelocationProgress, RelocationTarget, partition_range,
};
use shardlake_routing::PartitionMap;
use shardlake_stdx::lower_thread_priority;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::Account;
use crate::catalog::{Catalog, CatalogBatch, ContainerRecord, Placed, RangeRecord};
use crate::container_handle::ContainerEntry;
use crate::relocation::{RelocationRecord, RelocationReport, RelocationStep, Subject, bounds_of};

/// How long writers may be held before the cutover is put off. Each attempt that is gets twice as long, since a source
/// that is written faster than it can be caught up with would never end.
const FENCE_MAX: Duration = Duration::from_millis(25);
const ATTEMPTS_MAX: u32 = 8;

impl Account {
    pub(crate) fn relocate_in_background(
        &self,
        entry: &ContainerEntry,
    ) -> JoinHandle<Result<RelocationReport>> {
        let (account, subject) = (self.clone(), entry.container.rid);
        tokio::spawn(async move {
            let outcome = Box::pin(account.relocate(subject)).await;
            if let Err(error) = &outcome {
                tracing::warn!(container = %subject, %error, "a relocation stopped");
            }
            outcome
        })
    }

    async fn relocate(&self, subject: Subject) -> Result<RelocationReport> {
        let motion = self.entry_of_rid(subject)?.motion.clone();
        let _turn = motion.topology.lock().await;
        let entry = self.entry_of_rid(subject)?;
        let Some(record) = entry.relocation.clone() else {
            return Err(Error::new(ErrorKind::Conflict, "the relocation was given up before it began"));
        };
        let progress = motion.state().progress.clone();
        let outcome = self.carry_out(&entry, &record, progress).await;
        let told = outcome.as_ref().map(Clone::clone).map_err(ToString::to_string);
        motion.state().last = Some(told);
        self.0.relocations.count(record.kind, &outcome);
        motion.state().step = None;
        if let Err(error) = &outcome
            && !self.is_left_for_the_next_start(error)
        {
            self.give_up(subject, &record).await?;
        }
        self.wake_balance();
        outcome
    }

    /// Storage that refuses writes for good, or is about to be closed, leaves the record as it is. A disk that is full for
    /// the copy alone does not: what was copied is the first to go.
    fn is_left_for_the_next_start(&self, error: &Error) -> bool {
        let is_over = self.0.is_closing.load(Ordering::Acquire) || !self.is_writable();
        error.kind() == ErrorKind::Unavailable && (is_over || self.0.hooks.goes_on.is_some())
    }

    async fn carry_out(
        &self,
        entry: &ContainerEntry,
        record: &RelocationRecord,
        progress: Arc<RelocationProgress>,
    ) -> Result<RelocationReport> {
        let started = self.clock().elapsed();
        let mut relocation = self.relocation_of(entry, record, progress.clone())?;
        self.step(entry, RelocationStep::Planned)?;
        if !relocation.resume().await? {
            for target in &record.targets {
                self.drop_data(target.placed()).await?;
            }
            relocation = copied(relocation).await?;
        }
        self.step(entry, RelocationStep::Copied)?;
        let mut attempts = 0;
        let pause = loop {
            relocation.catch_up().await?;
            self.step(entry, RelocationStep::CaughtUp)?;
            if let Some(pause) = self.cut_over(entry, record, &mut relocation, attempts).await? {
                break pause;
            }
            attempts = (attempts + 1).min(ATTEMPTS_MAX);
        };
        self.step(entry, RelocationStep::Published)?;
        relocation.clean_up().await?;
        self.step(entry, RelocationStep::CleanedUp)?;
        let items = progress.items.load(Ordering::Relaxed);
        let report = RelocationReport {
            kind: record.kind,
            sources: record.sources.clone(),
            targets: record.targets.iter().map(|target| target.range_id).collect(),
            items,
            duration: self.clock().elapsed().saturating_sub(started),
            pause,
            attempts,
        };
        tracing::info!(
            container = %entry.container.rid,
            kind = report.kind.name(),
            sources = ?report.sources,
            targets = ?report.targets,
            items,
            milliseconds = report.duration.as_millis() as u64,
            pause_microseconds = pause.as_micros() as u64,
            "relocated"
        );
        Ok(report)
    }

    fn relocation_of(
        &self,
        entry: &ContainerEntry,
        record: &RelocationRecord,
        progress: Arc<RelocationProgress>,
    ) -> Result<Relocation> {
        let is_source = |partition: &&Arc<Partition>| record.sources.contains(&partition.range_id);
        let sources = entry.map.iter().filter(is_source).cloned().collect();
        let mut targets = Vec::with_capacity(record.targets.len());
        for target in &record.targets {
            let shard = self.0.shards.get(target.shard)?.clone();
            targets.push(RelocationTarget { identity: target.identity(entry.session_version)?, shard });
        }
        let layouts = entry.shape.maintained();
        let mut relocation = Relocation::new(sources, targets, entry.shape.clone(), layouts, progress);
        relocation.bug = self.0.hooks.bug;
        Ok(relocation)
    }

    /// Holds the writers, publishes the new routing, ends the sources; `None` when that would hold them too long.
    async fn cut_over(
        &self,
        entry: &ContainerEntry,
        record: &RelocationRecord,
        relocation: &mut Relocation,
        attempts: u32,
    ) -> Result<Option<Duration>> {
        // Taken first, so that nobody who changes the catalog is waited for while writers are held.
        let _writer = self.0.catalog_writer.lock().await;
        let old = self.current_entry(entry)?;
        let started = self.clock().elapsed();
        let Some(cutover) = relocation.cut_over(self.clock(), FENCE_MAX * (1 << attempts)).await? else {
            return Ok(None);
        };
        self.step(entry, RelocationStep::Fenced)?;
        let mut catalog = Catalog::clone(&self.0.catalog.load());
        let is_kept = |range: &&RangeRecord| !record.sources.contains(&range.range_id);
        let mut ranges: Vec<RangeRecord> = old.ranges.iter().filter(is_kept).cloned().collect();
        ranges.extend(record.targets.iter().cloned());
        let mut batch = CatalogBatch::new();
        let mut dropped = Vec::new();
        for source in old.ranges.iter().filter(|range| !is_kept(range)) {
            batch.drop_range(source.placed());
            dropped.push(source.placed());
        }
        let published = ContainerRecord {
            ranges,
            generation: old.generation + 1,
            relocation: None,
            ..old.record(old.container.clone())
        };
        let entry = self.entry_with_ranges(&old, published).await?;
        batch.put_container(&entry.record(entry.container.clone()));
        crate::containers::insert(&mut catalog, Arc::new(entry));
        // The sources end before the targets can be found: who holds an old entry never reads behind who has the new one.
        let mut cutover = Some(cutover);
        let complete = || cutover.take().into_iter().for_each(Cutover::complete);
        if let Err(error) = self.publish_after(catalog, batch, complete).await {
            // A catalog that was too busy to take the change has surely not got it.
            if error.kind() == ErrorKind::Unavailable {
                cutover.into_iter().for_each(Cutover::leave_in_doubt);
            }
            return Err(error);
        }
        let pause = self.clock().elapsed().saturating_sub(started);
        self.drop_partitions_in_background(dropped);
        Ok(Some(pause))
    }

    /// A container's entry under a record with other ranges: partitions that are in both live on, others are opened.
    async fn entry_with_ranges(
        &self,
        old: &ContainerEntry,
        mut record: ContainerRecord,
    ) -> Result<ContainerEntry> {
        let maintained = old.shape.maintained();
        let mut placed = Vec::with_capacity(record.ranges.len());
        for range in record.ranges {
            let known = old.map.iter().find(|partition| partition.uid == range.placed().uid);
            let partition = match known {
                Some(partition) => partition.clone(),
                None => {
                    let shard = self.0.shards.get(range.shard)?.clone();
                    let identity = range.identity(old.session_version)?;
                    let partition = Partition::open(shard, identity, maintained.clone()).await?;
                    partition.keep_versions(old.shape.retention).await;
                    Arc::new(partition)
                }
            };
            placed.push((bounds_of(&range)?, range, partition));
        }
        // Records are in the order of the map.
        placed.sort_by(|left, right| left.0.min.cmp(&right.0.min));
        record.ranges = placed.iter().map(|(_, range, _)| range.clone()).collect();
        let partitions = placed.into_iter().map(|(bounds, _, partition)| (bounds, partition)).collect();
        let map = PartitionMap::new(record.generation, partitions)
            .map_err(|error| Error::internal(format!("the new ranges do not fit together: {error}")))?;
        self.entry_over(old, record, map)
    }

    /// Takes the relocation out of the record and drops what was copied.
    async fn give_up(&self, subject: Subject, record: &RelocationRecord) -> Result<()> {
        let _writer = self.0.catalog_writer.lock().await;
        let mut catalog = Catalog::clone(&self.0.catalog.load());
        // A deleted container has left marks for the targets, too.
        let Ok(old) = self.entry_of_rid(subject) else { return Ok(()) };
        if old.relocation.as_ref() != Some(record) {
            return Ok(());
        }
        let restored = ContainerRecord { relocation: None, ..old.record(old.container.clone()) };
        let mut batch = CatalogBatch::new();
        batch.put_container(&restored);
        let dropped: Vec<Placed> = record.targets.iter().map(RangeRecord::placed).collect();
        dropped.iter().for_each(|placed| batch.drop_range(*placed));
        let entry = Arc::new(self.entry_of(&old, restored)?);
        crate::containers::insert(&mut catalog, entry);
        self.publish(catalog, batch).await?;
        self.drop_partitions_in_background(dropped);
        Ok(())
    }

    fn step(&self, entry: &ContainerEntry, step: RelocationStep) -> Result<()> {
        entry.motion.state().step = Some(step);
        if self.0.hooks.goes_on.as_ref().is_some_and(|goes_on| !goes_on(step)) {
            return Err(Error::new(ErrorKind::Unavailable, format!("stopped after '{}'", step.name())));
        }
        Ok(())
    }

    async fn drop_data(&self, placed: Placed) -> Result<()> {
        let (start, end) = partition_range(placed.uid);
        let shard = self.0.shards.get(placed.shard)?;
        shard.drop_range(start, end).await.map(drop).map_err(shardlake_partition::storage_error)
    }

    /// Stops relocations where they are, and begins no others; the next start goes on with them.
    pub(crate) async fn pause_relocations(&self) {
        let catalog = {
            // Whoever is about to begin one is through, or sees this.
            let _writer = self.0.catalog_writer.lock().await;
            self.0.is_closing.store(true, Ordering::Release);
            self.0.catalog.load_full()
        };
        let entries = catalog.databases.values().flat_map(|owner| owner.containers.values());
        for entry in entries.filter(|entry| entry.relocation.is_some()) {
            entry.motion.state().progress.pause();
            // One that waits for its turn behind an index build is not waited for: it will find storage closed.
            if entry.motion.state().step.is_some() {
                let _turn = entry.motion.topology.lock().await;
            }
        }
    }
}

/// Copies on a thread that leaves the processors to those who serve clients.
async fn copied(mut relocation: Relocation) -> Result<Relocation> {
    let runtime = Handle::current();
    let (done, outcome) = oneshot::channel();
    let copying = std::thread::Builder::new().name("relocation".into()).spawn(move || {
        lower_thread_priority();
        let copied = runtime.block_on(relocation.copy());
        // Nobody waits any more where the account has gone.
        let _gone = done.send(copied.map(|()| relocation));
    });
    copying.map_err(|error| Error::internal(format!("a relocation's thread cannot start: {error}")))?;
    outcome.await.map_err(|_| Error::internal("a relocation's thread panicked"))?
}
