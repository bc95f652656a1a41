//! Read-only access to a shard that no process has open: for `verify`, on read-only media, a full
//! disk, a snapshot.
//!
//! fjall 3.1.13 has no way to open for reading: it cuts journals, removes versions and tables, and
//! sorts. So it is given a database in a scratch directory that looks like the shard's: links to
//! the tables, which are never written twice, and copies of the other files, which are small except
//! for the journals. Of each journal only the sound part is copied. Without workers fjall sorts
//! nothing and merges nothing, so that the copies are all that the scratch directory ever holds: as
//! many bytes as the journals, usually less than 100 MB and seldom more than 400 MB a shard.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fjall::{Database, Keyspace};

use crate::checkpoint::SCRATCH;
use crate::copying::{copy_files, copy_journals};
use crate::directory::{DATABASE, find_complete, lock_for_looking};
use crate::files::{self, Files};
use crate::journal::{self, Inspected, Records};
use crate::journal_mark::Tolerance;
use crate::local_database::{Purpose, open_database};
use crate::local_view::LocalView;
use crate::slow_reads::SlowReads;
use crate::{Answer, Batch, Engine, EngineView, LogPosition, StorageError};

const CACHE_BYTES: u64 = 64 * 1024 * 1024;
const TABLES_OPEN_MAX: usize = 64;

/// Findings other than the rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InspectionReport {
    /// A write that the next start would cut off: it was never acknowledged.
    pub torn: Option<TornWrite>,
    /// Files in which earlier starts kept the bytes that they cut off.
    pub torn_files: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornWrite {
    pub journal: PathBuf,
    pub at: u64,
    pub size_bytes: u64,
}

pub(crate) struct Inspection {
    // In this order: the scratch directory is removed when nothing in it is open any more.
    rows: Keyspace,
    database: Database,
    _scratch: Scratch,
    _lock: Option<File>,
}

impl Inspection {
    pub fn open(directory: &Path, scratch: &Path) -> Result<(Inspection, InspectionReport), StorageError> {
        find_complete(directory)?;
        let lock = lock_for_looking(directory)?;
        let database = directory.join(DATABASE);
        let files = files::check(&database)?;
        let records = Records::read(directory)?;
        let journals = journal::inspect(&database, &[])?;
        let torn = journal::judge(&journals, &records, Tolerance::LastBatch)?;
        let torn = torn.map(|(journal, torn)| TornWrite {
            journal: journal.to_owned(),
            at: torn.at,
            size_bytes: torn.bytes.len() as u64,
        });
        let report = InspectionReport { torn, torn_files: journal::count_torn_files(&database)? };
        let scratch = Scratch::new(scratch)?;
        let copied = copy(&database, &files, &journals, &scratch.0);
        copied.map_err(|error| {
            StorageError::io(format!(
                "a copy of the journals cannot be made in '{}': {error}",
                scratch.0.display()
            ))
        })?;
        let (database, rows) = open_database(&scratch.0, (CACHE_BYTES, TABLES_OPEN_MAX), Purpose::Inspect)?;
        Ok((Inspection { rows, database, _scratch: scratch, _lock: lock }, report))
    }
}

fn copy(database: &Path, files: &Files, journals: &[Inspected], to: &Path) -> io::Result<()> {
    let database = database.canonicalize()?;
    copy_journals(journals, &LogPosition::default(), to)?;
    copy_files(&database, files, to, |from, to| symlink(from, to))
}

/// A directory of this process, removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(parent: &Path) -> Result<Scratch, StorageError> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("{SCRATCH}{}-{number}", std::process::id()));
            // Journals hold clients' data, and the system's directory for temporary files is open
            // to every user.
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Scratch(path)),
                // Left by a killed process of this number, or in use by one in another container.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    let path = path.display();
                    return Err(StorageError::io(format!(
                        "the scratch directory '{path}' cannot be made: {error}"
                    )));
                }
            }
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, directory = %self.0.display(), "the scratch directory stays");
        }
    }
}

fn read_only<T>() -> Answer<'static, T> {
    Answer::Now(Err(StorageError::io("this shard is open for reading only")))
}

impl Engine for Inspection {
    fn apply(&self, _batches: Vec<Batch>) -> Answer<'_, ()> {
        read_only()
    }

    fn sync(&self) -> Answer<'_, ()> {
        read_only()
    }

    fn view(&self) -> Box<dyn EngineView> {
        let pace = Arc::new(SlowReads::new(Duration::MAX));
        Box::new(LocalView::new(self.database.snapshot(), self.rows.clone(), pace))
    }

    fn flush(&self) -> Answer<'_, ()> {
        Answer::Now(Ok(()))
    }

    fn close(&self) -> Answer<'_, ()> {
        Answer::Now(Ok(()))
    }

    fn disk_bytes(&self) -> u64 {
        self.database.disk_space().unwrap_or(0)
    }
}
