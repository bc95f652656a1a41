//! Reads of the log at a start.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use shardlake_stdx::Clock;
use shardlake_storage::object::{ObjectEngine, ObjectOptions, SharedCache, WriteMemory};
use shardlake_storage::{Batch, Durability, Shard, ShardOptions};
use shardlake_testkit::eventually;
use slatedb::object_store::ObjectStore as _;
use slatedb::object_store::memory::InMemory;
use slatedb::object_store::path::Path;

use crate::counted::Counted;

async fn open(store: &Arc<Counted>, epoch: u64) -> (Shard, WriteMemory) {
    let write_memory = WriteMemory::new(64 << 20);
    let options = ObjectOptions {
        store: store.clone(),
        path: "s/1".into(),
        must_exist: false,
        epoch: Some(epoch),
        lease: None,
        circuits: None,
        disk_cache: None,
        cache: SharedCache::new(0),
        number: 1,
        memtable_bytes: 16 << 20,
        write_memory: write_memory.clone(),
        shards: 1,
        log_kept: Duration::ZERO,
        clock: Clock::System,
        is_scanned: |_| false,
    };
    let engine = ObjectEngine::open(options).await.expect("opens");
    let options = ShardOptions { durability: Durability::Sync, ..ShardOptions::memory() };
    (Shard::with_engine(Arc::new(engine), &options).expect("a shard"), write_memory)
}

async fn write(shard: &Shard, numbers: std::ops::RangeInclusive<u32>) {
    for number in numbers {
        let mut batch = Batch::new();
        batch.put([&[0, 0, 0, 1][..], &number.to_be_bytes()].concat(), vec![1; 10]);
        shard.commit(batch).expect("queued").await.expect("durable");
    }
}

async fn tables(store: &Arc<Counted>) -> usize {
    store.list(Some(&Path::from("s/1/compacted"))).count().await
}

/// Waits for the flush that makes tables of the written rows.
fn tables_are_made(memory: &WriteMemory) {
    tokio::task::block_in_place(|| eventually("tables are made", || memory.held_bytes() == 0));
}

/// A lone writer makes an object of the log for each write, long before a memtable is full.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn start_reads_a_bounded_part_of_the_log_and_the_next_one_less() {
    const WRITES: u32 = 1_000;
    let store = Arc::new(Counted::over(InMemory::new()));
    let (first, memory) = open(&store, 1).await;
    // One for the first write, and one for as many more as there may be in the log.
    write(&first, 0..=WRITES).await;
    tables_are_made(&memory);
    write(&first, WRITES + 1..=WRITES + 100).await;
    assert!(memory.held_bytes() > 0, "so few are in no table");

    let (before, made) = (store.log_reads(), tables(&store).await);
    let (second, _) = open(&store, 2).await;
    let read = store.log_reads() - before;
    // Two for each object, and the search for the last one.
    assert!((200..300).contains(&read), "{read} requests for 100 objects");
    write(&second, WRITES + 101..=WRITES + 101).await;
    let more = || futures::executor::block_on(tables(&store)) > made;
    tokio::task::block_in_place(|| eventually("what was read of the log is in a table", more));
    // The manifest records it.
    second.flush().await.expect("nothing is left to do");

    let before = store.log_reads();
    let (third, _) = open(&store, 3).await;
    let read = store.log_reads() - before;
    assert!(read < 50, "{read} requests for a log that is in tables");
    for number in [0, WRITES, WRITES + 1, WRITES + 101] {
        let key = [&[0, 0, 0, 1][..], &number.to_be_bytes()].concat();
        assert!(third.get(&key).await.expect("reads").is_some(), "{number} is there");
    }
}
