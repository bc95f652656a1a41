//! Items in the order of an index: the entries of a path or of a composite index, forwards or backwards, and before them (or,
//! descending, behind them) the items that lack the property, which have no entry unless the path is included explicitly.
//!
//! Items that lack it are found by a scan, which a counter of the path's items often shows to be needless: a partition counts
//! a path from the first time that somebody orders by it. Strings too long for the index have equal entries; such a group is
//! loaded and sorted by the strings themselves.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use bytes::Bytes;
use shardlake_document::{Value, compare, encode_index_value};
use shardlake_model::{Error, IndexPathSegment, Result};
use shardlake_sql::{IndexRef, OrderAccess, ValueRange};
use shardlake_storage::ScanOptions;

use super::position::{KeyPosition, OrderedPosition, Place};
use super::scan::Resumed;
use super::spans::Posting;
use super::{Ended, Feed, Last, QueryStatistics, Reader};
use crate::feed::matches_filter;
use crate::index::{self, is_cut_string};
use crate::item::StoredItem;
use crate::keys::{self, HEADER};

/// Ordinals kept at a time of items without the property, where a part of the partition is in scope.
const RUN_MAX: usize = 4096;
/// Items with the same long start of a string that are sorted in memory.
const GROUP_MAX: usize = 10_000;

pub(super) struct Ordered<'p> {
    order: &'p OrderAccess,
    /// Items without the property come into question.
    undefined: bool,
    at: Option<OrderedPosition>,
}

impl<'p> Ordered<'p> {
    /// Also says whether the path's items should be counted from now on.
    pub async fn open(
        reader: &mut Reader<'p>,
        order: &'p OrderAccess,
        at: Option<OrderedPosition>,
    ) -> Result<(Ordered<'p>, Option<(u16, u64)>)> {
        let (mut undefined, mut wants_counter) = (false, None);
        let layout =
            reader.layout.clone().ok_or_else(|| Error::internal("an ordered access without an index"))?;
        if let IndexRef::Path(path) = &order.index
            && order.includes_undefined
            && !layout.writes_undefined(path)
        {
            let path_hash = index::path_hash(path);
            let key = index::counter_key(reader.partition.uid, layout.id, path_hash);
            match reader.snapshot.get(&key).await.map_err(crate::storage_error)? {
                Some(count) => undefined = index::decode_counter(&count)? < reader.items_total().await?,
                None => (undefined, wants_counter) = (true, Some((layout.id, path_hash))),
            }
        }
        Ok((Ordered { order, undefined, at }, wants_counter))
    }
}

pub(super) async fn run(reader: &mut Reader<'_>, feed: &mut Feed<'_>, ordered: Ordered<'_>) -> Result<Ended> {
    let Ordered { order, undefined, at } = ordered;
    let from = feed.execution.resumes_at().filter(|_| at.is_none());
    let order = &narrowed(order, from.as_ref());
    let is_past_undefined = !order.reverse && matches!(&from, Some((value, _)) if !value.is_undefined());
    let undefined = undefined && !is_past_undefined;
    let (in_undefined, in_postings) = match at {
        None => (None, None),
        Some(OrderedPosition::Undefined(ordinal)) => (Some(ordinal), None),
        Some(OrderedPosition::Postings(place)) => (None, Some(place)),
    };
    let starts_with_postings = in_postings.is_some() || (order.reverse && in_undefined.is_none());
    let undefined = undefined || in_undefined.is_some();
    if order.reverse {
        if starts_with_postings && let Some(ended) = run_postings(reader, feed, order, in_postings).await? {
            return Ok(ended);
        }
        if undefined {
            return run_undefined(reader, feed, order, in_undefined).await;
        }
        return Ok(Ended::Exhausted);
    }
    if undefined && !starts_with_postings {
        match run_undefined(reader, feed, order, in_undefined).await? {
            Ended::Exhausted => {}
            ended => return Ok(ended),
        }
    }
    Ok(run_postings(reader, feed, order, in_postings).await?.unwrap_or(Ended::Exhausted))
}

/// The rest of the walk when rows up to a sort key are out already: there is no use in walking over those again.
fn narrowed(order: &OrderAccess, from: Option<&(Value, bool)>) -> OrderAccess {
    let mut order = order.clone();
    let Some((value, is_start)) = from else { return order };
    // Behind members that the filter fixes, the order's own key does not come first.
    if matches!(order.index, IndexRef::Composite(_)) && order.range.is_some() {
        return order;
    }
    let mut bytes = Vec::new();
    let is_whole = encode_index_value(value, &mut bytes);
    if *is_start && is_whole {
        bytes.pop();
    }
    let whole = ValueRange { start: vec![], end: vec![0xFF; 3] };
    let mut range = order.range.take().unwrap_or(whole);
    if order.reverse {
        range.end = range.end.min(keys::after_prefix(&bytes));
    } else {
        range.start = range.start.max(bytes);
    }
    order.range = Some(range);
    order
}

