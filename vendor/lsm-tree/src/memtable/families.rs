// Copyright (c) 2024-present, fjall-rs
// This source code is licensed under both the Apache 2.0 and MIT License
// (found in the LICENSE-* files in the repository)

//! Entries of a memtable that are sorted late
//!
//! Entries without a value whose keys belong to a family ([`KeyKinds`]) are kept in the order in which they came. Somebody
//! who reads the family sorts what has come since the last reader; who flushes the memtable sorts the rest. What nobody
//! reads between two flushes is so sorted once, where it lies side by side, and has never been through the skip list.
//!
//! ```text
//! tail   as they came, up to TAIL_MAX entries
//! runs   sorted; the next takes along those before it that are much too short, and of RUNS_MAX short ones MERGED_RUNS become one
//! ```

use crate::{
    config::KeyKinds, key::InternalKey, table::util::longest_shared_prefix_length, InternalValue, SeqNo,
    UserValue,
};
use std::{
    collections::BTreeMap,
    ops::{Bound, Range},
    sync::{
        atomic::{AtomicUsize, Ordering},
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
    },
};

/// Who reads a family, or fills its tail, never has more to sort
const TAIL_MAX: usize = 1_024;

/// By how much the tails of families differ
const TAIL_SPREAD: usize = TAIL_MAX / 4;

/// Runs up to this length are short
const SHORT_MAX: usize = 2 * TAIL_MAX;

/// Readers look into each run, so that short ones may not be more
const RUNS_MAX: usize = 32;

/// So many short runs become one that is not merged again: somebody waits for it, and would for ever longer ones
const MERGED_RUNS: usize = 16;

/// Bytes of a key that are compared at once
const HEAD: usize = size_of::<u64>();

/// So few rows are compared byte by byte
const FEW: usize = 8;

/// How often rows are looked at again that have their heads in common
const DEPTH_MAX: usize = 64;

/// Further families go without: each costs some hundred bytes, even with one entry
const FAMILIES_MAX: usize = 4_096;

/// Bounds as ranges of memtables have them
pub type Bounds<'a> = (Bound<&'a InternalKey>, Bound<&'a InternalKey>);

/// An entry that has no value
#[derive(Clone)]
struct Row {
    /// Bytes of the key that decide a comparison where the row lies, while rows are sorted
    head: u64,

    key: InternalKey,
}

impl Row {
    /// What its key has behind its first bytes.
    fn rest(&self, skip: usize) -> &[u8] {
        self.key.user_key.get(skip..).unwrap_or_default()
    }

    fn entry(&self) -> InternalValue {
        InternalValue {
            key: self.key.clone(),
            value: UserValue::empty(),
        }
    }
}

/// Sorts rows whose keys have their first bytes in common
///
/// Keys of a family often have a value in common, and differ far behind: to compare them byte by byte is to fetch both
/// from memory each time. So what all have in common is passed over, the next eight bytes are put where the rows lie, and
/// only rows that have these in common are looked at again.
fn sort(rows: &mut [Row], mut skip: usize, depth: usize) {
    let Some((first, others)) = rows.split_first() else {
        return;
    };
    if rows.len() < FEW || depth == 0 {
        return rows.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    }

    let mut common = first.rest(skip);
    for row in others {
        let len = longest_shared_prefix_length(common, row.rest(skip));
        common = common.get(..len).unwrap_or_default();
    }
    skip += common.len();

    for row in &mut *rows {
        let mut head = [0; HEAD];
        for (to, from) in head.iter_mut().zip(row.rest(skip)) {
            *to = *from;
        }
        row.head = u64::from_be_bytes(head);
    }
    // NOTE: This sort makes use of runs that are sorted already, such as those that are merged
    rows.sort_by_key(|row| row.head);

    for alike in rows.chunk_by_mut(|a, b| a.head == b.head) {
        // NOTE: Behind the end of a key there is nothing to look at again, but versions of it
        if alike.iter().all(|row| row.rest(skip).len() >= HEAD) {
            sort(alike, skip + HEAD, depth - 1);
        } else {
            alike.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        }
    }
}

