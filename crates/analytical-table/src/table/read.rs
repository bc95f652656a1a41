//! Live rows of a version, file by file.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch};
use arrow_select::filter::filter_record_batch;
use roaring::RoaringBitmap;

use super::files::{Batches, Files};
use crate::error::TableError;
use crate::log::{DataFile, Version};
use crate::vectors;

/// Batches of the rows that a version shows. A batch has the columns of its file.
pub struct LiveRows {
    files: Files,
    waiting: VecDeque<DataFile>,
    open: Option<OpenFile>,
}

struct OpenFile {
    path: Arc<str>,
    batches: Batches,
    deleted: Option<RoaringBitmap>,
    /// Number of the next row.
    at: u32,
}

#[derive(Debug, Clone)]
pub struct LiveBatch {
    /// The data file.
    pub path: Arc<str>,
    /// Numbers of the rows in the file.
    pub rows: Vec<u32>,
    pub batch: RecordBatch,
}

impl LiveRows {
    pub fn of(files: &Files, version: &Version) -> LiveRows {
        LiveRows::of_files(files, version.files.values().cloned())
    }

    pub fn of_files(files: &Files, chosen: impl Iterator<Item = DataFile>) -> LiveRows {
        LiveRows { files: files.clone(), waiting: chosen.collect(), open: None }
    }

    fn open_next(&mut self) -> Option<Result<(), TableError>> {
        let file = self.waiting.pop_front()?;
        let deleted = file.vector.as_ref();
        let deleted = deleted.map(|vector| vectors::read(&*self.files.store, &self.files.base, vector));
        let opened = deleted.transpose().and_then(|deleted| {
            let batches = self.files.read(&file)?;
            Ok(OpenFile { path: file.path.as_str().into(), batches, deleted, at: 0 })
        });
        Some(opened.map(|opened| self.open = Some(opened)))
    }
}

impl Iterator for LiveRows {
    type Item = Result<LiveBatch, TableError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some(open) = &mut self.open else {
                match self.open_next()? {
                    Ok(()) => continue,
                    Err(error) => return Some(Err(error)),
                }
            };
            match open.batches.next() {
                Some(Ok(batch)) => match open.live(batch) {
                    Ok(batch) if batch.rows.is_empty() => {}
                    batch => return Some(batch),
                },
                Some(Err(error)) => return Some(Err(error)),
                None => self.open = None,
            }
        }
    }
}

impl OpenFile {
    fn live(&mut self, batch: RecordBatch) -> Result<LiveBatch, TableError> {
        let numbers = self.at..self.at + batch.num_rows() as u32;
        self.at = numbers.end;
        let path = self.path.clone();
        let deleted = self.deleted.as_ref().filter(|deleted| deleted.range_cardinality(numbers.clone()) > 0);
        let Some(deleted) = deleted else { return Ok(LiveBatch { path, rows: numbers.collect(), batch }) };
        let is_live: Vec<bool> = numbers.clone().map(|row| !deleted.contains(row)).collect();
        let rows = numbers.filter(|row| !deleted.contains(*row)).collect();
        let filtered = filter_record_batch(&batch, &BooleanArray::from(is_live));
        let batch = filtered.map_err(|error| TableError::damaged(&path, error))?;
        Ok(LiveBatch { path, rows, batch })
    }
}
