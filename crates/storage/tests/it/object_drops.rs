//! Dropping a partition of an account in a store: the bytes that it writes, the objects that are
//! left, and the state after a crash in the middle.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use shardlake_stdx::Clock;
use shardlake_storage::object::{ObjectEngine, ObjectOptions, SharedCache, WriteMemory};
use shardlake_storage::{Batch, Durability, ScanOptions, Shard, ShardOptions};
use slatedb::object_store::ObjectStore;
use slatedb::object_store::memory::InMemory;

use crate::counted::Counted;

const DROPPED: u32 = 7;
const NEIGHBOUR: u32 = 8;
const ROWS: u32 = 50_000;

async fn open(store: Arc<dyn ObjectStore>, epoch: u64) -> Shard {
    let options = ObjectOptions {
        store,
        path: "s/1".into(),
        must_exist: false,
        epoch: Some(epoch),
        lease: None,
        circuits: None,
        disk_cache: None,
        cache: SharedCache::new(8 << 20),
        number: 1,
        memtable_bytes: 2 << 20,
        write_memory: WriteMemory::new(4 * (2 << 20)),
        shards: 1,
        log_kept: std::time::Duration::ZERO,
        clock: Clock::System,
        is_scanned: |_| false,
    };
    let engine = ObjectEngine::open(options).await.expect("opens");
    let options = ShardOptions { durability: Durability::Sync, ..ShardOptions::memory() };
    Shard::with_engine(Arc::new(engine), &options).expect("a shard")
}

fn key(partition: u32, number: u32) -> Vec<u8> {
    [partition.to_be_bytes(), number.to_be_bytes()].concat()
}

async fn fill(shard: &Shard, partition: u32, rows: u32) {
    let mut load = shard.bulk_load();
    for first in (0..rows).step_by(1000) {
        let row = |number: u32| (key(partition, number).into(), vec![number as u8; 200].into());
        load.push((first..rows.min(first + 1000)).map(row).collect()).await.expect("room");
    }
    load.finish().await.expect("stored");
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
    shard
        .drop_prefix(DROPPED.to_be_bytes().to_vec(), (DROPPED + 1).to_be_bytes().to_vec())
        .await
        .expect("drops");
}

#[tokio::test(start_paused = true)]
async fn a_drop_of_many_rows_writes_little_and_leaves_nothing() {
    let store = Arc::new(Counted::over(InMemory::new()));
    let shard = open(store.clone(), 1).await;
    fill(&shard, DROPPED, ROWS).await;
    fill(&shard, NEIGHBOUR, 500).await;
    shard.flush().await.expect("flushed");
    assert_eq!(rows(&shard, DROPPED).await, ROWS);
    let (before, began) = (store.put_bytes(), tokio::time::Instant::now());
    drop_partition(&shard).await;
    // By a clock that skips idle time.
    let took = began.elapsed();
    assert!(took <= std::time::Duration::from_millis(1200), "it took {took:?}");
    let written = store.put_bytes() - before;
    assert!(written <= 64 * 1024, "{written} bytes were written");
    println!("a drop of {ROWS} rows wrote {written} bytes and took {took:?}");
    assert_eq!((rows(&shard, DROPPED).await, rows(&shard, NEIGHBOUR).await), (0, 500));
    // The partition takes rows again, and is dropped again.
    fill(&shard, DROPPED, 10).await;
    assert_eq!(rows(&shard, DROPPED).await, 10);
    drop_partition(&shard).await;
    let mut late = Batch::new();
    late.put(key(NEIGHBOUR, 500), vec![1]);
    shard.commit(late).expect("queued").await.expect("acknowledged");
    let later = open(store, 2).await;
    assert_eq!((rows(&later, DROPPED).await, rows(&later, NEIGHBOUR).await), (0, 501));
}

/// Their orders come to the store in another order than that in which they were made.
#[tokio::test(start_paused = true)]
async fn many_partitions_are_dropped_at_once() {
    let store = Arc::new(Counted::over(InMemory::new()));
    let shard = open(store, 1).await;
    let partitions = 100..116u32;
    for partition in partitions.clone() {
        fill(&shard, partition, 200).await;
    }
    let drops = partitions.clone().map(|partition| {
        let range = (partition.to_be_bytes().to_vec(), (partition + 1).to_be_bytes().to_vec());
        let shard = shard.clone();
        async move { shard.drop_prefix(range.0, range.1).await }
    });
    for dropped in futures::future::join_all(drops).await {
        dropped.expect("drops");
    }
    for partition in partitions {
        assert_eq!(rows(&shard, partition).await, 0);
    }
}

/// The state of the store at each of its writes during a drop, as a crash leaves it: the neighbour
/// is whole, the partition is whole or deleted, and repeating the drop completes it.
#[tokio::test(start_paused = true)]
async fn a_drop_that_a_crash_broke_off_is_completed_by_repeating_it() {
    let store = Arc::new(Counted::over(InMemory::new()));
    let shard = open(store.clone(), 1).await;
    fill(&shard, DROPPED, 3000).await;
    fill(&shard, NEIGHBOUR, 500).await;
    shard.flush().await.expect("flushed");
    // These are in the log alone.
    fill(&shard, NEIGHBOUR, 600).await;
    fill(&shard, DROPPED, 3100).await;
    store.keep_states(true);
    drop_partition(&shard).await;
    store.keep_states(false);
    let states = store.states();
    assert!(states.len() >= 4, "{} writes", states.len());
    let seen = AtomicU64::new(0);
    for state in states {
        let later = open(Arc::new(state), 2).await;
        let left = rows(&later, DROPPED).await;
        assert!([0, 3100].contains(&left), "{left} rows are left");
        seen.fetch_or(1 << u64::from(left == 0), Ordering::Relaxed);
        assert_eq!(rows(&later, NEIGHBOUR).await, 600);
        drop_partition(&later).await;
        assert_eq!((rows(&later, DROPPED).await, rows(&later, NEIGHBOUR).await), (0, 600));
    }
    assert_eq!(seen.into_inner(), 3, "states before and after the drop");
}