#[cfg(test)]
std::thread_local! {
    /// Rows that this thread has sorted.
    pub static SORTED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Sorts rows of one family.
fn sort_family(rows: &mut [Row], family_len: usize) {
    #[cfg(test)]
    SORTED.set(SORTED.get() + rows.len());

    sort(rows, family_len, DEPTH_MAX);
}

type Run = Arc<Vec<Row>>;

#[derive(Default)]
struct Parts {
    tail: Vec<Row>,
    runs: Vec<Run>,
}

impl Parts {
    fn settle(&mut self, family_len: usize) {
        if self.tail.is_empty() {
            return;
        }

        let mut rows = std::mem::take(&mut self.tail);
        sort_family(&mut rows, family_len);

        while let Some(last) = self
            .runs
            .pop_if(|run| run.len() <= 2 * rows.len() && run.len() + rows.len() <= SHORT_MAX)
        {
            rows = merged([last, Arc::new(rows)], family_len);
        }
        self.runs.push(Arc::new(rows));

        let is_short = |run: &Run| run.len() <= SHORT_MAX;
        if self.runs.iter().filter(|run| is_short(run)).count() >= RUNS_MAX {
            let oldest = self.runs.extract_if(.., |run| is_short(run)).take(MERGED_RUNS);
            let all = merged(oldest.collect::<Vec<_>>(), family_len);
            self.runs.insert(0, Arc::new(all));
        }
    }

    fn settle_as_one(&mut self, family_len: usize) {
        self.settle(family_len);

        if self.runs.len() > 1 {
            let all = merged(std::mem::take(&mut self.runs), family_len);
            self.runs.push(Arc::new(all));
        }
    }
}

fn merged(runs: impl IntoIterator<Item = Run>, family_len: usize) -> Vec<Row> {
    let mut all = Vec::new();
    for run in runs {
        // NOTE: Readers may still have it
        let mut rows = Arc::try_unwrap(run).unwrap_or_else(|shared| shared.to_vec());
        all.append(&mut rows);
    }

    sort_family(&mut all, family_len);
    all
}

struct Family {
    /// How many leading bytes its keys have in common
    len: usize,

    /// Not the same for all: families that grow together would all be sorted, and merged, in the same write
    tail_max: usize,

    parts: Mutex<Parts>,
}

impl Family {
    fn lock(&self) -> MutexGuard<'_, Parts> {
        // NOTE: Comparing keys does not panic
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn settled(&self) -> Vec<Run> {
        let mut parts = self.lock();
        parts.settle(self.len);
        parts.runs.clone()
    }
}

/// Part of a run, from where readers take clones
pub struct RunRange {
    run: Run,
    places: Range<usize>,
}

impl RunRange {
    fn new(run: &Run, (lo, hi): Bounds<'_>) -> Self {
        let below = |bound: Bound<&InternalKey>, of_equal: bool| match bound {
            Bound::Unbounded => None,
            Bound::Included(key) if of_equal => Some(run.partition_point(|row| row.key <= *key)),
            Bound::Excluded(key) if !of_equal => Some(run.partition_point(|row| row.key <= *key)),
            Bound::Included(key) | Bound::Excluded(key) => {
                Some(run.partition_point(|row| row.key < *key))
            }
        };
        let start = below(lo, false).unwrap_or(0);
        let end = below(hi, true).unwrap_or(run.len());

        Self {
            run: run.clone(),
            places: start..end.max(start),
        }
    }
}

impl Iterator for RunRange {
    type Item = InternalValue;

    fn next(&mut self) -> Option<Self::Item> {
        self.run.get(self.places.next()?).map(Row::entry)
    }
}

impl DoubleEndedIterator for RunRange {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.run.get(self.places.next_back()?).map(Row::entry)
    }
}

/// Every entry of a memtable that is sorted late
pub struct Families {
    kinds: KeyKinds,

    /// By what the keys of each have in common, which is never the beginning of another's
    families: RwLock<BTreeMap<Box<[u8]>, Arc<Family>>>,

    len: AtomicUsize,
}

impl Families {
    pub fn new(kinds: KeyKinds) -> Self {
        Self {
            kinds,
            families: RwLock::default(),
            len: AtomicUsize::default(),
        }
    }

    pub fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// How many leading bytes an entry has in common with its family; `None` where it is to lie in the skip list.
    fn family_len(&self, entry: &InternalValue) -> Option<usize> {
        if !entry.value.is_empty() {
            return None;
        }
        (self.kinds.family_len)(&entry.key.user_key)
    }

    /// The family that a key belongs to; with `None` there is none, and no room for one.
    fn family(&self, prefix: &[u8]) -> Option<Arc<Family>> {
        if let Some(family) = self.known(prefix) {
            return Some(family);
        }

        let mut families = self.families.write().unwrap_or_else(PoisonError::into_inner);
        if families.len() >= FAMILIES_MAX {
            return families.get(prefix).cloned();
        }
        let family = families.entry(prefix.into()).or_insert_with(|| {
            // NOTE: Families are numbered, and neighbours far apart
            let number = usize::from(prefix.last().copied().unwrap_or_default());
            Arc::new(Family {
                len: prefix.len(),
                tail_max: TAIL_MAX - number * 149 % TAIL_SPREAD,
                parts: Mutex::default(),
            })
        });
        Some(family.clone())
    }

