//! The artefacts under check, and the verdict of one check.

use crate::Outcome;
use crate::dist::release::Release;
use std::path::PathBuf;

/// Sums of all artefacts, as `sha256sum` reads them.
pub const SUMS: &str = "SHA256SUMS";

/// The artefacts of one release in their directory.
#[derive(Debug)]
pub struct Artefacts {
    pub(super) directory: PathBuf,
    pub(super) release: Release,
}

/// How a check that did not fail ended.
pub(super) enum Verdict {
    Good,
    /// A program that it needs is not here.
    Skipped(&'static str),
}

impl Artefacts {
    pub fn new(directory: PathBuf, release: Release) -> Artefacts {
        Artefacts { directory, release }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

/// An error with these words unless the condition holds.
pub(super) fn expect(condition: bool, words: impl FnOnce() -> String) -> Outcome {
    if condition { Ok(()) } else { Err(words().into()) }
}
