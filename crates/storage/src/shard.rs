//! A shard: one owner, one log, one order of commits, and the handle that everyone shares.
//!
//! `commit` only queues: it gives the commit its place in the order and returns a future. Two
//! watermarks follow the committer: `applied` (in the engine) and `durable` (on stable storage),
//! both as the [`Seq`] of the last commit. Reads show the acknowledged state (`view.rs`); only a
//! planner, whose commit follows those before it, reads the applied state.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use shardlake_stdx::UnderWay;
use tokio::sync::{OnceCell, oneshot};

use crate::background::PacedWork;
use crate::checkpoint::check_name;
use crate::committer::{Committer, in_the_call};
use crate::inspection::Inspection;
use crate::large_commits::{RowsPermit, SMALL_COMMIT_ROWS};
use crate::local::{LocalEngine, LocalOptions};
use crate::pipeline::Pipeline;
use crate::queue::Queued;
use crate::range_cache::{LayoutOf, RangeCache};
use crate::row_cache::{Found, RowCache};
use crate::shard_metrics::ShardMetrics;
use crate::shared::Shared;
#[cfg(feature = "testing")]
use crate::slow::SlowEngine;
use crate::{
    Answer, Batch, Durability, Engine, EngineKind, InspectionReport, KEY_BYTES_MAX, Lookup, MemoryEngine,
    PendingCommit, Row, Seq, ShardOptions, StorageError, Value, View, witness,
};

/// A store takes a sync in less, unless it fails.
const SYNC_MAX: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub struct Shard(Arc<ShardInner>);

struct ShardInner {
    shared: Arc<Shared>,
    committer: Mutex<Option<Running>>,
    /// The result of closing, for callers that close again.
    closed: OnceCell<Result<(), StorageError>>,
}

/// The thread or task that commits.
enum Running {
    Thread(std::thread::JoinHandle<()>),
    Task(tokio::task::JoinHandle<()>),
}

impl std::fmt::Debug for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "shard at {}", self.applied())
    }
}

impl Shard {
    /// Opens or creates the shard; recovery of a local one runs on a thread for blocking work.
    pub async fn open(options: ShardOptions) -> Result<Shard, StorageError> {
        let engine: Arc<dyn Engine> = match &options.engine {
            #[cfg(feature = "testing")]
            EngineKind::Memory if let Some(engine) = SlowEngine::of_the_environment() => Arc::new(engine),
            EngineKind::Memory => Arc::new(MemoryEngine::new()),
            EngineKind::Local { directory } => {
                let local = LocalOptions {
                    directory: directory.clone(),
                    must_exist: options.must_exist,
                    epoch: options.epoch,
                    cache_bytes: options.block_cache_bytes(),
                    memtable_bytes: options.memtable_bytes,
                    tables_open_max: options.tables_open_max,
                    slow_read: options.slow_read,
                    writes_through: options.durability == Durability::Async,
                };
                let open = tokio::task::spawn_blocking(move || LocalEngine::open(&local));
                Arc::new(open.await.map_err(|error| StorageError::io(format!("opening failed: {error}")))??)
            }
        };
        Shard::with_engine(engine, &options)
    }

    /// Opens the content of `directory` as a shard to read; files that fjall has to write are made
    /// below `scratch`, and are removed with the last handle. Servers cannot open the shard
    /// meanwhile.
    pub async fn inspect(
        directory: &Path,
        scratch: &Path,
    ) -> Result<(Shard, InspectionReport), StorageError> {
        let (directory, scratch) = (directory.to_owned(), scratch.to_owned());
        let open = tokio::task::spawn_blocking(move || Inspection::open(&directory, &scratch));
        let opened = open.await.map_err(|error| StorageError::io(format!("opening failed: {error}")))?;
        let (engine, report) = opened?;
        Ok((Shard::with_engine(Arc::new(engine), &ShardOptions::memory())?, report))
    }

    /// A shard over an engine that is open. In a runtime, where the engine answers later.
    pub fn with_engine(engine: Arc<dyn Engine>, options: &ShardOptions) -> Result<Shard, StorageError> {
        let answers_later = engine.answers_later();
        let shared = Arc::new(Shared::new(engine, options));
        let committer = if answers_later {
            Running::Task(tokio::spawn(Pipeline::new(shared.clone()).run()))
        } else {
            let committer = Committer::new(shared.clone());
            let thread = std::thread::Builder::new().name("committer".into()).spawn(move || committer.run());
            Running::Thread(
                thread.map_err(|error| {
                    StorageError::io(format!("the committer's thread cannot start: {error}"))
                })?,
            )
        };
        let committer = Mutex::new(Some(committer));
        Ok(Shard(Arc::new(ShardInner { shared, committer, closed: OnceCell::new() })))
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }

