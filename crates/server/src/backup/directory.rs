//! Backups in a directory, and the lock for concurrent commands.
//!
//! | path | contents |
//! |---|---|
//! | `FORMAT` | one line, so that no other directory is taken for one of these |
//! | `LOCK` | held exclusively to make or delete backups, shared to read them; released when the process ends |
//! | `objects/ab/cd…` | a content, by its SHA-256: stored once, however many backups share it |
//! | `backups/ID.manifest` | the list of the files of a backup, written last and never replaced |
//! | `unfinished/N` | an unfinished content |
//!
//! A crash at any time leaves complete backups, and perhaps contents that no manifest names. Such contents are deleted when the
//! next backup is made or deleted.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::digest::Digest;
use super::identifier::BackupId;
use super::manifest::Manifest;
use super::shelf::{self, Alone, ENDING, FORMAT, Lock, Shelf, Spool, Work};
use crate::private_file::{self, Secrecy};

#[derive(Debug)]
pub struct Directory(PathBuf);

/// Whether a directory is marked as one of backups by its `FORMAT`.
pub fn holds_backups(directory: &Path) -> bool {
    fs::read(directory.join("FORMAT")).is_ok_and(|found| found == FORMAT.as_bytes())
}

impl Directory {
    pub fn open(directory: &Path) -> Result<Directory, String> {
        match fs::read(directory.join("FORMAT")) {
            Ok(found) if found == FORMAT.as_bytes() => Ok(Directory(directory.to_owned())),
            Ok(found) if found.starts_with(b"shardlake backups ") => {
                Err(format!("'{}' holds backups of another version of this program", directory.display()))
            }
            Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                Err(format!("'{}' cannot be read: {error}", directory.join("FORMAT").display()))
            }
            _ => Err(format!(
                "'{}' holds no backups: there is no FORMAT file of theirs in it",
                directory.display()
            )),
        }
    }

    /// Makes it where there is nothing, or an empty directory.
    pub fn open_or_make(directory: &Path) -> Result<Directory, String> {
        let failed =
            |error: io::Error| format!("'{}' cannot be used for backups: {error}", directory.display());
        if !directory.exists() {
            DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
        }
        if !directory.join("FORMAT").exists() {
            // A crash in the very first step may have left this file.
            let is_ours = |entry: &fs::DirEntry| entry.file_name() == "FORMAT.new";
            for entry in fs::read_dir(directory).map_err(failed)? {
                if !is_ours(&entry.map_err(failed)?) {
                    return Err(format!(
                        "'{}' holds something else than backups: name an empty directory, or one that does not exist",
                        directory.display()
                    ));
                }
            }
            private_file::write(&directory.join("FORMAT"), FORMAT.as_bytes(), Secrecy::Secret)
                .map_err(failed)?;
        }
        let place = Directory::open(directory)?;
        for name in ["objects", "backups", "unfinished"] {
            make_directory(&directory.join(name)).map_err(failed)?;
        }
        Ok(place)
    }

    pub fn object_path(&self, digest: &Digest) -> PathBuf {
        self.0.join(shelf::content_path(digest))
    }

    fn manifest_path(&self, id: &BackupId) -> PathBuf {
        self.0.join(shelf::manifest_path(id))
    }

    fn lock_now(&self, alone: Alone) -> Result<Lock, String> {
        let path = self.0.join("LOCK");
        let lock = match alone {
            Alone::Yes => OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path),
            // Perhaps on media that cannot be written.
            Alone::No => match File::open(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Lock::None),
                opened => opened,
            },
        };
        let unusable = |error: io::Error| format!("'{}' cannot be locked: {error}", path.display());
        let lock = lock.map_err(unusable)?;
        let locked = match alone {
            Alone::Yes => lock.try_lock(),
            Alone::No => lock.try_lock_shared(),
        };
        match locked {
            Ok(()) => Ok(Lock::File(lock)),
            Err(TryLockError::WouldBlock) => Err(shelf::in_use(&self.name())),
            Err(TryLockError::Error(error)) => Err(unusable(error)),
        }
    }

    fn publish_now(&self, manifest: &Manifest) -> Result<(), String> {
        let path = self.manifest_path(&manifest.id);
        let failed =
            |error: io::Error| format!("the manifest '{}' cannot be written: {error}", path.display());
        let folders: HashSet<PathBuf> = manifest
            .files
            .iter()
            .filter_map(|file| Some(self.object_path(&file.sha256).parent()?.to_owned()))
            .collect();
        for folder in folders.iter().map(PathBuf::as_path).chain([&*self.0.join("objects"), &*self.0]) {
            sync_directory(folder).map_err(failed)?;
        }
        private_file::write(&path, &manifest.encode()?, Secrecy::Secret).map_err(failed)
    }

    fn sweep_now(&self, needed: Option<&HashSet<Digest>>) -> Result<u64, String> {
        let failed = |error: io::Error| format!("'{}' cannot be cleared: {error}", self.0.display());
        let is_half = |name: &str| name.ends_with(".new");
        let mut freed = remove_files(&self.0.join("unfinished"), |_| true).map_err(failed)?;
        freed += remove_files(&self.0.join("backups"), is_half).map_err(failed)?;
        let Some(needed) = needed else { return Ok(freed) };
        let objects = self.0.join("objects");
        for folder in names(&objects).map_err(failed)? {
            let is_needless = |rest: &str| {
                format!("{folder}{rest}").parse::<Digest>().map_or(true, |digest| !needed.contains(&digest))
            };
            freed += remove_files(&objects.join(&folder), is_needless).map_err(failed)?;
        }
        Ok(freed)
    }

    /// Moves a content into its place. An existing file has the same content or is damaged.
    fn put_now(&self, spool: Spool, digest: &Digest) -> Result<bool, String> {
        let target = self.object_path(digest);
        let is_new = !target.exists();
        let finished = spool.file.sync_all().and_then(|()| {
            target.parent().map_or(Ok(()), make_directory)?;
            fs::rename(&spool.path, &target)
        });
        finished.map_err(|error| shelf::unwritten(&target, &error))?;
        Ok(is_new)
    }
}

