//! A store on a machine whose clock goes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::TryStreamExt as _;
use shardlake_stdx::Clock;
use shardlake_storage::object::{ObjectEngine, ObjectOptions, SharedCache, WriteMemory};
use shardlake_storage::{Batch, Durability, Engine as _, Shard, ShardOptions};
use slatedb::object_store::memory::InMemory;
use slatedb::object_store::path::Path;
use slatedb::object_store::{ObjectStore, ObjectStoreExt as _, PutPayload};

/// Time of the machine on which a shard was made: 2026.
const START_MS: u64 = 1_790_000_000_000;
const ROWS: u32 = 20;

async fn open(store: &Arc<dyn ObjectStore>, epoch: u64, clock: Clock) -> (Shard, Arc<ObjectEngine>) {
    let options = ObjectOptions {
        store: store.clone(),
        path: "s/1".into(),
        must_exist: false,
        epoch: Some(epoch),
        lease: None,
        circuits: None,
        disk_cache: None,
        cache: SharedCache::new(1 << 20),
        number: 0,
        memtable_bytes: 1 << 20,
        write_memory: WriteMemory::new(4 << 20),
        shards: 1,
        log_kept: Duration::ZERO,
        clock,
        is_scanned: |_| false,
    };
    let engine = Arc::new(ObjectEngine::open(options).await.expect("opens"));
    let options = ShardOptions { durability: Durability::Sync, ..ShardOptions::memory() };
    (Shard::with_engine(engine.clone(), &options).expect("a shard"), engine)
}

fn key(number: u32) -> Vec<u8> {
    [[0, 0, 0, 1], number.to_be_bytes()].concat()
}

async fn write(shard: &Shard, numbers: std::ops::Range<u32>) {
    for number in numbers {
        let mut batch = Batch::new();
        batch.put(key(number), vec![1; 10]);
        shard.commit(batch).expect("queued").await.expect("acknowledged");
    }
}

async fn has_all(shard: &Shard, rows: u32) {
    for number in 0..rows {
        assert!(shard.get(&key(number)).await.expect("reads").is_some(), "row {number}");
    }
}

async fn copy_of(store: &Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore> {
    let copy: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let listed = store.list(None).map_ok(|object| object.location);
    for name in listed.try_collect::<Vec<Path>>().await.expect("listed") {
        let content = store.get(&name).await.expect("there").bytes().await.expect("read");
        copy.put(&name, PutPayload::from_bytes(content)).await.expect("stored");
    }
    copy
}

/// Writes and tables of an owner continue while the machine's clock is set back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clock_that_is_set_back_ends_no_engine() {
    let hands = Arc::new(AtomicU64::new(START_MS));
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let (shard, engine) = open(&store, 1, Clock::Manual(hands.clone())).await;
    for (round, back_ms) in [600, 60_000, 86_400_000].into_iter().enumerate() {
        let first = round as u32 * ROWS;
        write(&shard, first..first + ROWS / 2).await;
        shard.flush().await.expect("a table");
        hands.fetch_sub(back_ms, Ordering::SeqCst);
        write(&shard, first + ROWS / 2..first + ROWS).await;
        shard.flush().await.expect("a table");
    }
    has_all(&shard, 3 * ROWS).await;
    assert_eq!(engine.moment(), 0, "never opened again");
}

/// The newest time is in a table or in the log alone; the next machine's clock is behind it by less than a second or by years.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shard_goes_on_on_a_machine_whose_clock_is_behind() {
    for (behind_ms, in_tables) in
        [600, 3_600_000, 5 * 365 * 86_400_000].into_iter().flat_map(|ms| [(ms, true), (ms, false)])
    {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let hands = Arc::new(AtomicU64::new(START_MS - behind_ms));
        let (first, _) = open(&store, 1, Clock::Manual(hands.clone())).await;
        // The first write makes a table by itself.
        write(&first, 0..1).await;
        first.flush().await.expect("a table");
        hands.store(START_MS, Ordering::SeqCst);
        write(&first, 1..ROWS).await;
        if in_tables {
            first.flush().await.expect("a table");
        }
        // The owner was killed.
        std::mem::forget(first);
        let store = copy_of(&store).await;

        let (second, engine) =
            open(&store, 2, Clock::Manual(Arc::new(AtomicU64::new(START_MS - behind_ms)))).await;
        has_all(&second, ROWS).await;
        write(&second, ROWS..2 * ROWS).await;
        second.flush().await.expect("a table");
        has_all(&second, 2 * ROWS).await;
        assert_eq!(engine.moment(), 0, "never opened again: {behind_ms} ms, in tables: {in_tables}");
        second.close().await.expect("closes");
    }
}
