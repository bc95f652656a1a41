//! Rows that are read again and again, in memory in front of the engine.
//!
//! To read one row, a local engine searches memtables and blocks and copies the row, and an object
//! store needs a round trip. Here are the rows that [`crate::Shard::get_hot`] has read lately,
//! within a bound of bytes. A row may have a *form*, which its reader derived from it when it was
//! read again, and which is removed with the row. Only the reader knows the content of the form.
//!
//! A row is shown only while it is the acknowledged one (`view.rs`). Before a group of commits is applied, its committer writes
//! the group's number to the marks of its keys. A row that was read from a view is good while its key's mark is not above the view's
//! number:
//!
//! ```text
//! committer   mark(k) = 9 ─ hold ─ apply 8, 9 ─ sync ─ show 9 ─ writers are notified
//! rows of k   from view 7: not good any more, whenever it is put here
//!                                                      from view 9: good
//! ```
//!
//! So no row is removed for a write, and a slow reader may put an old row here: no reader gets it.
//! Between mark and show a read uses the engine's view, and so it does for the keys of a group that
//! failed. Several keys share a mark: a write to one costs the others a read of the engine. Rows
//! loaded past the log (`bulk.rs`) have no number: the end of a load ends the rows from before it.
//! The cache does not record that a key has no row.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use xxhash_rust::xxh3::xxh3_64;

use crate::batch::Batch;
use crate::shard_metrics::{CacheState, LookupCounts};

/// The number of a commit, and of a view: its last commit.
type Number = u64;

/// A power of two.
const MARKS: usize = 1 << 14;
/// Larger rows are not kept: they would drive many others out.
const ROW_BYTES_MAX: usize = 64 << 10;
/// A form is kept if it is no longer than its row and this: the most that a reader may add.
const FORM_EXTRA_BYTES: usize = 512;
/// Bytes of a row besides its key and value.
const ROW_OVERHEAD_BYTES: usize = 160;
/// A guess from which the cache sizes its tables at first.
const ROW_BYTES_GUESS: u64 = 4096;

/// A row that was found, and its place here if it was here.
#[derive(Debug, Clone)]
pub struct Found {
    pub value: Bytes,
    /// `None` where it was read from the engine.
    pub hot: Option<CachedRow>,
}

/// A row that is kept, as it was when it was read.
#[derive(Debug, Clone)]
pub struct CachedRow(Arc<Kept>);

#[derive(Debug)]
struct Kept {
    value: Bytes,
    /// The number of the view that it was read from.
    seq: Number,
    /// Loads that had ended before.
    loads: u64,
    form: OnceLock<Bytes>,
}

impl CachedRow {
    /// The form that its reader derived.
    pub fn form(&self) -> Option<&Bytes> {
        self.0.form.get()
    }

    /// Keeps a form that a reader derived, unless the form is much longer than the row.
    pub fn keep_form(&self, form: &Bytes) {
        if form.len() <= self.0.value.len() + FORM_EXTRA_BYTES {
            let _first_stays = self.0.form.set(form.clone());
        }
    }
}

/// Counts room for a form from the start, since the weight of a row must not change.
#[derive(Debug, Clone)]
struct Weight;

impl Weighter<Box<[u8]>, CachedRow> for Weight {
    fn weight(&self, key: &Box<[u8]>, row: &CachedRow) -> u64 {
        (key.len() + 2 * row.0.value.len() + FORM_EXTRA_BYTES + ROW_OVERHEAD_BYTES) as u64
    }
}

#[derive(Debug)]
pub(crate) struct RowCache {
    /// `None` where no memory is given to it.
    rows: Option<Cache<Box<[u8]>, CachedRow, Weight>>,
    /// The last group that wrote, or is about to write, one of the keys of a mark.
    marks: Box<[AtomicU64]>,
    /// Loads that have ended.
    loads: AtomicU64,
    /// The keys that are ever read through this cache; all until [`RowCache::set_hot_keys`] is called.
    is_hot: OnceLock<fn(&[u8]) -> bool>,
    bytes_max: u64,
    lookups: LookupCounts,
}

