//! A Debian package: program, systemd unit, configuration, manual pages and completions.
//!
//! Its scripts are `deploy/debian`. Data in `/var/lib/shardlake` outlives the package.

use crate::Outcome;
use crate::dist::documents::Documents;
use crate::dist::release::Release;
use crate::dist::tree::{DATA, PROGRAM, Tree};
use crate::project;

/// Path of the configuration, which upgrades keep as the operator changed it.
const CONFIGURATION: &str = "etc/shardlake/shardlake.toml";

pub fn file_name(release: &Release) -> String {
    format!("shardlake_{}_{}.deb", release.version, release.machine.debian)
}

pub fn pack(release: &Release, documents: &Documents) -> Outcome<Vec<u8>> {
    let deploy = project::root().join("deploy");
    let mut data = Tree::default();
    data.add("usr/bin/shardlake", PROGRAM, release.program.clone());
    data.copy("usr/lib/systemd/system/shardlake.service", DATA, &deploy.join("systemd/shardlake.service"))?;
    data.copy(CONFIGURATION, DATA, &deploy.join("shardlake.toml"))?;
    data.copy("usr/share/doc/shardlake/README.md", DATA, &project::root().join("README.md"))?;
    data.copy("usr/share/doc/shardlake/copyright", DATA, &deploy.join("debian/copyright"))?;
    data.add_manual("usr/share/man/man1", documents.manual(), Some(release))?;
    for completion in &documents.completions {
        data.add(completion.debian, DATA, completion.script.clone());
    }
    let mut control = Tree::default();
    control.add("control", DATA, control_file(release, data.size()));
    control.add("conffiles", DATA, format!("/{CONFIGURATION}\n"));
    for script in ["postinst", "prerm", "postrm"] {
        control.copy(script, PROGRAM, &deploy.join("debian").join(script))?;
    }
    let members = [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", control.tar_gz(release)?),
        ("data.tar.gz", data.tar_gz(release)?),
    ];
    let mut archive = ar::Builder::new(Vec::new());
    for (name, content) in members {
        let mut header = ar::Header::new(name.as_bytes().to_vec(), content.len() as u64);
        header.set_mode(0o100_644);
        header.set_mtime(release.epoch);
        archive.append(&header, content.as_slice())?;
    }
    Ok(archive.into_inner()?)
}

fn control_file(release: &Release, size: usize) -> String {
    let (major, minor) = release.glibc;
    format!(
        "Package: shardlake\nVersion: {}\nArchitecture: {}\nMaintainer: Shardlake contributors <contributors@shardlake.invalid>\n\
         Installed-Size: {}\nDepends: adduser, libc6 (>= {major}.{minor})\nRecommends: ca-certificates\n\
         Section: database\nPriority: optional\n\
         Description: durable, self-hosted, partitioned JSON document database\n \
         The SDKs of Azure Cosmos DB and the drivers of MongoDB use it unmodified.\n \
         The service listens on 127.0.0.1:8081; its settings are in\n /etc/shardlake/shardlake.toml, its data in /var/lib/shardlake.\n",
        release.version,
        release.machine.debian,
        size.div_ceil(1024),
    )
}
