//! Engine in memory that counts its calls, for tests that hold requests to a number of them.
//!
//! It answers in the call and lets writers lead, as the engine on a local disk does, so that one
//! thread does all the work of a request and the counts are the same in each run.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use crate::engine::EngineScan;
use crate::rows::KeptRows;
use crate::{Answer, Batch, Engine, EngineView, Lookup, MemoryEngine, Row, ScanOptions, Value};

/// Clones share everything, so that a test keeps its hands on an engine that it gave to a shard.
#[derive(Debug, Clone, Default)]
pub struct CountedEngine {
    engine: MemoryEngine,
    calls: Arc<Counters>,
}

#[derive(Debug, Default)]
struct Counters {
    applies: AtomicU64,
    syncs: AtomicU64,
    views: AtomicU64,
    keys: AtomicU64,
    scans: AtomicU64,
    chunks: AtomicU64,
}

/// Calls since the engine was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EngineCalls {
    pub applies: u64,
    pub syncs: u64,
    pub views: u64,
    /// Keys that were looked up.
    pub keys: u64,
    /// Scans that were begun.
    pub scans: u64,
    /// Chunks of scans.
    pub chunks: u64,
}

impl EngineCalls {
    /// Calls of these that came after earlier ones.
    pub fn since(self, earlier: EngineCalls) -> EngineCalls {
        EngineCalls {
            applies: self.applies - earlier.applies,
            syncs: self.syncs - earlier.syncs,
            views: self.views - earlier.views,
            keys: self.keys - earlier.keys,
            scans: self.scans - earlier.scans,
            chunks: self.chunks - earlier.chunks,
        }
    }

    /// Each kind by its name.
    pub fn by_name(self) -> [(&'static str, u64); 6] {
        [
            ("applies", self.applies),
            ("syncs", self.syncs),
            ("views", self.views),
            ("keys", self.keys),
            ("scans", self.scans),
            ("chunks", self.chunks),
        ]
    }
}

impl CountedEngine {
    pub fn new() -> CountedEngine {
        CountedEngine::default()
    }

    pub fn calls(&self) -> EngineCalls {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counters { applies, syncs, views, keys, scans, chunks } = &*self.calls;
        EngineCalls {
            applies: read(applies),
            syncs: read(syncs),
            views: read(views),
            keys: read(keys),
            scans: read(scans),
            chunks: read(chunks),
        }
    }
}

fn count(counter: &AtomicU64, calls: usize) {
    counter.fetch_add(calls as u64, Ordering::Relaxed);
}

impl Engine for CountedEngine {
    fn apply(&self, batches: Vec<Batch>) -> Answer<'_, ()> {
        count(&self.calls.applies, 1);
        self.engine.apply(batches)
    }

    fn sync(&self) -> Answer<'_, ()> {
        count(&self.calls.syncs, 1);
        self.engine.sync()
    }

    fn view(&self) -> Box<dyn EngineView> {
        count(&self.calls.views, 1);
        Box::new(CountedView { view: self.engine.view(), calls: self.calls.clone() })
    }

    fn get(&self, key: &[u8]) -> Lookup<Option<Value>> {
        count(&self.calls.keys, 1);
        self.engine.get(key)
    }

    fn moment(&self) -> u64 {
        self.engine.moment()
    }

    fn flush(&self) -> Answer<'_, ()> {
        self.engine.flush()
    }

    fn close(&self) -> Answer<'_, ()> {
        self.engine.close()
    }

    fn disk_bytes(&self) -> u64 {
        self.engine.disk_bytes()
    }

    fn lets_writers_lead(&self) -> bool {
        true
    }
}

struct CountedView {
    view: Box<dyn EngineView>,
    calls: Arc<Counters>,
}

impl EngineView for CountedView {
    fn get(&self, key: &[u8]) -> Lookup<Option<Value>> {
        count(&self.calls.keys, 1);
        self.view.get(key)
    }

    fn get_many(&self, keys: Vec<Bytes>) -> Lookup<Vec<Option<Value>>> {
        count(&self.calls.keys, keys.len());
        self.view.get_many(keys)
    }

    fn scan(&self, range: Range<Vec<u8>>, options: ScanOptions) -> Box<dyn EngineScan> {
        count(&self.calls.scans, 1);
        Box::new(CountedScan { scan: self.view.scan(range, options), calls: self.calls.clone() })
    }

    fn moment(&self) -> u64 {
        self.view.moment()
    }

    fn reads_at_once(&self) -> bool {
        self.view.reads_at_once()
    }
}

struct CountedScan {
    scan: Box<dyn EngineScan>,
    calls: Arc<Counters>,
}

impl EngineScan for CountedScan {
    fn next_chunk(&mut self, rows_max: usize) -> Answer<'_, Vec<Row>> {
        count(&self.calls.chunks, 1);
        self.scan.next_chunk(rows_max)
    }

    fn next_kept(&mut self, rows_max: usize) -> Option<KeptRows> {
        self.scan.next_kept(rows_max)
    }

    fn count_chunk(&mut self, rows_max: usize) -> Answer<'_, usize> {
        count(&self.calls.chunks, 1);
        self.scan.count_chunk(rows_max)
    }
}
