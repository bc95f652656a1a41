//! The engine on an object store against the model, over a store in memory and over a directory.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use proptest::collection::vec;
use proptest::prelude::*;
use shardlake_stdx::{Clock, Timestamp};
use shardlake_storage::object::{ObjectEngine, ObjectOptions, SharedCache, WriteMemory};
use shardlake_storage::suite::{Opener, Step, check};
use shardlake_storage::{Batch, Durability, Lease, ScanOptions, Shard, ShardOptions, StorageError};
use slatedb::object_store::ObjectStore;
use slatedb::object_store::local::LocalFileSystem;
use slatedb::object_store::memory::InMemory;
use slatedb::object_store::throttle::{ThrottleConfig, ThrottledStore};

use crate::model::{cases, step};

struct Object {
    store: Arc<dyn ObjectStore>,
    lease: Option<Arc<Lease>>,
}

impl Object {
    fn over(store: Arc<dyn ObjectStore>) -> Object {
        Object { store, lease: None }
    }
}

impl Object {
    async fn shard(&self, epoch: u64) -> Result<Shard, StorageError> {
        let options = ObjectOptions {
            store: self.store.clone(),
            path: "s/00001-1".into(),
            must_exist: false,
            epoch: Some(epoch),
            lease: self.lease.clone(),
            circuits: None,
            disk_cache: None,
            cache: SharedCache::new(1 << 20),
            number: 1,
            memtable_bytes: 1 << 20,
            write_memory: WriteMemory::new(4 * (1 << 20)),
            shards: 1,
            log_kept: std::time::Duration::ZERO,
            clock: Clock::System,
            is_scanned: |key| key[4] == 1,
        };
        let engine = ObjectEngine::open(options).await?;
        Shard::with_engine(
            Arc::new(engine),
            &ShardOptions { durability: Durability::Sync, ..ShardOptions::memory() },
        )
    }
}

impl Opener for Object {
    async fn open(&mut self, epoch: u64) -> Result<Shard, StorageError> {
        self.shard(epoch).await
    }

    fn is_durable(&self) -> bool {
        true
    }

    fn keeps_checkpoints(&self) -> bool {
        true
    }
}

/// Every key of ours begins with the four bytes of a partition.
fn in_partitions(step: Step) -> Step {
    let key = |key: Vec<u8>| [&[0, 0, 0, key[0] % 3], &key[..]].concat();
    match step {
        Step::Commit(batches) => Step::Commit(
            batches.into_iter().map(|batch| batch.into_iter().map(|(k, v)| (key(k), v)).collect()).collect(),
        ),
        Step::Get(of) => Step::Get(key(of)),
        Step::GetMany(keys) => Step::GetMany(keys.into_iter().map(key).collect()),
        Step::Scan(range, options) => Step::Scan(key(range.start)..key(range.end), options),
        Step::DropRange(range) => Step::DropRange(key(range.start)..key(range.end)),
        Step::Ingest(rows) => Step::Ingest(rows.into_iter().map(|(k, v)| (key(k), v)).collect()),
        other => other,
    }
}

fn run(store: Arc<dyn ObjectStore>, steps: Vec<Step>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let steps = steps.into_iter().map(in_partitions).collect();
    runtime.block_on(check(&mut Object::over(store), steps));
}

proptest! {
    #![proptest_config(cases(32))]

    #[test]
    fn over_a_store_in_memory_it_agrees_with_the_model(steps in vec(step(), 1..40)) {
        run(Arc::new(InMemory::new()), steps);
    }
}

proptest! {
    #![proptest_config(cases(8))]

    #[test]
    fn over_a_directory_it_agrees_with_the_model(steps in vec(step(), 1..40)) {
        let directory = tempfile::tempdir().expect("a directory");
        run(Arc::new(LocalFileSystem::new_with_prefix(directory.path()).expect("a store")), steps);
    }
}

