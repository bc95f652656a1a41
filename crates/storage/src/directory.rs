//! The directory of a local shard: who may use it, and which format it holds.
//!
//! | file | what it is |
//! |---|---|
//! | `LOCK` | locked by the process that has the shard open; the lock goes with the process |
//! | `FORMAT` | one line; written as "being created" first and as the format's name once the database exists |
//! | `db/` | the database |
//!
//! A process killed during creation leaves "being created": nothing was ever acknowledged from such a directory, so it
//! is created anew. A directory with data but without `FORMAT`, or with an unknown line in it, is never touched.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::StorageError;

const FORMAT: &str = "shardlake shard 1";
const CREATING: &str = "shardlake shard 1, being created";

#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    is_new: bool,
    _lock: File,
}

impl Directory {
    /// Takes the directory for this process, creating it when it does not exist.
    pub fn claim(path: &Path) -> Result<Directory, StorageError> {
        let failed = |error: io::Error| failure(path, "cannot be used", &error);
        fs::create_dir_all(path).map_err(|error| failure(path, "cannot be created", &error))?;
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(path.join("LOCK"));
        let lock = lock.map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StorageError::Locked { directory: path.to_owned() });
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let mut directory = Directory { path: path.to_owned(), is_new: false, _lock: lock };
        directory.is_new = directory.check_format()?;
        if directory.is_new {
            directory.write_format(CREATING).map_err(failed)?;
        }
        Ok(directory)
    }

    pub fn database(&self) -> PathBuf {
        self.path.join("db")
    }

    /// Notes that the database in the directory is complete.
    pub fn created(&mut self) -> Result<(), StorageError> {
        if std::mem::take(&mut self.is_new) {
            self.write_format(FORMAT).map_err(|error| failure(&self.path, "cannot be written", &error))?;
        }
        Ok(())
    }

    /// Whether the database is still to be created.
    fn check_format(&self) -> Result<bool, StorageError> {
        let unknown = |found: String| StorageError::Format {
            directory: self.path.clone(),
            found,
            expected: format!("'{FORMAT}'"),
        };
        match fs::read(self.path.join("FORMAT")) {
            Ok(found) => match String::from_utf8_lossy(&found).trim() {
                FORMAT => Ok(false),
                CREATING => self.discard_unfinished().map(|()| true),
                other => Err(unknown(format!("'{}'", other.escape_default()))),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if self.database().exists() {
                    Err(unknown("no FORMAT file".into()))
                } else {
                    Ok(true)
                }
            }
            Err(error) => Err(failure(&self.path, "cannot be read", &error)),
        }
    }

    fn discard_unfinished(&self) -> Result<(), StorageError> {
        match fs::remove_dir_all(self.database()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(failure(&self.path, "cannot be cleared of an unfinished creation", &error))
            }
            _ => Ok(()),
        }
    }

    /// Replaced by renaming, so that the line is never half written.
    fn write_format(&self, line: &str) -> io::Result<()> {
        let unfinished = self.path.join("FORMAT.new");
        let mut file = File::create(&unfinished)?;
        file.write_all(format!("{line}\n").as_bytes())?;
        file.sync_all()?;
        fs::rename(&unfinished, self.path.join("FORMAT"))?;
        File::open(&self.path)?.sync_all()
    }
}

fn failure(path: &Path, what: &str, error: &io::Error) -> StorageError {
    StorageError::io(format!("the directory '{}' {what}: {error}", path.display()))
}