    /// Whether this is the shard that another handle names: one batch can write to both then.
    pub fn is(&self, other: &Shard) -> bool {
        Arc::ptr_eq(&self.0.shared, &other.0.shared)
    }

    /// Runs slow work of the engine: on a thread that may block, or where it is awaited.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Engine) -> Answer<'_, T> + Send + 'static,
    ) -> Result<T, StorageError> {
        self.0.work(work).await
    }

    pub(crate) fn hot_rows(&self) -> &Arc<RowCache> {
        &self.shared().hot
    }

    pub fn durability(&self) -> Durability {
        self.shared().durability
    }

    /// Queues a commit behind all earlier ones. Dropping the future does not take it back. Where
    /// the batch may have more than [`SMALL_COMMIT_ROWS`], the caller waits for a permit first and
    /// hands it over: [`Shard::commit_in_turn`].
    pub fn commit(&self, batch: Batch) -> Result<PendingCommit, StorageError> {
        self.commit_in_turn(batch, None)
    }

    /// Queues a commit with the permit of [`Shard::turn_for`], which ends when the commit is
    /// written.
    pub fn commit_in_turn(
        &self,
        batch: Batch,
        turn: Option<RowsPermit>,
    ) -> Result<PendingCommit, StorageError> {
        self.commit_timed(batch, turn, None)
    }

    /// Queues a commit that has a time and is under way until readers see it.
    pub fn commit_timed(
        &self,
        batch: Batch,
        turn: Option<RowsPermit>,
        under_way: Option<UnderWay>,
    ) -> Result<PendingCommit, StorageError> {
        let shared = self.shared();
        shared.check()?;
        if shared.answers_later {
            shared.engine.check_store()?;
        }
        check_sizes(&batch)?;
        let (done, receiver) = oneshot::channel();
        // Asking the engine costs more than the rest, and is in vain while writers come in groups.
        // Others write when a commit is there, or do not sync.
        let is_patient = batch.is_patient()
            && turn.is_none()
            && !shared.answers_later
            && shared.durability == Durability::Sync;
        let may_lead = shared.lone.load(Ordering::Relaxed)
            && turn.is_none()
            && shared.engine.lets_writers_lead()
            && !shared.engine.may_be_held_up();
        let queued = Queued { seq: 0, batch, done, turn, under_way, is_patient };
        let (seq, leads) = shared.queue.push(queued, may_lead)?;
        Ok(PendingCommit { seq, receiver, lead: leads.then(|| self.0.shared.clone()) })
    }

    /// Permit to commit so many rows; `None` where they are few. Waits until the large commits
    /// before it are written, and longer where small ones have been waiting for those.
    pub async fn turn_for(&self, rows: usize) -> Result<Option<RowsPermit>, StorageError> {
        if rows <= SMALL_COMMIT_ROWS {
            return Ok(None);
        }
        let shared = self.shared();
        shared.check()?;
        witness::may_wait("a turn");
        shared.large_commits.turn(rows, || shared.queue.has_small_since()).await.map(Some)
    }

    /// A permit at once; `None` where others wait for one.
    pub fn try_turn_for(&self, rows: usize) -> Option<Option<RowsPermit>> {
        if rows <= SMALL_COMMIT_ROWS {
            return Some(None);
        }
        let shared = self.shared();
        shared.large_commits.try_turn(rows, || shared.queue.has_small_since()).map(Some)
    }

    /// A client asks for something of this shard: background work is to do small pieces.
    pub fn note_client(&self) {
        self.shared().foreground.note_client();
    }

    /// Whether a client has asked for something lately.
    pub fn has_clients(&self) -> bool {
        self.shared().foreground.has_clients()
    }

    /// A client's write has taken so long, with all that it waited for.
    pub fn note_write(&self, latency: Duration) {
        self.shared().foreground.note(latency);
    }

    /// Begins background work on some shards: the work between two pauses is a piece. `patience`
    /// divides its share of the time, for work that should leave most of the time to other
    /// background work.
    pub fn paced_work<'s>(shards: impl IntoIterator<Item = &'s Shard>, patience: u32) -> PacedWork {
        let foreground = |shard: &Shard| shard.shared().foreground.clone();
        PacedWork::begin(shards.into_iter().map(foreground).collect(), patience)
    }

    /// Everything that is acknowledged now: every commit whose future has resolved, and no commit that may still fail.
    pub fn view(&self) -> View {
        let shared = self.shared();
        shared.shown.view(&*shared.engine)
    }

    /// The acknowledged value of a key.
    pub fn get(&self, key: &[u8]) -> Lookup<Option<Value>> {
        self.view().get(key)
    }

    /// Sets the rows that are ever read with [`Shard::get_hot`] or in a [`Shard::cached_view`]:
    /// writers mark only those. The first call counts; later calls change nothing.
    pub fn reads_hot(&self, is_hot: fn(&[u8]) -> bool) {
        self.shared().hot.set_hot_keys(is_hot);
    }

    /// Sets the prefix length of keys that are scanned together, and the order in which they are
    /// mostly read. No range cached in memory extends beyond such a prefix (`range_cache.rs`). The
    /// first call counts; later calls change nothing.
    pub fn scans_hot(&self, family_of: fn(&[u8]) -> usize, layout_of: LayoutOf) {
        self.shared().range_cache.set_families(family_of, layout_of);
    }

    pub(crate) fn hot_ranges(&self) -> &Arc<RangeCache> {
        &self.shared().range_cache
    }

    /// The acknowledged value of a key that may well be asked for again (`row_cache.rs`).
    pub fn get_hot(&self, key: &[u8]) -> Lookup<Option<Found>> {
        let shared = &self.0.shared;
        if let Some(found) = shared.hot.get(key) {
            return Answer::Now(Ok(Some(found)));
        }
        let loads = shared.hot.loads();
        let view = self.view();
        let seq = view.seq();
        let kept = move |shared: &Shared, key: &[u8], value: Value| {
            shared.hot.keep(key, &value, seq, loads);
            Found { value, hot: None }
        };
        match view.get(key) {
            Answer::Now(value) => Answer::Now(value.map(|value| value.map(|value| kept(shared, key, value)))),
            Answer::Later(value) => {
                let (shared, key) = (shared.clone(), key.to_vec());
                Answer::later(async move { Ok(value.await?.map(|value| kept(&shared, &key, value))) })
            }
        }
    }

    /// Everything that is applied, which may come from a commit that fails yet: for planning a
    /// commit behind it. The view shows at least the commits up to [`View::seq`].
    pub fn applied_view(&self) -> View {
        let shared = self.shared();
        let seq = self.applied();
        View::new(shared.engine.view(), seq)
    }

    /// The newest applied value of one key.
    pub fn lookup_applied(&self, key: &[u8]) -> Lookup<Option<Value>> {
        self.shared().engine.get(key)
    }

    /// See [`View::reads_at_once`].
    pub fn reads_at_once(&self) -> bool {
        self.view().reads_at_once()
    }

    /// [`Shard::view`] by its old name.
    pub fn snapshot(&self) -> View {
        self.view()
    }

    /// [`Shard::applied_view`] by its old name.
    pub fn snapshot_applied(&self) -> View {
        self.applied_view()
    }

    /// [`Shard::lookup_applied`] by its old name.
    pub fn get_applied(&self, key: &[u8]) -> Lookup<Option<Value>> {
        self.lookup_applied(key)
    }

    /// The last commit in the engine.
    pub fn applied(&self) -> Seq {
        self.shared().applied.load(Ordering::Acquire)
    }

    /// The last commit that a crash cannot undo.
    pub fn durable(&self) -> Seq {
        *self.shared().durable.borrow()
    }

    /// Returns when a crash cannot undo the commit `seq` any more. It asks for the sync itself and so depends on no later
    /// commit. A `seq` that was never given to a commit is a mistake of the caller.
    pub async fn wait_durable(&self, seq: Seq) -> Result<(), StorageError> {
        let shared = self.shared();
        if self.durable() >= seq {
            return Ok(());
        }
        witness::may_wait("durability");
        let mut watermark = shared.durable.subscribe();
        shared.want_sync(seq);
        loop {
            if *watermark.borrow_and_update() >= seq {
                return Ok(());
            }
            shared.check()?;
            watermark.changed().await.map_err(|_| StorageError::Closed)?;
        }
    }

    /// See [`Engine::load`].
    pub(crate) fn load(&self, rows: &mut (dyn Iterator<Item = Row> + Send)) -> Result<(), StorageError> {
        self.shared().check()?;
        let loaded = self.shared().engine.load(rows);
        // Readers may be kept at the state before a group that began before the rows were there.
        self.shared().wait_for_writer();
        let shared = self.shared();
        shared.range_cache.note_load(shared.hot.note_load());
        self.shared().check()?;
        loaded
    }

    /// Whether rows are loaded past the log: not while the log is archived, since the archive would
    /// lack them.
    pub(crate) fn loads(&self) -> bool {
        self.shared().engine.loads() && self.shared().history.get().is_none()
    }

    /// Its work, caches and health in numbers. Asks for sizes of files.
    pub fn metrics(&self) -> ShardMetrics {
        let shared = self.shared();
        ShardMetrics {
            engine: shared.engine.state(),
            row_cache: shared.hot.state(),
            range_cache: shared.range_cache.state(),
            syncs: shared.syncs.counts(),
            is_poisoned: self.is_poisoned(),
        }
    }

    /// Bytes that its files take on the disk.
    pub fn disk_bytes(&self) -> u64 {
        self.shared().engine.disk_bytes()
    }

    /// Bytes that files may still take on its disk; `None` where it has no disk of its own.
    pub fn disk_free_bytes(&self) -> Option<u64> {
        self.shared().engine.disk_free_bytes()
    }

    /// Whether an answer may be returned: see [`crate::Lease`]. Checked after the read.
    pub fn is_leased(&self) -> bool {
        self.shared().engine.is_leased()
    }

    /// Whether its store takes writes, as far as its last commits show.
    ///
    /// # Errors
    /// [`StorageError::Unavailable`] while the store is known to fail, or a sync is under way for longer than [`SYNC_MAX`].
    pub fn check_store(&self) -> Result<(), StorageError> {
        if self.shared().sync_under_way.duration() > SYNC_MAX {
            return Err(StorageError::Unavailable { retry_after: Duration::from_secs(1) });
        }
        self.shared().engine.check_store()
    }

    /// Whether a write or sync has failed: no commit is accepted any more.
    pub fn is_poisoned(&self) -> bool {
        self.shared().poisoned.get().is_some()
    }

    /// The error that a commit would meet because a write or sync has failed.
    pub fn check_writable(&self) -> Result<(), StorageError> {
        self.shared().check()
    }

    /// Makes everything applied durable and sorts it to its place; commits continue meanwhile.
    pub async fn flush(&self) -> Result<(), StorageError> {
        self.shared().check()?;
        let flushed = self.0.work(|engine| engine.flush()).await;
        flushed.map_err(|error| self.shared().poison(&error))
    }

    /// Keeps the shard's state under a name: every commit acknowledged before the call, perhaps some that came since, and of
    /// each all or nothing. Writers wait while files are linked, after they were sorted.
    pub async fn checkpoint(&self, name: &str) -> Result<(), StorageError> {
        check_name(name)?;
        if !self.shared().engine.answers_later() {
            return Shard::checkpoint_shards(std::slice::from_ref(self), name).await.map(drop);
        }
        self.flush().await?;
        self.shared().engine.checkpoint(name).await
    }

    /// Opens the state that [`Shard::checkpoint`] kept, for reading: its commits are refused.
    pub async fn open_checkpoint(&self, name: &str) -> Result<Shard, StorageError> {
        check_name(name)?;
        let name = name.to_owned();
        let kept = self.0.work(move |engine| engine.open_checkpoint(&name)).await?;
        Shard::with_engine(kept, &ShardOptions::memory())
    }

    pub async fn remove_checkpoint(&self, name: &str) -> Result<(), StorageError> {
        check_name(name)?;
        let name = name.to_owned();
        self.0.work(move |engine| engine.remove_checkpoint(&name)).await
    }

    /// Finishes queued commits, makes them durable and prepares a fast start. Later commits are
    /// refused; reads continue. The directory is free for the next owner when the last handle, view
    /// and scan are dropped.
    pub async fn close(&self) -> Result<(), StorageError> {
        let inner = self.0.clone();
        // On a task, since the caller may stop waiting.
        let closing = tokio::spawn(async move { inner.closed.get_or_init(|| inner.close()).await.clone() });
        closing.await.map_err(|error| StorageError::io(error.to_string()))?
    }
}

