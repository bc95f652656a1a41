//! Engine that fails, stalls and forgets on purpose, for tests of durability.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::ThreadId;
use std::time::Duration;

use crate::{Answer, Batch, Engine, EngineView, Lookup, MemoryEngine, StorageError, Value};

/// A memory engine with a "disk" of its own: only synced writes are sure to survive
/// [`FaultEngine::crash`]. Clones share everything, so that a test keeps control of an engine that
/// it gave to a shard.
#[derive(Debug, Default, Clone)]
pub struct FaultEngine(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    memory: MemoryEngine,
    disk: Mutex<Disk>,
    applies: AtomicU64,
    syncs: AtomicU64,
    views: AtomicU64,
    fail_apply_at: AtomicU64,
    fail_after_apply_at: AtomicU64,
    fail_sync_at: AtomicU64,
    stall: Mutex<Stall>,
    released: Condvar,
    lets_writers_lead: AtomicBool,
    is_held_up: AtomicBool,
    reads: AtomicU64,
    /// Number of the first read that is refused; 0 where none is.
    refuse_reads_at: AtomicU64,
    epoch: AtomicU64,
    /// Epoch of the owner that took over; 0 before.
    fenced_by: AtomicU64,
    last_writer: Mutex<Option<ThreadId>>,
    /// Rows of each group, in order.
    group_rows: Mutex<Vec<usize>>,
}

/// Syncs that do not return.
#[derive(Debug, Default)]
struct Stall {
    /// Those after this number.
    after: Option<u64>,
    /// One waits.
    is_stalling: bool,
}

/// The writes of the engine in order, one group per `apply`.
#[derive(Debug, Default)]
struct Disk {
    synced: Vec<Vec<Batch>>,
    unsynced: VecDeque<Vec<Batch>>,
}

impl FaultEngine {
    pub fn new() -> Self {
        FaultEngine::default()
    }

    /// The `n`th sync from now on (1 is the next) fails.
    pub fn fail_sync(&self, n: u64) {
        self.0.fail_sync_at.store(self.syncs() + n, Ordering::SeqCst);
    }

    /// The `n`th write from now on (1 is the next) fails, as on a full disk.
    pub fn fail_apply(&self, n: u64) {
        self.0.fail_apply_at.store(self.applies() + n, Ordering::SeqCst);
    }

    /// The `n`th write from now on fails when its rows show already.
    pub fn fail_after_apply(&self, n: u64) {
        self.0.fail_after_apply_at.store(self.applies() + n, Ordering::SeqCst);
    }

    /// Syncs do not return until this is switched off.
    pub fn stall_syncs(&self, is_stalled: bool) {
        self.set_stall(is_stalled.then(|| self.syncs()));
    }

    /// Syncs do not return after the next `n`, until this is switched off.
    pub fn stall_syncs_after(&self, n: u64) {
        self.set_stall(Some(self.syncs() + n));
    }

    fn set_stall(&self, after: Option<u64>) {
        self.0.stall.lock().expect("no holder panics").after = after;
        self.0.released.notify_all();
    }

    /// Writers may commit where they wait, as they may over the engine on a local disk. Not together with
    /// [`FaultEngine::stall_syncs`], which would then hold up a thread of the runtime.
    pub fn let_writers_lead(&self) {
        self.0.lets_writers_lead.store(true, Ordering::SeqCst);
    }

    /// Whether a sync waits for the end of a stall.
    pub fn is_stalling(&self) -> bool {
        self.0.stall.lock().expect("no holder panics").is_stalling
    }

    /// Reads for commits after the next `n` are refused, as by an object store that does not answer.
    pub fn refuse_reads_after(&self, n: u64) {
        self.0.refuse_reads_at.store(self.0.reads.load(Ordering::SeqCst) + n + 1, Ordering::SeqCst);
    }

    /// Ends [`FaultEngine::refuse_reads_after`].
    pub fn answer_reads(&self) {
        self.0.refuse_reads_at.store(0, Ordering::SeqCst);
    }

    /// From now on the engine reports that writes take long.
    pub fn hold_up(&self) {
        self.0.is_held_up.store(true, Ordering::SeqCst);
    }

    /// The thread that wrote last.
    pub fn last_writer(&self) -> Option<ThreadId> {
        *self.0.last_writer.lock().expect("no holder panics")
    }

    /// How many rows each group had that was written so far.
    pub fn group_rows(&self) -> Vec<usize> {
        self.0.group_rows.lock().expect("no holder panics").clone()
    }

    /// How many views were made of it.
    pub fn views(&self) -> u64 {
        self.0.views.load(Ordering::SeqCst)
    }

    pub fn applies(&self) -> u64 {
        self.0.applies.load(Ordering::SeqCst)
    }

    pub fn syncs(&self) -> u64 {
        self.0.syncs.load(Ordering::SeqCst)
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.disk.lock().expect("no holder panics")
    }

