//! A walk over the entries of an index in one direction, and the groups of entries that look alike in it.
//!
//! Strings too long for the index have equal entries, and so have arrays and objects. Such a group is
//! loaded, and sorted by the values themselves.

use std::cmp::Ordering;

use bytes::Bytes;
use shardlake_document::Value;
use shardlake_index::is_cut;
use shardlake_model::{Error, IndexPathSegment, Result};
use shardlake_sql::{IndexRef, OrderAccess, SortValue};
use shardlake_storage::Row;

use super::feed::Feed;
use super::position::{KeyPosition, Place};
use super::postings::Posting;
use super::reader::{Ended, Last, Reader};
use super::scan::{Resumed, lost_place};
use super::work::QueryStatistics;
use crate::item::StoredItem;
use crate::keys;

/// Items whose entries are alike that are sorted in memory, and their bytes.
const GROUP_MAX: usize = 10_000;
const GROUP_BYTES_MAX: usize = 256 << 20;

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
    pub fn new(
        prefix: &[u8],
        range: (Vec<u8>, Vec<u8>),
        reverse: bool,
        after: Option<Place>,
    ) -> Result<Walk> {
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
    pub fn give_up_at(&mut self, reader: &mut Reader<'_>, posting: &Posting) {
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
    pub async fn meet(
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
    pub fn take(
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
            debug_assert!(self.group.len() < GROUP_MAX, "a group is sorted in memory");
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
        return Some(Value::Int(item.envelope().timestamp_seconds() as i64));
    }
    item.body().value_at_path(&names)
}
