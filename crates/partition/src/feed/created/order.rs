//! Puts the rows of a chunk in the order of creation.

use std::ops::Range;
use std::sync::Arc;

use shardlake_document::Record;
use shardlake_model::Result;
use shardlake_storage::{Chunk, KeptRows, Row};

use crate::keys::{self, HEADER};

/// In which order the rows lie that a chunk has.
#[derive(Debug, Clone)]
pub(crate) enum RowOrder {
    AsTheyLie,
    /// By place.
    Places(Arc<[u32]>),
}

impl RowOrder {
    /// The place of the n-th row.
    #[inline]
    pub fn place(&self, number: usize) -> usize {
        match self {
            RowOrder::AsTheyLie => number,
            RowOrder::Places(places) => places[number] as usize,
        }
    }
}

/// The order of rows that stay in memory and were checked, if it is known: of all of them, however many a chunk has.
pub(crate) type KnownOrder = fn(&KeptRows) -> Option<RowOrder>;

/// Rows of a chunk, none of whose logical partitions continues outside.
#[derive(Debug)]
pub(crate) struct OrderedChunk {
    pub chunk: Chunk,
    /// Among [`Chunk::rows`].
    pub places: Range<usize>,
    order: RowOrder,
    /// Where the chunk begins among the rows that the order is of.
    chunk_at: usize,
    /// The order is that of all rows of the range, and they were checked.
    is_known: bool,
}

impl OrderedChunk {
    pub fn new(chunk: Chunk, places: Range<usize>, known: KnownOrder) -> Result<OrderedChunk> {
        if let Chunk::Kept(kept) = &chunk
            && chunk.was_checked()
            && let Some(order) = known(kept)
        {
            let chunk_at = kept.places().start;
            return Ok(OrderedChunk { chunk, places, order, chunk_at, is_known: true });
        }
        let order = order_of(chunk.rows())?;
        Ok(OrderedChunk { chunk, places, order, chunk_at: 0, is_known: false })
    }

    /// All rows of the range that the chunk is of, where [`OrderedChunk::number`] is among them. Another reader may have found out
    /// the order meanwhile: that changes nothing here.
    pub fn kept(&self) -> Option<&KeptRows> {
        match &self.chunk {
            Chunk::Kept(kept) if self.is_known => Some(kept),
            _ => None,
        }
    }

    /// The place of the n-th row among [`Chunk::rows`].
    #[inline]
    pub fn place(&self, number: usize) -> usize {
        // Rows change places within their logical partition alone, and the chunk has all of it.
        self.order.place(self.number(number)) - self.chunk_at
    }

    /// The number of the n-th row among all that the order is of.
    #[inline]
    pub fn number(&self, number: usize) -> usize {
        self.chunk_at + self.places.start + number
    }

    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        let rows = self.chunk.rows();
        (0..self.places.len()).map(move |number| &rows[self.place(number)])
    }
}

/// The ordinal in a record, which the reader of the item checks.
pub(super) fn ordinal_of((_, record): &Row) -> Result<u64> {
    Record::ordinal_in(record).map_err(crate::corrupt)
}

/// Rows of one logical partition after the other.
pub(super) struct Groups<'r> {
    rows: &'r [Row],
    from: usize,
}

impl<'r> Groups<'r> {
    pub fn of(rows: &'r [Row]) -> Groups<'r> {
        Groups { rows, from: 0 }
    }

    pub fn next(&mut self) -> Result<Option<Range<usize>>> {
        let Some((first, _)) = self.rows.get(self.from) else { return Ok(None) };
        let start = self.from;
        let logical = logical_prefix(first)?;
        let rest = &self.rows[start + 1..];
        self.from += 1 + rest.iter().take_while(|(key, _)| key.starts_with(logical)).count();
        Ok(Some(start..self.from))
    }
}

/// The start of a key that all items of its logical partition have, and no others.
pub(super) fn logical_prefix(key: &[u8]) -> Result<&[u8]> {
    let logical = key.get(HEADER..).and_then(keys::logical_part).ok_or_else(crate::malformed_key)?;
    Ok(&key[..HEADER + logical.len()])
}

/// Where the last logical partition of some rows begins.
pub(super) fn last_group(rows: &[Row]) -> Result<usize> {
    let Some((last, _)) = rows.last() else { return Ok(0) };
    let logical = logical_prefix(last)?;
    let of_last = rows.iter().rev().take_while(|(key, _)| key.starts_with(logical)).count();
    Ok(rows.len() - of_last)
}

/// In which order rows were created; those of a logical partition that continues outside are in order among themselves.
pub(crate) fn order_of(rows: &[Row]) -> Result<RowOrder> {
    let mut order = Vec::new();
    let (mut groups, mut ordinals) = (Groups::of(rows), Vec::new());
    while let Some(group) = groups.next()? {
        ordinals.clear();
        for place in group.clone() {
            ordinals.push((ordinal_of(&rows[place])?, place as u32));
        }
        if !ordinals.is_sorted() {
            if order.is_empty() {
                order.extend(0..rows.len() as u32);
            }
            ordinals.sort_unstable();
            order[group].iter_mut().zip(&ordinals).for_each(|(place, (_, of_row))| *place = *of_row);
        }
    }
    Ok(if order.is_empty() { RowOrder::AsTheyLie } else { RowOrder::Places(order.into()) })
}