    fn known(&self, prefix: &[u8]) -> Option<Arc<Family>> {
        self.families
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(prefix)
            .cloned()
    }

    /// Takes an entry, and those behind it that belong to the same family; gives back an entry that is to lie in the skip list.
    pub fn take(
        &self,
        first: InternalValue,
        rest: &mut std::iter::Peekable<impl Iterator<Item = InternalValue>>,
        taken: &mut impl FnMut(&InternalValue),
    ) -> Option<InternalValue> {
        let Some(len) = self.family_len(&first) else {
            return Some(first);
        };
        let prefix = first.key.user_key.slice(..len);
        let Some(family) = self.family(&prefix) else {
            return Some(first);
        };

        let mut parts = family.lock();
        let mut next = Some(first);
        let mut count = 0;
        while let Some(entry) = next {
            taken(&entry);
            parts.tail.push(Row {
                head: 0,
                key: entry.key,
            });
            count += 1;
            if parts.tail.len() >= family.tail_max {
                parts.settle(len);
            }
            next = rest.next_if(|entry| {
                self.family_len(entry) == Some(len) && entry.key.user_key.starts_with(&prefix)
            });
        }
        self.len.fetch_add(count, Ordering::AcqRel);
        None
    }

    /// The families that may have keys in a range, in order.
    fn within(&self, (lo, hi): Bounds<'_>) -> Vec<Arc<Family>> {
        let families = self.families.read().unwrap_or_else(PoisonError::into_inner);
        let key_of = |bound| match bound {
            Bound::Included(key) | Bound::Excluded(key) => {
                let key: &InternalKey = key;
                Some(&*key.user_key)
            }
            Bound::Unbounded => None,
        };
        let (lo, hi) = (key_of(lo), key_of(hi));

        // NOTE: The family that the least key belongs to is not behind it
        let from = lo.and_then(|lo| {
            let (prefix, _) = families
                .range::<[u8], _>((Bound::Unbounded, Bound::Included(lo)))
                .next_back()?;
            lo.starts_with(prefix).then_some(&**prefix)
        });
        let from = from.or(lo).unwrap_or_default();

        families
            .range::<[u8], _>((Bound::Included(from), Bound::Unbounded))
            .take_while(|(prefix, _)| hi.is_none_or(|hi| &***prefix <= hi))
            .map(|(_, family)| family.clone())
            .collect()
    }

    /// All entries in a range, as few sorted iterators.
    pub fn ranges(
        &self,
        bounds: Bounds<'_>,
    ) -> Vec<impl DoubleEndedIterator<Item = InternalValue> + Send> {
        let mut by_rank: Vec<Vec<RunRange>> = Vec::new();

        for family in self.within(bounds) {
            for (rank, run) in family.settled().iter().enumerate() {
                let range = RunRange::new(run, bounds);
                if range.places.is_empty() {
                    continue;
                }
                if by_rank.len() <= rank {
                    by_rank.resize_with(rank + 1, Vec::new);
                }
                if let Some(ranges) = by_rank.get_mut(rank) {
                    ranges.push(range);
                }
            }
        }

        by_rank
            .into_iter()
            .filter(|ranges| !ranges.is_empty())
            .map(|ranges| ranges.into_iter().flatten())
            .collect()
    }

    /// The newest entry of a key, of those before a sequence number that is not zero.
    pub fn get(&self, key: &[u8], seqno: SeqNo) -> Option<InternalValue> {
        let len = (self.kinds.family_len)(key)?;
        let family = self.known(key.get(..len)?)?;
        debug_assert_eq!(len, family.len);

        let bound = InternalKey::new(key, seqno - 1, crate::ValueType::Value);
        family
            .settled()
            .iter()
            .filter_map(|run| run.get(run.partition_point(|row| row.key < bound)))
            .filter(|row| row.key.user_key == key)
            .max_by_key(|row| row.key.seqno)
            .map(Row::entry)
    }

    /// Brings each family into one run, for who reads all of them.
    pub fn settle(&self) {
        for family in self.within((Bound::Unbounded, Bound::Unbounded)) {
            family.lock().settle_as_one(family.len);
        }
    }
}
