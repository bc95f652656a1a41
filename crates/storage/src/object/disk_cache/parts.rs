//! The parts that are kept: their files, and which of them was used last.
//!
//! ```text
//! DIRECTORY/lock             one process uses it at a time
//! DIRECTORY/parts/3f/3f…     one file for each part, named by a hash of table and number
//! ```
//! The kept parts are listed in memory; a start reads the names and sizes. When a file has no room,
//! the files used longest ago are removed. Reading and writing files is done on threads that may
//! block.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path as Directory, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use slatedb::object_store::path::Path;
use tokio::sync::Semaphore;
use xxhash_rust::xxh3::xxh3_128;

use super::part_file::{self, Part};
use crate::StorageError;

const LOCK: &str = "lock";
const PARTS: &str = "parts";
/// Extension of files that are being written.
const UNFINISHED: &str = "new";
/// Parts that wait to be written; further ones are not kept.
const WRITES_MAX: usize = 32;
/// Files that are read at a time: each by a thread, for which the allocator keeps megabytes.
const READS_MAX: usize = 16;

/// Events that an operator may want to count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskCacheEvent {
    /// A part was read from its file.
    Hit,
    /// A part was fetched from the store.
    Miss,
    /// A file had not the content that was written.
    Damaged,
    /// A file could not be written.
    NotKept,
}

/// Hash of the table and the number of the part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct PartName(u128);

/// A directory with parts of tables.
pub struct DiskCache {
    parts: PathBuf,
    bytes_max: u64,
    kept: Mutex<Kept>,
    writes: Arc<Semaphore>,
    reads: Semaphore,
    /// For names of files that are being written.
    written: AtomicU64,
    /// Since the last file that could be written.
    is_failing: AtomicBool,
    observe: Box<dyn Fn(DiskCacheEvent) + Send + Sync>,
    _lock: File,
}

#[derive(Default)]
struct Kept {
    parts: HashMap<PartName, Use>,
    by_use: BTreeMap<u64, PartName>,
    bytes: u64,
    uses: u64,
}

struct Use {
    bytes: u64,
    last: u64,
}

impl PartName {
    pub fn of(location: &Path, number: u64) -> PartName {
        PartName(xxh3_128(format!("{number} {location}").as_bytes()))
    }

    fn parse(name: &str) -> Option<PartName> {
        if name.len() != 32 { None } else { u128::from_str_radix(name, 16).ok().map(PartName) }
    }

    fn file(self, parts: &Directory) -> PathBuf {
        let name = format!("{:032x}", self.0);
        parts.join(&name[..2]).join(name)
    }
}

