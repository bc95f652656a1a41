//! The rows of a range of items, logical partition after logical partition, and in each in the order of creation.
//!
//! Rows come in the order of their keys. Those of a logical partition are held until its last one, and put in order; where they are too
//! many to be held, the caller decides how to continue.

use std::collections::VecDeque;

use shardlake_model::{Error, Result};
use shardlake_storage::{Chunk, Row, ScanOptions};

use super::order::{Groups, KnownOrder, OrderedChunk, last_group, logical_prefix, ordinal_of};
use super::source::Source;
use super::walk::{Direction, Walk};
use crate::keys::{self, HEADER};
use crate::open_transactions::MergedScan;
use crate::sizes::LogicalSize;

/// Items of a logical partition that are read to put them in order.
pub(crate) const HELD_MAX: usize = 4096;
/// Likewise where each of them is handed out, so that a walk reads no more items than are needed.
pub(crate) const HELD_LEAST: usize = 64;
/// As many items are read in a row in the time of one by its name.
pub(crate) const ROWS_PER_NAMED: usize = 4;
/// Items that a walk reads at a time.
pub(crate) const WALKED_MAX: usize = 256;
/// Bytes of a logical partition that are held.
const HELD_BYTES_MAX: usize = 2 * 1024 * 1024;

pub(crate) enum Piece {
    Chunk(OrderedChunk),
    Rows(Vec<Row>),
}

pub(crate) enum Next {
    Piece(Piece),
    /// A logical partition has more rows than may be held. Nothing of it was given; its keys begin so.
    Large(Vec<u8>),
    End,
}

pub(crate) struct CreatedRows<'a> {
    source: Source<'a>,
    end: Vec<u8>,
    /// In the logical partition where the reading begins, items up to this ordinal are left out.
    after: Option<(Vec<u8>, u64)>,
    begun: VecDeque<Chunk>,
    scan: MergedScan<'a>,
    /// A chunk, and where its rows begin that were not given.
    chunk: Option<(Chunk, usize)>,
    held: Held,
    walk: Option<Walk>,
    known: KnownOrder,
}

/// Rows of one logical partition.
#[derive(Default)]
struct Held {
    rows: Vec<Row>,
    size_bytes: usize,
    /// Length of their keys' common prefix.
    prefix_bytes: usize,
    /// The size of the logical partition was looked at.
    is_sized: bool,
}

impl Held {
    fn push(&mut self, row: &Row) -> Result<()> {
        if self.rows.is_empty() {
            self.prefix_bytes = logical_prefix(&row.0)?.len();
        }
        self.size_bytes += row.0.len() + row.1.len();
        self.rows.push(row.clone());
        Ok(())
    }

    fn is_large(&self, held_max: usize) -> bool {
        self.rows.len() > held_max || self.size_bytes > HELD_BYTES_MAX
    }

    /// The common prefix of the keys of the rows.
    fn prefix(&self) -> &[u8] {
        self.rows.first().map_or(&[], |(key, _)| &key[..self.prefix_bytes])
    }
}

impl<'a> CreatedRows<'a> {
    /// All rows from a key of items to another. `begun`: the first chunks and the scan of the rest.
    pub fn new(
        source: Source<'a>,
        (start, end): (Vec<u8>, Vec<u8>),
        begun: Option<(VecDeque<Chunk>, MergedScan<'a>)>,
        known: KnownOrder,
    ) -> CreatedRows<'a> {
        let (begun, scan) = begun.unwrap_or_else(|| (VecDeque::new(), source.scan(&start, &end)));
        CreatedRows {
            source,
            end,
            after: None,
            begun,
            scan,
            chunk: None,
            held: Held::default(),
            walk: None,
            known,
        }
    }

