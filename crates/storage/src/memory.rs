//! An engine in memory: nothing survives the process. For tests, and for `--durability memory`.
//!
//! Each key has its versions, newest last, stamped with the number of the write that made them. A snapshot is such a
//! number. Versions that no live snapshot can see are dropped when their key is written, or, for keys that were written
//! under a snapshot, when the oldest snapshot goes. One lock guards all; it is held for one chunk of a scan at most.

use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;

use crate::engine::EngineScan;
use crate::scan::collect_chunk;
use crate::{Answer, Batch, Engine, EngineView, Lookup, Op, Row, ScanOptions, StorageError, Value};

#[derive(Debug, Default, Clone)]
pub struct MemoryEngine(Arc<RwLock<State>>);

#[derive(Debug, Default)]
struct State {
    keys: BTreeMap<Bytes, Vec<Version>>,
    /// Number of the last write.
    now: u64,
    /// Live snapshots: their point in time, and how many share it.
    snapshots: BTreeMap<u64, usize>,
    /// Keys with versions that only a snapshot keeps.
    stale: Vec<Bytes>,
    size_bytes: u64,
    checkpoints: BTreeMap<String, BTreeMap<Bytes, Value>>,
}

#[derive(Debug)]
struct Version {
    written: u64,
    /// `None` after a deletion.
    value: Option<Value>,
}

impl MemoryEngine {
    pub fn new() -> Self {
        MemoryEngine::default()
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.0.read().expect("nothing panics under this lock")
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.0.write().expect("nothing panics under this lock")
    }
}

impl State {
    fn set(&mut self, key: Bytes, value: Option<Value>) {
        let oldest = self.snapshots.keys().next().copied().unwrap_or(self.now);
        let size_bytes = key.len() + value.as_ref().map_or(0, Value::len);
        // A key may be part of a larger buffer, which it must not keep alive.
        let key = if key.is_unique() { key } else { Bytes::copy_from_slice(&key) };
        let versions = self.keys.entry(key.clone()).or_default();
        debug_assert!(
            versions.last().is_none_or(|last| last.written <= self.now),
            "the versions of a key are in the order of their writes"
        );
        versions.push(Version { written: self.now, value });
        self.size_bytes += size_bytes as u64;
        self.prune(&key, oldest);
        if self.keys.get(&key).is_some_and(|versions| versions.len() > 1 || versions[0].value.is_none()) {
            self.stale.push(key);
        }
    }

    /// Drops the versions of a key that no view at `oldest` or later shows.
    fn prune(&mut self, key: &Bytes, oldest: u64) {
        let Some(versions) = self.keys.get_mut(key) else { return };
        let seen_by_oldest = versions.iter().rposition(|version| version.written <= oldest).unwrap_or(0);
        let mut freed_bytes = 0;
        for version in versions.drain(..seen_by_oldest) {
            freed_bytes += key.len() + version.value.map_or(0, |value| value.len());
        }
        if versions.len() == 1 && versions[0].value.is_none() && versions[0].written <= oldest {
            freed_bytes += key.len();
            self.keys.remove(key);
        }
        self.size_bytes -= freed_bytes as u64;
    }

    fn release(&mut self, moment: u64) {
        let was_oldest = self.snapshots.keys().next() == Some(&moment);
        let count = self.snapshots.get_mut(&moment).expect("a snapshot is registered until it is dropped");
        *count -= 1;
        if *count > 0 {
            return;
        }
        self.snapshots.remove(&moment);
        if was_oldest {
            let oldest = self.snapshots.keys().next().copied().unwrap_or(self.now);
            let mut stale = std::mem::take(&mut self.stale);
            stale.sort_unstable();
            stale.dedup();
            stale.iter().for_each(|key| self.prune(key, oldest));
            stale.retain(|key| {
                self.keys.get(key).is_some_and(|versions| versions.len() > 1 || versions[0].value.is_none())
            });
            self.stale = stale;
        }
    }
}

fn seen_at(versions: &[Version], moment: u64) -> Option<&Value> {
    versions.iter().rev().find(|version| version.written <= moment)?.value.as_ref()
}

