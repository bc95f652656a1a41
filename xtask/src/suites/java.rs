//! Our suites for Java, `tests-sdk/java`: the SDK itself, and an application of Spring Data.
//!
//! The Maven project is copied into the work directory, which also has its repository of packages, so that the checkout
//! stays clean. The project fixes every version, and Maven verifies the checksum of each download. Once a run has ended
//! well, later runs of the same project need no network. The counts are those of the XML reports that Maven leaves.

use super::support::{Run, SuiteResult, copied_afresh, with_endpoints};
use crate::command::run_and_listen;
use crate::tally::Tally;
use crate::{Outcome, prerequisites, project, tally};
use std::path::{Path, PathBuf};
use std::process::Command;

const MODULES: [&str; 2] = ["sdk", "spring"];
/// Ends of the names of suites, and the directories of their reports. All tests run in gateway mode, and then in Direct mode, which is the
/// SDK's default.
const MODES: [(&str, &str); 2] = [("", "surefire-reports"), ("-direct", "surefire-reports-direct")];

pub fn run(run: &Run<'_>) -> Outcome<Vec<SuiteResult>> {
    if let Some(absent) = prerequisites::absent_java() {
        return Ok(suites().map(|(name, _)| SuiteResult::not_installed(&name, absent)).collect());
    }
    let directory = prepared_copy()?;
    let projects = projects_in(&directory)?;
    let complete = directory.join("complete");
    // Two shards, so that partitions can be moved.
    let server = run.start_server_with(&["--shards=2"])?;
    let mut maven = Command::new("mvn");
    maven.args(["--batch-mode", "--no-transfer-progress", "--strict-checksums", "--fail-at-end"]);
    if std::fs::read_to_string(&complete).is_ok_and(|found| found == projects) {
        maven.arg("--offline");
    }
    maven
        .arg(format!("-Dmaven.repo.local={}", directory.join("repository").display()))
        .arg("test")
        .current_dir(&directory);
    with_endpoints(&mut maven, &server)?;
    let (_, ended_well) = run_and_listen(&mut maven)?;
    if ended_well {
        std::fs::write(&complete, projects)?;
    } else {
        println!("--- log of the server ---\n{}", server.log());
    }
    let rows = suites().map(|(name, reports)| {
        let counts = counts_of(&directory.join(reports));
        let failed_elsewhere = counts.is_some_and(|counts| counts.failed == 0);
        SuiteResult::new(&name, counts, ended_well || !failed_elsewhere).with_log_of(&server)
    });
    Ok(rows.collect())
}

/// The name of each suite, and where Maven leaves its reports.
fn suites() -> impl Iterator<Item = (String, PathBuf)> {
    let of_module = |module| {
        let suite = move |(mode, reports)| {
            (format!("java/{module}{mode}"), Path::new(module).join("target").join(reports))
        };
        MODES.into_iter().map(suite)
    };
    MODULES.into_iter().flat_map(of_module)
}

/// The sources of this checkout, without the build of an earlier run.
fn prepared_copy() -> Outcome<PathBuf> {
    let source = project::root().join("tests-sdk/java");
    let copy = project::work_directory().join("java");
    for module in MODULES {
        copied_afresh(&source.join(module), &copy.join(module))?;
    }
    std::fs::copy(source.join("pom.xml"), copy.join("pom.xml"))?;
    Ok(copy)
}

/// The project files, which decide about the packages that a run needs.
fn projects_in(directory: &Path) -> Outcome<String> {
    let files = ["pom.xml", "sdk/pom.xml", "spring/pom.xml"];
    Ok(files
        .map(|file| std::fs::read_to_string(directory.join(file)))
        .into_iter()
        .collect::<Result<_, _>>()?)
}

/// The sum of all reports. `None` where Maven ended before it ran a test.
fn counts_of(reports: &Path) -> Option<Tally> {
    let entries = std::fs::read_dir(reports).ok()?;
    let files = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let texts = files
        .filter(|file| file.extension().is_some_and(|kind| kind == "xml"))
        .filter_map(|file| std::fs::read_to_string(file).ok());
    texts.map(|text| tally::of_junit(&text)).reduce(|sum, one| {
        let (mut sum, one) = (sum?, one?);
        sum.add(one);
        Some(sum)
    })?
}
