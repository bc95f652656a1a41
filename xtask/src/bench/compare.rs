//! `cargo xtask bench compare REVISION`: builds that revision beside this tree, for `bench/src/compare.rs` to drive both.
//!
//! The revision is checked out into a worktree under the target directory and built into a target directory of its own. Its
//! program is kept there by its commit, so that a second comparison builds nothing.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Outcome, command, project};

/// The server of a revision, as a release build.
pub fn build(revision: &str) -> Outcome<PathBuf> {
    let commit = commit_of(revision)?;
    let directory = project::target_directory().join("compare");
    let kept = directory.join(format!("shardlake-{commit}{}", std::env::consts::EXE_SUFFIX));
    if kept.exists() {
        return Ok(kept);
    }
    std::fs::create_dir_all(&directory)?;
    let tree = std::path::absolute(directory.join("tree"))?;
    remove(&tree);
    let mut add = git();
    add.args(["worktree", "add", "--force", "--detach"]).arg(&tree).arg(&commit);
    command::run_to_end(&mut add)?;
    let built = build_in(&tree, &directory.join("target"));
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
        false => Err(format!("{revision} is no commit of this repository").into()),
    }
}

fn build_in(tree: &Path, target: &Path) -> Outcome<PathBuf> {
    let mut build = Command::new(project::cargo());
    build.args(["build", "--release", "--locked", "--package", "shardlake"]);
    // Cargo of that tree reads its own manifests, and not those of the command that started this program.
    build
        .current_dir(tree)
        .env("CARGO_TARGET_DIR", std::path::absolute(target)?)
        .env_remove("CARGO_MANIFEST_DIR");
    command::run_to_end(&mut build)?;
    Ok(target.join("release").join(format!("shardlake{}", std::env::consts::EXE_SUFFIX)))
}

/// Also what an interrupted comparison has left; there may be nothing.
fn remove(tree: &Path) {
    let _ = git().args(["worktree", "remove", "--force"]).arg(tree).output();
    let _ = std::fs::remove_dir_all(tree);
    let _ = git().args(["worktree", "prune"]).output();
}
