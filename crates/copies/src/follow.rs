//! Rounds: pages of the source's log, applied to the index one after the other. Pages of several parts of the source are applied
//! together, so that partitions of the index have few, large commits.

use std::collections::BTreeSet;
use std::ops::ControlFlow::{self, Break, Continue};

use shardlake_change_log::{LogFollower, NextRound, PartRound};
use shardlake_document::partition_key_text;
use shardlake_model::{ErrorKind, ExpiredRows, Result};
use shardlake_partition::{ChangeKind, Image, Images, LogChange, RoundError, StoredItem, item_of_position};
use shardlake_routing::KeyRange;
use shardlake_stdx::Timestamp;

use crate::at_work::IndexAtWork;
use crate::plan::{ItemChange, Step, steps};
use crate::status::Refusal;

/// Operations of one page.
pub(crate) const PAGE_OPERATIONS: usize = 256;
/// Operations of the pages that are applied together, but for the rest of a commit.
const OPERATIONS_TOGETHER: usize = 1024;
/// Parts of the source whose pages are applied together. A page has up to 16 MB of records.
const PARTS_TOGETHER: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Changes up to a time were applied, of all that there are or of the next ones.
    Worked { upto: Timestamp, is_all: bool },
    /// Some parts have nothing new.
    Looked,
    /// All parts are read to their ends.
    Idle,
    /// The log lacks changes: only a build brings the index level.
    Hole,
}

/// The next round of one part; breaks where there is none.
pub(crate) async fn next_round(
    at: &IndexAtWork<'_>,
    follower: &mut LogFollower,
) -> Result<ControlFlow<Progress, PartRound>> {
    match follower.next_round(at.serving).await {
        Ok(NextRound::Round(round)) => Ok(Continue(*round)),
        Ok(NextRound::Nothing) => Ok(Break(Progress::Looked)),
        Ok(NextRound::End) => {
            follower.look_again(at.serving);
            Ok(Break(Progress::Idle))
        }
        Err(error) => without_round(error),
    }
}

/// Applies a page of each of several parts. Later changes are read in a new view of the engine, since the task may rest before.
pub(crate) async fn follow(at: &IndexAtWork<'_>, follower: &mut LogFollower) -> Result<Progress> {
    let rounds = match next_rounds(at, follower).await? {
        Continue(rounds) => rounds,
        Break(progress) => return Ok(progress),
    };
    let (mut changes, mut upto, mut newest) = (Vec::new(), Vec::new(), Timestamp::default());
    let mut is_all = true;
    for PartRound { span, mut round } in rounds {
        match round.next_page().await {
            Ok(Some(page)) => {
                changes.extend(changes_of(at, &page.changes)?);
                newest = page.changes.last().map_or(newest, |last| newest.max(last.time));
                is_all &= page.upto == round.upto();
                upto.push((span, page.upto));
            }
            Ok(None) => {}
            // Its part goes on in the partitions that replaced it.
            Err(error) if error.kind() == ErrorKind::PartitionGone => {}
            Err(error) => return Err(error),
        }
    }
    if upto.is_empty() {
        return Ok(Progress::Looked);
    }
    for step in steps(at, changes, upto) {
        at.take(step, follower).await?;
    }
    at.note_position(follower);
    Ok(Progress::Worked { upto: newest, is_all })
}

/// The next rounds, with records; breaks where there are none.
async fn next_rounds(
    at: &IndexAtWork<'_>,
    follower: &mut LogFollower,
) -> Result<ControlFlow<Progress, Vec<PartRound>>> {
    let rounds = match follower.next_rounds(at.serving, PARTS_TOGETHER).await {
        Ok(Some(rounds)) if rounds.is_empty() => return Ok(Break(Progress::Looked)),
        Ok(Some(rounds)) => rounds,
        Ok(None) => {
            follower.look_again(at.serving);
            return Ok(Break(Progress::Idle));
        }
        Err(error) => return without_round(error),
    };
    let operations = OPERATIONS_TOGETHER / rounds.len();
    let ready = rounds.into_iter().map(|PartRound { span, round }| PartRound {
        span,
        round: round.with(Images::Current).in_pages_of(operations),
    });
    Ok(Continue(ready.collect()))
}

fn without_round<R>(error: RoundError) -> Result<ControlFlow<Progress, R>> {
    match error {
        RoundError::Failed(error) => Err(error),
        RoundError::Hole { .. } | RoundError::Ahead { .. } => Ok(Break(Progress::Hole)),
    }
}

/// The rows of a page's changes, and the rows that ended with them.
fn changes_of(at: &IndexAtWork<'_>, changes: &[LogChange]) -> Result<Vec<ItemChange>> {
    let schema = &at.source.shape;
    let (mut seen, mut found) = (BTreeSet::new(), Vec::with_capacity(changes.len()));
    for change in changes {
        let (logical, id) = item_of_position(&change.key)?;
        let newest = match &change.new {
            Image::Record(record) if seen.insert(change.key.clone()) => {
                let item = StoredItem::decode(record.clone(), schema)?;
                let rows = at.rows.rows_of(&item.view(), &logical.partition_key);
                let refusal = rows.refused.into_iter().next().map(|reason| Refusal {
                    key: partition_key_text(&logical.partition_key),
                    id: id.clone(),
                    reason,
                });
                at.entry.status.live().note_item(change.key.clone(), refusal);
                Some((item.lsn(), rows.rows))
            }
            Image::Gone | Image::NotAsked => {
                at.entry.status.live().note_item(change.key.clone(), None);
                None
            }
            _ => None,
        };
        // Rows of items whose time to live has ended may be wanted longer than their items.
        let keeps = change.kind == ChangeKind::Expire && at.record.settings.expired == ExpiredRows::Keep;
        let ended = change.ended.iter().filter(|ended| ended.copy == at.record.number && !keeps);
        let ended = ended.map(|ended| shardlake_router::EndedIndexRow::decode(&ended.row));
        let ended = ended.collect::<Result<_>>()?;
        found.push(ItemChange { lsn: change.lsn, logical, newest, ended });
    }
    Ok(found)
}

impl IndexAtWork<'_> {
    async fn take(&self, step: Step<Vec<(KeyRange, u64)>>, follower: &mut LogFollower) -> Result<()> {
        match step {
            Step::Write(rows) | Step::End(rows) => self.apply(rows).await,
            Step::Done(parts) => {
                parts.iter().for_each(|(span, upto)| follower.done(span, *upto));
                Ok(())
            }
        }
    }
}
