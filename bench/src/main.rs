//! `cargo xtask bench point`: point reads and durable creates against two yardsticks in the same run. `cargo xtask bench
//! query`: queries in one partition against PostgreSQL, and the times of queries over everything.
//!
//! `cargo xtask bench partitions`: splits, merges and moves under steady writes. `cargo xtask bench
//! throttle`: a client held to its budget, and its neighbour. `cargo xtask bench metering`: the
//! cost of budgets and of the record of heat. `cargo xtask bench ttl`: effects on clients while
//! expired items are removed.
//!
//! `cargo xtask bench analytics`: tables that follow containers, their lag, and effects on clients.
//!
//! `cargo xtask bench heavy`: effects on other clients while items with very many properties are
//! written.
//!
//! `cargo xtask bench compare REVISION`: this tree against an earlier revision, in processor time
//! per operation. `cargo xtask bench guard`: the same against the parent commit, with a verdict.
//! `cargo xtask bench all`: every figure that has a goal.
//!
//! `cargo xtask bench mongo`: MongoDB's protocol compared with REST, over the same container.
//!
//! `cargo xtask bench feed`: following the changes of a partition. `cargo xtask bench script`: functions and procedures in JavaScript.
//!
//! *The ideal handler* is a bare hyper server that checks the signature and answers with the very
//! bytes and headers of one of our replies: the cost of HTTP without a database. *PostgreSQL* runs the same
//! reads and inserts on a JSONB table with fsync on, driven by its own `pgbench`. Contestants alternate,
//! round by round, and the medians are reported: on a shared machine only ratios within one run mean
//! something. The load generator shares the machine with the measured server, as `pgbench` does.
#![allow(clippy::disallowed_methods)] // measurements read the clock and the environment
#![allow(clippy::print_stdout, clippy::print_stderr)] // their output is their purpose

mod all;
mod cases;
mod compare;
mod contender;
mod cpu;
mod disk;
mod feed;
mod followers;
mod heavy;
mod hostile;
mod ideal;
mod load;
mod loading;
mod metering;
mod million;
mod mongo;
mod mongo_messages;
mod pace;
mod partitions;
mod point;
mod postgres;
mod profile;
mod publish;
mod query;
mod query_workload;
mod report;
mod requests;
mod script;
mod store;
mod throttle;
mod ttl;
mod workload;

use clap::{Args, Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

pub type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench")]
struct Arguments {
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Debug, Subcommand)]
enum Benchmark {
    /// Point reads and durable creates, start-up time and memory
    Point(PointOptions),
    /// Queries in one partition and over all of them
    Query(QueryOptions),
    /// Splits, merges and moves under steady writes
    Partitions(PartitionsOptions),
    /// A client held to its budget, its neighbour, and a hot key
    Throttle(ThrottleOptions),
    /// Cost of budgets and of the record of heat
    Metering(MeteringOptions),
    /// Following the changes of a partition, and waiting for the next
    Feed(FeedOptions),
    /// Clients while expired items are removed
    Ttl(TtlOptions),
    /// Tables that follow containers, and their effects on clients
    Analytics(AnalyticsOptions),
    /// Secondary indexes that follow containers, and their effects on clients
    Copies(AnalyticsOptions),
    /// Clients while items with very many properties are written
    Heavy(HeavyOptions),
    /// Clients while the MongoDB API is attacked
    Hostile(HostileOptions),
    /// MongoDB's protocol compared with REST
    Mongo(MongoOptions),
    /// User-defined functions in queries, and stored procedures
    Script(ScriptOptions),
    /// An account in an object store compared with one on the local disk
    Store(store::StoreOptions),
    /// This build against another, in processor time per operation
    Compare(CompareOptions),
    /// As `compare`, failing where an operation takes over 5 % more beyond its own spread
    Guard(CompareOptions),
    /// Every figure that has a goal, before and after
    All(all::AllOptions),
    /// Where the processor time of each path goes, by perf
    Profile(profile::ProfileOptions),
    /// The ideal handler, as a server of its own (started by `point`)
    #[command(hide = true)]
    IdealHandler { reply: std::path::PathBuf },
}

#[derive(Debug, Clone, Args)]
pub struct PointOptions {
    /// The release build of the server
    #[arg(long)]
    pub server: std::path::PathBuf,
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 4)]
    pub seconds: u64,
    /// Items loaded before the reads
    #[arg(long, default_value_t = 100_000)]
    pub items: u64,
    /// Also load a million items and measure memory and restart
    #[arg(long)]
    pub million: bool,
    /// Write the result to this page
    #[arg(long)]
    pub publish: Option<std::path::PathBuf>,
}

