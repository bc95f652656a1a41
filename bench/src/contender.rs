//! Server of one build with the items of the point and of the query benchmark, so that builds can
//! be driven alternately.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use shardlake_testkit::{ServerOptions, ServerProcess};

use crate::cpu::{Cpu, resident_megabytes, settle};
use crate::load::{self, Measured};
use crate::loading::load_items;
use crate::workload::{CONTAINER, DATABASE, create_database};
use crate::{Outcome, cases::Case, query_workload, script};

/// The longest wait for work that writes have left behind.
const PATIENCE: Duration = Duration::from_secs(2);

/// How a server is started and filled.
pub struct Setup {
    pub binary: PathBuf,
    pub durability: &'static str,
    /// Items in each of the two containers; may be 0.
    pub items: u64,
}

pub struct Contender {
    pub server: ServerProcess,
    /// Resident memory after the start and after loading.
    pub megabytes: (f64, f64),
    // Removed when the server has ended.
    _directory: tempfile::TempDir,
}

impl Contender {
    pub fn start(setup: &Setup) -> Outcome<Contender> {
        let directory = tempfile::TempDir::with_prefix("shardlake-bench-contender-")?;
        let server = ServerOptions::new(&setup.binary)
            .durability(setup.durability)
            .data_dir(directory.path().join("data"))
            .argument("--throughput=unlimited")
            .try_start()?;
        let idle = resident_megabytes(server.process_id());
        eprintln!("loading {} items, twice, into {}", setup.items, setup.binary.display());
        let client = server.client();
        create_database(&client);
        let body = json!({"id": CONTAINER, "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}});
        let _ = client.create_container_of(DATABASE, &body, &[]).expect_status(201);
        script::create_procedures(&client);
        load_items(&server, setup.items)?;
        query_workload::load(&server, setup.items)?;
        settle(server.process_id(), PATIENCE * 5);
        let megabytes = (idle, resident_megabytes(server.process_id()));
        Ok(Contender { server, megabytes, _directory: directory })
    }
}

/// Drives a case for some time. The server's later work for the writes of the case is part of their cost.
pub fn drive(
    server: &ServerProcess,
    case: &Case,
    round: usize,
    connections: usize,
    time: Duration,
) -> Outcome<Measured> {
    let cpu = Cpu::of(server.process_id());
    let requests = (case.requests)(round);
    let mut measured = load::drive(server.address(), connections, time, requests, server.process_id())?;
    let busy = cpu.seconds();
    let rest = settle(server.process_id(), PATIENCE);
    if busy > 0.0 {
        measured.cpu_us *= 1.0 + rest / busy;
    }
    Ok(measured)
}
