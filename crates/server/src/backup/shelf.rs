//! Storage of backups: a directory (`directory.rs`), or a prefix in an object store (`in_store.rs`).
//!
//! Both have the same names: `FORMAT`, `objects/ab/cd…`, `backups/ID.manifest`.

use std::collections::HashSet;
use std::fmt::Display;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures::future::LocalBoxFuture;

use super::digest::{Digest, Sum};
use super::identifier::BackupId;
use super::manifest::Manifest;

pub const FORMAT: &str = "shardlake backups 1\n";
pub const ENDING: &str = ".manifest";

/// Commands do one thing after the other, on one thread.
pub type Work<'a, T> = LocalBoxFuture<'a, T>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alone {
    /// To make or delete backups.
    Yes,
    /// To read backups.
    No,
}

/// A lock against all other commands, or against those that change something.
#[derive(Debug)]
pub enum Lock {
    /// For readers of a place where nothing can be locked.
    None,
    /// Held until it is dropped.
    File(#[allow(dead_code)] File),
    #[cfg(feature = "object-storage")]
    Lease(Box<crate::store::Claim>),
}

impl Lock {
    /// Looked at before each change.
    #[cfg_attr(not(feature = "object-storage"), allow(dead_code))]
    pub fn check(&self) -> Result<(), String> {
        match self {
            #[cfg(feature = "object-storage")]
            Lock::Lease(claim) => claim.check(),
            Lock::None | Lock::File(_) => Ok(()),
        }
    }

    pub async fn release(self) {
        match self {
            #[cfg(feature = "object-storage")]
            Lock::Lease(claim) => claim.release().await,
            Lock::None | Lock::File(_) => {}
        }
    }
}

pub trait Shelf {
    /// The place as it was given.
    fn name(&self) -> String;

    fn lock(&self, alone: Alone) -> Work<'_, Result<Lock, String>>;

    /// The ids of all backups.
    fn manifests(&self) -> Work<'_, Result<Vec<BackupId>, String>>;

    /// The manifest; `None` where there is none. Bytes beyond `bytes_max` are cut off.
    fn manifest(&self, id: &BackupId, bytes_max: u64) -> Work<'_, Result<Option<Vec<u8>>, String>>;

    /// The size of a content; `None` where there is none.
    fn size(&self, digest: &Digest) -> Work<'_, Result<Option<u64>, String>>;

    /// A piece of a content, shorter at its end only.
    fn read(&self, digest: &Digest, offset: u64, bytes_max: usize) -> Work<'_, Result<Bytes, String>>;

    /// Opens a spool for an unfinished content: one at a time.
    fn spool(&self) -> Result<Spool, String>;

    /// Puts a content in its place, and returns whether it is new there.
    fn put<'a>(&'a self, spool: Spool, digest: &'a Digest) -> Work<'a, Result<bool, String>>;

    /// Makes a backup exist: everything that it names is in its place.
    fn publish<'a>(&'a self, manifest: &'a Manifest, lock: &'a Lock) -> Work<'a, Result<(), String>>;

    /// From here on the backup does not exist.
    fn withdraw<'a>(&'a self, id: &'a BackupId, lock: &'a Lock) -> Work<'a, Result<(), String>>;

    /// Deletes the contents that no backup needs, and returns their bytes. Without `needed` these are unknown: then only unfinished
    /// contents are deleted.
    fn sweep<'a>(
        &'a self,
        needed: Option<&'a HashSet<Digest>>,
        lock: &'a Lock,
    ) -> Work<'a, Result<u64, String>>;
}

pub fn content_path(digest: &Digest) -> String {
    let text = digest.to_string();
    let (folder, rest) = text.split_at(2);
    format!("objects/{folder}/{rest}")
}

pub fn manifest_path(id: &BackupId) -> String {
    format!("backups/{id}{ENDING}")
}

/// An unfinished content, with the checksum of its bytes so far.
pub struct Spool {
    pub file: File,
    pub path: PathBuf,
    pub sum: Sum,
    pub size_bytes: u64,
}

impl Spool {
    pub fn at(path: PathBuf) -> Result<Spool, String> {
        let _none_is_fine = fs::remove_file(&path);
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path);
        let file = file.map_err(|error| unwritten(&path, &error))?;
        Ok(Spool { file, path, sum: Sum::default(), size_bytes: 0 })
    }

    pub fn add(&mut self, piece: &[u8]) -> Result<(), String> {
        self.sum.add(piece);
        self.size_bytes += piece.len() as u64;
        self.file.write_all(piece).map_err(|error| unwritten(&self.path, &error))
    }
}

pub fn in_use(place: &str) -> String {
    format!("'{place}' is in use by another `shardlake backup`: wait for its end")
}

pub fn unreadable(path: &dyn Display, error: &dyn Display) -> String {
    format!("'{path}' cannot be read: {error}")
}

pub fn unwritten(path: &Path, error: &io::Error) -> String {
    format!("'{}' cannot be written: {error}", path.display())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Make {
    Yes,
    No,
}
