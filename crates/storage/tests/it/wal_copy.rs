//! Copies that follow their originals by the archived log, from a local disk to a store and back.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use shardlake_storage::object::object_store::memory::InMemory;
use shardlake_storage::{Batch, Follower, LogTail, ScanOptions, Shard, Stamp, StorageError};

use crate::wal_archive::{Disk, Ground, InStore, Run, STAMP, rows};

/// Where the original lies, for its log.
enum Source {
    Directory(PathBuf),
    Store(InStore),
}

impl Source {
    async fn log(&self, place: Option<u64>) -> LogTail {
        match self {
            Source::Directory(shard) => LogTail::of_directory(shard, place).expect("a log"),
            Source::Store(store) => LogTail::of_store(&store.0, "original", place).await.expect("a log"),
        }
    }
}

async fn stamp_of(shard: &Shard) -> Stamp {
    Stamp::of(&shard.view(), STAMP).await.expect("reads").expect("a stamp")
}

/// A state of the original, with its stamp.
async fn copy_state(from: &Shard, to: &Shard) {
    let mut scan = from.view().scan(vec![0]..vec![0xff; 9], ScanOptions::default());
    let mut batch = Batch::new();
    while let Some(rows) = scan.next_chunk().await.expect("reads") {
        rows.into_iter().for_each(|(key, value)| batch.put(key, value));
    }
    to.commit(batch).expect("queued").await.expect("committed");
}

async fn follow(copy: &Shard, log: &mut LogTail) -> Result<u64, StorageError> {
    let mut follower = Follower::new(copy.clone(), STAMP, stamp_of(copy).await);
    let mut groups = 0;
    loop {
        let found = follower.catch_up(log).await?;
        assert_eq!(found.groups == 0, found.size_bytes == 0);
        if found.groups == 0 {
            return Ok(groups);
        }
        groups += found.groups;
    }
}

async fn assert_same(run: &Run<'_>, copy: &Shard) {
    assert_eq!(stamp_of(copy).await, stamp_of(&run.shard).await);
    assert!(rows(copy).await == rows(&run.shard).await, "every row is there");
}

async fn a_copy_follows(ground: &dyn Ground, source: Source, to: &dyn Ground, value_bytes: u64) {
    let mut run = Run::begin(ground, 23).await;
    run.commits(40, value_bytes).await;
    let mut log = source.log(None).await;
    let copy = to.open("copy").await;
    copy_state(&run.shard, &copy).await;
    assert_eq!(follow(&copy, &mut log).await.expect("nothing is new"), 0);
    // Concurrently with a writer.
    let is_written = AtomicBool::new(false);
    let writing = async {
        for _ in 0..15 {
            run.commits(10, value_bytes).await;
            tokio::task::yield_now().await;
        }
        is_written.store(true, Ordering::SeqCst);
    };
    let following = async {
        let mut followed = 0;
        loop {
            let was_written = is_written.load(Ordering::SeqCst);
            followed += follow(&copy, &mut log).await.expect("follows");
            if was_written {
                return followed;
            }
            tokio::task::yield_now().await;
        }
    };
    let ((), followed) = tokio::join!(writing, following);
    assert!(followed > 0);
    assert_same(&run, &copy).await;
    // Through a restart of the original and one of the copy.
    run.commits(30, value_bytes).await;
    run.restart().await;
    run.commits(60, value_bytes).await;
    copy.close().await.expect("closes");
    drop(copy);
    let copy = to.open("copy").await;
    let place = log.place();
    let mut log = source.log(Some(place)).await;
    follow(&copy, &mut log).await.expect("follows");
    assert_same(&run, &copy).await;
    // From an earlier place on it finds groups that the copy has already.
    let mut log = source.log(Some(place)).await;
    assert_eq!(follow(&copy, &mut log).await.expect("nothing is new"), 0);
    a_hole_is_refused(&mut run, &source, &copy).await;
}

async fn empty(shard: &Shard) {
    shard.drop_range(vec![0], vec![0xff; 9]).await.expect("dropped");
}

/// Written once without keeping the log.
async fn a_hole_is_refused(run: &mut Run<'_>, source: &Source, copy: &Shard) {
    let before = stamp_of(copy).await;
    run.shard.close().await.expect("closes");
    run.shard = run.ground.open("spare").await;
    run.shard = run.ground.open("original").await;
    run.shard.forget_history(STAMP).await.expect("forgets");
    run.commits(5, 500).await;
    run.restart().await;
    run.commits(before.number + 20, 500).await;
    let mut log = source.log(Some(0)).await;
    let error = follow(copy, &mut log).await.expect_err("a hole");
    assert!(matches!(&error, StorageError::Corrupt { .. }), "{error}");
    assert_eq!(stamp_of(copy).await, before);
    assert_ne!(stamp_of(&run.shard).await, before);
    // A new copy follows, though the log has the numbers of before as well.
    let mut log = source.log(Some(0)).await;
    empty(copy).await;
    copy_state(&run.shard, copy).await;
    run.commits(10, 500).await;
    follow(copy, &mut log).await.expect("follows");
    assert_same(run, copy).await;
}

fn disk() -> Disk {
    Disk(tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_in_a_store_follows_a_local_shard() {
    let disk = disk();
    let source = Source::Directory(disk.0.path().join("original"));
    // Enough for several journals of 64 MB.
    a_copy_follows(&disk, source, &InStore(Arc::new(InMemory::new())), 200_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_local_copy_follows_a_shard_in_a_store() {
    let store = InStore(Arc::new(InMemory::new()));
    let source = Source::Store(InStore(store.0.clone()));
    a_copy_follows(&store, source, &disk(), 40_000).await;
}