impl RowCache {
    pub fn new(bytes_max: u64) -> RowCache {
        let guess = (bytes_max / ROW_BYTES_GUESS) as usize;
        RowCache {
            rows: (bytes_max > 0).then(|| Cache::with_weighter(guess, bytes_max, Weight)),
            marks: (0..MARKS).map(|_| AtomicU64::new(0)).collect(),
            loads: AtomicU64::new(0),
            is_hot: OnceLock::new(),
            bytes_max,
            lookups: LookupCounts::default(),
        }
    }

    /// Sets the keys that are ever read through this cache. The first call counts; later calls
    /// change nothing.
    pub fn set_hot_keys(&self, is_hot: fn(&[u8]) -> bool) {
        let _first_stays = self.is_hot.set(is_hot);
    }

    /// Marks the keys of a group; called by the committer before it applies the group.
    pub fn mark(&self, batches: &[Batch], last: Number) {
        if self.rows.is_none() {
            return;
        }
        let keys = batches.iter().flat_map(Batch::iter).map(|op| op.key());
        for key in keys.filter(|key| self.is_hot(key)) {
            let mark = self.mark_of(key);
            debug_assert!(mark.load(Ordering::Relaxed) <= last, "the mark of a key never falls");
            mark.store(last, Ordering::Release);
        }
    }

    /// Rows that were loaded past the log are shown from now on.
    /// How many loads have ended now.
    pub fn note_load(&self) -> u64 {
        self.loads.fetch_add(1, Ordering::AcqRel) + 1
    }

    fn is_hot(&self, key: &[u8]) -> bool {
        self.is_hot.get().is_none_or(|is_hot| is_hot(key))
    }

    fn mark_of(&self, key: &[u8]) -> &AtomicU64 {
        &self.marks[xxh3_64(key) as usize % MARKS]
    }

    /// Counted before a view is got whose rows are to be kept.
    pub fn loads(&self) -> u64 {
        self.loads.load(Ordering::Acquire)
    }

    pub fn get(&self, key: &[u8]) -> Option<Found> {
        let rows = self.rows.as_ref()?;
        let hash = xxh3_64(key);
        let mark = &self.marks[hash as usize % MARKS];
        let is_good =
            |row: &CachedRow| mark.load(Ordering::Acquire) <= row.0.seq && row.0.loads == self.loads();
        let row = rows.get(key).filter(is_good);
        self.lookups.note(hash, row.is_some());
        row.map(|row| Found { value: row.0.value.clone(), hot: Some(row) })
    }

    pub fn state(&self) -> CacheState {
        self.lookups.state(self.rows.as_ref().map_or(0, Cache::weight), self.bytes_max)
    }

    /// The row that a view of this number shows, if the view was made when so many loads had ended.
    pub fn get_of_view(&self, key: &[u8], seq: Number, loads: u64) -> Option<Bytes> {
        let found = self.get(key)?;
        let is_of_view = loads == self.loads() && found.hot.is_some_and(|row| row.0.seq <= seq);
        is_of_view.then_some(found.value)
    }

