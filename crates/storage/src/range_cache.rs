//! Ranges that are scanned again and again, in memory in front of the engine.
//!
//! A [`Stretch`] holds every row from one key to another as a view showed them, so that absent keys
//! are known as well: a scan goes from stretch to stretch and asks the engine for the gaps
//! (`cached_scan.rs`). ScyllaDB's row cache keeps continuous ranges as well.
//!
//! A stretch is right for a view if it was read from that view or an earlier one and no group of
//! commits has written between its keys since. As with rows (`row_cache.rs`), the committer marks
//! the keys of a group *before* it applies the group:
//!
//! ```text
//! committer   mark: the stretches that the group writes into go ─ hold ─ apply ─ sync ─ show
//! scan        of view 7: reads a gap … keeps it, unless a group behind 7 has marked a key in it
//! ```
//!
//! The keys of the last groups are remembered for that; a scan that was slower than these groups
//! caches nothing. Rows loaded past the log end all stretches. A stretch never leaves its *family*,
//! the keys that start alike as far as the partition defines (one path of an index, for example).
//! Families share *slots*, which record whether they are scanned, so that a writer passes over most
//! of its keys.
//!
//! Scans that read a cached stretch may note that they have checked its rows, so that later scans
//! need not check them again. They may also cache data that they extracted from it.
//!
//! A range is cached when it is scanned for the second time: a range that is read once should not
//! be copied. After a write into it, it has to be scanned twice again.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

use bytes::Bytes;
use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::xxh3_64;

use crate::Row;
use crate::batch::Batch;
use crate::rows::RowsInMemory;
use crate::shard_metrics::{CacheState, LookupCounts};

/// The number of a commit, and of a view: its last commit.
type Number = u64;

/// Keys of the last groups that are remembered.
const RECENT_KEYS_MAX: usize = 4096;
/// Groups since the last scan of a slot's families after which keys of it are not remembered any more.
const GROUPS_WITHOUT_SCANS_MAX: u64 = 1024;
const SLOTS: usize = 1024;
/// A power of two.
const SEEN: usize = 1 << 13;
/// Bytes of a row and of a stretch besides their keys and values.
const ROW_OVERHEAD_BYTES: usize = 64;
/// Bytes of rows for each byte that readers may cache next to them.
const BYTES_PER_BYTE_OF_EXTRACT: usize = 8;
const STRETCH_OVERHEAD_BYTES: usize = 400;
/// A larger stretch would drive too many others out.
const STRETCH_BYTES_MAX: usize = 1 << 20;
/// Places of evicted stretches in the queue of eviction before they are cleared away.
const GONE_MAX: usize = 1024;

/// All rows whose keys are in `[from, to)`.
#[derive(Debug)]
pub(crate) struct Stretch {
    pub from: Bytes,
    pub to: Bytes,
    pub rows: Arc<RowsInMemory>,
    family: Box<[u8]>,
    /// The number of the view that it was read from.
    seq: Number,
    size_bytes: usize,
    was_used: AtomicBool,
}

impl Stretch {
    /// The places of the rows whose keys are in a range.
    pub fn places(&self, range: &Range<Bytes>) -> Range<usize> {
        let place = |bound: &Bytes| self.rows.partition_point(|(key, _)| key < bound);
        let start = if range.start <= self.from { 0 } else { place(&range.start) };
        let end = if range.end >= self.to { self.rows.len() } else { place(&range.end) };
        start..end.max(start)
    }
}

/// The content at the beginning of a range, or at its end for a scan that goes backwards.
pub(crate) enum Found {
    Stretch(Arc<Stretch>),
    /// Nothing that is of use up to this key.
    Gap(Bytes),
}

/// The view that asks: its number, and the loads that had ended before it was taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seer {
    pub seq: Number,
    pub loads: u64,
}

