//! Indexes and filters of tables stay in memory, whatever reads of blocks drive out.

use std::sync::Arc;
use std::time::Duration;

use shardlake_stdx::Clock;
use shardlake_storage::object::{ObjectEngine, ObjectOptions, SharedCache, WriteMemory};
use shardlake_storage::{Durability, Shard, ShardOptions};
use slatedb::object_store::memory::InMemory;

use crate::counted::Counted;

/// In one table, whose filter takes 375 KB and whose index takes 60.
const ROWS: u32 = 300_000;
/// Its blocks take five times as much.
const CACHE_BYTES: u64 = 2 << 20;

async fn open(store: &Arc<Counted>, epoch: u64) -> Shard {
    let options = ObjectOptions {
        store: store.clone(),
        path: "s/1".into(),
        must_exist: false,
        epoch: Some(epoch),
        lease: None,
        circuits: None,
        disk_cache: None,
        cache: SharedCache::new(CACHE_BYTES),
        number: 1,
        memtable_bytes: 64 << 20,
        write_memory: WriteMemory::new(256 << 20),
        shards: 1,
        log_kept: Duration::ZERO,
        clock: Clock::System,
        is_scanned: |_| false,
    };
    let engine = ObjectEngine::open(options).await.expect("opens");
    let options = ShardOptions { durability: Durability::Sync, cache_bytes: 0, ..ShardOptions::memory() };
    Shard::with_engine(Arc::new(engine), &options).expect("a shard")
}

fn key(number: u32) -> Vec<u8> {
    [1u32.to_be_bytes(), number.to_be_bytes()].concat()
}

#[tokio::test]
async fn row_that_is_not_in_memory_is_one_request() {
    let store = Arc::new(Counted::over(InMemory::new()));
    let shard = open(&store, 1).await;
    let mut load = shard.bulk_load();
    for first in (0..ROWS).step_by(1000) {
        let row = |number: u32| (key(number).into(), number.to_le_bytes().repeat(4).into());
        load.push((first..first + 1000).map(row).collect()).await.expect("room");
    }
    load.finish().await.expect("stored");
    shard.close().await.expect("closes");

    let shard = open(&store, 2).await;
    // Each in a block of its own; the first reads have index and filter fetched.
    let reads = |count: u32| (0..count).map(move |n| n * (ROWS / count));
    for number in reads(100) {
        assert!(shard.get(&key(number)).await.expect("reads").is_some());
    }
    let before = store.table_reads();
    for number in reads(150) {
        assert!(shard.get(&key(number)).await.expect("reads").is_some());
    }
    let read = store.table_reads() - before;
    assert!(read > 50, "{read} requests: the blocks are not in memory");
    // A row at the end of its block has the next one read.
    assert!(read <= 155, "{read} requests for 150 rows");
}
