//! Groups: indexes whose rows are counts, sums, averages and extremes of items.
//!
//! A group lies in one logical partition of the source, so one order of LSNs holds for its changes. The row of
//! a group carries the LSN at which it is true. A round takes each group from there to the end of the round's
//! view, once:
//!
//! ```text
//! row of a group at LSN s │ changes above s: contributions that ended, contributions of live items │ row at upto
//! ```
//! A round that is repeated finds rows at the end of an earlier attempt, and counts changes above these alone.
//!
//! A row that is not there is of a group without items, if this task has applied every round before. Otherwise
//! an attempt that was interrupted may have deleted the row, at an LSN that is not known any more. Then, and
//! when the last known extreme has left, the group is counted anew from the items of the round's view.
//!
//! | file | contents |
//! |---|---|
//! | `gather.rs` | changes of a round, by group |
//! | `plan.rs` | from the stored row of a group to the next one, as data |
//! | `update.rs` | the same for all groups of a round: reading stored rows, writing new ones |
//! | `rows.rs` | rows of groups, for the index |
//! | `recount.rs` | groups from the items of a view |
//! | `chunk.rs` | groups of a chunk of the source |
//! | `build.rs` | the first rows of an index |

mod build;
mod chunk;
mod gather;
mod plan;
mod recount;
mod rows;
mod update;

use std::ops::ControlFlow::{Break, Continue};

use shardlake_change_log::{LogFollower, PartRound};
use shardlake_model::{ErrorKind, Result};
use shardlake_partition::Images;
use shardlake_routing::KeyRange;

use crate::at_work::IndexAtWork;
use crate::follow::{PAGE_OPERATIONS, Progress, next_round};

pub(crate) use build::write_chunk;
pub(crate) use chunk::{ChunkPasses, CountedGroup};
pub(crate) use gather::{Gathered, TooManyGroups};
pub(crate) use plan::advance;
pub(crate) use recount::{Counting, count};
pub(crate) use update::{StoredRow, stored_rows};

/// Parts that are remembered as settled.
const SETTLED_MAX: usize = 1024;

/// Parts of the source whose rounds this task has all applied to their ends, since it began.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    spans: Vec<KeyRange>,
    /// A round has begun and not ended.
    is_in_round: bool,
}

impl Settled {
    /// Whether the rows of a span are at the end of its last round.
    fn begin(&mut self, span: &KeyRange) -> bool {
        if std::mem::replace(&mut self.is_in_round, true) {
            self.spans.clear();
        }
        self.spans.iter().any(|settled| settled.contains_range(span))
    }

    fn end(&mut self, span: &KeyRange) {
        self.is_in_round = false;
        self.spans.retain(|settled| !span.contains_range(settled));
        if self.spans.len() == SETTLED_MAX {
            self.spans.clear();
        }
        self.spans.push(span.clone());
    }
}

/// Applies one round of one part, all of it.
pub(crate) async fn follow(
    at: &IndexAtWork<'_>,
    follower: &mut LogFollower,
    settled: &mut Settled,
) -> Result<Progress> {
    let PartRound { span, round } = match next_round(at, follower).await? {
        Continue(round) => round,
        Break(progress) => return Ok(progress),
    };
    let is_settled = settled.begin(&span) && !at.entry.status.live().has_refused_rows();
    // Rows have LSNs of the view, which no crash may give to other commits.
    round.durable().await?;
    let mut round = round.with(Images::Current).in_pages_of(PAGE_OPERATIONS);
    let mut gathered = Gathered::of_follower();
    loop {
        match round.next_page().await {
            Ok(Some(page)) => match gathered.add(at, &page.changes)? {
                Ok(()) => {}
                Err(TooManyGroups) => return Ok(Progress::Hole),
            },
            Ok(None) => break,
            // Its part goes on in the partitions that replaced it.
            Err(error) if error.kind() == ErrorKind::PartitionGone => return Ok(Progress::Looked),
            Err(error) => return Err(error),
        }
        if at.is_interrupted() {
            return Ok(Progress::Looked);
        }
    }
    let base = is_settled.then_some(round.after());
    match update::apply(at, gathered, round.view(), base).await? {
        Continue(()) => {}
        Break(()) => return Ok(Progress::Looked),
    }
    follower.done(&span, round.upto());
    at.note_position(follower);
    settled.end(&span);
    Ok(Progress::Worked { upto: round.upto_time(), is_all: true })
}

#[cfg(test)]
mod tests;