    /// Caches a row that the view of a number showed.
    pub fn keep(&self, key: &[u8], value: &[u8], seq: Number, loads: u64) {
        let Some(rows) = &self.rows else { return };
        if value.len() > ROW_BYTES_MAX || !self.is_hot(key) || self.mark_of(key).load(Ordering::Acquire) > seq
        {
            return;
        }
        // A copy: the engine's value may hold the whole block that it lies in.
        let value = Bytes::copy_from_slice(value);
        rows.insert(key.into(), CachedRow(Arc::new(Kept { value, seq, loads, form: OnceLock::new() })));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_of(key: &str) -> Vec<Batch> {
        let mut batch = Batch::new();
        batch.put(key.to_owned().into_bytes(), "x");
        vec![batch]
    }

    fn value_of(hot: &RowCache, key: &str) -> Option<Bytes> {
        hot.get(key.as_bytes()).map(|found| found.value)
    }

    #[test]
    fn row_is_good_until_its_key_is_about_to_be_written() {
        let hot = RowCache::new(1 << 20);
        hot.keep(b"k", b"seven", 7, 0);
        assert_eq!(value_of(&hot, "k"), Some("seven".into()));
        hot.mark(&write_of("other"), 8);
        assert_eq!(value_of(&hot, "k"), Some("seven".into()));
        hot.mark(&write_of("k"), 9);
        assert_eq!(value_of(&hot, "k"), None, "the group may show at any moment");
        hot.keep(b"k", b"seven", 7, 0);
        hot.keep(b"k", b"seven", 8, 0);
        assert_eq!(value_of(&hot, "k"), None, "a slow reader's row is of no use");
        hot.keep(b"k", b"nine", 9, 0);
        assert_eq!(value_of(&hot, "k"), Some("nine".into()));
    }

    #[test]
    fn slow_reader_may_put_an_old_row_in_the_place_of_a_new_one() {
        let hot = RowCache::new(1 << 20);
        let rows = hot.rows.as_ref().expect("it has memory");
        hot.mark(&write_of("k"), 9);
        // Past the look at the mark.
        let old = Kept { value: "seven".into(), seq: 7, loads: 0, form: OnceLock::new() };
        rows.insert(b"k"[..].into(), CachedRow(Arc::new(old)));
        assert_eq!(value_of(&hot, "k"), None);
    }

    #[test]
    fn view_has_no_row_that_may_be_later_than_itself() {
        let hot = RowCache::new(1 << 20);
        hot.keep(b"k", b"seven", 7, 0);
        assert_eq!(hot.get_of_view(b"k", 7, 0), Some("seven".into()));
        assert_eq!(hot.get_of_view(b"k", 9, 0), Some("seven".into()));
        assert_eq!(hot.get_of_view(b"k", 6, 0), None, "commit 7 may have written it");
        hot.mark(&write_of("k"), 10);
        assert_eq!(hot.get_of_view(b"k", 9, 0), None);
        hot.keep(b"k", b"ten", 10, 0);
        assert_eq!(hot.get_of_view(b"k", 9, 0), None);
        hot.note_load();
        hot.keep(b"k", b"loaded", 10, hot.loads());
        assert_eq!(hot.get_of_view(b"k", 10, 0), None, "the view may be from before the load");
        assert_eq!(hot.get_of_view(b"k", 10, 1), Some("loaded".into()));
    }

    #[test]
    fn load_ends_what_was_read_before_its_end() {
        let hot = RowCache::new(1 << 20);
        hot.keep(b"k", b"old", 7, hot.loads());
        let before = hot.loads();
        hot.note_load();
        assert_eq!(value_of(&hot, "k"), None);
        hot.keep(b"k", b"old", 7, before);
        assert_eq!(value_of(&hot, "k"), None);
        hot.keep(b"k", b"new", 7, hot.loads());
        assert_eq!(value_of(&hot, "k"), Some("new".into()));
    }

    #[test]
    fn rows_stay_within_their_bound() {
        let hot = RowCache::new(64 << 10);
        let value = Bytes::from(vec![1; 1000]);
        for number in 0..1000 {
            hot.keep(format!("key-{number}").as_bytes(), &value, 0, 0);
        }
        let rows = hot.rows.as_ref().expect("it has memory");
        assert!(rows.weight() <= 64 << 10, "{}", rows.weight());
        assert!(rows.len() > 10, "{}", rows.len());
        hot.keep(b"large", &vec![1; ROW_BYTES_MAX + 1], 0, 0);
        assert!(value_of(&hot, "large").is_none());
        assert!(RowCache::new(0).rows.is_none());
    }
}
