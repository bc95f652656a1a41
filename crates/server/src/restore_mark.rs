//! Marks of restores in a data directory.
//!
//! | file | meaning |
//! |---|---|
//! | `RESTORING` | a restore is not complete. It is the first file there and is removed when everything else is on stable storage; until then servers and commands refuse the directory |
//! | `RESTORED` | no server has served the restored account yet. The first one notes it in the catalog, and removes the file |

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::private_file::{self, Secrecy};

const NAME: &str = "RESTORING";
pub const RESTORED: &str = "RESTORED";

fn path(data_dir: &Path) -> PathBuf {
    data_dir.join(NAME)
}

/// Refuses a data directory of which a part may be missing.
pub fn check_is_complete(data_dir: &Path) -> Result<(), String> {
    match fs::symlink_metadata(path(data_dir)) {
        Ok(_) => Err(format!(
            "'{}' is a restore that was cut off, of which something is missing: remove the directory, and restore the backup again",
            data_dir.display()
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(format!("'{}' cannot be read: {error}", path(data_dir).display())),
    }
}

/// The name of the restore in progress; `None` where there is none.
pub fn read(data_dir: &Path) -> Result<Option<String>, String> {
    match fs::read_to_string(path(data_dir)) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(format!("'{}' cannot be read: {error}", path(data_dir).display())),
    }
}

/// Records the name of the restore in progress.
pub fn set(data_dir: &Path, what: &str) -> io::Result<()> {
    private_file::write(&path(data_dir), format!("{what}\n").as_bytes(), Secrecy::Public)
}

/// Everything is there, and on stable storage.
pub fn clear(data_dir: &Path) -> io::Result<()> {
    fs::remove_file(path(data_dir))?;
    fs::File::open(data_dir)?.sync_all()
}

/// The account is a backup's, of whose later changes other places may know.
pub fn set_restored(data_dir: &Path) -> io::Result<()> {
    private_file::write(&data_dir.join(RESTORED), b"\n", Secrecy::Public)
}

pub fn is_restored(data_dir: &Path) -> bool {
    data_dir.join(RESTORED).exists()
}

pub fn clear_restored(data_dir: &Path) -> io::Result<()> {
    fs::remove_file(data_dir.join(RESTORED))?;
    fs::File::open(data_dir)?.sync_all()
}
