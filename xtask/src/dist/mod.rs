//! `cargo xtask dist`: the artefacts of a release, made and tried on this machine.
//!
//! ```text
//! cargo zigbuild ── strip ─┬─ archive, bill of materials
//!                          ├─ Debian package, container image
//!                          ├─ Python wheel, npm package
//!                          └─ SHA256SUMS ── checks: install each, start it, ask it
//! ```
//! `docs/releases.md` is the manual. The suite `dist` packs the server that the other suites use and makes the same checks.

mod archive;
mod check;
mod deb;
mod digest;
mod documents;
#[cfg(test)]
mod formats;
mod image;
mod machine;
mod npm;
mod program;
mod release;
mod sbom;
mod tree;
mod wheel;

pub use check::Artefacts;

use crate::{Outcome, project};
use clap::Args;
use documents::Documents;
use release::Release;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub struct Options {
    /// Directory for the artefacts [default: target/dist]
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Cargo's profile: release, or quick for a faster build
    #[arg(long, value_name = "NAME", default_value = "release")]
    profile: String,
    /// The oldest glibc that the program is to start on; `here` links with the system's linker, against this machine's
    #[arg(long, value_name = "VERSION", default_value = "2.17")]
    glibc: String,
    /// Package this program and build nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["profile", "glibc"])]
    binary: Option<PathBuf>,
    /// Install every artefact, start the server from it and ask it
    #[arg(long)]
    check: bool,
}

pub fn dist(options: &Options) -> Outcome {
    let binary = match &options.binary {
        Some(binary) => binary.clone(),
        None => program::build(&options.profile, &options.glibc)?,
    };
    let to = options.to.clone().unwrap_or_else(|| project::target_directory().join("dist"));
    let artefacts = make(&binary, &to, false)?;
    if !options.check {
        return Ok(());
    }
    let checked = artefacts.check_all();
    println!("{} passed, {} failed, {} skipped", checked.passed, checked.failed, checked.skips.len());
    if checked.failed == 0 { Ok(()) } else { Err("some artefacts are not good".into()) }
}

/// Writes all artefacts of this program into the directory. Other files there stay, and are not in the sums.
pub fn make(binary: &Path, to: &Path, fast: bool) -> Outcome<Artefacts> {
    std::fs::create_dir_all(to)?;
    let stripped = tempfile::TempDir::with_prefix("shardlake-dist-")?;
    let release = Release::of(binary, stripped.path(), fast)?;
    let (major, minor) = release.glibc;
    println!(
        "shardlake {} for {} with glibc {major}.{minor} or later, {}",
        release.version,
        release.machine.rust,
        megabytes(release.program.len())
    );
    let documents = Documents::of(&release)?;
    let contents = [
        (archive::file_name(&release), archive::pack(&release, &documents)?),
        (sbom::file_name(&release), sbom::pack(&release)?),
        (deb::file_name(&release), deb::pack(&release, &documents)?),
        (image::file_name(&release), image::pack(&release)?),
        (wheel::file_name(&release), wheel::pack(&release)?),
        (npm::file_name(&release), npm::pack(&release)?),
    ];
    let mut sums = String::new();
    for (name, content) in &contents {
        std::fs::write(to.join(name), content)?;
        sums.push_str(&format!("{}  {name}\n", digest::hex_digest(content)));
        println!("{name:<60} {:>10}", megabytes(content.len()));
    }
    std::fs::write(to.join(check::SUMS), sums)?;
    println!("in {}", to.display());
    Ok(Artefacts::new(to.to_owned(), release))
}

fn megabytes(bytes: usize) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
