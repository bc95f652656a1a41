//! World of a storm: an account over shards, a container with items that never change and items
//! that always do, and the records of all tasks.

use crate::support::json_door::{JsonDoor, KeyInput};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use shardlake_account::{Account, AccountOptions, ContainerHandle, Enforcement, RelocationHooks, Shards};
use shardlake_model::{
    ChangeFeedPolicy, ContainerDefinition, Limits, PartitionKeyDefinition, Preconditions, RequestContext,
    Throughput,
};
use shardlake_stdx::{Clock, Random, Timestamp};
use shardlake_storage::Durability;
use shardlake_testkit::Logs;
use shardlake_testkit::history::Recorder;

use super::feeds::{Copies, Past};
use super::follower::Acknowledged;
use super::session::Commits;

/// Items that are written before the storm and never again: a drained query has each of them exactly once.
pub const STABLE_ITEMS: u64 = 150;
/// Logical partitions that the clients fight over.
pub const LOGICAL: u64 = 10;
pub const IDS: [&str; 4] = ["a", "b", "left", "right"];
/// Bound on the problems that a storm reports.
const PROBLEMS_MAX: usize = 20;

/// How a storm blows.
#[derive(Debug, Clone)]
pub struct Weather {
    pub seed: u64,
    pub clients: u32,
    /// It ends when each client has done so many, and no client does more than twice its share.
    pub operations: u64,
    pub drains: u64,
    pub moves: u64,
    pub readers: u32,
    pub shards: usize,
    pub durability: Durability,
    pub throughput: u64,
    /// Answers some reads from memory, to see that this is noticed.
    pub stale_reads: bool,
    pub motions: bool,
    pub hooks: RelocationHooks,
    /// Answers may fail to come.
    pub crashes: bool,
    pub past: Past,
    /// The power is off: all tasks are to end.
    pub is_cut: Arc<AtomicBool>,
}

impl Default for Weather {
    fn default() -> Self {
        Weather {
            seed: 0,
            clients: 6,
            operations: 1500,
            drains: 20,
            moves: 8,
            readers: 2,
            shards: 2,
            durability: Durability::Memory,
            throughput: 12_000,
            stale_reads: false,
            motions: true,
            hooks: RelocationHooks::default(),
            crashes: false,
            past: Past::Usual,
            is_cut: Arc::default(),
        }
    }
}

/// Requests, answers and commits. Clones are the same notebooks.
#[derive(Debug, Default, Clone)]
pub struct Notebooks {
    pub recorder: Recorder,
    pub commits: Commits,
    pub acknowledged: Arc<Acknowledged>,
    pub copies: Arc<Copies>,
}

/// Shared by all tasks of a storm.
#[derive(Debug)]
pub struct World {
    pub account: Account,
    pub clock: Clock,
    pub weather: Weather,
    pub notebooks: Notebooks,
    running: AtomicU64,
    /// All tasks are to end.
    is_over: AtomicBool,
    pub counts: Counts,
    problems: Mutex<Vec<String>>,
    /// Last, because work that ends with the account may warn, too.
    _logs: Logs,
}

/// Counts of events, to check that each kind happened at all.
#[derive(Debug, Default)]
pub struct Counts {
    pub operations: AtomicU64,
    pub drained: AtomicU64,
    pub ranges_gone: AtomicU64,
    pub motions: AtomicU64,
    pub aborted: AtomicU64,
}

