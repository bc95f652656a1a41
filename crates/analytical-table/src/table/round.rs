//! A round: rows that arrive and versions that end, made into files, vectors and one commit.

use std::collections::BTreeMap;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use roaring::RoaringBitmap;

use super::core::{Core, Edit};
use super::files::Files;
use super::find::{self, Ended};
use super::widen;
use crate::error::TableError;
use crate::log::{DataFile, Span, Version};
use crate::rows::{Overflow, Row, batches_of, shred};
use crate::schema::{ColumnPath, TableSchema};
use crate::vectors;

#[derive(Debug)]
pub struct Round {
    /// Columns with those that this round adds.
    schema: TableSchema,
    arrow: SchemaRef,
    span: Span,
    time: i64,
    buffer: Vec<RecordBatch>,
    buffered_rows: usize,
    buffered_bytes: usize,
    /// Files of this round.
    added: Vec<DataFile>,
    /// Ended versions by the span that they lie in.
    ended: Vec<(Span, Vec<Ended>)>,
    widened: Vec<ColumnPath>,
    overflow: Overflow,
    prepared: Option<Edit>,
}

impl Round {
    pub fn new(core: &Core, span: Span, time: i64) -> Round {
        Round {
            schema: core.schema.clone(),
            arrow: core.schema.arrow(),
            span,
            time,
            buffer: Vec::new(),
            buffered_rows: 0,
            buffered_bytes: 0,
            added: Vec::new(),
            ended: Vec::new(),
            widened: Vec::new(),
            overflow: Overflow::default(),
            prepared: None,
        }
    }

    pub fn overflow(&self) -> &Overflow {
        &self.overflow
    }

    /// Rows of another span follow. Files never hold rows of two spans.
    pub fn switch(&mut self, files: &Files, span: Span) -> Result<(), TableError> {
        if span != self.span {
            self.flush(files)?;
            self.span = span;
        }
        Ok(())
    }

