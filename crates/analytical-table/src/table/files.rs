//! Data files: written with their statistics, checksum and key file, and read back in batches.

use std::io::{self, Read};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{Schema, SchemaRef};
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::{ChunkReader, Length};
use roaring::RoaringBitmap;
use shardlake_model::Rid;
use shardlake_stdx::Random;

use super::columns;
use super::parquet_out::ParquetOut;
use super::stats::StatsBuilder;
use crate::error::TableError;
use crate::keys::{self, KeyHash, KeyHasher, KeyIndex};
use crate::log::{DataFile, LsnRange, Span};
use crate::store::{StoreError, TableStore};
use crate::vectors;

/// Rows that are decoded at a time.
pub const BATCH_ROWS: usize = 4_096;

/// Folders of one generation, and the settings of its files.
#[derive(Debug, Clone)]
pub struct Files {
    pub store: Arc<dyn TableStore>,
    /// Local folder of the key files.
    pub keys: Arc<dyn TableStore>,
    /// Folder that the log's paths are relative to: empty, or `g2/` while generation 2 is built.
    pub base: String,
    /// Folder of new files, relative to the former.
    pub data: String,
    pub hasher: KeyHasher,
    pub random: Random,
    /// Columns that always have statistics: partition key and cluster columns.
    pub stats_keys: Vec<Vec<String>>,
    pub row_group_rows: usize,
}

