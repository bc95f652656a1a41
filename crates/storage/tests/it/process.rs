//! Real failures, in a process of their own: kill -9 under writers, a disk that takes no more, and a worker that dies.
//!
//! The child is this test program again, running the test `process::child` with its orders in an environment variable.
#![allow(clippy::disallowed_methods, clippy::print_stdout)] // how the child and its parent talk

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use shardlake_storage::{Batch, Durability, Shard, ShardOptions, StorageError};
use shardlake_testkit::{Logs, expects_log};

const ORDERS: &str = "SHARDLAKE_STORAGE_TEST_CHILD";
const WRITERS: u64 = 4;

/// Log message about the write that the child was writing when it ended.
const TORN: &str = "cut a torn write off the journal";

fn key(writer: u64, number: u64, half: u8) -> Vec<u8> {
    [&writer.to_be_bytes()[..], &number.to_be_bytes()[..], &[half]].concat()
}

fn batch(writer: u64, number: u64, size: usize) -> Batch {
    let mut batch = Batch::new();
    batch.put(key(writer, number, 1), vec![number as u8; size]);
    batch.put(key(writer, number, 2), Vec::new());
    batch
}

async fn has(shard: &Shard, writer: u64, number: u64) -> bool {
    let first = shard.get(&key(writer, number, 1)).await.expect("reads");
    let second = shard.get(&key(writer, number, 2)).await.expect("reads");
    assert_eq!(first.is_some(), second.is_some(), "commit {number} of writer {writer} is torn");
    first.is_some()
}

/// Memtables small enough that kills also hit sorting and merging.
fn options(directory: &Path, durability: Durability) -> ShardOptions {
    ShardOptions { memtable_bytes: 256 * 1024, durability, ..ShardOptions::local(directory) }
}

fn spawn(orders: &str, directory: &Path, limit: Option<u32>) -> Child {
    let limit = limit.map_or(String::new(), |blocks| format!("trap '' XFSZ; ulimit -f {blocks}; "));
    Command::new("sh")
        .args(["-c", &format!("{limit}exec \"$0\" --exact process::child --nocapture --test-threads 1")])
        .arg(std::env::current_exe().expect("this program"))
        .env(ORDERS, format!("{orders} {}", directory.display()))
        .stdout(Stdio::piped())
        .spawn()
        .expect("the child starts")
}

/// Not a test by itself: the work of the child.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let _logs = Logs::watch();
    let Ok(orders) = std::env::var(ORDERS) else { return };
    let (orders, directory) = orders.split_once(' ').expect("orders and a directory");
    match orders {
        "write" => write(options(Path::new(directory), Durability::Sync)).await,
        "write-async" => write(options(Path::new(directory), Durability::Async)).await,
        "fill" => fill(Path::new(directory)).await,
        other => panic!("unknown orders {other}"),
    }
}

