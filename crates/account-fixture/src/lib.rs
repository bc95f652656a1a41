//! Account over an engine in memory, with a clock that stands still, for tests of the crates below it.
//!
//! [`Fixture`] opens the account and makes containers. [`json_door`] reads and writes items as JSON, [`queries`] drains
//! queries page by page, [`scripts`] registers and runs scripts, [`random`] draws items and queries, and [`recorded`]
//! compares rows with recorded results. Nothing here is compiled into the product.
#![allow(clippy::disallowed_methods)] // tests read the environment on purpose

pub mod json_door;
pub mod queries;
pub mod random;
pub mod recorded;
pub mod scripts;

use std::time::Duration;

use shardlake_account::{Account, AccountOptions, ContainerHandle, Reach, Shards, StoredItem};
use shardlake_model::{
    ContainerDefinition, PartitionKeyDefinition, Preconditions, RequestContext, Throughput,
};
use shardlake_stdx::{Clock, Random, Timestamp};
use shardlake_storage::{Shard, ShardOptions};
use shardlake_testkit::{Logs, reaches_by_loopback};

pub struct Fixture {
    pub account: Account,
    pub clock: Clock,
    /// Last, because work that ends with the account may warn, too.
    pub _logs: Logs,
}

pub fn reach() -> Reach {
    if reaches_by_loopback() { Reach::Loopback } else { Reach::Direct }
}

impl Fixture {
    pub async fn new() -> Fixture {
        Fixture::over(memory_shards(1).await).await
    }

    pub async fn over(shards: impl Into<Shards>) -> Fixture {
        Fixture::with_clock(shards, Clock::manual(Timestamp(1_700_000_000_000))).await
    }

    /// For tests of time limits.
    pub async fn in_real_time() -> Fixture {
        Fixture::with_clock(memory_shards(1).await, Clock::default()).await
    }

    pub async fn in_real_time_with(options: AccountOptions) -> Fixture {
        Fixture::with(memory_shards(1).await, Clock::default(), options).await
    }

    /// Random numbers are seeded and the clock stands still, with all options.
    pub async fn with_options(options: AccountOptions) -> Fixture {
        let clock = Clock::manual(Timestamp(1_700_000_000_000));
        Fixture::with(memory_shards(1).await, clock, options).await
    }

    /// As [`Self::with_options`], over an existing shard.
    pub async fn over_with(shard: &Shard, options: AccountOptions) -> Fixture {
        Fixture::with(shard.clone(), Clock::manual(Timestamp(1_700_000_000_000)), options).await
    }

    async fn with_clock(shards: impl Into<Shards>, clock: Clock) -> Fixture {
        Fixture::with(shards, clock, AccountOptions::default()).await
    }

    async fn with(shards: impl Into<Shards>, clock: Clock, options: AccountOptions) -> Fixture {
        let options =
            AccountOptions { clock: clock.clone(), random: Random::seeded(42), reach: reach(), ..options };
        let _logs = Logs::watch();
        Fixture { account: Account::open(shards, options).await.expect("opens"), clock, _logs }
    }

    pub fn ctx(&self) -> RequestContext {
        RequestContext::internal(&self.clock, self.account.router().random().guid())
    }

    /// Container `db/c` with the key `/pk`, in as many partitions as `throughput` makes.
    pub async fn container(&self, throughput: u64) -> ContainerHandle {
        self.container_with(ContainerDefinition::new("c", PartitionKeyDefinition::hash("/pk")), throughput)
            .await
    }

    pub async fn container_with(&self, definition: ContainerDefinition, throughput: u64) -> ContainerHandle {
        if self.account.router().database("db").is_err() {
            self.account.definitions().create_database(&self.ctx(), "db", None).await.expect("created");
        }
        let throughput = Some(Throughput::Manual(throughput));
        self.account
            .definitions()
            .create_container(&self.ctx(), "db", definition, throughput)
            .await
            .expect("created")
    }
}

pub async fn memory_shards(count: usize) -> Shards {
    let mut shards = Vec::new();
    for _ in 0..count {
        shards.push(Shard::open(ShardOptions::memory()).await.expect("a memory shard opens"));
    }
    shards.into()
}

/// Turns a hang into a failure. No test is about how long something takes.
const HANG: Duration = Duration::from_secs(600);

/// Waits for an event in the background.
pub async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(HANG, waiting).await.unwrap_or_else(|_| panic!("{what} did not happen"));
}

/// The end of work that must not hang.
pub async fn ended<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(HANG, work).await.unwrap_or_else(|_| panic!("{what} did not end"))
}

/// Lets other tasks run for a random time, so that later steps happen at different times in each
/// run. Nothing may depend on its length.
pub async fn some_time(random: &Random, milliseconds_max: u64) {
    tokio::time::sleep(Duration::from_millis(random.below(milliseconds_max))).await;
}

/// A number that a developer sets, such as a seed.
pub fn number_from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

pub fn none() -> Preconditions {
    Preconditions::default()
}

pub fn json(item: &StoredItem) -> serde_json::Value {
    let mut text = Vec::new();
    item.write_json(&mut text);
    assert_eq!(text.len(), item.json_size_bytes(), "the recorded size is the rendered size");
    serde_json::from_slice(&text).expect("items render as JSON")
}
