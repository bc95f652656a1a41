//! The packages of a release, made of the server that all suites use, and installed: everything but the long build.
//!
//! `cargo xtask dist --check` makes the same checks of the real release.

use super::support::{Run, SuiteResult};
use crate::tally::Tally;
use crate::{Outcome, dist, project};

pub fn run(_run: &Run<'_>) -> Outcome<Vec<SuiteResult>> {
    let directory = tempfile::TempDir::with_prefix("shardlake-dist-suite-")?;
    let artefacts = dist::make(&project::server_binary("debug"), directory.path(), true)?;
    let checked = artefacts.check_all();
    let tally = Tally { passed: checked.passed, failed: checked.failed, skipped: checked.skips.len() as u64 };
    let result = SuiteResult::new("dist", Some(tally), checked.failed == 0);
    Ok(vec![SuiteResult { skips: checked.skips, ..result }])
}
