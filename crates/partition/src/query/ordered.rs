//! Items in the order of an index: the entries of a path or of a composite index, forwards or backwards, and before them (or,
//! descending, behind them) the items that lack the property, which have no entry unless the path is included explicitly.
//!
//! An index holds the entries of all items of the partition. Where the scope is a part of it, a
//! partition key most of all, the entries of others are passed over: no more of them than the scope
//! has items. Then the page continues in the scope itself (`nearest.rs`), because a walk that costs
//! as much as the whole scope has no advantage. So no page does more than twice the work of the
//! better way, whichever that is.
//!
//! Items that lack it are found by a scan, which a counter of the path's items often shows to be needless: a partition counts
//! a path from the first query that orders by it. Strings too long for the index have equal entries, and so have arrays and
//! objects; such a group is loaded and sorted by the values themselves.

use std::cmp::Ordering;
use std::ops::Range;

use bytes::Bytes;
use shardlake_document::Value;
use shardlake_index::{is_cut, path_hash};
use shardlake_model::{Error, IndexPathSegment, Result};
use shardlake_sql::{IndexRef, OrderAccess, SortValue};
use shardlake_storage::{Row, ScanOptions};

use super::ahead::Ahead;
use super::position::{KeyPosition, OrderedPosition, Place};
use super::scan::{Resumed, lost_place};
use super::scope::ScopeItems;
use super::spans::Posting;
use super::start::{Start, narrowed};
use super::{Ended, Feed, Last, QueryStatistics, Reader, nearest};
use crate::index;
use crate::item::StoredItem;
use crate::key_list::KeyList;
use crate::keys::{self, HEADER};

/// Items whose entries are alike that are sorted in memory, and their bytes.
const GROUP_MAX: usize = 10_000;
const GROUP_BYTES_MAX: usize = 256 << 20;

pub(super) struct Ordered<'p> {
    order: &'p OrderAccess,
    /// Items without the property come into question.
    undefined: bool,
    at: Option<OrderedPosition>,
}

impl<'p> Ordered<'p> {
    /// Opens the access. Also returns the path whose items should be counted from now on, if any.
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
            let path_hash = path_hash(path);
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
    let state = feed.execution.resumes_at().filter(|_| at.is_none());
    let starts = Start::all(reader.request.resume_filter.map(|filter| &**filter), state);
    let order = &narrowed(reader, order, &starts);
    let (in_undefined, in_postings) = match at {
        None => (None, None),
        // This page's filter excludes items without the property. Forwards, all other items follow the position; backwards, none does.
        Some(OrderedPosition::Undefined(_)) if !order.includes_undefined => match order.reverse {
            true => return Ok(Ended::Exhausted),
            false => (None, None),
        },
        Some(OrderedPosition::Undefined(ordinal)) => (Some(ordinal), None),
        Some(OrderedPosition::Postings(place)) => (None, Some(place)),
    };
    // Forwards, postings come behind the items without the property, backwards before them.
    let is_in_postings = in_postings.is_some() || (order.reverse && in_undefined.is_none());
    let has_postings = is_in_postings || !order.reverse;
    let undefined = in_undefined.is_some() || (undefined && (order.reverse || in_postings.is_none()));
    let undefined = undefined.then(|| match in_undefined {
        None => 0..u64::MAX,
        Some(ordinal) if order.reverse => 0..ordinal,
        Some(ordinal) => ordinal.saturating_add(1)..u64::MAX,
    });
    let to_come = |ordinals| starts.iter().fold(ordinals, |rest, start| start.undefined(order, rest));
    let undefined = undefined.map(to_come).filter(|ordinals| !ordinals.is_empty());
    let prefix = reader.prefix_of(&order.index)?;
    let mut walk = Walk::new(&prefix, bounds(&prefix, order), order.reverse, in_postings)?;
    if !has_postings {
        walk.range = (vec![], vec![]);
    }
    if !reader.covers_partition() {
        return run_in_scope(reader, feed, order, walk, undefined).await;
    }
    if let Some(undefined) = undefined.clone().filter(|_| !order.reverse)
        && let Some(ended) = run_undefined(reader, feed, order, undefined).await?
    {
        return Ok(ended);
    }
    if let Walked::Ended(ended) = run_postings(reader, feed, order, &mut walk, None).await? {
        return Ok(ended);
    }
    if let Some(undefined) = undefined.filter(|_| order.reverse)
        && let Some(ended) = run_undefined(reader, feed, order, undefined).await?
    {
        return Ok(ended);
    }
    Ok(Ended::Exhausted)
}

