//! Items of a scope in the order of an index, read from the scope and not from the index: for
//! scopes that are small compared to the number of other entries between their own.
//!
//! All items of the scope are scanned. Each is given the key of its entry, computed from its own
//! values, and the first of them in the order are kept, as many as the page may need; then they are
//! dealt with as if a walk over the index had met them. So a page may change from the walk to this
//! in the middle, the next page starts with the walk again, and positions mean the same in both. An
//! item without the property is given the key of an undefined value, which lies before (or,
//! descending, behind) all others, as such items do.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::ops::Range;

use bytes::Bytes;
use shardlake_document::{ItemView, Record, TypeTag};
use shardlake_index::IndexLayout;
use shardlake_model::{Error, Result};
use shardlake_sql::{IndexRef, OrderAccess};

use super::ahead::Ahead;
use super::feed::Feed;
use super::lookup::for_each_entry;
use super::postings::Posting;
use super::reader::{Ended, Last, Reader, TO_THE_END};
use super::walk::{Walk, end_of_cut, is_proven, offer_undefined};
use crate::feed::matches_filter;

/// Items kept at a time: enough for most pages, and few enough for memory.
const KEPT: Range<u64> = 256..65_536;

/// An item of the scope and its place in the order.
struct Near {
    /// The key of its entry, or the key that an undefined value would have.
    key: Vec<u8>,
    /// It has no entry, because it lacks the property.
    is_undefined: bool,
    item_key: Bytes,
    reverse: bool,
}

impl Near {
    fn ordinal(&self) -> Result<u64> {
        self.key.last_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes)).ok_or_else(crate::malformed_key)
    }
}

impl Ord for Near {
    /// The farthest is the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        let order = self.key.cmp(&other.key);
        if self.reverse { order.reverse() } else { order }
    }
}

