//! Archived journals of a local shard: links in its directory `wal_archive/`.
//!
//! fjall deletes a journal when all its rows are in tables; a link keeps its content. A journal
//! takes 64 MB of writes before there is a newer one, and only a journal with a newer one behind it
//! is deleted, so that it is enough to look for journals without a link now and again. A journal
//! that went without one would be a hole, which is found when the log is replayed (`replay.rs`).

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use shardlake_stdx::{Clock, Timestamp};
use xxhash_rust::xxh3::Xxh3;

use crate::StorageError;
use crate::directory::DATABASE;
use crate::journal::{good_bytes, journals};

pub(super) const KEPT: &str = "history";
/// Bytes written between two looks.
const LOOK_EVERY_BYTES: u64 = 1 << 20;
/// Pieces that identify a journal which has a newer one.
const PIECES: u64 = 16;
const PIECE_BYTES: usize = 4096;

/// The archive of journals while the shard is open.
pub(crate) struct KeptJournals {
    shard: PathBuf,
    window: Duration,
    since_look: AtomicU64,
}

impl KeptJournals {
    pub fn begin(shard: &Path, window: Duration) -> Result<KeptJournals, StorageError> {
        let kept = KeptJournals { shard: shard.to_owned(), window, since_look: AtomicU64::new(0) };
        let made = match DirBuilder::new().mode(0o700).create(shard.join(KEPT)) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
            _ => File::open(shard).and_then(|shard| shard.sync_all()),
        };
        made.and_then(|()| kept.look()).map_err(|error| failed(shard, &error))?;
        Ok(kept)
    }

    /// When the oldest journal was made, which holds no earlier commit; `None` where the file system does not record it.
    pub fn begins(&self) -> Option<Timestamp> {
        let kept = self.shard.join(KEPT);
        let (_, oldest) = journals(&kept).ok()?.into_iter().next()?;
        let made = |path: &Path| {
            let made = path.metadata().ok()?.created().ok()?.duration_since(UNIX_EPOCH).ok()?;
            Some(Timestamp(u64::try_from(made.as_millis()).ok()?))
        };
        // The oldest journal may hold commits from before the log was archived.
        Some(made(&oldest)?.max(made(&kept)?))
    }

    /// Notes that so many bytes were written.
    pub fn note(&self, bytes: u64) {
        if self.since_look.fetch_add(bytes, Ordering::Relaxed) + bytes < LOOK_EVERY_BYTES {
            return;
        }
        self.since_look.store(0, Ordering::Relaxed);
        if let Err(error) = self.look() {
            tracing::error!(%error, shard = %self.shard.display(), "the log cannot be kept: restores to a time will meet a hole");
        }
    }

    /// Links journals that have no link yet, and removes the links that are too old.
    pub fn look(&self) -> io::Result<()> {
        let kept = self.shard.join(KEPT);
        let current = journals(&self.shard.join(DATABASE))?;
        let mut is_new = false;
        for (number, path) in &current {
            match fs::hard_link(path, kept.join(format!("{number}.jnl"))) {
                Ok(()) => is_new = true,
                // Linked before, or sorted and deleted since it was listed: then it was linked
                // before, too.
                Err(error) if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        if is_new {
            File::open(&kept)?.sync_all()?;
            self.drop_old(&kept, current.first().map_or(0, |(number, _)| *number))?;
        }
        Ok(())
    }

    /// Oldest first, so that none is missing between two others.
    fn drop_old(&self, kept: &Path, oldest_in_use: u64) -> io::Result<()> {
        let now = Clock::System.now().milliseconds();
        for (number, path) in journals(kept)? {
            let written = path.metadata()?.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
            let age = u128::from(now).saturating_sub(written.as_millis());
            if number >= oldest_in_use || age <= self.window.as_millis() {
                return Ok(());
            }
            fs::remove_file(&path)?;
        }
        Ok(())
    }
}

/// Nothing is kept any more.
pub(crate) fn forget(shard: &Path) -> Result<(), StorageError> {
    match fs::remove_dir_all(shard.join(KEPT)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(shard, &error)),
        _ => Ok(()),
    }
}

