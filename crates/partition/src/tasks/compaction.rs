//! Compaction of the change log: removes entries that no reader can ask for any more. So the log is
//! bounded by the number of items, the retained history, and a constant.
//!
//! An operation is needed while it is the last one on a live item, or younger than the retention
//! time; the last entries are always kept. *Advancing* looks once at every entry that becomes old
//! enough. Operations that later ones have superseded are deleted, and with each the version that
//! it ended. The remaining operations become superseded later. When superseded ones may be half as
//! many as there are items, the old part is *gone over* again. So a write causes a bounded amount
//! of work, however the work is spread.
//!
//! A step looks at a bounded number of operations in a snapshot, without any lock, and takes the
//! sequencer only to queue its commit. Operations that it found to be superseded stay so. The marks
//! move in the same commit, and in memory before it, so a reader that takes a snapshot and then the
//! marks knows which part may be missing in it. Entries keep their LSNs, which have holes from then
//! on.
//!
//! Nothing above the lowest hold (`holds.rs`) is removed.
//!
//! Sources of a relocation must not be compacted: the targets follow their logs. The caller ensures
//! that.

use std::collections::HashSet;

use bytes::Bytes;
use shardlake_document::Record;
use shardlake_model::{ErrorKind, Limits, Result};
use shardlake_stdx::Timestamp;
use shardlake_storage::{Batch, Row, ScanOptions, Snapshot};

use crate::core::Core;
use crate::key_list::KeyList;
use crate::keys::{self, ITEMS};
use crate::log::entries::logged;
use crate::log::entry::{ChangeKind, LogEntry, LogOperation};
use crate::log::marks::LogMarks;

/// Operations of one step, whose commit the partition's writers wait for.
const STEP_OPERATIONS: usize = 128;
/// Operations whose items are read at once.
const OPERATIONS_AT_ONCE: usize = 64;

/// Progress of going over the old part.
#[derive(Debug, Default)]
pub struct Compaction {
    again: Option<Again>,
}

#[derive(Debug, Clone, Copy)]
struct Again {
    after: u64,
    to: u64,
    left: u64,
}

/// Result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactionStep {
    Went {
        removed: usize,
    },
    /// Nothing is to be done now.
    Idle,
    /// Storage has no capacity for background work now.
    Overloaded,
}

/// Whether a step may find something to do; cheap.
pub(crate) fn compaction_due(core: &Core, limits: &Limits, now: Timestamp) -> bool {
    let marks = core.past.marks();
    may_advance(core, &marks, limits, now) || is_much_in_vain(core, &marks, limits)
}

fn may_advance(core: &Core, marks: &LogMarks, limits: &Limits, now: Timestamp) -> bool {
    let kept = entries_kept(core, limits);
    let to = core.durable_lsn().saturating_sub(kept).min(core.holds.entries());
    to.saturating_sub(marks.swept_to) >= kept && now.milliseconds() >= core.past.next_compaction_ms()
}

fn is_much_in_vain(core: &Core, marks: &LogMarks, limits: &Limits) -> bool {
    // Below a hold not all of the old part may be gone over.
    core.holds.entries() >= marks.swept_to
        && marks.left >= core.items() + core.items() / 2 + limits.change_log_operations_in_vain
}

/// The last entry is always kept. Where versions are kept, their time decides on the others.
fn entries_kept(core: &Core, limits: &Limits) -> u64 {
    if core.past.keeps_versions() { 1 } else { limits.change_log_entries_kept.max(1) }
}

/// One step.
pub(crate) async fn compact(
    core: &Core,
    compaction: &mut Compaction,
    limits: &Limits,
    now: Timestamp,
) -> Result<CompactionStep> {
    core.check_open()?;
    let marks = core.past.marks();
    if compaction.again.is_none() && is_much_in_vain(core, &marks, limits) && marks.swept_to > 0 {
        compaction.again = Some(Again { after: 0, to: marks.swept_to, left: 0 });
    }
    match compaction.again {
        Some(again) => go_over(core, compaction, again, now).await,
        None if may_advance(core, &marks, limits, now) => advance(core, &marks, limits, now).await,
        None => Ok(CompactionStep::Idle),
    }
}

