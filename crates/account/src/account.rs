//! An account: the catalog and the partitions on its shards.

use std::ops::Deref;
use std::sync::Arc;

use shardlake_capacity::budget::Burst;
use shardlake_model::{ConsistencyLevel, Limits, Result};
use shardlake_partition::Turns;
use shardlake_script::{Confined as ScriptConfined, ScriptSettings, Scripts};
use shardlake_serving::{
    CapacityMode, Enforcement, HeatRecording, Serving, ServingOptions, Shards, ThroughputRules,
};
use shardlake_stdx::{Clock, Random};
use shardlake_upkeep::{Purging, RelocationHooks, Upkeep};
use tokio::sync::Semaphore;

use crate::change_feed::FEED_WAITERS_MAX;
use crate::projections::ProjectionEntries;
use crate::query_cache::QueryCache;

/// Hundredths of a request unit for reading a database, container or offer; the reference charges these to a separate
/// budget and reports 1 or 2 RU.
pub const METADATA_READ_CHARGE_CENTI: u64 = 100;
/// Likewise for creating, replacing and deleting them.
pub const METADATA_WRITE_CHARGE_CENTI: u64 = 495;

/// Heavy queries at work at a time; others wait their turn, within the time of their request.
const HEAVY_QUERIES_MAX: u32 = 8;

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
    pub purging: Purging,
    /// For tests.
    pub hooks: RelocationHooks,
}

#[derive(Debug, Clone)]
pub struct Account(pub(crate) Arc<AccountState>);

#[derive(Debug)]
pub(crate) struct AccountState {
    pub serving: Serving,
    pub upkeep: Upkeep,
    pub queries: QueryCache,
    /// For queries that may take long over one item: they run beside the threads that answer requests, a few at a time.
    pub heavy_queries: Turns,
    /// Readers of change feeds that wait for a change.
    pub feed_waiters: Semaphore,
    pub projections: ProjectionEntries,
    pub scripts: Scripts,
}

impl Deref for Account {
    type Target = Serving;

    fn deref(&self) -> &Serving {
        &self.0.serving
    }
}

impl Deref for AccountState {
    type Target = Serving;

    fn deref(&self) -> &Serving {
        &self.serving
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
    /// Of all shards together.
    pub disk_bytes: u64,
}

impl Account {
    /// Reads the catalog, opens every partition and resumes deletions that a stop interrupted. The shards come in the
    /// order they always had; further empty ones may follow.
    pub async fn open(shards: impl Into<Shards>, options: AccountOptions) -> Result<Account> {
        Account::open_shards(shards.into(), options).await
    }

    async fn open_shards(shards: Shards, options: AccountOptions) -> Result<Account> {
        let scripts = Scripts::new(ScriptSettings { clock: options.clock.clone(), ..options.scripts });
        let options_of_serving = ServingOptions {
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
        };
        let serving = Serving::open(shards, options_of_serving).await?;
        let upkeep = Upkeep::start(serving.clone(), options.hooks, options.purging);
        let account = Account(Arc::new(AccountState {
            serving,
            scripts,
            upkeep,
            queries: QueryCache::default(),
            // Those who wait are as many as requests may be, and hold little.
            heavy_queries: Turns::new(HEAVY_QUERIES_MAX, usize::MAX),
            feed_waiters: Semaphore::new(FEED_WAITERS_MAX),
            projections: ProjectionEntries::default(),
        }));
        crate::projections::start(&account)?;
        Ok(account)
    }

    /// What the kernel confines script workers by; none before the first one was started.
    pub fn script_confinement(&self) -> Option<ScriptConfined> {
        self.0.scripts.confined()
    }

    /// Makes everything durable and closes the shards; later operations fail.
    pub async fn close(&self) -> Result<()> {
        self.0.upkeep.pause_relocations().await;
        self.0.catalog_writer.close().await;
        self.0.shards.close().await
    }

    pub fn statistics(&self) -> AccountStatistics {
        let catalog = self.0.catalog.load();
        let mut total = AccountStatistics {
            databases: catalog.databases.len() as u64,
            shards: u64::from(self.0.shards.count()),
            disk_bytes: self.0.shards.disk_bytes(),
            ..Default::default()
        };
        for container in catalog.containers() {
            total.containers += 1;
            for partition in container.map.iter() {
                total.partitions += 1;
                total.items += partition.items();
                total.size_bytes += partition.size_bytes();
            }
        }
        total
    }
}
