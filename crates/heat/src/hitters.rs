//! The heaviest keys of a stream of weighted keys, by the Space-Saving algorithm (Metwally, Agrawal, El Abbadi 2005).
//!
//! A summary counts [`HITTERS`] keys. A key that is not among them takes the place of the lightest, with its weight on top of
//! that: a count is never below the truth, and above it by at most the weight that it took over. With a total weight of W,
//! no count is more than W ÷ [`HITTERS`] too high, and every key heavier than that is counted.
//!
//! The window slides by two generations: the current one and the one before. Both bounds add up over the two; a
//! generation that does not count a key may have seen it with as much as its lightest weight.
//!
//! Keys with a single operation must cost little: a key's label (its text) is requested when the
//! key recurs, or is heavy at once. A key without a label weighed little when last seen, so that
//! leaving it out of a report hides nothing hot.
//!
//! The crate `datasketches` (0.6) has a comparable sketch of frequent items. This one is our own for its fixed size,
//! for bounds per key, for its window and for the labels that are made late; all of it is less code than the adapter.

pub(super) const HITTERS: usize = 64;
/// A key is labelled at once if it brings this share of its generation's weight.
const HEAVY_SHARE: u64 = 64;
const _: () = assert!(HITTERS.is_multiple_of(16), "tags are compared 16 at a time, without a rest");

#[derive(Debug, Clone)]
pub(super) struct Summary<L> {
    /// The low halves of the hashes, which a loop compares four at a time.
    tags: [u32; HITTERS],
    hashes: [u64; HITTERS],
    weights: [u64; HITTERS],
    /// No weight is below this. Weights only grow, so that it stays true until it is found anew.
    least: u64,
    /// Where to look for a key of the least weight: all before this weigh more, since the least was found.
    least_from: usize,
    /// How much of each weight was taken over.
    errors: [u64; HITTERS],
    labels: Vec<Option<L>>,
    total: u64,
    /// Weights, and the total, when the slice of time began of which the leader is asked next.
    slice_weights: [u64; HITTERS],
    slice_total: u64,
}

impl<L> Default for Summary<L> {
    fn default() -> Self {
        Summary {
            tags: [0; HITTERS],
            hashes: [0; HITTERS],
            least: 0,
            least_from: 0,
            weights: [0; HITTERS],
            errors: [0; HITTERS],
            labels: Vec::new(),
            total: 0,
            slice_weights: [0; HITTERS],
            slice_total: 0,
        }
    }
}

impl<L> Summary<L> {
    pub fn record(&mut self, hash: u64, weight: u64, label: impl FnOnce() -> L) {
        self.total = self.total.saturating_add(weight);
        let count = self.labels.len();
        if let Some(at) = self.position(hash).filter(|at| *at < count) {
            self.weights[at] = self.weights[at].saturating_add(weight);
            self.labels[at].get_or_insert_with(label);
            return;
        }
        let is_heavy = weight >= self.total / HEAVY_SHARE;
        if count < HITTERS {
            if self.labels.capacity() == 0 {
                self.labels.reserve_exact(HITTERS);
            }
            (self.tags[count], self.hashes[count], self.weights[count]) = (hash as u32, hash, weight);
            self.labels.push(is_heavy.then(label));
            return;
        }
        let at = self.lightest();
        (self.tags[at], self.hashes[at]) = (hash as u32, hash);
        self.errors[at] = self.weights[at];
        self.slice_weights[at] = self.weights[at];
        self.weights[at] = self.weights[at].saturating_add(weight);
        self.labels[at] = is_heavy.then(label);
    }

    /// The most that a key which is not counted can have weighed.
    fn floor(&self) -> u64 {
        if self.labels.len() < HITTERS { 0 } else { least(&self.weights) }
    }

    /// Over all places and not only those in use, so that the loop is one of fixed length.
    fn position(&self, hash: u64) -> Option<usize> {
        let tag = hash as u32;
        let (chunks, _) = self.tags.as_chunks::<16>();
        let is_in = |chunk: &[u32; 16]| chunk.iter().fold(false, |hit, own| hit | (*own == tag));
        let chunk = chunks.iter().position(is_in)?;
        let at = chunk * 16 + chunks[chunk].iter().position(|own| *own == tag)?;
        // Another hash may have the same tag.
        if self.hashes[at] == hash { Some(at) } else { self.hashes.iter().position(|own| *own == hash) }
    }

