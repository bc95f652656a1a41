// Copyright (c) 2024-present, fjall-rs
// This source code is licensed under both the Apache 2.0 and MIT License
// (found in the LICENSE-* files in the repository)

//! Large batches of a memtable
//!
//! A batch of very many entries is kept as a sorted run of its own. To enter them one by one into the skip list would compare each
//! entry with some twenty others, all over memory, while later batches wait. Readers search each run whose keys may be theirs, so there are few.

use super::families::Bounds;
use crate::{key::InternalKey, InternalValue, SeqNo, ValueType};
use std::{
    ops::{Bound, Range},
    sync::{
        atomic::{AtomicUsize, Ordering},
        Arc, PoisonError, RwLock,
    },
};

/// Readers look at each run.
pub const RUNS_MAX: usize = 16;

type Run = Arc<Vec<InternalValue>>;

#[derive(Default)]
pub struct Runs {
    /// Sorted, and none is empty.
    runs: RwLock<Vec<Run>>,

    /// Entries of all runs
    len: AtomicUsize,
}

/// Part of a run, from where readers take clones
pub struct RunRange {
    run: Run,
    places: Range<usize>,
}

impl RunRange {
    fn new(run: &Run, (lo, hi): Bounds<'_>) -> Option<Self> {
        let start = match lo {
            Bound::Unbounded => 0,
            Bound::Included(key) => below(run, |entry| entry < key),
            Bound::Excluded(key) => below(run, |entry| entry <= key),
        };
        let end = match hi {
            Bound::Unbounded => run.len(),
            Bound::Included(key) => below(run, |entry| entry <= key),
            Bound::Excluded(key) => below(run, |entry| entry < key),
        };
        (start < end).then(|| Self {
            run: run.clone(),
            places: start..end,
        })
    }
}

/// How many entries are below a bound; looks at both ends first, since most readers want other keys.
fn below(run: &[InternalValue], is_below: impl Fn(&InternalKey) -> bool) -> usize {
    if run.first().is_none_or(|entry| !is_below(&entry.key)) {
        return 0;
    }
    if run.last().is_some_and(|entry| is_below(&entry.key)) {
        return run.len();
    }
    run.partition_point(|entry| is_below(&entry.key))
}

impl Iterator for RunRange {
    type Item = InternalValue;

    fn next(&mut self) -> Option<Self::Item> {
        self.run.get(self.places.next()?).cloned()
    }
}

impl DoubleEndedIterator for RunRange {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.run.get(self.places.next_back()?).cloned()
    }
}

impl Runs {
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// Keeps a batch; gives it back where there are too many already.
    pub fn add(&self, mut entries: Vec<InternalValue>) -> Result<(), Vec<InternalValue>> {
        // NOTE: Those who write batches in order pay for one comparison of each entry
        entries.sort_by(|a, b| a.key.cmp(&b.key));
        // Of entries of one key the last counts, as where each replaces the one before.
        entries.dedup_by(|later, kept| {
            let is_same = later.key.cmp(&kept.key).is_eq();
            if is_same {
                std::mem::swap(later, kept);
            }
            is_same
        });

        let mut runs = self.runs.write().unwrap_or_else(PoisonError::into_inner);
        if runs.len() >= RUNS_MAX {
            return Err(entries);
        }
        self.len.fetch_add(entries.len(), Ordering::AcqRel);
        if !entries.is_empty() {
            runs.push(Arc::new(entries));
        }
        Ok(())
    }

    fn all(&self) -> Vec<Run> {
        if self.len() == 0 {
            return vec![];
        }
        self.runs
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The newest entry of a key, of those before a sequence number that is not zero.
    pub fn get(&self, key: &[u8], seqno: SeqNo) -> Option<InternalValue> {
        if self.len() == 0 {
            return None;
        }
        let bound = InternalKey::new(key, seqno - 1, ValueType::Value);
        let runs = self.runs.read().unwrap_or_else(PoisonError::into_inner);
        runs.iter()
            .filter_map(|run| run.get(below(run, |entry| *entry < bound)))
            .filter(|entry| entry.key.user_key == key)
            .max_by_key(|entry| entry.key.seqno)
            .cloned()
    }

    /// All entries in a range, each run sorted.
    pub fn ranges(&self, bounds: Bounds<'_>) -> Vec<RunRange> {
        let runs = self.all();
        runs.iter()
            .filter_map(|run| RunRange::new(run, bounds))
            .collect()
    }
}
