//! One part of the source against an index of groups.
//!
//! ```text
//! source  chunk: view at LSN u ── its groups, counted in passes of bounded memory
//! index   has passed u ── their rows: as counted, or looked at again (looks.rs)
//! index   every row of the part, by its stamp: of a group of the views, or one too many
//! ```
//! A row with a stamp up to `u` that the index has after it has passed `u` is true at `u`. A stamp above `u` is of a later change.

use std::collections::{BTreeMap, HashSet};

use shardlake_change_log::{LogPart, LogPosition};
use shardlake_model::{Error, Result};
use shardlake_partition::{
    CopyBatch, ItemRow, LogicalKey, Partition, RowStamp, StoredItem, item_of_position,
};
use shardlake_routing::{Epk, KeyRange};
use shardlake_storage::PacedWork;

use super::differences::{difference, note, text_of};
use super::extras::{Extra, look_at_extras};
use super::judge::Expected;
use super::looks::{Found, Suspects};
use super::pass::{Name, name_of};
use super::span::{ReadSpan, cut, prefix_of};
use crate::Copies;
use crate::at_work::IndexAtWork;
use crate::groups::{ChunkPasses, CountedGroup, stored_rows};
use crate::verification::DifferenceKind;

/// Groups of one part: some 16 MB of names.
const GROUPS_MAX: usize = 250_000;
/// Items of one view.
const CHUNK_ITEMS: usize = 64_000;

/// The groups of a part of the source.
pub(super) struct GroupPass {
    pub read: ReadSpan,
    names: HashSet<Name>,
    /// The hash of the last item.
    last: Option<Epk>,
    /// Groups that changed during each look.
    pub undecided: u64,
}

impl GroupPass {
    /// Compares the groups of a part with their rows, from the start of a span on, until memory is full.
    pub async fn compare_groups(
        copies: &Copies,
        at: &IndexAtWork<'_>,
        span: &KeyRange,
        work: &mut PacedWork,
    ) -> Result<GroupPass> {
        let (read, names) = (ReadSpan::begin(span), HashSet::new());
        let mut pass = GroupPass { read, names, last: None, undecided: 0 };
        let mut routing = at.serving.routing_of(at.source.clone());
        let mut next = span.min.clone();
        while next < span.max && (pass.names.len() < GROUPS_MAX || !pass.may_end(&next)) {
            at.check_same()?;
            let rest = KeyRange { min: next.clone(), max: span.max.clone() };
            let partition = routing.entry.map.overlapping(&rest).find(|one| one.epk_range().contains(&next));
            let partition = partition.cloned().ok_or_else(no_range)?;
            let mut found = Found::default();
            let partition = partition.hosted().partition();
            let read = pass.compare_chunk((copies, at), partition, &rest, &mut found, work).await;
            if routing.has_moved(&read).await? {
                continue;
            }
            next = read?;
            pass.note(at, found);
        }
        pass.read.end(if next < span.max { cut(&next) } else { next });
        Ok(pass)
    }

    /// Whether a part may end before a hash: no item before it has a hash with the same first bytes.
    fn may_end(&self, next: &Epk) -> bool {
        let min = &self.read.span.min;
        cut(next) > *min && self.last.as_ref().is_none_or(|last| prefix_of(last) < prefix_of(next))
    }

    fn note(&mut self, at: &IndexAtWork<'_>, found: Found) {
        let unlisted = found.count - found.listed.len() as u64;
        found.listed.into_iter().for_each(|difference| note(at, difference));
        at.entry.change_verification(|report| report.differences += unlisted);
        self.undecided += found.undecided;
    }