fn batch(key: &[u8], value: &[u8]) -> Batch {
    let mut batch = Batch::new();
    batch.put(key.to_vec(), value.to_vec());
    batch
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_of_before_acknowledges_nothing_more() {
    let object = Object::over(Arc::new(InMemory::new()));
    let before = object.shard(1).await.expect("opens");
    before.commit(batch(b"0000 a", b"1")).expect("queued").await.expect("acknowledged");
    let after = object.shard(2).await.expect("takes over");
    assert_eq!(
        after.get(b"0000 a").await.expect("reads").as_deref(),
        Some(&b"1"[..]),
        "what was acknowledged is there"
    );
    let late = before.commit(batch(b"0000 a", b"late")).expect("queued").await;
    assert!(matches!(late, Err(StorageError::Fenced { .. })), "{late:?}");
    let later = before.commit(batch(b"0000 b", b"later")).map(|_| ());
    assert!(matches!(later, Err(StorageError::Fenced { .. })), "{later:?}");
    after.commit(batch(b"0000 c", b"2")).expect("queued").await.expect("acknowledged");
    let again = object.shard(1).await;
    assert!(matches!(again, Err(StorageError::Fenced { epoch: 2 })), "{again:?}");
    after.commit(batch(b"0000 d", b"3")).expect("queued").await.expect("a refused owner disturbs nobody");
    after.close().await.expect("closes");
    let last = object.shard(3).await.expect("opens");
    for (key, value) in
        [(b"0000 a", Some("1")), (b"0000 b", None), (b"0000 c", Some("2")), (b"0000 d", Some("3"))]
    {
        let found = last.get(&key[..]).await.expect("reads");
        assert_eq!(found.as_deref(), value.map(str::as_bytes), "{}", String::from_utf8_lossy(key));
    }
}

/// For every interleaving of opens: acknowledged writes of every owner are there, and no owner
/// acknowledges after the last one has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_owners_that_open_at_once_none_loses_what_it_acknowledged() {
    for round in 0..8 {
        let object = Object::over(Arc::new(InMemory::new()));
        let write = async |epoch: u64| {
            let shard = object.shard(epoch).await.ok()?;
            let mut acknowledged = Vec::new();
            for number in 0..20 {
                let key = format!("0000 {epoch} {number}").into_bytes();
                match shard.commit(batch(&key, b"x")) {
                    Ok(commit) => acknowledged.extend(commit.await.is_ok().then_some(key)),
                    Err(_) => break,
                }
            }
            Some((epoch, shard, acknowledged))
        };
        let owners: Vec<_> = join_all((1..=6).map(write)).await.into_iter().flatten().collect();
        assert!(!owners.is_empty(), "round {round}: somebody opens it");
        let last = object.shard(7).await.expect("opens");
        for (epoch, shard, acknowledged) in &owners {
            for key in acknowledged {
                let found = last.get(key).await.expect("reads");
                assert!(found.is_some(), "round {round}: owner {epoch} was told of {key:?}");
            }
            let late = async { shard.commit(batch(b"0000 late", b"x"))?.await };
            assert!(late.await.is_err(), "round {round}: owner {epoch} writes after owner 7");
        }
        assert_eq!(last.get(b"0000 late").await.expect("reads"), None);
    }
}

/// Bytes that no codec makes smaller.
fn noise(seed: u32) -> Vec<u8> {
    let mut state = u64::from(seed) + 1;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()
    };
    std::iter::repeat_with(next).take(25_000).flatten().collect()
}

/// A read of a store that does not answer ends with an error that names the remedy, also in the
/// middle of a scan. It continues when the store does.
#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_is_waited_for_within_bounds() {
    const ROWS: u32 = 64;
    let store = Arc::new(ThrottledStore::new(InMemory::new(), ThrottleConfig::default()));
    let object = Object::over(store.clone());
    let key = |number: u32| format!("0000{number:08}").into_bytes();
    let first = object.shard(1).await.expect("opens");
    for number in 0..ROWS {
        let written = first.commit(batch(&key(number), &noise(number))).expect("queued").await;
        written.expect("acknowledged");
    }
    first.close().await.expect("closes");
    // The rows that it reads are in the store.
    let shard = object.shard(2).await.expect("opens");
    let snapshot = shard.snapshot();
    let mut rows = snapshot.scan(key(0)..key(ROWS), ScanOptions::default());
    assert!(rows.next_rows(1).await.expect("the store answers").is_some_and(|rows| rows.len() == 1));
    store.config_mut(|config| config.wait_get_per_call = Duration::from_hours(1));
    let read = shard.get(&key(ROWS - 1)).await.map(|value| value.is_some());
    assert!(matches!(read, Err(StorageError::Unavailable { .. })), "{read:?}");
    let mut scanned = Ok(true);
    while matches!(scanned, Ok(true)) {
        scanned = rows.next_rows(1).await.map(|rows| rows.is_some());
    }
    assert!(matches!(scanned, Err(StorageError::Unavailable { .. })), "it is not the end: {scanned:?}");
    store.config_mut(|config| config.wait_get_per_call = Duration::ZERO);
    // Another key: a reader of the same one waits for the request that is under way.
    assert!(shard.get(&key(ROWS / 2)).await.expect("the store answers again").is_some());
}

/// A commit of a time without the lease is acknowledged when the lease is held again, and not
/// before.
#[tokio::test(start_paused = true)]
async fn commits_wait_for_the_lease() {
    let clock = Clock::manual(Timestamp(1_000_000));
    let lease = Arc::new(Lease::new(clock.clone()));
    let renew = || {
        let began = lease.begin();
        lease.renew(began, began.since_boot + Duration::from_secs(9));
    };
    renew();
    let object = Object { lease: Some(lease.clone()), ..Object::over(Arc::new(InMemory::new())) };
    let shard = object.shard(1).await.expect("opens");
    shard.commit(batch(b"0000 a", b"1")).expect("queued").await.expect("acknowledged");
    clock.advance(Duration::from_secs(9));
    let mut waiting = Box::pin(shard.commit(batch(b"0000 b", b"2")).expect("queued"));
    let early = tokio::time::timeout(Duration::from_mins(1), &mut waiting).await;
    assert!(early.is_err(), "another owner may have begun: {early:?}");
    renew();
    waiting.await.expect("acknowledged");
    clock.advance(Duration::from_secs(9));
    let waiting = shard.commit(batch(b"0000 c", b"3")).expect("queued");
    let (closed, told) = tokio::join!(shard.close(), waiting);
    closed.expect("closes");
    assert!(matches!(told, Err(StorageError::NotLeased)), "{told:?}");
}
