//! Memory of the engine over an object store, counted by the allocator of this program.
//!
//! A program of its own, with one test: its allocator counts, and nothing else may allocate while the test looks.
#![cfg(feature = "object-storage")]

mod gate;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gate::Gate;
use peak_alloc::PeakAlloc;
use shardlake_stdx::Clock;
use shardlake_storage::object::{ObjectEngine, ObjectOptions, SharedCache, WriteMemory};
use shardlake_storage::{Batch, Durability, Shard, ShardOptions};
use shardlake_testkit::eventually;

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

const MEMTABLE_BYTES: u64 = 8 << 20;
/// As the server gives it.
const WRITE_BYTES_MAX: u64 = 4 * MEMTABLE_BYTES;
/// Blocks that merges read ahead, and buffers of the log, of the tables that are being written, and
/// of the clients here.
const BESIDE_BYTES: u64 = 80 << 20;
const CLIENTS: u64 = 50;
/// In memory these take seven times [`WRITE_BYTES_MAX`], and twice the limit of the test.
const ITEMS: u64 = 32_000;
const INDEX_ROWS: u8 = 20;

async fn open(store: Arc<Gate>, write_memory: WriteMemory) -> Shard {
    let options = ObjectOptions {
        store,
        path: "s/1".into(),
        must_exist: false,
        epoch: Some(1),
        lease: None,
        circuits: None,
        disk_cache: None,
        cache: SharedCache::new(0),
        number: 1,
        memtable_bytes: MEMTABLE_BYTES,
        write_memory,
        shards: 1,
        log_kept: Duration::ZERO,
        clock: Clock::System,
        is_scanned: |key| key[4] == 1,
    };
    let engine = ObjectEngine::open(options).await.expect("opens");
    let options = ShardOptions { durability: Durability::Sync, cache_bytes: 0, ..ShardOptions::memory() };
    Shard::with_engine(Arc::new(engine), &options).expect("a shard")
}

fn key(number: u64, kind: u8, field: u8) -> Vec<u8> {
    let spread = number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
    [&[0, 0, 0, 1, kind, field], &spread[..], &[7; 20]].concat()
}

/// Bytes that do not compress.
fn content(number: u64) -> Vec<u8> {
    let mut state = number + 1;
    let mut next = || {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (state >> 56) as u8
    };
    (0..1100).map(|_| next()).collect()
}

/// Rows like those of an item of 1 KB: the item, its entry in the log, and its index, which is most rows.
fn item(number: u64) -> Batch {
    let mut batch = Batch::new();
    batch.put(key(number, 0, 0), content(number));
    batch.put(key(number, 2, 0), content(number));
    for field in 0..INDEX_ROWS {
        batch.put(key(number, 1, field), "");
    }
    batch
}

async fn write(shard: &Shard, items: std::ops::Range<u64>) {
    let last = items.end;
    for first in items.step_by(CLIENTS as usize) {
        let group = first..last.min(first + CLIENTS);
        let commits: Vec<_> = group.map(|number| shard.commit(item(number)).expect("queued")).collect();
        for commit in commits {
            commit.await.expect("durable");
        }
    }
}

/// Bytes that are allocated beyond those that were.
fn allocated_since(before: usize) -> u64 {
    ALLOCATED.current_usage().saturating_sub(before) as u64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_take_the_memory_that_is_counted_and_no_more_than_is_given() {
    let directory = tempfile::tempdir().expect("a directory");
    let (gate, memory) = (Gate::over(directory.path()), WriteMemory::new(WRITE_BYTES_MAX));
    let shard = open(gate.clone(), memory.clone()).await;
    let before = ALLOCATED.current_usage();

    gate.close();
    write(&shard, 0..1_500).await;
    let (counted, held) = (memory.held_bytes(), allocated_since(before));
    assert!(counted < 2 * MEMTABLE_BYTES, "no memtable is flushed yet");
    assert!(held <= counted + counted / 10, "{held} bytes are held, {counted} are counted");
    assert!(held >= counted / 4 * 3, "{held} bytes are held, {counted} are counted: too many");

    ALLOCATED.reset_peak_usage();
    let (writer, is_done) = (shard.clone(), Arc::new(AtomicBool::new(false)));
    let done = is_done.clone();
    let writing = tokio::spawn(async move {
        write(&writer, 1_500..ITEMS).await;
        done.store(true, Ordering::Release);
    });
    tokio::task::block_in_place(|| {
        eventually("the writer waits", || memory.is_waited_for() || is_done.load(Ordering::Acquire));
    });
    let full = allocated_since(before);
    assert!(full <= WRITE_BYTES_MAX + WRITE_BYTES_MAX / 5, "{full} bytes for writes, of {WRITE_BYTES_MAX}");
    assert!(!is_done.load(Ordering::Acquire), "memory was given for all rows at once");
    gate.open();
    writing.await.expect("no write fails");
    let peak = ALLOCATED.peak_usage().saturating_sub(before) as u64;
    assert!(peak <= WRITE_BYTES_MAX + BESIDE_BYTES, "{peak} bytes, {WRITE_BYTES_MAX} of them for writes");

    shard.close().await.expect("closes");
    drop(shard);
    tokio::task::block_in_place(|| {
        eventually("everything is given back", || memory.held_bytes() == 0);
    });
}
