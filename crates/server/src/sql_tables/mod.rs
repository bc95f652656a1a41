//! SQL over analytical tables (feature `analytics-sql`): the server's side of `crates/analytics-sql`, and the server as its own worker.
//!
//! | file | contents |
//! |---|---|
//! | `service.rs` | requests to queries, failures to errors |
//! | `tables.rs` | the account's tables for a query |
//! | `awaited.rs` | waiting until they are new enough |
//! | `stream.rs` | an answer on its way |

mod awaited;
mod service;
mod stream;
mod tables;

use std::process::ExitCode;

use shardlake_analytics::Analytics;
use shardlake_analytics_sql::{Limits, OUTCOMES, Pool, PoolSettings, WorkerProgram};

use crate::config::Config;
use crate::exposition::Page;
use crate::memory;
use crate::metric_table as table;
use crate::script_worker::{is_only_argument, this_program};
use service::Service;

const FLAG: &str = "--sql-worker";
const WAITING_MAX: usize = 16;
const MEMORY_MAX: u64 = 4 << 30;
const MEMORY_UNKNOWN: u64 = 1 << 30;
const MEMORY_MIN: u64 = 64 << 20;
const ROWS_MAX: u64 = 1_000_000;
const ANSWER_BYTES_MAX: u64 = 256 << 20;
const SPILL_FOLDER: &str = "analytics-spill";

/// Whether this process was started to be a worker.
pub fn is_worker() -> bool {
    is_only_argument(FLAG)
}

pub fn worker_main() -> ExitCode {
    shardlake_analytics_sql::worker_main()
}

/// Workers are processes of this program.
pub(crate) fn service(config: &Config, analytics: &Analytics) -> Service {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let workers = config.analytics.sql_workers.map_or(if cores <= 4 { 1 } else { cores / 4 }, usize::from);
    let quarter = memory::available_bytes().map_or(MEMORY_UNKNOWN, |bytes| bytes / 4);
    let data = config
        .data_dir
        .clone()
        .unwrap_or_else(|| std::env::temp_dir().join(format!("shardlake-{}", std::process::id())));
    let data = std::path::absolute(&data).unwrap_or(data);
    let settings = PoolSettings {
        worker: WorkerProgram { program: this_program(), arguments: vec![FLAG.to_owned()] },
        workers_max: workers,
        waiting_max: WAITING_MAX,
        limits: Limits {
            memory_bytes: config.analytics.sql_memory.unwrap_or(quarter.clamp(MEMORY_MIN, MEMORY_MAX)),
            spill_bytes: config.analytics.sql_spill,
            rows: ROWS_MAX,
            answer_bytes: ANSWER_BYTES_MAX,
            threads: cores,
            seconds: 0,
        },
        spill_folder: data.join(SPILL_FOLDER),
    };
    Service::new(Pool::new(settings), analytics.clone())
}

pub(crate) fn write_metrics(page: &mut Page, pool: &Pool) {
    let figures = pool.figures();
    for (outcome, count) in OUTCOMES.iter().zip(figures.outcomes()) {
        page.family(&table::SQL_QUERIES).push([outcome], count);
    }
    page.set(&table::SQL_DURATION, figures.seconds().counts());
    page.set(&table::SQL_MEMORY, figures.memory_bytes_most());
    page.set(&table::SQL_RUNNING, pool.running().len() as u64);
}
