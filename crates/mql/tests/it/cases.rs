//! The recorded cases, and the number of them that must pass in each area. The numbers only grow: `UPDATE=1` raises them.

use crate::harness::{Area, run};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn minimums_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/minimums.toml")
}

fn minimums() -> BTreeMap<String, u32> {
    let text = std::fs::read_to_string(minimums_file()).unwrap_or_default();
    toml::from_str(&text).unwrap()
}

/// `MQL_AREA` runs only areas with that prefix; `MQL_REPORT` names a file for the failures.
#[test]
fn recorded_cases_pass() {
    let Some(shared) = shardlake_testkit::shared_directory("conformance", "recorded_cases_pass") else {
        return;
    };
    let folder = shared.join("mongo/functional-tests/cases");
    if !folder.is_dir() {
        shardlake_testkit::note_skipped("recorded_cases_pass", "the recorded cases of MongoDB are not there");
        return;
    }
    let chosen = std::env::var_os("MQL_AREA").map(|area| area.into_string().unwrap());
    let areas = run(&folder, |name| chosen.as_ref().is_none_or(|chosen| name.starts_with(chosen.as_str())));
    let report = report(&areas);
    println!("{report}");
    if let Some(path) = std::env::var_os("MQL_REPORT") {
        std::fs::write(path, failures(&areas)).unwrap();
    }
    let known = minimums();
    let fewer: Vec<String> = areas
        .iter()
        .filter(|(name, area)| known.get(*name).is_some_and(|least| area.passed < *least))
        .map(|(name, area)| format!("{name}: {} pass, {} did", area.passed, known[name]))
        .collect();
    assert!(fewer.is_empty(), "areas in which fewer cases pass: {fewer:#?}");
    if chosen.is_none() && std::env::var_os("UPDATE").is_some() {
        let counts: BTreeMap<&String, u32> = areas
            .iter()
            .filter(|(_, area)| area.passed > 0)
            .map(|(name, area)| (name, area.passed))
            .collect();
        let head = "# Recorded cases that pass, by area. Written by the test itself with UPDATE=1; numbers only grow.\n";
        std::fs::write(minimums_file(), format!("{head}{}", toml::to_string(&counts).unwrap())).unwrap();
    }
}

fn report(areas: &BTreeMap<String, Area>) -> String {
    let mut text = String::new();
    let mut tiers: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
    for (name, area) in areas {
        writeln!(text, "{:6}/{:<6} {} {name}", area.passed, area.total, area.tier).unwrap();
        let tier = tiers.entry(&area.tier).or_default();
        tier.0 += area.passed;
        tier.1 += area.total;
    }
    for (tier, (passed, total)) in tiers {
        writeln!(text, "tier {tier}: {passed} of {total} pass").unwrap();
    }
    text
}

fn failures(areas: &BTreeMap<String, Area>) -> String {
    let mut text = String::new();
    for (name, area) in areas {
        for (kind, id, words) in &area.failures {
            writeln!(text, "## {name} {kind} {id}\n{words}").unwrap();
        }
    }
    text
}