    /// All rows of a range behind a position, which may be made up.
    pub fn after(
        source: Source<'a>,
        (start, end): (Vec<u8>, Vec<u8>),
        position: &[u8],
        known: KnownOrder,
    ) -> Result<CreatedRows<'a>> {
        let parts = keys::parse_created_key(position);
        let parts = parts.filter(|(logical, _)| keys::parse_size_key(logical).is_some());
        let (logical, ordinal) = parts.ok_or_else(|| Error::bad_request("Invalid Continuation Token"))?;
        let prefix = keys::with_header(source.uid, keys::ITEMS, logical);
        // A position may be of a range that was cut since.
        let is_inside = prefix >= start;
        let start = start.max(prefix.clone()).min(end.clone());
        let rows = CreatedRows::new(source, (start, end), None, known);
        Ok(CreatedRows { after: is_inside.then_some((prefix, ordinal)), ..rows })
    }

    /// The logical partition that is too large to be held as its rows `N` name its items, and then the rest.
    pub fn walk(&mut self, prefix: Vec<u8>) -> Result<()> {
        let after = self.after.take().filter(|(logical, _)| *logical == prefix).map(|(_, ordinal)| ordinal);
        self.held = Held::default();
        self.chunk = None;
        self.begun.clear();
        self.walk = Some(Walk::new(&self.source, prefix, after, Direction::Forward)?);
        Ok(())
    }

    pub fn walks(&self) -> bool {
        self.walk.is_some()
    }

    /// Where the reading begins in the midst of a logical partition, its keys begin so.
    pub fn begins_within(&self) -> Option<&[u8]> {
        self.after.as_ref().map(|(prefix, _)| &prefix[..])
    }

    /// The next rows: at most `held_max` of a logical partition are held, and a walk takes at most `walked`.
    pub async fn next(&mut self, held_max: usize, walked: usize) -> Result<Next> {
        if let Some(walk) = &mut self.walk {
            let rows = walk.next(&self.source, walked.max(1)).await?;
            if !rows.is_empty() {
                return Ok(Next::Piece(Piece::Rows(rows)));
            }
            let start = keys::after_prefix(walk.prefix()).min(self.end.clone());
            self.scan = self.source.scan(&start, &self.end);
            self.walk = None;
        }
        loop {
            if self.held.is_large(held_max) || self.will_be_large(held_max).await? {
                return Ok(Next::Large(self.held.prefix().to_vec()));
            }
            let (chunk, from) = match self.chunk.take() {
                Some(chunk) => chunk,
                None => match self.next_chunk().await? {
                    Some(chunk) => (chunk, 0),
                    None => return Ok(self.give_held()?.unwrap_or(Next::End)),
                },
            };
            if let Some(given) = self.take(chunk, from)? {
                return Ok(given);
            }
        }
    }

    /// Whether the logical partition whose rows are held has more than may be, by its stored size: looked up once, behind a chunk.
    async fn will_be_large(&mut self, held_max: usize) -> Result<bool> {
        if self.held.is_sized || self.held.rows.len() < ScanOptions::CHUNK_ROWS {
            return Ok(false);
        }
        self.held.is_sized = true;
        let key = keys::with_header(self.source.uid, keys::SIZES, &self.held.prefix()[HEADER..]);
        let size = self.source.hot.view().get(&key).await.map_err(crate::storage_error)?;
        let size = size.map(|size| LogicalSize::decode(&size)).transpose()?.unwrap_or_default();
        Ok(size.items > held_max as u64 || size.size_bytes > HELD_BYTES_MAX as u64)
    }

    async fn next_chunk(&mut self) -> Result<Option<Chunk>> {
        match self.begun.pop_front() {
            None => self.scan.next_rows_in_place().await,
            begun => Ok(begun),
        }
    }

    /// Deals with the rows of a chunk from a place on. `None` where none of them can be given yet.
    fn take(&mut self, chunk: Chunk, from: usize) -> Result<Option<Next>> {
        let rows = chunk.rows();
        if !self.held.rows.is_empty() {
            let is_held = |(key, _): &&Row| key.starts_with(self.held.prefix());
            let count = rows[from..].iter().take_while(is_held).count();
            rows[from..from + count].iter().try_for_each(|row| self.held.push(row))?;
            if from + count == rows.len() {
                return Ok(None);
            }
            self.chunk = Some((chunk, from + count));
            return self.give_held();
        }
        let is_last = self.begun.is_empty() && self.scan.is_over();
        let whole = match (&self.after, is_last) {
            // The rows that are left out are among the first.
            (Some(_), _) => from,
            (None, true) => rows.len(),
            (None, false) => from + last_group(&rows[from..])?,
        };
        if whole == from {
            let group = Groups::of(&rows[from..]).next()?.map_or(0, |group| group.len());
            rows[from..from + group].iter().try_for_each(|row| self.held.push(row))?;
            if from + group == rows.len() {
                return Ok(None);
            }
            self.chunk = Some((chunk, from + group));
            return self.give_held();
        }
        rows[whole..].iter().try_for_each(|row| self.held.push(row))?;
        let ordered = OrderedChunk::new(chunk, from..whole, self.known)?;
        Ok(Some(Next::Piece(Piece::Chunk(ordered))))
    }

    /// `None` where nothing is held that was not given before.
    fn give_held(&mut self) -> Result<Option<Next>> {
        let rows = std::mem::take(&mut self.held).rows;
        let after = match (self.after.take(), rows.first()) {
            (Some((prefix, ordinal)), Some((first, _))) if first.starts_with(&prefix) => Some(ordinal),
            _ => None,
        };
        let mut in_order = Vec::with_capacity(rows.len());
        for row in rows {
            in_order.push((ordinal_of(&row)?, row));
        }
        in_order.retain(|(ordinal, _)| after.is_none_or(|after| *ordinal > after));
        in_order.sort_unstable_by_key(|(ordinal, _)| *ordinal);
        let rows: Vec<Row> = in_order.into_iter().map(|(_, row)| row).collect();
        Ok((!rows.is_empty()).then_some(Next::Piece(Piece::Rows(rows))))
    }
}

impl Piece {
    pub fn len(&self) -> usize {
        match self {
            Piece::Chunk(chunk) => chunk.places.len(),
            Piece::Rows(rows) => rows.len(),
        }
    }

    pub fn last(&self) -> Option<&Row> {
        match self {
            Piece::Chunk(chunk) => {
                let last = chunk.places.len().checked_sub(1)?;
                chunk.chunk.rows().get(chunk.place(last))
            }
            Piece::Rows(rows) => rows.last(),
        }
    }

    pub fn rows(&self) -> Box<dyn Iterator<Item = &Row> + '_> {
        match self {
            Piece::Chunk(chunk) => Box::new(chunk.rows()),
            Piece::Rows(rows) => Box::new(rows.iter()),
        }
    }
}