    /// Compares the groups of a chunk. Returns where the next one begins.
    async fn compare_chunk(
        &mut self,
        (copies, at): (&Copies, &IndexAtWork<'_>),
        partition: &Partition,
        span: &KeyRange,
        found: &mut Found,
        work: &mut PacedWork,
    ) -> Result<Epk> {
        let mut chunk = partition.items_round(span, CHUNK_ITEMS).await?;
        // Of a chunk that has to be read again nothing counts.
        let (mut names, mut items, mut last, mut is_first) = (Vec::new(), 0, None, true);
        let mut passes = ChunkPasses::new(at, || at.check_same());
        loop {
            let groups = passes.next(&mut chunk, work, |seen| {
                items += 1;
                last = Some(seen.logical.epk.clone());
            });
            let Some(groups) = groups.await? else { break };
            let covered = chunk.covered().expect("the chunk is read to its end");
            if std::mem::take(&mut is_first) {
                let position = LogPosition::new(vec![LogPart { span: covered, after: chunk.upto() }]);
                copies.reach(&copies.entry_of(at.entry.index)?, position).await?;
            }
            let suspects = compare_rows(at, groups, (chunk.upto(), &mut names), work).await?;
            suspects.look(copies, at, found).await?;
        }
        let covered = chunk.covered().expect("the chunk is read to its end");
        let next = covered.max.clone();
        self.read.parts.push(LogPart { span: covered, after: chunk.upto() });
        self.names.extend(names);
        self.last = last.or(self.last.take());
        at.entry.change_verification(|report| report.items += items);
        Ok(next)
    }

    /// Looks at every row of the index that may be of the part.
    pub async fn compare_index(
        &mut self,
        copies: &Copies,
        at: &IndexAtWork<'_>,
        work: &mut PacedWork,
    ) -> Result<()> {
        let mut rest = KeyRange::full();
        let mut routing = at.serving.routing_of(at.serving.entry_of_rid(at.entry.index)?);
        while rest.min < rest.max {
            let partition =
                routing.entry.map.overlapping(&rest).find(|one| one.epk_range().contains(&rest.min));
            let partition = partition.cloned().ok_or_else(no_range)?;
            let (mut found, mut later) = (Found::default(), Vec::new());
            let partition = partition.hosted().partition();
            let read = self.read_rows(at, partition, &rest, (&mut found, &mut later), work).await;
            if routing.has_moved(&read).await? {
                continue;
            }
            rest.min = read?;
            look_at_extras(copies, at, later, &mut found, work).await?;
            self.note(at, found);
        }
        Ok(())
    }

    /// Reads one chunk of the index. `later` gets the rows that no group of the views has, and that are of later changes.
    async fn read_rows(
        &self,
        at: &IndexAtWork<'_>,
        partition: &Partition,
        span: &KeyRange,
        (found, later): (&mut Found, &mut Vec<Extra>),
        work: &mut PacedWork,
    ) -> Result<Epk> {
        let index = at.serving.entry_of_rid(at.entry.index)?;
        let mut round = partition.items_round(span, CHUNK_ITEMS).await?;
        while let Some(rows) = round.next_page().await? {
            for rows in rows.chunks(CopyBatch::ROWS_MAX) {
                for ItemRow { key, record } in rows {
                    let (key, id) = item_of_position(key)?;
                    let row = StoredItem::decode(record.clone(), &index.shape)?;
                    self.look_at_row((key, id), &row, found, later);
                }
                at.entry.change_verification(|report| report.rows += rows.len() as u64);
                work.pause().await;
                at.check_same()?;
            }
        }
        Ok(round.covered().expect("the chunk is read to its end").max)
    }

    fn look_at_row(
        &self,
        (key, id): (LogicalKey, String),
        row: &StoredItem,
        found: &mut Found,
        later: &mut Vec<Extra>,
    ) {
        let stamp = RowStamp::of_etag(row.etag());
        if !self.read.has(stamp.source) || self.names.contains(&name_of(&key, &id)) {
            return;
        }
        match self.read.after(stamp.source) {
            Some(after) if stamp.lsn <= after => found.add(|| {
                let sides = (None, Some(text_of(row)));
                difference(DifferenceKind::TooMany, String::new(), (&key, &id), sides)
            }),
            _ => later.push(Extra { key, id, stamp }),
        }
    }
}

/// Compares groups with their rows. Returns those whose rows are others.
async fn compare_rows(
    at: &IndexAtWork<'_>,
    groups: BTreeMap<String, CountedGroup>,
    (upto, names): (u64, &mut Vec<Name>),
    work: &mut PacedWork,
) -> Result<Suspects> {
    let (mut suspects, mut groups) = (Suspects::default(), groups.into_iter().peekable());
    while groups.peek().is_some() {
        let batch: Vec<_> = groups.by_ref().take(CopyBatch::ROWS_MAX).collect();
        let wanted = batch.iter().map(|(id, group)| (group.place.clone(), id.clone())).collect();
        let rows = stored_rows(at, wanted).await?;
        for (id, CountedGroup { place, source, keys, state }) in batch {
            names.push(name_of(&place, &id));
            let expected = Expected { id: &id, source: &source, keys: &keys, state: &state };
            if !rows.get(&id).is_some_and(|row| expected.is_row(at, row, upto)) {
                suspects.add(&source, (id, place));
            }
        }
        work.pause().await;
        at.check_same()?;
    }
    Ok(suspects)
}

fn no_range() -> Error {
    Error::internal("a part of the hash space that no range has")
}
