//! Checks of the Debian package by Debian's own programs.

use super::artefacts::{Artefacts, Verdict, expect};
use super::server;
use crate::Outcome;
use crate::command::{run_to_end, succeeds};
use crate::dist::deb;
use crate::dist::program::output_of;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const NO_DPKG: Verdict = Verdict::Skipped("dpkg-deb is not installed");

fn file(artefacts: &Artefacts) -> PathBuf {
    artefacts.path(&deb::file_name(&artefacts.release))
}

fn has_dpkg() -> bool {
    succeeds("dpkg-deb", &["--version"])
}

pub fn describes_itself(artefacts: &Artefacts) -> Outcome<Verdict> {
    if !has_dpkg() {
        return Ok(NO_DPKG);
    }
    let file = file(artefacts);
    let output = |action: &str| -> Outcome<String> {
        Ok(String::from_utf8(output_of(Path::new("dpkg-deb"), &[action, &file.to_string_lossy()])?)?)
    };
    let (release, description) = (&artefacts.release, output("--info")?);
    let (major, minor) = release.glibc;
    for words in [
        "Package: shardlake".to_owned(),
        format!("Version: {}", release.version),
        format!("Architecture: {}", release.machine.debian),
        format!("libc6 (>= {major}.{minor})"),
        "postinst".to_owned(),
        "conffiles".to_owned(),
    ] {
        expect(description.contains(&words), || format!("no '{words}' in {description}"))?;
    }
    let contents = output("--contents")?;
    for (mode, path) in [
        ("-rwxr-xr-x root/root", "/usr/bin/shardlake"),
        ("-rw-r--r-- root/root", "/usr/lib/systemd/system/shardlake.service"),
        ("-rw-r--r-- root/root", "/etc/shardlake/shardlake.toml"),
        ("-rw-r--r-- root/root", "/usr/share/man/man1/shardlake-serve.1.gz"),
        ("-rw-r--r-- root/root", "/usr/share/bash-completion/completions/shardlake"),
    ] {
        // Numbers instead of names where the listing has none.
        let mode = [mode.to_owned(), mode.replace("root/root", "0/0")];
        let is_there = |line: &str| {
            line.ends_with(&path[1..]) && mode.iter().any(|mode| line.starts_with(mode.as_str()))
        };
        expect(contents.lines().any(is_there), || format!("no {path} in {contents}"))?;
    }
    Ok(Verdict::Good)
}

fn unpacked(artefacts: &Artefacts) -> Outcome<TempDir> {
    let root = TempDir::with_prefix("shardlake-deb-")?;
    run_to_end(Command::new("dpkg-deb").arg("--raw-extract").arg(file(artefacts)).arg(root.path()))?;
    Ok(root)
}

/// With the package's own configuration; flags replace the directory and the port.
pub fn serves(artefacts: &Artefacts) -> Outcome<Verdict> {
    if !has_dpkg() {
        return Ok(NO_DPKG);
    }
    let root = unpacked(artefacts)?;
    let configuration = root.path().join("etc/shardlake/shardlake.toml");
    server::answers(&root.path().join("usr/bin/shardlake"), |options| {
        options.argument(format!("--config={}", configuration.display()))
    })?;
    Ok(Verdict::Good)
}

pub fn scripts_parse(artefacts: &Artefacts) -> Outcome<Verdict> {
    if !has_dpkg() {
        return Ok(NO_DPKG);
    }
    let root = unpacked(artefacts)?;
    for script in ["postinst", "prerm", "postrm"] {
        run_to_end(Command::new("sh").arg("-n").arg(root.path().join("DEBIAN").join(script)))?;
    }
    Ok(Verdict::Good)
}

pub fn unit(artefacts: &Artefacts) -> Outcome<Verdict> {
    if !has_dpkg() {
        return Ok(NO_DPKG);
    }
    if !succeeds("systemd-analyze", &["--version"]) {
        return Ok(Verdict::Skipped("systemd-analyze is not installed"));
    }
    let root = unpacked(artefacts)?;
    let unit = root.path().join("usr/lib/systemd/system/shardlake.service");
    // The program is looked for at its place in the unit.
    let text = std::fs::read_to_string(&unit)?;
    let program = root.path().join("usr/bin/shardlake");
    let here = text.replace("/usr/bin/shardlake", &program.to_string_lossy());
    expect(here != text, || format!("the unit does not start /usr/bin/shardlake: {text}"))?;
    let copy = root.path().join("shardlake.service");
    std::fs::write(&copy, here)?;
    let mut analyze = Command::new("systemd-analyze");
    let output = analyze.args(["verify", "--man=no"]).arg(&copy).output()?;
    let words = String::from_utf8_lossy(&output.stderr);
    // Other units of the machine may have faults of their own.
    let of_ours: Vec<&str> = words.lines().filter(|line| line.contains("shardlake")).collect();
    expect(of_ours.is_empty(), || of_ours.join("\n"))?;
    Ok(Verdict::Good)
}
