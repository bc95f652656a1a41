//! Compaction: many small files, or files with many deleted rows, become few sorted ones.
//!
//! A job runs on any thread while rounds go on. Rows that these delete meanwhile are found again by
//! a map from old to new row numbers when the job is committed.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_select::interleave::interleave_record_batch;
use roaring::RoaringBitmap;

use super::columns;
use super::core::{Core, Edit};
use super::files::{BATCH_ROWS, Files};
use super::options::{Commit, Sizes};
use super::read::LiveRows;
use super::sort::SortKeys;
use crate::error::TableError;
use crate::log::{DataFile, Reason, Span};
use crate::schema::TableSchema;
use crate::vectors;

/// Files to compact, with everything that the work needs.
#[derive(Debug)]
pub struct CompactionJob {
    files: Files,
    schema: TableSchema,
    sizes: Sizes,
    cluster_by: Vec<Vec<String>>,
    inputs: Vec<DataFile>,
    span: Span,
    time: i64,
}

/// Files that take the place of others.
#[derive(Debug)]
pub struct Compacted {
    inputs: Vec<DataFile>,
    outputs: Vec<DataFile>,
    /// By input and row: the output and the row there.
    moves: BTreeMap<Arc<str>, Vec<(u32, Moved)>>,
}

#[derive(Debug, Clone, Copy)]
struct Moved {
    output: u32,
    row: u32,
}

/// Called between two pieces of a job.
pub type Between<'b> = dyn FnMut() -> Result<(), TableError> + 'b;

/// Which files are compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactionKind {
    /// Where a range has enough small files, or a file enough deleted rows.
    Due,
    /// Every file with a vector, for readers that know no vectors.
    Purge,
    /// All small files, however few they are.
    Full,
}

/// The next job, if one is due. Files of two of the given ranges are never joined.
pub fn plan(core: &Core, ranges: &[Span], kind: CompactionKind, time: i64) -> Option<CompactionJob> {
    let mut groups: BTreeMap<&Span, Vec<&DataFile>> = BTreeMap::new();
    for file in core.version.files.values() {
        let range = ranges.iter().find(|range| range.contains(&file.span)).unwrap_or(&file.span);
        groups.entry(range).or_default().push(file);
    }
    let sizes = &core.options.sizes;
    let chosen = groups.into_iter().find_map(|(span, files)| Some((span, choose(files, sizes, kind)?)));
    let (span, inputs) = chosen?;
    Some(CompactionJob {
        files: core.files.clone(),
        schema: core.schema.clone(),
        sizes: *sizes,
        cluster_by: core.options.cluster_by.clone(),
        inputs,
        span: span.clone(),
        time,
    })
}

fn choose(mut files: Vec<&DataFile>, sizes: &Sizes, kind: CompactionKind) -> Option<Vec<DataFile>> {
    let is_worn = |file: &&&DataFile| match kind {
        CompactionKind::Purge => file.vector.is_some(),
        _ => file.rows() >= sizes.deleted_rows && file.deleted_rows() * 5 > file.rows(),
    };
    if let Some(file) = files.iter().find(is_worn) {
        return Some(vec![(*file).clone()]);
    }
    let least = match kind {
        CompactionKind::Due => sizes.small_files,
        CompactionKind::Full => 2,
        CompactionKind::Purge => return None,
    };
    // Two files that are not small would exceed the bounds of one.
    files.retain(|file| {
        file.size < sizes.small_bytes
            && file.memory <= sizes.compacted_memory / 2
            && file.live_rows() <= sizes.compacted_rows / 2
    });
    if files.len() < least {
        return None;
    }
    // The smallest first: files of like size are joined, so a row is rewritten a few times only.
    files.sort_by_key(|file| file.size);
    let (mut bytes, mut rows, mut memory) = (0, 0, 0);
    let joined = files.into_iter().take(sizes.small_files).take_while(|file| {
        bytes += file.size;
        rows += file.live_rows();
        memory += file.memory;
        bytes <= sizes.compacted_bytes && rows <= sizes.compacted_rows && memory <= sizes.compacted_memory
    });
    let joined: Vec<DataFile> = joined.cloned().collect();
    (joined.len() > 1).then_some(joined)
}

impl CompactionJob {
    pub fn inputs(&self) -> &[DataFile] {
        &self.inputs
    }

    /// Reads the files, sorts their live rows and writes them.
    pub fn run(&self) -> Result<Compacted, TableError> {
        self.run_in_pieces(&mut || Ok(()))
    }

