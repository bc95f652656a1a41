//! The files that a state of a shard consists of, to be copied to another place: for backups.
//!
//! A state is a checkpoint, or a shard that no process has open. Put back under their paths, the
//! files are a shard again:
//!
//! | file | copied part |
//! |---|---|
//! | `db/version`, `db/keyspaces/K/current`, `db/keyspaces/K/vN` | all; small |
//! | `db/keyspaces/K/tables/N` | all; written once and never changed, and the version knows the checksum of each |
//! | `db/N.jnl` | up to the end of the last good batch: a torn write, which was never acknowledged, is left out |
//! | `JOURNALS` | made here: records that nothing follows the copied part |
//! | `history/N-…` | archived journals, which only restores to a point in time put back: `wal_archive/` |
//! | `FORMAT` | made here; it comes last, since it marks the shard as complete |
//!
//! Those of a shard in an object store are named by the engine over it (`object/files.rs`) and fetched from the store.
//!
//! The lock, the epoch and the bytes that earlier starts cut off journals belong to the directory
//! and not to the state.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use xxhash_rust::xxh3::Xxh3;

use crate::directory::{DATABASE, complete_format, find_complete, lock_for_looking};
use crate::journal::{self, Records};
use crate::journal_mark::{self, Mark, Tolerance};
use crate::{StorageError, files, wal_archive};

/// Checksum of a whole table, as the version that names the table has it.
pub type TableChecksum = u128;

/// One of the files, in the order in which they are best put back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptFile {
    /// Below the shard's directory, with slashes.
    pub path: String,
    pub size_bytes: u64,
    /// Checksum of a table: a table of this path, size and checksum has this content.
    pub table: Option<TableChecksum>,
}

/// The files of a state. A shard that no process has open stays locked for owners as long as this
/// lives.
#[derive(Debug)]
pub struct KeptFiles {
    place: Place,
    files: Vec<KeptFile>,
    /// The part to read of each file, in the order of `files`.
    contents: Vec<Content>,
}

#[derive(Debug)]
enum Place {
    Directory { directory: PathBuf, _lock: Option<File> },
    Store(Arc<dyn Fetch>),
}

#[derive(Debug)]
enum Content {
    InPlace,
    /// In another file below the shard.
    Elsewhere(String),
    Made(Bytes),
}

/// A store that keeps files, by their paths below the shard.
pub(crate) trait Fetch: Send + Sync + std::fmt::Debug {
    fn fetch(&self, path: &str, range: Range<u64>) -> BoxFuture<'_, Result<Bytes, StorageError>>;
}

impl KeptFiles {
    /// The files in the directory of a checkpoint, or of a shard that no process has open. Changes
    /// nothing.
    pub fn of_directory(directory: &Path) -> Result<KeptFiles, StorageError> {
        find_complete(directory)?;
        let lock = lock_for_looking(directory)?;
        let database = directory.join(DATABASE);
        let found = files::check(&database)?;
        let records = Records::read(directory)?;
        let journals = journal::inspect(&database, &[])?;
        let _torn_write_stays_behind = journal::judge(&journals, &records, Tolerance::LastBatch)?;
        let place = Place::Directory { directory: directory.to_owned(), _lock: lock };
        let mut kept = KeptFiles { place, files: Vec::new(), contents: Vec::new() };
        kept.add_whole(directory, format!("{DATABASE}/version"), None)?;
        for keyspace in &found.keyspaces {
            let folder = format!("{DATABASE}/{}", keyspace.folder.display());
            for table in &keyspace.tables {
                kept.add_whole(directory, format!("{folder}/tables/{}", table.number), Some(table.checksum))?;
            }
            kept.add_whole(directory, format!("{folder}/{}", keyspace.version), None)?;
            kept.add_whole(directory, format!("{folder}/current"), None)?;
        }
        for journal in &journals {
            let path = format!("{DATABASE}/{}.jnl", journal.known.number);
            kept.add(path, journal.known.good_bytes, None, Content::InPlace);
        }
        let tolerance = records.mark.map_or(Tolerance::LastBatch, |mark| mark.tolerance);
        let mark = Mark::new(true, tolerance, journal::known(&journals)).text();
        kept.add_made(journal_mark::NAME, mark.into_bytes());
        for journal in wal_archive::kept_journals(directory)? {
            kept.add(journal.name, journal.size_bytes, None, Content::Elsewhere(journal.path));
        }
        kept.add_made("FORMAT", complete_format().into_bytes());
        Ok(kept)
    }

