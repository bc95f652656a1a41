//! Rows, and rows of a range that is kept in memory.

use std::any::Any;
use std::fmt::Debug;
use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

/// Stored bytes: cheap to clone, and on a local disk a slice of the cached block.
pub type Value = Bytes;
pub type Row = (Bytes, Value);

/// The next rows of a scan, where they lie: see [`crate::Scan::next_rows_in_place`].
#[derive(Debug)]
pub enum Chunk {
    Read(Vec<Row>),
    Kept(KeptRows),
}

/// Rows of a range that is kept in memory.
#[derive(Debug)]
pub struct KeptRows {
    pub(crate) rows: Arc<RowsInMemory>,
    pub(crate) places: Range<usize>,
}

/// All rows of such a range.
#[derive(Debug)]
pub(crate) struct RowsInMemory {
    rows: Vec<Row>,
    /// A reader has checked that all of them are whole.
    were_checked: AtomicBool,
    /// Data that readers extracted from the rows.
    extract: OnceLock<Box<dyn Extract>>,
    extract_bytes_max: usize,
}

/// Data that readers extract from the rows of a cached range, cached next to the rows:
/// [`KeptRows::extract`].
pub trait Extract: Any + Send + Sync + Debug {}

impl RowsInMemory {
    /// `extract_bytes_max`: bytes that readers may cache next to the rows; the cache counts them as
    /// part of the rows.
    pub fn new(rows: Vec<Row>, extract_bytes_max: usize) -> Self {
        RowsInMemory {
            rows,
            were_checked: AtomicBool::new(false),
            extract: OnceLock::new(),
            extract_bytes_max,
        }
    }
}

impl Deref for RowsInMemory {
    type Target = [Row];

    fn deref(&self) -> &[Row] {
        &self.rows
    }
}

impl KeptRows {
    /// All rows of the range. The chunk has those at [`KeptRows::places`].
    pub fn all(&self) -> &[Row] {
        &self.rows
    }

    pub fn places(&self) -> Range<usize> {
        self.places.clone()
    }

    /// Returns the extract of all rows of the range, made now or earlier. `make` gets the number of
    /// bytes that it may use, then and later. `None` where it is of another type.
    pub fn extract<T: Extract>(&self, make: impl FnOnce(&[Row], usize) -> T) -> Option<&T> {
        let rows = &self.rows;
        let extract = rows.extract.get_or_init(|| Box::new(make(rows, rows.extract_bytes_max)));
        let extract: &dyn Any = &**extract;
        extract.downcast_ref()
    }
}

impl Chunk {
    pub fn rows(&self) -> &[Row] {
        match self {
            Chunk::Read(rows) => rows,
            Chunk::Kept(kept) => &kept.rows[kept.places.clone()],
        }
    }

    /// Whether a reader has checked all these rows and [noted](Chunk::note_checked) that they are
    /// whole.
    pub fn was_checked(&self) -> bool {
        match self {
            Chunk::Read(_) => false,
            Chunk::Kept(kept) => kept.rows.were_checked.load(Ordering::Acquire),
        }
    }

    /// All these rows are whole. Rows that stay in memory need not be looked at again.
    pub fn note_checked(&self) {
        if let Chunk::Kept(kept) = self
            && kept.places.len() == kept.rows.len()
        {
            kept.rows.were_checked.store(true, Ordering::Release);
        }
    }
}
