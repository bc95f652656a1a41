//! A Python wheel that carries the program: `pip install` puts `shardlake` among the environment's commands.
//!
//! It holds no Python code. The tag names the oldest glibc that the program starts on, so `pip` refuses it elsewhere.

use crate::Outcome;
use crate::dist::release::Release;
use crate::dist::tree::{DATA, PROGRAM};
use crate::project;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::io::{Cursor, Write};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

pub fn file_name(release: &Release) -> String {
    format!("shardlake-{}-{}.whl", release.version, tag(release))
}

fn tag(release: &Release) -> String {
    let (major, minor) = release.glibc;
    format!("py3-none-manylinux_{major}_{minor}_{}", release.machine.wheel)
}

pub fn pack(release: &Release) -> Outcome<Vec<u8>> {
    let version = release.version;
    let information = format!("shardlake-{version}.dist-info");
    let license = std::fs::read(project::root().join("LICENSE"))?;
    let files = [
        (format!("shardlake-{version}.data/scripts/shardlake"), PROGRAM, release.program.clone()),
        (format!("{information}/licenses/LICENSE"), DATA, license),
        (format!("{information}/METADATA"), DATA, metadata(version).into_bytes()),
        (format!("{information}/WHEEL"), DATA, wheel(release).into_bytes()),
    ];
    let record_path = format!("{information}/RECORD");
    let mut record = String::new();
    for (path, _, content) in &files {
        let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(content));
        writeln!(record, "{path},sha256={digest},{}", content.len())?;
    }
    writeln!(record, "{record_path},,")?;
    let record = (record_path, DATA, record.into_bytes());
    let level = i64::from(release.compression().level());
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (path, mode, content) in files.into_iter().chain([record]) {
        // Without a date: all files have the oldest of the format.
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .compression_level(Some(level))
            .last_modified_time(zip::DateTime::default())
            .unix_permissions(mode);
        archive.start_file(path, options)?;
        archive.write_all(&content)?;
    }
    Ok(archive.finish()?.into_inner())
}

fn metadata(version: &str) -> String {
    format!(
        "Metadata-Version: 2.4\nName: shardlake\nVersion: {version}\n\
         Summary: A durable, self-hosted, partitioned JSON document database: the server\n\
         License-Expression: Apache-2.0\nLicense-File: LICENSE\nRequires-Python: >=3.8\n\
         Description-Content-Type: text/markdown\n\n\
         The command `shardlake` is the server of Shardlake, which the SDKs of Azure Cosmos DB and the drivers of \
         MongoDB use unmodified. `shardlake demo webstore` starts one with data to try things on.\n"
    )
}

fn wheel(release: &Release) -> String {
    format!(
        "Wheel-Version: 1.0\nGenerator: cargo xtask dist\nRoot-Is-Purelib: false\nTag: {}\n",
        tag(release)
    )
}
