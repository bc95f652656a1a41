//! An account: the catalog and the partitions on its shards.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use shardlake_capacity::budget::Burst;
use shardlake_catalog::{Change, ContainerRecord, Definitions, IndexRecord, Writer};
use shardlake_charge::ChargeTable;
use shardlake_model::{ConsistencyLevel, Error, Limits, Result};
use shardlake_partition::Turns;
use shardlake_routing::ShardLoad;
use shardlake_script::{Confined as ScriptConfined, ScriptSettings, Scripts};
use shardlake_stdx::{Clock, Random};
use tokio::sync::{Mutex, Notify, Semaphore, watch};

use crate::change_feed::FEED_WAITERS_MAX;
use crate::definition_change::{added_marks, catalog_error};
use crate::heavy_writes;
use crate::index_build::index_moved_to;
use crate::live_catalog::LiveCatalog;
use crate::membership;
use crate::partition_loads::RelocationCounts;
use crate::query_cache::QueryCache;
use crate::relocation::RelocationHooks;
use crate::shards::Shards;
use crate::throughput::{CapacityMode, DatabaseBudgets, Enforcement, ThroughputRules};

/// Hundredths of a request unit for reading a database, container or offer; the reference charges these to a separate
/// budget and reports 1 or 2 RU.
pub const METADATA_READ_CHARGE_CENTI: u64 = 100;
/// Likewise for creating, replacing and deleting them.
pub const METADATA_WRITE_CHARGE_CENTI: u64 = 495;

/// Heavy queries at work at a time; others wait their turn, within the time of their request.
const HEAVY_QUERIES_MAX: u32 = 8;

/// Whether what keeps partitions busy is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HeatRecording {
    #[default]
    On,
    /// To measure what counting costs.
    Off,
}