async fn write(options: ShardOptions) {
    let shard = Shard::open(options).await.expect("opens");
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let shard = shard.clone();
            tokio::spawn(async move {
                let mut number = 1;
                while has(&shard, writer, number).await {
                    number += 1;
                }
                // Until it is killed.
                while number < u64::MAX {
                    shard.commit(batch(writer, number, 700)).expect("room").await.expect("commits");
                    println!("\nacknowledged {writer} {number}");
                    number += 1;
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("no panic");
    }
}

async fn kill_and_check(orders: &str, durability: Durability) {
    let directory = tempfile::tempdir().expect("a directory");
    expects_log(TORN);
    let mut acknowledged = [0; WRITERS as usize];
    for cycle in 1..=3u64 {
        let mut child = spawn(orders, directory.path(), None);
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut left = 300 * cycle;
        for line in lines {
            let line = line.expect("text");
            let Some(rest) = line.strip_prefix("acknowledged ") else { continue };
            let (writer, number) = rest.split_once(' ').expect("two numbers");
            let (writer, number): (usize, u64) =
                (writer.parse().expect("a number"), number.parse().expect("a number"));
            acknowledged[writer] = acknowledged[writer].max(number);
            left = left.saturating_sub(1);
            if left == 0 {
                // SIGKILL, in the middle of whatever it does; the lines it wrote before are still read.
                let _ = child.kill();
            }
        }
        child.wait().expect("ends");
        assert_eq!(left, 0, "the child wrote until it was killed");
        let shard = Shard::open(options(directory.path(), durability)).await.expect("opens");
        for writer in 0..WRITERS {
            let last = acknowledged[writer as usize];
            for number in 1..=last {
                assert!(has(&shard, writer, number).await, "cycle {cycle}: {number} of {writer} is lost");
            }
            has(&shard, writer, last + 1).await;
            assert!(!has(&shard, writer, last + 2).await, "each writer had one commit in flight");
        }
    }
}

#[tokio::test]
async fn kill_9_loses_nothing_acknowledged() {
    let _logs = Logs::watch();
    kill_and_check("write", Durability::Sync).await;
}

/// Without a sync per commit the operating system has the data, so only its crash could lose any.
#[tokio::test]
async fn kill_9_loses_nothing_of_async_commits_either() {
    let _logs = Logs::watch();
    kill_and_check("write-async", Durability::Async).await;
}

/// Writes until the disk takes no more.
async fn fill(directory: &Path) {
    expects_log("a shard refuses writes from now on");
    let options = ShardOptions { memtable_bytes: 1 << 30, ..ShardOptions::local(directory) };
    let shard = Shard::open(options).await.expect("opens");
    for number in 1..=200 {
        match shard.commit(batch(0, number, 1024 * 1024)).expect("room").await {
            Ok(()) => println!("\nacknowledged {number}"),
            Err(error) => {
                assert!(matches!(&error, StorageError::Poisoned { .. }), "{error}");
                assert!(shard.is_poisoned());
                assert!(shard.commit(batch(0, 0, 1)).is_err(), "nothing more is accepted");
                assert!(has(&shard, 0, 1).await, "reads go on");
                assert!(shard.close().await.is_err());
                println!("\nrefused {error}");
                return;
            }
        }
    }
}

/// The limit on the size of a file stands for the full disk: the journal's next write fails half-way.
#[tokio::test]
async fn a_full_disk_is_an_error_and_loses_nothing_acknowledged() {
    let _logs = Logs::watch();
    let directory = tempfile::tempdir().expect("a directory");
    expects_log(TORN);
    // Blocks of 512 or 1024 bytes, depending on the shell: more than the 64 MB that a journal starts with.
    let mut child = spawn("fill", directory.path(), Some(140_000));
    let (mut acknowledged, mut refused) = (0, String::new());
    for line in BufReader::new(child.stdout.take().expect("piped")).lines() {
        let line = line.expect("text");
        if let Some(number) = line.strip_prefix("acknowledged ") {
            acknowledged = number.parse().expect("a number");
        } else if let Some(error) = line.strip_prefix("refused ") {
            refused = error.to_owned();
        }
    }
    assert!(child.wait().expect("ends").success(), "the child ends by itself");
    assert!(refused.contains("File too large"), "the reason is named: '{refused}'");
    assert!((60..200).contains(&acknowledged), "{acknowledged} acknowledged");
    let shard = Shard::open(ShardOptions::local(directory.path())).await.expect("opens with space");
    for number in 1..=acknowledged {
        assert!(has(&shard, 0, number).await, "commit {number} is lost");
    }
    has(&shard, 0, acknowledged + 1).await;
    shard.commit(batch(0, 999, 10)).expect("room").await.expect("writes again");
}

#[tokio::test]
async fn a_worker_that_dies_poisons_and_blocks_nobody() {
    let _logs = Logs::watch();
    expects_log("a shard refuses writes from now on");
    let directory = tempfile::tempdir().expect("a directory");
    let options = options(directory.path(), Durability::Sync);
    let shard = Shard::open(options.clone()).await.expect("opens");
    shard.commit(batch(0, 1, 100)).expect("room").await.expect("commits");
    // Where sorted tables go: the next memtable cannot be written.
    let tables = directory.path().join("db/keyspaces/1/tables");
    std::fs::rename(&tables, tables.with_extension("away")).expect("renames");
    let mut number = 1;
    let history = async {
        loop {
            let Ok(commit) = shard.commit(batch(0, number + 1, 50_000)) else { break };
            if commit.await.is_err() {
                break;
            }
            number += 1;
        }
        assert!(shard.flush().await.is_err() && shard.close().await.is_err());
    };
    tokio::time::timeout(Duration::from_secs(600), history).await.expect("nobody waits for a dead worker");
    assert!(shard.is_poisoned() && has(&shard, 0, 1).await);
    drop(shard);
    std::fs::rename(tables.with_extension("away"), &tables).expect("renames");
    let shard = Shard::open(options).await.expect("opens");
    for number in 1..=number {
        assert!(has(&shard, 0, number).await, "commit {number} is lost");
    }
}
