//! The samples behind the service's documentation: each query over its documents gives the recorded rows.
#![allow(clippy::unwrap_used)] // a test may fail by panicking
#![allow(clippy::print_stderr)] // reports skipped comparisons

use std::path::Path;

use crate::support::{Items, UNLIMITED, merged_rows, prepare};
use shardlake_document::{ParseLimits, Value};
use shardlake_testkit::shared_directory;

#[test]
fn samples_give_the_recorded_rows() {
    let Some(directory) = shared_directory("conformance", "samples_give_the_recorded_rows") else { return };
    let mut names: Vec<_> = std::fs::read_dir(directory.join("samples"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let (mut compared, mut failures) = (0, vec![]);
    for name in names {
        let sample = directory.join("samples").join(&name);
        if !sample.join("query.sql").exists() || !sample.join("result.json").exists() {
            continue;
        }
        compared += 1;
        if let Err(problem) = compare_sample(&sample) {
            failures.push(format!("{name}: {problem}"));
        }
    }
    assert!(failures.is_empty(), "{} of {compared} samples:\n{}", failures.len(), failures.join("\n"));
    assert!(compared >= 55, "only {compared} samples");
}

fn compare_sample(sample: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(sample.join("query.sql")).unwrap();
    let items = match std::fs::read(sample.join("seed.json")) {
        Ok(seed) => Items::from_json(&seed),
        Err(_) => Items::new(&[Value::Object(vec![("id".into(), Value::String("1".into()))])]),
    };
    let expected = list(&std::fs::read(sample.join("result.json")).unwrap());
    let query = prepare(&text).map_err(|error| error.to_string())?;
    let rows = items.rows(&query).map_err(|error| error.to_string())?;
    let rows: Vec<Value> = rows.iter().map(|row| parse(row.as_bytes())).collect();
    let tolerance = if text.to_uppercase().contains("ST_") { 1e-6 } else { 1e-12 };
    let same = match query.is_ordered() {
        true => {
            rows.len() == expected.len()
                && rows.iter().zip(&expected).all(|(row, expected)| alike(row, expected, tolerance))
        }
        false => same_rows(&rows, &expected, tolerance),
    };
    if same { Ok(()) } else { Err(format!("\n   found {}\n   not   {}", shown(&rows), shown(&expected))) }
}

fn list(text: &[u8]) -> Vec<Value> {
    match parse(text) {
        Value::Array(elements) => elements,
        other => vec![other],
    }
}

fn parse(text: &[u8]) -> Value {
    Value::from_json(text, &ParseLimits { size_max_bytes: text.len(), ..ParseLimits::default() }).unwrap()
}

fn shown(rows: &[Value]) -> String {
    rows.iter().map(|row| row.to_json().unwrap()).collect::<Vec<_>>().join(" ")
}

/// Compares rows as multisets.
fn same_rows(rows: &[Value], expected: &[Value], tolerance: f64) -> bool {
    let mut left: Vec<&Value> = expected.iter().collect();
    rows.len() == expected.len()
        && rows.iter().all(|row| {
            let found = left.iter().position(|expected| alike(row, expected, tolerance));
            found.map(|index| left.remove(index)).is_some()
        })
}

fn alike(left: &Value, right: &Value, tolerance: f64) -> bool {
    match (left, right) {
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|(left, right)| alike(left, right, tolerance))
        }
        (Value::Object(members), Value::Object(others)) => {
            members.len() == others.len()
                && members
                    .iter()
                    .all(|(name, value)| right.get(name).is_some_and(|other| alike(value, other, tolerance)))
        }
        _ => match (left.as_number(), right.as_number()) {
            (Some(left), Some(right)) => {
                let (left, right) = (left.as_f64(), right.as_f64());
                (left - right).abs() <= tolerance * left.abs().max(right.abs())
            }
            _ => left == right,
        },
    }
}

/// Aggregates over values of mixed types, as the service's own back end answered them.
#[test]
fn aggregates_over_mixed_types_are_the_recorded_ones() {
    let name = "aggregates_over_mixed_types_are_the_recorded_ones";
    let Some(directory) = shared_directory("conformance", name) else { return };
    let documents = list(&std::fs::read(directory.join("aggregate_documents.json")).unwrap());
    let items = Items::new(&documents);
    // Divided among three partitions.
    let thirds: Vec<Items> = (0..3)
        .map(|third| Items::new(&documents.iter().skip(third).step_by(3).cloned().collect::<Vec<_>>()))
        .collect();
    let (mut compared, mut failures) = (0, vec![]);
    for case in list(&std::fs::read(directory.join("aggregates_and_index_metrics.json")).unwrap()) {
        let (Some(text), Some(expected)) =
            (case.get("Query").and_then(Value::as_str), case.get("Aggregation").and_then(Value::as_str))
        else {
            continue;
        };
        compared += 1;
        let expected = if expected.is_empty() { vec![] } else { vec![parse(expected.as_bytes())] };
        let alone = items.rows(&prepare(text).unwrap());
        let merged = merged_rows(text, &[], &thirds, UNLIMITED);
        for rows in [alone, merged] {
            let rows: Vec<Value> = rows.unwrap().iter().map(|row| parse(row.as_bytes())).collect();
            if !same_aggregates(&rows, &expected) {
                failures.push(format!("{text}\n   found {}\n   not   {}", shown(&rows), shown(&expected)));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {compared} aggregates:\n{}", failures.len(), failures.join("\n"));
    assert!(compared >= 60, "only {compared} aggregates");
}

/// Lists and sets hold their values in no particular order.
fn same_aggregates(rows: &[Value], expected: &[Value]) -> bool {
    match (rows, expected) {
        ([Value::Array(elements)], [Value::Array(expected)]) => same_rows(elements, expected, 1e-12),
        _ => same_rows(rows, expected, 1e-12),
    }
}
