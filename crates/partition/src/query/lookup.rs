//! From an ordinal to its item, and what an item's own values say about a condition.

use bytes::Bytes;
use shardlake_document::{
    ItemView, RawDocument, RawValue, Record, decode_index_value, encode_index_value, encode_index_value_raw,
};
use shardlake_model::{ErrorKind, IndexPathSegment, Result};
use shardlake_sql::{IndexRef, Leaf, ValueRange};

use super::Reader;
use crate::feed::{FeedFilter, matches_filter};
use crate::index;
use crate::item::StoredItem;
use crate::keys::{self, HEADER};

impl<'a> Reader<'a> {
    /// The item that a posting names, if it is in the query's scope and alive.
    pub async fn item_of(&mut self, ordinal: u64) -> Result<Option<StoredItem>> {
        let ordinal_key = keys::ordinal_key(self.partition.uid, ordinal);
        let stored = self.snapshot.get(&ordinal_key).await.map_err(crate::storage_error)?;
        let item_key = stored.ok_or_else(|| damaged("a posting names an item that is not there"))?;
        self.item_at(&item_key).await
    }

    /// The item under a key without its header, if it is in the query's scope and alive.
    pub async fn item_at(&mut self, item_key: &[u8]) -> Result<Option<StoredItem>> {
        let key = keys::with_header(self.partition.uid, keys::ITEMS, item_key);
        if !self.covers_partition() && !self.is_in_scope(&key)? {
            return Ok(None);
        }
        let stored = self.snapshot.get(&key).await.map_err(crate::storage_error)?;
        let bytes = stored.ok_or_else(|| damaged("an ordinal names an item that is not there"))?;
        self.decode(bytes)
    }

    /// The item, unless its time to live has run out.
    pub fn decode(&mut self, bytes: Bytes) -> Result<Option<StoredItem>> {
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
        if self.shape.is_expired(envelope.timestamp_seconds, envelope.ttl_seconds, self.now_seconds) {
            return None;
        }
        Some(ItemView {
            body: record.body,
            envelope,
            container: self.shape.rid,
            items_link: &self.shape.items_link,
        })
    }

    /// Whether every item of the partition is in scope.
    pub fn covers_partition(&self) -> bool {
        match self.request.filter {
            FeedFilter::Range(range) => range.contains_range(&self.partition.epk_range),
            FeedFilter::Logical(_) | FeedFilter::Prefix(..) => false,
        }
    }

    fn is_in_scope(&self, key: &[u8]) -> Result<bool> {
        match self.request.filter {
            FeedFilter::Logical(logical) => {
                Ok(key.starts_with(&keys::logical_prefix(self.partition.uid, logical)))
            }
            FeedFilter::Range(range) | FeedFilter::Prefix(range, _) => {
                let (logical, _) = keys::parse_item_key(&key[HEADER..]).ok_or_else(crate::malformed_key)?;
                Ok(range.contains(&logical.epk) && matches_filter(self.request.filter, key)?)
            }
        }
    }
}

fn damaged(what: &str) -> shardlake_model::Error {
    shardlake_model::Error::new(ErrorKind::Corrupt, what)
}

/// Whether an item has several values under one path.
pub(crate) fn is_many_valued(leaf: &Leaf) -> bool {
    match &leaf.index {
        IndexRef::Path(path) => path.iter().any(|segment| !matches!(segment, IndexPathSegment::Name(_))),
        _ => false,
    }
}

/// The least range and value of an item that a leaf covers, as postings are met: range by range, value by value.
pub(crate) fn first_match(
    leaf: &Leaf,
    item: &StoredItem,
    layout: &index::IndexLayout,
) -> Option<(usize, Vec<u8>)> {
    let mut first: Option<(usize, Vec<u8>)> = None;
    let mut consider = |value: &[u8]| {
        let range = leaf.ranges.iter().position(|range| contains(range, value));
        let Some(range) = range.filter(|_| passes_test(leaf, value)) else { return };
        let is_less = first.as_ref().is_none_or(|(least, bytes)| (range, value) < (*least, &bytes[..]));
        if is_less {
            first = Some((range, value.to_vec()));
        }
    };
    match &leaf.index {
        IndexRef::Path(path) => for_each_value(item, path, layout, &mut consider),
        IndexRef::Composite(number) => {
            let view = item.view();
            layout.for_each_composite_value(*number, &view, &mut consider);
        }
    }
    first
}

fn contains(range: &ValueRange, value: &[u8]) -> bool {
    range.start.as_slice() <= value && value < range.end.as_slice()
}

/// The test on the value, where the index knows the whole value.
pub(crate) fn passes_test(leaf: &Leaf, value: &[u8]) -> bool {
    match &leaf.test {
        None => true,
        Some(test) => decode_index_value(value).is_none_or(|value| test.matches(&value)),
    }
}

/// Calls `visit` with each index value that an item has under a path; with the undefined one where it has none.
fn for_each_value(
    item: &StoredItem,
    path: &[IndexPathSegment],
    layout: &index::IndexLayout,
    visit: &mut dyn FnMut(&[u8]),
) {
    let mut found = false;
    let mut buffer = Vec::new();
    if let [IndexPathSegment::Name(name)] = path
        && let Some(value) = layout.computed_value(name, &item.view())
    {
        encode_index_value(&value, &mut buffer);
        return visit(&buffer);
    }
    if let [IndexPathSegment::Name(name)] = path
        && name == "_ts"
    {
        let seconds = RawValue::Int(item.envelope().timestamp_seconds as i64);
        encode_index_value_raw(seconds, &mut buffer);
        return visit(&buffer);
    }
    walk(RawValue::Object(RawDocument::assume_valid(item.body().as_bytes())), path, &mut |value| {
        found = true;
        buffer.clear();
        encode_index_value_raw(value, &mut buffer);
        visit(&buffer);
    });
    if !found {
        buffer.clear();
        encode_index_value(&shardlake_document::Value::Undefined, &mut buffer);
        visit(&buffer);
    }
}

fn walk(value: RawValue<'_>, path: &[IndexPathSegment], visit: &mut dyn FnMut(RawValue<'_>)) {
    let Some((segment, rest)) = path.split_first() else { return visit(value) };
    match (segment, value) {
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
