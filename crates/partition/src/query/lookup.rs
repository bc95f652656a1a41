//! Records for queries, and conditions decided by an item's own values.

use bytes::Bytes;
use shardlake_document::{
    ItemView, RawValue, Record, Value, decode_index_value, encode_index_value, encode_index_value_raw,
};
use shardlake_index::IndexLayout;
use shardlake_model::{ErrorKind, IndexPathSegment, Result};
use shardlake_sql::{IndexRef, Leaf, Meter, ValueRange};

use super::reader::Reader;
use crate::item::StoredItem;

/// Steps to find a value of an item again, as the index has it.
const STEPS_OF_VALUE: u64 = 4;

impl<'a> Reader<'a> {
    /// Counts a record that the index named; the item in it, unless its time to live has run out.
    pub fn load(&mut self, bytes: Bytes) -> Result<Option<StoredItem>> {
        let item = StoredItem::decode(bytes, self.shape)?;
        self.statistics.items_loaded += 1;
        self.statistics.items_loaded_bytes += item.json_size_bytes() as u64;
        Ok((!item.is_expired(self.now_seconds)).then_some(item))
    }

    /// A record as queries see it, unless its time to live has run out.
    pub fn live_view<'r>(&self, record: &'r Record<'r>) -> Option<ItemView<'r>>
    where
        'a: 'r,
    {
        let envelope = &record.envelope;
        if self.shape.is_expired(envelope.timestamp_seconds(), envelope.ttl_seconds, self.now_seconds) {
            return None;
        }
        Some(ItemView {
            body: record.body,
            envelope,
            container: self.shape.rid,
            items_link: &self.shape.items_link,
        })
    }
}

pub(super) fn damaged(what: &str) -> shardlake_model::Error {
    shardlake_model::Error::new(ErrorKind::Corrupt, what)
}

/// Whether an item has several values under one path.
pub(crate) fn is_many_valued(leaf: &Leaf) -> bool {
    match &leaf.index {
        IndexRef::Path(path) => path.iter().any(|segment| !matches!(segment, IndexPathSegment::Name(_))),
        _ => false,
    }
}

/// Calls `visit` with each value that an item has in an index.
pub(crate) fn for_each_entry(
    index: &IndexRef,
    item: &ItemView<'_>,
    layout: &IndexLayout,
    visit: &mut dyn FnMut(&[u8]),
) {
    match index {
        IndexRef::Path(path) => for_each_value(item, path, layout, visit),
        IndexRef::Composite(number) => layout.for_each_composite_value(*number, item, visit),
    }
}

impl Reader<'_> {
    /// The least range and value of an item that a leaf covers, as postings are met: range by range, value by value.
    pub fn first_match(
        &self,
        leaf: &Leaf,
        item: &StoredItem,
        layout: &IndexLayout,
    ) -> Result<Option<(usize, Vec<u8>)>> {
        let mut first: Option<(usize, Vec<u8>)> = None;
        let mut outcome = Ok(());
        let mut consider = |value: &[u8]| {
            self.request.work.meter().add(STEPS_OF_VALUE);
            let Some(range) = range_of(&leaf.ranges, value) else { return };
            let is_less = first.as_ref().is_none_or(|(least, bytes)| (range, value) < (*least, &bytes[..]));
            if !is_less || outcome.is_err() {
                return;
            }
            match self.passes_test(leaf, value, self.request.work.meter()) {
                Ok(true) => first = Some((range, value.to_vec())),
                Ok(false) => {}
                Err(error) => outcome = Err(error),
            }
        };
        for_each_entry(&leaf.index, &item.view(), layout, &mut consider);
        outcome.map(|()| first)
    }

    /// The test on the value, where the index knows the whole value. Fails only when there is no more time.
    pub fn passes_test(&self, leaf: &Leaf, value: &[u8], meter: &Meter) -> Result<bool> {
        let Some(test) = &leaf.test else { return Ok(true) };
        match decode_index_value(value) {
            Some(value) => Ok(test.matches(&value, meter, self.request.is_interrupted)?),
            None => Ok(true),
        }
    }
}

/// The range that a value is in; ranges ascend and do not overlap.
fn range_of(ranges: &[ValueRange], value: &[u8]) -> Option<usize> {
    let range = ranges.partition_point(|range| range.start.as_slice() <= value).checked_sub(1)?;
    (value < ranges[range].end.as_slice()).then_some(range)
}

/// Calls `visit` with each index value that an item has under a path; with the undefined one where it has none.
fn for_each_value(
    item: &ItemView<'_>,
    path: &[IndexPathSegment],
    layout: &IndexLayout,
    visit: &mut dyn FnMut(&[u8]),
) {
    let mut found = false;
    let mut buffer = Vec::new();
    if let [IndexPathSegment::Name(name)] = path
        && let Some(value) = layout.computed_value(name, item)
    {
        encode_index_value(&value, &mut buffer);
        return visit(&buffer);
    }
    if let [IndexPathSegment::Name(name)] = path
        && name == "_ts"
    {
        let seconds = RawValue::Int(item.envelope.timestamp_seconds() as i64);
        encode_index_value_raw(seconds, &mut buffer);
        return visit(&buffer);
    }
    walk(RawValue::Object(item.body), path, &mut |value| {
        found = true;
        buffer.clear();
        encode_index_value_raw(value, &mut buffer);
        visit(&buffer);
    });
    if !found {
        buffer.clear();
        encode_index_value(&Value::Undefined, &mut buffer);
        visit(&buffer);
    }
}

fn walk(value: RawValue<'_>, path: &[IndexPathSegment], visit: &mut dyn FnMut(RawValue<'_>)) {
    let Some((segment, rest)) = path.split_first() else { return visit(value) };
    match (segment, value) {
        (IndexPathSegment::Name(_), RawValue::NonJson(value)) => {
            walk(RawValue::Object(value.shown().raw()), path, visit);
        }
        (IndexPathSegment::Name(name), RawValue::Object(document)) => {
            if let Some(inner) = document.get(name) {
                walk(inner, rest, visit);
            }
        }
        (IndexPathSegment::AnyElement | IndexPathSegment::Element(_), RawValue::Array(array)) => {
            array.iter().for_each(|element| walk(element, rest, visit));
        }
        _ => {}
    }
}
