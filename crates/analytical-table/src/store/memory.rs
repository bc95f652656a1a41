//! Tables in memory, for tests.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::{StoreError, StoreErrorKind, StoreWriter, StoredFile, TableStore};

#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<String, Stored>,
    /// Files deleted since the last synced write: a power cut brings them back.
    deleted: BTreeMap<String, Stored>,
    time: i64,
}

#[derive(Debug, Clone)]
struct Stored {
    bytes: Bytes,
    modified: i64,
}

impl MemoryStore {
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    /// The time that files written from now on bear, in milliseconds since 1970.
    pub fn set_time(&self, milliseconds: i64) {
        self.state().time = milliseconds;
    }

    /// Undoes deletions that were not synced, as a power cut does. Writes are synced before they
    /// return.
    pub fn cut_power(&self) {
        let mut state = self.state();
        for (path, stored) in std::mem::take(&mut state.deleted) {
            state.files.entry(path).or_insert(stored);
        }
    }

    /// Replaces the content of a file, as a failing disk or another program does.
    pub fn overwrite(&self, path: &str, bytes: &[u8]) {
        self.put(path, Bytes::copy_from_slice(bytes));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stored(&self, path: &str) -> Result<Stored, StoreError> {
        let found = self.state().files.get(path).cloned();
        found.ok_or_else(|| error(StoreErrorKind::NotFound, path, "no such file"))
    }

    fn put(&self, path: &str, bytes: Bytes) {
        let mut state = self.state();
        let modified = state.time;
        state.deleted.clear();
        state.files.insert(path.to_owned(), Stored { bytes, modified });
    }
}

fn error(kind: StoreErrorKind, path: &str, reason: &str) -> StoreError {
    StoreError { kind, path: path.to_owned(), reason: reason.to_owned() }
}

impl TableStore for MemoryStore {
    fn read(&self, path: &str) -> Result<Bytes, StoreError> {
        Ok(self.stored(path)?.bytes)
    }

    fn read_range(&self, path: &str, offset: u64, length: usize) -> Result<Bytes, StoreError> {
        let bytes = self.stored(path)?.bytes;
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        match start.checked_add(length).filter(|end| *end <= bytes.len()) {
            Some(end) => Ok(bytes.slice(start..end)),
            None => Err(error(StoreErrorKind::Failed, path, "the file is too short")),
        }
    }

    fn size(&self, path: &str) -> Result<u64, StoreError> {
        Ok(self.stored(path)?.bytes.len() as u64)
    }

    fn write(&self, path: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.put(path, Bytes::copy_from_slice(bytes));
        Ok(())
    }

    fn writer(&self, path: &str) -> Result<Box<dyn StoreWriter>, StoreError> {
        Ok(Box::new(MemoryWriter { store: self.clone(), path: path.to_owned(), bytes: Vec::new() }))
    }

    fn create_if_absent(&self, path: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let mut state = self.state();
        if state.files.contains_key(path) {
            return Err(error(StoreErrorKind::Exists, path, "the file exists"));
        }
        let stored = Stored { bytes: Bytes::copy_from_slice(bytes), modified: state.time };
        state.deleted.clear();
        state.files.insert(path.to_owned(), stored);
        Ok(())
    }

    fn list(&self, folder: &str) -> Result<Vec<StoredFile>, StoreError> {
        let state = self.state();
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let below = state.files.iter().filter(|(path, _)| path.starts_with(&prefix));
        let files = below.map(|(path, stored)| StoredFile {
            path: path.clone(),
            size: stored.bytes.len() as u64,
            modified: stored.modified,
        });
        Ok(files.collect())
    }

    fn delete(&self, path: &str) -> Result<(), StoreError> {
        let mut state = self.state();
        if let Some(stored) = state.files.remove(path) {
            state.deleted.insert(path.to_owned(), stored);
        }
        Ok(())
    }
}

struct MemoryWriter {
    store: MemoryStore,
    path: String,
    bytes: Vec<u8>,
}

impl Write for MemoryWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl StoreWriter for MemoryWriter {
    fn finish(self: Box<Self>) -> Result<(), StoreError> {
        let MemoryWriter { store, path, bytes } = *self;
        store.put(&path, Bytes::from(bytes));
        Ok(())
    }
}
