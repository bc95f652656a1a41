//! Request charges: the cost of operations, as a versioned table and pure functions over sizes and counts.
//!
//! Amounts are hundredths of a request unit in integers, so that sums are exact and the same data
//! always costs the same. The table "azure-2026-04" is the service's published one for reads and
//! writes by item size, plus 0.2 RU per index term. A size between two rows costs as much as the
//! next larger row, as in the published examples. The cost of queries is in `query.rs`.

use std::fmt;
use std::iter::Sum;
use std::ops::Add;
use std::time::Duration;

use shardlake_model::ConsistencyLevel;

mod query;

pub use query::QueryCounters;

/// An amount in hundredths of a request unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Charge(pub u64);

impl fmt::Display for Charge {
    /// As few decimals as needed: `1`, `5.7`, `10.67`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (units, hundredths) = (self.0 / 100, self.0 % 100);
        match (hundredths, hundredths % 10) {
            (0, _) => write!(f, "{units}"),
            (hundredths, 0) => write!(f, "{units}.{}", hundredths / 10),
            (hundredths, _) => write!(f, "{units}.{hundredths:02}"),
        }
    }
}

impl Add for Charge {
    type Output = Charge;

    fn add(self, other: Charge) -> Charge {
        Charge(self.0 + other.0)
    }
}

impl Sum for Charge {
    fn sum<I: Iterator<Item = Charge>>(charges: I) -> Charge {
        charges.fold(Charge(0), Add::add)
    }
}

/// One row: items of at most this size cost this much to read and to write without index terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SizeRow {
    size_kib: u64,
    read: u64,
    write: u64,
}

/// A price list. Cloning is cheap: the rows are static.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChargeTable {
    version: &'static str,
    rows: &'static [SizeRow],
    /// Per index term added or removed.
    term: u64,
    /// Per operation of a patch, on top of the replace.
    patch_operation: u64,
    /// One run of a stored procedure or trigger, on top of the cost of its operations.
    script: u64,
    /// Each whole millisecond that a worker computes for a request, beyond the free ones.
    processor_millisecond: u64,
    processor_milliseconds_free: u64,
    /// Misses and unmodified reads.
    miss: u64,
    /// A feed page costs at least this.
    page_min: u64,
    query: query::QueryPrices,
}

const fn row(size_kib: u64, read: u64, write: u64) -> SizeRow {
    SizeRow { size_kib, read, write }
}

/// Published in April 2026.
const AZURE_2026_04: &[SizeRow] = &[
    row(1, 100, 495),
    row(2, 104, 629),
    row(4, 114, 667),
    row(8, 133, 704),
    row(16, 167, 952),
    row(32, 219, 1123),
    row(64, 476, 2267),
    row(128, 995, 4819),
    row(256, 2028, 9829),
    row(512, 4095, 18457),
    row(1024, 14590, 62500),
    row(2048, 29180, 125_000),
];

const _: () = {
    let mut at = 1;
    while at < AZURE_2026_04.len() {
        let (smaller, larger) = (AZURE_2026_04[at - 1], AZURE_2026_04[at]);
        assert!(smaller.size_kib < larger.size_kib, "the rows of the table ascend by size");
        assert!(smaller.read < larger.read, "a larger item never costs less to read");
        assert!(smaller.write < larger.write, "a larger item never costs less to write");
        at += 1;
    }
};

impl Default for ChargeTable {
    fn default() -> Self {
        ChargeTable {
            version: "azure-2026-04",
            rows: AZURE_2026_04,
            term: 20,
            patch_operation: 40,
            script: 500,
            processor_millisecond: 100,
            processor_milliseconds_free: 10,
            miss: 100,
            page_min: 100,
            query: query::PRICES,
        }
    }
}

