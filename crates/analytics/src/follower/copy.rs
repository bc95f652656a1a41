//! The first copy of a container, and the copies of rebuilds: chunks of the hash space, each of one view and one commit.

use std::time::Duration;

use shardlake_analytical_table::log::{Place, Reason};
use shardlake_analytical_table::table::{Commit, Table};
use shardlake_routing::KeyRange;

use super::places::{self, span_of};
use super::rows::Rows;
use super::step::{Step, StepError, Stepped};
use super::tracked::Tracked;

/// Items of a chunk. More lie in one only where a logical partition has more.
const CHUNK_ITEMS: usize = 64_000;

/// Copies the next chunk of a gap.
pub async fn step(follower: &Tracked, step: &Step<'_>, table: &mut Table, gap: &KeyRange) -> Stepped {
    let partition = step.entry.map.overlapping(gap).next().ok_or_else(|| {
        StepError::Account(shardlake_model::Error::internal("a part of the hash space that no range has"))
    })?;
    let part = partition.epk_range().intersection(gap);
    let mut round = partition.hosted().partition().items_round(&part, CHUNK_ITEMS).await?;
    let now = step.now_ms();
    let mut rows = Rows::of(follower.rid);
    let mut rests = step.rests(now);
    table.begin(span_of(&part), now)?;
    while let Some(page) = round.next_page().await? {
        for item in page {
            rows.push(table, item.record)?;
        }
        rests.pause().await;
    }
    rows.flush(table)?;
    let covered = round.covered().unwrap_or(part);
    table.prepare(&|_| false)?;
    // A crash must not undo a commit that the table has.
    round.durable().await?;
    let mut places = table.places().to_vec();
    places::add(&mut places, Place { span: span_of(&covered), lsn: round.upto(), read_at: now });
    follower.note_overflow(table);
    table.commit(&Commit { places, state: "building".into(), time: now }, Reason::Round)?;
    follower.count_commit("copy");
    follower.status.live().counts.copied_items += rows.count;
    Ok(Duration::ZERO)
}