/// The items without the property, in the order of their ordinals as the entries of an index would have it: clients that merge
/// tell by it which rows of equal sort keys they have had.
async fn run_undefined(
    reader: &mut Reader<'_>,
    feed: &mut Feed<'_>,
    order: &OrderAccess,
    after: Option<u64>,
) -> Result<Ended> {
    let IndexRef::Path(path) = &order.index else { return Ok(Ended::Exhausted) };
    if !reader.covers_partition() {
        return run_undefined_of_scope(reader, feed, order, after).await;
    }
    let uid = reader.partition.uid;
    let (mut start, mut end) = (keys::ordinal_key(uid, 0), keys::ordinal_key(uid, u64::MAX));
    match after {
        Some(ordinal) if order.reverse => end = keys::ordinal_key(uid, ordinal),
        Some(ordinal) => start = keys::ordinal_key(uid, ordinal.saturating_add(1)),
        None => {}
    }
    let mut scan = reader.snapshot.scan(start..end, ScanOptions { reverse: order.reverse, limit: None });
    while let Some(chunk) = scan.next_chunk().await.map_err(crate::storage_error)? {
        for (key, item_key) in chunk {
            let ordinal = ordinal_of(&key)?;
            if let Some(ended) = offer_undefined(reader, feed, path, (ordinal, &item_key)).await? {
                return Ok(ended);
            }
            feed.last = Some(Last::OrderedItem(ordinal));
        }
        if let Some(ended) = reader.pause(feed, None)? {
            return Ok(ended);
        }
        tokio::task::yield_now().await;
    }
    Ok(Ended::Exhausted)
}

/// The same where only a part of the partition is in scope: reads all of that, a run of ordinals at a time.
async fn run_undefined_of_scope(
    reader: &mut Reader<'_>,
    feed: &mut Feed<'_>,
    order: &OrderAccess,
    mut after: Option<u64>,
) -> Result<Ended> {
    let IndexRef::Path(path) = &order.index else { return Ok(Ended::Exhausted) };
    loop {
        let run = undefined_ordinals(reader, order, after).await?;
        for (ordinal, item_key) in &run {
            if let Some(ended) = offer_undefined(reader, feed, path, (*ordinal, item_key)).await? {
                return Ok(ended);
            }
            feed.last = Some(Last::OrderedItem(*ordinal));
        }
        if run.len() < RUN_MAX {
            return Ok(Ended::Exhausted);
        }
        if let Some(ended) = reader.pause(feed, None)? {
            return Ok(ended);
        }
        after = run.last().map(|(ordinal, _)| *ordinal);
    }
}

/// The first ordinals in scope behind one, of items without the property, with the items' keys.
async fn undefined_ordinals(
    reader: &Reader<'_>,
    order: &OrderAccess,
    after: Option<u64>,
) -> Result<Vec<(u64, Bytes)>> {
    let IndexRef::Path(path) = &order.index else { return Ok(vec![]) };
    // Backwards, the largest come first.
    let place = |ordinal: u64| if order.reverse { !ordinal } else { ordinal };
    let mut nearest: BinaryHeap<(u64, Bytes)> = BinaryHeap::new();
    let (start, end) = reader.scope_range();
    let mut scan = reader.snapshot.scan(start..end, ScanOptions::default());
    while let Some(chunk) = scan.next_chunk().await.map_err(crate::storage_error)? {
        for (key, value) in chunk {
            if !matches_filter(reader.request.filter, &key)? {
                continue;
            }
            let item = StoredItem::decode(value, reader.shape)?;
            let at = place(item.envelope().ordinal);
            let is_behind = after.is_none_or(|after| at > place(after));
            let is_near = nearest.len() < RUN_MAX || nearest.peek().is_some_and(|(last, _)| at < *last);
            if !is_behind || !is_near || property(reader, &item, path).is_some() {
                continue;
            }
            // A slice would keep the whole chunk.
            nearest.push((at, Bytes::copy_from_slice(&key[HEADER..])));
            if nearest.len() > RUN_MAX {
                nearest.pop();
            }
        }
        reader.check_interrupted()?;
        tokio::task::yield_now().await;
    }
    Ok(nearest.into_sorted_vec().into_iter().map(|(at, key)| (place(at), key)).collect())
}

/// Offers an item if it lacks the property; `Some` ends the feeding.
async fn offer_undefined(
    reader: &mut Reader<'_>,
    feed: &mut Feed<'_>,
    path: &[IndexPathSegment],
    (ordinal, item_key): (u64, &[u8]),
) -> Result<Option<Ended>> {
    let before = reader.statistics;
    let item = reader.item_at(item_key).await?;
    // Only what belongs here counts: a counter that shows there is nothing to look for must not change the charge.
    reader.statistics = before;
    let Some(item) = item.filter(|item| property(reader, item, path).is_none()) else { return Ok(None) };
    reader.statistics.items_scanned += 1;
    reader.statistics.items_scanned_bytes += item.json_size_bytes() as u64;
    feed.offer(reader, &item.view(), false, before, || Last::OrderedItem(ordinal))
}

