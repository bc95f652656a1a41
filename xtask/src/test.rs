//! `cargo xtask test`: every test of the project, counted.
//!
//! The suites run one after the other, each to its end even when an earlier one failed, because one run should tell
//! everything. A suite counts as good when nothing failed and at least its recorded minimum passed. The last line printed is the
//! sum: `N passed, N failed, N skipped`.

use crate::minimums::Minimums;
use crate::suites::{self, Run, SuiteResult};
use crate::tally::Tally;
use crate::{Outcome, prerequisites};
use clap::Args;
use shardlake_testkit::{SHARED, shared_place};
use std::time::{Duration, Instant};

#[derive(Debug, Default, Args)]
pub struct Options {
    /// Run only these suites: workspace, durability, engine, stores, explorer, explorer-browser, python, python-own, javascript, rust-sdk, mongo-drivers, mongo-cases, mongo-rust, pymongo
    pub suites: Vec<String>,
}

pub fn test(options: &Options) -> Outcome {
    let minimums = Minimums::read()?;
    let chosen = suites::choose(&options.suites)?;
    prerequisites::for_building()?;
    announce_missing_data();
    let scratch = tempfile::TempDir::with_prefix("shardlake-xtask-")?;

    let mut report = Report::default();
    for suite in chosen {
        println!("\n=== {} ===", suite.name);
        let skip_log = scratch.path().join(format!("{}-skips.jsonl", suite.name));
        let (run, started) = (Run::new(&skip_log), Instant::now());
        match (suite.run)(&run) {
            Ok(results) => report.add(&minimums, results),
            Err(error) => report.broken(suite.name, &error.to_string()),
        }
        report.times.push((suite.name, run.built_for(), started.elapsed() - run.built_for()));
    }
    report.print();
    if report.objections.is_empty() { Ok(()) } else { Err("some tests did not pass".into()) }
}

#[derive(Debug, Default)]
struct Report {
    rows: Vec<SuiteResult>,
    sum: Tally,
    objections: Vec<String>,
    /// Of each suite: how long it built, and how long it ran.
    times: Vec<(&'static str, Duration, Duration)>,
}

impl Report {
    fn add(&mut self, minimums: &Minimums, results: Vec<SuiteResult>) {
        for result in results {
            self.objections.extend(minimums.objection(&result.suite, result.tally));
            self.objections.extend(result.objection.clone());
            self.sum.add(result.tally);
            self.rows.push(result);
        }
    }

    /// A suite that could not run at all is one failure, so that the sum cannot look clean.
    fn broken(&mut self, suite: &str, error: &str) {
        self.sum.failed += 1;
        self.objections.push(format!("{suite} did not run: {error}"));
    }

    fn print(&self) {
        println!("\n=== skipped ===");
        print!("{}", self.skip_table());
        println!("\n=== times ===");
        for (suite, building, running) in &self.times {
            println!("{suite:<56} built {:>5} s, ran {:>5} s", building.as_secs(), running.as_secs());
        }
        println!("\n=== summary ===");
        for row in &self.rows {
            println!("{:<56} {}", row.suite, row.tally);
        }
        announce_missing_data();
        for objection in &self.objections {
            println!("NOT GOOD {objection}");
        }
        println!("{}", self.sum);
    }

    /// Every test that did not run, with its reason.
    fn skip_table(&self) -> String {
        let mut table = "| suite | test | reason |\n|---|---|---|\n".to_owned();
        for row in &self.rows {
            for skip in &row.skips {
                table.push_str(&format!("| {} | {} | {} |\n", row.suite, skip.test, one_line(&skip.reason)));
            }
            let unnamed = row.tally.skipped.saturating_sub(row.skips.len() as u64);
            if unnamed > 0 {
                table.push_str(&format!("| {} | {unnamed} more | the runner does not say |\n", row.suite));
            }
        }
        table
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

fn announce_missing_data() {
    for name in SHARED {
        let (variable, directory) = shared_place(name);
        if !directory.is_dir() {
            let place = directory.display();
            println!(
                "SKIPPED everything that reads the shared '{name}' data: {place} is not there (set {variable})"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Skip;

    #[test]
    fn every_skip_has_its_row_and_its_reason() {
        let skip = Skip { test: "a".to_owned(), reason: "no data\n  beside a|b".to_owned() };
        let tally = Tally { passed: 5, failed: 0, skipped: 3 };
        let row = SuiteResult { suite: "s".to_owned(), tally, skips: vec![skip], objection: None };
        let report = Report { rows: vec![row], ..Report::default() };
        let table = report.skip_table();
        assert!(table.contains("| s | a | no data beside a\\|b |\n"), "{table}");
        assert!(table.contains("| s | 2 more | the runner does not say |\n"), "{table}");
    }

    #[test]
    fn a_suite_that_did_not_run_is_a_failure() {
        let mut report = Report::default();
        report.broken("python", "no python3");
        assert_eq!((report.sum.failed, report.objections.len()), (1, 1));
    }
}