#[derive(Debug, Clone, Args)]
pub struct MongoOptions {
    /// The release build of the server
    #[arg(long)]
    pub server: std::path::PathBuf,
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 4)]
    pub seconds: u64,
    /// Items loaded before the reads
    #[arg(long, default_value_t = 100_000)]
    pub items: u64,
    /// Documents of the collection that a pipeline groups
    #[arg(long, default_value_t = 100_000)]
    pub grouped: u64,
    /// Write the result to this page
    #[arg(long)]
    pub publish: Option<std::path::PathBuf>,
}

#[derive(Debug, Clone, Args)]
pub struct QueryOptions {
    /// The release build of the server
    #[arg(long)]
    pub server: std::path::PathBuf,
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 3)]
    pub seconds: u64,
    /// Items loaded before the queries
    #[arg(long, default_value_t = 100_000)]
    pub items: u64,
    /// Also measure queries over a million items
    #[arg(long)]
    pub million: bool,
    /// Write the result to this page
    #[arg(long)]
    pub publish: Option<std::path::PathBuf>,
}

#[derive(Debug, Clone, Args)]
pub struct PartitionsOptions {
    /// Not used: this benchmark runs in its own process
    #[arg(long)]
    pub server: Option<std::path::PathBuf>,
    /// Relocations, one after the other
    #[arg(long, default_value_t = 12)]
    pub rounds: usize,
    /// Seconds without relocations, to compare with
    #[arg(long, default_value_t = 10)]
    pub seconds: u64,
    #[arg(long, default_value_t = 200_000)]
    pub items: u64,
    /// Writes per second
    #[arg(long, default_value_t = 5000)]
    pub rate: u64,
    /// Write the result to this page
    #[arg(long)]
    pub publish: Option<std::path::PathBuf>,
}

#[derive(Debug, Clone, Args)]
pub struct ThrottleOptions {
    /// The release build of the server
    #[arg(long)]
    pub server: std::path::PathBuf,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 30)]
    pub seconds: u64,
    /// RU/s of each container, which one partition has
    #[arg(long, default_value_t = 4000, value_parser = clap::value_parser!(u64).range(400..=6000))]
    pub throughput: u64,
    /// Reads per second of the neighbour
    #[arg(long, default_value_t = 200)]
    pub neighbour_rate: u64,
    /// Write the result to this page
    #[arg(long)]
    pub publish: Option<std::path::PathBuf>,
}

#[derive(Debug, Clone, Args)]
pub struct MeteringOptions {
    /// The release build of the server
    #[arg(long)]
    pub server: std::path::PathBuf,
    #[arg(long, default_value_t = 7)]
    pub rounds: usize,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 4)]
    pub seconds: u64,
    /// Items loaded before the reads
    #[arg(long, default_value_t = 100_000)]
    pub items: u64,
    /// Write the result to this page
    #[arg(long)]
    pub publish: Option<std::path::PathBuf>,
}

#[derive(Debug, Clone, Args)]
pub struct FeedOptions {
    /// The release build of the server
    #[arg(long)]
    pub server: std::path::PathBuf,
    /// Walks over all items
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    #[arg(long, default_value_t = 200_000)]
    pub items: u64,
    /// Writes that a follower waits for
    #[arg(long, default_value_t = 500)]
    pub writes: u64,
    /// Write the result to this page
    #[arg(long)]
    pub publish: Option<std::path::PathBuf>,
}

#[derive(Debug, Clone, Args)]
pub struct TtlOptions {
    /// The release build of the server
    #[arg(long)]
    pub server: std::path::PathBuf,
    /// Seconds of the load before and afterwards
    #[arg(long, default_value_t = 20)]
    pub seconds: u64,
    /// Items that run out
    #[arg(long, default_value_t = 100_000)]
    pub items: u64,
    /// Requests per second
    #[arg(long, default_value_t = 1000)]
    pub rate: u64,
    /// Write the result to this page
    #[arg(long)]
    pub publish: Option<std::path::PathBuf>,
}

