//! Widening in the background, of columns whose files are too large for one round.
//!
//! The job writes the files anew with `double` columns, on any thread, and takes values of these
//! columns back from `_rest`. Row numbers stay, so vectors of rounds that ran meanwhile stay, too.

use std::collections::BTreeMap;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch};
use arrow_select::interleave::interleave_record_batch;
use shardlake_document::Body;

use super::columns;
use super::compact::Between;
use super::core::{Core, Edit};
use super::files::Files;
use super::options::Commit;
use super::widen::{has_long_column, is_exact_in};
use crate::error::TableError;
use crate::log::{DataFile, Reason, Version};
use crate::rows::{Row, document_of, shred};
use crate::schema::{ColumnPath, TableSchema};

#[derive(Debug)]
pub struct WideningJob {
    files: Files,
    before: TableSchema,
    after: TableSchema,
    paths: Vec<ColumnPath>,
    inputs: Vec<DataFile>,
    time: i64,
}

/// Files with the types of the widened columns, by the path of the file that each one replaces.
#[derive(Debug)]
pub struct Widened {
    paths: Vec<ColumnPath>,
    /// `None` where a column has integers that no double equals.
    outputs: Option<BTreeMap<String, DataFile>>,
}

/// The work for all pending widenings, if there are any.
pub fn plan(core: &Core, time: i64) -> Result<Option<WideningJob>, TableError> {
    let paths: Vec<ColumnPath> = core.pending_widenings.iter().cloned().collect();
    let mut after = core.schema.clone();
    let paths: Vec<ColumnPath> = paths.into_iter().filter(|path| after.widen(path)).collect();
    if paths.is_empty() {
        return Ok(None);
    }
    let inputs = affected(&core.files, &core.schema, &core.version, &paths)?;
    let (files, before) = (core.files.clone(), core.schema.clone());
    Ok(Some(WideningJob { files, before, after, paths, inputs, time }))
}

/// Files with one of the columns as `long`, or with values in `_rest`.
fn affected(
    files: &Files,
    schema: &TableSchema,
    version: &Version,
    paths: &[ColumnPath],
) -> Result<Vec<DataFile>, TableError> {
    let mut affected = Vec::new();
    for file in version.files.values() {
        let footer = files.footer(file)?;
        let has_rest = footer.file_metadata().schema_descr().columns().iter().any(|c| c.name() == "_rest");
        if has_rest || paths.iter().any(|path| has_long_column(&footer, schema, path)) {
            affected.push(file.clone());
        }
    }
    Ok(affected)
}

impl WideningJob {
    /// Reads and writes the files.
    pub fn run(&self) -> Result<Widened, TableError> {
        self.run_in_pieces(&mut || Ok(()))
    }

    /// The same. `between` is called after each piece of some milliseconds; its error ends the job.
    pub fn run_in_pieces(&self, between: &mut Between<'_>) -> Result<Widened, TableError> {
        let paths = self.paths.clone();
        let mut outputs = BTreeMap::new();
        for file in &self.inputs {
            if !is_exact_in(&self.files, &self.before, file, &self.paths)? {
                return Ok(Widened { paths, outputs: None });
            }
            outputs.insert(file.path.clone(), self.rewrite(file, between)?);
        }
        Ok(Widened { paths, outputs: Some(outputs) })
    }

    fn rewrite(&self, file: &DataFile, between: &mut Between<'_>) -> Result<DataFile, TableError> {
        let batches = self.files.read(file)?.map(|batch| {
            between()?;
            self.widened(&batch?)
        });
        let batches = batches.collect::<Result<Vec<_>, _>>()?;
        let new = self.files.write(&self.after.arrow(), &batches, &file.span, self.time)?;
        assert_eq!(new.rows(), file.rows(), "a rewritten file has the same rows");
        Ok(new)
    }

