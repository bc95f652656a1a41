//! Disk cache in front of a store: cached parts are not fetched again, and reads are right after
//! any damage.

use std::fs;
use std::path::{Path as Directory, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use shardlake_stdx::Clock;
use shardlake_storage::object::{
    DiskCache, DiskCacheEvent, ObjectEngine, ObjectOptions, SharedCache, WriteMemory,
};
use shardlake_storage::{Batch, Durability, Shard, ShardOptions, StorageError};
use slatedb::object_store::ObjectStore;
use slatedb::object_store::memory::InMemory;

const ROWS: u32 = 400;
const LARGE: u64 = 1 << 30;

#[derive(Default)]
struct Counts([AtomicU64; 4]);

impl Counts {
    fn of(&self, event: DiskCacheEvent) -> u64 {
        self.0[event as usize].load(Ordering::Relaxed)
    }
}

/// Tasks of a closed shard hold its cache a little longer than the shard.
fn open_released(
    directory: &Directory,
    bytes_max: u64,
    observe: impl Fn(DiskCacheEvent) + Clone + Send + Sync + 'static,
) -> DiskCache {
    loop {
        match DiskCache::open(directory, bytes_max, observe.clone()) {
            Err(StorageError::Locked { .. }) => thread::yield_now(),
            opened => return opened.expect("opens"),
        }
    }
}

fn cache(directory: &Directory, bytes_max: u64) -> (Arc<DiskCache>, Arc<Counts>) {
    let counts = Arc::new(Counts::default());
    let counted = counts.clone();
    let observe = move |event: DiskCacheEvent| {
        counted.0[event as usize].fetch_add(1, Ordering::Relaxed);
    };
    (Arc::new(open_released(directory, bytes_max, observe)), counts)
}

async fn open(store: &Arc<dyn ObjectStore>, epoch: u64, disk_cache: Option<Arc<DiskCache>>) -> Shard {
    let options = ObjectOptions {
        store: store.clone(),
        path: "s/1".into(),
        must_exist: false,
        epoch: Some(epoch),
        lease: None,
        circuits: None,
        disk_cache,
        // Every read goes past it.
        cache: SharedCache::new(0),
        number: 1,
        memtable_bytes: 16 << 20,
        write_memory: WriteMemory::new(4 * (16 << 20)),
        shards: 1,
        log_kept: Duration::ZERO,
        clock: Clock::System,
        is_scanned: |_| false,
    };
    let engine = ObjectEngine::open(options).await.expect("opens");
    let options = ShardOptions { durability: Durability::Sync, ..ShardOptions::memory() };
    Shard::with_engine(Arc::new(engine), &options).expect("a shard")
}

fn key(number: u32) -> Vec<u8> {
    [1u32.to_be_bytes(), number.to_be_bytes()].concat()
}

/// Bytes that no codec makes smaller.
fn value(number: u32) -> Vec<u8> {
    let mut state = u64::from(number) + 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 32) as u8
    };
    (0..9000).map(|_| next()).collect()
}

/// 3.6 MB in tables.
async fn filled() -> Arc<dyn ObjectStore> {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let shard = open(&store, 1, None).await;
    for number in 0..ROWS {
        let mut batch = Batch::new();
        batch.put(key(number), value(number));
        shard.commit(batch).expect("queued").await.expect("acknowledged");
    }
    shard.close().await.expect("closes");
    store
}

/// Reads by a server of its own.
async fn read_all(store: &Arc<dyn ObjectStore>, epoch: u64, cache: &Arc<DiskCache>) {
    let shard = open(store, epoch, Some(cache.clone())).await;
    for number in (0..ROWS).rev() {
        let found = shard.get(&key(number)).await.expect("reads");
        assert_eq!(found.as_deref(), Some(&value(number)[..]), "row {number}");
        if number % 16 == 0 {
            cache.settled().await;
        }
    }
    cache.settled().await;
    shard.close().await.expect("closes");
}

fn files(directory: &Directory) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let below = |path: PathBuf| if path.is_dir() { files(&path) } else { vec![path] };
    let mut files: Vec<_> = entries.flat_map(|entry| below(entry.path())).collect();
    files.sort();
    files
}

fn bytes(directory: &Directory) -> u64 {
    files(directory).iter().map(|file| fs::metadata(file).expect("there").len()).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_read_is_not_fetched_again_by_a_later_server() {
    let (store, directory) = (filled().await, tempfile::tempdir().expect("a directory"));
    let (first, counts) = cache(directory.path(), LARGE);
    read_all(&store, 2, &first).await;
    let fetched = counts.of(DiskCacheEvent::Miss);
    assert!(fetched > 0 && counts.of(DiskCacheEvent::Hit) > fetched, "{fetched} were fetched");
    let taken = DiskCache::open(directory.path(), LARGE, |_| {});
    assert!(matches!(taken, Err(StorageError::Locked { .. })), "{taken:?}");
    drop(first);

    let (later, counts) = cache(directory.path(), LARGE);
    assert!(later.bytes() > 3_600_000, "{} bytes", later.bytes());
    read_all(&store, 3, &later).await;
    assert_eq!(counts.of(DiskCacheEvent::Miss), 0);
    assert_eq!(counts.of(DiskCacheEvent::Damaged), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_a_lost_or_an_unwritable_cache_harms_nothing() {
    let (store, directory) = (filled().await, tempfile::tempdir().expect("a directory"));
    let parts = directory.path().join("parts");
    let (first, _) = cache(directory.path(), LARGE);
    read_all(&store, 2, &first).await;
    drop(first);
    for (number, file) in files(&parts).iter().enumerate() {
        let mut content = fs::read(file).expect("reads");
        let at = (number * 7919) % content.len();
        match number % 3 {
            0 => content[at] ^= 1,
            1 => content.truncate(at),
            _ => content = fs::read(&files(&parts)[0]).expect("reads"),
        }
        fs::write(file, content).expect("written");
    }
    let (damaged, counts) = cache(directory.path(), LARGE);
    read_all(&store, 3, &damaged).await;
    assert!(counts.of(DiskCacheEvent::Damaged) >= 3);
    // Each was written anew.
    let before = counts.of(DiskCacheEvent::Damaged);
    read_all(&store, 4, &damaged).await;
    assert_eq!(counts.of(DiskCacheEvent::Damaged), before);

    // Lost while it is used, and then in the way of its own files.
    fs::remove_dir_all(&parts).expect("removed");
    read_all(&store, 5, &damaged).await;
    assert!(!files(&parts).is_empty());
    fs::remove_dir_all(&parts).expect("removed");
    fs::write(&parts, b"").expect("written");
    read_all(&store, 6, &damaged).await;
    assert!(counts.of(DiskCacheEvent::NotKept) > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cache_keeps_to_its_bytes() {
    const SMALL: u64 = 1 << 20;
    let (store, directory) = (filled().await, tempfile::tempdir().expect("a directory"));
    let (large, _) = cache(directory.path(), LARGE);
    read_all(&store, 2, &large).await;
    drop(large);
    assert!(bytes(directory.path()) > 3 * SMALL);
    // The files of an earlier server are too large for this one.
    let (small, counts) = cache(directory.path(), SMALL);
    assert!(bytes(directory.path()) <= SMALL);
    read_all(&store, 3, &small).await;
    assert!(small.bytes() <= SMALL && bytes(directory.path()) <= SMALL);
    assert!(counts.of(DiskCacheEvent::Hit) > 0 && counts.of(DiskCacheEvent::Miss) > 0);
}
