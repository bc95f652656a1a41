//! Looks at groups whose rows are not those of the first view: only rows that differ at one LSN from the items are differences.
//!
//! ```text
//! index has passed p ── rows are read, each true at its LSN r or later ── view of the source at u, with the changes from p on
//! row at r ── changes above r and p ── row at u: compared with the group as the items of the view have it
//! ```
//! The index holds the log from `p` on, so the changes are there. A group is looked at again, a bounded number of times, where this
//! does not decide: its row is not there and it has changed after `p`, or its last known extreme has left.

use std::collections::BTreeMap;

use shardlake_change_log::{LogPart, LogPosition};
use shardlake_model::{Error, ErrorKind, Result};
use shardlake_partition::{CopyBatch, Images, LogicalKey, Partition, logical_name};
use shardlake_router::partition_of;
use shardlake_routing::Epk;
use shardlake_storage::{PacedWork, Shard};

use super::differences::difference;
use super::judge::{Expected, Verdict};
use super::span::span_of;
use crate::Copies;
use crate::at_work::IndexAtWork;
use crate::follow::PAGE_OPERATIONS;
use crate::groups::{Counting, Gathered, StoredRow, TooManyGroups, advance, count, stored_rows};
use crate::reads::position_of;
use crate::verification::{DIFFERENCES_LISTED, Difference};

/// Looks at one group.
pub(super) const LOOKS_MAX: usize = 16;
/// Groups that are looked at together, with their rows.
const GROUPS_TOGETHER: usize = 4096;

/// Differences of a chunk. They count once the chunk is compared as a whole.
#[derive(Default)]
pub(super) struct Found {
    pub count: u64,
    /// The first of them.
    pub listed: Vec<Difference>,
    /// Groups that changed during each look.
    pub undecided: u64,
}

impl Found {
    pub fn add(&mut self, difference: impl FnOnce() -> Difference) {
        self.count += 1;
        if self.listed.len() < DIFFERENCES_LISTED {
            self.listed.push(difference());
        }
    }
}

/// Groups to be looked at, by logical partitions of the source.
#[derive(Default)]
pub(super) struct Suspects(BTreeMap<Vec<u8>, (LogicalKey, Vec<Suspect>)>);

/// Id and place of a row.
pub(super) type Suspect = (String, LogicalKey);

impl Suspects {
    pub fn add(&mut self, source: &LogicalKey, suspect: Suspect) {
        let of_source = || (source.clone(), Vec::new());
        self.0.entry(logical_name(source)).or_insert_with(of_source).1.push(suspect);
    }

    pub async fn look(self, copies: &Copies, at: &IndexAtWork<'_>, found: &mut Found) -> Result<()> {
        let mut work = Shard::paced_work(at.serving.shards(), 1);
        for (source, suspects) in self.0.into_values() {
            for suspects in suspects.chunks(GROUPS_TOGETHER) {
                look_until_decided((copies, at), &source, suspects.to_vec(), found, &mut work).await?;
            }
        }
        Ok(())
    }
}

