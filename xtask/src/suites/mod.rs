//! The suites of `cargo xtask test`: the needs, runs and counts of each.

mod analytics;
mod dist;
mod engine;
pub mod explorer;
mod go;
mod java;
mod javascript;
mod mongo;
mod mongo_rust;
pub mod programs;
mod pymongo;
mod python;
mod rust_sdk;
mod stores;
mod support;
mod workspace;

pub use support::{Run, SuiteResult};

use crate::Outcome;

/// Build that a suite needs. Cargo makes one build at a time, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Build {
    Nothing,
    /// The server and the kill -9 harness, with the features that all test programs have.
    Server,
    /// Every test program of the workspace, and so the server.
    Workspace,
    MongoRust,
    RustSdk,
    Engine,
}

impl Build {
    /// All builds that a suite waits for. The test programs of the workspace include the server,
    /// but the server is there earlier; all suites except those without a build run against it.
    pub fn with_the_server(self) -> Vec<Build> {
        match self {
            Build::Nothing => Vec::new(),
            Build::Server => vec![Build::Server],
            Build::Engine => vec![Build::Engine],
            Build::Workspace | Build::MongoRust | Build::RustSdk => vec![Build::Server, self],
        }
    }

    pub fn run(self) -> Outcome {
        match self {
            Build::Nothing => Ok(()),
            Build::Server => workspace::build_harness(),
            Build::Workspace => workspace::build(),
            Build::MongoRust => mongo_rust::build(),
            Build::RustSdk => rust_sdk::build(),
            Build::Engine => engine::build(),
        }
    }
}

pub struct Suite {
    pub name: &'static str,
    /// See `Build::with_the_server`.
    pub build: Build,
    pub run: fn(&Run<'_>) -> Outcome<Vec<SuiteResult>>,
}

const fn suite(name: &'static str, build: Build, run: fn(&Run<'_>) -> Outcome<Vec<SuiteResult>>) -> Suite {
    Suite { name, build, run }
}

/// In the order in which they begin: the longest first, since the last one runs alone.
const SUITES: &[Suite] = &[
    suite("explorer", Build::Nothing, explorer::run_sources),
    suite("workspace", Build::Workspace, workspace::run),
    suite("python", Build::Server, python::run_sdk_tests),
    suite("stores", Build::Server, stores::run),
    suite("durability", Build::Server, workspace::run_durability),
    suite("explorer-browser", Build::Server, explorer::run_browser),
    suite("loopback", Build::Workspace, workspace::run_loopback),
    suite("mongo-cases", Build::Server, mongo::run_cases),
    suite("mongo-drivers", Build::Server, mongo::run_drivers),
    suite("pymongo", Build::Server, pymongo::run),
    suite("java", Build::Server, java::run),
    suite("javascript", Build::Server, javascript::run),
    suite("go", Build::Server, go::run),
    suite("python-own", Build::Server, python::run_own),
    suite("dist", Build::Server, dist::run),
    suite("mongo-rust", Build::MongoRust, mongo_rust::run),
    suite("rust-sdk", Build::RustSdk, rust_sdk::run),
    suite("engine", Build::Engine, engine::run),
    suite("analytics", Build::Workspace, analytics::run),
];

/// For everyday work: they wait for nothing outside cargo and Node.js.
const QUICK: [&str; 2] = ["workspace", "explorer"];

/// All suites, or those named; `quick` names those for everyday work.
pub fn choose(names: &[String]) -> Outcome<Vec<&'static Suite>> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let names = if names == ["quick"] { QUICK.to_vec() } else { names };
    if let Some(unknown) = names.iter().find(|name| SUITES.iter().all(|suite| suite.name != **name)) {
        let known: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
        return Err(format!("there is no suite '{unknown}'; there are quick, {}", known.join(", ")).into());
    }
    Ok(SUITES.iter().filter(|suite| names.is_empty() || names.contains(&suite.name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_are_chosen_by_name() {
        assert_eq!(choose(&[]).expect("all").len(), SUITES.len());
        assert_eq!(choose(&["python".to_owned()]).expect("one")[0].name, "python");
        assert_eq!(choose(&["quick".to_owned()]).expect("some").len(), QUICK.len());
        assert!(choose(&["nosuch".to_owned()]).is_err());
    }
}
