//! Execution of relocations: copy, catch up, cut over, publish, clean up; or abort.
//!
//! One relocation per container at a time, and none while an index is filled. The work does not belong to the
//! request that asked for it: it continues when the client has disconnected, and after a restart.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use shardlake_catalog::{
    CatalogError, ContainerRecord, Definitions, FORMER_RANGES_MAX, FormerRange, Placed, RangeRecord,
    RelocationKind, RelocationRecord, Urgency,
};
use shardlake_model::{Error, ErrorKind, Result};
use shardlake_partition::{
    Cutover, Haste, Relocation, RelocationProgress, RelocationTarget, partition_range,
};
use shardlake_stdx::lower_thread_priority;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::Upkeep;
use crate::relocation::Subject;
use shardlake_router::ContainerEntry;
use shardlake_router::catalog_error;
use shardlake_router::was_deleted;
use shardlake_router::{HistoryEventKind, PartitionHandle, PastPartition, PastRelocation};
use shardlake_router::{LiveCatalog, bounds_of, identity_of};
use shardlake_router::{RelocationReport, RelocationStep};

/// How long writers may be held before the cutover is put off, at first. An attempt continues where the last
/// one stopped, since a source that is written faster than its target catches up would never end.
const FENCE_MAX: Duration = Duration::from_millis(25);
/// Number of attempts that each get twice as long as the one before. Writers run for [`FENCE_MAX`] between any two, so
/// that they are slowed down to a ninth from then on, and none waits for longer than this plus the last commit.
const DOUBLED: u32 = 3;
/// Further attempts after which the time is doubled once more: one item may take longer than that.
const DOUBLED_EACH: u32 = 64;
const DOUBLED_MAX: u32 = 8;

fn fence_max(attempts: u32) -> Duration {
    let doubled = attempts.min(DOUBLED) + attempts.saturating_sub(DOUBLED) / DOUBLED_EACH;
    FENCE_MAX * (1 << doubled.min(DOUBLED_MAX))
}

impl Upkeep {
    pub(crate) fn relocate_in_background(
        &self,
        entry: &ContainerEntry,
    ) -> JoinHandle<Result<RelocationReport>> {
        let (upkeep, subject, name) = (self.clone(), entry.record.container.rid, name_of(entry));
        tokio::spawn(async move {
            let outcome = Box::pin(upkeep.relocate(subject)).await;
            if let Err(error) = &outcome {
                upkeep.tell_relocation_stopped((subject, &name), error);
            }
            outcome
        })
    }

    fn tell_relocation_stopped(&self, (rid, container): (Subject, &str), error: &Error) {
        match error.kind() {
            // A person aborted it, or a client deleted the container.
            ErrorKind::Conflict | ErrorKind::OwnerNotFound => {
                tracing::info!(container, %rid, %error, "a relocation was given up");
            }
            ErrorKind::Unavailable if self.router().is_closing() => {
                tracing::info!(container, %rid, "a relocation waits for the next start");
            }
            _ => tracing::warn!(container, %rid, %error, "a relocation stopped"),
        }
    }

    async fn relocate(&self, subject: Subject) -> Result<RelocationReport> {
        let motion = self.router().entry_of_rid(subject)?.motion.clone();
        let _turn = motion.topology.lock().await;
        let entry = self.router().entry_of_rid(subject)?;
        let Some(record) = entry.record.relocation.clone() else {
            return Err(Error::new(ErrorKind::Conflict, "the relocation was given up before it began"));
        };
        let progress = {
            let mut state = motion.state();
            state.running = Some(record.clone());
            state.progress.clone()
        };
        let started = self.router().clock().elapsed();
        tracing::info!(
            container = name_of(&entry),
            rid = %subject,
            kind = record.kind.name(),
            sources = ?record.sources,
            targets = ?target_ids(&record),
            bytes = source_bytes(&entry, &record),
            "a relocation begins"
        );
        let outcome = self.carry_out(&entry, &record, progress).await;
        entry.history.ended(self.past_of(&record, started, &outcome));
        let told = outcome.as_ref().map(Clone::clone).map_err(ToString::to_string);
        self.0.relocations.count(record.kind, &outcome);
        {
            let mut state = motion.state();
            (state.last, state.running, state.step) = (Some(told), None, None);
        }
        let given_up = match &outcome {
            Err(error) if !self.is_left_for_the_next_start(error) => {
                self.router().patiently(|| self.give_up(subject, &record)).await
            }
            _ => Ok(()),
        };
        self.wake_balance();
        if let Err(error) = given_up {
            tracing::warn!(container = name_of(&entry), rid = %subject, %error, "a relocation that failed is given up at the next start");
        }
        outcome
    }

