//! Dropping a partition on a local disk: its tables go as a whole, and no crash brings a row of it back.

use std::fs;
use std::path::Path;

use shardlake_storage::{Batch, ScanOptions, Shard, ShardOptions};

const DROPPED: u32 = 7;
const NEIGHBOUR: u32 = 8;
const ROWS: u32 = 40_000;
const VALUE_BYTES: usize = 300;

fn key(partition: u32, number: u32) -> Vec<u8> {
    [partition.to_be_bytes(), number.to_be_bytes()].concat()
}

fn value(number: u32) -> Vec<u8> {
    number.to_be_bytes().iter().copied().cycle().take(VALUE_BYTES).collect()
}

async fn load(shard: &Shard, partition: u32, rows: u32) {
    let mut load = shard.bulk_load();
    for first in (0..rows).step_by(1000) {
        let row = |number: u32| (key(partition, number).into(), value(number).into());
        load.push((first..rows.min(first + 1000)).map(row).collect()).await.expect("room");
    }
    load.finish().await.expect("stored");
}

async fn write(shard: &Shard, partition: u32, numbers: std::ops::Range<u32>) {
    let numbers: Vec<u32> = numbers.collect();
    for numbers in numbers.chunks(1000) {
        let mut batch = Batch::new();
        numbers.iter().for_each(|number| batch.put(key(partition, *number), value(*number)));
        shard.commit(batch).expect("room").await.expect("commits");
    }
}

async fn rows(shard: &Shard, partition: u32) -> u32 {
    let mut scan = shard.view().scan(key(partition, 0)..key(partition + 1, 0), ScanOptions::default());
    let mut rows = 0;
    while let Some(chunk) = scan.next_chunk().await.expect("reads") {
        rows += chunk.len() as u32;
    }
    rows
}

async fn drop_partition(shard: &Shard) {
    let prefixes = [DROPPED, DROPPED + 1].map(|partition| partition.to_be_bytes().to_vec());
    let [start, end] = prefixes;
    shard.drop_prefix(start, end).await.expect("drops");
}

fn copy_directory(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("creates");
    for entry in fs::read_dir(from).expect("lists") {
        let entry = entry.expect("lists");
        let target = to.join(entry.file_name());
        match entry.file_type().expect("a type").is_dir() {
            true => copy_directory(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).expect("copies")),
        }
    }
}

#[tokio::test]
async fn tables_of_a_dropped_partition_go_as_a_whole() {
    let directory = tempfile::tempdir().expect("a directory");
    let shard = Shard::open(ShardOptions::local(directory.path())).await.expect("opens");
    load(&shard, DROPPED, ROWS).await;
    load(&shard, NEIGHBOUR, 500).await;
    // These lie in tables with others.
    write(&shard, DROPPED, ROWS..ROWS + 500).await;
    write(&shard, NEIGHBOUR, 500..1000).await;
    shard.flush().await.expect("flushes");
    let view = shard.view();
    let (before, written) = (shard.disk_bytes(), log_bytes(directory.path()));
    drop_partition(&shard).await;
    assert_eq!((rows(&shard, DROPPED).await, rows(&shard, NEIGHBOUR).await), (0, 1000));
    let deleted = log_bytes(directory.path()).saturating_sub(written);
    assert!(deleted < 100 * 1024, "a drop of {ROWS} rows wrote {deleted} bytes to the log");
    assert!(view.get(&key(NEIGHBOUR, 999)).await.expect("reads").is_some(), "a view from before goes on");
    // Files that a view reads use disk space until it ends.
    drop(view);
    shard.close().await.expect("closes");
    drop(shard);
    let shard = Shard::open(ShardOptions::local(directory.path())).await.expect("opens");
    let freed = before.saturating_sub(shard.disk_bytes());
    assert!(freed > u64::from(ROWS) * VALUE_BYTES as u64 / 2, "{freed} of {before} bytes");
    // The partition takes rows again, and is dropped again.
    load(&shard, DROPPED, ROWS).await;
    assert_eq!(rows(&shard, DROPPED).await, ROWS);
    drop_partition(&shard).await;
    assert_eq!((rows(&shard, DROPPED).await, rows(&shard, NEIGHBOUR).await), (0, 1000));
}

/// Bytes of batches in the journals.
fn log_bytes(shard: &Path) -> u64 {
    let journals = fs::read_dir(shard.join("db")).expect("lists").map(|entry| entry.expect("lists").path());
    let journals = journals.filter(|path| path.extension().is_some_and(|extension| extension == "jnl"));
    let used = |path| {
        let content = fs::read(path).expect("reads");
        content.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1)
    };
    journals.map(used).sum()
}

/// Also where all rows were in a journal, and in tables younger than all others.
#[tokio::test]
async fn no_crash_brings_back_a_row_of_a_dropped_partition() {
    let directory = tempfile::tempdir().expect("a directory");
    let original = directory.path().join("original");
    let shard = Shard::open(ShardOptions::local(&original)).await.expect("opens");
    write(&shard, NEIGHBOUR, 0..1000).await;
    shard.flush().await.expect("flushes");
    write(&shard, DROPPED, 0..ROWS).await;
    shard.flush().await.expect("flushes");
    write(&shard, NEIGHBOUR, 1000..1500).await;
    drop_partition(&shard).await;
    let check = async |name: &str, neighbours| {
        let copy = directory.path().join(name);
        copy_directory(&original, &copy);
        let later = Shard::open(ShardOptions::local(&copy)).await.expect("opens");
        assert_eq!((rows(&later, DROPPED).await, rows(&later, NEIGHBOUR).await), (0, neighbours), "{name}");
    };
    check("at once", 1500).await;
    write(&shard, NEIGHBOUR, 1500..2000).await;
    check("after others wrote", 2000).await;
    shard.flush().await.expect("flushes");
    check("after others were sorted", 2000).await;
}
