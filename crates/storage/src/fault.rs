//! An engine that fails, stalls and forgets on purpose, for tests of what must survive.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::{Batch, Engine, EngineSnapshot, MemoryEngine, StorageError};

/// A memory engine with a "disk": only what was synced survives [`FaultEngine::crash`].
#[derive(Debug, Default)]
pub struct FaultEngine {
    memory: MemoryEngine,
    disk: Mutex<Arc<BTreeMap<Bytes, Bytes>>>,
    applies: AtomicU64,
    syncs: AtomicU64,
    fail_apply_at: AtomicU64,
    fail_sync_at: AtomicU64,
    stalled: AtomicBool,
}

impl FaultEngine {
    pub fn new() -> Self {
        FaultEngine::default()
    }

    /// The `n`th sync from now on (1 is the next) fails.
    pub fn fail_sync(&self, n: u64) {
        self.fail_sync_at.store(self.syncs.load(Ordering::SeqCst) + n, Ordering::SeqCst);
    }

    /// The `n`th write from now on (1 is the next) fails, as on a full disk.
    pub fn fail_apply(&self, n: u64) {
        self.fail_apply_at.store(self.applies.load(Ordering::SeqCst) + n, Ordering::SeqCst);
    }

    /// Syncs do not return until this is switched off.
    pub fn stall_syncs(&self, stalled: bool) {
        self.stalled.store(stalled, Ordering::SeqCst);
    }

    pub fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::SeqCst)
    }

    /// What a restart after a power cut finds: a new engine with the synced state.
    pub fn crash(&self) -> FaultEngine {
        let engine = FaultEngine::new();
        let disk = self.disk.lock().expect("no holder panics").clone();
        engine.memory.restore(disk.clone());
        *engine.disk.lock().expect("no holder panics") = disk;
        engine
    }
}

impl Engine for FaultEngine {
    fn apply(&self, batches: Vec<Batch>) -> BoxFuture<'_, Result<(), StorageError>> {
        let number = self.applies.fetch_add(1, Ordering::SeqCst) + 1;
        if number == self.fail_apply_at.load(Ordering::SeqCst) {
            return futures::future::ready(Err(StorageError::io("no space left on device (injected)")))
                .boxed();
        }
        self.memory.apply(batches)
    }

    fn sync(&self) -> BoxFuture<'_, Result<(), StorageError>> {
        async move {
            while self.stalled.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
            let number = self.syncs.fetch_add(1, Ordering::SeqCst) + 1;
            if number == self.fail_sync_at.load(Ordering::SeqCst) {
                return Err(StorageError::io("the sync failed (injected)"));
            }
            *self.disk.lock().expect("no holder panics") = self.memory.contents();
            Ok(())
        }
        .boxed()
    }

    fn get(&self, key: &[u8]) -> BoxFuture<'static, Result<Option<Bytes>, StorageError>> {
        self.memory.get(key)
    }

    fn snapshot(&self) -> Box<dyn EngineSnapshot> {
        self.memory.snapshot()
    }

    fn close(&self) -> BoxFuture<'_, Result<(), StorageError>> {
        self.sync()
    }

    fn disk_bytes(&self) -> u64 {
        self.memory.disk_bytes()
    }
}
