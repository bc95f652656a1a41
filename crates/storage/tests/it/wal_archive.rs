//! Archived logs: the state of any point in time between two backups, of a shard on a local disk
//! and in a store.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use shardlake_stdx::{Clock, Random, Timestamp};
use shardlake_storage::object::object_store::memory::InMemory;
use shardlake_storage::object::object_store::{ObjectStore, ObjectStoreExt as _, PutPayload, path};
use shardlake_storage::object::{
    ObjectEngine, ObjectOptions, SharedCache, WithLog, WriteMemory, forget_checkpoints, kept_files_of_closed,
};
use shardlake_storage::{
    Batch, Durability, HistoryOptions, KeptFiles, Reached, Replay, ScanOptions, Shard, ShardOptions, Stamp,
    StorageError,
};

pub const STAMP: &[u8] = b"\0\0\0\0T";
pub type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// Where shards lie.
pub trait Ground: Send + Sync {
    fn open<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Shard>;
    fn of_closed<'a>(&'a self, name: &'a str) -> BoxFuture<'a, KeptFiles>;
    fn put_back<'a>(&'a self, name: &'a str, files: &'a [(String, Bytes)]) -> BoxFuture<'a, ()>;
}

pub struct Disk(pub tempfile::TempDir);

impl Ground for Disk {
    fn open<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Shard> {
        // Small memtables, so that the rows of the journals are sorted to tables.
        let options =
            ShardOptions { memtable_bytes: 64 * 1024, ..ShardOptions::local(self.0.path().join(name)) };
        async move { Shard::open(options).await.expect("opens") }.boxed()
    }

    fn of_closed<'a>(&'a self, name: &'a str) -> BoxFuture<'a, KeptFiles> {
        async move { KeptFiles::of_directory(&self.0.path().join(name)).expect("files") }.boxed()
    }

    fn put_back<'a>(&'a self, name: &'a str, files: &'a [(String, Bytes)]) -> BoxFuture<'a, ()> {
        let shard = self.0.path().join(name);
        async move {
            for (path, content) in files {
                let path = shard.join(Path::new(path));
                std::fs::create_dir_all(path.parent().expect("below the shard")).expect("made");
                std::fs::write(path, content).expect("written");
            }
        }
        .boxed()
    }
}

pub struct InStore(pub Arc<dyn ObjectStore>);

impl Ground for InStore {
    fn open<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Shard> {
        let options = ObjectOptions {
            store: self.0.clone(),
            path: name.to_owned(),
            must_exist: false,
            epoch: None,
            lease: None,
            circuits: None,
            disk_cache: None,
            cache: SharedCache::new(1 << 20),
            number: 0,
            memtable_bytes: 1 << 20,
            write_memory: WriteMemory::new(4 * (1 << 20)),
            shards: 1,
            log_kept: Duration::from_hours(24),
            clock: Clock::System,
            is_scanned: |_| false,
        };
        async move {
            let engine = ObjectEngine::open(options).await.expect("opens");
            let options = ShardOptions { durability: Durability::Sync, ..ShardOptions::memory() };
            Shard::with_engine(Arc::new(engine), &options).expect("starts")
        }
        .boxed()
    }

    fn of_closed<'a>(&'a self, name: &'a str) -> BoxFuture<'a, KeptFiles> {
        async move {
            kept_files_of_closed(&self.0, name, WithLog::Yes(std::time::Duration::ZERO)).await.expect("files")
        }
        .boxed()
    }

    fn put_back<'a>(&'a self, name: &'a str, files: &'a [(String, Bytes)]) -> BoxFuture<'a, ()> {
        async move {
            for (path, content) in files {
                let place = path::Path::from(format!("{name}/{path}"));
                self.0.put(&place, PutPayload::from_bytes(content.clone())).await.expect("stored");
            }
            forget_checkpoints(&self.0, name).await.expect("forgotten");
        }
        .boxed()
    }
}

/// A copy of a state, and of the log that was kept with it.
#[derive(Clone)]
struct Backup {
    files: Vec<(String, Bytes)>,
    log: Vec<(String, Bytes)>,
    stamp: Stamp,
}