    /// Takes a chunk of rows. The columns are learned from the whole chunk first.
    pub fn append(&mut self, core: &mut Core, rows: &[Row<'_>]) -> Result<(), TableError> {
        assert!(self.prepared.is_none(), "rows come before the round is prepared");
        let learned = self.schema.learn(rows.iter().map(|row| row.body));
        for path in &learned.widenings {
            if widen::is_possible(core, &self.schema, path, &self.buffer, &self.added)? {
                let is_widened = self.schema.widen(path);
                assert!(is_widened, "a wanted widening is that of a long column");
                self.widened.push(path.clone());
            }
        }
        if learned.added > 0 || !learned.widenings.is_empty() {
            self.arrow = self.schema.arrow();
        }
        for part in batches_of(rows) {
            let shredded = shred(&self.schema, part);
            self.overflow.merge(&shredded.overflow);
            self.append_batch(&core.files, &core.options.sizes, shredded.batch)?;
        }
        Ok(())
    }

    fn append_batch(
        &mut self,
        files: &Files,
        sizes: &super::options::Sizes,
        batch: RecordBatch,
    ) -> Result<(), TableError> {
        self.buffered_rows += batch.num_rows();
        self.buffered_bytes += super::files::memory_of(&batch) as usize;
        self.buffer.push(batch);
        if self.buffered_rows >= sizes.file_rows || self.buffered_bytes >= sizes.file_bytes {
            self.flush(files)?;
        }
        Ok(())
    }

    /// The row of this version is deleted with the commit.
    pub fn end_version(&mut self, ended: Ended) {
        assert!(self.prepared.is_none(), "versions end before the round is prepared");
        match self.ended.last_mut() {
            Some((span, list)) if *span == self.span => list.push(ended),
            _ => self.ended.push((self.span.clone(), vec![ended])),
        }
    }

    fn flush(&mut self, files: &Files) -> Result<(), TableError> {
        if self.buffered_rows > 0 {
            let file = files.write(&self.arrow, &self.buffer, &self.span, self.time)?;
            self.added.push(file);
        }
        self.buffer.clear();
        (self.buffered_rows, self.buffered_bytes) = (0, 0);
        Ok(())
    }

    /// Writes everything that the commit will name. Versions without a row must be explained by the
    /// caller, whose retention may have taken the row away.
    pub fn prepare(
        &mut self,
        core: &mut Core,
        is_explained: &dyn Fn(Ended) -> bool,
    ) -> Result<(), TableError> {
        core.check()?;
        if self.prepared.is_some() {
            return Ok(());
        }
        self.flush(&core.files)?;
        let deleted = self.deleted_rows(core, is_explained)?;
        let mut edit = Edit::default();
        let mut rewritten = BTreeMap::new();
        if !self.widened.is_empty() {
            for file in core.version.files.values() {
                if let Some(new) = self.rewritten(&core.files, file)? {
                    rewritten.insert(file.path.clone(), new);
                }
            }
            for at in 0..self.added.len() {
                if let Some(new) = self.rewritten(&core.files, &self.added[at])? {
                    self.added[at] = new;
                }
            }
        }
        delete_rows(&core.files, &core.version, &deleted, rewritten, &mut edit)?;
        edit.added.extend(self.added.iter().cloned());
        self.prepared = Some(edit);
        Ok(())
    }

    fn rewritten(&self, files: &Files, file: &DataFile) -> Result<Option<DataFile>, TableError> {
        widen::rewrite(files, &self.schema, file, &self.widened, self.time)
    }

    fn deleted_rows(
        &self,
        core: &mut Core,
        is_explained: &dyn Fn(Ended) -> bool,
    ) -> Result<BTreeMap<String, RoaringBitmap>, TableError> {
        let mut deleted: BTreeMap<String, RoaringBitmap> = BTreeMap::new();
        for (span, ended) in &self.ended {
            let found = find::find(&core.files, &mut core.indexes, &core.version, span, ended)?;
            let mut missing = found.missing;
            for (path, rows) in found.rows {
                let file = &core.version.files[&path];
                let before = match &file.vector {
                    Some(vector) => vectors::read(&*core.files.store, &core.files.base, vector)?,
                    None => RoaringBitmap::new(),
                };
                let deleted = deleted.entry(path).or_default();
                let again = rows.iter().filter(|(row, _)| before.contains(*row) || !deleted.insert(*row));
                missing.extend(again.map(|(_, ended)| *ended));
            }
            if let Some(ended) = missing.into_iter().find(|ended| !is_explained(*ended)) {
                return Err(TableError::RowNotFound { ordinal: ended.ordinal, lsn: ended.lsn });
            }
        }
        deleted.retain(|_, rows| !rows.is_empty());
        Ok(deleted)
    }

    /// The files and the columns to commit.
    pub fn prepared(&self) -> Option<(&Edit, &TableSchema)> {
        self.prepared.as_ref().map(|edit| (edit, &self.schema))
    }
}

/// Adds rows to the vectors of files, in one new vector file, and puts files in the place of
/// rewritten ones. A file without other rows leaves the table.
pub fn delete_rows(
    files: &Files,
    version: &Version,
    deleted: &BTreeMap<String, RoaringBitmap>,
    mut rewritten: BTreeMap<String, DataFile>,
    edit: &mut Edit,
) -> Result<(), TableError> {
    let (mut bitmaps, mut changed) = (Vec::new(), Vec::new());
    for (path, rows) in deleted {
        let old = &version.files[path];
        let mut bitmap = match &old.vector {
            Some(vector) => vectors::read(&*files.store, &files.base, vector)?,
            None => RoaringBitmap::new(),
        };
        let before = bitmap.len();
        bitmap |= rows;
        assert_eq!(bitmap.len(), before + rows.len(), "no row is deleted twice");
        assert!(bitmap.max().is_none_or(|row| u64::from(row) < old.rows()), "deleted rows are in the file");
        let new = rewritten.remove(path).unwrap_or_else(|| old.clone());
        edit.removed.push(old.clone());
        if bitmap.len() < old.rows() {
            bitmaps.push(bitmap);
            changed.push(new);
        }
    }
    if !bitmaps.is_empty() {
        edit.added.extend(files.write_vectors(changed, &bitmaps)?);
    }
    for (path, new) in rewritten {
        edit.removed.push(version.files[&path].clone());
        edit.added.push(new);
    }
    Ok(())
}