/// Refuses sizes that no engine could store, before the batch gets a place in the order.
fn check_sizes(batch: &Batch) -> Result<(), StorageError> {
    for op in batch.iter() {
        let length = op.key().len();
        if length == 0 || length > KEY_BYTES_MAX {
            return Err(StorageError::KeyLength { length });
        }
    }
    Ok(())
}

impl ShardInner {
    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Engine) -> Answer<'_, T> + Send + 'static,
    ) -> Result<T, StorageError> {
        let engine = self.shared.engine.clone();
        if engine.answers_later() {
            return work(&*engine).await;
        }
        blocking(move || in_the_call(work(&*engine))).await
    }

    async fn close(&self) -> Result<(), StorageError> {
        self.shared.queue.close();
        let committer = self.committer.lock().expect("nothing panics under this lock").take();
        let panicked = || StorageError::io("the storage engine panicked");
        match committer {
            Some(Running::Thread(thread)) => {
                blocking(move || thread.join().map_err(|_| panicked())).await?;
            }
            Some(Running::Task(task)) => task.await.map_err(|_| panicked())?,
            None => {}
        }
        let shared = self.shared.clone();
        blocking(move || {
            shared.wait_for_writer();
            shared.check()
        })
        .await?;
        self.work(|engine| engine.close()).await
    }
}

pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StorageError> + Send + 'static,
) -> Result<T, StorageError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| StorageError::io(error.to_string()))?
}

impl Drop for ShardInner {
    /// Queued commits are finished even when no caller closed the shard.
    fn drop(&mut self) {
        self.shared.queue.close();
        let committer = self.committer.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Running::Thread(thread)) = committer {
            let _ = thread.join();
        }
    }
}
