//! Plans and constants against the answers of Microsoft's own planner, with a score for each group of queries.
//!
//! The planner's answers are in the shared data (`native_plans/plans.jsonl`,
//! `native_plans/expressions.jsonl`). Queries count by the groups that their `features` name. The tables here
//! limit the number of differences in each group; a change that removes some lowers the number. The
//! differences themselves are written to files below the target directory.
#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod compare;
mod replay;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use shardlake_testkit::shared_directory;

use compare::Class;

/// Recorded queries of users and of SDK tests, and the differences that each group may have at most.
const RECORDED: &[(&str, usize)] =
    &[("efcore", 16), ("everyday", 0), ("linq_sql", 59), ("samples", 0), ("sdk-dotnet", 24)];
/// All queries, with the generated ones.
const DIFFERENCES_MAX: usize = 158;
/// Refused queries whose first code is another.
const CODES_MAX: usize = 10;
/// Constant expressions with another value.
const VALUES_MAX: usize = 26;

/// Groups of generated queries that are printed; smaller ones count in the total only.
const SHOWN_MIN: usize = 30;

#[derive(Default)]
struct Score {
    queries: usize,
    right: usize,
}

#[test]
fn plans_are_those_of_the_native_planner() {
    let test = "plans_are_those_of_the_native_planner";
    let Some(directory) = shared_directory("conformance", test) else { return };
    let mut groups: BTreeMap<String, Score> = BTreeMap::new();
    let (mut classes, mut kinds) = (BTreeMap::<String, usize>::new(), BTreeMap::<String, usize>::new());
    let (mut refused, mut other_code, mut report) = (0, 0, String::new());
    for vector in vectors(&directory, "plans.jsonl") {
        let outcome = compare::judge(&vector, &replay::plan(&vector));
        *classes.entry(format!("{:?}", outcome.class)).or_default() += 1;
        if let Some(agrees) = outcome.code_agrees {
            refused += 1;
            other_code += usize::from(!agrees);
        }
        let is_right = matches!(outcome.class, Class::Same | Class::Wider);
        let features = vector["features"].as_array().unwrap().iter().map(|name| name.as_str().unwrap());
        for group in features.chain(["all"]) {
            let score = groups.entry(group.to_owned()).or_default();
            score.queries += usize::from(outcome.class != Class::NotCreatable);
            score.right += usize::from(is_right);
        }
        if outcome.class != Class::Same {
            let kind = outcome.differences.first().map_or("", |difference| &difference.field);
            *kinds.entry(format!("{:?} {kind}", outcome.class)).or_default() += 1;
            write!(report, "{:?}\n{}\n{}\n", outcome.class, vector["query"], vector["partitionKey"]).unwrap();
            for it in &outcome.differences {
                writeln!(report, "  {}\n    native {}\n    here   {}", it.field, it.native, it.here).unwrap();
            }
        }
    }
    println!("differences: {}", write("native-plans.txt", &report).display());
    println!("{classes:?}\n{kinds:#?}\nfirst code: {} of {refused}", refused - other_code);
    let is_recorded = |name: &str| RECORDED.iter().any(|(group, _)| *group == name);
    for (name, score) in &groups {
        if score.queries >= SHOWN_MIN || is_recorded(name) {
            let share = 100.0 * score.right as f64 / score.queries as f64;
            println!("{name:22} {:5} of {:5} {share:6.2} %", score.right, score.queries);
        }
    }
    let differences = |name: &str| groups[name].queries - groups[name].right;
    for (name, most) in RECORDED {
        assert!(differences(name) <= *most, "{name}: {} queries differ", differences(name));
    }
    assert!(differences("all") <= DIFFERENCES_MAX, "{} queries differ", differences("all"));
    assert!(other_code <= CODES_MAX, "{other_code} queries are refused with another code");
}

#[test]
fn constants_are_those_of_the_native_planner() {
    let test = "constants_are_those_of_the_native_planner";
    let Some(directory) = shared_directory("conformance", test) else { return };
    let (mut all, mut wrong) = (0, BTreeMap::<String, Vec<String>>::new());
    let mut listed = 0;
    for vector in vectors(&directory, "expressions.jsonl") {
        let expression = vector["expr"].as_str().unwrap();
        all += 1;
        let found = replay::value(&vector);
        if compare::is_same_value(&vector, &found) {
            continue;
        }
        if compare::is_answered_otherwise_by_the_service(expression) {
            listed += 1;
            continue;
        }
        let function = expression.split('(').next().unwrap_or_default();
        let line = format!("{expression}\n    native {}\n    here   {found:?}\n", vector["native"]);
        wrong.entry(function.to_owned()).or_default().push(line);
    }
    let mut report = String::new();
    for (function, lines) in &wrong {
        println!("{:6} {function}", lines.len());
        report.extend(lines.iter().map(String::as_str));
    }
    println!("differences: {}", write("native-constants.txt", &report).display());
    let count: usize = wrong.values().map(Vec::len).sum();
    println!("{} of {all}, {listed} listed as the service's", all - count - listed);
    assert!(count <= VALUES_MAX, "{count} expressions have another value");
}

fn vectors(directory: &Path, file: &str) -> impl Iterator<Item = Json> {
    let text = std::fs::read_to_string(directory.join("native_plans").join(file)).unwrap();
    let lines: Vec<Json> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.len() > 1000, "{file} has lost lines");
    lines.into_iter()
}

/// For the engineer who removes differences.
fn write(file: &str, report: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
    std::fs::write(&path, report).unwrap();
    path
}
