//! Bytes on disk by bytes of JSON, at rest: after every item was created and overwritten once and the server was stopped.
//!
//! The JSON is the text that clients sent for the present items, without system properties. The
//! disk is every block of the data directory: items, index, change log, journals.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use shardlake_testkit::{ServerOptions, ServerProcess};

use crate::cpu::settle;
use crate::workload::create_database;
use crate::{Outcome, query_workload};

/// For work that continues after the last write.
const PATIENCE: Duration = Duration::from_secs(60);

/// Disk bytes by JSON bytes of a build, after `items` creates and as many overwrites.
pub fn measure(binary: &Path, items: u64) -> Outcome<f64> {
    let directory = tempfile::TempDir::with_prefix("shardlake-bench-disk-")?;
    let mut server = ServerOptions::new(binary)
        .data_dir(directory.path().join("data"))
        .argument("--throughput=unlimited")
        .try_start()?;
    eprintln!("creating and overwriting {items} items with {}", binary.display());
    create_database(&server.client());
    query_workload::load(&server, items)?;
    query_workload::overwrite(&server, items)?;
    at_rest(&mut server);
    Ok(bytes_below(directory.path())? as f64 / json_bytes(items) as f64)
}

/// Stops the server when it has nothing more to do.
pub fn at_rest(server: &mut ServerProcess) {
    settle(server.process_id(), PATIENCE);
    server.terminate(PATIENCE);
}

pub fn json_bytes(items: u64) -> u64 {
    (0..items).map(|number| query_workload::overwritten(number, items).len() as u64).sum()
}

/// Blocks of all files below a directory.
pub fn bytes_below(directory: &Path) -> Outcome<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(directory)? {
        let (path, metadata) = {
            let entry = entry?;
            (entry.path(), entry.metadata()?)
        };
        bytes += metadata.blocks() * 512;
        if metadata.is_dir() {
            bytes += bytes_below(&path)?;
        }
    }
    Ok(bytes)
}
