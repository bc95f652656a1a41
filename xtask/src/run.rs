//! `cargo xtask run`: from a clean checkout to a server that answers.
//!
//! Builds the server and becomes it, so that signals reach the server and Ctrl-C ends it. The server itself
//! prints the ready record; the demo data and the data directory are defaults that arguments replace.
//!
//! The profile is `quick`: optimised without LTO, so that a first build stays within minutes. What that costs at run time stands
//! in `docs/benchmarks.md`; whoever installs the server builds `release`.

use crate::build_time::BuildTime;
use crate::command::run_to_end;
use crate::{Outcome, prerequisites, project};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// Beside a server that runs already: on a port of its own, and in memory.
pub fn tour(arguments: &[String]) -> Outcome {
    let mut server = Command::new(built()?);
    server.args(["demo", "hot-tenant", "--browser"]);
    if !names(arguments, "--listen") {
        server.args(["--listen", "127.0.0.1:0"]);
    }
    server.args(arguments);
    Err(format!("the server does not start: {}", server.exec()).into())
}

fn built() -> Outcome<PathBuf> {
    prerequisites::for_building()?;
    let binary = project::server_binary(project::QUICK);
    if !binary.exists() {
        announce_first_build();
    }
    run_to_end(&mut project::build_quickly(&["shardlake"]))?;
    Ok(binary)
}

fn announce_first_build() {
    let Ok(recorded) = BuildTime::recorded() else { return };
    eprintln!(
        "xtask: a first build takes about {} minutes on two processors and {} MB in {}; later ones take seconds",
        recorded.wall_seconds.div_ceil(60),
        recorded.megabytes,
        project::target_directory().display()
    );
}

pub fn run(arguments: &[String]) -> Outcome {
    let binary = built()?;
    eprintln!(
        "xtask: starting {}; `cargo install --locked --path crates/server` makes it the command shardlake",
        binary.display()
    );
    let mut server = Command::new(binary);
    server.arg("serve");
    if !names(arguments, "--demo") && !names(arguments, "--seed") {
        server.args(["--demo", "webstore"]);
    }
    if !names(arguments, "--data-dir") {
        server.arg("--data-dir").arg(project::root().join(".work/run"));
    }
    server.args(arguments);
    // Returns only when the program could not be started.
    Err(format!("the server does not start: {}", server.exec()).into())
}

fn names(arguments: &[String], flag: &str) -> bool {
    arguments.iter().any(|argument| {
        argument == flag || argument.strip_prefix(flag).is_some_and(|rest| rest.starts_with('='))
    })
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn a_flag_is_seen_in_both_spellings() {
        let arguments = ["--listen=127.0.0.1:9".to_owned(), "--seed".to_owned(), "a".to_owned()];
        assert!(names(&arguments, "--listen") && names(&arguments, "--seed"));
        assert!(!names(&arguments, "--data-dir") && !names(&arguments, "--list"));
    }
}
