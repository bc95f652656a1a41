//! Directory of a local shard: the process that may use it, and the format that it holds.
//!
//! | file | content |
//! |---|---|
//! | `LOCK` | locked by the process that has the shard open; the lock ends with the process |
//! | `FORMAT` | one line; written as "being created" first and as the format's name once the database exists |
//! | `EPOCH` | the last owner's epoch: `epoch.rs` |
//! | `JOURNALS` | record of the database's journals: `journal_mark.rs` |
//! | `db/` | the database |
//! | `checkpoints/` | states of it by name: `checkpoint.rs` |
//!
//! A process killed during creation leaves "being created": nothing was ever acknowledged from such a directory, so it
//! is created anew. A directory with data but without `FORMAT`, or with an unknown line in it, is never touched. Nor is one
//! that is known to have had data and has none: its volume may not be mounted.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::StorageError;

/// Its number goes up with every change of stored bytes, of the partitions' too, that another version would misread.
const FORMAT: &str = "shardlake shard 2";
/// The database's directory.
pub(crate) const DATABASE: &str = "db";
const CREATING: &str = "shardlake shard 1, being created";

#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    is_new: bool,
    _lock: File,
}

impl Directory {
    /// Takes the directory for this process; when there is no shard in it, creates one unless it `must_exist`.
    pub fn claim(path: &Path, must_exist: bool) -> Result<Directory, StorageError> {
        if must_exist {
            // Nothing, not even the lock, is written where a volume is to be mounted.
            find_complete(path)?;
        }
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
            write_format(path, CREATING).map_err(failed)?;
        }
        Ok(directory)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn is_new(&self) -> bool {
        self.is_new
    }

    pub fn database(&self) -> PathBuf {
        self.path.join(DATABASE)
    }

    /// Notes that the database in the directory is complete.
    pub fn created(&mut self) -> Result<(), StorageError> {
        if std::mem::take(&mut self.is_new) {
            mark_complete(&self.path).map_err(|error| failure(&self.path, "cannot be written", &error))?;
        }
        Ok(())
    }

    /// Whether the database is still to be created.
    fn check_format(&self) -> Result<bool, StorageError> {
        match Found::look(&self.path)? {
            Found::Complete => Ok(false),
            Found::Unfinished => self.discard_unfinished().map(|()| true),
            Found::Nothing => Ok(true),
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
}

/// Notes that a directory holds a complete shard.
pub(crate) fn mark_complete(path: &Path) -> io::Result<()> {
    write_format(path, FORMAT)
}

/// Content of `FORMAT` of a complete shard.
pub(crate) fn complete_format() -> String {
    format!("{FORMAT}\n")
}

/// Replaced by renaming, so that the line is never half written.
fn write_format(path: &Path, line: &str) -> io::Result<()> {
    let unfinished = path.join("FORMAT.new");
    let mut file = File::create(&unfinished)?;
    file.write_all(format!("{line}\n").as_bytes())?;
    file.sync_all()?;
    fs::rename(&unfinished, path.join("FORMAT"))?;
    File::open(path)?.sync_all()
}

/// State of creation that a directory's `FORMAT` records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Nothing,
    Unfinished,
    Complete,
}

impl Found {
    fn look(path: &Path) -> Result<Found, StorageError> {
        let unknown = |found: String| StorageError::Format {
            directory: path.to_owned(),
            found,
            expected: format!("'{FORMAT}'"),
        };
        match fs::read(path.join("FORMAT")) {
            Ok(found) => match String::from_utf8_lossy(&found).trim() {
                FORMAT => Ok(Found::Complete),
                CREATING => Ok(Found::Unfinished),
                other => Err(unknown(format!("'{}'", other.escape_default()))),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if path.join(DATABASE).exists() {
                    Err(unknown("no FORMAT file".into()))
                } else {
                    Ok(Found::Nothing)
                }
            }
            Err(error) => Err(failure(path, "cannot be read", &error)),
        }
    }
}

/// An error unless a complete shard lies in the directory. Changes nothing.
pub(crate) fn find_complete(path: &Path) -> Result<(), StorageError> {
    match Found::look(path)? {
        Found::Complete => Ok(()),
        Found::Nothing | Found::Unfinished => Err(StorageError::Missing { directory: path.to_owned() }),
    }
}

/// Keeps servers out during an inspection. Writes nothing: a lock on a file that is open for
/// reading is enough.
pub(crate) fn lock_for_looking(path: &Path) -> Result<Option<File>, StorageError> {
    let file = match File::open(path.join("LOCK")) {
        Ok(file) => file,
        // A copy, which no server has had yet.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failure(path, "cannot be read", &error)),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Err(StorageError::Locked { directory: path.to_owned() }),
        Err(TryLockError::Error(error)) => Err(failure(path, "cannot be locked", &error)),
    }
}

fn failure(path: &Path, what: &str, error: &io::Error) -> StorageError {
    StorageError::io(format!("the directory '{}' {what}: {error}", path.display()))
}
