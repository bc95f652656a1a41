//! The files of tables: where they lie, opening them, and deleting those of ended containers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use shardlake_analytical_table::error::TableError;
use shardlake_analytical_table::schema::{SchemaLimits, SchemaMode};
use shardlake_analytical_table::store::LocalStore;
use shardlake_analytical_table::table::{Sizes, TableFolders, TableOptions};
use shardlake_catalog::{AnalyticalRecord, AnalyticalSchema, Definitions};
use shardlake_model::{Container, PartitionKeyDefinition};
use shardlake_router::Serving;

use super::paced::PacedStore;
use super::step::Step;
use crate::{AnalyticsOptions, folder_of};

/// Beside the local files of a table: where its own are, so that they can be deleted with the container.
const ABOUT: &str = "folder";

/// Folder of a table below the root.
pub fn folder(options: &AnalyticsOptions, (database, container): &(String, String)) -> PathBuf {
    options.root.join(folder_of(database, container))
}

/// Whether this server, or one before it over the same data, has kept the table.
pub fn is_known(options: &AnalyticsOptions, record: &AnalyticalRecord) -> bool {
    options.local.join(&record.table).join(ABOUT).exists()
}

/// Notes that this server keeps the table from now on.
pub fn note_known(
    options: &AnalyticsOptions,
    names: &(String, String),
    record: &AnalyticalRecord,
) -> Result<(), TableError> {
    let about = folder_of(&names.0, &names.1).into_bytes();
    let keys = on_disk(options, &options.local.join(&record.table))?;
    Ok(shardlake_analytical_table::store::TableStore::write(&keys, ABOUT, &about)?)
}

/// The folders of a table, which exist afterwards.
pub fn open(
    step: &Step<'_>,
    names: &(String, String),
    record: &AnalyticalRecord,
) -> Result<TableFolders, TableError> {
    let (options, pace) = (step.options, &step.server.pace);
    let store = PacedStore::new(on_disk(options, &folder(options, names))?, pace.clone());
    let keys = on_disk(options, &options.local.join(&record.table))?;
    let keys = PacedStore::new(keys, pace.clone());
    Ok(TableFolders { store: Arc::new(store), keys: Arc::new(keys), random: step.router.random().clone() })
}

#[cfg(not(feature = "testing"))]
fn on_disk(_: &AnalyticsOptions, folder: &Path) -> Result<LocalStore, TableError> {
    Ok(LocalStore::open(folder)?)
}

#[cfg(feature = "testing")]
fn on_disk(
    options: &AnalyticsOptions,
    folder: &Path,
) -> Result<shardlake_analytical_table::store::FaultyStore, TableError> {
    let store = Arc::new(LocalStore::open(folder)?);
    Ok(shardlake_analytical_table::store::FaultyStore::with(store, options.hooks.faults.clone()))
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

/// Deletes a table with its local files. A folder that cannot be deleted is named in the log: nothing needs it.
pub fn delete(options: &AnalyticsOptions, folder: &Path, table: &str) {
    for path in [folder.to_owned(), options.local.join(table)] {
        match std::fs::remove_dir_all(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(folder = %path.display(), %error, "files of an ended analytical table stay");
            }
            _ => {}
        }
    }
}

/// Deletes the tables whose containers ended while no follower ran.
pub fn remove_strays(options: &AnalyticsOptions, definitions: &Definitions) {
    let Ok(entries) = std::fs::read_dir(&options.local) else { return };
    for entry in entries.flatten() {
        let table = entry.file_name().to_string_lossy().into_owned();
        if definitions.analytical.values().any(|record| record.table == table) {
            continue;
        }
        let about = std::fs::read_to_string(entry.path().join(ABOUT)).ok();
        // A new container of the same name may have a table there already: its own local files name that folder, too.
        let folder = about.as_ref().map(|about| options.root.join(about)).filter(|folder| {
            !definitions
                .analytical
                .iter()
                .any(|(rid, _)| folder_of_container(options, definitions, *rid).as_ref() == Some(folder))
        });
        delete(options, folder.as_deref().unwrap_or(&entry.path()), &table);
    }
}

fn folder_of_container(
    options: &AnalyticsOptions,
    definitions: &Definitions,
    rid: shardlake_model::ContainerRid,
) -> Option<PathBuf> {
    let database = definitions.databases.get(&rid.database)?.id.clone();
    let container = definitions.containers.get(&rid)?.container.definition.id.clone();
    Some(folder(options, &(database, container)))
}
