//! Checks of the container image without a container engine: every blob by its digest, and the layers as a root directory.

use super::artefacts::{Artefacts, Verdict, expect};
use super::server;
use crate::Outcome;
use crate::command::{run_to_end, succeeds};
use crate::dist::digest::hex_digest;
use crate::dist::image::{self, USER};
use flate2::read::GzDecoder;
use serde_json::Value;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

struct Unpacked {
    directory: TempDir,
    manifest: Value,
    configuration: Value,
}

impl Unpacked {
    fn of(artefacts: &Artefacts) -> Outcome<Unpacked> {
        let directory = TempDir::with_prefix("shardlake-image-")?;
        let file = artefacts.path(&image::file_name(&artefacts.release));
        run_to_end(Command::new("tar").arg("-xf").arg(file).arg("-C").arg(directory.path()))?;
        let index: Value = serde_json::from_slice(&std::fs::read(directory.path().join("index.json"))?)?;
        let manifest = json_of(&blob(directory.path(), &index["manifests"][0])?)?;
        let name = &index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"];
        let expected = format!("localhost/shardlake:{}", artefacts.release.version);
        expect(*name == expected, || format!("the image is called {name}"))?;
        let configuration = json_of(&blob(directory.path(), &manifest["config"])?)?;
        Ok(Unpacked { directory, manifest, configuration })
    }

    /// The layers, each decompressed.
    fn layers(&self) -> Outcome<Vec<Vec<u8>>> {
        let descriptors = self.manifest["layers"].as_array().ok_or("no layers")?;
        let layer = |descriptor: &Value| -> Outcome<Vec<u8>> {
            let mut content = Vec::new();
            let compressed = blob(self.directory.path(), descriptor)?;
            GzDecoder::new(compressed.as_slice()).read_to_end(&mut content)?;
            Ok(content)
        };
        descriptors.iter().map(layer).collect()
    }
}

fn json_of(content: &[u8]) -> Outcome<Value> {
    Ok(serde_json::from_slice(content)?)
}

/// The content that a descriptor names, compared with its size and digest.
fn blob(layout: &Path, descriptor: &Value) -> Outcome<Vec<u8>> {
    let digest = descriptor["digest"].as_str().and_then(|digest| digest.strip_prefix("sha256:"));
    let digest = digest.ok_or_else(|| format!("no digest in {descriptor}"))?;
    let content = std::fs::read(layout.join("blobs/sha256").join(digest))?;
    expect(descriptor["size"] == content.len(), || format!("the size of {descriptor}"))?;
    expect(hex_digest(&content) == digest, || format!("the content of {descriptor}"))?;
    Ok(content)
}

pub fn is_complete(artefacts: &Artefacts) -> Outcome<Verdict> {
    let unpacked = Unpacked::of(artefacts)?;
    let layout = json_of(&std::fs::read(unpacked.directory.path().join("oci-layout"))?)?;
    expect(layout["imageLayoutVersion"] == "1.0.0", || format!("the layout is {layout}"))?;
    let configuration = &unpacked.configuration;
    expect(configuration["architecture"] == artefacts.release.machine.image, || configuration.to_string())?;
    let container = &configuration["config"];
    for pointer in ["/ExposedPorts/8081~1tcp", "/ExposedPorts/27017~1tcp", "/Volumes/~1data"] {
        expect(container.pointer(pointer).is_some(), || format!("no {pointer} in {container}"))?;
    }
    let layers = unpacked.layers()?;
    let differences: Vec<String> =
        layers.iter().map(|layer| format!("sha256:{}", hex_digest(layer))).collect();
    expect(configuration["rootfs"]["diff_ids"] == Value::from(differences), || configuration.to_string())?;
    expect(layers.len() == 2, || format!("{} layers", layers.len()))?;
    Ok(Verdict::Good)
}

/// As the user of the image, with nothing but the files of the image.
pub fn serves(artefacts: &Artefacts) -> Outcome<Verdict> {
    if !is_root() {
        return Ok(Verdict::Skipped("only root may change the root directory of a process"));
    }
    let unpacked = Unpacked::of(artefacts)?;
    let root = TempDir::with_prefix("shardlake-root-")?;
    for layer in unpacked.layers()? {
        let mut archive = tar::Archive::new(layer.as_slice());
        archive.set_preserve_ownerships(true);
        archive.set_preserve_permissions(true);
        archive.unpack(root.path())?;
    }
    let entry = unpacked.configuration["config"]["Entrypoint"][0].as_str().ok_or("no program to start")?;
    let starter = starter(&unpacked, root.path(), entry)?;
    // The parents of a temporary directory let no other user through.
    std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(0o755))?;
    server::answers(&starter, |options| options.data_dir("/data"))?;
    expect(root.path().join("data/account.json").is_file(), || "no account in the volume".to_owned())?;
    Ok(Verdict::Good)
}

fn is_root() -> bool {
    succeeds("sh", &["-c", "test \"$(id -u)\" = 0"])
}

/// A script that starts the program of the image in its root, with the arguments that it is given.
fn starter(unpacked: &Unpacked, root: &Path, program: &str) -> Outcome<PathBuf> {
    let path = unpacked.directory.path().join("start");
    let root = root.display();
    let script = format!("#!/bin/sh\nexec chroot --userspec={USER}:{USER} '{root}' {program} \"$@\"\n");
    std::fs::write(&path, script)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    Ok(path)
}