async fn copy(kept: &KeptFiles, stamp: Stamp) -> Backup {
    let mut files = Vec::new();
    for (number, file) in kept.files().iter().enumerate() {
        let mut content = Vec::new();
        while (content.len() as u64) < file.size_bytes {
            // In pieces that fit nothing.
            content.extend(kept.read(number, content.len() as u64, 77_777).await.expect("reads"));
        }
        files.push((file.path.clone(), Bytes::from(content)));
    }
    let (log, files) = files.into_iter().partition(|(path, _)| path.starts_with("history/"));
    Backup { files, log, stamp }
}

async fn backup(shard: &Shard, name: &str) -> Backup {
    let views = Shard::checkpoint_shards(std::slice::from_ref(shard), name).await.expect("kept");
    let stamp = Stamp::of(&views[0], STAMP).await.expect("reads").expect("the log is kept");
    let backup = copy(&shard.kept_files(name).await.expect("files"), stamp).await;
    shard.remove_checkpoint(name).await.expect("removed");
    backup
}

/// The rows of a shard, without its stamp.
pub async fn rows(shard: &Shard) -> Rows {
    let mut found = Rows::new();
    let mut scan = shard.view().scan(vec![0]..vec![0xff; 9], ScanOptions::default());
    while let Some(rows) = scan.next_chunk().await.expect("reads") {
        found.extend(rows.into_iter().map(|(key, value)| (key.to_vec(), value.to_vec())));
    }
    found.remove(STAMP);
    found
}

async fn replay(
    shard: &Shard,
    (state, later): (&Backup, &Backup),
    until: u64,
) -> Result<Stamp, StorageError> {
    let mut replay = Replay::new(shard.clone(), STAMP, (state.stamp, later.stamp), Timestamp(until));
    for (path, content) in &later.log {
        if replay.reached() == Reached::Moment {
            break;
        }
        match path.ends_with(".pack") {
            true => replay.objects(content.clone()).await?,
            false => replay.journal(content.clone()).await?,
        };
    }
    replay.finish().await
}

/// A shard that changes while its clock continues, and its rows at each time.
pub struct Run<'a> {
    pub ground: &'a dyn Ground,
    clock: Clock,
    random: Random,
    pub shard: Shard,
    rows: Rows,
    states: BTreeMap<u64, Rows>,
}

