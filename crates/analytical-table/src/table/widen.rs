//! Widening of a `long` column to `double`: whether it loses no digit, and the files made anew.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, RecordBatch};
use parquet::basic::Type as PhysicalType;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::statistics::Statistics;

use super::columns::EXACT_DOUBLES;
use super::core::Core;
use super::files::Files;
use crate::error::TableError;
use crate::log::DataFile;
use crate::schema::{ColumnPath, ELEMENT, TableSchema};

/// Whether the column may become `double` within this round. A refusal for good, or one because
/// the files are too large, is remembered.
pub fn is_possible(
    core: &mut Core,
    schema: &TableSchema,
    path: &ColumnPath,
    buffer: &[RecordBatch],
    added: &[DataFile],
) -> Result<bool, TableError> {
    if core.refused_widenings.contains(path) || core.pending_widenings.contains(path) {
        return Ok(false);
    }
    let parquet = schema.parquet_path(path).unwrap_or_default();
    let mut is_exact = buffer.iter().all(|batch| is_exact_in_batch(batch, path));
    let mut bytes = 0;
    for file in core.version.files.values().chain(added) {
        if !is_exact {
            break;
        }
        let footer = core.files.footer(file)?;
        if has_long(&footer, &parquet) {
            bytes += file.size;
            is_exact = is_exact_in_file(&footer, &parquet);
        }
    }
    if !is_exact {
        core.refused_widenings.insert(path.clone());
    } else if bytes > core.options.sizes.widen_bytes {
        core.pending_widenings.insert(path.clone());
    }
    Ok(is_exact && bytes <= core.options.sizes.widen_bytes)
}

fn chunks<'a>(
    footer: &'a ParquetMetaData,
    path: &'a [String],
) -> impl Iterator<Item = (&'a RowGroupMetaData, usize)> {
    let groups = footer.row_groups().iter();
    groups.flat_map(move |group| {
        let columns = group.columns().iter().enumerate();
        let found = columns.filter(move |(_, column)| column.column_path().parts() == path);
        found.map(move |(at, _)| (group, at))
    })
}

fn has_long(footer: &ParquetMetaData, path: &[String]) -> bool {
    chunks(footer, path).any(|(group, at)| group.column(at).column_type() == PhysicalType::INT64)
}

/// Whether the file has the column, and as `long`.
pub fn has_long_column(footer: &ParquetMetaData, schema: &TableSchema, path: &ColumnPath) -> bool {
    schema.parquet_path(path).is_some_and(|path| has_long(footer, &path))
}

/// Whether doubles equal all integers of these columns in a file.
pub fn is_exact_in(
    files: &Files,
    schema: &TableSchema,
    file: &DataFile,
    paths: &[ColumnPath],
) -> Result<bool, TableError> {
    let footer = files.footer(file)?;
    let mut paths = paths.iter().filter_map(|path| schema.parquet_path(path));
    Ok(paths.all(|path| !has_long(&footer, &path) || is_exact_in_file(&footer, &path)))
}

fn is_exact_in_file(footer: &ParquetMetaData, path: &[String]) -> bool {
    chunks(footer, path).all(|(group, at)| match group.column(at).statistics() {
        Some(Statistics::Int64(bounds)) => match (bounds.min_opt(), bounds.max_opt()) {
            (Some(min), Some(max)) => *min >= -EXACT_DOUBLES && *max <= EXACT_DOUBLES,
            // Without bounds all values are NULL.
            _ => bounds.null_count_opt() == Some(group.column(at).num_values() as u64),
        },
        _ => false,
    })
}

fn is_exact_in_batch(batch: &RecordBatch, path: &ColumnPath) -> bool {
    let Some((first, rest)) = path.names.split_first() else { return false };
    batch.column_by_name(first).is_none_or(|column| is_exact_in_array(column, rest))
}

fn is_exact_in_array(array: &ArrayRef, path: &[String]) -> bool {
    let Some((first, rest)) = path.split_first() else {
        let longs = array.as_primitive_opt::<Int64Type>();
        let limit = EXACT_DOUBLES.unsigned_abs();
        return longs.is_none_or(|longs| longs.iter().flatten().all(|value| value.unsigned_abs() <= limit));
    };
    if let Some(object) = array.as_struct_opt() {
        object.column_by_name(first).is_none_or(|column| is_exact_in_array(column, rest))
    } else if let Some(list) = array.as_list_opt::<i32>().filter(|_| first == ELEMENT) {
        is_exact_in_array(list.values(), rest)
    } else {
        true
    }
}

/// The file with its widened columns as `double`, or `None` when it has none of them. Row numbers
/// stay, so its vector stays, too.
pub fn rewrite(
    files: &Files,
    table: &TableSchema,
    file: &DataFile,
    widened: &[ColumnPath],
    time: i64,
) -> Result<Option<DataFile>, TableError> {
    let footer = files.footer(file)?;
    if !widened.iter().any(|path| has_long_column(&footer, table, path)) {
        return Ok(None);
    }
    let batches: Vec<RecordBatch> = files.read(file)?.collect::<Result<_, _>>()?;
    let new = files.write(&table.arrow(), &batches, &file.span, time)?;
    assert_eq!(new.rows(), file.rows(), "a rewritten file has the same rows");
    Ok(Some(DataFile { vector: file.vector.clone(), ..new }))
}
