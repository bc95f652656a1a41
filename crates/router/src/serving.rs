//! Serving state: the catalog in force, the shards, and the surroundings of every operation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use shardlake_catalog::{
    Change, ContainerRecord, Definitions, HoldState, Holder, IndexRecord, PlaceRecord, Writer,
};
use shardlake_charge::ChargeTable;
use shardlake_model::{ConsistencyLevel, ContainerRid, Error, ErrorKind, Limits, Result};
use shardlake_routing::ShardLoad;
use shardlake_stdx::{Activity, Clock, CommitTimes, Random};
use tokio::sync::{Notify, watch};

use crate::definition_change::added_marks;
use crate::generations::index_moved_to;
use crate::handle::Reach;
use crate::live_catalog::LiveCatalog;
use crate::log_holds;
use crate::membership;
use crate::refusals::catalog_error;
use crate::request_memory;
use crate::shards::Shards;
use crate::throughput::{DatabaseBudgets, ThroughputRules};
use crate::{HeatRecording, Serving, ServingState};
use shardlake_host::HostEnvironment;

/// How an account serves.
#[derive(Debug)]
pub struct ServingOptions {
    pub limits: Limits,
    pub clock: Clock,
    pub random: Random,
    pub consistency: ConsistencyLevel,
    pub throughput: ThroughputRules,
    pub heat: HeatRecording,
    pub reach: Reach,
}

impl Serving {
    /// Reads the catalog, opens every partition and resumes deletions that a stop interrupted.
    pub async fn open(shards: Shards, options: ServingOptions) -> Result<Serving> {
        shards.check_count()?;
        let joins = Activity::begin("checks that the shards belong together");
        membership::join(&shards, &options.random).await?;
        drop(joins);
        let reads = Activity::begin("reads the catalog");
        let definitions = Arc::new(stored_definitions(&shards, &options.limits).await?);
        drop(reads);
        let writer = Writer::new(shards.first().clone(), shards.count() > 1, definitions.clone());
        let serving = Serving(Arc::new(ServingState {
            shards,
            limits: Arc::new(options.limits),
            charges: ChargeTable::default(),
            times: CommitTimes::new(options.clock.clone()),
            environment: Arc::new(HostEnvironment {
                clock: options.clock.clone(),
                heat: options.heat,
                latest_timestamp: Arc::default(),
            }),
            clock: options.clock,
            random: options.random,
            consistency: options.consistency,
            throughput: options.throughput,
            database_budgets: DatabaseBudgets::default(),
            catalog: ArcSwap::default(),
            catalog_version: watch::Sender::new(0),
            catalog_writer: writer.map_err(catalog_error)?,
            reach: options.reach,
            is_closing: AtomicBool::new(false),
            moved_holds: Default::default(),
            offers_changed: Arc::default(),
            heavy_bodies: request_memory::body_memory(),
        }));
        let start = Change::of_start(definitions);
        let opens = Activity::begin(format!("opens the partitions of {} containers", start.containers.len()));
        let catalog = Arc::new(serving.derived(&LiveCatalog::default(), &start).await?);
        drop(opens);
        serving.follow_throughput_of(&catalog, &start);
        log_holds::follow_holds_of(&catalog, &start);
        serving.show(catalog);
        serving.drop_partitions_in_background(added_marks(&start));
        Ok(serving)
    }

    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// The source of the times of all commits of the account.
    pub fn times(&self) -> &CommitTimes {
        &self.0.times
    }

    pub fn random(&self) -> &Random {
        &self.0.random
    }

    pub fn consistency(&self) -> ConsistencyLevel {
        self.0.consistency
    }

    /// The latest of the timestamps that writes of documents have made in this process.
    pub fn latest_timestamp(&self) -> Arc<AtomicU64> {
        self.0.environment.latest_timestamp.clone()
    }

    /// The definitions in force, and the state that runs for them.
    pub fn catalog(&self) -> &ArcSwap<LiveCatalog> {
        &self.0.catalog
    }

    /// The version of the catalog, for tasks that wait for the next one.
    pub fn catalog_version(&self) -> &watch::Sender<u64> {
        &self.0.catalog_version
    }

    /// The one writer of definitions.
    pub fn catalog_writer(&self) -> &Writer {
        &self.0.catalog_writer
    }

    /// The stores of all shards.
    pub fn stores(&self) -> &Shards {
        &self.0.shards
    }

    pub fn charges(&self) -> &ChargeTable {
        &self.0.charges
    }

    pub fn throughput_rules(&self) -> &ThroughputRules {
        &self.0.throughput
    }

