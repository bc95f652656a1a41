//! Upkeep of a table besides rounds: rows past their time to live, small files, old files.

use std::time::Duration;

use shardlake_analytical_table::log::Span;
use shardlake_analytical_table::table::{Commit, CompactionKind, Table};

use super::places::span_of;
use super::round::RETAINED;
use super::step::{Step, StepError};
use super::tracked::Tracked;
use crate::report::OrderReport;

const RETENTION_EVERY: Duration = Duration::from_secs(60);
const VACUUM_EVERY: Duration = Duration::from_secs(60 * 60);

pub fn step(follower: &mut Tracked, step: &Step<'_>, table: &mut Table) -> Result<(), StepError> {
    let now = step.router.clock().elapsed();
    let is_due =
        |last: Option<Duration>, every: Duration| last.is_none_or(|last| now.saturating_sub(last) >= every);
    if is_due(follower.retained, RETENTION_EVERY) {
        retain(follower, step, table)?;
        follower.retained = Some(now);
    }
    let order = follower.status.live().orders.take_compaction();
    match order {
        Some((number, purge)) => {
            let kind = if purge { CompactionKind::Purge } else { CompactionKind::Full };
            let mut files = 0;
            loop {
                match compact(follower, step, table, kind) {
                    Ok(Some(joined)) => files += joined,
                    Ok(None) => break,
                    Err(error) => {
                        follower.status.live().orders.put_back_compaction((number, purge));
                        return Err(error);
                    }
                }
            }
            let outcome =
                format!("{files} files were rewritten; the table has {} files", table.status().files);
            let time = step.router.clock().now().seconds();
            let report = OrderReport { number, order: "compact", outcome, is_right: true, time };
            follower.status.live().orders.finish(report);
        }
        None => {
            compact(follower, step, table, CompactionKind::Due)?;
        }
    }
    if !table.status().pending_widenings.is_empty()
        && let Some(job) = table.plan_widening(step.now_ms())?
    {
        let widened = job.run()?;
        if table.commit_widening(&widened, step.now_ms())?.is_some() {
            follower.count_commit("widening");
        }
    }
    if is_due(follower.vacuumed, VACUUM_EVERY) {
        table.vacuum(None, step.now_ms())?;
        follower.vacuumed = Some(now);
    }
    Ok(())
}

/// Removes the rows whose items were last written before the container's analytical time to live.
fn retain(follower: &Tracked, step: &Step<'_>, table: &mut Table) -> Result<(), StepError> {
    let ttl = step.entry.record.container.definition.analytical_storage_ttl;
    let Some(ttl) = ttl.filter(|ttl| *ttl > 0) else { return Ok(()) };
    let now = step.router.clock().now().seconds() as i64;
    let horizon = now - ttl;
    let may_hold = |(oldest, _): (i64, i64)| oldest < horizon;
    if !table.version().files.values().any(|file| file.times().is_none_or(may_hold)) {
        return Ok(());
    }
    // Before any row goes: rounds then expect that a version that ends may have none.
    if !table.version().info.state.ends_with(RETAINED) {
        let same = Commit::same(table.version(), step.now_ms());
        table.commit_state(&Commit { state: format!("following{RETAINED}"), ..same })?;
    }
    if table.remove_older(horizon, step.now_ms())? > 0 {
        follower.count_commit("retention");
    }
    Ok(())
}

/// One compaction. Returns the files that went into it; `None` where none is due.
fn compact(
    follower: &Tracked,
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
