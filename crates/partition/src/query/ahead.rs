//! Items that the index names, read many at a time: two round trips for a batch, from ordinals to item keys and from those
//! to items.
//!
//! A batch is as large as the page has room for where every item is sure to make a row. Elsewhere
//! batches begin small and double, so that a page reads at most about twice the items that it
//! needs. The charge of a page does not depend on batches: items count when they are dealt with.

use bytes::Bytes;
use shardlake_model::Result;

use super::feed::Feed;
use super::lookup::damaged;
use super::reader::Reader;
use crate::core::usual_items_in;
use crate::key_list::KeyList;
use crate::keys;

/// Items of the first batch where it is not known how many have rows, and of any batch.
const FIRST: usize = 16;
const ITEMS_MAX: usize = 256;
/// Bytes of one batch, estimated from the items before it.
const BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Items of a page that are looked up in the row cache, and cached there. A page that reads more
/// would drive out rows that others read again.
const HOT_ITEMS_MAX: u64 = 256;

/// How many items to read next.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// Items read for this page, and those of the last batch.
    read: usize,
    last: usize,
}

impl Ahead {
    /// `is_sure`: every item makes a row.
    pub fn next(&mut self, reader: &Reader<'_>, feed: &Feed<'_>, is_sure: bool) -> usize {
        let room = feed.execution.room().max(1);
        // With room for any number, all are read in the end.
        let wanted = match is_sure || room == usize::MAX {
            true => room,
            false if self.last == 0 => room.min(FIRST),
            false => (2 * self.last).min(room.max(self.read)),
        };
        self.last = wanted.min(reader.items_in(BYTES_MAX)).min(ITEMS_MAX);
        self.read += self.last;
        self.last
    }
}

impl Reader<'_> {
    /// How many items of the usual size are so many bytes; at least one.
    fn items_in(&self, size_bytes: u64) -> usize {
        match self.statistics.items_loaded {
            0 => self.core.usual_items_in(size_bytes),
            loaded => usual_items_in(size_bytes, (loaded, self.statistics.items_loaded_bytes)),
        }
    }

    /// The records of the items that ordinals name, in order; `None` for an item that is not in the query's scope.
    pub async fn records_of(&self, ordinals: impl Iterator<Item = u64>) -> Result<Vec<Option<Bytes>>> {
        let uid = self.core.uid;
        let mut ordinal_keys = KeyList::default();
        ordinals.for_each(|ordinal| ordinal_keys.push(&[&keys::ordinal_key(uid, ordinal)]));
        let named = self.values(ordinal_keys.finish()).await?;
        let header = keys::header(uid, keys::ITEMS, 0);
        let (mut item_keys, mut is_here) = (KeyList::default(), Vec::with_capacity(named.len()));
        for item_key in named {
            let item_key = item_key.ok_or_else(|| damaged("a posting names an item that is not there"))?;
            item_keys.push(&[&header, &item_key]);
            is_here.push(self.is_in_scope(item_keys.last())?);
            if is_here.last() == Some(&false) {
                item_keys.pop();
            }
        }
        let mut records = self.records_at(item_keys.finish()).await?.into_iter();
        let record = |is_here| if is_here { records.next() } else { None };
        Ok(is_here.into_iter().map(record).collect())
    }

    /// The records under keys of items.
    pub async fn records_at(&self, item_keys: Vec<Bytes>) -> Result<Vec<Bytes>> {
        let missing = || damaged("an ordinal names an item that is not there");
        self.values(item_keys).await?.into_iter().map(|record| record.ok_or_else(missing)).collect()
    }

    async fn values(&self, keys: Vec<Bytes>) -> Result<Vec<Option<Bytes>>> {
        if keys.is_empty() {
            return Ok(vec![]);
        }
        let values = match self.statistics.items_loaded < HOT_ITEMS_MAX {
            true => self.hot.get_many(keys),
            false => self.snapshot.get_many(keys),
        };
        values.await.map_err(crate::storage_error)
    }
}