pub fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl World {
    pub async fn open(shards: Shards, weather: Weather) -> Arc<World> {
        World::over(shards, weather, Notebooks::default()).await
    }

    /// For another life, with the notebooks of the one before.
    pub async fn over(shards: Shards, weather: Weather, notebooks: Notebooks) -> Arc<World> {
        let clock = Clock::manual(Timestamp(1_700_000_000_000));
        let mut limits = Limits::default();
        if weather.past == Past::Compacted {
            (limits.change_log_entries_kept, limits.change_log_operations_in_vain) = (3, 20);
        }
        let options = AccountOptions {
            limits,
            clock: clock.clone(),
            random: Random::seeded(weather.seed),
            throughput: Enforcement::Unlimited,
            hooks: weather.hooks.clone(),
            reach: crate::support::reach(),
            ..AccountOptions::default()
        };
        let _logs = Logs::watch();
        let account = Account::open(shards, options).await.expect("opens");
        Arc::new(World {
            account,
            clock,
            notebooks,
            running: AtomicU64::new(u64::from(weather.clients)),
            weather,
            is_over: AtomicBool::new(false),
            counts: Counts::default(),
            problems: Mutex::default(),
            _logs,
        })
    }

    /// The container `db/c` with the stable items.
    pub async fn populate(&self) {
        let ctx = self.ctx();
        self.account.definitions().create_database(&ctx, "db", None).await.expect("created");
        let mut definition = ContainerDefinition::new("c", PartitionKeyDefinition::hash("/pk"));
        if self.weather.past == Past::Kept {
            definition.change_feed_policy = Some(ChangeFeedPolicy { retention_duration: 60 });
        }
        let throughput = Some(Throughput::Manual(self.weather.throughput));
        self.account
            .definitions()
            .create_container(&ctx, "db", definition, throughput)
            .await
            .expect("created");
        let container = self.container();
        for number in 0..STABLE_ITEMS {
            let body = body("s", &format!("stable {number}"), number as i64, true);
            self.account.create_item(&ctx, &container, None, body.as_bytes()).await.expect("created");
        }
    }

    /// Has the follower learn every item that clients compete for; none of them exists afterwards.
    pub async fn introduce(&self) {
        let container = self.container();
        let none = Preconditions::default();
        for logical in (0..LOGICAL).map(logical_name) {
            for id in IDS {
                let key_text = format!("[\"{logical}\"]");
                let key = Some(KeyInput(&key_text));
                let text = body(id, &logical, 0, false);
                let written = self.account.create_item(&self.ctx(), &container, key, text.as_bytes()).await;
                let written = written.expect("created").meta;
                self.notebooks.acknowledged.learn(self, &logical, id, &written).await;
                let deleted = self.account.delete_item(&self.ctx(), &container, key, id, &none).await;
                for meta in [written, deleted.expect("deleted").meta] {
                    self.notebooks.acknowledged.note(&logical, id, &meta);
                }
            }
        }
    }

    pub fn clients_running(&self) -> u64 {
        self.running.load(Ordering::Acquire)
    }

    pub fn client_ended(&self) {
        self.running.fetch_sub(1, Ordering::AcqRel);
    }

    /// As a front end does it for every request.
    pub fn container(&self) -> ContainerHandle {
        self.account.router().container("db", "c").expect("it is there")
    }

    pub fn ctx(&self) -> RequestContext {
        RequestContext::internal(&self.clock, self.account.router().random().guid())
    }

    pub fn random(&self, role: &str, number: u32) -> Random {
        let mut seed = self.weather.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for byte in role.bytes() {
            seed = seed.wrapping_mul(31).wrapping_add(u64::from(byte));
        }
        Random::seeded(seed.wrapping_add(u64::from(number) << 40))
    }

    pub fn is_over(&self) -> bool {
        let reached = |counter: &AtomicU64, wanted| counter.load(Ordering::Relaxed) >= wanted;
        let Weather { operations, drains, moves, motions, .. } = self.weather;
        let is_enough = reached(&self.counts.operations, operations)
            && reached(&self.counts.drained, drains)
            && (!motions || reached(&self.counts.motions, moves));
        is_enough || self.is_over.load(Ordering::Acquire) || self.weather.is_cut.load(Ordering::Acquire)
    }

    pub fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    /// One problem is enough to end the storm.
    pub fn problem(&self, text: impl Into<String>) {
        self.end();
        let mut problems = self.problems.lock().expect("no holder panics");
        if problems.len() < PROBLEMS_MAX {
            problems.push(text.into());
        }
    }

    pub fn problems(&self) -> Vec<String> {
        self.problems.lock().expect("no holder panics").clone()
    }
}

/// An item's text. Its rank depends on its name only, so that an order by it holds still.
pub fn body(id: &str, pk: &str, value: i64, is_stable: bool) -> String {
    let rank = shardlake_stdx::murmur3_32(format!("{pk}/{id}").as_bytes());
    let (rank, third) = (rank % 1000, rank % 3);
    format!(
        r#"{{"id":"{id}","pk":"{pk}","v":{value},"rank":{rank},"third":{third},"stable":{is_stable},"filler":"{}"}}"#,
        "x".repeat(100)
    )
}

pub fn logical_name(number: u64) -> String {
    format!("p{number}")
}
