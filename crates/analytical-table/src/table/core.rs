//! State of an open table: its newest version, and the one way to the next one.

use std::collections::BTreeSet;
use std::sync::Arc;

use shardlake_stdx::Random;

use super::files::Files;
use super::find::Indexes;
use super::options::{Commit, Location, TableFolders, TableOptions};
use crate::delta::DeltaLog;
use crate::error::TableError;
use crate::keys::KeyHasher;
use crate::log::{
    Change, CommitInfo, DataFile, FORMAT, Metadata, Place, Reason, TableLog, Tombstone, Version,
};
use crate::schema::{ColumnPath, TableSchema};

#[derive(Debug)]
pub struct Core {
    pub files: Files,
    pub log: Arc<dyn TableLog>,
    pub options: TableOptions,
    pub version: Version,
    pub schema: TableSchema,
    pub indexes: Indexes,
    /// Columns whose files are too large to be rewritten within a round.
    pub pending_widenings: BTreeSet<ColumnPath>,
    /// Columns with integers that no double equals.
    pub refused_widenings: BTreeSet<ColumnPath>,
    /// Set for good when the table must not be written again.
    failed: Option<TableError>,
    is_checkpoint_due: bool,
}

/// Files that a commit takes away and adds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Edit {
    pub removed: Vec<DataFile>,
    pub added: Vec<DataFile>,
}

impl Edit {
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty()
    }
}

impl Core {
    pub fn open(
        folders: &TableFolders,
        location: Location,
        options: TableOptions,
    ) -> Result<Option<Core>, TableError> {
        let log = log_of(folders, location);
        let Some(version) = log.newest()? else { return Ok(None) };
        let options = TableOptions { mode: version.metadata.mode, ..options };
        let schema = schema_of(&version.metadata, &options)?;
        let files = files_of(folders, location, version.info.generation, &options);
        Ok(Some(Core {
            files,
            log,
            version,
            schema,
            indexes: Indexes::new(options.sizes.index_bytes),
            options,
            pending_widenings: BTreeSet::new(),
            refused_widenings: BTreeSet::new(),
            failed: None,
            is_checkpoint_due: false,
        }))
    }

    /// Writes the first version, without rows.
    pub fn create(
        folders: &TableFolders,
        location: Location,
        generation: u32,
        options: TableOptions,
        commit: &Commit,
    ) -> Result<Core, TableError> {
        let log = log_of(folders, location);
        let schema = TableSchema::new(options.mode, options.limits, &options.exclude);
        let metadata = Metadata {
            id: folders.random.guid().to_string(),
            mode: options.mode,
            schema: schema.delta(),
            created: commit.time,
            retention_hours: options.retention_hours,
        };
        let change = Change {
            info: info(&options, generation, Reason::Create, commit, &folders.random),
            time: commit.time,
            metadata: Some(metadata),
            removed: Vec::new(),
            added: Vec::new(),
            changes_rows: true,
        };
        match log.commit(None, &change) {
            Err(TableError::AnotherWriter { .. }) => return Err(TableError::Exists),
            result => result?,
        };
        let version = Version::first(0, &change).ok_or(TableError::Missing)?;
        let files = files_of(folders, location, generation, &options);
        Ok(Core {
            files,
            log,
            version,
            schema,
            indexes: Indexes::new(options.sizes.index_bytes),
            options,
            pending_widenings: BTreeSet::new(),
            refused_widenings: BTreeSet::new(),
            failed: None,
            is_checkpoint_due: false,
        })
    }

    pub fn places(&self) -> &[Place] {
        &self.version.info.places
    }