    /// Keys of the least weight are taken round robin: with many of them the search is short.
    fn lightest(&mut self) -> usize {
        debug_assert_eq!(self.labels.len(), HITTERS, "only a full summary displaces an entry");
        let is_least = |weight: &u64| *weight == self.least;
        let mut found =
            self.weights[self.least_from..].iter().position(is_least).map(|at| at + self.least_from);
        if found.is_none() {
            self.least = least(&self.weights);
            found = self.weights.iter().position(|weight| *weight == self.least);
        }
        self.least_from = found.expect("the least is one of them");
        self.least_from
    }

    /// The key with the most weight since the last call, its certain weight, and the total weight.
    pub fn take_leader(&mut self) -> Option<(&L, u64, u64)> {
        assert!(self.total >= self.slice_total, "a total never falls");
        let total = self.total - self.slice_total;
        let brought = |at: usize| self.weights[at] - self.slice_weights[at];
        let (at, weight) =
            (0..self.labels.len()).map(|at| (at, brought(at))).max_by_key(|(_, weight)| *weight)?;
        self.slice_weights = self.weights;
        self.slice_total = self.total;
        Some((self.labels[at].as_ref()?, weight, total))
    }

    fn entries(&self) -> impl Iterator<Item = (u64, u64, u64, Option<&L>)> {
        let counted = self.labels.iter().enumerate();
        counted.map(|(at, label)| (self.hashes[at], self.weights[at], self.errors[at], label.as_ref()))
    }
}

fn least(weights: &[u64; HITTERS]) -> u64 {
    weights.iter().copied().fold(u64::MAX, u64::min)
}

/// Two generations: the last one to two times the length of a generation.
#[derive(Debug, Clone)]
pub(super) struct Hitters<L> {
    generation: u32,
    current: Box<Summary<L>>,
    previous: Box<Summary<L>>,
}

impl<L> Default for Hitters<L> {
    fn default() -> Self {
        Hitters { generation: 0, current: Box::default(), previous: Box::default() }
    }
}

/// A heavy key: it weighed at most `weight`, and at least `error` less.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hitter<L> {
    pub label: L,
    pub weight: u64,
    pub error: u64,
}

impl<L> Hitter<L> {
    pub fn guaranteed(&self) -> u64 {
        assert!(self.weight >= self.error, "the error of an estimate is part of its weight");
        self.weight - self.error
    }
}

impl<L: Clone> Hitters<L> {
    pub fn turn_to(&mut self, generation: u32) {
        match generation.saturating_sub(self.generation) {
            0 => return,
            1 => self.previous = std::mem::take(&mut self.current),
            _ => (self.previous, self.current) = Default::default(),
        }
        self.generation = generation;
    }

    pub fn record(&mut self, hash: u64, weight: u64, label: impl FnOnce() -> L) {
        self.current.record(hash, weight, label);
    }

    /// See [`Summary::take_leader`]; to be asked before a generation ends.
    pub fn take_leader(&mut self) -> Option<(L, u64, u64)> {
        self.current.take_leader().map(|(label, weight, total)| (label.clone(), weight, total))
    }

    /// The total weight of both generations, counted or not.
    pub fn total(&self) -> u64 {
        self.current.total.saturating_add(self.previous.total)
    }

    /// Bytes held on the heap.
    #[cfg(test)]
    pub fn heap_bytes(&self, of_label: impl Fn(&L) -> usize) -> usize {
        let of_summary = |summary: &Summary<L>| {
            let labels: usize = summary.labels.iter().flatten().map(&of_label).sum();
            size_of::<Summary<L>>() + summary.labels.capacity() * size_of::<Option<L>>() + labels
        };
        of_summary(&self.current) + of_summary(&self.previous)
    }