    /// Those of a shard in a store, in the order in which they are put back.
    #[cfg_attr(not(feature = "object-storage"), allow(dead_code))]
    pub(crate) fn of_store(store: Arc<dyn Fetch>, files: Vec<KeptFile>) -> KeptFiles {
        let contents = files.iter().map(|_| Content::InPlace).collect();
        KeptFiles { place: Place::Store(store), files, contents }
    }

    /// Whether they lie in an object store, and are a shard again in one.
    pub fn is_of_store(&self) -> bool {
        matches!(self.place, Place::Store(_))
    }

    pub fn files(&self) -> &[KeptFile] {
        &self.files
    }

    /// Up to so many bytes of a file, from a place on; fewer at its end only, none behind it.
    pub async fn read(&self, file: usize, offset: u64, bytes_max: usize) -> Result<Bytes, StorageError> {
        let (Some(kept), Some(content)) = (self.files.get(file), self.contents.get(file)) else {
            return Err(StorageError::io(format!("there is no file {file} in this state")));
        };
        let left = kept.size_bytes.saturating_sub(offset);
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(bytes_max);
        if length == 0 {
            return Ok(Bytes::new());
        }
        match (content, &self.place) {
            (Content::Made(made), _) => {
                let start = made.len() - usize::try_from(left).unwrap_or(made.len()).min(made.len());
                Ok(made.slice(start..start + length))
            }
            (Content::InPlace | Content::Elsewhere(_), Place::Directory { directory, .. }) => {
                let path = match content {
                    Content::Elsewhere(path) => directory.join(path),
                    _ => directory.join(&kept.path),
                };
                let read = tokio::task::spawn_blocking(move || {
                    read_exactly(&path, offset, length).map_err(|error| unreadable(&path, &error))
                });
                read.await.map_err(StorageError::io)?
            }
            (Content::InPlace | Content::Elsewhere(_), Place::Store(store)) => {
                let piece = store.fetch(&kept.path, offset..offset + length as u64).await?;
                match piece.len() == length {
                    true => Ok(piece),
                    false => {
                        Err(StorageError::io(format!("'{}' has another size than was listed", kept.path)))
                    }
                }
            }
        }
    }

    fn add_whole(
        &mut self,
        directory: &Path,
        path: String,
        table: Option<TableChecksum>,
    ) -> Result<(), StorageError> {
        let whole = directory.join(&path);
        let size_bytes = whole.metadata().map_err(|error| unreadable(&whole, &error))?.len();
        self.add(path, size_bytes, table, Content::InPlace);
        Ok(())
    }

    fn add_made(&mut self, path: &str, content: Vec<u8>) {
        let size_bytes = content.len() as u64;
        self.add(path.to_owned(), size_bytes, None, Content::Made(content.into()));
    }

    fn add(&mut self, path: String, size_bytes: u64, table: Option<TableChecksum>, content: Content) {
        self.files.push(KeptFile { path, size_bytes, table });
        self.contents.push(content);
        assert_eq!(self.files.len(), self.contents.len(), "each kept file has its content");
    }
}

/// Adds up the checksum of a table piece by piece.
#[derive(Default)]
pub struct TableSum(Xxh3);

impl TableSum {
    pub fn add(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    pub fn checksum(&self) -> TableChecksum {
        self.0.digest128()
    }
}

/// Whether the journals are there that a copied shard records in its file `JOURNALS`: `sizes` by the paths of its files.
///
/// # Errors
/// [`StorageError::Corrupt`], which names the journal.
pub fn check_copied_journals(record: &[u8], sizes: &BTreeMap<String, u64>) -> Result<(), StorageError> {
    let corrupt = |what: String| StorageError::Corrupt { what: what.into() };
    let mark = Mark::parse(record)
        .ok_or_else(|| corrupt(format!("'{}' is no record of journals", journal_mark::NAME)))?;
    for known in mark.journals {
        let path = format!("{DATABASE}/{}.jnl", known.number);
        match sizes.get(&path) {
            None => return Err(corrupt(format!("the journal '{path}' is missing"))),
            Some(found) if *found < known.good_bytes => {
                return Err(corrupt(format!(
                    "the journal '{path}' has {found} bytes, though {} bytes of it were on stable storage",
                    known.good_bytes
                )));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

fn read_exactly(path: &Path, offset: u64, length: usize) -> io::Result<Bytes> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::with_capacity(length);
    file.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes.into())
}

fn unreadable(path: &Path, error: &io::Error) -> StorageError {
    StorageError::io(format!("'{}' cannot be read: {error}", path.display()))
}