/// Links the archived journals in a checkpoint.
pub(crate) fn copy_links(shard: &Path, to: &Path) -> io::Result<()> {
    if !shard.join(KEPT).is_dir() {
        return Ok(());
    }
    let target = to.join(KEPT);
    DirBuilder::new().mode(0o700).create(&target)?;
    for (number, path) in journals(&shard.join(KEPT))? {
        fs::hard_link(path, target.join(format!("{number}.jnl")))?;
    }
    File::open(target)?.sync_all()
}

/// A journal that is kept with a state.
pub(crate) struct KeptJournal {
    /// Its name in backups: the name of a complete journal is used for this content only.
    pub name: String,
    /// Where it lies below the shard.
    pub path: String,
    pub size_bytes: u64,
}

/// Oldest first, of a checkpoint or of a shard that no process has open; none where no log is
/// archived.
///
/// # Errors
/// [`StorageError::Corrupt`] where one is missing between two others, which names it.
pub(crate) fn kept_journals(directory: &Path) -> Result<Vec<KeptJournal>, StorageError> {
    let failed = |error: io::Error| failed(directory, &error);
    let found = list(directory).map_err(failed)?;
    if let Some([(before, _), _]) = found.windows(2).find(|pair| pair[1].0 != pair[0].0 + 1) {
        let missing = directory.join(path_of(KEPT, before + 1));
        return Err(StorageError::Corrupt {
            what: format!("'{}' is missing: the log that is kept for restores has a hole", missing.display())
                .into(),
        });
    }
    let newest = found.last().map(|(number, _)| *number);
    let kept = |(number, path): (u64, String)| {
        let whole = directory.join(&path);
        if Some(number) == newest {
            let size_bytes = good_bytes(&whole)?;
            return Ok(KeptJournal { name: format!("{KEPT}/{number:010}-open.jnl"), path, size_bytes });
        }
        let size_bytes = whole.metadata()?.len();
        let name = format!("{KEPT}/{number:010}-{:016x}.jnl", fingerprint(&whole, size_bytes)?);
        Ok(KeptJournal { name, path, size_bytes })
    };
    found.into_iter().map(kept).collect::<io::Result<_>>().map_err(failed)
}

/// The numbers of the kept journals, and where each lies.
fn list(directory: &Path) -> io::Result<Vec<(u64, String)>> {
    if !directory.join(KEPT).is_dir() {
        return Ok(Vec::new());
    }
    let links = journals(&directory.join(KEPT))?;
    let mut found: Vec<(u64, String)> =
        links.into_iter().map(|(number, _)| (number, path_of(KEPT, number))).collect();
    let last = found.last().map_or(0, |(number, _)| *number);
    // A killed process may have begun a journal that it did not link.
    let newer = journals(&directory.join(DATABASE))?.into_iter().filter(|(number, _)| *number > last);
    found.extend(newer.map(|(number, _)| (number, path_of(DATABASE, number))));
    Ok(found)
}

fn path_of(folder: &str, number: u64) -> String {
    format!("{folder}/{number}.jnl")
}

/// Differs between journals of one number that copies of a shard wrote on their own: every group has a stamp that no other one has.
fn fingerprint(path: &Path, size_bytes: u64) -> io::Result<u64> {
    let file = File::open(path)?;
    let (mut sum, mut piece) = (Xxh3::new(), [0; PIECE_BYTES]);
    for number in 0..PIECES {
        let at = size_bytes / PIECES * number;
        let read = file.read_at(&mut piece, at)?;
        sum.update(&piece[..read]);
    }
    Ok(sum.digest())
}

fn failed(shard: &Path, error: &io::Error) -> StorageError {
    StorageError::io(format!("the log of '{}' cannot be kept: {error}", shard.display()))
}