/// Items of a part of the partition. Only the items themselves show whether some of them lack the
/// property. So where such items come first the whole scope is read, which shows its order as well.
async fn run_in_scope(
    reader: &mut Reader<'_>,
    feed: &mut Feed<'_>,
    order: &OrderAccess,
    mut walk: Walk,
    undefined: Option<Range<u64>>,
) -> Result<Ended> {
    if order.reverse || undefined.is_none() {
        let patience = Patience { entries: 0, scope: ScopeItems::of(reader) };
        match run_postings(reader, feed, order, &mut walk, Some(patience)).await? {
            Walked::Ended(ended) => return Ok(ended),
            Walked::GivenUp => {}
            Walked::Exhausted if undefined.is_none() => return Ok(Ended::Exhausted),
            Walked::Exhausted => walk.range = (vec![], vec![]),
        }
    }
    nearest::run(reader, feed, order, walk, undefined).await
}

/// The items without the property, in the order of their ordinals as the entries of an index would
/// have it: clients that merge use the order to find the rows of equal sort keys that they have
/// already.
async fn run_undefined(
    reader: &mut Reader<'_>,
    feed: &mut Feed<'_>,
    order: &OrderAccess,
    ordinals: Range<u64>,
) -> Result<Option<Ended>> {
    let IndexRef::Path(path) = &order.index else { return Ok(None) };
    let uid = reader.partition.uid;
    let (start, end) = (keys::ordinal_key(uid, ordinals.start), keys::ordinal_key(uid, ordinals.end));
    let (header, mut ahead) = (keys::header(uid, keys::ITEMS, 0), Ahead::default());
    let mut scan =
        reader.hot.scan(start..end, ScanOptions { reverse: order.reverse, ..ScanOptions::default() });
    while let Some(chunk) = scan.next_chunk().await.map_err(crate::storage_error)? {
        let mut rows = chunk.into_iter();
        while !rows.as_slice().is_empty() {
            let (mut ordinals, mut item_keys) = (Vec::new(), KeyList::default());
            for (key, item_key) in rows.by_ref().take(ahead.next(reader, feed, false)) {
                ordinals.push(ordinal_of(&key)?);
                item_keys.push(&[&header, &item_key]);
            }
            let records = reader.records_at(item_keys.finish()).await?;
            for (ordinal, record) in ordinals.into_iter().zip(records) {
                if let Some(ended) = offer_undefined(reader, feed, path, (ordinal, record))? {
                    return Ok(Some(ended));
                }
                feed.last = Some(Last::OrderedItem(ordinal));
            }
        }
        if let Some(ended) = reader.pause(feed, None)? {
            return Ok(Some(ended));
        }
        if !scan.is_over() {
            tokio::task::yield_now().await;
        }
    }
    Ok(None)
}

/// Offers an item if it lacks the property; `Some` ends the feeding.
pub(super) fn offer_undefined(
    reader: &mut Reader<'_>,
    feed: &mut Feed<'_>,
    path: &[IndexPathSegment],
    (ordinal, record): (u64, Bytes),
) -> Result<Option<Ended>> {
    let before = reader.statistics;
    let item = reader.load(record)?;
    // Only items that belong here count: a counter that shows there are none must not change the
    // charge.
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
    item.body().value_at_path(&names)
}

/// The range of postings to walk, as keys.
pub(super) fn bounds(prefix: &[u8], order: &OrderAccess) -> (Vec<u8>, Vec<u8>) {
    match &order.range {
        Some(range) => ([prefix, &range.start].concat(), [prefix, &range.end].concat()),
        None => (prefix.to_vec(), keys::after_prefix(prefix)),
    }
}

/// How a walk over entries ended.
enum Walked {
    Ended(Ended),
    Exhausted,
    /// It has met as many entries as the scope has items; the walk knows where to continue.
    GivenUp,
}

/// How many entries a page may meet before reading the scope would have been cheaper.
struct Patience {
    entries: u64,
    scope: ScopeItems,
}

impl Patience {
    /// Whether the scope has fewer items than the page has met entries, one more included.
    async fn ends(&mut self, reader: &Reader<'_>) -> Result<bool> {
        self.entries += 1;
        self.scope.are_at_most(reader, self.entries - 1).await
    }
}