/// In which order rows are mostly read, by place, where it is not that of their keys: so they lie in memory.
pub type LayoutOf = fn(&[Row]) -> Option<Arc<[u32]>>;

#[derive(Debug)]
pub(crate) struct RangeCache {
    /// Zero where no memory is given to it.
    bytes_max: u64,
    /// How long the part is that the keys of a family start with.
    family_of: OnceLock<fn(&[u8]) -> usize>,
    layout_of: OnceLock<LayoutOf>,
    /// Hashes of the places where scans met gaps lately.
    seen: Box<[AtomicU64]>,
    /// By the hash of the family.
    slots: Box<[Slot]>,
    kept: RwLock<Kept>,
    lookups: LookupCounts,
}

/// State of the families whose hashes collide. Changed only under the write lock of the cache,
/// except for `scanned_at`.
#[derive(Debug, Default)]
struct Slot {
    /// The group after the last that had been marked when a scan began; 0 where none has.
    scanned_at: AtomicU64,
    /// Keys that groups up to this one wrote in these families are not remembered.
    forgotten: AtomicU64,
    stretches: AtomicUsize,
}

impl Slot {
    fn is_scanned(&self, group: Number) -> bool {
        let scanned_at = self.scanned_at.load(Ordering::Acquire);
        scanned_at > 0 && group.saturating_sub(scanned_at) < GROUPS_WITHOUT_SCANS_MAX
    }
}

#[derive(Debug, Default)]
struct Kept {
    /// By family, then by `from`. They do not overlap.
    families: FxHashMap<Box<[u8]>, BTreeMap<Bytes, Arc<Stretch>>>,
    /// In the order in which they may go.
    queue: VecDeque<Weak<Stretch>>,
    stretches: usize,
    size_bytes: u64,
    loads: u64,
    /// The last group that was marked.
    marked: Number,
    /// Keys that groups up to this one wrote are not remembered.
    forgotten: Number,
    recent: VecDeque<(Number, Vec<Bytes>)>,
    recent_keys: usize,
}

impl RangeCache {
    pub fn new(bytes_max: u64) -> RangeCache {
        RangeCache {
            bytes_max,
            family_of: OnceLock::new(),
            layout_of: OnceLock::new(),
            seen: (0..SEEN).map(|_| AtomicU64::new(0)).collect(),
            slots: (0..SLOTS).map(|_| Slot::default()).collect(),
            kept: RwLock::default(),
            lookups: LookupCounts::default(),
        }
    }

    /// Sets the length of the prefix that the keys of a family share, and the layout of rows. The
    /// first call counts; later calls change nothing.
    pub fn set_families(&self, family_of: fn(&[u8]) -> usize, layout_of: LayoutOf) {
        let _first_stays = self.family_of.set(family_of);
        let _first_stays = self.layout_of.set(layout_of);
    }

    /// The family that has the whole range; `None` where there is none or nothing is kept.
    pub fn family(&self, range: &Range<Vec<u8>>) -> Option<Box<[u8]>> {
        if self.bytes_max == 0 {
            return None;
        }
        let family = range.start.get(..self.family_length(&range.start))?;
        is_within(family, &range.end).then(|| family.into())
    }

    fn slot(&self, family: &[u8]) -> &Slot {
        &self.slots[xxh3_64(family) as usize % SLOTS]
    }

    fn family_length(&self, key: &[u8]) -> usize {
        self.family_of.get().map_or(0, |family_of| family_of(key))
    }