    /// Notified when a throughput was changed.
    pub fn offers_changed(&self) -> &Arc<Notify> {
        &self.0.offers_changed
    }

    /// From now on no relocation begins, and background work ends.
    pub fn begin_closing(&self) {
        self.0.is_closing.store(true, Ordering::Release);
    }

    /// Whether the account is being closed: background work ends.
    pub fn is_closing(&self) -> bool {
        self.0.is_closing.load(Ordering::Acquire)
    }

    /// Runs background work, and repeats it while its failure is temporary: a store that does not answer, a
    /// lease that is not renewed. The work must be repeatable.
    pub async fn patiently<T, W>(&self, mut work: impl FnMut() -> W) -> Result<T>
    where
        W: Future<Output = Result<T>>,
    {
        loop {
            let error = match work().await {
                Err(error) if !self.is_closing() && self.is_writable() => error,
                ended => return ended,
            };
            let Some(milliseconds) = error.retry_after_ms() else { return Err(error) };
            tokio::time::sleep(Duration::from_millis(milliseconds)).await;
        }
    }

    /// False once storage has refused a write permanently, on any shard.
    pub fn is_writable(&self) -> bool {
        !self.0.shards.is_poisoned()
    }

    /// Load per shard, from the catalog.
    pub fn shard_loads(&self, catalog: &LiveCatalog) -> Vec<ShardLoad> {
        let mut loads = vec![ShardLoad::default(); usize::from(self.0.shards.count())];
        for container in catalog.containers() {
            for (range, partition) in container.record.ranges.iter().zip(container.map.iter()) {
                if let Some(load) = loads.get_mut(usize::from(range.shard)) {
                    load.partitions += 1;
                    load.size_bytes += partition.size_bytes();
                }
            }
            // Data in motion counts at its target, too, so that not everything moves to the emptiest shard at once.
            let Some(relocation) = &container.record.relocation else { continue };
            let sources =
                container.map.iter().filter(|source| relocation.sources.contains(&source.range_id()));
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

    /// Keeps the log of a container for a follower from a position on. It is kept when this returns.
    /// A hold that was lost is held anew.
    pub async fn hold_log(
        &self,
        container: ContainerRid,
        holder: Holder,
        position: Vec<PlaceRecord>,
    ) -> Result<()> {
        log_holds::hold_log(self, container, holder, position).await
    }

    /// Moves a hold, with the next batch. Returns its state; `None` where it does not exist.
    pub fn move_hold(
        &self,
        container: ContainerRid,
        holder: Holder,
        position: Vec<PlaceRecord>,
    ) -> Option<HoldState> {
        log_holds::move_hold(self, container, holder, position)
    }

    /// From now on the log is not kept for a follower.
    pub async fn release_hold(&self, container: ContainerRid, holder: Holder) -> Result<()> {
        log_holds::release_hold(self, container, holder).await
    }

    /// Whether the log is kept for a follower; `None` where it never was.
    pub fn hold_state(&self, container: ContainerRid, holder: Holder) -> Option<HoldState> {
        log_holds::hold_state(self, container, holder)
    }

    /// Stores the holds that have moved, and gives up those whose followers are too slow. Returns the
    /// holds that were given up.
    pub async fn store_moved_holds(&self) -> Result<Vec<(ContainerRid, Holder)>> {
        log_holds::store_moved_holds(self).await
    }

    pub fn check_room(&self, draft: &Definitions) -> Result<()> {
        let max = self.0.limits.resources_max;
        if draft.resource_count() >= max {
            return Err(Error::new(
                ErrorKind::AccountFull,
                format!(
                    "an account holds at most {max} databases and containers: delete some, or start the server with a greater --max-containers"
                ),
            ));
        }
        Ok(())
    }
}

/// The definitions that the catalog's shard holds, after a check that all shards exist.
async fn stored_definitions(shards: &Shards, limits: &Limits) -> Result<Definitions> {
    let mut definitions = shardlake_catalog::load(shards.first()).await.map_err(catalog_error)?;
    for (_, mark) in definitions.dropped.iter() {
        shards.get(mark.shard())?;
    }
    // Containers from before there was an index: everything is to be built.
    let is_old = |record: &&Arc<ContainerRecord>| record.index == IndexRecord::default();
    let old: Vec<_> = definitions.containers.values().filter(is_old).cloned().collect();
    for record in old {
        let index = index_moved_to(&record.index, &record.container, limits)?;
        let record = ContainerRecord { index, ..ContainerRecord::clone(&record) };
        definitions.containers.put(record.container.rid, record);
    }
    Ok(definitions)
}
