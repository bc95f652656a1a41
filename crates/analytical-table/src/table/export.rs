//! Export: the live rows of a version as plain Parquet files or as JSON lines.

use arrow_array::RecordBatch;
use arrow_select::interleave::interleave_record_batch;

use super::columns;
use super::files::{BATCH_ROWS, Files, memory_of};
use super::parquet_out::ParquetOut;
use super::read::LiveRows;
use super::sort::SortKeys;
use crate::error::TableError;
use crate::log::Version;
use crate::rows::{document_of, normal_form};
use crate::schema::TableSchema;
use crate::store::TableStore;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// Files with all columns of the table.
    Parquet,
    /// Documents in normal form, one in each line, without system properties.
    JsonLines,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportOptions {
    pub format: ExportFormat,
    /// Column paths by which the rows of each file are sorted; none leaves them as they lie.
    pub sort_by: Vec<Vec<String>>,
    /// Rows, and bytes in memory, at which a file ends.
    pub file_rows: usize,
    pub file_memory: u64,
}

impl ExportOptions {
    pub fn new(format: ExportFormat) -> ExportOptions {
        ExportOptions { format, sort_by: Vec::new(), file_rows: 1_000_000, file_memory: 256 << 20 }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exported {
    pub files: usize,
    pub rows: u64,
}

/// Writes `part-00000.parquet` or `part-00000.jsonl` and so on.
pub fn export(
    files: &Files,
    schema: &TableSchema,
    version: &Version,
    target: &dyn TableStore,
    options: &ExportOptions,
) -> Result<Exported, TableError> {
    let mut exported = Exported::default();
    let (mut part, mut rows, mut memory) = (Vec::new(), 0, 0);
    for live in LiveRows::of(files, version) {
        let batch = live?.batch;
        rows += batch.num_rows();
        memory += memory_of(&batch);
        part.push(batch);
        if rows >= options.file_rows || memory >= options.file_memory {
            write_part(schema, std::mem::take(&mut part), target, options, &mut exported)?;
            (rows, memory) = (0, 0);
        }
    }
    if !part.is_empty() {
        write_part(schema, part, target, options, &mut exported)?;
    }
    assert_eq!(exported.rows, version.rows() - version.deleted_rows(), "every live row is exported");
    Ok(exported)
}

fn write_part(
    schema: &TableSchema,
    batches: Vec<RecordBatch>,
    target: &dyn TableStore,
    options: &ExportOptions,
    exported: &mut Exported,
) -> Result<(), TableError> {
    let all = schema.arrow();
    let wanted = match options.format {
        ExportFormat::Parquet => all,
        ExportFormat::JsonLines => columns::present(&all, &batches),
    };
    let aligned = batches.iter().map(|batch| columns::align(batch, &wanted));
    let mut batches = aligned.collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
    if !options.sort_by.is_empty() {
        batches = sorted(&batches, &options.sort_by)?;
    }
    exported.rows += batches.iter().map(|batch| batch.num_rows() as u64).sum::<u64>();
    let name = format!("part-{:05}", exported.files);
    exported.files += 1;
    match options.format {
        ExportFormat::Parquet => {
            let path = format!("{name}.parquet");
            let mut writer = ParquetOut::begin(target, &path, &wanted, 122_880)?;
            for batch in &batches {
                writer.write(batch)?;
            }
            writer.finish()?;
        }
        ExportFormat::JsonLines => write_lines(schema, &batches, target, &format!("{name}.jsonl"))?,
    }
    Ok(())
}

fn sorted(batches: &[RecordBatch], by: &[Vec<String>]) -> Result<Vec<RecordBatch>, TableError> {
    let order = SortKeys::new(batches, by).order();
    let all: Vec<&RecordBatch> = batches.iter().collect();
    let parts = order.chunks(BATCH_ROWS).map(|rows| interleave_record_batch(&all, rows));
    parts.collect::<Result<_, _>>().map_err(unreadable)
}

fn write_lines(
    schema: &TableSchema,
    batches: &[RecordBatch],
    target: &dyn TableStore,
    path: &str,
) -> Result<(), TableError> {
    let mut writer = target.writer(path)?;
    let mut line = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let document = document_of(schema, batch, row);
            let document =
                document.ok_or_else(|| TableError::damaged("_rest", "a value that is not ours"))?;
            line.clear();
            let written = normal_form(schema.mode(), document).write_json(&mut line);
            written.map_err(|error| TableError::damaged("_rest", error))?;
            line.push(b'\n');
            writer.write_all(&line).map_err(|error| TableError::damaged(path, error))?;
        }
    }
    Ok(writer.finish()?)
}

fn unreadable(error: arrow_schema::ArrowError) -> TableError {
    TableError::damaged("a data file", error)
}
