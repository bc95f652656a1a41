//! Cost of queries: a function of a query's work over all its pages.
//!
//! The service publishes no formula; this one is fitted to its published and measured charges
//! (request-units.md §2). A page costs the amount that it adds to the charge of the whole. Every
//! page asks its partitions anew and pays for that, as in the service: the pages of a query cost as
//! much as one large page, plus the base price of each page after the first.

use shardlake_model::ConsistencyLevel;

use crate::{Charge, ChargeTable};

/// In thousandths of a request unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueryPrices {
    /// Each physical partition asked, by each page that asks it.
    partition: u64,
    /// Each row returned.
    row: u64,
    /// Each item that was read and not returned.
    item: u64,
    /// Each MiB of such items, where that costs more.
    mebibyte: u64,
    /// Each hundred index entries begun.
    hundred_postings: u64,
    /// Each row sorted rather than read in order.
    sorted_row: u64,
    /// Each call of a user-defined function. The service charges for them and does not publish the price.
    function_call: u64,
    /// A million steps of evaluation, where that is more than everything else together: a request unit for a millisecond.
    million_steps: u64,
}

pub(crate) const PRICES: QueryPrices = QueryPrices {
    partition: 2800,
    row: 130,
    item: 67,
    mebibyte: 10_600,
    hundred_postings: 200,
    sorted_row: 20,
    function_call: 20,
    million_steps: 20_000,
};

/// Work of a query, over all its pages so far. Pages that repeat reads of an earlier page do not count them twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueryCounters {
    /// Each partition counts as often as pages have asked it.
    pub partitions: u64,
    pub rows: u64,
    /// Items read, returned or not.
    pub items: u64,
    pub item_bytes: u64,
    pub postings: u64,
    pub sorted_rows: u64,
    pub function_calls: u64,
    /// Charged so far, in hundredths.
    pub charged: u64,
    /// Steps of evaluation: all steps, also those of pages that repeat reads of an earlier page.
    pub steps: u64,
}

impl QueryCounters {
    pub const COUNT: usize = 9;

    pub fn to_array(self) -> [u64; Self::COUNT] {
        let QueryCounters {
            partitions,
            rows,
            items,
            item_bytes,
            postings,
            sorted_rows,
            function_calls,
            charged,
            steps,
        } = self;
        [partitions, rows, items, item_bytes, postings, sorted_rows, function_calls, charged, steps]
    }

    pub fn from_array(numbers: [u64; Self::COUNT]) -> QueryCounters {
        let [partitions, rows, items, item_bytes, postings, sorted_rows, function_calls, charged, steps] =
            numbers;
        QueryCounters {
            partitions,
            rows,
            items,
            item_bytes,
            postings,
            sorted_rows,
            function_calls,
            charged,
            steps,
        }
    }

    /// Sum with the work of one more page.
    pub fn plus(self, page: QueryCounters) -> QueryCounters {
        let (all, page) = (self.to_array(), page.to_array());
        QueryCounters::from_array(std::array::from_fn(|place| all[place].saturating_add(page[place])))
    }
}

impl ChargeTable {
    /// A query as a whole.
    pub fn query(&self, done: QueryCounters, consistency: ConsistencyLevel) -> Charge {
        let prices = self.query;
        let not_returned = done.items.saturating_sub(done.rows);
        // The bytes of items that were not returned, as if all were of one size.
        let bytes = u128::from(done.item_bytes) * u128::from(not_returned) / u128::from(done.items.max(1));
        let by_size = u64::try_from((bytes * u128::from(prices.mebibyte)) >> 20).unwrap_or(u64::MAX);
        let thousandths = [
            done.partitions.saturating_mul(prices.partition),
            done.rows.saturating_mul(prices.row),
            not_returned.saturating_mul(prices.item).max(by_size),
            done.postings.div_ceil(100).saturating_mul(prices.hundred_postings),
            done.sorted_rows.saturating_mul(prices.sorted_row),
            done.function_calls.saturating_mul(prices.function_call),
        ];
        let read = thousandths.into_iter().fold(0u64, u64::saturating_add);
        // The price of the reads includes ordinary evaluation several times over.
        let evaluated = u128::from(done.steps) * u128::from(prices.million_steps) / 1_000_000;
        let total = read.max(u64::try_from(evaluated).unwrap_or(u64::MAX));
        Charge((total.saturating_add(5) / 10).saturating_mul(consistency.read_charge_factor()))
    }

