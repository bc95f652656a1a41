//! Writer of Parquet files into a store: zstd, statistics of column chunks, a checksum of the bytes.

use std::io::{self, Write};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use crate::error::TableError;
use crate::store::{StoreError, StoreErrorKind, StoreWriter, TableStore};

pub struct ParquetOut {
    path: String,
    writer: ArrowWriter<Summed>,
}

impl ParquetOut {
    pub fn begin(
        store: &dyn TableStore,
        path: &str,
        schema: &SchemaRef,
        row_group_rows: usize,
    ) -> Result<ParquetOut, TableError> {
        let level = ZstdLevel::try_new(1).map_err(|error| failed(path, &error))?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_max_row_group_row_count(Some(row_group_rows))
            .set_created_by("shardlake".to_owned());
        let options = ArrowWriterOptions::new().with_properties(properties.build());
        // Readers take the types from the Parquet schema alone.
        let options = options.with_skip_arrow_metadata(true);
        let target = Summed { inner: store.writer(path)?, sum: crc32fast::Hasher::new(), size: 0 };
        let writer = ArrowWriter::try_new_with_options(target, schema.clone(), options);
        Ok(ParquetOut { path: path.to_owned(), writer: writer.map_err(|error| failed(path, &error))? })
    }

    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), TableError> {
        self.writer.write(batch).map_err(|error| failed(&self.path, &error))
    }

    /// Makes the file durable. Returns its size and CRC-32.
    pub fn finish(self) -> Result<(u64, u32), TableError> {
        let written = self.writer.into_inner().map_err(|error| failed(&self.path, &error))?;
        let result = (written.size, written.sum.finalize());
        written.inner.finish()?;
        Ok(result)
    }
}

fn failed(path: &str, error: &ParquetError) -> TableError {
    let reason = error.to_string();
    TableError::Store(StoreError { kind: StoreErrorKind::Failed, path: path.to_owned(), reason })
}

/// Target of a data file that sums its bytes.
struct Summed {
    inner: Box<dyn StoreWriter>,
    sum: crc32fast::Hasher,
    size: u64,
}

impl Write for Summed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.sum.update(&bytes[..written]);
        self.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
