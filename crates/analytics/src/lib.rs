//! Analytical stores: a table of columns for each container that asks for one, which follows the container's change log.
//!
//! ```text
//! catalog: policy, settings ──> follower: rounds of the log, one view each ──> table: rows, vectors and LSNs in one commit
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `report.rs` | the state of a table, for operators and metrics |
//! | `status.rs` | the state of a table, between its follower and reports |
//! | `freshness.rs` | whether a table has the writes that a query asks for |
//! | `root.rs` | the place of all tables: a directory, or a folder of an object store |
//! | `export.rs` | copies for programs that cannot read tables (feature `table`) |
//! | `testing.rs` | faults and mistakes on demand (features `table` and `testing`) |
//! | `follower/` | the thread that keeps all tables true (feature `table`) |
//!
//! The catalog has policies, settings and orders; the newest version of a table's own log has how far it has come, in the commit that
//! holds the rows. Nothing else is stored, so nothing can disagree. Followers take no request units and hold no lock that a
//! request waits for: they read views. Without the feature `table` there is no follower, and the stores of the
//! catalog are reported as stopped.

#[cfg(feature = "table")]
mod export;
#[cfg(feature = "table")]
mod follower;
mod freshness;
mod report;
mod root;
mod status;
#[cfg(all(feature = "table", feature = "testing"))]
pub mod testing;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use shardlake_catalog::folder_of;
use shardlake_catalog::{AnalyticalMode, AnalyticalRecord, AnalyticalSchema, AnalyticalSettings};
pub use shardlake_change_log::AtLeast;
use shardlake_definitions::{Resources, not_enabled};
use shardlake_model::{ContainerRid, Result};
use shardlake_router::{ContainerEntry, Serving};

#[cfg(feature = "table")]
pub use export::{Copied, Export, export};
pub use freshness::{Freshness, Wanted};
pub use report::{
    ColumnReport, ErrorReport, LagReport, OrderReport, PlaceReport, TableCounts, TableFigures, TableReport,
    TableState,
};
pub use root::Root;
#[cfg(all(feature = "table", feature = "object-storage"))]
pub use shardlake_analytical_table::store::ObjectTableStore;
use status::{Orders, Statuses};

/// Whether this build writes tables.
pub const HAS_TABLES: bool = cfg!(feature = "table");

/// How tables are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnalyticsOptions {
    /// Place of the tables.
    pub root: Root,
    /// Folder of files that are derived from tables and made anew where they are missing.
    pub local: PathBuf,
    /// Time between two rounds of a table whose settings name none.
    pub lag: Duration,
    /// Time for which old versions and closed tables' files are kept.
    pub retention: Duration,
    /// Time for which a closed table can be opened again.
    pub closed_retention: Duration,
    /// Bytes that are written for each second, over all tables.
    pub write_rate: u64,
    /// Most columns of a table, over all levels.
    pub properties_max: usize,
    #[cfg(all(feature = "table", feature = "testing"))]
    pub hooks: testing::Hooks,
}

impl AnalyticsOptions {
    /// Tables below a data directory, with the defaults.
    pub fn below(data: &std::path::Path) -> AnalyticsOptions {
        AnalyticsOptions {
            root: Root::Directory(data.join("analytics")),
            local: data.join("analytics-local"),
            lag: Duration::from_secs(5),
            retention: Duration::from_secs(24 * 60 * 60),
            closed_retention: Duration::from_secs(7 * 24 * 60 * 60),
            write_rate: 64 * 1024 * 1024,
            properties_max: 1000,
            #[cfg(all(feature = "table", feature = "testing"))]
            hooks: testing::Hooks::default(),
        }
    }
}

/// Stores that containers may have in this build.
pub fn mode(is_on: bool, schema: AnalyticalSchema) -> AnalyticalMode {
    match (HAS_TABLES, is_on) {
        (false, _) => AnalyticalMode::Absent,
        (true, false) => AnalyticalMode::Off,
        (true, true) => AnalyticalMode::On { schema },
    }
}

/// The analytical stores of an account. Cheap to clone; the follower holds it weakly.
#[derive(Debug, Clone)]
pub struct Analytics(Arc<State>);

#[derive(Debug)]
pub(crate) struct State {
    resources: Resources,
    /// `None`: nothing is followed.
    #[cfg_attr(not(feature = "table"), allow(dead_code))] // Only the follower reads it.
    options: Option<AnalyticsOptions>,
    statuses: Statuses,
}

impl Analytics {
    /// Follows all containers with a policy, now and later. Without options nothing is followed.
    pub fn start(resources: Resources, options: Option<AnalyticsOptions>) -> Result<Analytics> {
        let state = Arc::new(State { resources, options, statuses: Statuses::default() });
        #[cfg(feature = "table")]
        if state.options.is_some() {
            follower::start(&state)?;
        }
        Ok(Analytics(state))
    }

