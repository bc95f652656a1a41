//! Engine with the latency of an object store, for tests of code that must not wait for it.
//!
//! Reads and syncs are answered after a delay of tokio's clock, so that under a paused clock the
//! time that passes is the number of round trips in a row, exactly. Every round trip is counted,
//! too. Writes go to a [`FaultEngine`], which can fail and crash as ever; a crash finds the writes
//! that ended syncs cover.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Handle;

use crate::engine::{CONCURRENT_READS_MAX, EngineScan};
use crate::fault::FaultEngine;
use crate::{Answer, Batch, Engine, EngineView, Lookup, Row, ScanOptions, Value};

/// Clones share everything, so that a test keeps its hands on an engine that it gave to a shard.
#[derive(Debug, Clone, Default)]
pub struct SlowEngine {
    disk: FaultEngine,
    distance: Arc<Distance>,
}

#[derive(Debug, Default)]
struct Distance {
    read_micros: AtomicU64,
    sync_micros: AtomicU64,
    round_trips: AtomicU64,
    keys_read: AtomicU64,
}

impl Distance {
    /// One trip to the store and back for so many keys.
    async fn travel(&self, keys: usize) {
        self.round_trips.fetch_add(1, Ordering::Relaxed);
        self.keys_read.fetch_add(keys as u64, Ordering::Relaxed);
        wait(&self.read_micros).await;
    }
}

async fn wait(micros: &AtomicU64) {
    let delay = Duration::from_micros(micros.load(Ordering::Relaxed));
    match Handle::try_current() {
        Ok(_) => tokio::time::sleep(delay).await,
        // A thread that may block, such as one that runs a query.
        Err(_) => std::thread::sleep(delay),
    }
}

impl SlowEngine {
    pub const READ: Duration = Duration::from_millis(20);
    pub const SYNC: Duration = Duration::from_millis(50);

    /// With reads of 20 ms and syncs of 50 ms.
    pub fn new() -> Self {
        SlowEngine::over(FaultEngine::new())
    }

    pub fn over(disk: FaultEngine) -> Self {
        let engine = SlowEngine { disk, distance: Arc::default() };
        engine.set_delays(Self::READ, Self::SYNC);
        engine
    }

    /// The engine of every shard in memory, where `SHARDLAKE_TEST_ENGINE` is `slow`: a whole suite runs far from its store.
    pub(crate) fn of_the_environment() -> Option<SlowEngine> {
        std::env::var_os("SHARDLAKE_TEST_ENGINE").is_some_and(|name| name == "slow").then(SlowEngine::new)
    }

    pub fn set_delays(&self, read: Duration, sync: Duration) {
        self.distance.read_micros.store(read.as_micros() as u64, Ordering::Relaxed);
        self.distance.sync_micros.store(sync.as_micros() as u64, Ordering::Relaxed);
    }

    /// Where writes end: to have it fail, and to crash it.
    pub fn disk(&self) -> &FaultEngine {
        &self.disk
    }

    /// Reads that travelled: a key, up to 128 keys of one call, or a chunk of a scan.
    pub fn round_trips(&self) -> u64 {
        self.distance.round_trips.load(Ordering::Relaxed)
    }

    /// Keys that were looked up, however many of them at a time.
    pub fn keys_read(&self) -> u64 {
        self.distance.keys_read.load(Ordering::Relaxed)
    }

    fn view_of(&self, view: Box<dyn EngineView>) -> SlowView {
        SlowView { view: view.into(), distance: self.distance.clone() }
    }
}

impl Engine for SlowEngine {
    fn apply(&self, batches: Vec<Batch>) -> Answer<'_, ()> {
        self.disk.apply(batches)
    }

    fn sync(&self) -> Answer<'_, ()> {
        let groups = self.disk.unsynced();
        Answer::later(async move {
            wait(&self.distance.sync_micros).await;
            self.disk.sync_groups(groups)
        })
    }

    fn view(&self) -> Box<dyn EngineView> {
        Box::new(self.view_of(self.disk.view()))
    }

    fn checkpoint(&self, name: &str) -> Answer<'_, ()> {
        let checkpoint = self.disk.checkpoint(name);
        Answer::later(async move {
            wait(&self.distance.sync_micros).await;
            checkpoint.await
        })
    }

    fn open_checkpoint(&self, name: &str) -> Answer<'_, Arc<dyn Engine>> {
        self.disk.open_checkpoint(name)
    }

    fn remove_checkpoint(&self, name: &str) -> Answer<'_, ()> {
        self.disk.remove_checkpoint(name)
    }

    fn flush(&self) -> Answer<'_, ()> {
        self.sync()
    }

    fn close(&self) -> Answer<'_, ()> {
        self.sync()
    }

    fn disk_bytes(&self) -> u64 {
        self.disk.disk_bytes()
    }

    fn answers_later(&self) -> bool {
        true
    }
}

struct SlowView {
    view: Arc<dyn EngineView>,
    distance: Arc<Distance>,
}

impl EngineView for SlowView {
    fn get(&self, key: &[u8]) -> Lookup<Option<Value>> {
        let (distance, value) = (self.distance.clone(), self.view.get(key));
        Answer::later(async move {
            distance.travel(1).await;
            value.await
        })
    }

    fn get_many(&self, keys: Vec<Bytes>) -> Lookup<Vec<Option<Value>>> {
        let (distance, view) = (self.distance.clone(), self.view.clone());
        Answer::later(async move {
            for keys in keys.chunks(CONCURRENT_READS_MAX) {
                distance.travel(keys.len()).await;
            }
            view.get_many(keys).await
        })
    }

    fn scan(&self, range: Range<Vec<u8>>, options: ScanOptions) -> Box<dyn EngineScan> {
        Box::new(SlowScan { scan: self.view.scan(range, options), distance: self.distance.clone() })
    }
}

struct SlowScan {
    scan: Box<dyn EngineScan>,
    distance: Arc<Distance>,
}

impl EngineScan for SlowScan {
    fn next_chunk(&mut self, rows_max: usize) -> Answer<'_, Vec<Row>> {
        Answer::later(async move {
            self.distance.travel(0).await;
            self.scan.next_chunk(rows_max).await
        })
    }
}