impl<'a> Run<'a> {
    pub async fn begin(ground: &'a dyn Ground, seed: u64) -> Run<'a> {
        let (clock, random) = (Clock::manual(Timestamp(10_000)), Random::seeded(seed));
        let shard = ground.open("original").await;
        let run = Run { ground, clock, random, shard, rows: Rows::new(), states: BTreeMap::new() };
        run.keep().await;
        run
    }

    fn options(&self) -> HistoryOptions {
        HistoryOptions {
            key: STAMP.to_vec(),
            window: Duration::from_hours(1),
            clock: self.clock.clone(),
            random: self.random.clone(),
            times: Arc::default(),
        }
    }

    async fn keep(&self) {
        self.shard.keep_history(&self.options()).await.expect("keeps the log");
    }

    pub async fn commits(&mut self, count: u64, value_bytes: u64) {
        for _ in 0..count {
            self.clock.advance(Duration::from_millis(self.random.below(4)));
            let mut batch = Batch::new();
            for _ in 0..=self.random.below(5) {
                let key =
                    [&[0, 0, 0, self.random.below(3) as u8][..], &[9, self.random.below(60) as u8]].concat();
                if self.random.below(4) == 0 {
                    batch.delete(key.clone());
                    self.rows.remove(&key);
                } else {
                    let mut value = vec![0; self.random.below(value_bytes) as usize];
                    self.random.fill(&mut value);
                    batch.put(key.clone(), value.clone());
                    self.rows.insert(key, value);
                }
            }
            self.shard.commit(batch).expect("queued").await.expect("acknowledged");
            self.states.insert(self.clock.now().0, self.rows.clone());
        }
    }

    pub async fn restart(&mut self) {
        self.shard.close().await.expect("closes");
        self.shard = self.ground.open("spare").await;
        self.shard = self.ground.open("original").await;
        self.keep().await;
    }

    fn at(&self, time: u64) -> Rows {
        self.states.range(..=time).next_back().map(|(_, rows)| rows.clone()).unwrap_or_default()
    }
}

async fn every_moment_between_two_backups_can_be_restored(ground: &dyn Ground, value_bytes: u64) {
    let mut run = Run::begin(ground, 11).await;
    run.commits(60, value_bytes).await;
    let first = backup(&run.shard, "first").await;
    run.commits(150, value_bytes).await;
    run.restart().await;
    let second = backup(&run.shard, "second").await;
    run.commits(150, value_bytes).await;
    run.restart().await;
    run.commits(60, value_bytes).await;
    let third = backup(&run.shard, "third").await;
    run.commits(30, value_bytes).await;
    run.shard.close().await.expect("closes");
    run.shard = ground.open("spare").await;
    // From a shard that no process has open.
    let reopened = ground.open("original").await;
    let stamp = Stamp::of(&reopened.view(), STAMP).await.expect("reads").expect("there");
    reopened.close().await.expect("closes");
    drop(reopened);
    let last = copy(&ground.of_closed("original").await, stamp).await;
    let (start, end) = (first.stamp.time.0, last.stamp.time.0);
    for number in 0..20 {
        let until = start + run.random.below(end - start + 3);
        let base = [&third, &second, &first].into_iter().find(|backup| backup.stamp.time.0 <= until);
        let base = base.expect("the first is older");
        let name = format!("restored-{number}");
        ground.put_back(&name, &base.files).await;
        let shard = ground.open(&name).await;
        let reached = replay(&shard, (base, &last), until).await.expect("replays");
        assert!(reached.time.0 <= until);
        assert!(rows(&shard).await == run.at(until), "the state of {until}");
        shard.close().await.expect("closes");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_moment_between_two_backups_of_a_local_shard_can_be_restored() {
    let disk = Disk(tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory"));
    // Enough for several journals of 64 MB.
    every_moment_between_two_backups_can_be_restored(&disk, 200_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_moment_between_two_backups_of_a_shard_in_a_store_can_be_restored() {
    every_moment_between_two_backups_can_be_restored(&InStore(Arc::new(InMemory::new())), 40_000).await;
}

/// Logs that must not be accepted as the log of a state.
async fn a_log_with_a_hole_or_of_another_copy_is_refused(ground: &dyn Ground) {
    let mut run = Run::begin(ground, 5).await;
    run.commits(20, 500).await;
    let state = backup(&run.shard, "state").await;
    run.commits(20, 500).await;
    // A copy that goes its own way from here.
    let fork = backup(&run.shard, "fork").await;
    run.commits(20, 500).await;
    let original = backup(&run.shard, "original").await;
    ground.put_back("fork", &fork.files).await;
    let own = std::mem::replace(&mut run.shard, ground.open("fork").await);
    run.keep().await;
    run.commits(25, 500).await;
    let forked = backup(&run.shard, "forked").await;
    run.shard.close().await.expect("closes");
    run.shard = own;
    let refused = async |name: &str, pair: (&Backup, &Backup)| {
        ground.put_back(name, &pair.0.files).await;
        let shard = ground.open(name).await;
        let error = replay(&shard, pair, u64::MAX - 1).await.expect_err(name);
        assert!(matches!(&error, StorageError::Corrupt { .. }), "{error}");
        error.to_string()
    };
    let said = refused("of-a-copy", (&original, &forked)).await;
    assert!(said.contains("does not follow"), "{said}");
    // The log of the copy begins where it was made, or holds writes of the original from before;
    // either way nothing behind it.
    let mut short = original.clone();
    short.log.pop();
    let said = refused("short", (&state, &short)).await;
    assert!(said.contains("the log ends"), "{said}");
    // Written once without keeping the log.
    run.shard.close().await.expect("closes");
    run.shard = ground.open("spare").await;
    run.shard = ground.open("original").await;
    run.shard.forget_history(STAMP).await.expect("forgets");
    run.commits(5, 500).await;
    run.restart().await;
    run.commits(20, 500).await;
    let gap = backup(&run.shard, "gap").await;
    // Its numbers begin anew.
    let said = refused("gap", (&original, &gap)).await;
    assert!(said.contains("the log ends") || said.contains("does not follow"), "{said}");
    run.shard.close().await.expect("closes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_of_a_local_shard_with_a_hole_or_of_another_copy_is_refused() {
    let disk = Disk(tempfile::tempdir().expect("a directory"));
    a_log_with_a_hole_or_of_another_copy_is_refused(&disk).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_of_a_shard_in_a_store_with_a_hole_or_of_another_copy_is_refused() {
    a_log_with_a_hole_or_of_another_copy_is_refused(&InStore(Arc::new(InMemory::new()))).await;
}
