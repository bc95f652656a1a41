//! What a table needs besides rounds: rows past their time to live, small files, old files.

use std::time::Duration;

use shardlake_analytical_table::{CompactionKind, Span, Table};

use super::places::span_of;
use super::table::{Follower, Step, StepError};
use crate::report::OrderReport;

const RETENTION_EVERY: Duration = Duration::from_secs(60);
const VACUUM_EVERY: Duration = Duration::from_secs(60 * 60);

/// When the parts of the upkeep ran last, in terms of the clock's elapsed time.
#[derive(Debug, Default)]
pub struct Times {
    retention: Option<Duration>,
    vacuum: Option<Duration>,
}

pub fn step(follower: &mut Follower, step: &Step<'_>, table: &mut Table) -> Result<(), StepError> {
    let now = step.router.clock().elapsed();
    let is_due = |last: Option<Duration>, every: Duration| last.is_none_or(|last| now.saturating_sub(last) >= every);
    if is_due(follower.upkeep.retention, RETENTION_EVERY) {
        retain(follower, step, table)?;
        follower.upkeep.retention = Some(now);
    }
    let order = follower.status.live().orders.take_compaction();
    match order {
        Some((number, purge)) => {
            let kind = if purge { CompactionKind::Purge } else { CompactionKind::Full };
            let mut files = 0;
            while let Some(joined) = compact(follower, step, table, kind)? {
                files += joined;
            }
            let outcome = format!("{files} files were rewritten; the table has {} files", table.status().files);
            let time = step.router.clock().now().seconds();
            let report = OrderReport { number, order: "compact", outcome, is_right: true, time };
            follower.status.live().orders.finish(report);
        }
        None => {
            compact(follower, step, table, CompactionKind::Due)?;
        }
    }
    if is_due(follower.upkeep.vacuum, VACUUM_EVERY) {
        table.vacuum(None, step.now_ms())?;
        follower.upkeep.vacuum = Some(now);
    }
    Ok(())
}

/// Removes the rows whose items were last written before the container's analytical time to live.
fn retain(follower: &Follower, step: &Step<'_>, table: &mut Table) -> Result<(), StepError> {
    let ttl = step.entry.record.container.definition.analytical_storage_ttl;
    let Some(ttl) = ttl.filter(|ttl| *ttl > 0) else { return Ok(()) };
    let now = step.router.clock().now().seconds() as i64;
    if table.remove_older(now - ttl, step.now_ms())? > 0 {
        follower.count_commit("retention");
    }
    Ok(())
}

/// One compaction. Returns the files that went into it; `None` where none is due.
fn compact(
    follower: &Follower,
    step: &Step<'_>,
    table: &mut Table,
    kind: CompactionKind,
) -> Result<Option<usize>, StepError> {
    let ranges: Vec<Span> = step.entry.map.iter().map(|partition| span_of(partition.epk_range())).collect();
    let Some(job) = table.plan_compaction(&ranges, kind, step.now_ms()) else { return Ok(None) };
    let (files, bytes) = (job.inputs().len(), job.inputs().iter().map(|file| file.size).sum::<u64>());
    let compacted = job.run()?;
    table.commit_compaction(&compacted, step.now_ms())?;
    follower.count_commit("compaction");
    follower.status.live().counts.compacted_bytes += bytes;
    Ok(Some(files))
}
