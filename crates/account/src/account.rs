//! An account: the catalog and the partitions on its shards.

use std::sync::Arc;
use std::time::Duration;

use shardlake_backup::Backups;
use shardlake_capacity::budget::Burst;
use shardlake_catalog::AnalyticalMode;
use shardlake_copies::Copies;
use shardlake_definitions::Resources;
use shardlake_functions::Functions;
use shardlake_items::Items;
use shardlake_maintenance::{Purging, RelocationHooks, Upkeep};
use shardlake_model::{ConsistencyLevel, Error, ErrorKind, Limits, Result};
use shardlake_mongo::{Collections, finish_interrupted};
use shardlake_procedures::ScriptRuns;
use shardlake_projections::Projections;
use shardlake_queries::Queries;
use shardlake_router::{
    CapacityMode, Enforcement, HeatRecording, Reach, Serving, ServingOptions, Shards, ThroughputRules,
};
use shardlake_script::{ScriptSettings, Scripts};
use shardlake_sql::Dialect;
use shardlake_stdx::{Activity, Clock, Random};

use crate::expiry;

/// Hundredths of a request unit for reading a database, container or offer; the reference charges these to a separate
/// budget and reports 1 or 2 RU.
pub const METADATA_READ_CHARGE_CENTI: u64 = 100;
/// Charge for creating, replacing and deleting them.
pub const METADATA_WRITE_CHARGE_CENTI: u64 = 495;

#[derive(Debug, Clone, Default)]
pub struct AccountOptions {
    pub limits: Limits,
    pub clock: Clock,
    pub random: Random,
    pub consistency: ConsistencyLevel,
    pub throughput: Enforcement,
    pub capacity: CapacityMode,
    /// Burst credit for partitions under 3,000 RU/s.
    pub burst: bool,
    pub heat: HeatRecording,
    pub scripts: ScriptSettings,
    pub analytical: AnalyticalMode,
    /// The part of the query language that definitions of new global secondary indexes may use.
    pub index_dialect: Dialect,
    pub purging: Purging,
    /// Interval of the search for documents that an index has expired; `None`: every minute.
    pub expiry_every: Option<Duration>,
    /// For tests, as are the hooks.
    pub reach: Reach,
    pub hooks: RelocationHooks,
}

#[derive(Debug, Clone)]
pub struct Account(pub(crate) Arc<AccountState>);

#[derive(Debug)]
pub(crate) struct AccountState {
    pub router: Serving,
    pub procedures: ScriptRuns,
    pub definitions: Resources,
    pub collections: Collections,
    pub maintenance: Upkeep,
    pub projections: Projections,
    pub copies: Copies,
    pub functions: Functions,
    pub backups: Backups,
}

impl AccountState {
    /// State for background work, until the account is closed.
    fn open_parts(&self) -> Option<(&Collections, &Shards)> {
        (!self.router.is_closing()).then_some((&self.collections, self.router.stores()))
    }
}

/// Totals for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AccountStatistics {
    pub databases: u64,
    pub containers: u64,
    pub partitions: u64,
    pub items: u64,
    pub size_bytes: u64,
    pub shards: u64,
    /// Disk bytes of all shards together.
    pub disk_bytes: u64,
}

/// A shard, with totals of its data in the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardState {
    pub number: u16,
    pub partitions: u64,
    /// JSON size of the items.
    pub size_bytes: u64,
    /// Allocated blocks.
    pub disk_bytes: u64,
    /// `None` where the storage is no local disk.
    pub disk_free_bytes: Option<u64>,
    pub is_writable: bool,
}

impl Account {
    /// Reads the catalog, opens every partition and resumes deletions that a stop interrupted. The shards come in the
    /// order they always had; further empty ones may follow.
    pub async fn open(shards: impl Into<Shards>, options: AccountOptions) -> Result<Account> {
        Account::open_shards(shards.into(), options).await
    }

    async fn open_shards(shards: Shards, options: AccountOptions) -> Result<Account> {
        let removes = Activity::begin("removes states that an earlier run kept for backups");
        let backups = Backups::start(shards.clone(), options.clock.clone(), options.random.clone()).await;
        drop(removes);
        let scripts = Scripts::new(ScriptSettings { clock: options.clock.clone(), ..options.scripts });
        let options_of_router = ServingOptions {
            limits: options.limits,
            clock: options.clock,
            random: options.random,
            consistency: options.consistency,
            throughput: ThroughputRules {
                enforcement: options.throughput,
                capacity: options.capacity,
                burst: if options.burst { Burst::On } else { Burst::Off },
            },
            heat: options.heat,
            reach: options.reach,
        };
        let router = Serving::open(shards, options_of_router).await?;
        let definitions =
            Resources::new(router.clone(), scripts.clone(), options.analytical, options.index_dialect);
        let queries = Queries::new(Items::new(router.clone()), scripts.clone());
        let collections = Collections::new(queries.clone(), definitions.clone());
        let finishes = Activity::begin("finishes commands of MongoDB that were interrupted");
        if let Err(failure) = finish_interrupted(&collections).await {
            tracing::warn!(?failure, "interrupted commands stay unfinished until the next start");
        }
        drop(finishes);
        // Otherwise such a collection would accept writes although its documents have not claimed their values.
        Box::pin(collections.rebuild_collated()).await.map_err(|failure| Error::internal(failure.message))?;
        let maintenance = Upkeep::start(router.clone(), options.hooks, options.purging);
        let projections = Projections::start(queries.clone(), definitions.clone())?;
        let copies = Copies::start(router.clone());
        let functions = Functions::start(queries.clone(), definitions.clone(), scripts.clone());
        let state = Arc::new(AccountState {
            router,
            procedures: ScriptRuns::new(queries, scripts),
            definitions,
            collections,
            maintenance,
            projections,
            copies,
            functions,
            backups,
        });
        if options.purging == Purging::InBackground {
            expiry::start(&state, AccountState::open_parts, options.expiry_every);
        }
        Ok(Account(state))
    }

