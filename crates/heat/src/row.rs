//! Row of one period: counts, and the request units of every bucket of the range.
//!
//! A period that is still open counts in 64 bits. When it closes, its buckets are packed into 32 bits that share one
//! shift, so that the largest keeps at least 31 significant bits: a row takes half the space and no load is too large.

use super::HeatKind;

pub(super) const BUCKETS: usize = 32;
const KINDS: usize = HeatKind::ALL.len();

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Hundredths of request units by [`HeatKind`].
    pub ru_centi: [u64; KINDS],
    pub operations: [u32; KINDS],
    pub throttled: u32,
    pub size_bytes: u64,
    pub latency_sum_us: u64,
    pub latency_max_us: u32,
    /// The most that one second of the period cost.
    pub busiest_second_centi: u64,
}

impl Counts {
    pub fn total_centi(&self) -> u64 {
        self.ru_centi.iter().fold(0, |sum, part| sum.saturating_add(*part))
    }

    pub fn total_operations(&self) -> u64 {
        self.operations.iter().map(|part| u64::from(*part)).sum()
    }

    pub fn add(&mut self, other: &Counts) {
        for kind in 0..KINDS {
            self.ru_centi[kind] = self.ru_centi[kind].saturating_add(other.ru_centi[kind]);
            self.operations[kind] = self.operations[kind].saturating_add(other.operations[kind]);
        }
        self.throttled = self.throttled.saturating_add(other.throttled);
        self.size_bytes = self.size_bytes.saturating_add(other.size_bytes);
        self.latency_sum_us = self.latency_sum_us.saturating_add(other.latency_sum_us);
        self.latency_max_us = self.latency_max_us.max(other.latency_max_us);
        self.busiest_second_centi = self.busiest_second_centi.max(other.busiest_second_centi);
    }
}

/// A period that still counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct OpenRow {
    /// Number of the period since the clock's start.
    pub period: u32,
    pub counts: Counts,
    pub buckets_centi: [u64; BUCKETS],
    /// Load that belongs to all buckets alike, and is not in them yet.
    pub even_centi: u64,
}

impl OpenRow {
    pub fn new(period: u32) -> OpenRow {
        OpenRow { period, ..OpenRow::default() }
    }

    pub fn add(&mut self, finer: &OpenRow) {
        self.counts.add(&finer.counts);
        for (sum, part) in self.buckets_centi.iter_mut().zip(&finer.buckets_centi) {
            *sum = sum.saturating_add(*part);
        }
        self.even_centi = self.even_centi.saturating_add(finer.even_centi);
    }

    /// Buckets including the load that belongs to all of them alike.
    pub fn all_buckets_centi(&self) -> [u64; BUCKETS] {
        let mut buckets = self.buckets_centi;
        spread(&mut buckets, self.even_centi);
        buckets
    }

    pub fn pack(&self) -> Row {
        let buckets_centi = self.all_buckets_centi();
        let largest = buckets_centi.iter().max().copied().unwrap_or(0);
        let shift = (u64::BITS - largest.leading_zeros()).saturating_sub(u32::BITS) as u8;
        assert!(largest >> shift <= u64::from(u32::MAX), "packed buckets lose no high bits");
        Row {
            period: self.period,
            counts: self.counts.clone(),
            shift,
            packed: buckets_centi.map(|centi| (centi >> shift) as u32),
        }
    }
}

/// A completed period.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub period: u32,
    pub counts: Counts,
    shift: u8,
    packed: [u32; BUCKETS],
}

impl Row {
    pub fn buckets_centi(&self) -> [u64; BUCKETS] {
        self.packed.map(|packed| u64::from(packed) << self.shift)
    }
}

/// Adds equal parts; the remainder goes to the first buckets.
pub(super) fn spread(buckets: &mut [u64], centi: u64) {
    let count = buckets.len() as u64;
    let (each, rest) = (centi / count, centi % count);
    for (index, bucket) in (0..count).zip(buckets) {
        *bucket = bucket.saturating_add(each + u64::from(index < rest));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packing_keeps_31_bits_of_the_largest_bucket(buckets in prop::array::uniform32(any::<u64>()), shift in 0u32..64) {
            let row = OpenRow { buckets_centi: buckets.map(|centi| centi >> shift), ..OpenRow::default() };
            let largest = row.buckets_centi.iter().max().copied().expect("32 buckets");
            for (exact, packed) in row.buckets_centi.iter().zip(row.pack().buckets_centi()) {
                prop_assert!(packed <= *exact && exact - packed <= largest >> 31);
            }
        }
    }
}
