//! A write-back that fails: no commit is acknowledged whose sync failed, though a worker syncs the same journal at that time.
//!
//! `write_back.c` plays the operating system, which reports such a failure once to each open file.
#![allow(clippy::disallowed_methods, clippy::print_stdout)] // how the child and its parent talk

use std::path::Path;
use std::process::Command;

use shardlake_storage::{Batch, Durability, Shard, ShardOptions};
use shardlake_testkit::{Logs, expects_log, note_skipped};

const DIRECTORY: &str = "WRITE_BACK_DIR";
/// More than fit a memtable several times over.
const COMMITS: u64 = 200;

fn key(number: u64) -> Vec<u8> {
    [&[0; 4][..], &number.to_be_bytes()].concat()
}

/// The work of the child; not a test by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let _logs = Logs::watch();
    expects_log("a shard refuses writes from now on");
    let injected = Path::new(&directory).join("injected");
    let options = ShardOptions {
        memtable_bytes: 256 * 1024,
        durability: Durability::Sync,
        ..ShardOptions::local(Path::new(&directory).join("shard"))
    };
    let shard = Shard::open(options).await.expect("opens");
    for number in 0..COMMITS {
        let mut batch = Batch::new();
        batch.put(key(number), vec![7; 20_000]);
        let refused = match shard.commit(batch) {
            Ok(commit) => commit.await.is_err(),
            Err(_) => true,
        };
        if refused {
            println!("\nrefused {number} after a failure: {}", injected.exists());
            return;
        }
        // The only writer: a write that failed is this one.
        assert!(!injected.exists(), "commit {number} is acknowledged, and its sync failed");
    }
}

#[test]
fn no_commit_is_acknowledged_whose_write_back_failed_while_a_worker_synced() {
    const TEST: &str = "no_commit_is_acknowledged_whose_write_back_failed_while_a_worker_synced";
    if !cfg!(target_os = "linux") {
        return note_skipped(TEST, "write-backs fail on Linux only");
    }
    let directory = tempfile::tempdir().expect("a directory");
    let library = directory.path().join("write_back.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/write_back.c");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        .arg(source)
        .arg("-ldl")
        .status();
    match compiled {
        Ok(status) => assert!(status.success(), "cc cannot compile write_back.c"),
        Err(error) => return note_skipped(TEST, &format!("there is no 'cc': {error}")),
    }
    let ended = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "write_back::child", "--nocapture", "--test-threads", "1"])
        .env("LD_PRELOAD", &library)
        .env(DIRECTORY, directory.path())
        .output()
        .expect("the child runs");
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{said}{}", String::from_utf8_lossy(&ended.stderr));
    assert!(said.contains("after a failure: true"), "{said}");
}