    /// Definitions in force, look-up, and the way to partitions.
    pub fn router(&self) -> &Serving {
        &self.0.router
    }

    pub fn items(&self) -> &Items {
        self.0.procedures.items()
    }

    pub fn queries(&self) -> &Queries {
        self.0.procedures.queries()
    }

    /// Stored procedures, triggers and functions, and the writes that run triggers.
    pub fn procedures(&self) -> &ScriptRuns {
        &self.0.procedures
    }

    /// Changes of databases, containers and their resources.
    pub fn definitions(&self) -> &Resources {
        &self.0.definitions
    }

    /// The containers as collections of documents.
    pub fn collections(&self) -> &Collections {
        &self.0.collections
    }

    /// Background work, and an operator's queries and orders.
    pub fn maintenance(&self) -> &Upkeep {
        &self.0.maintenance
    }

    pub fn projections(&self) -> &Projections {
        &self.0.projections
    }

    /// Containers whose items follow from others': global secondary indexes.
    pub fn copies(&self) -> &Copies {
        &self.0.copies
    }

    /// JavaScript over the changes of containers.
    pub fn functions(&self) -> &Functions {
        &self.0.functions
    }

    pub fn backups(&self) -> &Backups {
        &self.0.backups
    }

    /// Removes all documents that an index has expired, without rest; returns their number.
    pub async fn expire_documents(&self) -> u64 {
        expiry::expire_all(self.collections()).await
    }

    /// Makes every acknowledged write durable, also those of a server that acknowledges them before.
    pub async fn flush(&self) -> Result<()> {
        for shard in self.0.router.stores().iter() {
            shard.flush().await.map_err(|error| Error::new(ErrorKind::Unavailable, error.to_string()))?;
        }
        Ok(())
    }

    /// Whether the store accepts writes, as far as the last commits show.
    pub fn accepts_writes(&self) -> bool {
        self.0.router.stores().accept_writes()
    }

    /// Whether an answer may be returned: no other process can hold the account. Checked after the answer was made.
    pub fn is_leased(&self) -> bool {
        self.0.router.stores().is_leased()
    }

    /// Makes everything durable and closes the shards; later operations fail.
    pub async fn close(&self) -> Result<()> {
        self.0.backups.close().await;
        self.0.maintenance.pause_relocations().await;
        self.0.router.catalog_writer().close().await;
        self.0.router.stores().close().await
    }

    pub fn statistics(&self) -> AccountStatistics {
        AccountStatistics { disk_bytes: self.0.router.stores().disk_bytes(), ..self.counts() }
    }

    /// All shards with their contents. Reading the sizes of files may wait for a journal that is being synced.
    pub async fn shard_states(&self) -> Result<Vec<ShardState>> {
        let account = self.clone();
        let read = move || account.read_shard_states();
        tokio::task::spawn_blocking(read)
            .await
            .map_err(|error| shardlake_model::Error::internal(format!("shards were not looked at: {error}")))
    }

    fn read_shard_states(&self) -> Vec<ShardState> {
        let shards = self.0.router.stores().iter().zip(0..).map(|(shard, number)| ShardState {
            number,
            partitions: 0,
            size_bytes: 0,
            disk_bytes: shard.disk_bytes(),
            disk_free_bytes: shard.disk_free_bytes(),
            is_writable: !shard.is_poisoned(),
        });
        let mut shards: Vec<ShardState> = shards.collect();
        for container in self.0.router.catalog().load().containers() {
            for (range, partition) in container.record.ranges.iter().zip(container.map.iter()) {
                let Some(shard) = shards.get_mut(usize::from(range.shard)) else { continue };
                shard.partitions += 1;
                shard.size_bytes += partition.size_bytes();
            }
        }
        shards
    }

    /// Statistics without those of files.
    pub fn counts(&self) -> AccountStatistics {
        let catalog = self.0.router.catalog().load();
        let mut total = AccountStatistics {
            databases: catalog.databases.len() as u64,
            shards: u64::from(self.0.router.stores().count()),
            ..Default::default()
        };
        for container in catalog.containers() {
            total.containers += 1;
            debug_assert_eq!(container.map.iter().len(), container.record.ranges.len());
            for partition in container.map.iter() {
                total.partitions += 1;
                total.items += partition.items();
                total.size_bytes += partition.size_bytes();
            }
        }
        total
    }
}