async fn advance(core: &Core, marks: &LogMarks, limits: &Limits, now: Timestamp) -> Result<CompactionStep> {
    let snapshot = core.shard().snapshot();
    let after = marks.swept_to;
    let last = keys::last_log_lsn(&snapshot, core.uid).await?;
    let to = last.saturating_sub(entries_kept(core, limits)).min(core.holds.entries());
    let retention_ms = core.past.retention().as_millis() as u64;
    let mut step =
        look(core, &snapshot, marks.swept_to, to, now.milliseconds().saturating_sub(retention_ms)).await?;
    if let Some(too_young) = step.too_young_ms {
        core.past.set_next_compaction_ms(too_young.saturating_add(retention_ms));
    }
    let Some(last) = step.last else {
        // A hole that reaches to the kept entries.
        return Ok(CompactionStep::Idle);
    };
    assert!(last <= to, "a step stays below the kept entries and the holds");
    let batch = std::mem::take(&mut step.batch);
    commit_step(core, batch, (last, step.removed), |marks| {
        step.operations.iter().for_each(|(key, lsn)| marks.note_compacted(key, *lsn));
        marks.holes_to = marks.holes_to.max(last);
        // Another step may have been here meanwhile, and may have come less far.
        if marks.swept_to == after {
            marks.swept_to = last;
            marks.left += step.left;
        }
    })
    .await
}

async fn go_over(
    core: &Core,
    compaction: &mut Compaction,
    again: Again,
    now: Timestamp,
) -> Result<CompactionStep> {
    let snapshot = core.shard().snapshot();
    let mut step = look(core, &snapshot, again.after, again.to, now.milliseconds()).await?;
    let batch = std::mem::take(&mut step.batch);
    let left = again.left + step.left;
    let last = step.last.filter(|last| *last < again.to);
    let note_left = |marks: &mut LogMarks| {
        if last.is_none() {
            marks.left = left;
        }
    };
    let done = commit_step(core, batch, (step.last.unwrap_or(0), step.removed), note_left).await?;
    if done != CompactionStep::Overloaded {
        compaction.again = last.map(|after| Again { after, left, ..again });
    }
    Ok(done)
}

/// The work on the entries above `after`, up to `to`, that are not younger than a time.
async fn look(core: &Core, snapshot: &Snapshot, after: u64, to: u64, oldest_kept_ms: u64) -> Result<Step> {
    let mut step = Step { has_versions: has_versions(core, snapshot).await?, ..Step::default() };
    let range = keys::log_key(core.uid, after + 1)..keys::log_key(core.uid, to.saturating_add(1));
    let mut scan = snapshot.scan(range, ScanOptions { read_ahead_bytes: 0, ..ScanOptions::SWEEP });
    while let Some(rows) = scan.next_chunk().await.map_err(crate::storage_error)? {
        let (mut together, mut operations) = (Vec::new(), 0);
        for (key, value) in rows {
            let (_, entry) = logged(&key, &value)?;
            if entry.timestamp_ms() > oldest_kept_ms {
                step.too_young_ms = Some(entry.timestamp_ms());
                look_at_all(core, snapshot, &mut step, together).await?;
                return Ok(step);
            }
            operations += entry.operations.len();
            together.push(((key, value), entry));
            let is_enough = step.operations.len() + operations >= STEP_OPERATIONS;
            if is_enough || operations >= OPERATIONS_AT_ONCE {
                look_at_all(core, snapshot, &mut step, std::mem::take(&mut together)).await?;
                operations = 0;
            }
            if is_enough {
                return Ok(step);
            }
        }
        look_at_all(core, snapshot, &mut step, together).await?;
    }
    Ok(step)
}

async fn look_at_all(
    core: &Core,
    snapshot: &Snapshot,
    step: &mut Step,
    entries: Vec<(Row, LogEntry)>,
) -> Result<()> {
    let (mut item_keys, header) = (KeyList::default(), keys::header(core.uid, ITEMS, 0));
    for operation in entries.iter().flat_map(|(_, entry)| &entry.operations) {
        item_keys.push(&[&header, &operation.key]);
    }
    let live = snapshot.get_many(item_keys.finish()).await.map_err(crate::storage_error)?;
    let mut live = live.into_iter();
    for (row, entry) in entries {
        let live: Vec<Option<Bytes>> = live.by_ref().take(entry.operations.len()).collect();
        look_at(core, step, row, entry, &live)?;
    }
    Ok(())
}

