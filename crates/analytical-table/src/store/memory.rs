//! Tables in memory, for tests: operations fail on demand, and a power cut drops unsynced files.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::{StoreError, StoreErrorKind, StoreWriter, StoredFile, TableStore};

/// Failure of one operation that changes files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The operation fails without an effect; later ones succeed.
    FailBefore,
    /// The operation has its effect and reports a failure.
    FailAfter,
    /// The power fails first: this and all later operations fail until [`MemoryStore::restart`].
    CutBefore,
    /// The power fails afterwards: the effect is durable, and the caller gets an error.
    CutAfter,
}

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
    operations: u64,
    fault: Option<(u64, Fault)>,
    is_cut: bool,
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

    /// Operations so far that changed files or tried to.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Lets the changing operation of this number fail, counted from now: 0 is the next one.
    pub fn fail_at(&self, number: u64, fault: Fault) {
        let mut state = self.state();
        state.fault = Some((state.operations + number, fault));
    }

    /// Ends the effects of a fault, as a new start of the process does.
    pub fn restart(&self) {
        let mut state = self.state();
        if state.is_cut {
            let back = std::mem::take(&mut state.deleted);
            for (path, stored) in back {
                state.files.entry(path).or_insert(stored);
            }
        }
        state.is_cut = false;
        state.fault = None;
    }

    /// Replaces the content of a file, as a failing disk or another program does.
    pub fn overwrite(&self, path: &str, bytes: &[u8]) {
        let mut state = self.state();
        let modified = state.time;
        state.files.insert(path.to_owned(), Stored { bytes: Bytes::copy_from_slice(bytes), modified });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stored(&self, path: &str) -> Result<Stored, StoreError> {
        let state = self.state();
        if state.is_cut {
            return Err(failure(path, "the power is off"));
        }
        let missing = || StoreError {
            kind: StoreErrorKind::NotFound,
            path: path.to_owned(),
            reason: "no such file".to_owned(),
        };
        state.files.get(path).cloned().ok_or_else(missing)
    }

    fn change(
        &self,
        path: &str,
        effect: impl FnOnce(&mut State) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut state = self.state();
        if state.is_cut {
            return Err(failure(path, "the power is off"));
        }
        let number = state.operations;
        state.operations += 1;
        let fault = state.fault.filter(|(at, _)| *at == number).map(|(_, fault)| fault);
        state.is_cut = matches!(fault, Some(Fault::CutBefore | Fault::CutAfter));
        if matches!(fault, Some(Fault::FailBefore | Fault::CutBefore)) {
            return Err(failure(path, "a fault before the operation"));
        }
        effect(&mut state)?;
        match fault {
            Some(_) => Err(failure(path, "a fault after the operation")),
            None => Ok(()),
        }
    }

    fn put(&self, path: &str, bytes: Bytes) -> Result<(), StoreError> {
        self.change(path, |state| {
            let modified = state.time;
            state.deleted.clear();
            state.files.insert(path.to_owned(), Stored { bytes, modified });
            Ok(())
        })
    }
}

fn failure(path: &str, reason: &str) -> StoreError {
    StoreError { kind: StoreErrorKind::Failed, path: path.to_owned(), reason: reason.to_owned() }
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
            None => Err(failure(path, "the file is too short")),
        }
    }

    fn size(&self, path: &str) -> Result<u64, StoreError> {
        Ok(self.stored(path)?.bytes.len() as u64)
    }

    fn write(&self, path: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.put(path, Bytes::copy_from_slice(bytes))
    }

    fn writer(&self, path: &str) -> Result<Box<dyn StoreWriter>, StoreError> {
        Ok(Box::new(MemoryWriter { store: self.clone(), path: path.to_owned(), bytes: Vec::new() }))
    }

    fn create_if_absent(&self, path: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.change(path, |state| {
            if state.files.contains_key(path) {
                let kind = StoreErrorKind::Exists;
                return Err(StoreError { kind, path: path.to_owned(), reason: "the file exists".to_owned() });
            }
            let modified = state.time;
            state.deleted.clear();
            let stored = Stored { bytes: Bytes::copy_from_slice(bytes), modified };
            state.files.insert(path.to_owned(), stored);
            Ok(())
        })
    }

    fn list(&self, folder: &str) -> Result<Vec<StoredFile>, StoreError> {
        let state = self.state();
        if state.is_cut {
            return Err(failure(folder, "the power is off"));
        }
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
        self.change(path, |state| {
            if let Some(stored) = state.files.remove(path) {
                state.deleted.insert(path.to_owned(), stored);
            }
            Ok(())
        })
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
        store.put(&path, Bytes::from(bytes))
    }
}
