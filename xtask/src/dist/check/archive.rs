//! Checks of the plain archive and of the program in it.

use super::artefacts::{Artefacts, SUMS, Verdict, expect};
use super::server;
use crate::command::{run_to_end, succeeds};
use crate::dist::program::{self, output_of};
use crate::dist::{archive, deb, image, npm, sbom, wheel};
use crate::{Outcome, project};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

pub fn sums(artefacts: &Artefacts) -> Outcome<Verdict> {
    let sums = std::fs::read_to_string(artefacts.path(SUMS))?;
    let release = &artefacts.release;
    let names = [
        archive::file_name(release),
        sbom::file_name(release),
        deb::file_name(release),
        image::file_name(release),
        wheel::file_name(release),
        npm::file_name(release),
    ];
    for name in &names {
        expect(sums.contains(&format!("  {name}\n")), || format!("{SUMS} lacks {name}"))?;
    }
    expect(sums.lines().count() == names.len(), || format!("{SUMS} has other files: {sums}"))?;
    let mut sha256sum = Command::new("sha256sum");
    run_to_end(sha256sum.args(["--check", "--strict", SUMS]).current_dir(&artefacts.directory))?;
    Ok(Verdict::Good)
}

/// The unpacked archive in a directory that is removed with the handle.
fn unpacked(artefacts: &Artefacts) -> Outcome<(TempDir, PathBuf)> {
    let directory = TempDir::with_prefix("shardlake-archive-")?;
    let file = artefacts.path(&archive::file_name(&artefacts.release));
    run_to_end(Command::new("tar").arg("-xzf").arg(file).arg("-C").arg(directory.path()))?;
    let inside = directory.path().join(archive::stem(&artefacts.release));
    Ok((directory, inside))
}

pub fn serves(artefacts: &Artefacts) -> Outcome<Verdict> {
    let (_directory, inside) = unpacked(artefacts)?;
    for name in ["LICENSE", "README.md", "systemd/shardlake.service", "man/shardlake-serve.1"] {
        expect(inside.join(name).is_file(), || format!("the archive lacks {name}"))?;
    }
    server::answers(&inside.join("shardlake"), |options| options)?;
    Ok(Verdict::Good)
}

/// `cargo binstall` fills in the templates of the manifest.
pub fn has_the_expected_name(artefacts: &Artefacts) -> Outcome<Verdict> {
    let release = &artefacts.release;
    let manifest = std::fs::read_to_string(project::root().join("crates/server/Cargo.toml"))?;
    let manifest: toml::Value = toml::from_str(&manifest)?;
    let binstall = &manifest["package"]["metadata"]["binstall"];
    let filled = |member: &str| -> Outcome<String> {
        let template = binstall[member].as_str().ok_or_else(|| format!("no {member}"))?;
        let values = [
            ("name", "shardlake"),
            ("version", release.version),
            ("target", release.machine.rust),
            ("bin", "shardlake"),
            ("binary-ext", ""),
        ];
        Ok(values
            .iter()
            .fold(template.to_owned(), |text, (name, value)| text.replace(&format!("{{ {name} }}"), value)))
    };
    let (url, inside) = (filled("pkg-url")?, filled("bin-dir")?);
    let name = archive::file_name(release);
    expect(url.ends_with(&format!("/v{}/{name}", release.version)), || format!("it looks for {url}"))?;
    let expected = format!("{}/shardlake", archive::stem(release));
    expect(inside == expected, || format!("it looks for {inside} in {name}"))?;
    expect(binstall["pkg-fmt"].as_str() == Some("tgz"), || "it expects another format".to_owned())?;
    Ok(Verdict::Good)
}

pub fn names_its_origin(artefacts: &Artefacts) -> Outcome<Verdict> {
    let (_directory, inside) = unpacked(artefacts)?;
    let (release, program) = (&artefacts.release, inside.join("shardlake"));
    let text = String::from_utf8(output_of(&program, &["--version"])?)?;
    print!("{text}");
    let first = format!("shardlake {}", release.version);
    expect(text.lines().next() == Some(&first), || format!("the first line of {text}"))?;
    let fact = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    expect(fact("features") == Some("object-storage, otlp"), || format!("the features in {text}"))?;
    expect(fact("target") == Some(release.machine.rust), || format!("the target in {text}"))?;
    let is_debug = fact("profile") == Some("debug");
    let is_known = fact("commit").is_some_and(|commit| !commit.starts_with("unknown"));
    expect(is_known != is_debug, || format!("the commit in {text}"))?;
    let glibc = program::glibc_of(&program)?;
    expect(glibc == release.glibc, || format!("the program needs glibc {glibc:?}"))?;
    let symbols = Command::new("nm").arg(&program).output()?;
    expect(symbols.stdout.is_empty(), || "the program is not stripped".to_owned())?;
    Ok(Verdict::Good)
}

pub fn documents(artefacts: &Artefacts) -> Outcome<Verdict> {
    let (_directory, inside) = unpacked(artefacts)?;
    run_to_end(Command::new("bash").arg("-n").arg(inside.join("completions/shardlake.bash")))?;
    if !succeeds("man", &["--version"]) {
        return Ok(Verdict::Skipped("man is not installed"));
    }
    for page in ["shardlake.1", "shardlake-serve.1"] {
        let text = rendered(&inside.join("man").join(page))?;
        expect(text.contains("SYNOPSIS"), || format!("{page} renders to {text}"))?;
    }
    Ok(Verdict::Good)
}

fn rendered(page: &Path) -> Outcome<String> {
    let output =
        Command::new("man").args(["--warnings", "--pager=cat", "--local-file"]).arg(page).output()?;
    let warnings = String::from_utf8_lossy(&output.stderr);
    expect(output.status.success() && warnings.is_empty(), || format!("{}: {warnings}", page.display()))?;
    Ok(String::from_utf8(output.stdout)?)
}
