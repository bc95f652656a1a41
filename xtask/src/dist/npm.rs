//! An npm package that carries the program as its command, without JavaScript around it: signals reach the server.
//!
//! It installs on one kind of machine; npm refuses it on others by `os`, `cpu` and `libc`.

use crate::Outcome;
use crate::dist::release::Release;
use crate::dist::tree::{DATA, PROGRAM, Tree};
use crate::project;
use serde_json::json;

pub fn file_name(release: &Release) -> String {
    format!("shardlake-{}-linux-{}.tgz", release.version, release.machine.node)
}

pub fn pack(release: &Release) -> Outcome<Vec<u8>> {
    let (major, minor) = release.glibc;
    let manifest = json!({
        "name": "shardlake",
        "version": release.version,
        "description": "The server of Shardlake: a durable, self-hosted, partitioned JSON document database",
        "license": "Apache-2.0",
        "bin": { "shardlake": "bin/shardlake" },
        "files": ["bin", "LICENSE"],
        "os": ["linux"],
        "cpu": [release.machine.node],
        "libc": ["glibc"],
    });
    let readme = format!(
        "# shardlake\n\nThe command `shardlake` is the server, for Linux with glibc {major}.{minor} or later.\n\n\
         ```sh\nnpx shardlake demo webstore\n```\n"
    );
    let mut tree = Tree::default();
    tree.add("package/package.json", DATA, serde_json::to_vec_pretty(&manifest)?);
    tree.add("package/README.md", DATA, readme);
    tree.copy("package/LICENSE", DATA, &project::root().join("LICENSE"))?;
    tree.add("package/bin/shardlake", PROGRAM, release.program.clone());
    tree.tar_gz(release)
}
