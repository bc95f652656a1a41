//! The suites of `cargo xtask test`, in the order they run: cheap and local first.

mod javascript;
mod python;
mod rust_sdk;
mod workspace;

use crate::tally::Tally;
use crate::{Outcome, project};
use shardlake_testkit::{ServerOptions, ServerProcess};
use std::path::Path;

/// One line of the report. A suite may report several, each held to its own minimum.
#[derive(Debug, Clone)]
pub struct SuiteResult {
    pub suite: String,
    pub tally: Tally,
    /// Something wrong that the counts do not show.
    pub objection: Option<String>,
}

impl SuiteResult {
    /// `ended_well` is the exit status of the runner, which must agree with the counts.
    fn new(suite: &str, tally: Option<Tally>, ended_well: bool) -> SuiteResult {
        let objection = match (tally, ended_well) {
            (None, _) => Some(format!("{suite} reported no counts")),
            (Some(tally), false) if tally.failed == 0 => Some(format!("{suite} failed outside its tests")),
            _ => None,
        };
        SuiteResult { suite: suite.to_owned(), tally: tally.unwrap_or_default(), objection }
    }
}

pub struct Suite {
    pub name: &'static str,
    /// Gets the file in which skipped tests are noted.
    pub run: fn(&Path) -> Outcome<Vec<SuiteResult>>,
}

const SUITES: &[Suite] = &[
    Suite { name: "workspace", run: workspace::run },
    Suite { name: "doc", run: workspace::run_doc_tests },
    Suite { name: "durability", run: workspace::run_durability },
    Suite { name: "javascript", run: javascript::run },
    Suite { name: "python-own", run: python::run_own },
    Suite { name: "python", run: python::run_sdk_tests },
    Suite { name: "rust-sdk", run: rust_sdk::run },
];

/// All suites, or those named.
pub fn choose(names: &[String]) -> Outcome<Vec<&'static Suite>> {
    if let Some(unknown) = names.iter().find(|name| SUITES.iter().all(|suite| suite.name != name.as_str())) {
        let known: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
        return Err(format!("there is no suite '{unknown}'; there are {}", known.join(", ")).into());
    }
    Ok(SUITES
        .iter()
        .filter(|suite| names.is_empty() || names.iter().any(|name| name == suite.name))
        .collect())
}

/// A server of its own for one suite, from the build that the workspace tests use. It refuses no request for its throughput:
/// the suites ask for some to get partitions, and are not written for a server that throttles them.
fn start_server() -> Outcome<ServerProcess> {
    workspace::build_server()?;
    let options = ServerOptions::new(project::server_binary("debug"));
    Ok(options.argument("--throughput=unlimited").try_start()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_are_chosen_by_name() {
        assert_eq!(choose(&[]).expect("all").len(), SUITES.len());
        assert_eq!(choose(&["doc".to_owned()]).expect("one")[0].name, "doc");
        assert!(choose(&["nosuch".to_owned()]).is_err());
    }

    #[test]
    fn a_runner_that_died_is_noticed() {
        assert!(SuiteResult::new("a", None, true).objection.is_some());
        assert!(SuiteResult::new("a", Some(Tally::default()), false).objection.is_some());
        let failed = Tally { passed: 1, failed: 1, skipped: 0 };
        assert!(SuiteResult::new("a", Some(failed), false).objection.is_none(), "the count says it");
    }
}