async fn look_until_decided(
    (copies, at): (&Copies, &IndexAtWork<'_>),
    source: &LogicalKey,
    mut suspects: Vec<Suspect>,
    found: &mut Found,
    work: &mut PacedWork,
) -> Result<()> {
    for _ in 0..LOOKS_MAX {
        let upto = look(at, source, &mut suspects, found, work).await?;
        if suspects.is_empty() {
            return Ok(());
        }
        let span = span_of(&source.epk.0);
        let entry = copies.entry_of(at.entry.index)?;
        copies.reach(&entry, LogPosition::new(vec![LogPart { span, after: upto }])).await?;
    }
    found.undecided += suspects.len() as u64;
    Ok(())
}

/// Looks once, and leaves the suspects that this does not decide. Returns the LSN of the view.
async fn look(
    at: &IndexAtWork<'_>,
    source: &LogicalKey,
    suspects: &mut Vec<Suspect>,
    found: &mut Found,
    work: &mut PacedWork,
) -> Result<u64> {
    let after = passed(at, &source.epk)?;
    let mut rows = BTreeMap::new();
    for names in suspects.chunks(CopyBatch::ROWS_MAX) {
        let names = names.iter().map(|(id, place)| (place.clone(), id.clone())).collect();
        rows.extend(stored_rows(at, names).await?);
    }
    let mut routing = at.serving.routing_of(at.source.clone());
    let view = loop {
        let partition = partition_of(&routing.entry, source).clone();
        let view = View::read(at, partition.hosted().partition(), (source, after), suspects, work).await;
        if !routing.has_moved(&view).await? {
            break view?;
        }
    };
    // Of a row of another generation nothing follows.
    at.check_same()?;
    suspects.retain(|(id, place)| match view.verdict(at, source, id, rows.get(id)) {
        Verdict::Undecided => true,
        Verdict::Same => false,
        Verdict::Different { kind, expected, found: stored } => {
            found.add(|| difference(kind, String::new(), (place, id), (expected, stored)));
            false
        }
    });
    Ok(view.upto)
}

/// The LSN that an index has passed, of a logical partition of its source.
fn passed(at: &IndexAtWork<'_>, epk: &Epk) -> Result<u64> {
    at.check_same()?;
    let position = position_of(at.entry, at.record)?.ok_or_else(|| {
        Error::new(ErrorKind::Conflict, "the index does not follow its source: verify it when it is Active")
    })?;
    let part = position.0.parts().iter().find(|part| part.span.contains(epk));
    part.map(|part| part.after)
        .ok_or_else(|| Error::internal("a part of the hash space that no position has"))
}

/// Groups in one view of their logical partition, and the changes before it.
struct View {
    after: u64,
    upto: u64,
    counted: BTreeMap<String, Counting>,
    changes: Gathered,
    /// The changes have more groups than are kept.
    has_too_many: bool,
}

impl View {
    async fn read(
        at: &IndexAtWork<'_>,
        partition: &Partition,
        (source, after): (&LogicalKey, u64),
        suspects: &[Suspect],
        work: &mut PacedWork,
    ) -> Result<View> {
        assert!(suspects.len() <= GROUPS_TOGETHER, "groups of a look are bounded");
        let round = partition.log_round(&span_of(&source.epk.0), after).await?;
        let mut round = round.with(Images::Current).in_pages_of(PAGE_OPERATIONS);
        let (mut changes, mut has_too_many) = (Gathered::default(), false);
        while let Some(page) = round.next_page().await?.filter(|_| !has_too_many) {
            has_too_many = matches!(changes.add(at, &page.changes)?, Err(TooManyGroups));
            work.pause().await;
            at.check_same()?;
        }
        let begin = |(id, place): &Suspect| (id.clone(), Counting::begin(at, place.clone()));
        let mut counted = suspects.iter().map(begin).collect();
        let mut items = round.view().items_of(source);
        while let Some(page) = items.next_page().await? {
            page.iter().try_for_each(|item| count(at, item, &mut counted))?;
            work.pause().await;
            at.check_same()?;
        }
        Ok(View { after, upto: round.upto(), counted, changes, has_too_many })
    }

    fn verdict(
        &self,
        at: &IndexAtWork<'_>,
        source: &LogicalKey,
        id: &str,
        row: Option<&StoredRow>,
    ) -> Verdict {
        let Some(histories) = self.changes.histories().filter(|_| !self.has_too_many) else {
            return Verdict::Undecided;
        };
        let changed = self.changes.groups.get(id);
        let counting = &self.counted[id];
        assert!(counting.keys.is_some() || counting.state.is_empty(), "a group with items has keys");
        let keys = counting.keys.as_deref().unwrap_or_default();
        let expected = Expected { id, source, keys, state: &counting.state };
        let Some(row) = row else { return expected.without_row(at, changed.is_some()) };
        expected.with_row(at, row, self.upto, |state, lsn| {
            let mut items = changed.map(|group| group.items.clone()).unwrap_or_default();
            items.sort_unstable();
            items.dedup();
            let histories = items.iter().map(|number| &histories[*number as usize]);
            advance(state, (id, lsn.max(self.after)), histories)
        })
    }
}
