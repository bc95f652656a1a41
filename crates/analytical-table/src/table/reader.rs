//! A version of a table for reading only, without its options: for exports and queries.

use std::sync::Arc;

use shardlake_stdx::Random;

use super::export::{ExportOptions, Exported, export};
use super::files::Files;
use super::options::{Location, Sizes};
use super::read::LiveRows;
use crate::delta::DeltaLog;
use crate::error::TableError;
use crate::keys::KeyHasher;
use crate::log::{TableLog, Version};
use crate::schema::{SchemaLimits, TableSchema};
use crate::store::TableStore;

#[derive(Debug)]
pub struct TableReader {
    log: DeltaLog,
    files: Files,
    version: Version,
    schema: TableSchema,
}

impl TableReader {
    /// Opens the newest version below the table's folder; `None` where readers see no table.
    pub fn open(store: Arc<dyn TableStore>) -> Result<Option<TableReader>, TableError> {
        let base = Location::Serving.base();
        let log = DeltaLog::new(store.clone(), &base);
        let Some(version) = log.newest()? else { return Ok(None) };
        let files = Files {
            keys: store.clone(),
            store,
            base,
            data: Location::Serving.data(version.info.generation),
            // A reader looks no keys up and writes no files.
            hasher: KeyHasher::new(&[]),
            random: Random::seeded(0),
            stats_keys: Vec::new(),
            row_group_rows: Sizes::default().row_group_rows,
        };
        let schema = schema_of(&version)?;
        Ok(Some(TableReader { log, files, version, schema }))
    }

    pub fn version(&self) -> &Version {
        &self.version
    }

    pub fn schema(&self) -> &TableSchema {
        &self.schema
    }

    /// Goes to another version of the retained history.
    pub fn at(&mut self, version: u64) -> Result<(), TableError> {
        self.version = self.log.at(version)?;
        self.schema = schema_of(&self.version)?;
        Ok(())
    }

    /// Versions in the log with their commit times, oldest first.
    pub fn history(&self) -> Result<Vec<(u64, i64)>, TableError> {
        self.log.history()
    }

    pub fn read(&self) -> LiveRows {
        LiveRows::of(&self.files, &self.version)
    }

    pub fn export(&self, target: &dyn TableStore, options: &ExportOptions) -> Result<Exported, TableError> {
        export(&self.files, &self.schema, &self.version, target, options)
    }

    /// Compares every file with its checksum.
    pub fn verify_files(&self) -> Result<(), TableError> {
        self.version.files.values().try_for_each(|file| self.files.verify(file))
    }
}

fn schema_of(version: &Version) -> Result<TableSchema, TableError> {
    let metadata = &version.metadata;
    let none: [&str; 0] = [];
    TableSchema::of_delta(&metadata.schema, metadata.mode, SchemaLimits::default(), &none)
        .map_err(|error| TableError::damaged("_delta_log", error))
}
