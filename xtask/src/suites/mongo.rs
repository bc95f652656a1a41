//! MongoDB's drivers, and the recorded cases of another project, against the server's MongoDB API.
//!
//! `mongo-drivers` runs our scripts in `tests-sdk/mongo` through PyMongo, the Node.js driver,
//! Mongoose and mongosh. `mongo-cases` runs the cases in the shared data by their own runner. Cases
//! that the server cannot pass are listed with the reason in `tests-sdk/mongo/exceptions.toml`; a
//! listed case that passes must be removed from the list. Cases that do not pass yet are counted as
//! skipped, by area, and the recorded minimum holds the others.

use super::support::{Run, SuiteResult};
use crate::command::{run_and_listen, run_to_end};
use crate::tally::{Skip, Tally};
use crate::{Outcome, prerequisites, project, tally};
use serde::Deserialize;
use shardlake_testkit::{ServerProcess, shared_place};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

pub const ARGUMENTS: &[&str] = &["--mongo-listen=127.0.0.1:0", "--mongo-test-commands"];

pub fn run_drivers(run: &Run<'_>) -> Outcome<Vec<SuiteResult>> {
    prerequisites::for_python()?;
    prerequisites::for_javascript()?;
    let server = run.start_server_with(ARGUMENTS)?;
    let python = environment()?;
    let mut pymongo = Command::new(python);
    pymongo.arg(project::root().join("tests-sdk/mongo/python/suite.py"));
    let mut node = Command::new("node");
    node.args(["--test", "--test-reporter=tap", "test/"]).current_dir(packages()?);
    Ok(vec![
        driver("mongo-drivers/pymongo", &mut pymongo, &server)?,
        driver("mongo-drivers/node", &mut node, &server)?,
    ])
}

fn driver(suite: &str, command: &mut Command, server: &ServerProcess) -> Outcome<SuiteResult> {
    let ready = server.ready();
    command
        .env("SHARDLAKE_MONGO", address(server)?)
        .env("SHARDLAKE_KEY", &ready.key)
        .env("SHARDLAKE_BINARY", project::server_binary("debug"))
        .env("SHARDLAKE_DOCS", project::root().join("docs"))
        .env("SHARDLAKE_CA_FILE", ready.fields["ca_file"].as_str().unwrap_or_default());
    let (output, ended_well) = run_and_listen(command)?;
    if !ended_well {
        println!("--- log of the server ---\n{}", server.log());
    }
    let skips = tally::skips_of_tap(&output);
    let result = SuiteResult::new(suite, tally::of_tap(&output), ended_well);
    Ok(SuiteResult { skips, ..result }.with_log_of(server))
}

pub fn address(server: &ServerProcess) -> Outcome<String> {
    let address = server.ready().fields["mongo"][0].as_str().map(str::to_owned);
    Ok(address.ok_or("the server does not say where MongoDB's drivers are served")?)
}

fn environment() -> Outcome<PathBuf> {
    python_with("mongo-python", "tests-sdk/mongo/python/requirements.txt")
}

/// A Python with the packages of a file, made anew when the pinned versions change.
pub fn python_with(place: &str, requirements: &str) -> Outcome<PathBuf> {
    let place = project::work_directory().join(place);
    let requirements = project::root().join(requirements);
    let (python, installed) = (place.join("bin/python"), place.join("shardlake-requirements"));
    let wanted = std::fs::read(&requirements)?;
    if std::fs::read(&installed).is_ok_and(|found| found == wanted) {
        return Ok(python);
    }
    run_to_end(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&place))?;
    run_to_end(Command::new(&python).args(["-m", "pip", "install", "--quiet", "-r"]).arg(&requirements))?;
    std::fs::write(installed, wanted)?;
    Ok(python)
}

/// A copy of the scripts with the driver next to them.
fn packages() -> Outcome<PathBuf> {
    let source = project::root().join("tests-sdk/mongo/js");
    let copy = project::work_directory().join("mongo-js");
    std::fs::create_dir_all(copy.join("test"))?;
    // Files of an earlier run must not outlive their deletion in the checkout.
    std::fs::remove_dir_all(copy.join("test"))?;
    std::fs::create_dir_all(copy.join("test"))?;
    for file in ["package.json", "package-lock.json"] {
        std::fs::copy(source.join(file), copy.join(file))?;
    }
    for file in std::fs::read_dir(source.join("test"))? {
        let file = file?;
        std::fs::copy(file.path(), copy.join("test").join(file.file_name()))?;
    }
    let (installed, wanted) =
        (copy.join("node_modules/.shardlake-lock"), std::fs::read(copy.join("package-lock.json"))?);
    if !std::fs::read(&installed).is_ok_and(|found| found == wanted) {
        run_to_end(
            Command::new("npm")
                .args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"])
                .current_dir(&copy),
        )?;
        std::fs::write(installed, wanted)?;
    }
    Ok(copy)
}