impl Files {
    pub fn path_in_store(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// Path of a new file in the folder of the generation.
    pub fn new_path(&self) -> String {
        let slash = if self.data.is_empty() { "" } else { "/" };
        format!("{}{slash}part-{}.parquet", self.data, self.random.guid())
    }

    /// Writes rows in the given order. The file has the columns of the table that the batches have.
    pub fn write(
        &self,
        table: &Schema,
        batches: &[RecordBatch],
        span: &Span,
        time: i64,
    ) -> Result<DataFile, TableError> {
        let schema = columns::present(table, batches);
        self.write_all(table, &schema, batches.iter().cloned().map(Ok), span, time)
    }

    /// Writes batches that have at most these columns of the table.
    pub fn write_all(
        &self,
        table: &Schema,
        schema: &SchemaRef,
        batches: impl Iterator<Item = Result<RecordBatch, TableError>>,
        span: &Span,
        time: i64,
    ) -> Result<DataFile, TableError> {
        let path = self.new_path();
        let stored = self.path_in_store(&path);
        let mut writer = ParquetOut::begin(&*self.store, &stored, schema, self.row_group_rows)?;
        let mut stats = StatsBuilder::new(table, &self.stats_keys);
        let mut entries = Vec::new();
        let (mut lsn, mut memory) = (LsnRange::EMPTY, 0);
        for batch in batches {
            let batch = columns::align(&batch?, schema).map_err(|error| TableError::damaged(&path, error))?;
            stats.add(&batch);
            lsn = self.add_keys(&batch, &mut entries, lsn).ok_or_else(|| no_keys(&path))?;
            memory += memory_of(&batch);
            writer.write(&batch)?;
        }
        let (size, checksum) = writer.finish()?;
        self.keys.write(&key_path(&path), &keys::encode(entries))?;
        let stats = stats.finish();
        assert!(stats.num_records > 0, "a data file has rows");
        Ok(DataFile {
            path,
            size,
            modified: time,
            stats,
            span: span.clone(),
            lsn,
            checksum: Some(checksum),
            memory,
            vector: None,
        })
    }

    /// Hashes the key of each row. `None` when the system columns are missing or hold other values.
    fn add_keys(
        &self,
        batch: &RecordBatch,
        entries: &mut Vec<(KeyHash, u32)>,
        mut range: LsnRange,
    ) -> Option<LsnRange> {
        let rids = batch.column_by_name("_rid")?.as_string_opt::<i32>()?;
        let lsns = batch.column_by_name("_lsn")?.as_primitive_opt::<Int64Type>()?;
        for row in 0..batch.num_rows() {
            let Some(Rid::Item(rid)) = Rid::parse(rids.value(row)) else { return None };
            let lsn = u64::try_from(lsns.value(row)).ok().filter(|_| lsns.is_valid(row))?;
            range = range.with(lsn);
            entries.push((self.hasher.hash(rid.ordinal, lsn), entries.len() as u32));
        }
        Some(range)
    }

    /// Batches of all rows, deleted ones among them, in the order of the file.
    pub fn read(&self, file: &DataFile) -> Result<Batches, TableError> {
        let path = self.path_in_store(&file.path);
        let source = self.source(file)?;
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let reader = ParquetRecordBatchReaderBuilder::try_new_with_options(source, options)
            .and_then(|builder| builder.with_batch_size(BATCH_ROWS).build())
            .map_err(|error| read_error(&path, &error))?;
        Ok(Batches { path, reader })
    }

    /// Batches with these root columns only.
    pub fn read_columns(&self, file: &DataFile, names: &[&str]) -> Result<Batches, TableError> {
        let path = self.path_in_store(&file.path);
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let reader = ParquetRecordBatchReaderBuilder::try_new_with_options(self.source(file)?, options);
        let reader = reader.and_then(|builder| {
            let mask = ProjectionMask::columns(builder.parquet_schema(), names.iter().copied());
            builder.with_batch_size(BATCH_ROWS).with_projection(mask).build()
        });
        Ok(Batches { reader: reader.map_err(|error| read_error(&path, &error))?, path })
    }

    /// Writes one vector for each file, all into one new vector file.
    pub fn write_vectors(
        &self,
        files: Vec<DataFile>,
        bitmaps: &[RoaringBitmap],
    ) -> Result<Vec<DataFile>, TableError> {
        assert_eq!(files.len(), bitmaps.len(), "a vector for each file");
        let path = vectors::path(&self.data, self.random.guid());
        let (bytes, places) = vectors::encode(&path, bitmaps);
        self.store.write(&self.path_in_store(&path), &bytes)?;
        let both = files.into_iter().zip(places);
        Ok(both.map(|(file, vector)| DataFile { vector: Some(vector), ..file }).collect())
    }

    /// The footer, for its statistics of column chunks.
    pub fn footer(&self, file: &DataFile) -> Result<Arc<ParquetMetaData>, TableError> {
        let builder = ParquetRecordBatchReaderBuilder::try_new(self.source(file)?);
        let builder = builder.map_err(|error| read_error(&self.path_in_store(&file.path), &error))?;
        Ok(builder.metadata().clone())
    }

    fn source(&self, file: &DataFile) -> Result<StoredSource, TableError> {
        let path = self.path_in_store(&file.path);
        let size = self.store.size(&path).map_err(|error| match error.is_missing() {
            true => TableError::damaged(&path, "the file is missing"),
            false => error.into(),
        })?;
        if size != file.size {
            return Err(TableError::damaged(&path, format!("it has {size} bytes instead of {}", file.size)));
        }
        Ok(StoredSource { store: self.store.clone(), path, size })
    }

    /// Compares the whole file with its checksum.
    pub fn verify(&self, file: &DataFile) -> Result<(), TableError> {
        const PART: u64 = 1 << 20;
        let source = self.source(file)?;
        let mut sum = crc32fast::Hasher::new();
        let mut at = 0;
        while at < source.size {
            let length = PART.min(source.size - at);
            sum.update(&self.store.read_range(&source.path, at, length as usize)?);
            at += length;
        }
        match file.checksum {
            Some(expected) if expected != sum.finalize() => {
                Err(TableError::damaged(&source.path, "the checksum of the file is wrong"))
            }
            _ => Ok(()),
        }
    }

    /// Opens the key file, or rebuilds it from the data file.
    pub fn key_index(&self, file: &DataFile) -> Result<KeyIndex, TableError> {
        let path = key_path(&file.path);
        match KeyIndex::open(&*self.keys, &path, file.rows()) {
            Err(TableError::Damaged { .. }) => self.rebuild_keys(file),
            Err(TableError::Store(error)) if error.is_missing() => self.rebuild_keys(file),
            opened => opened,
        }
    }

    pub fn rebuild_keys(&self, file: &DataFile) -> Result<KeyIndex, TableError> {
        let mut entries = Vec::new();
        for batch in self.read_columns(file, &["_rid", "_lsn"])? {
            let hashed = self.add_keys(&batch?, &mut entries, LsnRange::EMPTY);
            hashed.ok_or_else(|| no_keys(&file.path))?;
        }
        let path = key_path(&file.path);
        self.keys.write(&path, &keys::encode(entries))?;
        KeyIndex::open(&*self.keys, &path, file.rows())
    }
}

/// Name of a data file's key file: that of the file without its folder, so that a swap keeps it.
pub fn key_path(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    let name = name.strip_prefix("part-").unwrap_or(name);
    format!("{}.keys", name.strip_suffix(".parquet").unwrap_or(name))
}

/// Bytes of the rows in memory.
pub fn memory_of(batch: &RecordBatch) -> u64 {
    let sizes = batch.columns().iter().map(|column| column.to_data().get_slice_memory_size());
    sizes.map(|size| size.unwrap_or(0) as u64).sum()
}

fn no_keys(path: &str) -> TableError {
    TableError::damaged(path, "a row without an item's _rid or _lsn")
}

/// Failures of the store keep their kind, so that they are attempted again.
fn read_error(path: &str, error: &ParquetError) -> TableError {
    if let ParquetError::External(source) = error
        && let Some(source) = source.downcast_ref::<StoreError>()
        && !source.is_missing()
    {
        return TableError::Store(source.clone());
    }
    TableError::damaged(path, error)
}

pub struct Batches {
    path: String,
    reader: ParquetRecordBatchReader,
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, TableError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.reader.next()?;
        Some(batch.map_err(|error| match error {
            arrow_schema::ArrowError::ExternalError(source) => match source.downcast::<StoreError>() {
                Ok(source) => TableError::Store(*source),
                Err(source) => TableError::damaged(&self.path, source),
            },
            error => TableError::damaged(&self.path, error),
        }))
    }
}

/// A stored file as the Parquet reader wants it.
struct StoredSource {
    store: Arc<dyn TableStore>,
    path: String,
    size: u64,
}

impl Length for StoredSource {
    fn len(&self) -> u64 {
        self.size
    }
}

impl ChunkReader for StoredSource {
    type T = StoredRead;

    fn get_read(&self, start: u64) -> Result<StoredRead, ParquetError> {
        let (store, path) = (self.store.clone(), self.path.clone());
        Ok(StoredRead { store, path, at: start, size: self.size, part: Bytes::new() })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let bytes = self.store.read_range(&self.path, start, length);
        bytes.map_err(|error| ParquetError::External(Box::new(error)))
    }
}

struct StoredRead {
    store: Arc<dyn TableStore>,
    path: String,
    at: u64,
    size: u64,
    part: Bytes,
}

impl Read for StoredRead {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        const PART: u64 = 64 << 10;
        if self.part.is_empty() {
            let length = PART.min(self.size.saturating_sub(self.at));
            let part = self.store.read_range(&self.path, self.at, length as usize);
            self.part = part.map_err(io::Error::other)?;
            self.at += length;
        }
        let taken = self.part.split_to(buffer.len().min(self.part.len()));
        buffer[..taken.len()].copy_from_slice(&taken);
        Ok(taken.len())
    }
}