    /// The batch with rows that have values in `_rest` made anew from their documents.
    fn widened(&self, batch: &RecordBatch) -> Result<RecordBatch, TableError> {
        let rest = batch.column_by_name("_rest");
        let is_anew = |row: usize| rest.is_some_and(|rest| rest.is_valid(row));
        let anew: Vec<usize> = (0..batch.num_rows()).filter(|row| is_anew(*row)).collect();
        if anew.is_empty() {
            return Ok(batch.clone());
        }
        let shredded =
            self.shred_anew(batch, &anew).ok_or_else(|| TableError::damaged("_rest", "unreadable"))?;
        let both = [batch.clone(), shredded];
        let schema = columns::present(&self.after.arrow(), &both);
        let aligned = both.iter().map(|batch| columns::align(batch, &schema));
        let aligned = aligned.collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
        let mut next = 0..anew.len();
        let rows = (0..batch.num_rows()).map(|row| match is_anew(row) {
            true => (1, next.next().expect("a row for each")),
            false => (0, row),
        });
        let rows: Vec<(usize, usize)> = rows.collect();
        interleave_record_batch(&aligned.iter().collect::<Vec<_>>(), &rows).map_err(unreadable)
    }

    fn shred_anew(&self, batch: &RecordBatch, rows: &[usize]) -> Option<RecordBatch> {
        let text = |name: &str| batch.column_by_name(name)?.as_string_opt::<i32>();
        let long = |name: &str| batch.column_by_name(name)?.as_primitive_opt::<Int64Type>();
        let (rids, etags) = (text("_rid")?, text("_etag")?);
        let (times, lsns) = (long("_ts")?, long("_lsn")?);
        let bodies = rows.iter().map(|row| document_of(&self.before, batch, *row)?.to_body().ok());
        let bodies: Vec<Body> = bodies.collect::<Option<_>>()?;
        let anew = rows.iter().zip(&bodies).map(|(row, body)| Row {
            rid: rids.value(*row),
            etag: etags.value(*row),
            timestamp_seconds: times.value(*row) as u64,
            lsn: lsns.value(*row) as u64,
            // Key files take the ordinal from `_rid`.
            ordinal: 0,
            body: body.raw(),
        });
        Some(shred(&self.after, &anew.collect::<Vec<_>>()).batch)
    }
}

fn unreadable(error: arrow_schema::ArrowError) -> TableError {
    TableError::damaged("a data file", error)
}

/// Commits a finished job, with files that rounds wrote meanwhile. `None` when the job is to be
/// planned anew, because files left the table or much was written, and when the columns stay `long`
/// for good.
pub fn commit(core: &mut Core, widened: &Widened, time: i64) -> Result<Option<u64>, TableError> {
    core.check()?;
    let Some(outputs) = &widened.outputs else {
        refuse(core, &widened.paths);
        return Ok(None);
    };
    let mut after = core.schema.clone();
    if !outputs.keys().all(|path| core.version.files.contains_key(path)) {
        return Ok(None);
    }
    let all_long = widened.paths.iter().all(|path| after.widen(path));
    assert!(all_long, "only this job widens the columns that it was planned for");
    let affected = affected(&core.files, &core.schema, &core.version, &widened.paths)?;
    let (known, late): (Vec<_>, Vec<_>) =
        affected.into_iter().partition(|file| outputs.contains_key(&file.path));
    if late.iter().map(|file| file.size).sum::<u64>() > core.options.sizes.widen_bytes {
        return Ok(None);
    }
    let job = WideningJob {
        files: core.files.clone(),
        before: core.schema.clone(),
        after: after.clone(),
        paths: widened.paths.clone(),
        inputs: late.clone(),
        time,
    };
    let Some(rest) = job.run()?.outputs else {
        refuse(core, &widened.paths);
        return Ok(None);
    };
    let replaced = known.into_iter().chain(late);
    let mut edit = Edit::default();
    for old in replaced {
        let new = outputs.get(&old.path).or_else(|| rest.get(&old.path));
        let new = new.expect("each affected file was rewritten");
        edit.added.push(DataFile { vector: old.vector.clone(), ..new.clone() });
        edit.removed.push(old);
    }
    let commit = Commit::same(&core.version, time);
    let version = core.commit(edit, Some(after), Reason::Widening, &commit)?;
    core.pending_widenings.retain(|path| !widened.paths.contains(path));
    Ok(Some(version))
}

/// Leaves values of these columns in `_rest`, for good.
fn refuse(core: &mut Core, paths: &[ColumnPath]) {
    for path in paths {
        core.pending_widenings.remove(path);
        core.refused_widenings.insert(path.clone());
    }
}