#[derive(Debug, Clone, Args)]
pub struct AnalyticsOptions {
    /// The release build of the server, with the feature `analytics`
    #[arg(long)]
    pub server: std::path::PathBuf,
    /// Rounds by the clock, of each container
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// Seconds of each container in a round
    #[arg(long, default_value_t = 24)]
    pub seconds: u64,
    /// Upserts per second
    #[arg(long, default_value_t = 2000)]
    pub rate: u64,
    /// Rounds of as many creates as possible
    #[arg(long, default_value_t = 3)]
    pub saturated_rounds: usize,
    #[arg(long, default_value_t = 20)]
    pub saturated_seconds: u64,
    /// Items of the first copy
    #[arg(long, default_value_t = 1_000_000)]
    pub items: u64,
    /// Write the result to this page
    #[arg(long)]
    pub publish: Option<std::path::PathBuf>,
}

#[derive(Debug, Clone, Args)]
pub struct HeavyOptions {
    /// The release build of the server
    #[arg(long)]
    pub server: std::path::PathBuf,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 20)]
    pub seconds: u64,
    /// Small writes per second
    #[arg(long, default_value_t = 100)]
    pub rate: u64,
    /// Writers of heavy items
    #[arg(long, default_value_t = 4)]
    pub writers: u64,
    /// Heavy items per second; without a rate each writer sends its next one at once
    #[arg(long)]
    pub heavy_rate: Option<u64>,
    /// Write the result to this page
    #[arg(long)]
    pub publish: Option<std::path::PathBuf>,
}

#[derive(Debug, Clone, Args)]
pub struct HostileOptions {
    /// The release build of the server
    #[arg(long)]
    pub server: std::path::PathBuf,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 10)]
    pub seconds: u64,
    /// Measurements of each attack
    #[arg(long, default_value_t = 3)]
    pub rounds: u64,
    /// Requests per second of each of the two clients
    #[arg(long, default_value_t = 100)]
    pub rate: u64,
    /// Attack with SQL statements; the server has the feature `full`
    #[arg(long)]
    pub sql: bool,
    /// Write the result to this page
    #[arg(long)]
    pub publish: Option<std::path::PathBuf>,
}

#[derive(Debug, Clone, Args)]
pub struct ScriptOptions {
    /// The release build of the server
    #[arg(long)]
    pub server: std::path::PathBuf,
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Seconds of each measurement of procedures
    #[arg(long, default_value_t = 4)]
    pub seconds: u64,
    /// Items that functions are called for
    #[arg(long, default_value_t = 20_000)]
    pub items: u64,
    /// Connections that run procedures
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8])]
    pub connections: Vec<usize>,
    /// Write the result to this page
    #[arg(long)]
    pub publish: Option<std::path::PathBuf>,
}

#[derive(Debug, Clone, Args)]
pub struct CompareOptions {
    /// The build of the server
    #[arg(long)]
    pub server: std::path::PathBuf,
    /// The build that it is compared with
    #[arg(long)]
    pub base: std::path::PathBuf,
    #[arg(long, default_value_t = 6)]
    pub rounds: usize,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 1)]
    pub seconds: u64,
    /// Items loaded into each build
    #[arg(long, default_value_t = 30_000)]
    pub items: u64,
    /// Items created and overwritten to measure the disk; 0 for none
    #[arg(long, default_value_t = 50_000)]
    pub disk_items: u64,
    /// Only operations whose names have one of these words in them, such as `create,disk`
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Fail where an operation takes more than so many per cent more processor time
    #[arg(long)]
    pub worse_percent_max: Option<f64>,
    /// Write the result to this page
    #[arg(long)]
    pub publish: Option<std::path::PathBuf>,
}

fn main() -> Outcome {
    match Arguments::parse().benchmark {
        Benchmark::Query(options) => query::run(&options),
        Benchmark::Point(options) => point::run(&options),
        Benchmark::Partitions(options) => partitions::run(&options),
        Benchmark::Throttle(options) => throttle::run(&options),
        Benchmark::Metering(options) => metering::run(&options),
        Benchmark::Feed(options) => feed::run(&options),
        Benchmark::Ttl(options) => ttl::run(&options),
        Benchmark::Analytics(options) => followers::run(&options, followers::Follower::Table),
        Benchmark::Copies(options) => followers::run(&options, followers::Follower::Index),
        Benchmark::Heavy(options) => heavy::run(&options),
        Benchmark::Hostile(options) => hostile::run(&options),
        Benchmark::Mongo(options) => mongo::run(&options),
        Benchmark::Script(options) => script::run(&options),
        Benchmark::Store(options) => store::run(&options),
        Benchmark::Compare(options) => compare::run(&options),
        Benchmark::All(options) => all::run(&options),
        Benchmark::Profile(options) => profile::run(&options),
        Benchmark::Guard(options) => compare::guard(&options),
        Benchmark::IdealHandler { reply } => ideal::serve(&reply),
    }
}