    fn read(&self) -> RwLockReadGuard<'_, Kept> {
        self.kept.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Kept> {
        self.kept.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the stretches that a group is about to write into; called by the committer before it applies the group.
    pub fn mark(&self, batches: &[Batch], last: Number) {
        if self.bytes_max == 0 {
            return;
        }
        let mut remembered = Vec::new();
        let mut kept = self.write();
        debug_assert!(last >= kept.marked, "groups are marked in the order of their numbers");
        kept.marked = last;
        for key in batches.iter().flat_map(Batch::iter).map(|op| op.key()) {
            let Some(family) = key.get(..self.family_length(key)) else { continue };
            let slot = self.slot(family);
            if slot.is_scanned(last) {
                remembered.push(key.clone());
            } else {
                slot.forgotten.store(last, Ordering::Relaxed);
            }
            if slot.stretches.load(Ordering::Relaxed) > 0
                && let Some(stretch) = kept.end_at(family, key)
            {
                self.note_gone(&stretch);
                // It has to be met twice again.
                self.seen[place(&stretch.from)].store(0, Ordering::Relaxed);
            }
        }
        if !remembered.is_empty() {
            kept.remember(last, remembered);
        }
    }

    fn note_gone(&self, stretch: &Stretch) {
        self.slot(&stretch.family).stretches.fetch_sub(1, Ordering::Relaxed);
    }

    /// Rows that were loaded past the log are shown from now on.
    pub fn note_load(&self, loads: u64) {
        let mut kept = self.write();
        kept.loads = kept.loads.max(loads);
        kept.families.clear();
        kept.queue.clear();
        kept.stretches = 0;
        kept.size_bytes = 0;
        self.slots.iter().for_each(|slot| slot.stretches.store(0, Ordering::Relaxed));
    }

    /// A scan begins.
    pub fn note_scan(&self, family: &[u8]) {
        let next = self.read().marked + 1;
        self.slot(family).scanned_at.store(next, Ordering::Release);
    }

    pub fn state(&self) -> CacheState {
        self.lookups.state(self.read().size_bytes, self.bytes_max)
    }

    /// The cached content at the beginning of a range that is not empty, or at its end.
    pub fn find(&self, family: &[u8], range: &Range<Bytes>, reverse: bool, seer: Seer) -> Found {
        let found = self.find_kept(family, range, reverse, seer);
        // Threads mostly scan families of their own, whose ends differ.
        let stripe = family.iter().rev().take(4).fold(0, |sum, byte| sum * 31 + u64::from(*byte));
        self.lookups.note(stripe << 32, matches!(found, Found::Stretch(_)));
        found
    }

    fn find_kept(&self, family: &[u8], range: &Range<Bytes>, reverse: bool, seer: Seer) -> Found {
        let bound = if reverse { &range.start } else { &range.end };
        let kept = self.read();
        let Some(stretches) = kept.families.get(family).filter(|_| kept.loads == seer.loads) else {
            return Found::Gap(bound.clone());
        };
        let is_good = |stretch: &Arc<Stretch>| stretch.seq <= seer.seq;
        let used = |stretch: &Arc<Stretch>| {
            stretch.was_used.store(true, Ordering::Relaxed);
            Found::Stretch(stretch.clone())
        };
        if reverse {
            let before = stretches.range::<[u8], _>((Unbounded, Excluded(&range.end[..]))).next_back();
            return match before {
                Some((_, stretch)) if stretch.to >= range.end && is_good(stretch) => used(stretch),
                Some((_, stretch)) if stretch.to >= range.end => {
                    Found::Gap(stretch.from.clone().max(bound.clone()))
                }
                Some((_, stretch)) => Found::Gap(stretch.to.clone().max(bound.clone())),
                None => Found::Gap(bound.clone()),
            };
        }
        let at = stretches.range::<[u8], _>((Unbounded, Included(&range.start[..]))).next_back();
        match at {
            Some((_, stretch)) if stretch.to > range.start && is_good(stretch) => used(stretch),
            Some((_, stretch)) if stretch.to > range.start => {
                Found::Gap(stretch.to.clone().min(bound.clone()))
            }
            _ => {
                let next =
                    stretches.range::<[u8], _>((Excluded(&range.start[..]), Excluded(&range.end[..]))).next();
                Found::Gap(next.map_or_else(|| bound.clone(), |(from, _)| from.clone()))
            }
        }
    }

    /// Whether a scan met a gap at this place lately; from now on one has.
    pub fn was_seen(&self, key: &[u8]) -> bool {
        let hash = xxh3_64(key);
        self.seen[place(key)].swap(hash, Ordering::Relaxed) == hash
    }

    fn copy(&self, rows: &[Row], rows_bytes: usize) -> Vec<Row> {
        let layout = self.layout_of.get().and_then(|layout_of| layout_of(rows));
        copy(rows, rows_bytes, layout.as_deref())
    }

    /// Keeps all rows of a range as a view showed them, unless they may have changed since.
    pub fn keep(&self, family: &[u8], range: Range<Bytes>, rows: &[Row], seer: Seer) {
        debug_assert!(rows.is_sorted_by(|left, right| left.0 < right.0), "kept rows ascend by their keys");
        debug_assert!(
            rows.iter().all(|(key, _)| range.contains(key)),
            "kept rows lie in the range they are kept for"
        );
        let rows_bytes: usize = rows.iter().map(|(key, value)| key.len() + value.len()).sum();
        let extract_bytes_max = rows_bytes / BYTES_PER_BYTE_OF_EXTRACT;
        let size_bytes =
            rows_bytes + rows.len() * ROW_OVERHEAD_BYTES + STRETCH_OVERHEAD_BYTES + extract_bytes_max;
        if size_bytes > STRETCH_BYTES_MAX || size_bytes as u64 > self.bytes_max / 8 {
            return;
        }
        let stretch = Arc::new(Stretch {
            // Copies: the engine's rows may hold the whole blocks that they lie in.
            rows: Arc::new(RowsInMemory::new(self.copy(rows, rows_bytes), extract_bytes_max)),
            from: Bytes::copy_from_slice(&range.start),
            to: Bytes::copy_from_slice(&range.end),
            family: family.into(),
            seq: seer.seq,
            size_bytes,
            was_used: AtomicBool::new(false),
        });
        let slot = self.slot(family);
        let mut kept = self.write();
        let is_right = kept.loads == seer.loads
            && slot.forgotten.load(Ordering::Relaxed) <= seer.seq
            && !kept.may_have_changed(&stretch);
        if is_right && !kept.overlaps(&stretch) {
            let gone = kept.evict_to(self.bytes_max.saturating_sub(size_bytes as u64));
            gone.iter().for_each(|stretch| self.note_gone(stretch));
            kept.add(stretch);
            assert!(kept.size_bytes <= self.bytes_max, "the cached ranges stay within their memory");
            slot.stretches.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Where the hash of a key is noted.
fn place(key: &[u8]) -> usize {
    xxh3_64(key) as usize % SEEN
}

/// Whether a range that starts in a family and ends before this key leaves it nowhere.
fn is_within(family: &[u8], end: &[u8]) -> bool {
    end.starts_with(family) || is_next(family, end)
}

/// Whether this is the first key behind all keys that start with a prefix.
fn is_next(prefix: &[u8], end: &[u8]) -> bool {
    let Some(last) = prefix.iter().rposition(|byte| *byte != 0xFF) else { return false };
    end.len() == last + 1 && end[..last] == prefix[..last] && end[last] == prefix[last] + 1
}

/// Copies of rows in one piece of memory, in an order or as they come.
fn copy(rows: &[Row], rows_bytes: usize, layout: Option<&[u32]>) -> Vec<Row> {
    assert!(
        layout.is_none_or(|layout| layout.len() == rows.len()),
        "a layout of cached rows places each row once"
    );
    let mut bytes = Vec::with_capacity(rows_bytes);
    let mut starts = vec![0; rows.len()];
    for number in 0..rows.len() {
        let place = layout.map_or(number, |layout| layout[number] as usize);
        let (key, value) = &rows[place];
        starts[place] = bytes.len();
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
    }
    assert_eq!(bytes.len(), rows_bytes, "cached rows are copied whole");
    let all = Bytes::from(bytes);
    let copy_of = |((key, value), start): (&Row, usize)| {
        let key_end = start + key.len();
        (all.slice(start..key_end), all.slice(key_end..key_end + value.len()))
    };
    rows.iter().zip(starts).map(copy_of).collect()
}

impl Kept {
    /// Ends the stretch that a key lies in.
    fn end_at(&mut self, family: &[u8], key: &[u8]) -> Option<Arc<Stretch>> {
        let stretches = self.families.get(family)?;
        let (_, stretch) = stretches.range::<[u8], _>((Unbounded, Included(key))).next_back()?;
        if &stretch.to[..] <= key {
            return None;
        }
        let stretch = stretch.clone();
        self.remove(family, &stretch.from);
        Some(stretch)
    }

    fn remove(&mut self, family: &[u8], from: &[u8]) {
        let Some(stretches) = self.families.get_mut(family) else { return };
        if let Some(stretch) = stretches.remove(from) {
            assert!(self.stretches > 0, "each cached range is counted");
            self.size_bytes -= stretch.size_bytes as u64;
            self.stretches -= 1;
        }
        if stretches.is_empty() {
            self.families.remove(family);
        }
        if self.queue.len() > 2 * self.stretches + GONE_MAX {
            self.queue.retain(|stretch| stretch.strong_count() > 0);
        }
    }

    fn add(&mut self, stretch: Arc<Stretch>) {
        self.size_bytes += stretch.size_bytes as u64;
        self.stretches += 1;
        self.queue.push_back(Arc::downgrade(&stretch));
        self.families.entry(stretch.family.clone()).or_default().insert(stretch.from.clone(), stretch);
    }

    /// Lets stretches go that were not used since they were last looked at, until the rest is no larger than this: these.
    fn evict_to(&mut self, bytes_max: u64) -> Vec<Arc<Stretch>> {
        let mut gone = Vec::new();
        while self.size_bytes > bytes_max
            && let Some(next) = self.queue.pop_front()
        {
            let Some(stretch) = next.upgrade() else { continue };
            let stands = self.families.get(&stretch.family).and_then(|kept| kept.get(&stretch.from));
            if !stands.is_some_and(|kept| Arc::ptr_eq(kept, &stretch)) {
                continue;
            }
            if stretch.was_used.swap(false, Ordering::Relaxed) {
                self.queue.push_back(next);
            } else {
                self.remove(&stretch.family, &stretch.from);
                gone.push(stretch);
            }
        }
        gone
    }

    /// Whether a group behind the view that it was read from has written into a stretch, as far as is remembered.
    fn may_have_changed(&self, stretch: &Stretch) -> bool {
        let is_in = |key: &Bytes| stretch.from <= key && key < &stretch.to;
        let later = self.recent.iter().rev().take_while(|(last, _)| *last > stretch.seq);
        self.forgotten > stretch.seq || later.flat_map(|(_, keys)| keys).any(is_in)
    }

    fn overlaps(&self, stretch: &Stretch) -> bool {
        let Some(stretches) = self.families.get(&stretch.family) else { return false };
        let before = stretches.range::<[u8], _>((Unbounded, Excluded(&stretch.to[..]))).next_back();
        before.is_some_and(|(_, before)| before.to > stretch.from)
    }

    fn remember(&mut self, last: Number, keys: Vec<Bytes>) {
        self.recent_keys += keys.len();
        self.recent.push_back((last, keys));
        while self.recent_keys > RECENT_KEYS_MAX
            && let Some((number, keys)) = self.recent.pop_front()
        {
            self.recent_keys -= keys.len();
            self.forgotten = number;
            debug_assert!(number >= self.forgotten, "writes are forgotten in their order");
        }
        assert!(self.recent_keys <= RECENT_KEYS_MAX, "the list of recent writes is bounded");
    }
}
