//! Base of a comparison with this tree: a revision, built for `bench/src/compare` to drive both, or
//! a program that was built before.
//!
//! The revision is checked out into a worktree under the target directory and built into a target directory of its own. Its
//! program is kept there by its commit and profile, so that a second comparison builds nothing.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Outcome, command, project};

/// The profile that an earlier revision may not have in its manifest yet.
const PROFILE_QUICK: [&str; 3] =
    ["profile.quick.inherits=\"release\"", "profile.quick.lto=\"off\"", "profile.quick.codegen-units=16"];

#[derive(Debug, PartialEq, Eq)]
pub enum Base {
    Program(PathBuf),
    Revision(String),
}

/// Takes the base from the arguments of a benchmark that has one: the first argument, or the value of `--base`.
pub fn take(name: &str, arguments: &mut Vec<String>) -> Outcome<Option<Base>> {
    let unsaid = match name {
        "compare" => None,
        "guard" | "all" => Some("HEAD^".to_owned()),
        _ => return Ok(None),
    };
    let said = match arguments.iter().position(|argument| argument == "--base") {
        Some(at) if at + 1 < arguments.len() => arguments.drain(at..at + 2).next_back(),
        _ if arguments.first().is_some_and(|first| !first.starts_with('-')) => Some(arguments.remove(0)),
        _ => None,
    };
    let base = said.or(unsaid).ok_or_else(|| format!("{name} with which revision or program?"))?;
    let is_program = Path::new(&base).is_file();
    Ok(Some(if is_program { Base::Program(base.into()) } else { Base::Revision(base) }))
}

impl Base {
    /// `None` of a program.
    pub fn revision(&self) -> Option<&str> {
        match self {
            Base::Program(_) => None,
            Base::Revision(revision) => Some(revision),
        }
    }

    /// The server's program.
    pub fn program(self, profile: &str) -> Outcome<PathBuf> {
        match self {
            Base::Program(program) => Ok(std::path::absolute(program)?),
            Base::Revision(revision) => build(&revision, profile),
        }
    }
}

fn build(revision: &str, profile: &str) -> Outcome<PathBuf> {
    let commit = commit_of(revision)?;
    let directory = project::target_directory().join("compare");
    let kept = directory.join(format!("shardlake-{commit}-{profile}{}", std::env::consts::EXE_SUFFIX));
    if kept.exists() {
        return Ok(kept);
    }
    std::fs::create_dir_all(&directory)?;
    let tree = std::path::absolute(directory.join("tree"))?;
    remove(&tree);
    let mut add = git();
    add.args(["worktree", "add", "--force", "--detach"]).arg(&tree).arg(&commit);
    command::run_to_end(&mut add)?;
    let built = build_in(&tree, &directory.join("target"), profile);
    remove(&tree);
    std::fs::copy(built?, &kept)?;
    Ok(kept)
}

fn git() -> Command {
    let mut git = Command::new("git");
    git.current_dir(project::root());
    git
}

fn commit_of(revision: &str) -> Outcome<String> {
    let commit = format!("{revision}^{{commit}}");
    let output = git().args(["rev-parse", "--verify", "--quiet", "--short=12", &commit]).output()?;
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout)?.trim().to_owned()),
        false => Err(format!("{revision} is neither a commit of this repository nor a program").into()),
    }
}

fn build_in(tree: &Path, target: &Path, profile: &str) -> Outcome<PathBuf> {
    let mut build = project::cargo();
    if profile == "quick" {
        build.args(PROFILE_QUICK.iter().flat_map(|setting| ["--config", setting]));
    }
    build.args(["build", "--profile", profile, "--locked", "--package", "shardlake"]);
    build.current_dir(tree).env("CARGO_TARGET_DIR", std::path::absolute(target)?);
    command::run_to_end(&mut build)?;
    Ok(target.join(profile).join(format!("shardlake{}", std::env::consts::EXE_SUFFIX)))
}

/// Also removes the leftovers of an interrupted comparison; there may be nothing.
fn remove(tree: &Path) {
    let _ = git().args(["worktree", "remove", "--force"]).arg(tree).output();
    let _ = std::fs::remove_dir_all(tree);
    let _ = git().args(["worktree", "prune"]).output();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(name: &str, given: &[&str]) -> (Option<Base>, Vec<String>) {
        let mut arguments: Vec<String> = given.iter().map(|&argument| argument.to_owned()).collect();
        (take(name, &mut arguments).expect("a base"), arguments)
    }

    #[test]
    fn a_base_is_the_first_argument_or_behind_its_flag() {
        let revision = |name: &str| Some(Base::Revision(name.into()));
        assert_eq!(
            taken("compare", &["v1", "--rounds", "2"]),
            (revision("v1"), vec!["--rounds".into(), "2".into()])
        );
        assert_eq!(
            taken("guard", &["--rounds=2", "--base", "v1"]),
            (revision("v1"), vec!["--rounds=2".into()])
        );
        assert_eq!(taken("guard", &[]), (revision("HEAD^"), vec![]));
        assert_eq!(taken("point", &["--million"]), (None, vec!["--million".into()]));
        assert!(take("compare", &mut Vec::new()).is_err());
    }

    #[test]
    fn a_file_is_a_program_that_was_built_before() {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        assert_eq!(taken("compare", &[manifest]).0, Some(Base::Program(manifest.into())));
    }
}
