//! Uncommitted items of a transaction, laid over the engine's state.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::ops::Bound;

use bytes::Bytes;
use shardlake_model::Result;
use shardlake_storage::{Chunk, Row, Scan};

/// Records by item key; `None` for an item that was deleted.
#[derive(Debug, Clone, Default)]
pub struct OwnItems(BTreeMap<Bytes, Option<Bytes>>);

impl OwnItems {
    pub(crate) fn put(&mut self, key: Bytes, record: Option<Bytes>) {
        self.0.insert(key, record);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&Option<Bytes>> {
        self.0.get(key)
    }

    /// Those whose keys begin so.
    pub(crate) fn of_prefix(&self, prefix: &[u8]) -> OwnItems {
        let from = self.0.range::<[u8], _>((Bound::Included(prefix), Bound::Unbounded));
        let own = from.take_while(|(key, _)| key.starts_with(prefix));
        OwnItems(own.map(|(key, record)| (key.clone(), record.clone())).collect())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Bytes, &Option<Bytes>)> {
        self.0.iter()
    }
}

type Own<'o> = Peekable<std::collections::btree_map::Range<'o, Bytes, Option<Bytes>>>;

/// Rows in key order, with own items in the place of others of the same key.
pub(crate) struct MergedScan<'o> {
    scan: Scan,
    /// `None` where nothing is laid over.
    own: Option<Own<'o>>,
}

impl From<Scan> for MergedScan<'_> {
    /// Nothing is laid over.
    fn from(scan: Scan) -> Self {
        MergedScan { scan, own: None }
    }
}

impl<'o> MergedScan<'o> {
    /// `scan` goes over `start..end`.
    pub fn new(scan: Scan, own: Option<&'o OwnItems>, start: &[u8], end: &[u8]) -> Self {
        let range = |own: &'o OwnItems| {
            let (start, end) = (Bytes::copy_from_slice(start), Bytes::copy_from_slice(end));
            own.0.range::<Bytes, _>((Bound::Included(start), Bound::Excluded(end))).peekable()
        };
        MergedScan { scan, own: own.filter(|own| !own.is_empty()).map(range) }
    }

    /// [`MergedScan::next_chunk`] without a copy of rows that are kept in memory.
    pub async fn next_rows_in_place(&mut self) -> Result<Option<Chunk>> {
        match self.own {
            None => self.scan.next_rows_in_place().await.map_err(crate::storage_error),
            Some(_) => Ok(self.next_chunk().await?.map(Chunk::Read)),
        }
    }

    /// Whether it is known that no rows follow.
    pub fn is_over(&self) -> bool {
        self.own.is_none() && self.scan.is_over()
    }

    /// `None` at the end.
    pub async fn next_chunk(&mut self) -> Result<Option<Vec<Row>>> {
        let chunk = self.scan.next_chunk().await.map_err(crate::storage_error)?;
        let Some(own) = &mut self.own else { return Ok(chunk) };
        let Some(chunk) = chunk else {
            let rest: Vec<Row> = own.filter_map(row).collect();
            return Ok((!rest.is_empty()).then_some(rest));
        };
        let mut merged = Vec::with_capacity(chunk.len());
        for (key, value) in chunk {
            while let Some(before) = own.next_if(|(own, _)| **own < key) {
                merged.extend(row(before));
            }
            match own.next_if(|(own, _)| **own == key) {
                Some(instead) => merged.extend(row(instead)),
                None => merged.push((key, value)),
            }
        }
        Ok(Some(merged))
    }
}

fn row((key, record): (&Bytes, &Option<Bytes>)) -> Option<Row> {
    record.as_ref().map(|record| (key.clone(), record.clone()))
}