async fn run_postings(
    reader: &mut Reader<'_>,
    feed: &mut Feed<'_>,
    order: &OrderAccess,
    walk: &mut Walk,
    mut patience: Option<Patience>,
) -> Result<Walked> {
    if walk.range.0 >= walk.range.1 {
        return Ok(Walked::Exhausted);
    }
    let options = ScanOptions { reverse: order.reverse, ..ScanOptions::default() };
    let is_sure = is_proven(reader, order) && patience.is_none();
    let mut ahead = Ahead::default();
    let mut scan = reader.hot.scan(walk.range.0.clone()..walk.range.1.clone(), options);
    // Where every entry makes a row, those behind the last row that there is room for are read in vain.
    let rows_max = |feed: &Feed<'_>| if is_sure { feed.execution.room() } else { usize::MAX };
    while let Some(chunk) = scan.next_rows(rows_max(feed)).await.map_err(crate::storage_error)? {
        let mut rows = chunk.into_iter();
        while !rows.as_slice().is_empty() {
            let wanted = ahead.next(reader, feed, is_sure);
            let met = walk.meet(reader, &mut rows, wanted).await?;
            for (posting, record) in met {
                if let Some(patience) = &mut patience
                    && patience.ends(reader).await?
                {
                    walk.give_up_at(reader, &posting);
                    return Ok(Walked::GivenUp);
                }
                if let Some(ended) = walk.take(reader, feed, order, posting, record)? {
                    return Ok(Walked::Ended(ended));
                }
            }
        }
        if walk.is_between_groups()
            && let Some(ended) = reader.pause(feed, None)?
        {
            return Ok(Walked::Ended(ended));
        }
        if !scan.is_over() {
            tokio::task::yield_now().await;
        }
    }
    walk.check_found()?;
    let ended = walk.emit_group(reader, feed, order)?;
    Ok(ended.map_or(Walked::Exhausted, Walked::Ended))
}

/// A walk over postings in one direction.
pub(super) struct Walk {
    pub prefix: Vec<u8>,
    /// First and last-exclusive key of the postings to come.
    pub range: (Vec<u8>, Vec<u8>),
    pub reverse: bool,
    resumed: Option<Resumed>,
    /// Postings with the same cut string, in the order met, and their items' records.
    group: Vec<(Posting, Bytes)>,
    group_bytes: usize,
    /// The statistics from before the first of them was read.
    before_group: QueryStatistics,
    /// How far their values are alike.
    cut_at: usize,
    /// The group in which the page before ended, while it is not read again.
    begun: Option<BegunGroup>,
}

/// A group of which some items are out already.
struct BegunGroup {
    /// The common prefix of the values of its postings.
    value: Vec<u8>,
    /// The last of its items that was dealt with, in the order of their own values.
    last: u64,
}