impl DiskCache {
    /// Makes the directory where it is missing, and lists its content.
    ///
    /// # Errors
    /// [`StorageError::Locked`] where another process uses it, [`StorageError::Io`] where it cannot be made.
    pub fn open(
        directory: &Directory,
        bytes_max: u64,
        observe: impl Fn(DiskCacheEvent) + Send + Sync + 'static,
    ) -> Result<DiskCache, StorageError> {
        let cannot = |error: io::Error| {
            StorageError::io(format!("the disk cache '{}' cannot be used: {error}", directory.display()))
        };
        let parts = directory.join(PARTS);
        // Private to the user: the cache has the same data as the store.
        DirBuilder::new().recursive(true).mode(0o700).create(&parts).map_err(cannot)?;
        let open = File::options().create(true).truncate(false).write(true).open(directory.join(LOCK));
        let lock = open.map_err(cannot)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StorageError::Locked { directory: directory.to_owned() });
            }
            Err(TryLockError::Error(error)) => return Err(cannot(error)),
        }
        let kept = Mutex::new(find(&parts));
        let cache = DiskCache {
            parts,
            bytes_max,
            kept,
            writes: Arc::new(Semaphore::new(WRITES_MAX)),
            reads: Semaphore::new(READS_MAX),
            written: AtomicU64::new(0),
            is_failing: AtomicBool::new(false),
            observe: Box::new(observe),
            _lock: lock,
        };
        cache.evict_for(0);
        Ok(cache)
    }

    /// Bytes of the files that are kept.
    pub fn bytes(&self) -> u64 {
        self.kept().bytes
    }

    /// Ends when all parts that were given to keep are written.
    #[cfg(feature = "testing")]
    pub async fn settled(&self) {
        let _all = self.writes.acquire_many(WRITES_MAX as u32).await;
    }

    pub(super) fn note(&self, event: DiskCacheEvent) {
        (self.observe)(event);
    }

    pub(super) fn has(&self, name: PartName) -> bool {
        self.kept().parts.contains_key(&name)
    }

    pub(super) async fn read(self: &Arc<Self>, name: PartName, location: &Path, number: u64) -> Option<Part> {
        if !self.kept().touch(name) {
            return None;
        }
        let _turn = self.reads.acquire().await.ok()?;
        let (file, location) = (name.file(&self.parts), location.clone());
        let read = tokio::task::spawn_blocking(move || {
            let content = fs::read(file)?;
            Ok::<_, io::Error>(part_file::decode(content.into(), location.as_ref(), number))
        });
        match read.await {
            Ok(Ok(Some(part))) => {
                self.note(DiskCacheEvent::Hit);
                Some(part)
            }
            damaged => {
                if matches!(damaged, Ok(Ok(None))) {
                    self.note(DiskCacheEvent::Damaged);
                }
                self.forget(name);
                None
            }
        }
    }

    /// Writes it behind the caller's back, or not at all.
    pub(super) fn keep(self: &Arc<Self>, name: PartName, location: &Path, number: u64, part: Part) {
        let Ok(turn) = self.writes.clone().try_acquire_owned() else { return };
        let (cache, location) = (self.clone(), location.clone());
        tokio::task::spawn_blocking(move || {
            let file = part_file::encode(location.as_ref(), number, &part);
            match cache.write(name, &file) {
                Ok(()) => cache.is_failing.store(false, Ordering::Relaxed),
                Err(error) => {
                    cache.note(DiskCacheEvent::NotKept);
                    if !cache.is_failing.swap(true, Ordering::Relaxed) {
                        let directory = cache.parts.display();
                        tracing::warn!(%directory, %error, "the disk cache cannot be written: reads go to the store");
                    }
                }
            }
            drop(turn);
        });
    }

    pub(super) fn forget(&self, name: PartName) {
        self.kept().remove(name);
        // A file that is left is found at the next start.
        let _ = fs::remove_file(name.file(&self.parts));
    }

    fn write(&self, name: PartName, content: &[u8]) -> io::Result<()> {
        if content.len() as u64 > self.bytes_max {
            return Ok(());
        }
        self.evict_for(content.len() as u64);
        let file = name.file(&self.parts);
        let folder = file.parent().unwrap_or(&self.parts);
        fs::create_dir_all(folder)?;
        let new = folder.join(format!("{}.{UNFINISHED}", self.written.fetch_add(1, Ordering::Relaxed)));
        if let Err(error) = fs::write(&new, content).and_then(|()| fs::rename(&new, &file)) {
            let _ = fs::remove_file(&new);
            return Err(error);
        }
        self.kept().insert(name, content.len() as u64);
        Ok(())
    }

    /// Removes the files used longest ago, until so many bytes more have room.
    fn evict_for(&self, bytes: u64) {
        loop {
            let mut kept = self.kept();
            if kept.bytes + bytes <= self.bytes_max {
                return;
            }
            let Some(oldest) = kept.by_use.first_key_value().map(|(_, name)| *name) else { return };
            kept.remove(oldest);
            drop(kept);
            let _ = fs::remove_file(oldest.file(&self.parts));
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for DiskCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the disk cache in '{}'", self.parts.display())
    }
}

impl Kept {
    fn touch(&mut self, name: PartName) -> bool {
        let Some(part) = self.parts.get_mut(&name) else { return false };
        self.by_use.remove(&part.last);
        self.uses += 1;
        part.last = self.uses;
        self.by_use.insert(part.last, name);
        true
    }

    fn insert(&mut self, name: PartName, bytes: u64) {
        self.remove(name);
        self.uses += 1;
        assert_eq!(self.parts.len(), self.by_use.len(), "each part has one place in the order of use");
        self.parts.insert(name, Use { bytes, last: self.uses });
        self.by_use.insert(self.uses, name);
        self.bytes += bytes;
    }

    fn remove(&mut self, name: PartName) {
        assert!(!self.parts.is_empty() || self.bytes == 0, "an empty cache holds no bytes");
        if let Some(part) = self.parts.remove(&name) {
            self.by_use.remove(&part.last);
            self.bytes -= part.bytes;
        }
    }
}

/// Files that an earlier process left, the oldest first. Unreadable files are ignored; unfinished
/// ones are removed.
fn find(parts: &Directory) -> Kept {
    let mut found: Vec<(SystemTime, PartName, u64)> = Vec::new();
    let folders = fs::read_dir(parts).into_iter().flatten().flatten();
    for entry in folders.flat_map(|folder| fs::read_dir(folder.path())).flatten().flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if name.ends_with(UNFINISHED) {
            let _ = fs::remove_file(entry.path());
            continue;
        }
        if let (Some(name), Ok(metadata)) = (PartName::parse(name), entry.metadata()) {
            let written = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            found.push((written, name, metadata.len()));
        }
    }
    found.sort_unstable();
    let mut kept = Kept::default();
    for (_, name, bytes) in found {
        kept.insert(name, bytes);
    }
    kept
}