    /// Storage that refuses writes permanently, or is about to be closed, leaves the record as it is. A disk
    /// that is full for the copy alone does not: the copy is deleted first.
    fn is_left_for_the_next_start(&self, error: &Error) -> bool {
        let is_over = self.router().is_closing() || !self.router().is_writable();
        error.kind() == ErrorKind::Unavailable && (is_over || self.0.hooks.goes_on.is_some())
    }

    async fn carry_out(
        &self,
        entry: &ContainerEntry,
        record: &RelocationRecord,
        progress: Arc<RelocationProgress>,
    ) -> Result<RelocationReport> {
        let started = self.router().clock().elapsed();
        let bytes = source_bytes(entry, record);
        let mut relocation = self.relocation_of(entry, record, progress.clone())?;
        self.step(entry, RelocationStep::Planned)?;
        let is_copied = relocation.resume().await?;
        if !is_copied {
            for target in &record.targets {
                self.drop_data(target.placed()).await?;
            }
        }
        relocation = in_background(relocation, is_copied).await?;
        self.step(entry, RelocationStep::Copied)?;
        let (mut attempts, mut gains) = (0, true);
        let pause = loop {
            if gains {
                gains = relocation.catch_up(Haste::Hurried).await?;
            } else {
                // Clients write faster than that. Then each attempt brings the end nearer, and they write in between.
                tokio::time::sleep(FENCE_MAX).await;
            }
            self.step(entry, RelocationStep::CaughtUp)?;
            if let Some(pause) = self.cut_over(entry, record, &mut relocation, attempts).await? {
                break pause;
            }
            attempts += 1;
        };
        self.carry_heat(entry, record, pause);
        self.step(entry, RelocationStep::Published)?;
        relocation.clean_up().await?;
        self.step(entry, RelocationStep::CleanedUp)?;
        let items = progress.items.load(Ordering::Relaxed);
        let report = RelocationReport {
            kind: record.kind,
            sources: record.sources.clone(),
            targets: target_ids(record),
            items,
            duration: self.router().clock().elapsed().saturating_sub(started),
            pause,
            attempts,
        };
        tracing::info!(
            container = name_of(entry),
            rid = %entry.record.container.rid,
            kind = report.kind.name(),
            sources = ?report.sources,
            targets = ?report.targets,
            items,
            bytes,
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
        let is_source = |partition: &&PartitionHandle| record.sources.contains(&partition.range_id());
        let open = |source: &PartitionHandle| source.hosted().partition().clone();
        let sources: Vec<_> = entry.map.iter().filter(is_source).map(open).collect();
        debug_assert_eq!(sources.len(), record.sources.len(), "every source of a relocation is open");
        let mut targets = Vec::with_capacity(record.targets.len());
        for target in &record.targets {
            let shard = self.0.router.stores().get(target.shard)?.clone();
            targets.push(RelocationTarget {
                identity: identity_of(target, entry.record.session_version)?,
                shard,
            });
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
        if self.0.router.catalog_writer().is_in_doubt().await {
            // No change is accepted any more: the sources continue unchanged.
            return Err(catalog_error(CatalogError::InDoubt));
        }
        // The targets are opened with the policies of the sources.
        let _order = entry.motion.alignment.lock().await;
        let started = self.router().clock().elapsed();
        let Some(cutover) = relocation.cut_over(self.router().clock(), fence_max(attempts)).await? else {
            return Ok(None);
        };
        self.step(entry, RelocationStep::Fenced)?;
        let rid = entry.record.container.rid;
        let moved = record.clone();
        let plan = move |_: &LiveCatalog, draft: &mut Definitions| take_over(draft, rid, &moved);
        // Shared with the change. The sources end before the targets can be found, so that a reader with an
        // old entry never reads behind a reader with the new one. If the change fails, the fate of the
        // sources is decided here.
        let cutover = Arc::new(StdMutex::new(Some(cutover)));
        let held = cutover.clone();
        let complete = move || taken(&held).into_iter().for_each(Cutover::complete);
        if let Err(error) = self.router().change_and(Urgency::CutOver, plan, complete).await {
            // If the routing may be found after a restart, the sources must acknowledge nothing more.
            if self.0.router.catalog_writer().is_in_doubt().await {
                taken(&cutover).into_iter().for_each(Cutover::leave_in_doubt);
            }
            return Err(error);
        }
        Ok(Some(self.router().clock().elapsed().saturating_sub(started)))
    }

    /// Keeps the heat of the sources after they have ended.
    fn carry_heat(&self, entry: &ContainerEntry, record: &RelocationRecord, pause: Duration) {
        let now = self.router().clock().elapsed();
        let definition = &entry.record.container.definition.partition_key;
        let sources = entry.map.iter().filter(|partition| record.sources.contains(&partition.range_id()));
        let past = |source: &PartitionHandle| PastPartition {
            range_id: source.range_id(),
            ended: now,
            heat: source.hosted().partition().heat(definition).past(),
        };
        let event = HistoryEventKind::Relocated {
            kind: record.kind,
            sources: record.sources.clone(),
            targets: target_ids(record),
            pause,
        };
        entry.history.relocated(now, event, sources.map(past).collect());
    }

    fn past_of(
        &self,
        record: &RelocationRecord,
        started: Duration,
        outcome: &Result<RelocationReport>,
    ) -> PastRelocation {
        let done = outcome.as_ref().ok();
        PastRelocation {
            kind: record.kind,
            sources: record.sources.clone(),
            targets: target_ids(record),
            started,
            ended: self.router().clock().elapsed(),
            items: done.map_or(0, |report| report.items),
            pause: done.map_or(Duration::ZERO, |report| report.pause),
            given_up: outcome.as_ref().err().map(ToString::to_string),
        }
    }

    /// Removes the relocation from the record and drops its copies.
    async fn give_up(&self, rid: Subject, record: &RelocationRecord) -> Result<()> {
        let record = record.clone();
        let plan = move |_: &LiveCatalog, draft: &mut Definitions| {
            // A deleted container has left marks for the targets, too.
            let Some(old) = draft.containers.get(&rid).cloned() else { return Ok(()) };
            if old.relocation.as_ref() == Some(&record) {
                let restored = ContainerRecord { relocation: None, ..ContainerRecord::clone(&old) };
                draft.containers.put(rid, restored);
                record.targets.iter().for_each(|target| draft.drop_data(target.placed()));
            }
            Ok(())
        };
        self.router().change(plan).await?;
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
        let shard = self.0.router.stores().get(placed.shard)?;
        shard.drop_range(start, end).await.map(drop).map_err(shardlake_partition::storage_error)
    }

    /// Stops relocations in progress, and begins no others; the next start continues them.
    pub async fn pause_relocations(&self) {
        self.0.router.begin_closing();
        // A change that was about to begin a relocation has completed, or sees the flag.
        let turn = self.0.router.catalog_writer().lock(Urgency::Ordinary).await;
        drop(turn);
        let catalog = self.0.router.catalog().load_full();
        for entry in catalog.containers().filter(|entry| entry.record.relocation.is_some()) {
            entry.motion.state().progress.pause();
            // A relocation that waits for the lock behind an index build is not awaited: it will find storage closed.
            if entry.motion.state().step.is_some() {
                let _turn = entry.motion.topology.lock().await;
            }
        }
    }
}

fn target_ids(record: &RelocationRecord) -> Vec<u32> {
    record.targets.iter().map(|target| target.range_id).collect()
}

/// The targets replace the sources; the sources' data is to be deleted.
fn take_over(draft: &mut Definitions, rid: Subject, record: &RelocationRecord) -> Result<()> {
    let old = draft.containers.get(&rid).ok_or_else(was_deleted)?.clone();
    if old.relocation.as_ref() != Some(record) {
        return Err(Error::new(ErrorKind::Conflict, "the relocation was given up meanwhile"));
    }
    let (sources, kept): (Vec<RangeRecord>, Vec<RangeRecord>) =
        old.ranges.iter().cloned().partition(|range| record.sources.contains(&range.range_id));
    assert_eq!(
        sources.len(),
        record.sources.len(),
        "each source of a relocation is a range of its container"
    );
    let mut ranges = Vec::with_capacity(kept.len() + record.targets.len());
    for range in kept.into_iter().chain(record.targets.iter().cloned()) {
        ranges.push((bounds_of(&range)?, range));
    }
    ranges.sort_by(|left, right| left.0.min.cmp(&right.0.min));
    assert!(
        ranges.windows(2).all(|pair| pair[0].0.max == pair[1].0.min),
        "the targets of a relocation cover exactly the hash space of its sources"
    );
    assert!(
        ranges.first().is_some_and(|(bounds, _)| bounds.min.0.is_empty()),
        "the ranges of a container begin with the hash space"
    );
    assert!(
        ranges.last().is_some_and(|(bounds, _)| bounds.is_unbounded_above()),
        "the ranges of a container end with the hash space"
    );
    let published = ContainerRecord {
        ranges: ranges.into_iter().map(|(_, range)| range).collect(),
        generation: old.generation + 1,
        relocation: None,
        former: former_after(&old.former, &sources, record.kind),
        ..ContainerRecord::clone(&old)
    };
    draft.containers.put(rid, published);
    sources.iter().for_each(|source| draft.drop_data(source.placed()));
    Ok(())
}

/// A moved range keeps its id; the sources of a split and a merge have ended.
fn former_after(before: &[FormerRange], sources: &[RangeRecord], kind: RelocationKind) -> Vec<FormerRange> {
    let mut former = before.to_vec();
    if kind != RelocationKind::Move {
        former.extend(sources.iter().map(|source| FormerRange {
            range_id: source.range_id,
            min: source.min.clone(),
            max: source.max.clone(),
        }));
    }
    former.drain(..former.len().saturating_sub(FORMER_RANGES_MAX));
    assert!(former.len() <= FORMER_RANGES_MAX, "the list of former ranges is bounded");
    former
}

fn taken(cutover: &StdMutex<Option<Cutover>>) -> Option<Cutover> {
    cutover.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Copies if needed, and catches up for the first time, on a low-priority thread, so that serving clients has priority.
async fn in_background(mut relocation: Relocation, is_copied: bool) -> Result<Relocation> {
    let runtime = Handle::current();
    let (done, outcome) = oneshot::channel();
    let copying = std::thread::Builder::new().name("relocation".into()).spawn(move || {
        lower_thread_priority();
        let copied = runtime.block_on(async {
            if !is_copied {
                relocation.copy().await?;
            }
            relocation.catch_up(Haste::Background).await
        });
        // The receiver is dropped where the account was dropped.
        let _gone = done.send(copied.map(|_| relocation));
    });
    copying.map_err(|error| Error::internal(format!("a relocation's thread cannot start: {error}")))?;
    outcome.await.map_err(|_| Error::internal("a relocation's thread panicked"))?
}

/// The container as operators know it.
fn name_of(entry: &ContainerEntry) -> String {
    format!("{}/{}", entry.database.id, entry.record.container.definition.id)
}

fn source_bytes(entry: &ContainerEntry, record: &RelocationRecord) -> u64 {
    let partitions = entry.map.iter().filter(|partition| record.sources.contains(&partition.range_id()));
    partitions.map(|partition| partition.size_bytes()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_are_held_for_long_only_where_nothing_else_helps() {
        let milliseconds = |attempts| fence_max(attempts).as_millis();
        assert_eq!([0, 1, 2, 3, 4, 66].map(milliseconds), [25, 50, 100, 200, 200, 200]);
        assert_eq!([67, 131, u32::MAX].map(milliseconds), [400, 800, 6400]);
    }
}