impl PartialOrd for Near {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Near {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Near {}

/// The rest of the scope: postings in the walk's range, and items without the property by ordinal.
pub(super) async fn run(
    reader: &mut Reader<'_>,
    feed: &mut Feed<'_>,
    order: &OrderAccess,
    mut walk: Walk,
    mut undefined: Option<Range<u64>>,
) -> Result<Ended> {
    let mut ahead = Ahead::default();
    loop {
        let kept = feed.execution.rows_wanted().clamp(KEPT.start, KEPT.end) as usize;
        let nearest = nearest(reader, feed, order, &walk, undefined.as_ref(), kept).await?;
        let is_rest = nearest.len() < kept;
        let mut rest = &nearest[..];
        while !rest.is_empty() {
            let batch = rest
                .split_off(..rest.len().min(ahead.next(reader, feed, false)))
                .expect("that many are left");
            let records = reader.records_at(batch.iter().map(|near| near.item_key.clone()).collect()).await?;
            for (near, record) in batch.iter().zip(records) {
                if let Some(ended) = take(reader, feed, order, &mut walk, near, record)? {
                    return Ok(ended);
                }
                leave_behind(near, &mut walk, &mut undefined)?;
            }
        }
        if is_rest {
            walk.check_found()?;
            return Ok(walk.emit_group(reader, feed, order)?.unwrap_or(Ended::Exhausted));
        }
        if walk.is_between_groups()
            && let Some(ended) = feed.pause(reader, None)?
        {
            return Ok(ended);
        }
    }
}

/// The first items that are still to come, in order.
async fn nearest(
    reader: &mut Reader<'_>,
    feed: &mut Feed<'_>,
    order: &OrderAccess,
    walk: &Walk,
    undefined: Option<&Range<u64>>,
    kept: usize,
) -> Result<Vec<Near>> {
    let layout =
        reader.layout.clone().ok_or_else(|| Error::internal("an ordered access without an index"))?;
    let is_proven = is_proven(reader, order);
    // Items that later pages read again are not charged again.
    let counts_others = reader.request.resume.is_none();
    let mut nearest: BinaryHeap<Near> = BinaryHeap::with_capacity(kept.min(1024) + 1);
    let mut key = Vec::new();
    let (start, end) = reader.scope.clone();
    let mut scan = reader.hot.scan(start..end, TO_THE_END);
    while let Some(chunk) = scan.next_chunk().await.map_err(crate::storage_error)? {
        let count = chunk.len();
        for (item_key, value) in chunk {
            if !matches_filter(reader.request.filter, &item_key)? {
                continue;
            }
            let record = Record::decode(&value).map_err(crate::corrupt)?;
            reader.statistics.entries_passed += 1;
            let Some(item) = reader.live_view(&record) else { continue };
            let is_undefined = place(&item, order, &layout, &walk.prefix, &mut key);
            let is_to_come = match is_undefined {
                true => undefined.is_some_and(|ordinals| ordinals.contains(&record.envelope.ordinal)),
                false => walk.range.0 <= key && key < walk.range.1,
            };
            let is_near = |farthest: &Near| match order.reverse {
                true => key > farthest.key,
                false => key < farthest.key,
            };
            if !is_to_come || (nearest.len() == kept && !nearest.peek().is_some_and(is_near)) {
                continue;
            }
            // Items of a group of cut strings are all kept, as a walk would meet them: an item
            // without rows may be where a page ended.
            let is_cut = end_of_cut(reader, order, &key[walk.prefix.len()..key.len() - 8]).is_some();
            if !is_proven && !is_cut && !feed.execution.may_have_rows(&item, reader.request.is_interrupted)? {
                reader.statistics.items_scanned += u64::from(counts_others);
                reader.statistics.items_scanned_bytes +=
                    u64::from(counts_others) * u64::from(record.envelope.json_size_bytes);
                continue;
            }
            // A slice would keep the whole chunk.
            let item_key = Bytes::copy_from_slice(&item_key);
            nearest.push(Near { key: key.clone(), is_undefined, item_key, reverse: order.reverse });
            if nearest.len() > kept {
                nearest.pop();
            }
        }
        reader.check_interrupted()?;
        reader.give_way(count).await;
    }
    debug_assert!(nearest.len() <= kept, "no more are kept than a page may need");
    Ok(nearest.into_sorted_vec())
}

/// Writes the key of an item's entry; true when it has none.
fn place(
    item: &ItemView<'_>,
    order: &OrderAccess,
    layout: &IndexLayout,
    prefix: &[u8],
    key: &mut Vec<u8>,
) -> bool {
    key.clear();
    key.extend_from_slice(prefix);
    // A path without array elements, which is all that can be ordered by, has one value.
    for_each_entry(&order.index, item, layout, &mut |value| key.extend_from_slice(value));
    let is_undefined = match &order.index {
        IndexRef::Path(path) => {
            key[prefix.len()..] == [TypeTag::Undefined as u8] && !layout.writes_undefined(path)
        }
        IndexRef::Composite(_) => false,
    };
    key.extend_from_slice(&item.envelope.ordinal.to_be_bytes());
    is_undefined
}

fn take(
    reader: &mut Reader<'_>,
    feed: &mut Feed<'_>,
    order: &OrderAccess,
    walk: &mut Walk,
    near: &Near,
    record: Bytes,
) -> Result<Option<Ended>> {
    if let (true, IndexRef::Path(path)) = (near.is_undefined, &order.index) {
        if let Some(ended) = walk.emit_group(reader, feed, order)? {
            return Ok(Some(ended));
        }
        let ordinal = near.ordinal()?;
        if let Some(ended) = offer_undefined(reader, feed, path, (ordinal, record))? {
            return Ok(Some(ended));
        }
        feed.last = Some(Last::OrderedItem(ordinal));
        return Ok(None);
    }
    if walk.skips(&near.key)? {
        return Ok(None);
    }
    let posting = Posting::parse(&Bytes::copy_from_slice(&near.key), walk.prefix.len())?;
    walk.take_item(reader, feed, order, posting, record)
}

/// Sets the rest of the scope behind an item.
fn leave_behind(near: &Near, walk: &mut Walk, undefined: &mut Option<Range<u64>>) -> Result<()> {
    if near.is_undefined {
        let ordinal = near.ordinal()?;
        if let Some(ordinals) = undefined {
            let (start, end) = (ordinal.saturating_add(1), ordinals.end);
            *ordinals = if near.reverse { ordinals.start..ordinal } else { start..end };
        }
        if near.reverse {
            walk.range = (vec![], vec![]);
        }
        return Ok(());
    }
    if near.reverse {
        walk.range.1.clone_from(&near.key);
        return Ok(());
    }
    *undefined = None;
    walk.range.0.clone_from(&near.key);
    walk.range.0.push(0);
    Ok(())
}
