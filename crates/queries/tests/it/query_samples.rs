//! Recorded results, compared with those of whole queries: through the index and the pages of one
//! partition and of five, and merged from five partitions as clients merge them.
//!
//! The language alone is compared with the same records in the tests of `sql`.
#![allow(clippy::unwrap_used)] // a test may fail by panicking

use std::path::{Path, PathBuf};

use crate::support::queries::{Tolerance, parse, same_rows, shown};
use crate::support::recorded::{Containers, list, told};
use shardlake_account::Value;
use shardlake_testkit::shared_directory;

fn samples(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory.join("samples")).unwrap();
    let mut samples: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    samples.retain(|sample| sample.join("query.sql").exists() && sample.join("result.json").exists());
    samples.sort();
    samples
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn samples_give_the_recorded_rows() {
    let Some(directory) = shared_directory("conformance", "samples_give_the_recorded_rows") else { return };
    let (mut compared, mut failures) = (0, vec![]);
    for sample in samples(&directory) {
        let name = sample.file_name().unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(sample.join("query.sql")).unwrap();
        let seed = sample.join("seed.json");
        // A sample without items projects constants: one row for one item.
        let items = if seed.exists() { list(&seed) } else { vec![Value::Object(vec![])] };
        let containers = Containers::new("/id", &items).await;
        let tolerance = Tolerance {
            relative: if text.to_uppercase().contains("ST_") { 1e-6 } else { 1e-12 },
            in_order: text.to_uppercase().contains("ORDER BY"),
        };
        let expected = list(&sample.join("result.json"));
        let problems = Box::pin(containers.differences(&text, &expected, tolerance)).await;
        compared += 1;
        if !problems.is_empty() {
            failures.push(format!("{name}: expected {}\n  {}", shown(&expected), problems.join("\n  ")));
        }
    }
    assert!(failures.is_empty(), "{} of {compared} samples:\n{}", failures.len(), failures.join("\n"));
    assert!(compared >= 50, "only {compared} samples");
}

/// Aggregates over values of mixed types, as the service's own back end answered them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aggregates_over_mixed_types_are_the_recorded_ones() {
    let name = "aggregates_over_mixed_types_are_the_recorded_ones";
    let Some(directory) = shared_directory("conformance", name) else { return };
    let items = list(&directory.join("aggregate_documents.json"));
    let containers = Containers::new("/key", &items).await;
    let (mut compared, mut failures) = (0, vec![]);
    for case in list(&directory.join("aggregates_and_index_metrics.json")) {
        let (Some(text), Some(expected)) =
            (case.get("Query").and_then(Value::as_str), case.get("Aggregation").and_then(Value::as_str))
        else {
            continue;
        };
        compared += 1;
        let expected = if expected.is_empty() { vec![] } else { vec![parse(expected.as_bytes())] };
        let problems = Box::pin(aggregate_differences(&containers, text, &expected)).await;
        if !problems.is_empty() {
            failures.push(format!("{text}: expected {}\n  {}", shown(&expected), problems.join("\n  ")));
        }
    }
    assert!(failures.is_empty(), "{} of {compared} aggregates:\n{}", failures.len(), failures.join("\n"));
    assert!(compared >= 60, "only {compared} aggregates");
}

/// Lists and sets hold their values in no particular order.
async fn aggregate_differences(containers: &Containers, text: &str, expected: &[Value]) -> Vec<String> {
    let elements = |rows: &[Value]| match rows {
        [Value::Array(elements)] => elements.clone(),
        _ => rows.to_vec(),
    };
    let tolerance = Tolerance { relative: 1e-12, in_order: false };
    let fixture = &containers.fixture;
    let ways = [
        ("one partition", fixture.answer(&containers.one, text, 1).await.map(|answer| answer.rows)),
        ("five partitions", fixture.answer(&containers.five, text, 1).await.map(|answer| answer.rows)),
        ("merged as clients do", fixture.merged(&containers.five, text, 100).await),
    ];
    let mut problems = Vec::new();
    for (name, rows) in ways {
        let is_same = rows.as_ref().is_ok_and(|rows| {
            rows.len() == expected.len() && same_rows(&elements(rows), &elements(expected), tolerance)
        });
        if !is_same {
            problems.push(format!("{name}: {}", told(rows)));
        }
    }
    problems
}