    /// The same. `between` is called after each piece of some milliseconds; its error ends the job.
    pub fn run_in_pieces(&self, between: &mut Between<'_>) -> Result<Compacted, TableError> {
        for file in &self.inputs {
            self.files.verify(file)?;
            between()?;
        }
        let (mut batches, mut sources) = (Vec::new(), Vec::new());
        for live in LiveRows::of_files(&self.files, self.inputs.iter().cloned()) {
            let live = live?;
            batches.push(live.batch);
            sources.push((live.path, live.rows));
            between()?;
        }
        let table = self.schema.arrow();
        let schema = columns::present(&table, &batches);
        let aligned = batches.iter().map(|batch| columns::align(batch, &schema));
        let aligned: Vec<RecordBatch> =
            aligned.collect::<Result<_, _>>().map_err(|error| TableError::damaged("a data file", error))?;
        drop(batches);
        let order = SortKeys::new(&aligned, &self.cluster_by).order();
        let mut compacted =
            Compacted { inputs: self.inputs.clone(), outputs: Vec::new(), moves: BTreeMap::new() };
        for part in self.parts(&order) {
            self.write(&table, &aligned, &sources, part, between, &mut compacted)?;
        }
        let written: u64 = compacted.outputs.iter().map(DataFile::rows).sum();
        let live: u64 = self.inputs.iter().map(DataFile::live_rows).sum();
        assert_eq!(written, live, "compaction keeps every live row");
        Ok(compacted)
    }

    /// The rows of each output.
    fn parts<'a>(&self, order: &'a [(usize, usize)]) -> impl Iterator<Item = &'a [(usize, usize)]> + use<'a> {
        order.chunks(usize::try_from(self.sizes.compacted_rows).unwrap_or(usize::MAX).max(1))
    }

    fn write(
        &self,
        table: &arrow_schema::Schema,
        batches: &[RecordBatch],
        sources: &[(Arc<str>, Vec<u32>)],
        order: &[(usize, usize)],
        between: &mut Between<'_>,
        compacted: &mut Compacted,
    ) -> Result<(), TableError> {
        let all: Vec<&RecordBatch> = batches.iter().collect();
        let sorted = order.chunks(BATCH_ROWS).map(|rows| {
            between()?;
            interleave_record_batch(&all, rows).map_err(|error| TableError::damaged("a data file", error))
        });
        let file = self.files.write_all(table, &batches[0].schema(), sorted, &self.span, self.time)?;
        let output = compacted.outputs.len() as u32;
        for (row, (batch, at)) in order.iter().enumerate() {
            let (path, rows) = &sources[*batch];
            let moved = Moved { output, row: row as u32 };
            compacted.moves.entry(path.clone()).or_default().push((rows[*at], moved));
        }
        compacted.outputs.push(file);
        Ok(())
    }
}

impl Compacted {
    /// Rows of the outputs that rounds deleted in the inputs meanwhile.
    fn deleted_since(&self, core: &Core) -> Result<Vec<RoaringBitmap>, TableError> {
        let mut deleted = vec![RoaringBitmap::new(); self.outputs.len()];
        for input in &self.inputs {
            let now = &core.version.files[&input.path];
            let Some(vector) = now.vector.as_ref().filter(|_| now.vector != input.vector) else { continue };
            let vector = vectors::read(&*core.files.store, &core.files.base, vector)?;
            let moves = self.moves.get(input.path.as_str()).into_iter().flatten();
            for (_, moved) in moves.filter(|(row, _)| vector.contains(*row)) {
                deleted[moved.output as usize].insert(moved.row);
            }
        }
        Ok(deleted)
    }
}

/// Puts the outputs in the place of the inputs. `None` when an input left the table meanwhile.
pub fn commit(core: &mut Core, compacted: &Compacted, time: i64) -> Result<Option<u64>, TableError> {
    core.check()?;
    let files = &core.version.files;
    if compacted.inputs.iter().any(|input| !files.contains_key(&input.path)) {
        return Ok(None);
    }
    let removed = compacted.inputs.iter().map(|input| files[&input.path].clone()).collect();
    let deleted = compacted.deleted_since(core)?;
    let mut edit = Edit { removed, added: Vec::new() };
    let (mut bitmaps, mut changed) = (Vec::new(), Vec::new());
    for (output, bitmap) in compacted.outputs.iter().zip(deleted) {
        if bitmap.is_empty() {
            edit.added.push(output.clone());
        } else if bitmap.len() < output.rows() {
            bitmaps.push(bitmap);
            changed.push(output.clone());
        }
    }
    if !bitmaps.is_empty() {
        edit.added.extend(core.files.write_vectors(changed, &bitmaps)?);
    }
    let commit = Commit::same(&core.version, time);
    core.commit(edit, None, Reason::Compaction, &commit).map(Some)
}