impl Engine for MemoryEngine {
    fn apply(&self, batches: Vec<Batch>) -> Answer<'_, ()> {
        let mut state = self.write();
        state.now += 1;
        for op in batches.into_iter().flat_map(Batch::into_ops) {
            match op {
                Op::Put { key, value } => state.set(key, Some(value)),
                Op::Delete { key } => state.set(key, None),
            }
        }
        Answer::Now(Ok(()))
    }

    fn sync(&self) -> Answer<'_, ()> {
        Answer::Now(Ok(()))
    }

    fn get(&self, key: &[u8]) -> Lookup<Option<Value>> {
        let state = self.read();
        Answer::Now(Ok(state.keys.get(key).and_then(|versions| seen_at(versions, state.now)).cloned()))
    }

    fn view(&self) -> Box<dyn EngineView> {
        let mut state = self.write();
        let moment = state.now;
        *state.snapshots.entry(moment).or_default() += 1;
        Box::new(MemoryView(Arc::new(Moment { engine: self.clone(), moment })))
    }

    fn moment(&self) -> u64 {
        self.read().now
    }

    fn flush(&self) -> Answer<'_, ()> {
        Answer::Now(Ok(()))
    }

    fn close(&self) -> Answer<'_, ()> {
        Answer::Now(Ok(()))
    }

    fn checkpoint(&self, name: &str) -> Answer<'_, ()> {
        let mut state = self.write();
        if state.checkpoints.contains_key(name) {
            return Answer::Now(Err(StorageError::CheckpointExists));
        }
        let rows = state.keys.iter().filter_map(|(key, versions)| {
            seen_at(versions, state.now).map(|value| (key.clone(), value.clone()))
        });
        let rows = rows.collect();
        state.checkpoints.insert(name.to_owned(), rows);
        Answer::Now(Ok(()))
    }

    fn open_checkpoint(&self, name: &str) -> Answer<'_, Arc<dyn Engine>> {
        let Some(rows) = self.read().checkpoints.get(name).cloned() else {
            return Answer::Now(Err(StorageError::CheckpointMissing));
        };
        let engine = MemoryEngine::new();
        let mut state = engine.write();
        rows.into_iter().for_each(|(key, value)| state.set(key, Some(value)));
        drop(state);
        Answer::Now(Ok(Arc::new(engine)))
    }

    fn remove_checkpoint(&self, name: &str) -> Answer<'_, ()> {
        self.write().checkpoints.remove(name);
        Answer::Now(Ok(()))
    }

    fn disk_bytes(&self) -> u64 {
        self.read().size_bytes
    }
}

struct MemoryView(Arc<Moment>);

struct Moment {
    engine: MemoryEngine,
    moment: u64,
}

impl Drop for Moment {
    fn drop(&mut self) {
        self.engine.write().release(self.moment);
    }
}

impl EngineView for MemoryView {
    fn get(&self, key: &[u8]) -> Lookup<Option<Value>> {
        let state = self.0.engine.read();
        Answer::Now(Ok(state.keys.get(key).and_then(|versions| seen_at(versions, self.0.moment)).cloned()))
    }

    fn moment(&self) -> u64 {
        self.0.moment
    }

    fn reads_at_once(&self) -> bool {
        true
    }

    fn scan(&self, range: Range<Vec<u8>>, options: ScanOptions) -> Box<dyn EngineScan> {
        let Range { start, end } = range;
        Box::new(MemoryScan { moment: self.0.clone(), start, end, reverse: options.reverse })
    }
}

/// The rest of a range: each chunk shortens it.
struct MemoryScan {
    moment: Arc<Moment>,
    start: Vec<u8>,
    end: Vec<u8>,
    reverse: bool,
}

impl MemoryScan {
    fn chunk(&mut self, rows_max: usize) -> Result<Vec<Row>, StorageError> {
        if self.start >= self.end {
            return Ok(Vec::new());
        }
        let state = self.moment.engine.read();
        let bounds = (Bound::Included(self.start.as_slice()), Bound::Excluded(self.end.as_slice()));
        let rows = state.keys.range::<[u8], _>(bounds).filter_map(|(key, versions)| {
            seen_at(versions, self.moment.moment).map(|value| Ok((key.clone(), value.clone())))
        });
        let chunk =
            if self.reverse { collect_chunk(rows.rev(), rows_max) } else { collect_chunk(rows, rows_max) }?;
        drop(state);
        match chunk.last() {
            Some((last, _)) if self.reverse => self.end = last.to_vec(),
            Some((last, _)) => self.start = [last, &[0][..]].concat(),
            None => self.start.clone_from(&self.end),
        }
        Ok(chunk)
    }
}

impl EngineScan for MemoryScan {
    fn next_chunk(&mut self, rows_max: usize) -> Answer<'_, Vec<Row>> {
        Answer::Now(self.chunk(rows_max))
    }
}
