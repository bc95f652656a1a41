//! A lost object of a shard's log in a store: readers, copies and owners all refuse the log by the object's name, and change nothing.

use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt as _;
use shardlake_stdx::Clock;
use shardlake_storage::object::{
    Moment, ObjectEngine, ObjectOptions, ReadOptions, SharedCache, WithLog, WriteMemory, check_log,
    kept_files_of_closed, open_to_read,
};
use shardlake_storage::{Batch, Durability, Shard, ShardOptions, StorageError};
use slatedb::object_store::memory::InMemory;
use slatedb::object_store::path::Path;
use slatedb::object_store::{ObjectStore, ObjectStoreExt as _, PutPayload};

const SHARD: &str = "s/a";
const WRITES: u32 = 40;

fn options(store: &Arc<dyn ObjectStore>, epoch: u64) -> ObjectOptions {
    ObjectOptions {
        store: store.clone(),
        path: SHARD.into(),
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
        clock: Clock::System,
        is_scanned: |_| false,
    }
}

async fn open(store: &Arc<dyn ObjectStore>, epoch: u64) -> Result<Shard, StorageError> {
    let engine = ObjectEngine::open(options(store, epoch)).await?;
    let options = ShardOptions { durability: Durability::Sync, ..ShardOptions::memory() };
    Shard::with_engine(Arc::new(engine), &options)
}

async fn put(shard: &Shard, number: u32) {
    let mut batch = Batch::new();
    batch.put([&[0; 4][..], &number.to_be_bytes()].concat(), vec![7; 100]);
    shard.commit(batch).expect("queued").await.expect("acknowledged");
}

/// A shard whose owner was killed with the last writes in the log alone: one object each. `flushed` are in tables.
async fn killed(flushed: u32) -> Arc<dyn ObjectStore> {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let shard = open(&store, 1).await.expect("opens");
    // The first write makes a table by itself.
    for number in 0..flushed {
        put(&shard, number).await;
    }
    shard.flush().await.expect("flushed");
    for number in flushed..flushed + WRITES {
        put(&shard, number).await;
    }
    std::mem::forget(shard);
    copy_of(&store).await
}

async fn names(store: &Arc<dyn ObjectStore>, folder: &str) -> Vec<Path> {
    let listed = store.list(Some(&Path::from(format!("{SHARD}/{folder}"))));
    let mut names: Vec<Path> = listed.map_ok(|object| object.location).try_collect().await.expect("listed");
    names.sort();
    names
}

/// A copy, which the tasks of the killed owner do not change.
async fn copy_of(store: &Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore> {
    let copy: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let listed = store.list(None).map_ok(|object| object.location);
    for name in listed.try_collect::<Vec<Path>>().await.expect("listed") {
        let content = store.get(&name).await.expect("there").bytes().await.expect("read");
        copy.put(&name, PutPayload::from_bytes(content)).await.expect("stored");
    }
    copy
}

/// The answers of each reader and each owner.
async fn answers(store: &Arc<dyn ObjectStore>) -> Vec<(&'static str, Result<(), StorageError>)> {
    let reading = ReadOptions {
        store: store.clone(),
        path: SHARD.into(),
        moment: Moment::Latest,
        cache: SharedCache::new(1 << 20),
        number: 0,
        is_scanned: |_| false,
    };
    let with_log = WithLog::Yes(Duration::from_hours(1));
    vec![
        ("read", open_to_read(reading).await.map(|_| ())),
        ("copy", kept_files_of_closed(store, SHARD, WithLog::No).await.map(|_| ())),
        ("copy with the log", kept_files_of_closed(store, SHARD, with_log).await.map(|_| ())),
        ("check", check_log(store, SHARD).await),
        ("own", open(store, 2).await.map(|_| ())),
    ]
}

async fn refused_by_name(store: &Arc<dyn ObjectStore>, lost: &Path, case: &str) {
    let before = names(store, "").await;
    for (who, answer) in answers(store).await {
        let Err(StorageError::Corrupt { what }) = &answer else { panic!("{case}: {who}: {answer:?}") };
        assert!(what.contains(lost.as_ref()), "{case}: {who}: {what}");
    }
    assert_eq!(names(store, "").await, before, "{case}: nothing was written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_object_of_the_log_is_refused_by_name_wherever_it_lay() {
    for flushed in [1, 5] {
        let whole = killed(flushed).await;
        let log = names(&whole, "wal").await;
        assert!(log.len() >= (WRITES + flushed) as usize, "{log:?}");
        let first = log.len() - WRITES as usize;
        let last = log.len() - 1;
        for lost in [
            first,
            first + 1,
            first + 3,
            first + 7,
            last / 2 + first / 2,
            last - 30,
            last - 12,
            last - 3,
            last - 1,
        ] {
            let store = copy_of(&whole).await;
            store.delete(&log[lost]).await.expect("removed");
            refused_by_name(&store, &log[lost], &format!("{lost} of {}", log.len())).await;
        }
    }
}

/// A loss of the newest objects is known once a manifest or a fence was stored behind them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loss_of_the_newest_object_is_known_once_something_was_stored_behind_it() {
    let whole = killed(5).await;
    let log = names(&whole, "wal").await;
    let newest = log.last().expect("a log");
    let unknown = copy_of(&whole).await;
    unknown.delete(newest).await.expect("removed");
    check_log(&unknown, SHARD).await.expect("nothing proves that there was one more");

    // A start stores its fence behind it.
    let started = copy_of(&whole).await;
    std::mem::forget(open(&started, 2).await.expect("opens"));
    let started = copy_of(&started).await;
    started.delete(newest).await.expect("removed");
    refused_by_name(&started, newest, "before a fence").await;
}

/// A copy of a checkpoint has no log, and a manifest that knows of one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whole_logs_and_shards_without_one_are_read() {
    for flushed in [0, 1, 5] {
        let whole = killed(flushed).await;
        for (who, answer) in answers(&whole).await {
            answer.unwrap_or_else(|error| panic!("{who}: {error}"));
        }
    }
    let store = killed(5).await;
    let shard = open(&store, 2).await.expect("opens");
    shard.close().await.expect("closes");
    for name in names(&store, "wal").await {
        store.delete(&name).await.expect("removed");
    }
    for (who, answer) in answers(&store).await {
        answer.unwrap_or_else(|error| panic!("{who}: {error}"));
    }
}