    /// The heaviest for sure first.
    pub fn heaviest(&self) -> Vec<Hitter<L>> {
        let (floor, old_floor) = (self.current.floor(), self.previous.floor());
        let mut found: Vec<(u64, Option<L>, u64, u64)> = vec![];
        for (hash, weight, error, label) in self.current.entries() {
            found.push((hash, label.cloned(), weight + old_floor, error + old_floor));
        }
        for (hash, weight, error, label) in self.previous.entries() {
            match found.iter_mut().find(|hitter| hitter.0 == hash) {
                Some(hitter) => {
                    hitter.1 = hitter.1.take().or_else(|| label.cloned());
                    hitter.2 = hitter.2 - old_floor + weight;
                    hitter.3 = hitter.3 - old_floor + error;
                }
                None => found.push((hash, label.cloned(), weight + floor, error + floor)),
            }
        }
        let labelled = found
            .into_iter()
            .filter_map(|(_, label, weight, error)| label.map(|label| Hitter { label, weight, error }));
        let mut hitters: Vec<Hitter<L>> = labelled.collect();
        hitters.sort_by_key(|hitter| std::cmp::Reverse((hitter.guaranteed(), hitter.weight)));
        hitters
    }
}

/// The generation of a second.
pub(super) fn generation_of(second: u32) -> u32 {
    second / super::GENERATION_SECONDS
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// Keys of which low numbers are likelier, with weights.
    fn stream() -> impl Strategy<Value = Vec<(u64, u64)>> {
        let key = (0u64..4000, 0u32..5).prop_map(|(key, skew)| key >> (2 * skew));
        prop::collection::vec((key, 1u64..1000), 0..3000)
    }

    fn exact(stream: &[(u64, u64)]) -> HashMap<u64, u64> {
        let mut sums = HashMap::new();
        stream.iter().for_each(|(key, weight)| *sums.entry(*key).or_default() += weight);
        sums
    }

    proptest! {
        #[test]
        fn counts_are_within_their_bounds(stream in stream()) {
            let mut summary = Summary::default();
            stream.iter().for_each(|(key, weight)| summary.record(*key, *weight, || *key));
            let sums = exact(&stream);
            let total: u64 = sums.values().sum();
            prop_assert_eq!(summary.total, total);
            for (key, weight, error, _) in summary.entries() {
                prop_assert!(sums[&key] <= weight && weight - error <= sums[&key]);
                prop_assert!(error <= total / HITTERS as u64);
            }
            for (key, sum) in &sums {
                let is_counted = summary.entries().any(|(own, ..)| own == *key);
                prop_assert!(is_counted || *sum <= summary.floor());
                prop_assert!(is_counted || *sum <= total / HITTERS as u64);
            }
        }

        #[test]
        fn two_generations_keep_their_bounds_and_miss_nothing_hot(first in stream(), second in stream()) {
            let mut hitters = Hitters::default();
            first.iter().for_each(|(key, weight)| hitters.record(*key, *weight, || *key));
            hitters.turn_to(1);
            second.iter().for_each(|(key, weight)| hitters.record(*key, *weight, || *key));
            let sums = exact(&[&first[..], &second].concat());
            let total: u64 = sums.values().sum();
            prop_assert_eq!(hitters.total(), total);
            let found = hitters.heaviest();
            for hitter in &found {
                prop_assert!(sums[&hitter.label] <= hitter.weight);
                prop_assert!(hitter.guaranteed() <= sums[&hitter.label]);
            }
            for (key, sum) in &sums {
                // Labels are late by one appearance at most.
                let slack = 2 * (total / HITTERS as u64) + 2000;
                prop_assert!(*sum <= slack || found.iter().any(|hitter| hitter.label == *key));
            }
        }
    }

    #[test]
    fn what_is_older_than_two_generations_is_forgotten() {
        let mut hitters = Hitters::default();
        hitters.record(1, 100, || "old");
        hitters.turn_to(1);
        assert_eq!(hitters.heaviest().len(), 1);
        hitters.turn_to(0);
        assert_eq!(hitters.heaviest().len(), 1, "time that goes back changes nothing");
        hitters.turn_to(2);
        assert!(hitters.heaviest().is_empty());
        hitters.record(1, 100, || "old");
        hitters.turn_to(u32::MAX);
        assert_eq!((hitters.heaviest().len(), hitters.total()), (0, 0));
    }
}
