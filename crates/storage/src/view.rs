//! Views for readers: acknowledged writes only.
//!
//! An engine shows a group of commits as soon as it is applied, which is before the group is
//! acknowledged. So the committer keeps readers at the view *before* a group for as long as the
//! group is not acknowledged:
//!
//! ```text
//! committer   hold ── apply ── sync ── show ── durable moves ── writers are notified
//! readers     │◄─── the view before the group ─►│◄─── a view with the group
//! ```
//!
//! A reader neither waits for a sync nor learns of a write that a crash could still undo. A client
//! whose write was acknowledged finds it, because the view is shown first. After a failure no new
//! write is shown: readers stay at the last acknowledged state. Where a commit is acknowledged when
//! it is applied ([`crate::Durability::Async`]), the view is shown then.
//!
//! All readers share one view, so that a read makes none. While no group is on its way, the first reader after the engine
//! has sorted or loaded something replaces it: an old view reads from the files of its time and keeps them from being
//! reclaimed.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use bytes::Bytes;

use crate::{Engine, EngineScan, EngineView, Lookup, Scan, ScanOptions, Seq, StorageError, Value};

/// A consistent view of one point in time. It holds back the reclaiming of the rows that it shows:
/// keep it short.
#[derive(Clone)]
pub struct View(Arc<Seen>);

struct Seen {
    engine: Box<dyn EngineView>,
    seq: Seq,
}

impl View {
    pub(crate) fn new(engine: Box<dyn EngineView>, seq: Seq) -> Self {
        View(Arc::new(Seen { engine, seq }))
    }

    /// The last commit that it shows, and with it every one before; of a view of [`crate::Shard::view`], none after.
    pub fn seq(&self) -> Seq {
        self.0.seq
    }

    pub fn get(&self, key: &[u8]) -> Lookup<Option<Value>> {
        self.0.engine.get(key)
    }

    /// The values of the keys, in the order of the keys, in as many round trips to a slow store as there are 128 keys.
    pub fn get_many(&self, keys: Vec<Bytes>) -> Lookup<Vec<Option<Value>>> {
        self.0.engine.get_many(keys)
    }

    /// The values of borrowed keys.
    pub async fn multi_get(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Value>>, StorageError> {
        self.get_many(keys.iter().map(|key| Bytes::copy_from_slice(key.as_ref())).collect()).await
    }

    /// Rows of `[start, end)`.
    pub fn scan(&self, range: Range<Vec<u8>>, options: ScanOptions) -> Scan {
        let rows_left = if range.is_empty() { 0 } else { options.limit.unwrap_or(usize::MAX) };
        let scan = (rows_left > 0).then(|| self.0.engine.scan(range, options));
        Scan::new(scan, rows_left, options.read_ahead_bytes > 0)
    }

    /// Rows of a range that is not empty, as the engine gives them.
    pub(crate) fn engine_scan(&self, range: Range<Vec<u8>>, options: ScanOptions) -> Box<dyn EngineScan> {
        self.0.engine.scan(range, options)
    }

    /// Whether reads are answered at once, as far as the engine can predict. A single read may
    /// still be [`crate::Answer::Later`]; a caller that gets `true` need not gather keys to read
    /// them in one batch.
    pub fn reads_at_once(&self) -> bool {
        self.0.engine.reads_at_once()
    }
}

/// The view that readers share.
pub(crate) struct Shown {
    view: ArcSwap<Seen>,
    /// A group is on its way, or failed: only the committer may replace the view.
    is_held: AtomicBool,
    /// Held by the thread that replaces the view, and while `is_held` changes.
    changing: Mutex<()>,
}

impl Shown {
    pub fn new(engine: &dyn Engine) -> Self {
        let seen = View::new(engine.view(), 0).0;
        Shown { view: ArcSwap::new(seen), is_held: AtomicBool::new(false), changing: Mutex::default() }
    }

    /// The acknowledged state.
    pub fn view(&self, engine: &dyn Engine) -> View {
        let seen = self.view.load_full();
        if self.is_held.load(Ordering::Acquire) || seen.engine.moment() == engine.moment() {
            return View(seen);
        }
        let _changing = self.change();
        let shown = self.view.load_full();
        // No group begins meanwhile, so that the new view shows the same commits.
        if self.is_held.load(Ordering::Acquire) {
            return View(shown);
        }
        let view = View::new(engine.view(), shown.seq);
        self.view.store(view.0.clone());
        view
    }

    fn change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps readers at the acknowledged state; called by the committer before a group is applied.
    pub fn hold(&self) {
        let _changing = self.change();
        self.is_held.store(true, Ordering::Release);
    }

    /// Shows readers a group, before its writers are notified. With `goes_on`, another one is
    /// applied or will be.
    pub fn show(&self, view: View, goes_on: bool) {
        let _changing = self.change();
        assert!(view.seq() >= self.view.load().seq, "a shown view never moves back");
        self.view.store(view.0);
        self.is_held.store(goes_on, Ordering::Release);
    }
}
