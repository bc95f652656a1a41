//! A container image as an archive in the OCI layout, made without a daemon: the program, the libraries that it needs, and
//! nothing else. There is no shell in it.
//!
//! The first layer holds the C library, certificate authorities and users, the second the program.

use crate::Outcome;
use crate::dist::digest::hex_digest;
use crate::dist::program::output_of;
use crate::dist::release::Release;
use crate::dist::tree::{DATA, PROGRAM, Tree, gzip};
use crate::project;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// User and group of the server.
pub const USER: u64 = 10_001;
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";
const LICENSE_OF_LIBC: &str = "/usr/share/doc/libc6/copyright";

pub fn file_name(release: &Release) -> String {
    format!("shardlake-{}-oci-linux-{}.tar", release.version, release.machine.image)
}

pub fn pack(release: &Release) -> Outcome<Vec<u8>> {
    let mut blobs = Blobs::default();
    let layers =
        [layer(&mut blobs, &base(release)?, release)?, layer(&mut blobs, &program(release)?, release)?];
    let created = chrono::DateTime::from_timestamp(i64::try_from(release.epoch)?, 0)
        .ok_or("the date of the commit is out of range")?
        .to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
    let differences: Vec<&str> = layers.iter().map(|layer| layer.difference.as_str()).collect();
    let configuration = json!({
        "created": created,
        "architecture": release.machine.image,
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "Entrypoint": ["/usr/bin/shardlake"],
            "Cmd": ["serve"],
            "Env": [
                "PATH=/usr/bin",
                "SHARDLAKE_DATA_DIR=/data",
                "SHARDLAKE_LISTEN=0.0.0.0:8081",
                "SHARDLAKE_MONGO_LISTEN=0.0.0.0:27017",
            ],
            "ExposedPorts": { "8081/tcp": {}, "27017/tcp": {} },
            "Volumes": { "/data": {} },
            "WorkingDir": "/",
            "StopSignal": "SIGTERM",
            "Labels": labels(release, &created),
        },
        "rootfs": { "type": "layers", "diff_ids": differences },
        "history": [
            { "created": created, "created_by": "cargo xtask dist: C library, certificate authorities, users" },
            { "created": created, "created_by": "cargo xtask dist: shardlake" },
        ],
    });
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blobs.add_json("application/vnd.oci.image.config.v1+json", &configuration)?,
        "layers": layers.map(|layer| layer.descriptor),
    });
    let mut described = blobs.add_json("application/vnd.oci.image.manifest.v1+json", &manifest)?;
    described["platform"] = json!({ "architecture": release.machine.image, "os": "linux" });
    let name = format!("localhost/shardlake:{}", release.version);
    described["annotations"] =
        json!({ "org.opencontainers.image.ref.name": name, "io.containerd.image.name": name });
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [described],
    });
    let mut layout = Tree::default();
    layout.add("oci-layout", DATA, r#"{"imageLayoutVersion":"1.0.0"}"#);
    layout.add("index.json", DATA, serde_json::to_vec(&index)?);
    for (digest, content) in blobs.0 {
        layout.add(&format!("blobs/sha256/{digest}"), DATA, content);
    }
    layout.tar(release.epoch)
}

fn labels(release: &Release, created: &str) -> Value {
    json!({
        "org.opencontainers.image.title": "shardlake",
        "org.opencontainers.image.version": release.version,
        "org.opencontainers.image.created": created,
        "org.opencontainers.image.licenses": "Apache-2.0",
    })
}

/// Files that the program needs and that are not ours.
fn base(release: &Release) -> Outcome<Tree> {
    let mut tree = Tree::default();
    let listing = String::from_utf8(output_of(Path::new("ldd"), &[&release.path.to_string_lossy()])?)?;
    for library in libraries(&listing) {
        tree.copy(library.trim_start_matches('/'), PROGRAM, Path::new(library))?;
    }
    for file in [AUTHORITIES, LICENSE_OF_LIBC] {
        match Path::new(file).exists() {
            true => tree.copy(file.trim_start_matches('/'), DATA, Path::new(file))?,
            false => println!("{file} is not on this machine, so the image has none"),
        }
    }
    let user = format!("shardlake:x:{USER}:{USER}:shardlake:/data:/sbin/nologin\n");
    tree.add("etc/passwd", DATA, format!("root:x:0:0:root:/:/sbin/nologin\n{user}"));
    tree.add("etc/group", DATA, format!("root:x:0:\nshardlake:x:{USER}:\n"));
    tree.add("etc/nsswitch.conf", DATA, "hosts: files dns\n");
    tree.directory("tmp", 0o1777, 0);
    Ok(tree)
}

/// Paths in lines such as `libc.so.6 => /lib/libc.so.6 (0x1)` and `/lib64/ld-linux-x86-64.so.2 (0x1)`.
fn libraries(listing: &str) -> Vec<&str> {
    let paths = listing.lines().filter_map(|line| line[line.find('/')?..].split(" (").next());
    paths.map(str::trim).collect()
}

fn program(release: &Release) -> Outcome<Tree> {
    let mut tree = Tree::default();
    tree.add("usr/bin/shardlake", PROGRAM, release.program.clone());
    tree.copy("usr/share/doc/shardlake/LICENSE", DATA, &project::root().join("LICENSE"))?;
    tree.directory("data", 0o700, USER);
    Ok(tree)
}

struct Layer {
    descriptor: Value,
    /// Digest of the content before compression.
    difference: String,
}

fn layer(blobs: &mut Blobs, tree: &Tree, release: &Release) -> Outcome<Layer> {
    let content = tree.tar(release.epoch)?;
    let kind = "application/vnd.oci.image.layer.v1.tar+gzip";
    let descriptor = blobs.add(kind, gzip(&content, release)?);
    Ok(Layer { descriptor, difference: format!("sha256:{}", hex_digest(&content)) })
}

/// Contents by their digest.
#[derive(Default)]
struct Blobs(BTreeMap<String, Vec<u8>>);

impl Blobs {
    fn add(&mut self, kind: &str, content: Vec<u8>) -> Value {
        let digest = hex_digest(&content);
        let descriptor =
            json!({ "mediaType": kind, "digest": format!("sha256:{digest}"), "size": content.len() });
        self.0.insert(digest, content);
        descriptor
    }

    fn add_json(&mut self, kind: &str, content: &Value) -> Outcome<Value> {
        Ok(self.add(kind, serde_json::to_vec(content)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_named_by_their_paths() {
        let listing = "\tlinux-vdso.so.1 (0x00007ffe)\n\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f)\n\
                       \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        assert_eq!(libraries(listing), ["/lib/x86_64-linux-gnu/libm.so.6", "/lib64/ld-linux-x86-64.so.2"]);
        assert!(libraries("\tstatically linked\n").is_empty());
    }

    #[test]
    fn equal_contents_are_one_blob() {
        let mut blobs = Blobs::default();
        let first = blobs.add("a", b"abc".to_vec());
        let again = blobs.add("b", b"abc".to_vec());
        assert_eq!((blobs.0.len(), &first["digest"]), (1, &again["digest"]));
        let digest = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!((first["digest"].as_str(), first["size"].as_u64()), (Some(digest), Some(3)));
    }
}
