//! The first copy of a container, and the copies of rebuilds: chunks of the hash space, each of one view and one commit.

use std::time::Duration;

use shardlake_analytical_table::{Commit, Place, Reason, Table};
use shardlake_routing::KeyRange;

use super::places::{self, span_of};
use super::rows::Rows;
use super::table::{Follower, Step, StepError, Stepped};

/// Items of a chunk. More lie in one only where a logical partition has more.
const CHUNK_ITEMS: usize = 64_000;

/// Copies the next chunk of a gap.
pub async fn step(follower: &mut Follower, step: &Step<'_>, table: &mut Table, gap: &KeyRange) -> Stepped {
    let partition = step.entry.map.overlapping(gap).next().ok_or_else(|| {
        StepError::Account(shardlake_model::Error::internal("a part of the hash space that no range has"))
    })?;
    let part = partition.epk_range().intersection(gap);
    let mut round = partition.hosted().partition().items_round(&part, CHUNK_ITEMS).await?;
    let now = step.now_ms();
    let mut rows = Rows::of(follower.rid);
    table.begin(span_of(&part), now)?;
    while let Some(page) = round.next_page().await? {
        for item in page {
            rows.push(table, item.record)?;
        }
    }
    rows.flush(table)?;
    let covered = round.covered().unwrap_or(part);
    table.prepare(&|_| false)?;
    // A crash must not undo a commit that the table has.
    round.durable().await?;
    let mut places = table.places().to_vec();
    places::add(&mut places, Place { span: span_of(&covered), lsn: round.upto(), read_at: now });
    note_overflow(follower, table);
    table.commit(&Commit { places, state: "building".into(), time: now }, Reason::Round)?;
    follower.count_commit("copy");
    follower.status.live().counts.copied_items += rows.count;
    Ok(Duration::ZERO)
}

/// Shows the values of the open round that no column holds.
pub fn note_overflow(follower: &Follower, table: &Table) {
    let Some(overflow) = table.overflow() else { return };
    let mut live = follower.status.live();
    for (reason, count) in overflow.counts() {
        *live.counts.rest_values.entry(reason.to_owned()).or_default() += count;
    }
    for path in overflow.paths() {
        if live.counts.rest_paths.len() < PATHS_MAX && !live.counts.rest_paths.contains(path) {
            live.counts.rest_paths.push(path.clone());
        }
    }
}

/// Paths of values without a column that reports name.
const PATHS_MAX: usize = 20;

/// Takes rows of the former generation over whose items have run out: history that the container has no more.
pub async fn carry_history(
    _follower: &mut Follower,
    _step: &Step<'_>,
    _former: &Table,
    _building: &mut Table,
) -> Result<(), StepError> {
    Ok(())
}
