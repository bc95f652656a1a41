//! The plain archive: the program with its licence, documents, completions and the systemd unit.

use crate::Outcome;
use crate::dist::documents::Documents;
use crate::dist::release::Release;
use crate::dist::tree::{DATA, PROGRAM, Tree};
use crate::project;

/// As `cargo binstall` finds it: see `crates/server/Cargo.toml`.
pub fn stem(release: &Release) -> String {
    format!("shardlake-{}-{}", release.version, release.machine.rust)
}

pub fn file_name(release: &Release) -> String {
    format!("{}.tar.gz", stem(release))
}

pub fn pack(release: &Release, documents: &Documents) -> Outcome<Vec<u8>> {
    let (root, stem) = (project::root(), stem(release));
    let mut tree = Tree::default();
    tree.add(&format!("{stem}/shardlake"), PROGRAM, release.program.clone());
    for name in ["LICENSE", "README.md"] {
        tree.copy(&format!("{stem}/{name}"), DATA, &root.join(name))?;
    }
    for path in ["systemd/shardlake.service", "shardlake.toml"] {
        tree.copy(&format!("{stem}/{path}"), DATA, &root.join("deploy").join(path))?;
    }
    tree.add_manual(&format!("{stem}/man"), documents.manual(), None)?;
    for completion in &documents.completions {
        tree.add(&format!("{stem}/completions/{}", completion.file), DATA, completion.script.clone());
    }
    tree.tar_gz(release)
}
