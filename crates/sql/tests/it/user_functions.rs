//! User-defined functions in queries, without JavaScript: functions that do the same as a built-in function
//! give the same rows, however they are called. Calls are made in batches, for reached rows only.
#![allow(clippy::unwrap_used)] // a test may fail by panicking

use std::sync::{Arc, Mutex};

use crate::support::random::items;
use crate::support::user_functions::{BuiltIns, Noted, query};
use crate::support::{Calling, Items, UNLIMITED, absorbed_rows, merged_rows, plan, prepare};
use proptest::prelude::*;
use shardlake_document::{ParseLimits, Value};
use shardlake_model::ErrorKind;
use shardlake_sql::{KeyFilter, PageLimits, SqlError};

type Calls = Arc<Mutex<Vec<(String, usize)>>>;

fn limits() -> impl Strategy<Value = PageLimits> {
    (1..9usize, prop_oneof![10..400usize, Just(1 << 20)])
        .prop_map(|(rows, size_bytes)| PageLimits { rows, size_bytes })
}

fn noted(gathers: bool) -> (Calling, Calls) {
    let calls = Calls::default();
    let shared = calls.clone();
    (Calling { functions: Arc::new(move || Box::new(Noted(shared.clone(), BuiltIns))), gathers }, calls)
}

/// `{"id": "i0", "n": 0, "tags": [0, 1]}` and so on.
fn numbered(count: i64) -> Items {
    let item = |n: i64| format!("{{\"id\":\"i{n}\",\"n\":{n},\"tags\":[{n},{}]}}", n + 1);
    let items: Vec<String> = (0..count).map(item).collect();
    Items::from_json(format!("[{}]", items.join(",")).as_bytes())
}

fn sorted(mut rows: Vec<String>) -> Vec<String> {
    rows.sort();
    rows
}

/// Sets hold their elements in no particular order.
fn comparable(rows: Vec<String>) -> Vec<Value> {
    let parse = |row: &String| Value::from_json(row.as_bytes(), &ParseLimits::default()).unwrap();
    let mut rows: Vec<Value> = rows.iter().map(parse).collect();
    if let [Value::Array(elements)] = &mut rows[..] {
        elements.sort_by(shardlake_document::compare);
    }
    rows
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn they_are_like_built_in_ones(
        items in items(30), query in query(), limits in limits(), gathers in any::<bool>(),
    ) {
        let built_in = Items::new(&items.0).rows(&prepare(&query.text("")).unwrap());
        let own = Items::new(&items.0).calling(Calling { gathers, ..Calling::default() });
        let prepared = prepare(&query.text("udf.")).unwrap();
        let in_one_page = own.rows(&prepared);
        prop_assert_eq!(&in_one_page, &built_in);
        let Ok(built_in) = built_in else { return Ok(()) };
        let paged = own.paged_rows(&prepared, limits).unwrap();
        let any_order = query.any_order || query.distinct;
        if any_order && query.cut.is_none() {
            prop_assert_eq!(sorted(paged), sorted(built_in));
        } else if !any_order {
            prop_assert_eq!(paged, built_in);
        }
    }

    #[test]
    fn one_source_answers_like_many(
        items in items(30), count in 1..5usize, query in query(), limits in limits(),
    ) {
        let (own, built_in) = (query.text("udf."), query.text(""));
        let Ok(whole) = Items::new(&items.0).rows(&prepare(&built_in).unwrap()) else { return Ok(()) };
        if query.rest.contains("ORDER BY") || (query.cut.is_some() && (query.any_order || query.distinct)) {
            // Ties come in the order of the sources.
            return Ok(());
        }
        let size = items.0.len().div_ceil(count).max(1);
        let mut first = 1;
        let mut sources = Vec::new();
        for part in items.0.chunks(size) {
            sources.push(Items::numbered(part, first));
            first += part.len() as u64;
        }
        // A plan by which no item can match has one partition asked; the functions' results have no type to know that by.
        if plan(&built_in).is_ok_and(|plan| plan.keys != KeyFilter::Nothing) {
            let merged = merged_rows(&own, &[], &sources, limits).unwrap();
            let of_built_in = merged_rows(&built_in, &[], &sources, limits).unwrap();
            prop_assert_eq!(comparable(merged), comparable(of_built_in));
        }
        let absorbed = absorbed_rows(&prepare(&own).unwrap(), &sources, limits, false).unwrap();
        prop_assert_eq!(comparable(sorted(absorbed)), comparable(sorted(whole)));
    }
}