impl ChargeTable {
    pub fn version(&self) -> &'static str {
        self.version
    }

    /// Beyond the table, where documents of collections may be, the last row counts as often as it fits into the size.
    fn row(&self, size_bytes: usize) -> SizeRow {
        let fits = |row: &&SizeRow| size_bytes as u64 <= row.size_kib * 1024;
        if let Some(row) = self.rows.iter().find(fits) {
            return *row;
        }
        let last = *self.rows.last().expect("the table has rows");
        let times = size_bytes as u64 / (last.size_kib * 1024);
        assert!(times > 0, "an item above the table costs at least the table's last row");
        SizeRow { size_kib: last.size_kib * times, read: last.read * times, write: last.write * times }
    }

    /// A point read. Strong and bounded-staleness reads cost twice.
    pub fn read(&self, size_bytes: usize, consistency: ConsistencyLevel) -> Charge {
        Charge(self.row(size_bytes).read * consistency.read_charge_factor())
    }

    pub fn create(&self, size_bytes: usize, terms: u64) -> Charge {
        Charge(self.row(size_bytes).write + self.term * terms)
    }

    pub fn delete(&self, size_bytes: usize, terms: u64) -> Charge {
        self.create(size_bytes, terms)
    }

    pub fn replace(
        &self,
        old_bytes: usize,
        new_bytes: usize,
        terms_removed: u64,
        terms_added: u64,
    ) -> Charge {
        let writes = self.row(old_bytes).write + self.row(new_bytes).write;
        Charge(writes + self.term * (terms_removed + terms_added))
    }

    /// Cost of a patch on top of its equivalent replace.
    pub fn patch_operations(&self, operations: u64) -> Charge {
        Charge(self.patch_operation * operations)
    }

    /// Cost of one run of a script on top of its operations.
    pub fn script_run(&self) -> Charge {
        Charge(self.script)
    }

    /// Cost of the processor time of a request's scripts and functions. A request pays this or its
    /// other cost, whichever is more: an ordinary script costs as much as its operations, the same
    /// every time, however fast the machine is, and only a script with much computation pays for
    /// it. Ten milliseconds are free, many times the time of an ordinary script.
    pub fn processor(&self, time: Duration) -> Charge {
        let milliseconds = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let priced = milliseconds.saturating_sub(self.processor_milliseconds_free);
        Charge(priced.saturating_mul(self.processor_millisecond))
    }

    pub fn not_found(&self) -> Charge {
        Charge(self.miss)
    }

    pub fn not_modified(&self) -> Charge {
        Charge(self.miss)
    }

    /// A page of a feed costs as much as reading its items one by one.
    pub fn feed_page(&self, sizes: impl Iterator<Item = usize>, consistency: ConsistencyLevel) -> Charge {
        let reads: Charge = sizes.map(|size| self.read(size, consistency)).sum();
        reads.max(Charge(self.page_min))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KIB: usize = 1024;

    fn assert_within(actual: Charge, published: f64, percent: f64) {
        let actual_units = actual.0 as f64 / 100.0;
        let off = (actual_units - published).abs() / published * 100.0;
        assert!(off <= percent, "{actual} RU is {off:.1} % off the published {published}");
    }

    #[test]
    fn the_published_rows_of_2026_come_out_exactly() {
        let table = ChargeTable::default();
        let rows = [
            (1, 1.0, 4.95),
            (2, 1.04, 6.29),
            (4, 1.14, 6.67),
            (8, 1.33, 7.04),
            (16, 1.67, 9.52),
            (32, 2.19, 11.23),
            (64, 4.76, 22.67),
            (128, 9.95, 48.19),
            (256, 20.28, 98.29),
            (512, 40.95, 184.57),
            (1024, 145.90, 625.0),
            (2048, 291.80, 1250.0),
        ];
        for (size, read, write) in rows {
            assert_within(table.read(size * KIB, ConsistencyLevel::Session), read, 0.0001);
            assert_within(table.create(size * KIB, 0), write, 0.0001);
        }
    }

    #[test]
    fn the_published_examples_come_out() {
        let table = ChargeTable::default();
        // The 2026 article: 1 KB item with 10 terms; replace and patch change two of them.
        assert_within(table.create(KIB, 10), 7.0, 1.0);
        assert_within(table.replace(KIB, KIB, 2, 2), 10.8, 1.0);
        assert_within(table.replace(KIB, KIB, 2, 2) + table.patch_operations(2), 11.6, 1.0);
        assert_within(table.delete(KIB, 10), 7.0, 1.0);
        assert_within(table.feed_page([KIB; 5].into_iter(), ConsistencyLevel::Session), 5.0, 1.0);
        // Capacity planner, {id, name}: four terms, of which an update changes name and _ts.
        assert_within(table.create(100, 4), 5.71, 1.0);
        assert_within(table.replace(100, 100, 2, 2), 10.67, 1.0);
        assert_within(table.delete(100, 4), 5.71, 1.0);
        // Key-value costs of 2019: 100 KB without an index.
        assert_within(table.read(100 * KIB, ConsistencyLevel::Session), 10.0, 10.0);
        assert_within(table.create(100 * KIB, 0), 50.0, 10.0);
        // An Orleans grain: insert of a small indexed item.
        assert_within(table.create(KIB, 6), 6.29, 10.0);
        // Strong reads.
        assert_eq!(table.read(KIB, ConsistencyLevel::Strong), Charge(200));
    }

    #[test]
    fn processor_time_costs_a_unit_for_each_millisecond_after_the_first_ten() {
        let table = ChargeTable::default();
        let cost = |micros| table.processor(Duration::from_micros(micros));
        assert_eq!([cost(0), cost(10_999), cost(11_000)], [Charge(0), Charge(0), Charge(100)]);
        assert_eq!(cost(5_000_000), Charge(499_000));
    }

    #[test]
    fn charges_print_as_the_service_prints_them() {
        for (charge, text) in
            [(100, "1"), (571, "5.71"), (570, "5.7"), (1067, "10.67"), (5, "0.05"), (125_000, "1250")]
        {
            assert_eq!(Charge(charge).to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn larger_items_and_more_terms_never_cost_less(size in 0usize..3_000_000, more in 0usize..100_000, terms in 0u64..500) {
            let table = ChargeTable::default();
            let session = ConsistencyLevel::Session;
            prop_assert!(table.read(size, session) <= table.read(size + more, session));
            prop_assert!(table.create(size, terms) <= table.create(size + more, terms + 1));
            prop_assert!(table.feed_page([size, more].into_iter(), session) >= table.read(size, session));
        }
    }
}
