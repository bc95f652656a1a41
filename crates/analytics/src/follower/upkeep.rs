//! Upkeep of a table besides rounds: rows past their time to live, small files, old files.

use std::time::Duration;

use shardlake_analytical_table::log::Span;
use shardlake_analytical_table::table::{Commit, CompactionKind, Table};
use shardlake_model::Error;

use super::places::span_of;
use super::rewrite::{Job, Rewrite};
use super::round::RETAINED;
use super::step::{Step, StepError};
use super::tracked::{Order, Tracked};
use crate::report::OrderReport;

const RETENTION_EVERY: Duration = Duration::from_secs(60);
const VACUUM_EVERY: Duration = Duration::from_secs(60 * 60);

pub fn step(
    follower: &mut Tracked,
    step: &Step<'_>,
    table: &mut Table,
    rewriting: &mut Option<Rewrite>,
) -> Result<(), StepError> {
    let now = step.router.clock().elapsed();
    let is_due =
        |last: Option<Duration>, every: Duration| last.is_none_or(|last| now.saturating_sub(last) >= every);
    if is_due(follower.retained, RETENTION_EVERY) {
        retain(follower, step, table)?;
        follower.retained = Some(now);
    }
    if let Some(finished) = rewriting.take_if(|rewrite| rewrite.is_finished()) {
        take_over(follower, step, table, finished)?;
    }
    if rewriting.is_some() {
        return Ok(());
    }
    // No version names the files of a rewrite yet, so vacuum waits for its end.
    if is_due(follower.vacuumed, VACUUM_EVERY) {
        table.vacuum(None, step.now_ms())?;
        follower.vacuumed = Some(now);
    }
    *rewriting = begin_next(follower, step, table)?;
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

/// Commits the files of a rewrite.
fn take_over(
    follower: &mut Tracked,
    step: &Step<'_>,
    table: &mut Table,
    finished: Rewrite,
) -> Result<(), StepError> {
    let (files, bytes) = (finished.files, finished.bytes);
    let written = finished.finish()?;
    if written.commit(table, step.now_ms())? {
        follower.count_commit(written.reason());
        follower.status.live().counts.compacted_bytes += bytes;
        if let Some(order) = &mut follower.order {
            order.files += files;
        }
    }
    Ok(())
}

fn begin_next(
    follower: &mut Tracked,
    step: &Step<'_>,
    table: &mut Table,
) -> Result<Option<Rewrite>, StepError> {
    let Some(permit) = step.server.rewrites.try_begin() else { return Ok(None) };
    if follower.order.is_none() {
        let asked = follower.status.live().orders.take_compaction();
        follower.order = asked.map(|(number, purge)| Order { number, purge, files: 0 });
    }
    let Some(job) = next_job(follower, step, table)? else { return Ok(None) };
    let started = Rewrite::start(step, permit, job);
    Ok(Some(started.map_err(|error| Error::internal(format!("no thread for files: {error}")))?))
}

/// The next rewrite that was asked for or is due. Ends the order that has none left.
fn next_job(follower: &mut Tracked, step: &Step<'_>, table: &mut Table) -> Result<Option<Job>, StepError> {
    let ranges: Vec<Span> = step.entry.map.iter().map(|partition| span_of(partition.epk_range())).collect();
    let plan = |kind| table.plan_compaction(&ranges, kind, step.now_ms()).map(Job::Compaction);
    if let Some(order) = follower.order.take() {
        let kind = if order.purge { CompactionKind::Purge } else { CompactionKind::Full };
        if let Some(job) = plan(kind) {
            follower.order = Some(order);
            return Ok(Some(job));
        }
        let outcome =
            format!("{} files were rewritten; the table has {} files", order.files, table.status().files);
        let time = step.router.clock().now().seconds();
        let report = OrderReport { number: order.number, order: "compact", outcome, is_right: true, time };
        follower.status.live().orders.finish(report);
    }
    if let Some(job) = plan(CompactionKind::Due) {
        return Ok(Some(job));
    }
    match table.status().pending_widenings.is_empty() {
        true => Ok(None),
        false => Ok(table.plan_widening(step.now_ms())?.map(Job::Widening)),
    }
}
