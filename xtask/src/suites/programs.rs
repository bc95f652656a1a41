//! Test programs of the workspace: built once, listed in a file, run concurrently.
//!
//! `cargo test` runs one program after another, and `cargo nextest` is not on every machine. Cargo
//! only builds here. The list of programs is stored in the build directory, so that a later suite
//! does not ask cargo again: cargo would wait for the lock of another build.
//! `target/debug/shardlake` of this one build is the server of all other suites.

use crate::command::unable;
use crate::project::FEATURES;
use crate::tally::{self, Tally};
use crate::{Outcome, project};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

/// A test program, and where cargo would run it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    pub package: String,
    /// `lib`, `it`, or the name of another target.
    pub target: String,
    pub path: PathBuf,
    pub directory: PathBuf,
}

/// Which test programs cargo builds. The kill -9 harness brings the server along, as an integration test of its package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selection {
    All,
    Harness,
}

pub fn build(selection: Selection) -> Outcome {
    let mut cargo = project::cargo();
    cargo.args(["test", "--locked", "--workspace", "--no-run", "--message-format=json-render-diagnostics"]);
    cargo.args(FEATURES).current_dir(project::root());
    match selection {
        Selection::All => cargo.arg("--all-targets"),
        Selection::Harness => cargo.args(["--test", "durability"]),
    };
    println!("$ cargo test --no-run ({selection:?})");
    let mut child =
        cargo.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(|error| unable(&cargo, &error))?;
    let messages = BufReader::new(child.stdout.take().expect("standard output was piped above"));
    let programs: Vec<Program> = messages.lines().map_while(Result::ok).filter_map(|m| parsed(&m)).collect();
    if !child.wait()?.success() {
        return Err("the test programs do not build".into());
    }
    let known = if selection == Selection::All { programs } else { with_known(programs) };
    std::fs::write(list(), serde_json::to_vec_pretty(&known)?)?;
    Ok(())
}

/// A build of the harness alone leaves the other programs listed: they are still there.
fn with_known(built: Vec<Program>) -> Vec<Program> {
    let mut known = programs().unwrap_or_default();
    known.retain(|known| {
        built.iter().all(|new| (&new.package, &new.target) != (&known.package, &known.target))
    });
    known.extend(built);
    known
}

/// The programs of the last build.
pub fn programs() -> Outcome<Vec<Program>> {
    let text = std::fs::read(list()).map_err(|error| format!("{}: {error}", list().display()))?;
    Ok(serde_json::from_slice(&text)?)
}

pub fn harness() -> Outcome<Program> {
    let found = programs()?.into_iter().find(|program| program.target == "durability");
    Ok(found.ok_or("the kill -9 harness is not built")?)
}

fn list() -> PathBuf {
    project::target_directory().join("debug/test-programs.json")
}

fn parsed(message: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(message).ok()?;
    let is_test = message["reason"] == "compiler-artifact" && message["profile"]["test"] == true;
    let path = message["executable"].as_str().filter(|_| is_test)?;
    let manifest = Path::new(message["manifest_path"].as_str()?);
    let target = &message["target"];
    let name =
        if target["kind"][0] == "test" { target["name"].as_str()? } else { target["kind"][0].as_str()? };
    let directory = manifest.parent()?;
    Some(Program {
        package: directory.file_name()?.to_str()?.to_owned(),
        target: name.to_owned(),
        path: path.into(),
        directory: directory.to_owned(),
    })
}

impl Program {
    /// As cargo runs it, as far as tests depend on that.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.current_dir(&self.directory).stdin(Stdio::null());
        command.env("CARGO_MANIFEST_DIR", &self.directory).env("CARGO_PKG_NAME", &self.package);
        command
    }

    pub fn name(&self) -> String {
        format!("{}/{}", self.package, self.target)
    }
}

/// Runs programs concurrently, at most `at_once`, in the order given. Prints one line for each, and
/// all output of a failed one. Every program runs to its end.
pub fn run_all(programs: Vec<Program>, at_once: usize, prepare: impl Fn(&mut Command) + Sync) -> Tally {
    let queue = Mutex::new(VecDeque::from(programs));
    let sum = Mutex::new(Tally::default());
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(program) = { queue.lock().expect("no runner panics").pop_front() } {
                    let tally = run_one(&program, &prepare);
                    sum.lock().expect("no runner panics").add(tally);
                }
            });
        }
    });
    sum.into_inner().expect("no runner panics")
}

fn run_one(program: &Program, prepare: &impl Fn(&mut Command)) -> Tally {
    let mut command = program.command();
    prepare(&mut command);
    let started = Instant::now();
    let failed = Tally { failed: 1, ..Tally::default() };
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            println!("{}: {}", program.name(), unable(&command, &error));
            return failed;
        }
    };
    let text = String::from_utf8_lossy(&output.stdout);
    // A program that died has no counts, or counts in which nothing failed.
    let tally = match tally::of_cargo_test(&text) {
        Some(tally) if output.status.success() || tally.failed > 0 => tally,
        _ => failed,
    };
    println!("{:<28} {tally} in {:.1} s", program.name(), started.elapsed().as_secs_f64());
    if tally.failed > 0 {
        println!("{text}\n{}", String::from_utf8_lossy(&output.stderr));
        println!("{} ended with {}", program.name(), output.status);
    }
    tally
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_found_among_the_messages_of_cargo() {
        let message = |kind: &str, name: &str, test: bool| {
            serde_json::json!({
                "reason": "compiler-artifact", "manifest_path": "/w/crates/sql/Cargo.toml", "executable": "/t/x-1",
                "target": { "kind": [kind], "name": name }, "profile": { "test": test },
            })
            .to_string()
        };
        let names = |kind, name, test| parsed(&message(kind, name, test)).map(|program| program.name());
        assert_eq!(names("lib", "shardlake_sql", true).as_deref(), Some("sql/lib"));
        assert_eq!(names("test", "it", true).as_deref(), Some("sql/it"));
        assert_eq!(names("bin", "shardlake", false), None, "the server is no test");
        assert_eq!(parsed("warning: no message"), None);
    }

    #[test]
    fn a_program_that_does_not_start_or_dies_is_one_failure() {
        let program = |path: &str| Program {
            package: "a".into(),
            target: "it".into(),
            path: path.into(),
            directory: "/".into(),
        };
        let programs = vec![program("/no/such/program"), program("/bin/false"), program("/bin/true")];
        let tally = run_all(programs, 2, |_| {});
        assert_eq!(tally, Tally { passed: 0, failed: 3, skipped: 0 });
    }
}