#[test]
fn calls_are_made_in_batches_and_only_for_what_rows_reach() {
    for (text, expected) in [
        ("SELECT VALUE udf.ABS(c.n) FROM c", &[("ABS", 100)][..]),
        // Equal calls of an item are one; inner calls come before outer ones.
        ("SELECT VALUE [udf.ABS(c.n), udf.ABS(c.n)] FROM c", &[("ABS", 100)]),
        ("SELECT VALUE udf.ABS(udf.ABS(-c.n) - 1) FROM c", &[("ABS", 100), ("ABS", 100)]),
        ("SELECT udf.ABS(c.n) AS x, udf.IS_NUMBER(c.n) AS y FROM c", &[("ABS", 100), ("IS_NUMBER", 100)]),
        // Whatever is cheaper decides first, wherever it is written.
        ("SELECT VALUE 1 FROM c WHERE udf.ABS(c.n) = 5 AND c.n < 10", &[("ABS", 10)]),
        ("SELECT VALUE 1 FROM c WHERE c.n >= 10 OR udf.ABS(c.n) = 5", &[("ABS", 10)]),
        ("SELECT VALUE c.n < 10 ? udf.ABS(c.n) : udf.UPPER('x') FROM c", &[("ABS", 10), ("UPPER", 90)]),
        ("SELECT VALUE c.n ?? udf.ABS(c.n) FROM c", &[]),
        ("SELECT VALUE IIF(c.n < 10, udf.ABS(c.n), 0) FROM c", &[("ABS", 10)]),
        ("SELECT VALUE CHOOSE(1, c.n, udf.ABS(c.n)) FROM c", &[]),
        ("SELECT VALUE udf.ABS(t) FROM c JOIN t IN c.tags", &[("ABS", 200)]),
        ("SELECT VALUE udf.ABS(c.n) FROM c JOIN t IN c.tags", &[("ABS", 100)]),
        ("SELECT VALUE ARRAY(SELECT VALUE udf.ABS(t) FROM t IN c.tags) FROM c", &[("ABS", 200)]),
        ("SELECT VALUE SUM(udf.ABS(c.n)) FROM c", &[("ABS", 100)]),
        ("SELECT udf.ABS(c.n % 2) AS k, COUNT(1) AS n FROM c GROUP BY udf.ABS(c.n % 2)", &[("ABS", 100)]),
        ("SELECT udf.ABS(c.n) AS k FROM c GROUP BY c.n", &[("ABS", 100)]),
        ("SELECT TOP 5 VALUE udf.ABS(c.n) FROM c", &[("ABS", 5)]),
        ("SELECT VALUE udf.ABS(c.n) FROM c OFFSET 7 LIMIT 3", &[("ABS", 7), ("ABS", 7)]),
        ("SELECT udf.ABS(c.n) AS x FROM c OFFSET 50 LIMIT 50", &[("ABS", 50)]),
        ("SELECT VALUE udf.ABS(1)", &[("ABS", 1)]),
        ("SELECT VALUE 1 FROM c WHERE false AND udf.ABS(c.n) = 1", &[]),
    ] {
        let (calling, calls) = noted(true);
        let items = numbered(100).calling(calling);
        items.rows(&prepare(text).unwrap()).unwrap();
        let found = calls.lock().unwrap().clone();
        let found: Vec<(&str, usize)> = found.iter().map(|(name, rows)| (name.as_str(), *rows)).collect();
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn a_page_calls_for_little_more_than_its_rows() {
    let (calling, calls) = noted(true);
    let items = numbered(2000).calling(calling);
    let limits = PageLimits { rows: 10, ..UNLIMITED };
    let made = || calls.lock().unwrap().drain(..).map(|(_, rows)| rows).collect::<Vec<_>>();
    items.page(&prepare("SELECT VALUE udf.ABS(c.n) FROM c").unwrap(), limits, None).unwrap();
    // The row after the page shows that the page is full; the next page calls for it again.
    assert_eq!(made(), [10, 10]);
    // Where few rows pass, the batches grow with the number of items read.
    let rare = prepare("SELECT VALUE c.n FROM c WHERE udf.ABS(c.n) % 100 = 0").unwrap();
    items.page(&rare, limits, None).unwrap();
    let batches = made();
    assert_eq!(batches[..6], [10, 10, 20, 40, 80, 160]);
    assert!(batches.iter().sum::<usize>() < 1300, "{batches:?}");
}

#[test]
fn only_rows_that_reach_a_call_fail_by_it() {
    let rows = |text: &str| numbered(20).rows(&prepare(text).unwrap());
    let failed = |text: &str| match rows(text) {
        Err(SqlError::UserFunction { kind, message, .. }) => (kind, message),
        other => panic!("{text}: {other:?}"),
    };
    let thrown = (ErrorKind::BadRequest, "the function 'fails' has thrown".to_owned());
    for text in [
        "SELECT VALUE udf.fails(c) FROM c",
        "SELECT VALUE 1 FROM c WHERE udf.fails(c)",
        "SELECT VALUE 1 FROM c WHERE c.n = 19 AND udf.fails(c)",
        "SELECT VALUE c.n = 19 ? udf.fails(c) : 1 FROM c",
        "SELECT VALUE COUNT(udf.fails(c)) FROM c",
        "SELECT VALUE EXISTS(SELECT VALUE t FROM t IN c.tags WHERE udf.fails(t)) FROM c",
        "SELECT VALUE udf.fails(1)",
    ] {
        assert_eq!(failed(text), thrown, "{text}");
    }
    for text in [
        "SELECT VALUE c.n > 100 ? udf.fails(c) : 1 FROM c",
        "SELECT VALUE c.n ?? udf.fails(c) FROM c",
        "SELECT VALUE 1 FROM c WHERE udf.fails(c) AND c.n > 100",
        "SELECT VALUE 1 FROM c WHERE c.n < 100 OR udf.fails(c)",
        "SELECT TOP 3 VALUE c.n >= 3 ? udf.fails(c) : c.n FROM c WHERE c.n < 2 OR udf.ABS(c.n) != 77",
        "SELECT VALUE EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t = c.n OR udf.fails(t)) FROM c",
        "SELECT VALUE 1 FROM c JOIN t IN c.none WHERE udf.fails(c)",
    ] {
        rows(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
}

#[test]
fn names_are_known_and_calls_are_counted() {
    let refused = |text: &str| prepare(text).unwrap_err().to_string();
    assert_eq!(
        refused("SELECT VALUE udf.g(1)"),
        "the user-defined function 'g' does not exist in this container"
    );
    assert!(refused("SELECT VALUE udf.abs(c.n) FROM c").contains("'abs'"), "case counts");
    let calls = |count: usize| {
        let calls: Vec<String> = (0..count).map(|place| format!("udf.ABS(c.n + {place})")).collect();
        format!("SELECT VALUE [{}] FROM c", calls.join(", "))
    };
    prepare(&calls(10)).unwrap();
    assert!(refused(&calls(11)).contains("more than 10 places"));
    assert!(
        refused("SELECT * FROM c ORDER BY udf.ABS(c.n)").contains("could not be mapped to a document path")
    );
    assert!(refused("SELECT VALUE udf.ABS(COUNT(1)) FROM c").contains("Compositions of aggregates"));
    let names =
        prepare("SELECT VALUE udf.ABS(c.n) FROM c WHERE EXISTS(SELECT VALUE udf.UPPER(t) FROM t IN c.tags)");
    let names: Vec<String> = names.unwrap().user_functions().iter().map(|name| name.to_string()).collect();
    assert_eq!(names, ["UPPER", "ABS"]);
}