fn ordinal_of(key: &[u8]) -> Result<u64> {
    let bytes = key.get(HEADER..).and_then(|bytes| bytes.try_into().ok());
    bytes.map(u64::from_be_bytes).ok_or_else(crate::malformed_key)
}

/// The value that an item is ordered by; `None` when it has none.
fn property(reader: &Reader<'_>, item: &StoredItem, path: &[IndexPathSegment]) -> Option<Value> {
    if let [IndexPathSegment::Name(name)] = path
        && let Some(layout) = &reader.layout
        && let Some(value) = layout.computed_value(name, &item.view())
    {
        return (!value.is_undefined()).then_some(value);
    }
    let mut names = Vec::with_capacity(path.len());
    for segment in path {
        let IndexPathSegment::Name(name) = segment else { return None };
        names.push(name.as_str());
    }
    if names == ["_ts"] {
        return Some(Value::Int(item.envelope().timestamp_seconds as i64));
    }
    item.body().get_path(&names).map(Value::from_raw)
}

/// The range of postings to walk, as keys.
fn bounds(prefix: &[u8], order: &OrderAccess) -> (Vec<u8>, Vec<u8>) {
    match &order.range {
        Some(range) => ([prefix, &range.start].concat(), [prefix, &range.end].concat()),
        None => (prefix.to_vec(), keys::after_prefix(prefix)),
    }
}

async fn run_postings(
    reader: &mut Reader<'_>,
    feed: &mut Feed<'_>,
    order: &OrderAccess,
    after: Option<Place>,
) -> Result<Option<Ended>> {
    let prefix = reader.prefix_of(&order.index)?;
    let (start, end) = bounds(&prefix, order);
    let mut walk = Walk::new(&prefix, (start, end), order.reverse, after);
    if walk.range.0 >= walk.range.1 {
        return Ok(None);
    }
    let options = ScanOptions { reverse: order.reverse, limit: None };
    let mut scan = reader.snapshot.scan(walk.range.0.clone()..walk.range.1.clone(), options);
    while let Some(chunk) = scan.next_chunk().await.map_err(crate::storage_error)? {
        for (key, _) in chunk {
            if walk.skips(&key)? {
                continue;
            }
            let posting = Posting::parse(&key, prefix.len())?;
            if let Some(ended) = walk.take(reader, feed, order, posting).await? {
                return Ok(Some(ended));
            }
        }
        if walk.group.is_empty()
            && let Some(ended) = reader.pause(feed, None)?
        {
            return Ok(Some(ended));
        }
        tokio::task::yield_now().await;
    }
    walk.check_found()?;
    walk.emit_group(reader, feed, order).await
}

/// A walk over postings in one direction.
struct Walk {
    prefix_length: usize,
    range: (Vec<u8>, Vec<u8>),
    reverse: bool,
    resumed: Option<Resumed>,
    /// Postings with the same cut string, in the order met.
    group: Vec<Posting>,
    /// What was counted before the first of them was read.
    before_group: QueryStatistics,
    /// How far their values are alike.
    cut_at: usize,
    /// How many of the first group were dealt with on the page before.
    skip: u32,
}

impl Walk {
    fn new(prefix: &[u8], range: (Vec<u8>, Vec<u8>), reverse: bool, after: Option<Place>) -> Walk {
        let mut walk = Walk {
            prefix_length: prefix.len(),
            range,
            reverse,
            resumed: None,
            group: Vec::new(),
            before_group: QueryStatistics::default(),
            cut_at: 0,
            skip: 0,
        };
        let Some(place) = after else { return walk };
        walk.skip = place.skip;
        match (&place.after, reverse) {
            // Inside a group of cut strings: the group is read again from its start.
            (KeyPosition::Key(key), _) if place.skip > 0 => {
                let value = [prefix, &key[..key.len().saturating_sub(8)]].concat();
                if reverse {
                    walk.range.1 = keys::after_prefix(&value).min(walk.range.1);
                } else {
                    walk.range.0 = value.max(walk.range.0);
                }
            }
            (KeyPosition::Key(key), true) => walk.range.1 = [prefix, key].concat().min(walk.range.1),
            (position, false) => {
                let resumed = Resumed::after(prefix, position);
                walk.range.0 = resumed.start.clone().max(walk.range.0);
                walk.resumed = Some(resumed);
            }
            (KeyPosition::Cut { start, .. }, true) => {
                let start = [prefix, start].concat();
                walk.range.1 = keys::after_prefix(&start).min(walk.range.1);
                walk.resumed = Some(Resumed::after(prefix, &place.after));
            }
        }
        walk
    }