/// When items whose time to live has run out are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Purging {
    #[default]
    InBackground,
    /// By [`Account::purge_expired`] alone, for tests.
    WhenAsked,
}

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
    pub shards: Shards,
    pub limits: Arc<Limits>,
    pub charges: ChargeTable,
    pub clock: Clock,
    pub random: Random,
    pub consistency: ConsistencyLevel,
    pub throughput: ThroughputRules,
    pub database_budgets: DatabaseBudgets,
    pub heat: HeatRecording,
    pub hooks: RelocationHooks,
    pub catalog: ArcSwap<LiveCatalog>,
    /// The version of `catalog`, for those who wait for the next one.
    pub catalog_version: watch::Sender<u64>,
    pub catalog_writer: Writer,
    /// No relocation begins any more.
    pub is_closing: AtomicBool,
    /// Wakes the task of `balance.rs`.
    pub balance_wake: Arc<Notify>,
    /// Held by whoever fills a generation of an index.
    pub index_builds: Mutex<()>,
    pub queries: QueryCache,
    /// For queries that may take long over one item: they run beside the threads that answer requests, a few at a time.
    pub heavy_queries: Turns,
    /// Room for the bodies of heavy writes.
    pub heavy_bodies: Turns,
    /// Readers of change feeds that wait for a change.
    pub feed_waiters: Semaphore,
    pub relocations: RelocationCounts,
    pub scripts: Scripts,
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
        shards.check_count()?;
        membership::join(&shards, &options.random).await?;
        let definitions = Arc::new(stored_definitions(&shards).await?);
        let writer = Writer::new(shards.first().clone(), shards.count() > 1, definitions.clone());
        let account = Account(Arc::new(AccountState {
            shards,
            limits: Arc::new(options.limits),
            charges: ChargeTable::default(),
            scripts: Scripts::new(ScriptSettings { clock: options.clock.clone(), ..options.scripts }),
            clock: options.clock,
            random: options.random,
            consistency: options.consistency,
            throughput: ThroughputRules {
                enforcement: options.throughput,
                capacity: options.capacity,
                burst: if options.burst { Burst::On } else { Burst::Off },
            },
            database_budgets: DatabaseBudgets::default(),
            heat: options.heat,
            hooks: options.hooks,
            catalog: ArcSwap::default(),
            catalog_version: watch::Sender::new(0),
            catalog_writer: writer.map_err(catalog_error)?,
            is_closing: AtomicBool::new(false),
            balance_wake: Arc::default(),
            index_builds: Mutex::new(()),
            queries: QueryCache::default(),
            // Those who wait are as many as requests may be, and hold little.
            heavy_queries: Turns::new(HEAVY_QUERIES_MAX, usize::MAX),
            heavy_bodies: heavy_writes::room(),
            feed_waiters: Semaphore::new(FEED_WAITERS_MAX),
            relocations: RelocationCounts::default(),
        }));
        let start = Change::of_start(definitions);
        let catalog = Arc::new(account.derived(&LiveCatalog::default(), &start).await?);
        account.follow_throughput_of(&catalog, &start);
        account.show(catalog.clone());
        account.drop_partitions_in_background(added_marks(&start));
        for container in catalog.containers() {
            account.tend_index_in_background(container.clone());
            if container.record.relocation.is_some() {
                account.relocate_in_background(container);
            }
        }
        crate::balance::start(&account);
        crate::change_feed_compaction::start(&account);
        if options.purging == Purging::InBackground {
            crate::purge::start(&account);
        }
        crate::projections::start(&account);
        Ok(account)
    }

    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// What the kernel confines script workers by; none before the first one was started.
    pub fn script_confinement(&self) -> Option<ScriptConfined> {
        self.0.scripts.confined()
    }

    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    pub fn random(&self) -> &Random {
        &self.0.random
    }

    pub fn consistency(&self) -> ConsistencyLevel {
        self.0.consistency
    }

    /// Makes everything durable and closes the shards; later operations fail.
    pub async fn close(&self) -> Result<()> {
        self.pause_relocations().await;
        self.0.catalog_writer.close().await;
        self.0.shards.close().await
    }

    /// Whether the account is being closed: what runs in the background ends.
    pub(crate) fn is_closing(&self) -> bool {
        self.0.is_closing.load(Ordering::Acquire)
    }

    /// False once storage has refused a write for good, on whichever shard.
    pub fn is_writable(&self) -> bool {
        !self.0.shards.is_poisoned()
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

    /// Load per shard, from the catalog.
    pub(crate) fn shard_loads(&self, catalog: &LiveCatalog) -> Vec<ShardLoad> {
        let mut loads = vec![ShardLoad::default(); usize::from(self.0.shards.count())];
        for container in catalog.containers() {
            for (range, partition) in container.record.ranges.iter().zip(container.map.iter()) {
                if let Some(load) = loads.get_mut(usize::from(range.shard)) {
                    load.partitions += 1;
                    load.size_bytes += partition.size_bytes();
                }
            }
            // What is on its way counts where it goes, too, so that not everything at once goes to the emptiest shard.
            let Some(relocation) = &container.record.relocation else { continue };
            let sources = container.map.iter().filter(|source| relocation.sources.contains(&source.range_id));
            let size_bytes: u64 = sources.map(|source| source.size_bytes()).sum();
            for target in &relocation.targets {
                if let Some(load) = loads.get_mut(usize::from(target.shard)) {
                    load.partitions += 1;
                    load.size_bytes += size_bytes / relocation.targets.len() as u64;
                }
            }
        }
        loads
    }

    pub(crate) fn check_room(&self, draft: &Definitions) -> Result<()> {
        let max = self.0.limits.resources_max;
        if draft.resource_count() >= max {
            return Err(Error::bad_request(format!(
                "an account holds at most {max} databases and containers"
            )));
        }
        Ok(())
    }
}

/// What the catalog's shard holds, on shards that are all there.
async fn stored_definitions(shards: &Shards) -> Result<Definitions> {
    let mut definitions = shardlake_catalog::load(shards.first()).await.map_err(catalog_error)?;
    for (_, mark) in definitions.dropped.iter() {
        shards.get(mark.shard())?;
    }
    // Containers from before there was an index: everything is to be built.
    let is_old = |record: &&Arc<ContainerRecord>| record.index == IndexRecord::default();
    let old: Vec<_> = definitions.containers.values().filter(is_old).cloned().collect();
    for record in old {
        let index = index_moved_to(&record.index, &record.container)?;
        let record = ContainerRecord { index, ..ContainerRecord::clone(&record) };
        definitions.containers.put(record.container.rid, record);
    }
    Ok(definitions)
}
