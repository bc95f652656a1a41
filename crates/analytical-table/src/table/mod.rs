//! An analytical table: created, opened, changed round by round, and read.

mod columns;
mod compact;
mod core;
mod export;
mod files;
mod find;
mod generation;
mod options;
mod parquet_out;
mod read;
mod reader;
mod retention;
mod round;
mod sort;
mod stats;
mod vacuum;
mod widen;
mod widen_job;

use crate::error::TableError;
use crate::log::{Place, Reason, Span, Version};
use crate::rows::{Overflow, Row};
use crate::schema::TableSchema;
use crate::store::TableStore;
use core::Core;
use round::Round;

pub use compact::{Between, Compacted, CompactionJob, CompactionKind};
pub use export::{ExportFormat, ExportOptions, Exported};
pub use find::Ended;
pub use options::{Commit, Location, Sizes, TableFolders, TableOptions};
pub use read::{LiveBatch, LiveRows};
pub use reader::TableReader;
pub use vacuum::Vacuumed;
pub use widen_job::{Widened, WideningJob};

/// One generation of a table, and the only writer of its log.
#[derive(Debug)]
pub struct Table {
    core: Core,
    round: Option<Round>,
}

/// Figures of a version.
#[derive(Debug, Clone, PartialEq)]
pub struct TableStatus {
    pub version: u64,
    pub generation: u32,
    pub state: String,
    pub history: String,
    pub places: Vec<Place>,
    pub files: usize,
    /// Rows that readers see.
    pub rows: u64,
    pub deleted_rows: u64,
    pub bytes: u64,
    pub pending_widenings: Vec<String>,
}

impl Table {
    /// Writes the first version, without rows. A generation that is being built is invisible to
    /// readers until [`Table::swap`].
    pub fn create(
        folders: &TableFolders,
        location: Location,
        generation: u32,
        options: TableOptions,
        commit: &Commit,
    ) -> Result<Table, TableError> {
        let core = Core::create(folders, location, generation, options, commit)?;
        Ok(Table { core, round: None })
    }

    /// Opens the newest version; `None` where no table is.
    pub fn open(
        folders: &TableFolders,
        location: Location,
        options: TableOptions,
    ) -> Result<Option<Table>, TableError> {
        let core = Core::open(folders, location, options)?;
        Ok(core.map(|core| Table { core, round: None }))
    }

    pub fn version(&self) -> &Version {
        &self.core.version
    }

    pub fn places(&self) -> &[Place] {
        self.core.places()
    }

    /// Columns of the newest version.
    pub fn schema(&self) -> &TableSchema {
        &self.core.schema
    }

    pub fn status(&self) -> TableStatus {
        let version = &self.core.version;
        TableStatus {
            version: version.number,
            generation: version.info.generation,
            state: version.info.state.clone(),
            history: version.info.history.clone(),
            places: version.info.places.clone(),
            files: version.files.len(),
            rows: version.rows() - version.deleted_rows(),
            deleted_rows: version.deleted_rows(),
            bytes: version.bytes(),
            pending_widenings: self.core.pending_widenings.iter().map(ToString::to_string).collect(),
        }
    }

    /// Begins a round, and abandons one that was not committed. `time` is that of its files, in
    /// milliseconds since 1970.
    pub fn begin(&mut self, span: Span, time: i64) -> Result<(), TableError> {
        self.core.check()?;
        self.round = Some(Round::new(&self.core, span, time));
        Ok(())
    }

    /// Rows and ended versions of another span follow in the same round.
    pub fn switch(&mut self, span: Span) -> Result<(), TableError> {
        self.round.as_mut().expect("a round is open").switch(&self.core.files, span)
    }

