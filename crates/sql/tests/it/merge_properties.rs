//! Merges over random items, queries and numbers of sources: the sources' answers to the rewritten query,
//! merged page by page, equal the answer of one source with all items to the query itself. So a client that
//! merges by the plan gets the same rows.
#![allow(clippy::unwrap_used)] // a test may fail by panicking

use crate::support::random::{RandomQuery, items, query};
use crate::support::{Items, absorbed_rows, merged_rows, plan, prepare};
use proptest::prelude::*;
use shardlake_document::{ParseLimits, Value};
use shardlake_sql::{Merger, PageLimits, SqlError};

fn limits() -> impl Strategy<Value = PageLimits> {
    (1..9usize, prop_oneof![Just(1usize), 10..400usize, Just(1 << 20)])
        .prop_map(|(rows, size_bytes)| PageLimits { rows, size_bytes })
}

/// Divides the items into this many sources.
fn sources(items: &[Value], count: usize) -> Vec<Vec<Value>> {
    let size = items.len().div_ceil(count).max(1);
    let mut chunks: Vec<Vec<Value>> = items.chunks(size).map(<[Value]>::to_vec).collect();
    chunks.resize(count, vec![]);
    chunks
}

/// All items in the order in which one source breaks ties as the merge does: that of the sources. A source that sorts
/// downwards has its last items first.
fn in_order_of_ties(query: &RandomQuery, sources: &[Vec<Value>]) -> Vec<Value> {
    let first_key = query.order_by.split(',').next().unwrap();
    match first_key.ends_with("DESC") {
        true => sources.iter().rev().flatten().cloned().collect(),
        false => sources.iter().flatten().cloned().collect(),
    }
}

/// Groups are whole only once all rows have been seen, and are put in order by then.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Groups {
    InOrder,
    /// The order of clients: rows as they come, which is the order of the sort keys if there are no
    /// aggregates.
    AsTheyCome,
}

fn check(query: &RandomQuery, merged: Vec<String>, whole: Vec<String>, uncut: Vec<String>, groups: Groups) {
    let is_grouped = !query.group_by.is_empty();
    let clients_order = !query.selection.contains('(') && query.order_by.contains(',');
    let is_in_order = !query.order_by.is_empty() && (groups == Groups::InOrder || clients_order);
    if !query.distinct && (!is_grouped || is_in_order) {
        assert_eq!(in_any_list_order(&merged), in_any_list_order(&whole));
        return;
    }
    if query.distinct && query.selection == "VALUE c.a" && query.order_by.starts_with(" ORDER BY c.a") {
        assert_eq!(as_keys(&merged), as_keys(&whole));
    }
    // Distinct rows with equal sort keys come in any order, and so do all without.
    assert_eq!(merged.len(), query.cut(uncut.len()));
    let mut left = uncut;
    for row in merged {
        let found = left.iter().position(|other| *other == row).expect("a row of the whole result, once");
        left.swap_remove(found);
    }
}

/// Clients that merge by the plan do not know the order of arrays, nor of objects: without such sort keys.
fn with_scalar_keys(query: &RandomQuery, items: &[Value]) -> Vec<Value> {
    let keys = sort_keys(query);
    let scalar = |(name, value): &(String, Value)| {
        let is_list = matches!(value, Value::Array(_) | Value::Object(_));
        let value =
            if is_list && keys.iter().any(|(key, _)| key == name) { Value::Null } else { value.clone() };
        (name.clone(), value)
    };
    let item = |item: &Value| match item {
        Value::Object(members) => Value::Object(members.iter().map(scalar).collect()),
        other => other.clone(),
    };
    items.iter().map(item).collect()
}

/// The members that a query orders by, with true where descending.
fn sort_keys(query: &RandomQuery) -> Vec<(String, bool)> {
    let keys = query.order_by.trim_start_matches(" ORDER BY ").split(", ").filter(|key| !key.is_empty());
    keys.map(|key| (key[2..3].to_owned(), key.ends_with("DESC"))).collect()
}

/// All arrays are equal in an order, and so are all objects.
fn as_keys(rows: &[String]) -> Vec<String> {
    rows.iter()
        .map(|row| if row.starts_with(['[', '{']) { row[..1].to_owned() } else { row.clone() })
        .collect()
}

/// Sets hold their elements in no particular order.
fn in_any_list_order(rows: &[String]) -> Vec<Value> {
    let mut rows: Vec<Value> =
        rows.iter().map(|row| Value::from_json(row.as_bytes(), &ParseLimits::default()).unwrap()).collect();
    if let [Value::Array(elements)] = &mut rows[..] {
        elements.sort_by(shardlake_document::compare);
    }
    rows
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn one_source_answers_like_many(items in items(30), count in 1..6usize, query in query(), limits in limits()) {
        let parts = sources(&with_scalar_keys(&query, &items.0), count);
        let merged_from: Vec<Items> = parts.iter().map(|part| Items::new(part)).collect();
        let merged = merged_rows(&query.text(), &[], &merged_from, limits).unwrap();
        let alone = Items::new(&in_order_of_ties(&query, &parts));
        let whole = alone.rows(&prepare(&query.text()).unwrap()).unwrap();
        let uncut = alone.rows(&prepare(&query.uncut().text()).unwrap()).unwrap();
        check(&query, merged, whole, uncut, Groups::AsTheyCome);
    }

    #[test]
    fn one_execution_answers_like_many(items in items(30), count in 1..6usize, query in query(), limits in limits(), ordered in any::<bool>()) {
        let parts = sources(&items.0, count);
        let prepared = prepare(&query.text()).unwrap();
        let starts = parts.iter().scan(1, |next, part| {
            *next += part.len() as u64;
            Some(*next - part.len() as u64)
        });
        let whole_items: Vec<Value> = parts.iter().flatten().cloned().collect();
        let numbered: Vec<Items> = parts.iter().zip(starts).map(|(part, start)| {
            let items = Items::numbered(part, start);
            if ordered && query.group_by.is_empty() { items.sorted(&sort_keys(&query)) } else { items }
        }).collect();
        let merged = absorbed_rows(&prepared, &numbered, limits, ordered).unwrap();
        let alone = Items::new(&whole_items);
        let whole = alone.rows(&prepared).unwrap();
        let uncut = alone.rows(&prepare(&query.uncut().text()).unwrap()).unwrap();
        check(&query, merged, whole, uncut, Groups::InOrder);
    }

    #[test]
    fn foreign_states_are_refused_not_fatal(query in query(), bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let plan = plan(&query.text()).unwrap();
        let limits = PageLimits { rows: 10, size_bytes: 1000 };
        let mut with_version = vec![1, 0, 3];
        with_version.extend(&bytes);
        for state in [bytes, with_version] {
            match Merger::new(&plan.info, "SELECT * FROM c", 3, limits, Some(&state)) {
                Ok(merger) => {
                    for source in merger.needs() {
                        let _ = merger.opening(source);
                    }
                }
                Err(error) => prop_assert_eq!(error, SqlError::InvalidState),
            }
        }
    }
}
