//! Manual pages and completions, which the program writes by itself.

use crate::Outcome;
use crate::dist::program::output_of;
use crate::dist::release::Release;
use std::path::Path;
use tempfile::TempDir;

#[derive(Debug)]
pub struct Documents {
    pages: TempDir,
    pub completions: Vec<Completion>,
}

#[derive(Debug)]
pub struct Completion {
    /// As the shell wants its file named.
    pub file: &'static str,
    /// Where Debian's packages of the shell look for it.
    pub debian: &'static str,
    pub script: Vec<u8>,
}

const SHELLS: [(&str, &str, &str); 3] = [
    ("bash", "shardlake.bash", "usr/share/bash-completion/completions/shardlake"),
    ("zsh", "_shardlake", "usr/share/zsh/vendor-completions/_shardlake"),
    ("fish", "shardlake.fish", "usr/share/fish/vendor_completions.d/shardlake.fish"),
];

impl Documents {
    pub fn of(release: &Release) -> Outcome<Documents> {
        let pages = TempDir::with_prefix("shardlake-man-")?;
        output_of(&release.path, &["man", "--to", &pages.path().to_string_lossy()])?;
        let script = |(shell, file, debian)| -> Outcome<Completion> {
            Ok(Completion { file, debian, script: output_of(&release.path, &["completions", shell])? })
        };
        let completions = SHELLS.into_iter().map(script).collect::<Outcome<Vec<_>>>()?;
        Ok(Documents { pages, completions })
    }

    /// Directory of the manual pages.
    pub fn manual(&self) -> &Path {
        self.pages.path()
    }
}
