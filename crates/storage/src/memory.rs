//! An engine in memory: nothing survives the process. For tests, and for `--durability memory`.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::RwLock;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, ready};

use crate::scan::collect_chunk;
use crate::{Batch, Engine, EngineSnapshot, Op, Row, ScanOptions, StorageError};

/// Every version of every key since the oldest snapshot could have been taken would grow without bound; instead the map
/// is shared and copied when a write meets a snapshot that still holds it.
#[derive(Debug, Default)]
pub struct MemoryEngine {
    map: RwLock<Arc<BTreeMap<Bytes, Bytes>>>,
}

impl MemoryEngine {
    pub fn new() -> Self {
        MemoryEngine::default()
    }

    /// The state at this moment; for tests that simulate a crash.
    pub fn contents(&self) -> Arc<BTreeMap<Bytes, Bytes>> {
        self.map.read().expect("no writer panics").clone()
    }

    pub fn restore(&self, contents: Arc<BTreeMap<Bytes, Bytes>>) {
        *self.map.write().expect("no writer panics") = contents;
    }
}

impl Engine for MemoryEngine {
    fn apply(&self, batches: Vec<Batch>) -> BoxFuture<'_, Result<(), StorageError>> {
        let mut map = self.map.write().expect("no writer panics");
        let map = Arc::make_mut(&mut map);
        for op in batches.into_iter().flat_map(Batch::into_ops) {
            match op {
                Op::Put { key, value } => map.insert(key, value),
                Op::Delete { key } => map.remove(&key),
            };
        }
        ready(Ok(())).boxed()
    }

    fn sync(&self) -> BoxFuture<'_, Result<(), StorageError>> {
        ready(Ok(())).boxed()
    }

    fn get(&self, key: &[u8]) -> BoxFuture<'static, Result<Option<Bytes>, StorageError>> {
        ready(Ok(self.map.read().expect("no writer panics").get(key).cloned())).boxed()
    }

    fn snapshot(&self) -> Box<dyn EngineSnapshot> {
        Box::new(MemorySnapshot(self.contents()))
    }

    fn close(&self) -> BoxFuture<'_, Result<(), StorageError>> {
        ready(Ok(())).boxed()
    }

    fn disk_bytes(&self) -> u64 {
        self.contents().iter().map(|(key, value)| (key.len() + value.len()) as u64).sum()
    }
}

struct MemorySnapshot(Arc<BTreeMap<Bytes, Bytes>>);

impl EngineSnapshot for MemorySnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StorageError> {
        Ok(self.0.get(key).cloned())
    }

    fn chunk(&self, start: &[u8], end: &[u8], options: ScanOptions) -> Result<Vec<Row>, StorageError> {
        let bounds = (Bound::Included(start), Bound::Excluded(end));
        let rows = self.0.range::<[u8], _>(bounds).map(|(key, value)| Ok((key.clone(), value.clone())));
        if options.reverse { collect_chunk(rows.rev(), options) } else { collect_chunk(rows, options) }
    }
}
