//! An account: the catalog and the partitions on its shards.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arc_swap::ArcSwap;
use shardlake_charge::ChargeTable;
use shardlake_cluster::budget::Burst;
use shardlake_model::{ConsistencyLevel, Error, ErrorKind, Limits, Result};
use shardlake_partition::{ContainerShape, Partition, partition_range};
use shardlake_routing::{PartitionMap, ShardLoad};
use shardlake_script::{ScriptSettings, Scripts};
use shardlake_stdx::{Clock, Random};
use tokio::sync::{Mutex, Notify, Semaphore};

use crate::catalog::{self, Catalog, CatalogBatch, ContainerRecord, DatabaseEntry, Placed, RangeRecord};
use crate::change_feed::FEED_WAITERS_MAX;
use crate::container_handle::ContainerEntry;
use crate::index_build::IndexRecord;
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
const HEAVY_QUERIES_MAX: usize = 8;

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
    pub catalog: ArcSwap<Catalog>,
    /// Held by whoever changes the catalog.
    pub catalog_writer: Mutex<()>,
    /// No relocation begins any more.
    pub is_closing: AtomicBool,
    /// Wakes the task of `balance.rs`.
    pub balance_wake: Arc<Notify>,
    /// Held by whoever fills a generation of an index.
    pub index_builds: Mutex<()>,
    pub queries: QueryCache,
    /// For queries that may take long over one item: they run beside the threads that answer requests, a few at a time.
    pub heavy_queries: Semaphore,
    /// Readers of change feeds that wait for a change.
    pub feed_waiters: Semaphore,
    pub relocations: RelocationCounts,
    pub scripts: Scripts,
    /// For queries that call functions, as many as there are workers for them: who runs waits for no worker.
    pub function_queries: Semaphore,
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
        let mut stored = catalog::load(shards.first()).await?;
        for dropped in &stored.dropped {
            shards.get(dropped.shard)?;
        }
        let account = Account(Arc::new(AccountState {
            shards,
            limits: Arc::new(options.limits),
            charges: ChargeTable::default(),
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
            catalog_writer: Mutex::new(()),
            is_closing: AtomicBool::new(false),
            balance_wake: Arc::default(),
            index_builds: Mutex::new(()),
            queries: QueryCache::default(),
            heavy_queries: Semaphore::new(HEAVY_QUERIES_MAX),
            feed_waiters: Semaphore::new(FEED_WAITERS_MAX),
            relocations: RelocationCounts::default(),
            function_queries: Semaphore::new(options.scripts.workers_max.max(1)),
            scripts: Scripts::new(options.scripts),
        }));
        let mut catalog = Catalog { numbers: stored.numbers, ..Catalog::default() };
        for database in stored.databases {
            let entry = DatabaseEntry::new(Arc::new(database));
            catalog.databases.insert(entry.database.id.clone(), entry);
        }
        for mut record in stored.containers {
            // From before there was an index: everything is to be built.
            if record.index == IndexRecord::default() {
                record.index = record.index.moved_to(&record.container)?;
            }
            let owner = record.container.rid.database;
            let entry = catalog.databases.values_mut().find(|entry| entry.database.rid == owner);
            let entry = entry.ok_or_else(|| {
                Error::new(ErrorKind::Corrupt, format!("container {} has no database", record.container.rid))
            })?;
            let scripts = stored.scripts.remove(&record.container.rid).unwrap_or_default();
            let container =
                account.open_container(entry.database.clone(), record).await?.with_scripts(scripts);
            entry.containers.insert(container.container.definition.id.clone(), Arc::new(container));
        }
        if let Some(rid) = stored.scripts.keys().next() {
            return Err(Error::new(
                ErrorKind::Corrupt,
                format!("there are scripts of container {rid}, which does not exist"),
            ));
        }
        catalog.add_stored_users(stored.users, stored.permissions)?;
        catalog.offers = stored.offers.into_iter().map(|offer| (offer.rid, Arc::new(offer))).collect();
        catalog.projections = crate::projections::restored(stored.projections, stored.checkpoints)?;
        account.follow_throughput(&catalog);
        account.0.catalog.store(Arc::new(catalog));
        account.drop_partitions_in_background(stored.dropped);
        let catalog = account.0.catalog.load();
        for container in catalog.databases.values().flat_map(|owner| owner.containers.values()) {
            account.tend_index_in_background(container.clone());
            if container.relocation.is_some() {
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

    pub(crate) async fn open_container(
        &self,
        database: Arc<shardlake_model::Database>,
        record: ContainerRecord,
    ) -> Result<ContainerEntry> {
        let state = &self.0;
        let layouts = record.index.layouts()?;
        let shape =
            ContainerShape::new(&record.container, layouts, state.limits.clone(), state.charges.clone())?;
        let mut partitions = Vec::with_capacity(record.ranges.len());
        for range in &record.ranges {
            let identity = range.identity(record.session_version)?;
            let epk_range = identity.epk_range.clone();
            let shard = state.shards.get(range.shard)?.clone();
            let partition = Partition::open(shard, identity, shape.maintained()).await?;
            partition.keep_versions(shape.retention).await;
            partitions.push((epk_range, Arc::new(partition)));
        }
        let map = PartitionMap::new(record.generation, partitions).map_err(|error| {
            Error::new(ErrorKind::Corrupt, format!("stored ranges do not fit together: {error}"))
        })?;
        Ok(ContainerEntry::new(database, record, shape, map, Arc::default()))
    }

    /// A container's entry under a new record; its partitions and their sequencers live on.
    pub(crate) fn entry_of(&self, old: &ContainerEntry, record: ContainerRecord) -> Result<ContainerEntry> {
        self.entry_over(old, record, old.map.clone())
    }

    /// The same with other partitions.
    pub(crate) fn entry_over(
        &self,
        old: &ContainerEntry,
        record: ContainerRecord,
        map: PartitionMap<Arc<Partition>>,
    ) -> Result<ContainerEntry> {
        let state = &self.0;
        let layouts = record.index.layouts()?;
        let shape =
            ContainerShape::new(&record.container, layouts, state.limits.clone(), state.charges.clone())?;
        let budget = old.budget.clone();
        let mut entry = ContainerEntry::new(old.database.clone(), record, shape, map, budget);
        if entry.index == old.index {
            entry.progress = old.progress.clone();
        }
        entry.motion = old.motion.clone();
        entry.scripts = old.scripts.clone();
        Ok(entry)
    }

    /// The same for a deleted container, whose marks are made; what a relocation was copying goes when that has ended.
    pub(crate) fn drop_container_in_background(&self, entry: &ContainerEntry) {
        self.drop_partitions_in_background(entry.ranges.iter().map(RangeRecord::placed).collect());
        let Some(relocation) = &entry.relocation else { return };
        let targets = relocation.targets.iter().map(RangeRecord::placed).collect();
        let (account, motion) = (self.clone(), entry.motion.clone());
        tokio::spawn(async move {
            let _turn = motion.topology.lock().await;
            account.drop_partitions_in_background(targets);
        });
    }

    /// Deletes the data of dropped partitions, then their marks, on each shard by itself. The marks survive a crash; the
    /// work is repeatable.
    pub(crate) fn drop_partitions_in_background(&self, dropped: Vec<Placed>) {
        let mut by_shard: BTreeMap<u16, Vec<Placed>> = BTreeMap::new();
        for placed in dropped {
            by_shard.entry(placed.shard).or_default().push(placed);
        }
        for dropped in by_shard.into_values() {
            let shards = self.0.shards.clone();
            tokio::spawn(async move {
                for placed in dropped {
                    if let Err(error) = drop_partition(&shards, placed).await {
                        // The mark stays, so the next start tries again.
                        let (partition, shard) = (placed.uid.0, placed.shard);
                        tracing::warn!(partition, shard, %error, "deleting a dropped partition stopped");
                        return;
                    }
                }
            });
        }
    }

    pub fn limits(&self) -> &Limits {
        &self.0.limits
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
        self.0.shards.close().await
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
        for container in catalog.databases.values().flat_map(|entry| entry.containers.values()) {
            total.containers += 1;
            for partition in container.map.iter() {
                total.partitions += 1;
                total.items += partition.items();
                total.size_bytes += partition.size_bytes();
            }
        }
        total
    }

    /// Replaces the catalog after its change is durable. Call with the writer lock held.
    pub(crate) async fn publish(&self, catalog: Catalog, batch: CatalogBatch) -> Result<()> {
        self.publish_after(catalog, batch, || ()).await
    }

    /// The same with something to do between the moment when the change cannot be lost any more and that when it shows.
    pub(crate) async fn publish_after(
        &self,
        catalog: Catalog,
        batch: CatalogBatch,
        before_it_shows: impl FnOnce(),
    ) -> Result<()> {
        let shard = self.0.shards.first();
        batch.commit(shard).await?;
        if self.0.shards.count() > 1 {
            // Journals are synced on their own. Nothing may reach another shard before the catalog says why it is there,
            // or a crash would leave data under a number that is given out again.
            shard.wait_durable(shard.applied()).await.map_err(shardlake_partition::storage_error)?;
        }
        self.follow_throughput(&catalog);
        before_it_shows();
        self.0.catalog.store(Arc::new(catalog));
        Ok(())
    }

    /// What lies on each shard, as far as the catalog knows.
    pub(crate) fn shard_loads(&self, catalog: &Catalog) -> Vec<ShardLoad> {
        let mut loads = vec![ShardLoad::default(); usize::from(self.0.shards.count())];
        for container in catalog.databases.values().flat_map(|owner| owner.containers.values()) {
            for (range, partition) in container.ranges.iter().zip(container.map.iter()) {
                if let Some(load) = loads.get_mut(usize::from(range.shard)) {
                    load.partitions += 1;
                    load.size_bytes += partition.size_bytes();
                }
            }
            // What is on its way counts where it goes, too, so that not everything at once goes to the emptiest shard.
            let Some(relocation) = &container.relocation else { continue };
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

    pub(crate) fn check_room(&self, catalog: &Catalog) -> Result<()> {
        let max = self.0.limits.resources_max;
        if catalog.resource_count() >= max {
            return Err(Error::bad_request(format!(
                "an account holds at most {max} databases and containers"
            )));
        }
        Ok(())
    }
}

async fn drop_partition(shards: &Shards, placed: Placed) -> Result<()> {
    let (start, end) = partition_range(placed.uid);
    let shard = shards.get(placed.shard)?;
    shard.drop_range(start, end).await.map_err(shardlake_partition::storage_error)?;
    if placed.shard != 0 {
        // The mark is in another journal: were its removal on disk first, a crash could bring back what nobody deletes.
        shard.wait_durable(shard.applied()).await.map_err(shardlake_partition::storage_error)?;
    }
    let mut batch = CatalogBatch::new();
    batch.forget_dropped(placed.uid);
    batch.commit(shards.first()).await
}
