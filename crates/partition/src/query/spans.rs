//! Items named by ranges of the index, one range after the other.
//!
//! An option of an access plan is a list of leaves that together cover the filter: each is a
//! branch. An item can be met again, by a later branch or by another of its values under the same
//! path; it is dealt with where it is met first, which follows from its own values. So nothing is
//! remembered from one item to the next, and a position is one posting.
//!
//! Behind the ranges of a leaf about array elements comes one more: the items with a summary of that
//! array (`shardlake-index`, `terms.rs`). Such an item has no other posting of the leaf, and its own
//! values decide whether it matches.

use bytes::Bytes;
use rustc_hash::FxHashSet;
use shardlake_document::decode_index_value;
use shardlake_index::summary_term;
use shardlake_model::Result;
use shardlake_sql::{Leaf, Meter};
use shardlake_storage::{Row, Scan, ScanOptions};

use super::ahead::Ahead;
use super::feed::Feed;
use super::lookup::is_many_valued;
use super::position::Place;
use super::postings::{Posting, Range, STEPS_OF_SCAN, summary_of};
use super::reader::{Ended, Last, Reader};
use super::scan::Resumed;
use crate::index;

pub(super) struct Spans<'p> {
    pub branches: Vec<&'p Leaf>,
    pub after: Option<Place>,
    /// The branches are equivalent to `WHERE`.
    pub exact: bool,
    /// A second condition's ordinals, of which every match is one.
    pub others: Option<FxHashSet<u64>>,
    /// The start of the first branch's first range.
    pub begun: Option<Begun>,
    pub ahead: Ahead,
}

/// Rows that were read already, and the scan behind them.
pub(super) struct Begun {
    pub rows: Vec<Row>,
    pub scan: Scan,
}

pub(super) async fn run(reader: &mut Reader<'_>, feed: &mut Feed<'_>, mut spans: Spans<'_>) -> Result<Ended> {
    let after = spans.after.take();
    let first_branch = after.as_ref().map_or(0, |place| usize::from(place.branch));
    for branch in first_branch..spans.branches.len() {
        let leaf = spans.branches[branch];
        let resumed = after.as_ref().filter(|place| usize::from(place.branch) == branch);
        let first_range = resumed.map_or(0, |place| usize::from(place.range));
        for range in first_range..=leaf.ranges.len() {
            let resumed = resumed.filter(|place| usize::from(place.range) == range);
            let Some(range) = Range::of(reader, leaf, (branch, range))? else { continue };
            if let Some(ended) = run_range(reader, feed, &mut spans, range, resumed).await? {
                return Ok(ended);
            }
        }
    }
    Ok(Ended::Exhausted)
}

async fn run_range(
    reader: &mut Reader<'_>,
    feed: &mut Feed<'_>,
    spans: &mut Spans<'_>,
    mut range: Range,
    after: Option<&Place>,
) -> Result<Option<Ended>> {
    let start = std::mem::take(&mut range.start);
    let mut resumed = match after {
        // A client's token may lie before the range, where no condition was looked at.
        Some(place) => Resumed::after(&range.prefix, &place.after).not_before(start),
        None => Resumed::from(start),
    };
    if resumed.start >= range.end {
        return Ok(None);
    }
    reader.check_interrupted()?;
    reader.request.work.meter().add(STEPS_OF_SCAN);
    let end = std::mem::take(&mut range.end);
    let (mut scan, mut begun) = match spans.begun.take() {
        Some(Begun { rows, scan }) if (range.branch, range.range) == (0, 0) => (scan, Some(rows)),
        _ => (reader.hot.scan(resumed.start.clone()..end, ScanOptions::default()), None),
    };
    loop {
        let chunk = match begun.take().filter(|rows| !rows.is_empty()) {
            None => scan.next_chunk().await.map_err(crate::storage_error)?,
            begun => begun,
        };
        let Some(chunk) = chunk else { break };
        let examined = chunk.last().map(|(key, _)| key.slice(range.prefix.len()..));
        let mut rows = chunk.into_iter();
        while !rows.as_slice().is_empty() {
            let wanted = spans.ahead.next(reader, feed, spans.exact && !range.is_summary);
            let sought = (&spans.branches[..], spans.others.as_ref());
            let met = meet(reader, sought, (&range, &mut resumed), &mut rows, wanted).await?;
            for met in met {
                if let Some(ended) = offer(reader, feed, spans, &range, met)? {
                    return Ok(Some(ended));
                }
            }
        }
        let (branch, range) = (range.branch, range.range);
        let examined =
            examined.map(|key| Last::Posting { branch, range, key, in_group: false, ordered: false });
        if let Some(ended) = feed.pause(reader, examined)? {
            return Ok(Some(ended));
        }
        if !scan.is_over() {
            tokio::task::yield_now().await;
        }
    }
    resumed.check_found()?;
    Ok(None)
}