impl Walk {
    fn new(prefix: &[u8], range: (Vec<u8>, Vec<u8>), reverse: bool, after: Option<Place>) -> Result<Walk> {
        let mut walk = Walk {
            prefix: prefix.to_vec(),
            range,
            reverse,
            resumed: None,
            group: Vec::new(),
            group_bytes: 0,
            before_group: QueryStatistics::default(),
            cut_at: 0,
            begun: None,
        };
        let Some(place) = after else { return Ok(walk) };
        match (&place.after, reverse) {
            // Inside a group of cut strings: the group is read again from its start.
            (KeyPosition::Key(key), _) if place.in_group => {
                let (value, last) = key.split_last_chunk::<8>().ok_or_else(lost_place)?;
                let start = [prefix, value].concat();
                if walk.has_left_behind(&start) {
                    return Ok(walk);
                }
                if reverse {
                    walk.range.1 = keys::after_prefix(&start).min(walk.range.1);
                } else {
                    walk.range.0 = start.max(walk.range.0);
                }
                walk.begun = Some(BegunGroup { value: value.to_vec(), last: u64::from_be_bytes(*last) });
            }
            (KeyPosition::Key(key), true) => walk.range.1 = [prefix, key].concat().min(walk.range.1),
            (KeyPosition::Cut { start, .. }, _) if walk.has_left_behind(&[prefix, start].concat()) => {}
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
        Ok(walk)
    }

    /// Whether this page's filter excludes all entries with this prefix. The previous page may have had another filter.
    fn has_left_behind(&self, start: &[u8]) -> bool {
        let (first, end) = &self.range;
        if self.reverse { end.as_slice() <= start } else { *first >= keys::after_prefix(start) }
    }

    pub fn skips(&mut self, key: &[u8]) -> Result<bool> {
        match &mut self.resumed {
            Some(resumed) => resumed.skips(key, self.prefix.len()),
            None => Ok(false),
        }
    }

    /// Whether a page may be cut here: no position lies inside a group that is not out yet.
    pub fn is_between_groups(&self) -> bool {
        self.group.is_empty() && self.begun.is_none()
    }

    /// At a posting behind the group of the page before, of which no item was met: the end of that
    /// page is unknown.
    fn check_begun(&self, posting: &Posting) -> Result<()> {
        match &self.begun {
            Some(begun) if self.group.is_empty() && !posting.value().starts_with(&begun.value) => {
                Err(lost_place())
            }
            _ => Ok(()),
        }
    }

    /// Continues at this posting elsewhere, or at the first of a group that is not complete.
    fn give_up_at(&mut self, reader: &mut Reader<'_>, posting: &Posting) {
        let group = std::mem::take(&mut self.group);
        if !group.is_empty() {
            self.uncount_group(reader);
        }
        let first = group.first().map_or(posting, |(first, _)| first);
        let mut at = [&self.prefix[..], &first.key].concat();
        if self.reverse {
            at.push(0);
            self.range.1 = at;
        } else {
            self.range.0 = at;
        }
    }

    /// Takes back the statistics of reading the group: its items count when they are returned.
    fn uncount_group(&self, reader: &mut Reader<'_>) {
        let entries_passed = reader.statistics.entries_passed;
        reader.statistics = QueryStatistics { entries_passed, ..self.before_group };
    }

    pub fn check_found(&self) -> Result<()> {
        if self.begun.is_some() && self.group.is_empty() {
            return Err(lost_place());
        }
        self.resumed.as_ref().map_or(Ok(()), Resumed::check_found)
    }

    /// The next postings, at most so many, with their items' records where they are in scope.
    async fn meet(
        &mut self,
        reader: &Reader<'_>,
        rows: &mut impl Iterator<Item = Row>,
        wanted: usize,
    ) -> Result<Vec<(Posting, Option<Bytes>)>> {
        let mut postings = Vec::with_capacity(wanted);
        while postings.len() < wanted
            && let Some((key, _)) = rows.next()
        {
            if !self.skips(&key)? {
                postings.push(Posting::parse(&key, self.prefix.len())?);
            }
        }
        let records = reader.records_of(postings.iter().map(|posting| posting.ordinal)).await?;
        Ok(postings.into_iter().zip(records).collect())
    }

    /// Deals with a posting if its item is in scope.
    fn take(
        &mut self,
        reader: &mut Reader<'_>,
        feed: &mut Feed<'_>,
        order: &OrderAccess,
        posting: Posting,
        record: Option<Bytes>,
    ) -> Result<Option<Ended>> {
        if let Some(record) = record {
            return self.take_item(reader, feed, order, posting, record);
        }
        reader.statistics.entries_passed += 1;
        self.check_begun(&posting)?;
        if self.is_between_groups() {
            feed.last = Some(last_of(&posting));
        }
        Ok(None)
    }

    /// Deals with the posting of an item in scope, or keeps it until its group is complete.
    pub fn take_item(
        &mut self,
        reader: &mut Reader<'_>,
        feed: &mut Feed<'_>,
        order: &OrderAccess,
        posting: Posting,
        record: Bytes,
    ) -> Result<Option<Ended>> {
        self.check_begun(&posting)?;
        let end_of_cut = end_of_cut(reader, order, posting.value());
        let alike = |first: &Posting| {
            end_of_cut.is_some_and(|end| first.value().get(..end) == Some(&posting.value()[..end]))
        };
        let is_other = self.group.first().is_some_and(|(first, _)| !alike(first));
        if is_other && let Some(ended) = self.emit_group(reader, feed, order)? {
            return Ok(Some(ended));
        }
        let before = reader.statistics;
        reader.statistics.postings_read += 1;
        if let Some(end) = end_of_cut {
            if self.group.len() == GROUP_MAX || self.group_bytes > GROUP_BYTES_MAX {
                return Err(Error::bad_request(format!(
                    "ORDER BY met more than {GROUP_MAX} items, or {} MB of them, whose strings have the same first 120 bytes or whose values are arrays or objects: filter them, or order by something shorter",
                    GROUP_BYTES_MAX >> 20
                )));
            }
            if self.group.is_empty() {
                self.before_group = before;
                self.cut_at = end;
                self.group_bytes = 0;
            }
            self.group_bytes += record.len();
            self.group.push((posting, record));
            return Ok(None);
        }
        let Some(item) = reader.load(record)? else {
            feed.last = Some(last_of(&posting));
            return Ok(None);
        };
        let is_proven = is_proven(reader, order);
        feed.offer(reader, &item.view(), is_proven, before, || last_of(&posting))
    }

    /// Sorts the items of a group by their own values and offers them.
    pub fn emit_group(
        &mut self,
        reader: &mut Reader<'_>,
        feed: &mut Feed<'_>,
        order: &OrderAccess,
    ) -> Result<Option<Ended>> {
        let group = std::mem::take(&mut self.group);
        let Some((first, _)) = group.first() else { return Ok(None) };
        let value = first.value()[..self.cut_at].to_vec();
        let mut items = Vec::with_capacity(group.len());
        for (posting, record) in group {
            if let Some(item) = reader.load(record)? {
                items.push((posting.ordinal, sort_values(reader, order, &item), item));
            }
        }
        items.sort_by(|(left_ordinal, left, _), (right_ordinal, right, _)| {
            let ascending = in_group_order((left, *left_ordinal), (right, *right_ordinal));
            if self.reverse { ascending.reverse() } else { ascending }
        });
        let done = match self.begun.take() {
            Some(begun) => {
                let last = items.iter().position(|(ordinal, ..)| *ordinal == begun.last);
                last.ok_or_else(lost_place)? + 1
            }
            None => 0,
        };
        // A page that ends in the group reads all of it again: each item counts when it goes out.
        self.uncount_group(reader);
        for (ordinal, _, item) in items.iter().skip(done) {
            let before = reader.statistics;
            reader.statistics.postings_read += 1;
            reader.statistics.items_loaded += 1;
            reader.statistics.items_loaded_bytes += item.json_size_bytes() as u64;
            let last = || Last::Posting {
                branch: 0,
                range: 0,
                key: Bytes::from([&value[..], &ordinal.to_be_bytes()].concat()),
                in_group: true,
                ordered: true,
            };
            if let Some(ended) = feed.offer(reader, &item.view(), false, before, last)? {
                return Ok(Some(ended));
            }
        }
        Ok(None)
    }
}

fn last_of(posting: &Posting) -> Last {
    Last::Posting { branch: 0, range: 0, key: posting.key.clone(), in_group: false, ordered: true }
}

/// Whether the items that are met are known to match.
pub(super) fn is_proven(reader: &Reader<'_>, order: &OrderAccess) -> bool {
    order.exact && reader.request.access.precise
}

/// Where the first string of an entry ends that the index holds only the start of.
pub(super) fn end_of_cut(reader: &Reader<'_>, order: &OrderAccess, value: &[u8]) -> Option<usize> {
    match &order.index {
        IndexRef::Path(_) => is_cut(value).then_some(value.len()),
        IndexRef::Composite(number) => reader.layout.as_ref()?.composites[*number].end_of_cut(value),
    }
}

/// The values by which an item would have its place in the index if that held all of them, with true where inverted.
fn sort_values(reader: &Reader<'_>, order: &OrderAccess, item: &StoredItem) -> Vec<(SortValue, bool)> {
    match (&order.index, &reader.layout) {
        (IndexRef::Composite(number), Some(layout)) => {
            layout.composites[*number].sort_values(&item.view(), &layout.computed)
        }
        (IndexRef::Path(path), _) => {
            vec![(property(reader, item, path).unwrap_or_default().into(), false)]
        }
        (IndexRef::Composite(_), None) => vec![],
    }
}

/// Items of a group by their values, then by their ordinals.
fn in_group_order(
    (left, left_ordinal): (&[(SortValue, bool)], u64),
    (right, right_ordinal): (&[(SortValue, bool)], u64),
) -> Ordering {
    for ((left, is_inverted), (right, _)) in left.iter().zip(right) {
        let order = left.cmp(right);
        if order.is_ne() {
            return if *is_inverted { order.reverse() } else { order };
        }
    }
    left_ordinal.cmp(&right_ordinal)
}