fn done<'a, T: 'a>(result: T) -> Work<'a, T> {
    Box::pin(std::future::ready(result))
}

impl Shelf for Directory {
    fn name(&self) -> String {
        self.0.display().to_string()
    }

    fn lock(&self, alone: Alone) -> Work<'_, Result<Lock, String>> {
        done(self.lock_now(alone))
    }

    fn manifests(&self) -> Work<'_, Result<Vec<BackupId>, String>> {
        let directory = self.0.join("backups");
        let found = names(&directory).map_err(|error| shelf::unreadable(&directory.display(), &error));
        let id = |name: &String| name.strip_suffix(ENDING).and_then(|id| id.parse().ok());
        done(found.map(|names| names.iter().filter_map(id).collect()))
    }

    fn manifest(&self, id: &BackupId, bytes_max: u64) -> Work<'_, Result<Option<Vec<u8>>, String>> {
        let path = self.manifest_path(id);
        let mut content = Vec::new();
        let read = File::open(&path).and_then(|file| file.take(bytes_max).read_to_end(&mut content));
        done(match read {
            Ok(_) => Ok(Some(content)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(shelf::unreadable(&path.display(), &error)),
        })
    }

    fn size(&self, digest: &Digest) -> Work<'_, Result<Option<u64>, String>> {
        done(match fs::metadata(self.object_path(digest)) {
            Ok(found) => Ok(found.is_file().then_some(found.len())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.to_string()),
        })
    }

    fn read(&self, digest: &Digest, offset: u64, bytes_max: usize) -> Work<'_, Result<Bytes, String>> {
        let path = self.object_path(digest);
        let read = || -> io::Result<Bytes> {
            let mut file = File::open(&path)?;
            file.seek(SeekFrom::Start(offset))?;
            let mut piece = Vec::new();
            file.take(bytes_max as u64).read_to_end(&mut piece)?;
            Ok(piece.into())
        };
        done(read().map_err(|error| error.to_string()))
    }

    fn spool(&self) -> Result<Spool, String> {
        Spool::at(self.0.join("unfinished").join("content"))
    }

    fn put<'a>(&'a self, spool: Spool, digest: &'a Digest) -> Work<'a, Result<bool, String>> {
        done(self.put_now(spool, digest))
    }

    fn publish<'a>(&'a self, manifest: &'a Manifest, _lock: &'a Lock) -> Work<'a, Result<(), String>> {
        done(self.publish_now(manifest))
    }

    fn withdraw<'a>(&'a self, id: &'a BackupId, _lock: &'a Lock) -> Work<'a, Result<(), String>> {
        let path = self.manifest_path(id);
        let removed = fs::remove_file(&path).and_then(|()| sync_directory(&self.0.join("backups")));
        done(removed.map_err(|error| format!("'{}' cannot be removed: {error}", path.display())))
    }

    fn sweep<'a>(
        &'a self,
        needed: Option<&'a HashSet<Digest>>,
        _lock: &'a Lock,
    ) -> Work<'a, Result<u64, String>> {
        done(self.sweep_now(needed))
    }
}

/// Makes a directory that may be there, for its owner alone.
pub fn make_directory(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

pub fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

fn names(directory: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

fn remove_files(directory: &Path, is_needless: impl Fn(&str) -> bool) -> io::Result<u64> {
    let mut freed = 0;
    for name in names(directory)?.iter().filter(|name| is_needless(name)) {
        let path = directory.join(name);
        let found = fs::symlink_metadata(&path)?;
        if !found.is_dir() {
            fs::remove_file(&path)?;
            freed += found.len();
        }
    }
    Ok(freed)
}
