//! An account: the catalog and the partitions on its shards.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use shardlake_backup::Backups;
use shardlake_capacity::budget::Burst;
use shardlake_definitions::Resources;
use shardlake_items::Items;
use shardlake_maintenance::{Purging, RelocationHooks, Upkeep};
use shardlake_model::{ConsistencyLevel, Error, ErrorKind, Limits, Result};
use shardlake_mongo::{Collections, finish_interrupted};
use shardlake_procedures::ScriptRuns;
use shardlake_projections::Projections;
use shardlake_queries::Queries;
use shardlake_router::{
    CapacityMode, Enforcement, HeatRecording, Serving, ServingOptions, Shards, ThroughputRules,
};
use shardlake_script::{ScriptSettings, Scripts};
use shardlake_stdx::{Activity, Clock, CommitTimes, Random};

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
    pub purging: Purging,
    /// Interval of the search for documents that an index has expired; `None`: every minute.
    pub expiry_every: Option<Duration>,
    /// For tests.
    pub hooks: RelocationHooks,
}

#[derive(Debug, Clone)]
pub struct Account(pub(crate) Arc<AccountState>);

#[derive(Debug)]
pub(crate) struct AccountState {
    /// Items, queries and scripts, one on top of the other.
    pub script_runs: ScriptRuns,
    pub resources: Resources,
    pub collections: Collections,
    pub upkeep: Upkeep,
    pub projections: Projections,
    pub backups: Backups,
}

impl Deref for AccountState {
    type Target = ScriptRuns;

    fn deref(&self) -> &ScriptRuns {
        &self.script_runs
    }
}

impl AccountState {
    /// State for background work, until the account is closed.
    fn open_parts(&self) -> Option<(&Collections, &Shards)> {
        (!self.is_closing()).then_some((&self.collections, &self.shards))
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
        let resources = Resources::new(serving.clone(), scripts.clone());
        let queries = Queries::new(Items::new(serving.clone()), scripts.clone());
        let collections = Collections::new(queries.clone(), resources.clone());
        let finishes = Activity::begin("finishes commands of MongoDB that were interrupted");
        if let Err(failure) = finish_interrupted(&collections).await {
            tracing::warn!(?failure, "interrupted commands stay unfinished until the next start");
        }
        drop(finishes);
        // Otherwise such a collection would accept writes although its documents have not claimed their values.
        Box::pin(collections.rebuild_collated()).await.map_err(|failure| Error::internal(failure.message))?;
        let upkeep = Upkeep::start(serving, options.hooks, options.purging);
        let projections = Projections::start(queries.clone(), resources.clone())?;
        let script_runs = ScriptRuns::new(queries, scripts);
        let state = AccountState { script_runs, resources, collections, upkeep, projections, backups };
        let state = Arc::new(state);
        if options.purging == Purging::InBackground {
            expiry::start(&state, AccountState::open_parts, options.expiry_every);
        }
        Ok(Account(state))
    }

    /// The containers as collections of documents.
    pub fn collections(&self) -> &Collections {
        &self.0.collections
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

    /// The source of commit times, which also tracks which commits readers see.
    pub fn times(&self) -> &CommitTimes {
        &self.0.times
    }

    pub fn consistency(&self) -> ConsistencyLevel {
        self.0.consistency
    }

    pub fn capacity_mode(&self) -> CapacityMode {
        self.0.throughput.capacity
    }

    /// False once storage has refused a write permanently, on any shard.
    pub fn is_writable(&self) -> bool {
        self.0.script_runs.is_writable()
    }

    /// Makes every acknowledged write durable, also those of a server that acknowledges them before.
    pub async fn flush(&self) -> Result<()> {
        for shard in self.0.shards.iter() {
            shard.flush().await.map_err(|error| Error::new(ErrorKind::Unavailable, error.to_string()))?;
        }
        Ok(())
    }

    /// Whether the store accepts writes, as far as the last commits show.
    pub fn accepts_writes(&self) -> bool {
        self.0.shards.accept_writes()
    }

    /// Whether an answer may be returned: no other process can hold the account. Checked after the answer was made.
    pub fn is_leased(&self) -> bool {
        self.0.shards.is_leased()
    }

    /// Makes everything durable and closes the shards; later operations fail.
    pub async fn close(&self) -> Result<()> {
        self.0.backups.close().await;
        self.0.upkeep.pause_relocations().await;
        self.0.catalog_writer.close().await;
        self.0.shards.close().await
    }

    pub fn statistics(&self) -> AccountStatistics {
        AccountStatistics { disk_bytes: self.0.shards.disk_bytes(), ..self.counts() }
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
        let shards = self.0.shards.iter().zip(0..).map(|(shard, number)| ShardState {
            number,
            partitions: 0,
            size_bytes: 0,
            disk_bytes: shard.disk_bytes(),
            disk_free_bytes: shard.disk_free_bytes(),
            is_writable: !shard.is_poisoned(),
        });
        let mut shards: Vec<ShardState> = shards.collect();
        for container in self.0.catalog.load().containers() {
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
        let catalog = self.0.catalog.load();
        let mut total = AccountStatistics {
            databases: catalog.databases.len() as u64,
            shards: u64::from(self.0.shards.count()),
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