/// `live` has the live item of each operation.
fn look_at(
    core: &Core,
    step: &mut Step,
    row: Row,
    mut entry: LogEntry,
    live: &[Option<Bytes>],
) -> Result<()> {
    let lsn = keys::log_lsn(&row.0)?;
    debug_assert!(step.last.is_none_or(|last| last < lsn), "entries come in the order of the log");
    step.last = Some(lsn);
    let mut needed = HashSet::new();
    for (place, (operation, live)) in entry.operations.iter().zip(live).enumerate() {
        if is_last_word(operation, live.as_ref(), lsn)? {
            needed.insert(place);
        }
        step.operations.push((operation.key.clone(), lsn));
        if step.has_versions && operation.previous_lsn > 0 && operation.kind != ChangeKind::Create {
            step.batch.delete(keys::version_key(core.uid, &operation.key, operation.previous_lsn));
        }
    }
    step.left += needed.len() as u64;
    let before = entry.operations.len();
    let mut place = 0..;
    entry.operations.retain(|_| place.next().is_some_and(|place| needed.contains(&place)));
    step.removed += before - entry.operations.len();
    if entry.operations.is_empty() {
        step.batch.delete(row.0);
    } else if entry.operations.len() < before {
        step.batch.put(row.0, entry.encode());
    }
    Ok(())
}

async fn has_versions(core: &Core, snapshot: &Snapshot) -> Result<bool> {
    let (start, end) = keys::space_range(core.uid, keys::VERSIONS);
    let mut scan = snapshot.scan(start..end, ScanOptions { limit: Some(1), ..ScanOptions::default() });
    Ok(scan.next_chunk().await.map_err(crate::storage_error)?.is_some())
}

async fn commit_step(
    core: &Core,
    mut batch: Batch,
    (last, removed): (u64, usize),
    change: impl FnOnce(&mut LogMarks),
) -> Result<CompactionStep> {
    let sequencer = core.sequencer.hold().await;
    core.check_open()?;
    // A follower began since the step looked at the log.
    if last > core.holds.entries() {
        return Ok(CompactionStep::Idle);
    }
    let before = core.past.marks();
    let mut marks = LogMarks::clone(&before);
    change(&mut marks);
    marks.holes_to = marks.holes_to.max(marks.swept_to);
    batch.put(keys::log_marks_key(core.uid), marks.encode());
    core.past.set_marks(marks);
    let commit = match core.shard().commit(batch).map_err(crate::storage_error) {
        Ok(commit) => commit,
        Err(error) => {
            core.past.set_marks(LogMarks::clone(&before));
            return match error.kind() {
                ErrorKind::TooManyRequests => Ok(CompactionStep::Overloaded),
                _ => Err(error),
            };
        }
    };
    drop(sequencer);
    commit.await.map_err(crate::storage_error)?;
    Ok(CompactionStep::Went { removed })
}

/// Whether the version that an operation wrote is the live one.
fn is_last_word(operation: &LogOperation, live: Option<&Bytes>, lsn: u64) -> Result<bool> {
    match live {
        Some(record) if matches!(operation.kind, ChangeKind::Create | ChangeKind::Replace) => {
            Ok(Record::decode(record).map_err(crate::corrupt)?.envelope.lsn == lsn)
        }
        _ => Ok(false),
    }
}

/// Findings of a step.
#[derive(Default)]
struct Step {
    batch: Batch,
    has_versions: bool,
    /// Items and LSNs that were looked at.
    operations: Vec<(Vec<u8>, u64)>,
    last: Option<u64>,
    /// Operations that stay, and such that go.
    left: u64,
    removed: usize,
    /// The first entry that is too young.
    too_young_ms: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_fixture::{Fixture, command};

    /// Two steps that begin at the same place, of which the second one comes further.
    #[tokio::test]
    async fn holes_of_steps_that_meet_are_known() {
        let fixture = Fixture::new().await;
        for number in 0..10 {
            fixture.upsert("a", &number.to_string()).await.expect("written");
        }
        let (partition, begin) = (&fixture.partition, fixture.partition.core().past.marks());
        let limits = |entries| Limits { change_log_entries_kept: entries, ..Limits::default() };
        for kept in [6, 2] {
            let step = advance(partition.core(), &begin, &limits(kept), command().now).await.expect("a step");
            assert!(matches!(step, CompactionStep::Went { removed: 1.. }), "{step:?}");
        }
        assert_eq!(fixture.problems_of(&fixture.shard, 3).await, (1, Vec::new()));
    }
}
