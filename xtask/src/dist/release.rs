//! The release that packages are made of: version, commit, machine and the stripped program.

use crate::dist::machine::Machine;
use crate::dist::program;
use crate::{Outcome, project};
use std::path::{Path, PathBuf};
use std::process::Command;

/// One second of 1980, the oldest date that all archives can hold: for sources without a repository.
const OLDEST: u64 = 315_532_800;

#[derive(Debug)]
pub struct Release {
    pub version: &'static str,
    /// Date of the commit, in seconds since 1970; the date of all files in all packages.
    pub epoch: u64,
    pub machine: Machine,
    /// Content of the stripped program.
    pub program: Vec<u8>,
    /// The same as a file.
    pub path: PathBuf,
    /// The oldest glibc that the program starts on.
    pub glibc: (u32, u32),
    /// Compress little: for tests.
    pub fast: bool,
}

impl Release {
    /// Copies the program into the directory and strips the copy.
    pub fn of(binary: &Path, directory: &Path, fast: bool) -> Outcome<Release> {
        let machine = Machine::of_this_one()?;
        let path = directory.join("shardlake");
        program::strip(binary, &path)?;
        Ok(Release {
            version: env!("CARGO_PKG_VERSION"),
            epoch: date_of_commit().unwrap_or(OLDEST),
            machine,
            program: std::fs::read(&path)?,
            glibc: program::glibc_of(&path)?,
            path,
            fast,
        })
    }

    pub fn compression(&self) -> flate2::Compression {
        if self.fast { flate2::Compression::fast() } else { flate2::Compression::best() }
    }
}

fn date_of_commit() -> Option<u64> {
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%ct"]).current_dir(project::root());
    let output = git.output().ok().filter(|output| output.status.success())?;
    String::from_utf8_lossy(&output.stdout).trim().parse().ok()
}