    /// Takes a chunk of rows, whose columns are learned before they are made.
    pub fn append(&mut self, rows: &[Row<'_>]) -> Result<(), TableError> {
        self.round.as_mut().expect("a round is open").append(&mut self.core, rows)
    }

    /// The row of an ended version leaves the table with the commit.
    pub fn end_version(&mut self, ended: Ended) {
        self.round.as_mut().expect("a round is open").end_version(ended);
    }

    /// Writes files, vectors and key files. The commit may follow when everything that the round
    /// read is durable. After a failure of the store it may be called again.
    pub fn prepare(&mut self, is_explained: &dyn Fn(Ended) -> bool) -> Result<(), TableError> {
        self.round.as_mut().expect("a round is open").prepare(&mut self.core, is_explained)
    }

    /// Values of the open round that went to `_rest`.
    pub fn overflow(&self) -> Option<&Overflow> {
        self.round.as_ref().map(Round::overflow)
    }

    /// Commits the prepared round and ends it. After a failure of the store it may be called again.
    pub fn commit(&mut self, commit: &Commit, reason: Reason) -> Result<u64, TableError> {
        let (edit, schema) = self.round.as_ref().and_then(Round::prepared).expect("a round is prepared");
        let schema = (*schema != self.core.schema).then(|| schema.clone());
        let version = self.core.commit(edit.clone(), schema, reason, commit)?;
        self.round = None;
        Ok(version)
    }

    /// Forgets the open round. Its files are deleted by vacuum.
    pub fn abandon(&mut self) {
        self.round = None;
    }

    /// Commits a state or position without rows.
    pub fn commit_state(&mut self, commit: &Commit) -> Result<u64, TableError> {
        self.core.commit(core::Edit::default(), None, Reason::State, commit)
    }

    /// Removes the rows whose `_ts` is before `seconds`, in one commit if there are any. Returns their
    /// number. No round is open.
    pub fn remove_older(&mut self, seconds: i64, time: i64) -> Result<u64, TableError> {
        assert!(self.round.is_none(), "no round is open");
        retention::remove_older(&mut self.core, seconds, time)
    }

    /// The next compaction that is due. The job may run on another thread while rounds go on.
    pub fn plan_compaction(&self, ranges: &[Span], kind: CompactionKind, time: i64) -> Option<CompactionJob> {
        compact::plan(&self.core, ranges, kind, time)
    }

    /// Commits a finished job. `None` when one of its files left the table meanwhile, and the job is
    /// to be planned anew. No round is open.
    pub fn commit_compaction(&mut self, compacted: &Compacted, time: i64) -> Result<Option<u64>, TableError> {
        assert!(self.round.is_none(), "no round is open");
        compact::commit(&mut self.core, compacted, time)
    }

    /// The rewriting of columns that are to be widened and whose files were too large for a round. The
    /// job may run on another thread.
    pub fn plan_widening(&self, time: i64) -> Result<Option<WideningJob>, TableError> {
        widen_job::plan(&self.core, time)
    }

    /// Commits a finished job. `None` when files changed and it is to be planned anew, and when the
    /// columns stay as they are. No round is open.
    pub fn commit_widening(&mut self, widened: &Widened, time: i64) -> Result<Option<u64>, TableError> {
        assert!(self.round.is_none(), "no round is open");
        widen_job::commit(&mut self.core, widened, time)
    }

    /// Deletes files that no retained version names. `building` is a generation that is being built.
    pub fn vacuum(&mut self, building: Option<u32>, now: i64) -> Result<Vacuumed, TableError> {
        vacuum::vacuum(&mut self.core, building, now)
    }

    /// A version of the retained history.
    pub fn version_at(&self, version: u64) -> Result<Version, TableError> {
        self.core.log.at(version)
    }

    /// Versions within the retention at this time, with their commit times, oldest first. The newest
    /// one is always among them.
    pub fn history(&self, now: i64) -> Result<Vec<(u64, i64)>, TableError> {
        let retention = i64::from(self.core.version.metadata.retention_hours) * 3_600_000;
        let all = self.core.log.history()?;
        let ends = all.iter().skip(1).map(|(_, time)| Some(*time)).chain([None]);
        let kept = all.iter().zip(ends).filter(|(_, end)| end.is_none_or(|end| end >= now - retention));
        Ok(kept.map(|(version, _)| *version).collect())
    }

    /// All live rows of a version of this table.
    pub fn read_version(&self, version: &Version) -> LiveRows {
        LiveRows::of(&self.core.files, version)
    }

    /// Writes the live rows of a version of this table for programs that cannot read it.
    pub fn export(
        &self,
        version: &Version,
        target: &dyn TableStore,
        options: &ExportOptions,
    ) -> Result<Exported, TableError> {
        let schema = core::schema_of(&version.metadata, &self.core.options)?;
        export::export(&self.core.files, &schema, version, target, options)
    }

    /// Compares every file of the newest version with its checksum.
    pub fn verify_files(&self) -> Result<(), TableError> {
        self.core.version.files.values().try_for_each(|file| self.core.files.verify(file))
    }

    /// All live rows of the newest version.
    pub fn read(&self) -> LiveRows {
        LiveRows::of(&self.core.files, &self.core.version)
    }

    /// Makes this generation, which was built apart, the one that readers see: in one commit of the
    /// serving log, which is begun when there is none.
    pub fn swap(self, folders: &TableFolders, commit: &Commit) -> Result<Table, TableError> {
        let core = generation::swap(self.core, folders, commit)?;
        Ok(Table { core, round: None })
    }
}
