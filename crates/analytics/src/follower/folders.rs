//! The files of tables: where they lie, opening them, and deleting those of ended containers.

use std::collections::BTreeSet;
use std::sync::Arc;

use shardlake_analytical_table::error::TableError;
use shardlake_analytical_table::schema::{SchemaLimits, SchemaMode};
use shardlake_analytical_table::store::{LocalStore, StoreError, TableStore};
use shardlake_analytical_table::table::{Sizes, TableFolders, TableOptions};
use shardlake_catalog::{AnalyticalRecord, AnalyticalSchema, Definitions};
use shardlake_model::{Container, PartitionKeyDefinition};
use shardlake_router::Serving;

use super::paced::PacedStore;
use super::step::Step;
use crate::root::remove_directory;
use crate::{AnalyticsOptions, Root};

/// Notes of the tables that were begun, each with its folder: so the files of a table can be deleted when the container
/// has ended. For tables in a directory they lie with the local files. For tables in an object store they lie there, in
/// the folder `_tables`, because another server may find the container ended.
struct Register<'o>(&'o AnalyticsOptions);

/// With the local files of a table.
const ABOUT: &str = "folder";
/// Below the root.
const TABLES: &str = "_tables";

impl Register<'_> {
    fn files(&self) -> Result<Arc<dyn TableStore>, StoreError> {
        match &self.0.root {
            Root::Directory(_) => Ok(with_faults(self.0, Arc::new(LocalStore::open(&self.0.local)?))),
            #[cfg(feature = "object-storage")]
            root => Ok(with_faults(self.0, root.files()?)),
        }
    }

    fn path(&self, table: &str) -> String {
        match self.0.root.directory() {
            Some(_) => format!("{table}/{ABOUT}"),
            None => format!("{TABLES}/{table}"),
        }
    }

    fn folder_of(&self, table: &str) -> Result<Option<String>, StoreError> {
        match self.files()?.read(&self.path(table)) {
            Ok(text) => Ok(Some(String::from_utf8_lossy(&text).into_owned())),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn note(&self, table: &str, folder: &str) -> Result<(), StoreError> {
        self.files()?.write(&self.path(table), folder.as_bytes())
    }

    /// In a directory the note is one of the local files.
    fn forget(&self, table: &str) -> Result<(), StoreError> {
        match self.0.root.directory() {
            Some(_) => Ok(()),
            None => self.0.root.files()?.delete(&self.path(table)),
        }
    }

    /// All noted tables, and those with local files.
    fn tables(&self) -> Result<BTreeSet<String>, StoreError> {
        let local = std::fs::read_dir(&self.0.local).into_iter().flatten().flatten();
        let local = local.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut tables: BTreeSet<String> = local.collect();
        if self.0.root.directory().is_none() {
            let noted = self.files()?.list(TABLES)?;
            tables.extend(noted.iter().filter_map(|file| Some(file.path.rsplit('/').next()?.to_owned())));
        }
        Ok(tables)
    }
}

/// Whether this server, or one before it over the same data, has kept the table.
pub fn is_known(options: &AnalyticsOptions, record: &AnalyticalRecord) -> Result<bool, TableError> {
    Ok(Register(options).folder_of(&record.table)?.is_some())
}

/// Notes that this server keeps the table from now on.
pub fn note_known(
    options: &AnalyticsOptions,
    folder: &str,
    record: &AnalyticalRecord,
) -> Result<(), TableError> {
    Ok(Register(options).note(&record.table, folder)?)
}

/// The folders of a table, which exist afterwards.
pub fn open(step: &Step<'_>, folder: &str, record: &AnalyticalRecord) -> Result<TableFolders, TableError> {
    let (options, pace) = (step.options, &step.server.pace);
    let store = PacedStore::new(with_faults(options, options.root.folder(folder)?), pace.clone());
    let keys = Arc::new(LocalStore::open(&options.local.join(&record.table))?);
    let keys = PacedStore::new(with_faults(options, keys), pace.clone());
    Ok(TableFolders { store: Arc::new(store), keys: Arc::new(keys), random: step.router.random().clone() })
}

#[cfg(not(feature = "testing"))]
fn with_faults(_: &AnalyticsOptions, store: Arc<dyn TableStore>) -> Arc<dyn TableStore> {
    store
}

#[cfg(feature = "testing")]
fn with_faults(options: &AnalyticsOptions, store: Arc<dyn TableStore>) -> Arc<dyn TableStore> {
    Arc::new(shardlake_analytical_table::store::FaultyStore::with(store, options.hooks.faults.clone()))
}

/// Settings of a table.
pub fn table_options(
    options: &AnalyticsOptions,
    router: &Serving,
    container: &Container,
    record: &AnalyticalRecord,
) -> TableOptions {
    let key = &container.definition.partition_key;
    let cluster_by = match record.settings.cluster_by.as_slice() {
        [] => paths_of(key),
        paths => paths.iter().map(|path| members(path)).collect(),
    };
    let mut stats_keys = paths_of(key);
    stats_keys.extend(cluster_by.iter().filter(|path| !paths_of(key).contains(path)).cloned());
    TableOptions {
        container: container.rid.to_string(),
        history: record.history.clone(),
        writer: router.random().guid().to_string(),
        secret: record.secret.clone().into_bytes(),
        mode: match record.settings.schema {
            AnalyticalSchema::WellDefined => SchemaMode::WellDefined,
            AnalyticalSchema::FullFidelity => SchemaMode::FullFidelity { is_mongo: container.is_collection },
        },
        limits: SchemaLimits { properties: options.properties_max, ..SchemaLimits::default() },
        exclude: record.settings.exclude.clone(),
        stats_keys,
        cluster_by,
        retention_hours: (options.retention.as_secs() / 3600).max(1) as u32,
        checkpoint_every: 64,
        sizes: Sizes::default(),
    }
}

fn paths_of(key: &PartitionKeyDefinition) -> Vec<Vec<String>> {
    key.paths.iter().map(|path| members(path)).collect()
}

/// The members that a path such as `/a/b` names.
fn members(path: &str) -> Vec<String> {
    path.split('/').skip(1).map(str::to_owned).collect()
}

/// Deletes a table with its local files. Files that cannot be deleted are named in the log: nothing needs them, and the next
/// start attempts it again.
pub fn delete(options: &AnalyticsOptions, folder: Option<&str>, table: &str) {
    let removed = folder
        .map_or(Ok(()), |folder| options.root.remove(folder))
        .and_then(|()| Register(options).forget(table).map_err(|error| error.to_string()))
        .and_then(|()| remove_directory(&options.local.join(table)));
    if let Err(error) = removed {
        tracing::warn!(?folder, error, "files of an ended analytical table stay");
    }
}

/// Deletes the tables whose containers ended while no follower ran.
pub fn remove_strays(options: &AnalyticsOptions, definitions: &Definitions) {
    let register = Register(options);
    let tables = match register.tables() {
        Ok(tables) => tables,
        Err(error) => {
            tracing::warn!(%error, "files of ended analytical tables are not looked for");
            return;
        }
    };
    let is_live = |table: &String| definitions.analytical.values().any(|record| record.table == *table);
    for table in tables.iter().filter(|table| !is_live(table)) {
        let Ok(folder) = register.folder_of(table) else { continue };
        // A new container of the same name may have a table there already: its own note names that folder, too.
        let folder = folder.filter(|folder| {
            !definitions
                .analytical
                .iter()
                .any(|(rid, _)| folder_of_container(definitions, *rid).as_ref() == Some(folder))
        });
        delete(options, folder.as_deref(), table);
    }
}

fn folder_of_container(definitions: &Definitions, rid: shardlake_model::ContainerRid) -> Option<String> {
    let database = &definitions.databases.get(&rid.database)?.id;
    let container = &definitions.containers.get(&rid)?.container.definition.id;
    Some(definitions.analytical.get(&rid)?.folder(database, container))
}
