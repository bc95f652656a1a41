//! Databases and containers by name. A table is opened when a statement first names it, and stays at that version until the statement
//! ends.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::common::{DataFusionError, Result};
use serde::{Deserialize, Serialize};
use shardlake_analytical_table::error::TableError;
use shardlake_analytical_table::store::LocalStore;
use shardlake_analytical_table::table::TableReader;

use super::provider::VersionTable;
use super::reader::{Footers, ReadCounter};

/// A table of the account, as the server lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedTable {
    pub database: String,
    pub container: String,
    /// Absolute path of the table's folder; `None` where there is none yet.
    pub folder: Option<PathBuf>,
    /// Seconds for which rows are shown after the last write of their item; -1: for ever.
    pub ttl: i64,
    /// Why it cannot be queried now.
    pub refusal: Option<Refusal>,
    /// State of a table that is behind, for the snapshot of the answer.
    pub warning: Option<String>,
}

/// The reason why a statement cannot read a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    NotEnabled(String),
    NotReady(String),
    /// The table lies where workers cannot read it.
    OutOfReach(String),
    VersionGone(String),
    Damaged(String),
}

impl Refusal {
    pub fn message(&self) -> &str {
        match self {
            Refusal::NotEnabled(message)
            | Refusal::NotReady(message)
            | Refusal::OutOfReach(message)
            | Refusal::VersionGone(message)
            | Refusal::Damaged(message) => message,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for Refusal {}

/// The versions that a statement reads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum AsOf {
    #[default]
    Newest,
    /// By `database/container`. Tables that are not named are read at their newest version.
    Versions(BTreeMap<String, u64>),
    /// The last version of each table that was committed by then, in milliseconds since 1970.
    Time(i64),
}

/// A table that the statement named.
#[derive(Debug, Clone)]
pub struct OpenedTable {
    pub database: String,
    pub container: String,
    pub table: Arc<VersionTable>,
    pub warning: Option<String>,
}

/// The tables of an account for one statement.
#[derive(Debug, Clone)]
pub struct Catalog(Arc<State>);

#[derive(Debug)]
struct State {
    tables: Vec<ListedTable>,
    as_of: AsOf,
    /// The second at which the query began.
    now: i64,
    footers: Footers,
    counter: ReadCounter,
    opened: Mutex<BTreeMap<(String, String), Arc<VersionTable>>>,
}

impl Catalog {
    pub fn new(
        tables: Vec<ListedTable>,
        as_of: AsOf,
        now: i64,
        (footers, counter): (Footers, ReadCounter),
    ) -> Catalog {
        Catalog(Arc::new(State { tables, as_of, now, footers, counter, opened: Mutex::default() }))
    }

    pub fn tables(&self) -> &[ListedTable] {
        &self.0.tables
    }

    pub fn find(&self, database: &str, container: &str) -> Option<&ListedTable> {
        self.0.tables.iter().find(|table| table.database == database && table.container == container)
    }

    /// Tables that were opened so far, in the order of their names.
    pub fn opened(&self) -> Vec<OpenedTable> {
        let opened = self.0.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = opened.iter().map(|((database, container), table)| OpenedTable {
            database: database.clone(),
            container: container.clone(),
            table: table.clone(),
            warning: self.find(database, container).and_then(|listed| listed.warning.clone()),
        });
        opened.collect()
    }

    /// Forgets all versions but those of the named tables.
    pub fn keep(&self, names: &[(String, String)]) {
        self.0.opened.lock().unwrap_or_else(PoisonError::into_inner).retain(|name, _| names.contains(name));
    }

    /// The table at its version of this statement; `None` for a name that no table has.
    pub fn open(&self, database: &str, container: &str) -> Result<Option<Arc<VersionTable>>, Refusal> {
        let Some(listed) = self.find(database, container) else { return Ok(None) };
        if let Some(refusal) = &listed.refusal {
            return Err(refusal.clone());
        }
        let key = (database.to_owned(), container.to_owned());
        let mut opened = self.0.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(table) = opened.get(&key) {
            return Ok(Some(table.clone()));
        }
        let table = Arc::new(self.open_version(listed)?);
        opened.insert(key, table.clone());
        Ok(Some(table))
    }

    fn open_version(&self, listed: &ListedTable) -> Result<VersionTable, Refusal> {
        let name = format!("{}/{}", listed.database, listed.container);
        let not_ready = || Refusal::NotReady(format!("the table of '{name}' is being built: retry"));
        let folder = listed.folder.as_deref().ok_or_else(not_ready)?;
        // Opening a store would make its folder.
        if !folder.join("_delta_log").is_dir() {
            return Err(not_ready());
        }
        let store = LocalStore::open(folder).map_err(|error| damaged(&name, &error))?;
        let reader = TableReader::open(Arc::new(store.clone())).map_err(|error| failed(&name, &error))?;
        let mut reader = reader.ok_or_else(not_ready)?;
        if let Some(version) = self.wanted(&name, &reader)? {
            reader.at(version).map_err(|error| failed(&name, &error))?;
        }
        let oldest = (listed.ttl > 0).then(|| self.0.now - listed.ttl);
        let kept = (self.0.footers.clone(), self.0.counter.clone());
        let version = Arc::new(reader.version().clone());
        Ok(VersionTable::new(store, version, reader.schema(), oldest, kept))
    }

    /// `None`: the newest version.
    fn wanted(&self, name: &str, reader: &TableReader) -> Result<Option<u64>, Refusal> {
        match &self.0.as_of {
            AsOf::Newest => Ok(None),
            AsOf::Versions(versions) => Ok(versions.get(name).copied()),
            AsOf::Time(time) => {
                let history = reader.history().map_err(|error| failed(name, &error))?;
                let retention = i64::from(reader.version().metadata.retention_hours) * 3_600_000;
                let found = history.iter().rfind(|(_, committed)| committed <= time);
                let is_kept = *time >= self.0.now * 1_000 - retention;
                let found = found.filter(|_| is_kept).ok_or_else(|| {
                    Refusal::VersionGone(format!("'{name}' has no version of that time within its retention"))
                })?;
                Ok(Some(found.0))
            }
        }
    }
}

fn damaged(name: &str, error: &impl fmt::Display) -> Refusal {
    Refusal::Damaged(format!("the table of '{name}' cannot be read: {error}"))
}

fn failed(name: &str, error: &TableError) -> Refusal {
    match error {
        TableError::VersionGone { version } => Refusal::VersionGone(format!(
            "version {version} of '{name}' is outside of the retained history: leave 'asOf' out, or name a version that the log has"
        )),
        error => damaged(name, error),
    }
}

impl CatalogProvider for Catalog {
    fn schema_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.tables().iter().map(|table| table.database.clone()).collect();
        names.sort();
        names.dedup();
        names
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let is_there = self.tables().iter().any(|table| table.database == name);
        is_there.then(|| -> Arc<dyn SchemaProvider> {
            Arc::new(Database { catalog: self.clone(), name: name.to_owned() })
        })
    }
}

#[derive(Debug)]
struct Database {
    catalog: Catalog,
    name: String,
}

#[async_trait]
impl SchemaProvider for Database {
    /// Tables that can be read: lists of columns open every one of them.
    fn table_names(&self) -> Vec<String> {
        let of_database = self.catalog.tables().iter().filter(|table| table.database == self.name);
        let readable =
            of_database.filter(|table| table.refusal.is_none() && has_log(table.folder.as_deref()));
        readable.map(|table| table.container.clone()).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let opened = self.catalog.open(&self.name, name);
        let opened = opened.map_err(|refusal| DataFusionError::External(Box::new(refusal)))?;
        Ok(opened.map(|table| -> Arc<dyn TableProvider> { table }))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.catalog.find(&self.name, name).is_some()
    }
}

fn has_log(folder: Option<&Path>) -> bool {
    folder.is_some_and(|folder| folder.join("_delta_log").is_dir())
}
