//! Items named by ranges of the index, one range after the other.
//!
//! An option of an access plan is a list of leaves that together cover the filter: each is a branch. An item can be met again,
//! by a later branch or by another of its values under the same path; it is dealt with where it is met first, which its own
//! values tell. So nothing is remembered from one item to the next, and a position is one posting.

use bytes::Bytes;
use rustc_hash::FxHashSet;
use shardlake_document::decode_index_value;
use shardlake_index::path_hash;
use shardlake_model::{Error, Result};
use shardlake_sql::{IndexRef, Leaf, Meter};
use shardlake_storage::{Row, Scan, ScanOptions};

use super::ahead::Ahead;
use super::lookup::is_many_valued;
use super::position::Place;
use super::scan::Resumed;
use super::{Ended, Feed, Last, Reader};
use crate::index;

/// What it takes to find the start of a range.
pub(super) const STEPS_OF_SCAN: u64 = 100;

pub(super) struct Spans<'p> {
    pub branches: Vec<&'p Leaf>,
    pub after: Option<Place>,
    /// The branches say exactly what `WHERE` says.
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

/// A posting: the part of its key behind the path, and that part's two halves.
pub(super) struct Posting {
    pub key: Bytes,
    pub ordinal: u64,
}

impl Posting {
    pub fn value(&self) -> &[u8] {
        &self.key[..self.key.len() - 8]
    }

    pub fn parse(key: &Bytes, common: usize) -> Result<Posting> {
        let key = key.slice(common..);
        let ordinal = key.last_chunk::<8>().ok_or_else(crate::malformed_key)?;
        Ok(Posting { ordinal: u64::from_be_bytes(*ordinal), key })
    }
}

impl Reader<'_> {
    /// What all postings of a leaf start with.
    pub fn prefix_of(&self, index: &IndexRef) -> Result<Vec<u8>> {
        let layout =
            self.layout.as_ref().ok_or_else(|| Error::internal("an index access without an index"))?;
        let path_hash = match index {
            IndexRef::Path(path) => path_hash(path),
            IndexRef::Composite(number) => layout.composite_hash(*number),
        };
        Ok(index::index_prefix(self.partition.uid, layout.id, path_hash))
    }
}

