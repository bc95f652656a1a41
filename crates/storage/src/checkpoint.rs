//! Checkpoints: a named state of a shard, complete and durable, to be read or copied while writes continue.
//!
//! | engine | contents of a checkpoint |
//! |---|---|
//! | local disk | a shard of its own in `checkpoints/NAME` of the directory: tables are links, so that it costs little until the originals are merged away |
//! | memory | a view that the engine keeps; it ends with the engine |
//!
//! No group is on its way when a checkpoint is made: it shows exactly the commits up to one, and writers wait meanwhile. So that they do not
//! wait long, nothing is sorted then:
//!
//! ```text
//! writers held   note where the log ends (P)
//! writers continue  flush: writes before P are in tables now, and some of those behind P
//! writers held   link the tables; copy the part of the log behind P
//! ```

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::copying::{copy_files, copy_journals};
use crate::directory::{DATABASE, mark_complete};
use crate::journal;
use crate::journal_mark::{Mark, Tolerance};
use crate::{LogPosition, StorageError, files, wal_archive};

const CHECKPOINTS: &str = "checkpoints";
/// Has a dot, so that no checkpoint can have the name.
const UNFINISHED: &str = ".unfinished";
/// Prefix of the directories that hold the files an inspection needs to write.
pub(crate) const SCRATCH: &str = "shardlake-inspect-";
const NAME_BYTES_MAX: usize = 64;
/// While a merge replaces tables the files may not fit together; that takes milliseconds.
const ATTEMPTS: u32 = 50;
const ATTEMPT_PAUSE: Duration = Duration::from_millis(5);

/// Names end up in paths.
pub(crate) fn check_name(name: &str) -> Result<(), StorageError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_plain) {
        return Err(StorageError::CheckpointName);
    }
    Ok(())
}

/// Where the checkpoint of a shard's directory lies.
pub(crate) fn directory_of(shard: &Path, name: &str) -> PathBuf {
    shard.join(CHECKPOINTS).join(name)
}

/// Copies a database to which nothing is written, though it may be sorted and merged meanwhile. Whatever the journals hold before a place
/// is in tables: it is left out, or a backup would copy it again and again.
pub(crate) fn make(shard: &Path, log: (Tolerance, &LogPosition), name: &str) -> Result<(), StorageError> {
    let target = directory_of(shard, name);
    if target.exists() {
        return Err(StorageError::CheckpointExists);
    }
    let unfinished = directory_of(shard, &format!("{name}{UNFINISHED}"));
    for attempt in 1.. {
        match copy(shard, log, &unfinished) {
            Ok(()) => break,
            Err(error) if attempt == ATTEMPTS => return Err(error),
            Err(_) => std::thread::sleep(ATTEMPT_PAUSE),
        }
    }
    let finish = || {
        fs::rename(&unfinished, &target)?;
        sync_directory(&shard.join(CHECKPOINTS))?;
        sync_directory(shard)
    };
    finish().map_err(|error| failed(&target, &error))
}

fn copy(
    shard: &Path,
    (tolerance, flushed): (Tolerance, &LogPosition),
    to: &Path,
) -> Result<(), StorageError> {
    let (database, copy) = (shard.join(DATABASE), to.join(DATABASE));
    let failed = |error: io::Error| failed(to, &error);
    remove_all(to).map_err(failed)?;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&copy).map_err(failed)?;
    // Journals first: rows of a journal that is sorted away in between are found in the tables.
    copy_journals(&journal::measure(&database, &flushed.0)?, flushed, &copy).map_err(failed)?;
    let found = files::check(&database)?;
    copy_files(&database, &found, &copy, |from, to| fs::hard_link(from, to)).map_err(failed)?;
    wal_archive::copy_links(shard, to).map_err(failed)?;
    let copied = files::check(&copy)?;
    let journals = journal::inspect(&copy, &[])?;
    Mark::new(true, tolerance, journal::known(&journals)).replace(to)?;
    let sync = || {
        for keyspace in &copied.keyspaces {
            sync_directory(&copy.join(&keyspace.folder).join("tables"))?;
            sync_directory(&copy.join(&keyspace.folder))?;
        }
        sync_directory(&copy.join("keyspaces"))?;
        sync_directory(&copy)?;
        mark_complete(to)
    };
    sync().map_err(failed)
}

/// The names of all that are complete.
pub(crate) fn names(shard: &Path) -> Result<Vec<String>, StorageError> {
    let directory = shard.join(CHECKPOINTS);
    let names = entries(&directory).map_err(|error| failed(&directory, &error))?;
    Ok(names.into_iter().filter(|name| check_name(name).is_ok()).collect())
}

/// Removes the remains of a killed process: unfinished checkpoints, and the scratch directories of
/// opened ones. A file that cannot be removed only costs space.
pub(crate) fn sweep(shard: &Path) {
    let swept = || -> io::Result<()> {
        let checkpoints = shard.join(CHECKPOINTS);
        for name in entries(&checkpoints)?.iter().filter(|name| name.ends_with(UNFINISHED)) {
            remove_all(&checkpoints.join(name))?;
        }
        for name in entries(shard)?.iter().filter(|name| name.starts_with(SCRATCH)) {
            remove_all(&shard.join(name))?;
        }
        Ok(())
    };
    if let Err(error) = swept() {
        tracing::warn!(%error, shard = %shard.display(), "what a killed process left of a checkpoint stays");
    }
}

fn entries(directory: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

pub(crate) fn remove(shard: &Path, name: &str) -> Result<(), StorageError> {
    let directory = directory_of(shard, name);
    remove_all(&directory).map_err(|error| failed(&directory, &error))
}

fn remove_all(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

fn failed(directory: &Path, error: &io::Error) -> StorageError {
    StorageError::io(format!("the checkpoint '{}' failed: {error}", directory.display()))
}
