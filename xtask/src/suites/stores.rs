//! The kill -9 harness and the contests of two servers over stores that speak the protocols of the
//! clouds: SeaweedFS's S3 gateway and Azurite.
//!
//! `tests-sdk/stores/gateway.py` installs a store, starts it on loopback, and runs the harness
//! against it.

use super::support::{Run, SuiteResult};
use super::workspace;
use crate::command::run_and_listen;
use crate::{Outcome, prerequisites, project};
use std::process::Command;

/// Cycles for each store.
const KILL_CYCLES: u64 = 4;
/// One request in so many fails, in a round of its own.
const FAULTS_ONE_IN: u64 = 10;
/// Length of each of two contests of two servers for one prefix.
const FIGHT_SECONDS: u64 = 20;

pub fn run(_run: &Run<'_>) -> Outcome<Vec<SuiteResult>> {
    prerequisites::for_python()?;
    prerequisites::for_javascript()?;
    let of = |store: &str, faults: Faults| -> Outcome<SuiteResult> {
        let mut command = Command::new("python3");
        command
            .arg(project::root().join("tests-sdk/stores/gateway.py"))
            .arg(store)
            .arg("--work")
            .arg(project::work_directory().join("stores"))
            .arg("--");
        command.arg(workspace::harness()?.get_program());
        command.args(["--nocapture", "--test-threads=1", "writes_to_an_object_store"]);
        match faults {
            Faults::None => command.arg("two_servers_that"),
            Faults::Many => command.env("SHARDLAKE_TEST_FAULTS", FAULTS_ONE_IN.to_string()),
        };
        command
            .current_dir(project::root())
            .env("SHARDLAKE_KILL_CYCLES", (KILL_CYCLES * workspace::HARNESS_RUNS).to_string())
            .env("SHARDLAKE_FIGHT_SECONDS", FIGHT_SECONDS.to_string());
        let (output, ended_well) = run_and_listen(&mut command)?;
        let name = match faults {
            Faults::None => format!("stores/{store}"),
            Faults::Many => format!("stores/{store}-failing"),
        };
        Ok(workspace::of_cycles(&name, &output, ended_well))
    };
    Ok(vec![of("seaweedfs", Faults::None)?, of("seaweedfs", Faults::Many)?, of("azurite", Faults::None)?])
}

/// Faults of requests to the store.
#[derive(Clone, Copy)]
enum Faults {
    None,
    /// Injected by a proxy before it: refusals, lost and false answers, broken connections.
    Many,
}