    /// The state that a restart after a power cut finds: an engine with everything synced, and the
    /// first `lucky` writes after the last sync, which happened to reach the disk.
    pub fn crash(&self, lucky: usize) -> FaultEngine {
        let disk = self.disk();
        let groups: Vec<Vec<Batch>> =
            disk.synced.iter().chain(disk.unsynced.iter().take(lucky)).cloned().collect();
        let engine = FaultEngine::new();
        for group in &groups {
            let Answer::Now(Ok(())) = engine.0.memory.apply(group.clone()) else {
                unreachable!("writes to memory succeed at once")
            };
        }
        engine.disk().synced = groups;
        engine.0.epoch.store(self.0.epoch.load(Ordering::SeqCst), Ordering::SeqCst);
        engine
    }

    fn sync_now(&self) -> Result<(), StorageError> {
        let stall = self.0.stall.lock().expect("no holder panics");
        let is_stalled = |stall: &mut Stall| {
            stall.is_stalling = stall.after.is_some_and(|after| self.syncs() >= after);
            stall.is_stalling
        };
        drop(self.0.released.wait_while(stall, is_stalled).expect("no holder panics"));
        self.sync_groups(usize::MAX)
    }

    /// Groups that a sync which begins now covers.
    pub(crate) fn unsynced(&self) -> usize {
        self.disk().unsynced.len()
    }

    /// The end of a sync of the first so many groups.
    pub(crate) fn sync_groups(&self, groups: usize) -> Result<(), StorageError> {
        let number = self.0.syncs.fetch_add(1, Ordering::SeqCst) + 1;
        if number == self.0.fail_sync_at.load(Ordering::SeqCst) {
            return Err(self.fault("the sync failed"));
        }
        self.check_owner()?;
        let Disk { synced, unsynced } = &mut *self.disk();
        synced.extend(unsynced.drain(..groups.min(unsynced.len())));
        Ok(())
    }

    /// Opens the content of the disk for an owner of this epoch, as after a crash of the owner
    /// before, which is fenced.
    pub fn take_over(&self, epoch: u64) -> Result<FaultEngine, StorageError> {
        let current = self.0.epoch.load(Ordering::SeqCst);
        if epoch < current {
            return Err(StorageError::Fenced { epoch: current });
        }
        let next = self.crash(0);
        next.0.epoch.store(epoch, Ordering::SeqCst);
        self.0.fenced_by.store(epoch, Ordering::SeqCst);
        Ok(next)
    }

    fn check_owner(&self) -> Result<(), StorageError> {
        match self.0.fenced_by.load(Ordering::SeqCst) {
            0 => Ok(()),
            epoch => Err(StorageError::Fenced { epoch }),
        }
    }

    fn fault(&self, what: &str) -> StorageError {
        StorageError::io(format!("{what} (injected)"))
    }
}

impl Engine for FaultEngine {
    fn apply(&self, batches: Vec<Batch>) -> Answer<'_, ()> {
        if let Err(fenced) = self.check_owner() {
            return Answer::Now(Err(fenced));
        }
        let rows = batches.iter().map(Batch::len).sum();
        self.0.group_rows.lock().expect("no holder panics").push(rows);
        let number = self.0.applies.fetch_add(1, Ordering::SeqCst) + 1;
        *self.0.last_writer.lock().expect("no holder panics") = Some(std::thread::current().id());
        if number == self.0.fail_apply_at.load(Ordering::SeqCst) {
            return Answer::Now(Err(self.fault("no space left on device")));
        }
        self.disk().unsynced.push_back(batches.clone());
        let applied = self.0.memory.apply(batches);
        if number == self.0.fail_after_apply_at.load(Ordering::SeqCst) {
            return Answer::Now(Err(self.fault("the memtable cannot be sealed")));
        }
        applied
    }

    fn sync(&self) -> Answer<'_, ()> {
        Answer::Now(self.sync_now())
    }

    fn get(&self, key: &[u8]) -> Lookup<Option<Value>> {
        let number = self.0.reads.fetch_add(1, Ordering::SeqCst) + 1;
        let refused_from = self.0.refuse_reads_at.load(Ordering::SeqCst);
        if refused_from > 0 && number >= refused_from {
            return Answer::Now(Err(StorageError::Unavailable { retry_after: Duration::from_secs(2) }));
        }
        self.0.memory.get(key)
    }

    fn view(&self) -> Box<dyn EngineView> {
        self.0.views.fetch_add(1, Ordering::SeqCst);
        self.0.memory.view()
    }

    fn moment(&self) -> u64 {
        self.0.memory.moment()
    }

    fn checkpoint(&self, name: &str) -> Answer<'_, ()> {
        self.0.memory.checkpoint(name)
    }

    fn open_checkpoint(&self, name: &str) -> Answer<'_, Arc<dyn Engine>> {
        self.0.memory.open_checkpoint(name)
    }

    fn remove_checkpoint(&self, name: &str) -> Answer<'_, ()> {
        self.0.memory.remove_checkpoint(name)
    }

    fn flush(&self) -> Answer<'_, ()> {
        self.sync()
    }

    fn close(&self) -> Answer<'_, ()> {
        self.sync()
    }

    fn lets_writers_lead(&self) -> bool {
        self.0.lets_writers_lead.load(Ordering::SeqCst)
    }

    fn may_be_held_up(&self) -> bool {
        self.0.is_held_up.load(Ordering::SeqCst)
    }

    fn disk_bytes(&self) -> u64 {
        self.0.memory.disk_bytes()
    }
}