#[derive(Debug, Deserialize)]
struct Report {
    /// Case → `passed`, or the kind of its failure.
    cases: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exceptions {
    exception: Vec<Exception>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    reason: String,
    cases: Vec<String>,
}

pub fn run_cases(run: &Run<'_>) -> Outcome<Vec<SuiteResult>> {
    const SUITE: &str = "mongo-cases";
    let folder = shared_place("conformance").1.join("mongo/functional-tests");
    if !folder.join("run.py").is_file() {
        println!("SKIPPED the recorded cases: {} is not there", folder.display());
        let skip = Skip { test: "all".into(), reason: "the shared 'conformance' data is not there".into() };
        let tally = Tally { skipped: 1, ..Tally::default() };
        return Ok(vec![SuiteResult { skips: vec![skip], ..SuiteResult::new(SUITE, Some(tally), true) }]);
    }
    prerequisites::for_python()?;
    let server = run.start_unsynced_server_with(ARGUMENTS)?;
    let report = server.scratch().join("mongo-cases.json");
    let mut runner = Command::new("python3");
    runner.arg(folder.join("run.py")).arg(address(&server)?).arg("--report").arg(&report);
    let (_, ended_well) = run_and_listen(&mut runner)?;
    let report: Report = serde_json::from_str(&std::fs::read_to_string(&report)?)?;
    let exceptions = exceptions(&project::root().join("tests-sdk/mongo/exceptions.toml"))?;
    let result = judge(SUITE, &report, &exceptions, ended_well);
    Ok(vec![result.with_log_of(&server)])
}

/// Case → why it cannot pass.
fn exceptions(path: &Path) -> Outcome<BTreeMap<String, String>> {
    let listed: Exceptions = toml::from_str(&std::fs::read_to_string(path)?)?;
    let cases = |exception: Exception| {
        let Exception { reason, cases } = exception;
        cases.into_iter().map(move |case| (case, reason.clone()))
    };
    Ok(listed.exception.into_iter().flat_map(cases).collect())
}

fn judge(
    suite: &str,
    report: &Report,
    exceptions: &BTreeMap<String, String>,
    ended_well: bool,
) -> SuiteResult {
    let (failing, passing): (Vec<&String>, Vec<&String>) = {
        let (failing, passing): (Vec<_>, Vec<_>) =
            report.cases.iter().partition(|(_, kind)| *kind != "passed");
        (failing.into_iter().map(|(id, _)| id).collect(), passing.into_iter().map(|(id, _)| id).collect())
    };
    let mut skips: BTreeMap<(String, String), u64> = BTreeMap::new();
    for id in &failing {
        let known = exceptions.get(*id).cloned();
        let reason = known.unwrap_or_else(|| "does not behave as recorded yet".to_owned());
        *skips.entry((area(id), reason)).or_default() += 1;
    }
    let skips =
        skips.into_iter().map(|((area, reason), count)| Skip { test: format!("{count} of {area}"), reason });
    let tally = Tally { passed: passing.len() as u64, failed: 0, skipped: failing.len() as u64 };
    let mut result =
        SuiteResult { skips: skips.collect(), ..SuiteResult::new(suite, Some(tally), ended_well) };
    let cured: Vec<&str> =
        passing.into_iter().filter(|id| exceptions.contains_key(*id)).map(String::as_str).collect();
    if !cured.is_empty() {
        result.objection =
            Some(format!("{suite}: these pass, take them off the list of exceptions:\n{}", cured.join("\n")));
    }
    result
}

/// The folder of a case, which names its subject.
fn area(id: &str) -> String {
    let path = id.split("::").next().unwrap_or(id);
    let folders: Vec<&str> = path.split('/').filter(|part| !part.ends_with(".py")).collect();
    folders.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_that_fail_are_skipped_by_area_and_listed_ones_must_fail() {
        let cases = [
            ("core/a/test_x.py::one", "passed"),
            ("core/a/test_x.py::two", "mismatch"),
            ("core/b/test_y.py::one", "error"),
        ];
        let report = Report { cases: cases.map(|(id, kind)| (id.to_owned(), kind.to_owned())).into() };
        let listed = |id: &str| BTreeMap::from([(id.to_owned(), "because".to_owned())]);
        let result = judge("s", &report, &listed("core/b/test_y.py::one"), true);
        assert_eq!(result.tally, Tally { passed: 1, failed: 0, skipped: 2 });
        assert_eq!(result.objection, None);
        let rows: Vec<(&str, &str)> =
            result.skips.iter().map(|skip| (skip.test.as_str(), skip.reason.as_str())).collect();
        assert_eq!(rows, [("1 of core/a", "does not behave as recorded yet"), ("1 of core/b", "because")]);
        assert!(judge("s", &report, &listed("core/a/test_x.py::one"), true).objection.is_some());
    }

    #[test]
    fn the_recorded_list_parses() {
        let listed = exceptions(&project::root().join("tests-sdk/mongo/exceptions.toml"));
        assert!(!listed.expect("it is well-formed").is_empty());
    }
}