/// A posting on its way to the executor.
struct Met {
    posting: Posting,
    /// The record of its item, where the item is a candidate.
    record: Option<Bytes>,
    /// A summary of the item belongs to an earlier branch.
    is_in_earlier_summary: bool,
    /// Steps for the test of the posting.
    steps: u64,
}

/// The next postings, up to so many that come into question, with the items of those.
async fn meet(
    reader: &Reader<'_>,
    (branches, others): (&[&Leaf], Option<&FxHashSet<u64>>),
    (range, resumed): (&Range, &mut Resumed),
    rows: &mut impl Iterator<Item = Row>,
    wanted: usize,
) -> Result<Vec<Met>> {
    let (leaf, earlier, common) = (branches[range.branch], &branches[..range.branch], range.prefix.len());
    let (mut met, mut candidates) = (Vec::with_capacity(wanted), Vec::with_capacity(wanted));
    while candidates.len() < wanted
        && let Some((key, _)) = rows.next()
    {
        if resumed.skips(&key, common)? {
            continue;
        }
        let posting = Posting::parse(&key, common)?;
        let meter = Meter::default();
        let is_candidate = (range.is_summary || reader.passes_test(leaf, posting.value(), &meter)?)
            && others.is_none_or(|others| others.contains(&posting.ordinal));
        if is_candidate {
            candidates.push((met.len(), posting.ordinal));
        }
        met.push(Met { posting, record: None, is_in_earlier_summary: false, steps: meter.steps() });
    }
    let records = reader.records_of(candidates.iter().map(|(_, ordinal)| *ordinal)).await?;
    for ((place, ordinal), record) in candidates.into_iter().zip(records) {
        met[place].is_in_earlier_summary = match &record {
            Some(record) => has_summary(reader, earlier, record, ordinal).await?,
            None => false,
        };
        met[place].record = record;
    }
    Ok(met)
}

/// Whether an item has a summary that belongs to one of some leaves.
async fn has_summary(reader: &Reader<'_>, leaves: &[&Leaf], record: &[u8], ordinal: u64) -> Result<bool> {
    let Some(layout) = reader.layout.as_ref().filter(|layout| layout.summarises() && !leaves.is_empty())
    else {
        return Ok(false);
    };
    if !layout.may_summarise(record.len()) {
        return Ok(false);
    }
    for leaf in leaves {
        let Some(hash) = summary_of(leaf) else { continue };
        let key = index::posting_key(reader.core.uid, layout.id, &summary_term(hash), ordinal);
        if reader.snapshot.get(&key).await.map_err(crate::storage_error)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn offer(
    reader: &mut Reader<'_>,
    feed: &mut Feed<'_>,
    spans: &Spans<'_>,
    range: &Range,
    met: Met,
) -> Result<Option<Ended>> {
    let Met { posting, record, is_in_earlier_summary, steps } = met;
    let leaf = spans.branches[range.branch];
    let before = reader.statistics;
    reader.statistics.postings_read += 1;
    reader.request.work.meter().add(steps);
    let item = record.map(|record| reader.load(record)).transpose()?.flatten();
    let item = match item {
        Some(item) if is_in_earlier_summary || is_met_before(reader, spans, range, &posting, &item)? => None,
        item => item,
    };
    let (branch, place) = (range.branch, range.range);
    let last =
        || Last::Posting { branch, range: place, key: posting.key.clone(), in_group: false, ordered: false };
    let Some(item) = item else {
        feed.last = Some(last());
        return Ok(None);
    };
    // A test cannot see all of a cut value, and a summary has no value.
    let knows_value = leaf.test.is_none() || decode_index_value(posting.value()).is_some();
    let is_proven = spans.exact && !range.is_summary && knows_value;
    feed.offer(reader, &item.view(), is_proven, before, last)
}

/// Whether an earlier branch, or an earlier posting of this one, has named the item already.
fn is_met_before(
    reader: &Reader<'_>,
    spans: &Spans<'_>,
    range: &Range,
    posting: &Posting,
    item: &crate::item::StoredItem,
) -> Result<bool> {
    let Some(layout) = &reader.layout else { return Ok(false) };
    let leaf = spans.branches[range.branch];
    if is_many_valued(leaf) && !range.is_summary {
        let first = reader.first_match(leaf, item, layout)?;
        if first.is_some_and(|(least, value)| (least, &value[..]) != (range.range, posting.value())) {
            return Ok(true);
        }
    }
    for earlier in &spans.branches[..range.branch] {
        if reader.first_match(earlier, item, layout)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}
