//! Rounds: pages of the source's log, applied to the index one after the other.

use std::collections::BTreeSet;
use std::ops::ControlFlow::{self, Break, Continue};

use shardlake_change_log::{LogFollower, NextRound, PartRound};
use shardlake_document::partition_key_text;
use shardlake_model::{ErrorKind, ExpiredRows, Result};
use shardlake_partition::{ChangeKind, Image, Images, LogChange, RoundError, StoredItem, item_of_position};
use shardlake_routing::KeyRange;

use crate::at_work::IndexAtWork;
use crate::plan::{ItemChange, Step, steps};
use crate::status::Refusal;

/// Operations of one page.
pub(crate) const PAGE_OPERATIONS: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    Worked,
    /// One part has nothing new.
    Looked,
    /// All parts are read to their ends.
    Idle,
    /// The log lacks changes: only a build brings the index level.
    Hole,
}

/// The next round; breaks where there is none.
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
        Err(RoundError::Failed(error)) => Err(error),
        Err(RoundError::Hole { .. } | RoundError::Ahead { .. }) => Ok(Break(Progress::Hole)),
    }
}

/// Applies one round of one part.
pub(crate) async fn follow(at: &IndexAtWork<'_>, follower: &mut LogFollower) -> Result<Progress> {
    let PartRound { span, round } = match next_round(at, follower).await? {
        Continue(round) => round,
        Break(progress) => return Ok(progress),
    };
    let mut round = round.with(Images::Current).in_pages_of(PAGE_OPERATIONS);
    loop {
        let page = match round.next_page().await {
            Ok(Some(page)) => page,
            Ok(None) => return Ok(Progress::Worked),
            // Its part goes on in the partitions that replaced it.
            Err(error) if error.kind() == ErrorKind::PartitionGone => return Ok(Progress::Worked),
            Err(error) => return Err(error),
        };
        let changes = changes_of(at, &page.changes)?;
        for step in steps(at, changes, page.upto) {
            at.take(step, follower, &span).await?;
        }
        at.note_position(follower);
        if at.is_interrupted() {
            return Ok(Progress::Worked);
        }
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
    async fn take(&self, step: Step, follower: &mut LogFollower, span: &KeyRange) -> Result<()> {
        match step {
            Step::Write(rows) | Step::End(rows) => self.apply(rows).await,
            Step::Done(upto) => {
                follower.done(span, upto);
                Ok(())
            }
        }
    }
}
