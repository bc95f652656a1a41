//! The archive: gzipped tar, which only its owner may read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use shardlake_stdx::Timestamp;

use super::parts::Files;

/// Folder of the files in the archive.
const FOLDER: &str = "shardlake-support";
const OWNER_ONLY: u32 = 0o600;

pub fn check_is_new(path: &Path) -> Result<(), String> {
    match path.symlink_metadata() {
        Ok(_) => Err(exists(path)),
        Err(_) => Ok(()),
    }
}

/// Writes the archive, and returns its size. A file that exists is left as it is; a file that cannot be finished is removed.
pub fn write(path: &Path, files: &Files, time: Timestamp) -> Result<u64, String> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(OWNER_ONLY).open(path);
    let file = opened.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => exists(path),
        _ => format!("'{}' cannot be written: {error}", path.display()),
    })?;
    archive(file, files, time).map_err(|error| {
        // The error of the archive is the one to report.
        let _removed = fs::remove_file(path);
        format!("'{}' cannot be written: {error}", path.display())
    })
}

fn exists(path: &Path) -> String {
    format!("'{}' exists, and no file is overwritten: name another file with --to", path.display())
}

fn archive(file: File, files: &Files, time: Timestamp) -> io::Result<u64> {
    let mut archive = tar::Builder::new(GzEncoder::new(file, Compression::default()));
    for (name, content) in &files.files {
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        header.set_mode(OWNER_ONLY);
        header.set_mtime(time.seconds());
        archive.append_data(&mut header, format!("{FOLDER}/{name}"), content.as_slice())?;
    }
    let mut file = archive.into_inner()?.finish()?;
    file.flush()?;
    file.sync_all()?;
    file.metadata().map(|metadata| metadata.len())
}