    /// Charge that the last page adds to the charge so far, which `done` then holds. Never negative.
    pub fn query_page(&self, done: &mut QueryCounters, consistency: ConsistencyLevel) -> Charge {
        let whole = self.query(*done, consistency).0.max(done.charged);
        debug_assert!(whole >= done.charged, "more work never costs less");
        Charge(whole - std::mem::replace(&mut done.charged, whole))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A published figure with known inputs (request-units.md §1): the work, and its cost.
    const ONE: QueryCounters = QueryCounters {
        partitions: 1,
        rows: 0,
        items: 0,
        item_bytes: 0,
        postings: 0,
        sorted_rows: 0,
        function_calls: 0,
        charged: 0,
        steps: 0,
    };

    fn assert_within(done: QueryCounters, published: f64, percent: f64) {
        let cost = ChargeTable::default().query(done, ConsistencyLevel::Session).0 as f64 / 100.0;
        let off = (cost - published).abs() / published * 100.0;
        assert!(off <= percent, "{cost} RU is {off:.1} % off the published {published}");
    }

    #[test]
    fn published_queries_come_out() {
        let indexed =
            |rows| QueryCounters { rows, items: rows, item_bytes: rows << 10, postings: rows, ..ONE };
        // One item by an indexed equality: 2.98, 3.19, 2.92.
        for published in [2.98, 3.19, 2.92] {
            assert_within(indexed(1), published, 10.0);
        }
        // The same without an index, and UPPER() over 60,951 items of 400 MB.
        assert_within(QueryCounters { items: 60_951, item_bytes: 400 << 20, ..ONE }, 4059.95, 10.0);
        // A blog's feed of 100 posts, and a user's posts of which there are about 30.
        assert_within(indexed(100), 16.97, 15.0);
        assert_within(indexed(30), 6.46, 15.0);
        // A page of 100 items as they come.
        assert_within(QueryCounters { postings: 0, ..indexed(100) }, 17.0, 15.0);
        assert_eq!(ChargeTable::default().query(ONE, ConsistencyLevel::Strong), Charge(560));
    }

    fn page() -> impl Strategy<Value = QueryCounters> {
        let steps = 0u64..2_000_000;
        (0u64..2, 0u64..200, 0u64..500, 0u64..4_000_000, 0u64..500, 0u64..200, 0u64..900, steps).prop_map(
            |(partitions, rows, items, item_bytes, postings, sorted_rows, function_calls, steps)| {
                QueryCounters {
                    partitions,
                    rows,
                    items: items + rows,
                    item_bytes,
                    postings,
                    sorted_rows,
                    function_calls,
                    charged: 0,
                    steps,
                }
            },
        )
    }

    #[test]
    fn steps_cost_where_they_are_more_than_reading_pays_for() {
        let table = ChargeTable::default();
        let charge = |done| table.query(done, ConsistencyLevel::Session);
        let read = QueryCounters { items: 1000, item_bytes: 1 << 20, ..ONE };
        // Thousands of steps for each item that is read cost nothing more.
        assert_eq!(charge(QueryCounters { steps: 3_000_000, ..read }), charge(read));
        // A second of evaluation, which is some fifty million steps, costs a thousand request units.
        assert_eq!(charge(QueryCounters { steps: 50_000_000, ..read }), Charge(100_000));
        assert!(charge(QueryCounters { steps: u64::MAX, ..read }) > Charge(1 << 50));
        // An evaluation without reads is included as well.
        assert_eq!(charge(QueryCounters { steps: 140_000, ..ONE }), charge(ONE));
        assert_eq!(charge(QueryCounters { steps: 150_000, ..ONE }), Charge(300));
    }

    proptest! {
        #[test]
        fn pages_sum_to_the_whole(pages in prop::collection::vec(page(), 1..20)) {
            let table = ChargeTable::default();
            let level = ConsistencyLevel::Session;
            let (mut done, mut sum) = (QueryCounters::default(), Charge(0));
            for page in pages {
                done = done.plus(page);
                sum = sum + table.query_page(&mut done, level);
            }
            prop_assert_eq!(sum.0, done.charged);
            prop_assert!(sum >= table.query(done, level));
        }
    }
}
