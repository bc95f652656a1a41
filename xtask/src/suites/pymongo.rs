//! The tests that PyMongo ships, against the server's MongoDB API.
//!
//! `tests-sdk/mongo/pymongo/run.py` installs the pinned driver, unpacks the tests of its source
//! distribution, runs the chosen files and writes the counts per file as JSON; this module gives it a server
//! and reads the counts. Failures that are in the table of expectations count as skipped, with their reason.
//! PyMongo's runner succeeds even if it skipped everything: the recorded minimum of each file detects that.

use super::mongo::{ARGUMENTS, address};
use super::support::{Run, SuiteResult};
use crate::command::run_and_listen;
use crate::tally::{Skip, Tally};
use crate::{Outcome, prerequisites, project};
use serde::Deserialize;
use std::process::Command;

#[derive(Debug, Deserialize)]
struct Counts {
    file: String,
    passed: u64,
    failed: u64,
    skipped: u64,
    skips: Vec<Skip>,
    unexpected: Vec<String>,
}

pub fn run(run: &Run<'_>) -> Outcome<Vec<SuiteResult>> {
    prerequisites::for_python()?;
    let server = run.start_server_with(ARGUMENTS)?;
    let results = server.scratch().join("pymongo.json");
    let mut python = Command::new("python3");
    python
        .arg(project::root().join("tests-sdk/mongo/pymongo/run.py"))
        .arg("--work")
        .arg(project::work_directory().join("pymongo"))
        .arg("--results")
        .arg(&results)
        .env("SHARDLAKE_MONGO", address(&server)?);
    let (_, ended_well) = run_and_listen(&mut python)?;
    if !ended_well {
        println!("--- log of the server ---\n{}", server.log());
    }
    let text =
        std::fs::read_to_string(&results).map_err(|error| format!("the runner left no counts: {error}"))?;
    let counts: Vec<Counts> = serde_json::from_str(&text)?;
    let mut rows: Vec<SuiteResult> = counts.into_iter().map(row).collect();
    // The server is the same for all files; its log is reported with the last one.
    if let Some(last) = rows.pop() {
        rows.push(last.with_log_of(&server));
    }
    Ok(rows)
}

fn row(counts: Counts) -> SuiteResult {
    let tally = Tally { passed: counts.passed, failed: counts.failed, skipped: counts.skipped };
    let suite = format!("pymongo/{}", counts.file);
    let mut result =
        SuiteResult { skips: counts.skips, ..SuiteResult::new(&suite, Some(tally), counts.failed == 0) };
    if !counts.unexpected.is_empty() {
        result.objection = Some(format!("{suite}: not expected:\n{}", counts.unexpected.join("\n")));
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_expected_is_an_objection() {
        let counts = |failed: u64, unexpected: &[&str]| Counts {
            file: "test_x.py".into(),
            passed: 3,
            failed,
            skipped: 1,
            skips: vec![Skip { test: "1 of test_x.py".into(), reason: "because".into() }],
            unexpected: unexpected.iter().map(|&line| line.to_owned()).collect(),
        };
        let well = row(counts(0, &[]));
        assert_eq!((well.suite.as_str(), well.objection), ("pymongo/test_x.py", None));
        assert_eq!(well.tally, Tally { passed: 3, failed: 0, skipped: 1 });
        assert!(row(counts(1, &["test_x.py::A.b"])).objection.is_some_and(|words| words.contains("A.b")));
    }
}