    fn router(&self) -> &Serving {
        self.0.resources.router()
    }

    /// Every table, in the order of the containers' numbers.
    pub async fn reports(&self) -> Vec<TableReport> {
        let live = self.router().catalog().load_full();
        let mut reports = Vec::with_capacity(live.definitions.analytical.len());
        for (rid, record) in live.definitions.analytical.iter() {
            if let Some(entry) = live.container_of_rid(*rid) {
                let database = live.definitions.databases.get(&rid.database);
                let database = database.map(|database| database.id.clone()).unwrap_or_default();
                reports.push(self.report_of(&database, entry, record).await);
            }
        }
        reports
    }

    /// The table of a container.
    pub async fn report(&self, rid: ContainerRid) -> Result<TableReport> {
        let live = self.router().catalog().load_full();
        let record = live.definitions.analytical.get(&rid).ok_or_else(not_enabled)?;
        let entry = live.container_of_rid(rid).ok_or_else(not_enabled)?;
        let database = live.definitions.databases.get(&rid.database).ok_or_else(not_enabled)?;
        Ok(self.report_of(&database.id, entry, record).await)
    }

    async fn report_of(
        &self,
        database: &str,
        entry: &ContainerEntry,
        record: &AnalyticalRecord,
    ) -> TableReport {
        let container = &entry.record.container;
        let status = self.0.statuses.of(container.rid);
        let live = status.live().clone();
        let state = self.state_of(record, live.state);
        let places: Vec<_> = live.places.iter().map(|place| place.record()).collect();
        let behind = shardlake_change_log::lag(self.router(), container.rid, &places).await;
        let json_bytes = entry.map.iter().map(|partition| partition.size_bytes()).sum();
        TableReport {
            database: database.to_owned(),
            container: container.definition.id.clone(),
            state,
            ttl: container.definition.analytical_storage_ttl.unwrap_or(0),
            settings: record.settings.clone(),
            location: live.location,
            lag: LagReport { changes: behind.changes, seconds: behind.seconds },
            complete_to: live.places.iter().map(|place| place.read_at).min(),
            places: live.places.iter().map(|place| place.report()).collect(),
            figures: TableFigures { json_bytes, ..live.figures },
            counts: live.counts,
            orders: live.orders.reports(),
            last_error: live.last_error,
        }
    }

    /// The state of a table in which its follower left it.
    fn state_of(&self, record: &AnalyticalRecord, left: Option<TableState>) -> TableState {
        match left {
            _ if record.closed.is_some() => TableState::Closed,
            Some(state) if self.0.options.is_some() => state,
            None if self.0.options.is_some() => TableState::Building { percent: 0 },
            _ => TableState::Stopped,
        }
    }

    /// Replaces the settings of a table.
    pub async fn set_settings(
        &self,
        rid: ContainerRid,
        settings: AnalyticalSettings,
        rebuild: bool,
    ) -> Result<()> {
        self.0.resources.set_analytical(rid, settings, rebuild).await?;
        self.0.statuses.wake();
        Ok(())
    }

    /// Stops or resumes following; a restart does not resume it.
    pub async fn pause(&self, rid: ContainerRid, is_paused: bool) -> Result<()> {
        self.0.resources.pause_analytical(rid, is_paused).await?;
        self.0.statuses.wake();
        Ok(())
    }

    /// Makes the table anew; readers see the old one until the new one is complete.
    pub async fn rebuild(&self, rid: ContainerRid) -> Result<()> {
        self.0.resources.rebuild_analytical(rid).await?;
        self.0.statuses.wake();
        Ok(())
    }

    /// Has small files joined and deleted rows removed; with `purge`, every file that has a deletion vector is rewritten.
    /// Returns the number of the order, which reports name once it is done.
    pub fn compact(&self, rid: ContainerRid, purge: bool) -> Result<u64> {
        self.order(rid, |orders| orders.ask_compaction(purge))
    }

    /// Has every item compared with its row, and every row with its item.
    pub fn verify(&self, rid: ContainerRid) -> Result<u64> {
        self.order(rid, Orders::ask_verification)
    }

    fn order(&self, rid: ContainerRid, ask: impl FnOnce(&mut Orders) -> u64) -> Result<u64> {
        let live = self.router().catalog().load_full();
        live.definitions
            .analytical
            .get(&rid)
            .filter(|record| record.closed.is_none())
            .ok_or_else(not_enabled)?;
        let number = ask(&mut self.0.statuses.of(rid).live().orders);
        self.0.statuses.wake();
        Ok(number)
    }
}
