//! A worker as a program of its own, for the tests and measurements of this crate; the server is its own worker.

use std::process::ExitCode;

fn main() -> ExitCode {
    shardlake_analytics_sql::worker_main()
}
