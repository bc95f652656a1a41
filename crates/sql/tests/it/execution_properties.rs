//! For all items and queries, pages together are the rows of one page, within their limits.
#![allow(clippy::unwrap_used)] // a test may fail by panicking

use crate::support::random::{RandomQuery, items, query};
use crate::support::{Items, prepare};
use proptest::prelude::*;
use shardlake_sql::PageLimits;

fn limits() -> impl Strategy<Value = PageLimits> {
    (1..9usize, prop_oneof![Just(1usize), 10..400usize, Just(1 << 20)])
        .prop_map(|(rows, size_bytes)| PageLimits { rows, size_bytes })
}

/// Without sort keys, distinct or grouped rows come in any order, and a cut may keep any of them.
fn check(query: &RandomQuery, paged: Vec<String>, whole: Vec<String>, uncut: Vec<String>) {
    let any_order = query.order_by.is_empty() && (query.distinct || !query.group_by.is_empty());
    if !any_order {
        assert_eq!(paged, whole);
        return;
    }
    assert_eq!(paged.len(), query.cut(uncut.len()));
    let mut left = uncut;
    for row in paged {
        let found = left.iter().position(|other| *other == row).expect("a row of the whole result, once");
        left.swap_remove(found);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pages_together_are_the_whole(items in items(30), query in query(), limits in limits()) {
        let items = Items::new(&items.0);
        let prepared = prepare(&query.text()).unwrap();
        let paged = items.paged_rows(&prepared, limits).unwrap();
        let whole = items.rows(&prepared).unwrap();
        let uncut = items.rows(&prepare(&query.uncut().text()).unwrap()).unwrap();
        check(&query, paged, whole, uncut);
    }
}
