//! Request charges: what an operation costs, as a versioned table and pure functions over sizes and counts.
//!
//! Amounts are hundredths of a request unit in integers, so that sums are exact and the same data always costs the same.
//! The table "azure-2026-04" is the service's published one for reads and writes by item size, with the next larger row
//! standing for sizes between two rows (that is what the published examples follow), plus 0.2 RU per index term.

use std::fmt;
use std::iter::Sum;
use std::ops::Add;

use shardlake_model::ConsistencyLevel;

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
    /// Misses and unmodified reads.
    miss: u64,
    /// A feed page costs at least this.
    page_min: u64,
    query: QueryPrices,
}

/// What a query costs, in thousandths of a request unit: measured charges of the service, fitted (request-units.md §2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct QueryPrices {
    /// Each physical partition asked.
    partition: u64,
    /// Each row returned.
    row: u64,
    /// Each item that was read and not returned.
    item: u64,
    /// Each MiB of such items, where that is more.
    mebibyte: u64,
    /// Each hundred index entries begun.
    hundred_postings: u64,
    /// Each row sorted rather than read in order.
    sorted_row: u64,
}

/// What a query has done, over all its pages so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueryCounters {
    pub partitions: u64,
    pub rows: u64,
    /// Items read and not returned.
    pub items: u64,
    pub item_bytes: u64,
    pub postings: u64,
    pub sorted_rows: u64,
}

impl QueryCounters {
    pub const COUNT: usize = 6;

    pub fn to_array(self) -> [u64; Self::COUNT] {
        [self.partitions, self.rows, self.items, self.item_bytes, self.postings, self.sorted_rows]
    }

    pub fn from_array(numbers: [u64; Self::COUNT]) -> QueryCounters {
        let [partitions, rows, items, item_bytes, postings, sorted_rows] = numbers;
        QueryCounters { partitions, rows, items, item_bytes, postings, sorted_rows }
    }

    /// With what one more page has done.
    pub fn plus(self, page: QueryCounters) -> QueryCounters {
        let (all, page) = (self.to_array(), page.to_array());
        QueryCounters::from_array(std::array::from_fn(|place| all[place].saturating_add(page[place])))
    }
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

impl Default for ChargeTable {
    fn default() -> Self {
        ChargeTable {
            version: "azure-2026-04",
            rows: AZURE_2026_04,
            term: 20,
            patch_operation: 40,
            miss: 100,
            page_min: 100,
            query: QueryPrices {
                partition: 2800,
                row: 130,
                item: 67,
                mebibyte: 10_600,
                hundred_postings: 200,
                sorted_row: 20,
            },
        }
    }
}

impl ChargeTable {
    pub fn version(&self) -> &'static str {
        self.version
    }

    fn row(&self, size_bytes: usize) -> SizeRow {
        let fits = |row: &&SizeRow| size_bytes as u64 <= row.size_kib * 1024;
        *self.rows.iter().find(fits).unwrap_or_else(|| self.rows.last().expect("the table has rows"))
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

    /// What a patch costs on top of the replace that it amounts to.
    pub fn patch_operations(&self, operations: u64) -> Charge {
        Charge(self.patch_operation * operations)
    }

    pub fn not_found(&self) -> Charge {
        Charge(self.miss)
    }

    pub fn not_modified(&self) -> Charge {
        Charge(self.miss)
    }

    /// A query as a whole. The charge of a page is the difference that it makes, so that pages add up exactly.
    pub fn query(&self, done: QueryCounters, consistency: ConsistencyLevel) -> Charge {
        let prices = self.query;
        let times = |count: u64, price: u64| count.saturating_mul(price);
        let read = times(done.items, prices.item).max(
            ((u128::from(done.item_bytes) * u128::from(prices.mebibyte)) >> 20).min(u128::from(u64::MAX))
                as u64,
        );
        let thousandths = [
            times(done.partitions, prices.partition),
            times(done.rows, prices.row),
            read,
            times(done.postings.div_ceil(100), prices.hundred_postings),
            times(done.sorted_rows, prices.sorted_row),
        ];
        let total = thousandths.into_iter().fold(0u64, u64::saturating_add);
        Charge(total.saturating_add(5) / 10 * consistency.read_charge_factor())
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
    fn published_queries_come_out() {
        let table = ChargeTable::default();
        let cost = |counters| table.query(counters, ConsistencyLevel::Session);
        let one = QueryCounters { partitions: 1, ..QueryCounters::default() };
        // One item by an indexed equality: 2.98.
        assert_within(cost(QueryCounters { rows: 1, postings: 1, ..one }), 2.98, 10.0);
        // 60,951 documents of 400 MB without an index: 4,059.95.
        let scan = QueryCounters { items: 60_951, item_bytes: 400 << 20, ..one };
        assert_within(cost(scan), 4059.95, 10.0);
        // The blog's feed of 100 posts: 16.97; a user's posts: 6.46.
        assert_within(cost(QueryCounters { rows: 100, postings: 100, ..one }), 16.97, 10.0);
        assert_within(cost(QueryCounters { rows: 30, postings: 30, ..one }), 6.46, 15.0);
        assert_eq!(table.query(one, ConsistencyLevel::Strong), Charge(560));
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
