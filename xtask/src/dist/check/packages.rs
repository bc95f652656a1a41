//! Checks of the packages for Python and Node.js, installed from their files without a network.

use super::artefacts::{Artefacts, Verdict, expect};
use super::server;
use crate::command::run_to_end;
use crate::dist::program::output_of;
use crate::dist::{npm, wheel};
use crate::{Outcome, prerequisites};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

pub fn wheel(artefacts: &Artefacts) -> Outcome<Verdict> {
    prerequisites::for_python()?;
    let environment = TempDir::with_prefix("shardlake-wheel-")?;
    let programs = environment.path().join("bin");
    run_to_end(Command::new("python3").args(["-m", "venv"]).arg(environment.path()))?;
    let mut pip = Command::new(programs.join("pip"));
    pip.args(["install", "--quiet", "--no-index", "--disable-pip-version-check"]);
    run_to_end(pip.arg(artefacts.path(&wheel::file_name(&artefacts.release))))?;
    let listed = output_of(&programs.join("pip"), &["show", "--files", "shardlake"])?;
    let listed = String::from_utf8(listed)?;
    let version = format!("Version: {}", artefacts.release.version);
    expect(listed.contains(&version) && listed.contains("bin/shardlake"), || listed.clone())?;
    is_of_this_version(&programs.join("shardlake"), artefacts)?;
    server::answers(&programs.join("shardlake"), |options| options)?;
    Ok(Verdict::Good)
}

fn is_of_this_version(program: &Path, artefacts: &Artefacts) -> Outcome {
    let text = String::from_utf8(output_of(program, &["--version"])?)?;
    let first = format!("shardlake {}", artefacts.release.version);
    expect(text.lines().next() == Some(&first), || format!("{} is {text}", program.display()))
}

/// npm with a cache of its own, which cannot fetch.
fn offline(program: &str, directory: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(directory).env("npm_config_cache", directory.join("cache"));
    command.env("npm_config_offline", "true").env("npm_config_update_notifier", "false");
    command
}

pub fn npm(artefacts: &Artefacts) -> Outcome<Verdict> {
    prerequisites::for_javascript()?;
    let directory = TempDir::with_prefix("shardlake-npm-")?;
    let mut install = offline("npm", directory.path());
    install.args(["install", "--no-audit", "--no-fund", "--prefix"]).arg(directory.path());
    run_to_end(install.arg(artefacts.path(&npm::file_name(&artefacts.release))))?;
    let program = directory.path().join("node_modules/.bin/shardlake");
    is_of_this_version(&program, artefacts)?;
    server::answers(&program, |options| options)?;
    Ok(Verdict::Good)
}

pub fn npx(artefacts: &Artefacts) -> Outcome<Verdict> {
    prerequisites::for_javascript()?;
    let directory = TempDir::with_prefix("shardlake-npx-")?;
    let name = npm::file_name(&artefacts.release);
    std::fs::copy(artefacts.path(&name), directory.path().join(&name))?;
    let mut npx = offline("npx", directory.path());
    let output = npx.args(["--yes", &format!("./{name}"), "--version"]).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let first = format!("shardlake {}", artefacts.release.version);
    expect(output.status.success() && text.lines().next() == Some(&first), || format!("{output:?}"))?;
    Ok(Verdict::Good)
}