    fn skips(&mut self, key: &[u8]) -> Result<bool> {
        match &mut self.resumed {
            Some(resumed) => resumed.skips(key, self.prefix_length),
            None => Ok(false),
        }
    }

    fn check_found(&self) -> Result<()> {
        self.resumed.as_ref().map_or(Ok(()), Resumed::check_found)
    }

    /// Deals with a posting, or keeps it until its group is complete.
    async fn take(
        &mut self,
        reader: &mut Reader<'_>,
        feed: &mut Feed<'_>,
        order: &OrderAccess,
        posting: Posting,
    ) -> Result<Option<Ended>> {
        let end_of_cut = end_of_cut(reader, order, posting.value());
        let alike = |first: &Posting| {
            end_of_cut.is_some_and(|end| first.value().get(..end) == Some(&posting.value()[..end]))
        };
        let is_other = self.group.first().is_some_and(|first| !alike(first));
        if is_other && let Some(ended) = self.emit_group(reader, feed, order).await? {
            return Ok(Some(ended));
        }
        let before = reader.statistics;
        reader.statistics.postings_read += 1;
        if let Some(end) = end_of_cut {
            if self.group.len() == GROUP_MAX {
                return Err(Error::bad_request(format!(
                    "ORDER BY met more than {GROUP_MAX} strings with the same first 120 bytes: filter them, or order by something shorter"
                )));
            }
            if self.group.is_empty() {
                self.before_group = before;
                self.cut_at = end;
            }
            self.group.push(posting);
            return Ok(None);
        }
        let last = || Last::Posting { branch: 0, range: 0, key: posting.key.clone(), skip: 0, ordered: true };
        let Some(item) = reader.item_of(posting.ordinal).await? else {
            feed.last = Some(last());
            return Ok(None);
        };
        let is_proven = order.exact && reader.request.access.precise;
        feed.offer(reader, &item.view(), is_proven, before, last)
    }

    /// Sorts the items of a group by their own values and offers them.
    async fn emit_group(
        &mut self,
        reader: &mut Reader<'_>,
        feed: &mut Feed<'_>,
        order: &OrderAccess,
    ) -> Result<Option<Ended>> {
        let group = std::mem::take(&mut self.group);
        let Some(first) = group.first() else { return Ok(None) };
        // A position inside a group names what its entries have in common, and no ordinal.
        let key = Bytes::from([&first.value()[..self.cut_at], &[0; 8]].concat());
        let mut items = Vec::with_capacity(group.len());
        for posting in group {
            if let Some(item) = reader.item_of(posting.ordinal).await? {
                items.push((posting.ordinal, item));
            }
        }
        items.sort_by(|left, right| {
            let ascending = compare_items(reader, order, &left.1, &right.1).then(left.0.cmp(&right.0));
            if self.reverse { ascending.reverse() } else { ascending }
        });
        let done = std::mem::take(&mut self.skip) as usize;
        // A page that ends in the group reads all of it again: each item counts when it goes out.
        reader.statistics = self.before_group;
        for (index, (_, item)) in items.iter().enumerate().skip(done) {
            let before = reader.statistics;
            reader.statistics.postings_read += 1;
            reader.statistics.items_loaded += 1;
            reader.statistics.items_loaded_bytes += item.json_size_bytes() as u64;
            let last = || Last::Posting {
                branch: 0,
                range: 0,
                key: key.clone(),
                skip: index as u32 + 1,
                ordered: true,
            };
            if let Some(ended) = feed.offer(reader, &item.view(), false, before, last)? {
                return Ok(Some(ended));
            }
        }
        Ok(None)
    }
}

/// Where the first string of an entry ends that the index holds only the start of.
fn end_of_cut(reader: &Reader<'_>, order: &OrderAccess, value: &[u8]) -> Option<usize> {
    match &order.index {
        IndexRef::Path(_) => is_cut_string(value).then_some(value.len()),
        IndexRef::Composite(number) => reader.layout.as_ref()?.composites[*number].end_of_cut(value),
    }
}

/// The order of two items in the index, if it held all of their values.
fn compare_items(
    reader: &Reader<'_>,
    order: &OrderAccess,
    left: &StoredItem,
    right: &StoredItem,
) -> Ordering {
    match (&order.index, &reader.layout) {
        (IndexRef::Composite(number), Some(layout)) => {
            layout.composites[*number].compare(&left.view(), &right.view(), &layout.computed)
        }
        (IndexRef::Path(path), _) => {
            let value = |item| property(reader, item, path).unwrap_or_default();
            compare(&value(left), &value(right))
        }
        _ => Ordering::Equal,
    }
}
