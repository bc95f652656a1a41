//! Failures on demand, for tests: one operation fails, or the power does.

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
    /// The power fails first: this and all later operations fail until [`Faults::restart`].
    CutBefore,
    /// The power fails afterwards: the effect is durable, and the caller gets an error.
    CutAfter,
}

/// Counts operations that change files, and lets one of them fail.
#[derive(Debug, Clone, Default)]
pub struct Faults(Arc<Mutex<Plan>>);

#[derive(Debug, Default)]
struct Plan {
    operations: u64,
    fault: Option<(u64, Fault)>,
    is_cut: bool,
    is_full: bool,
}

impl Faults {
    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Operations so far that changed files or tried to.
    pub fn operations(&self) -> u64 {
        self.plan().operations
    }

    /// Lets the changing operation of this number fail, counted from now: 0 is the next one.
    pub fn fail_at(&self, number: u64, fault: Fault) {
        let mut plan = self.plan();
        plan.fault = Some((plan.operations + number, fault));
    }

    /// Lets writes fail, as on a full disk, or succeed again. Deletions succeed.
    pub fn set_full(&self, is_full: bool) {
        self.plan().is_full = is_full;
    }

    /// Whether the fault has not happened yet.
    pub fn is_armed(&self) -> bool {
        let plan = self.plan();
        plan.fault.is_some_and(|(at, _)| at >= plan.operations)
    }

    /// Whether the power is off.
    pub fn is_cut(&self) -> bool {
        self.plan().is_cut
    }

    /// Ends the effects of a fault, as a new start of the process does. Returns whether the power was
    /// off.
    pub fn restart(&self) -> bool {
        let mut plan = self.plan();
        plan.fault = None;
        std::mem::take(&mut plan.is_cut)
    }

    /// Reads fail while the power is off.
    pub fn read<T>(&self, path: &str, read: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        if self.plan().is_cut { Err(failure(path, "the power is off")) } else { read() }
    }

    /// A change that needs room on the disk.
    pub fn write(
        &self,
        path: &str,
        effect: impl FnOnce() -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let is_full = self.plan().is_full;
        if is_full { Err(failure(path, "no space left on the device")) } else { self.change(path, effect) }
    }

    pub fn change(
        &self,
        path: &str,
        effect: impl FnOnce() -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut plan = self.plan();
        if plan.is_cut {
            return Err(failure(path, "the power is off"));
        }
        let number = plan.operations;
        plan.operations += 1;
        let fault = plan.fault.filter(|(at, _)| *at == number).map(|(_, fault)| fault);
        plan.is_cut = matches!(fault, Some(Fault::CutBefore | Fault::CutAfter));
        if matches!(fault, Some(Fault::FailBefore | Fault::CutBefore)) {
            return Err(failure(path, "a fault before the operation"));
        }
        effect()?;
        match fault {
            Some(_) => Err(failure(path, "a fault after the operation")),
            None => Ok(()),
        }
    }
}

fn failure(path: &str, reason: &str) -> StoreError {
    StoreError { kind: StoreErrorKind::Failed, path: path.to_owned(), reason: reason.to_owned() }
}

/// A store whose operations fail on demand.
#[derive(Debug, Clone)]
pub struct FaultyStore {
    inner: Arc<dyn TableStore>,
    faults: Faults,
}

impl FaultyStore {
    pub fn new(inner: Arc<dyn TableStore>) -> FaultyStore {
        FaultyStore::with(inner, Faults::default())
    }

    /// A store that fails together with others.
    pub fn with(inner: Arc<dyn TableStore>, faults: Faults) -> FaultyStore {
        FaultyStore { inner, faults }
    }

    pub fn faults(&self) -> &Faults {
        &self.faults
    }
}

impl TableStore for FaultyStore {
    fn read(&self, path: &str) -> Result<Bytes, StoreError> {
        self.faults.read(path, || self.inner.read(path))
    }

    fn read_range(&self, path: &str, offset: u64, length: usize) -> Result<Bytes, StoreError> {
        self.faults.read(path, || self.inner.read_range(path, offset, length))
    }

    fn size(&self, path: &str) -> Result<u64, StoreError> {
        self.faults.read(path, || self.inner.size(path))
    }

    fn write(&self, path: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.faults.write(path, || self.inner.write(path, bytes))
    }

    fn writer(&self, path: &str) -> Result<Box<dyn StoreWriter>, StoreError> {
        let inner = self.faults.read(path, || self.inner.writer(path))?;
        Ok(Box::new(FaultyWriter { inner, path: path.to_owned(), faults: self.faults.clone() }))
    }

    fn create_if_absent(&self, path: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.faults.write(path, || self.inner.create_if_absent(path, bytes))
    }

    fn list(&self, folder: &str) -> Result<Vec<StoredFile>, StoreError> {
        self.faults.read(folder, || self.inner.list(folder))
    }

    fn delete(&self, path: &str) -> Result<(), StoreError> {
        self.faults.change(path, || self.inner.delete(path))
    }
}

struct FaultyWriter {
    inner: Box<dyn StoreWriter>,
    path: String,
    faults: Faults,
}

impl Write for FaultyWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl StoreWriter for FaultyWriter {
    fn finish(self: Box<Self>) -> Result<(), StoreError> {
        let FaultyWriter { inner, path, faults } = *self;
        faults.write(&path, || inner.finish())
    }
}