pub(super) async fn run(reader: &mut Reader<'_>, feed: &mut Feed<'_>, mut spans: Spans<'_>) -> Result<Ended> {
    let after = spans.after.take();
    let first_branch = after.as_ref().map_or(0, |place| usize::from(place.branch));
    for branch in first_branch..spans.branches.len() {
        let leaf = spans.branches[branch];
        let resumed = after.as_ref().filter(|place| usize::from(place.branch) == branch);
        let first_range = resumed.map_or(0, |place| usize::from(place.range));
        for range in first_range..leaf.ranges.len() {
            let resumed = resumed.filter(|place| usize::from(place.range) == range);
            if let Some(ended) = run_range(reader, feed, &mut spans, (branch, range), resumed).await? {
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
    (branch, range): (usize, usize),
    after: Option<&Place>,
) -> Result<Option<Ended>> {
    let leaf = spans.branches[branch];
    let prefix = reader.prefix_of(&leaf.index)?;
    let start = [&prefix[..], &leaf.ranges[range].start].concat();
    let end = [&prefix[..], &leaf.ranges[range].end].concat();
    let mut resumed = match after {
        // A client's token may lie before the range, where no condition was looked at.
        Some(place) => Resumed::after(&prefix, &place.after).not_before(start),
        None => Resumed::from(start),
    };
    if resumed.start >= end {
        return Ok(None);
    }
    reader.check_interrupted()?;
    reader.request.work.meter().add(STEPS_OF_SCAN);
    let (mut scan, mut begun) = match spans.begun.take() {
        Some(Begun { rows, scan }) if (branch, range) == (0, 0) => (scan, Some(rows)),
        _ => (reader.hot.scan(resumed.start.clone()..end, ScanOptions::default()), None),
    };
    loop {
        let chunk = match begun.take().filter(|rows| !rows.is_empty()) {
            None => scan.next_chunk().await.map_err(crate::storage_error)?,
            begun => begun,
        };
        let Some(chunk) = chunk else { break };
        let examined = chunk.last().map(|(key, _)| key.slice(prefix.len()..));
        let mut rows = chunk.into_iter();
        while !rows.as_slice().is_empty() {
            let wanted = spans.ahead.next(reader, feed, spans.exact);
            let met =
                meet(reader, (leaf, spans.others.as_ref()), &mut rows, wanted, (&mut resumed, prefix.len()))
                    .await?;
            for met in met {
                if let Some(ended) = offer(reader, feed, spans, (branch, range), met)? {
                    return Ok(Some(ended));
                }
            }
        }
        let examined =
            examined.map(|key| Last::Posting { branch, range, key, in_group: false, ordered: false });
        if let Some(ended) = reader.pause(feed, examined)? {
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
    /// Of its item, where that comes into question.
    record: Option<Bytes>,
    /// What it took to find that out.
    steps: u64,
}

/// The next postings, up to so many that come into question, with the items of those.
async fn meet(
    reader: &Reader<'_>,
    (leaf, others): (&Leaf, Option<&FxHashSet<u64>>),
    rows: &mut impl Iterator<Item = Row>,
    wanted: usize,
    (resumed, common): (&mut Resumed, usize),
) -> Result<Vec<Met>> {
    let (mut met, mut candidates) = (Vec::with_capacity(wanted), Vec::with_capacity(wanted));
    while candidates.len() < wanted
        && let Some((key, _)) = rows.next()
    {
        if resumed.skips(&key, common)? {
            continue;
        }
        let posting = Posting::parse(&key, common)?;
        let meter = Meter::default();
        let is_candidate = reader.passes_test(leaf, posting.value(), &meter)?
            && others.is_none_or(|others| others.contains(&posting.ordinal));
        if is_candidate {
            candidates.push((met.len(), posting.ordinal));
        }
        met.push(Met { posting, record: None, steps: meter.steps() });
    }
    let records = reader.records_of(candidates.iter().map(|(_, ordinal)| *ordinal)).await?;
    for ((place, _), record) in candidates.into_iter().zip(records) {
        met[place].record = record;
    }
    Ok(met)
}

fn offer(
    reader: &mut Reader<'_>,
    feed: &mut Feed<'_>,
    spans: &Spans<'_>,
    (branch, range): (usize, usize),
    Met { posting, record, steps }: Met,
) -> Result<Option<Ended>> {
    let leaf = spans.branches[branch];
    let before = reader.statistics;
    reader.statistics.postings_read += 1;
    reader.request.work.meter().add(steps);
    let item = record.map(|record| reader.load(record)).transpose()?.flatten();
    let item = match item {
        Some(item) if is_met_before(reader, spans, (branch, range), &posting, &item)? => None,
        item => item,
    };
    let last = || Last::Posting { branch, range, key: posting.key.clone(), in_group: false, ordered: false };
    let Some(item) = item else {
        feed.last = Some(last());
        return Ok(None);
    };
    // A test cannot see all of a cut value.
    let is_proven = spans.exact && (leaf.test.is_none() || decode_index_value(posting.value()).is_some());
    feed.offer(reader, &item.view(), is_proven, before, last)
}

/// Whether an earlier branch, or an earlier posting of this one, has named the item already.
fn is_met_before(
    reader: &Reader<'_>,
    spans: &Spans<'_>,
    (branch, range): (usize, usize),
    posting: &Posting,
    item: &crate::item::StoredItem,
) -> Result<bool> {
    let Some(layout) = &reader.layout else { return Ok(false) };
    let leaf = spans.branches[branch];
    if is_many_valued(leaf) {
        let first = reader.first_match(leaf, item, layout)?;
        if first.is_some_and(|(least, value)| (least, &value[..]) != (range, posting.value())) {
            return Ok(true);
        }
    }
    for earlier in &spans.branches[..branch] {
        if reader.first_match(earlier, item, layout)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}
