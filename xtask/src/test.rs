//! `cargo xtask test`: every test of the project, counted.
//!
//! The suites run concurrently with cargo and with each other (`schedule.rs`), each to its end even when an
//! earlier one failed, because one run should report everything. A suite is good when nothing failed and at
//! least its recorded minimum passed. The last line printed is the sum: `N passed, N failed, N skipped`.

use crate::minimums::Minimums;
use crate::processor_time::Yardstick;
use crate::schedule::{self, Check, Outcomes};
use crate::suites::{self, SuiteResult};
use crate::tally::Tally;
use crate::{Outcome, prerequisites};
use clap::Args;
use shardlake_testkit::{SHARED, shared_place};
use std::time::Instant;

#[derive(Debug, Default, Args)]
pub struct Options {
    /// Run only these suites: quick (workspace and explorer), workspace, durability, engine, stores, explorer, explorer-browser, python, python-own, java, javascript, go, dist, rust-sdk, mongo-drivers, mongo-cases, mongo-rust, pymongo, loopback
    pub suites: Vec<String>,
}

pub fn test(options: &Options) -> Outcome {
    test_and_check(options, &[])
}

/// The suites, with these checks of cargo run concurrently.
pub fn test_and_check(options: &Options, checks: &[Check]) -> Outcome {
    let started = Instant::now();
    let minimums = Minimums::read()?;
    let chosen = suites::choose(&options.suites)?;
    prerequisites::for_building()?;
    announce_missing_data();
    if options.suites.is_empty() {
        println!("{}", minimums.announcement());
    }
    let scratch = tempfile::TempDir::with_prefix("shardlake-xtask-")?;
    let yardstick = Yardstick::start();
    let outcomes = schedule::run(&chosen, checks, scratch.path());
    let yardstick = yardstick.end();
    let mut report = Report::new(&minimums, outcomes);
    println!("\nyardstick {yardstick:.2} s");
    if options.suites.is_empty() {
        report.objections.extend(minimums.objection_to_processor_time(report.processor_seconds(), yardstick));
    }
    report.print();
    println!("all of it took {:.1} minutes", started.elapsed().as_secs_f64() / 60.0);
    println!("{}{}", report.sum, report.suites_not_run());
    report.verdict()
}

#[derive(Debug, Default)]
struct Report {
    rows: Vec<SuiteResult>,
    sum: Tally,
    objections: Vec<String>,
    /// Seconds of each step of cargo.
    steps: Vec<(String, f64)>,
    /// Seconds, and processor seconds, of each suite.
    times: Vec<(&'static str, f64, f64)>,
    failures: Vec<String>,
}

impl Report {
    fn new(minimums: &Minimums, outcomes: Outcomes) -> Report {
        let mut report = Report { failures: outcomes.failures, ..Report::default() };
        for step in outcomes.steps {
            report.steps.push((step.name, step.seconds));
            report.objections.extend(step.failure);
        }
        for (suite, ended) in outcomes.suites {
            report.times.push((suite, ended.seconds, ended.processor_seconds));
            match ended.results {
                Ok(results) => report.add(minimums, results),
                Err(error) => report.broken(suite, &error),
            }
        }
        report
    }

    fn add(&mut self, minimums: &Minimums, results: Vec<SuiteResult>) {
        for result in results {
            if result.absent.is_none() {
                self.objections.extend(minimums.objection(&result.suite, result.tally));
            }
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

    fn processor_seconds(&self) -> f64 {
        self.times.iter().map(|(_, _, processor)| processor).sum()
    }

    /// Suites that did not run at all, which the sum does not count.
    fn suites_not_run(&self) -> String {
        let absent = self.rows.iter().filter(|row| row.absent.is_some()).map(|row| row.suite.as_str());
        let names: Vec<&str> = absent.collect();
        if names.is_empty() { String::new() } else { format!("; not run: {}", names.join(", ")) }
    }

    fn print(&self) {
        println!("\n=== skipped ===");
        print!("{}", self.skip_table());
        println!("\n=== times ===");
        for (step, seconds) in &self.steps {
            println!("{step:<56} {seconds:>5.0} s");
        }
        for (suite, seconds, processor) in &self.times {
            println!("{suite:<56} {seconds:>5.0} s, {processor:>5.0} s of processors");
        }
        println!("{:<56} {:>15.0} s of processors", "all suites", self.processor_seconds());
        println!("\n=== summary ===");
        for row in &self.rows {
            match &row.absent {
                Some(reason) => println!("{:<56} SKIPPED the whole suite: {reason}", row.suite),
                None => println!("{:<56} {}", row.suite, row.tally),
            }
        }
        announce_missing_data();
    }

    /// The error lists every failure, since the caller prints it last, and a long output is read from its end.
    fn verdict(&self) -> Outcome {
        if self.objections.is_empty() {
            return Ok(());
        }
        let mut lines = vec!["some tests did not pass".to_owned()];
        lines.extend(self.failures.iter().map(|line| format!("  {line}")));
        lines.extend(self.objections.iter().map(|objection| format!("NOT GOOD {objection}")));
        Err(lines.join("\n").into())
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
        let row =
            SuiteResult { suite: "s".to_owned(), tally, skips: vec![skip], objection: None, absent: None };
        let report = Report { rows: vec![row], ..Report::default() };
        let table = report.skip_table();
        assert!(table.contains("| s | a | no data beside a\\|b |\n"), "{table}");
        assert!(table.contains("| s | 2 more | the runner does not say |\n"), "{table}");
    }

    #[test]
    fn a_suite_without_its_language_is_named_in_the_sum() {
        let minimums = Minimums::read().expect(".ci/minimums.toml");
        let row = |suite: &str, absent: Option<&str>| SuiteResult {
            suite: suite.to_owned(),
            tally: Tally::default(),
            skips: Vec::new(),
            objection: None,
            absent: absent.map(str::to_owned),
        };
        let mut report = Report::default();
        report.add(&minimums, vec![row("java/sdk", Some("no JDK")), row("java/spring", Some("no JDK"))]);
        assert_eq!(
            (report.objections.len(), report.suites_not_run().as_str()),
            (0, "; not run: java/sdk, java/spring")
        );
        report.add(&minimums, vec![row("javascript", None)]);
        assert_eq!(report.objections.len(), 1, "a suite that ran is held to its minimum");
    }

    #[test]
    fn the_verdict_lists_failures_and_objections() {
        let mut report =
            Report { failures: vec!["workspace: test a ... FAILED".to_owned()], ..Report::default() };
        assert!(report.verdict().is_ok(), "a line alone may be part of a test's own output");
        report.broken("python", "no python3");
        let error = report.verdict().expect_err("a suite did not run").to_string();
        assert!(
            error.contains("test a ... FAILED") && error.contains("NOT GOOD python did not run: no python3")
        );
    }

    #[test]
    fn a_suite_that_did_not_run_is_a_failure() {
        let mut report = Report::default();
        report.broken("python", "no python3");
        assert_eq!((report.sum.failed, report.objections.len()), (1, 1));
    }
}