    pub fn check(&self) -> Result<(), TableError> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// One commit. The schema is that of the version from then on.
    pub fn commit(
        &mut self,
        edit: Edit,
        schema: Option<TableSchema>,
        reason: Reason,
        commit: &Commit,
    ) -> Result<u64, TableError> {
        self.check()?;
        assert!(
            reason != Reason::Round || do_places_advance(self.places(), &commit.places),
            "the position of a span never goes back: {:?} after {:?}",
            commit.places,
            self.places(),
        );
        // Times in the log never decrease, whatever the clock does.
        let time = commit.time.max(self.version.time);
        let changes_rows = !matches!(reason, Reason::Compaction);
        let current = &self.version.metadata;
        let metadata = Metadata {
            schema: schema.as_ref().map_or_else(|| current.schema.clone(), TableSchema::delta),
            retention_hours: self.options.retention_hours,
            ..current.clone()
        };
        let generation = self.version.info.generation;
        let tombstones = edit.removed.iter().map(|file| Tombstone::of(file, time, changes_rows));
        let change = Change {
            info: info(&self.options, generation, reason, commit, &self.files.random),
            time,
            metadata: (metadata != *current).then_some(metadata),
            removed: tombstones.collect(),
            added: edit.added,
            changes_rows,
        };
        self.commit_change(&change)?;
        if let Some(schema) = schema {
            self.schema = schema;
        }
        Ok(self.version.number)
    }

    pub fn commit_change(&mut self, change: &Change) -> Result<(), TableError> {
        debug_assert!(are_files_known(&self.version, change), "removed files are in the version");
        match self.log.commit(Some(&self.version), change) {
            Ok(_) => {}
            Err(error) => {
                if matches!(error, TableError::AnotherWriter { .. } | TableError::Unsure) {
                    self.failed = Some(error.clone());
                }
                return Err(error);
            }
        }
        self.version.advance(change);
        self.indexes.keep(|path| self.version.files.contains_key(path));
        self.is_checkpoint_due |= self.version.number.is_multiple_of(self.options.checkpoint_every);
        if self.is_checkpoint_due && self.version.number > 0 {
            // The commit stands, so a failure here is attempted again after the next one.
            self.is_checkpoint_due = self.log.checkpoint(&self.version).is_err();
        }
        Ok(())
    }
}

fn do_places_advance(before: &[Place], after: &[Place]) -> bool {
    let same = |place: &Place| before.iter().find(|former| former.span == place.span);
    after.iter().all(|place| same(place).is_none_or(|former| former.lsn <= place.lsn))
}

fn are_files_known(version: &Version, change: &Change) -> bool {
    change.removed.iter().all(|tombstone| {
        version.files.get(&tombstone.path).is_some_and(|file| file.vector == tombstone.vector)
    })
}

pub fn info(
    options: &TableOptions,
    generation: u32,
    reason: Reason,
    commit: &Commit,
    random: &Random,
) -> CommitInfo {
    CommitInfo {
        format: FORMAT,
        container: options.container.clone(),
        generation,
        history: options.history.clone(),
        writer: options.writer.clone(),
        commit: random.guid().to_string(),
        reason,
        state: commit.state.clone(),
        places: commit.places.clone(),
    }
}

pub fn log_of(folders: &TableFolders, location: Location) -> Arc<dyn TableLog> {
    Arc::new(DeltaLog::new(folders.store.clone(), &location.base()))
}

pub fn schema_of(metadata: &Metadata, options: &TableOptions) -> Result<TableSchema, TableError> {
    TableSchema::of_delta(&metadata.schema, metadata.mode, options.limits, &options.exclude)
        .map_err(|error| TableError::damaged("_delta_log", error))
}

pub fn files_of(
    folders: &TableFolders,
    location: Location,
    generation: u32,
    options: &TableOptions,
) -> Files {
    Files {
        store: folders.store.clone(),
        keys: folders.keys.clone(),
        base: location.base(),
        data: location.data(generation),
        hasher: KeyHasher::new(&options.secret),
        random: folders.random.clone(),
        stats_keys: options.stats_keys.clone(),
        row_group_rows: options.sizes.row_group_rows,
    }
}
