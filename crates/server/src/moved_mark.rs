//! `MOVED` in a data directory: the new place of its account. Servers refuse to serve the old place.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use crate::private_file::{self, Secrecy};

const NAME: &str = "MOVED";

/// Where the account was moved to.
pub fn read(data_dir: &Path) -> Result<Option<String>, String> {
    let path = data_dir.join(NAME);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(format!("'{}' cannot be read: {error}", path.display())),
    }
}

/// Refuses a data directory whose account was moved.
pub fn check_is_here(data_dir: &Path) -> Result<(), String> {
    match read(data_dir)? {
        Some(to) => Err(format!(
            "the account of the data directory '{}' was moved to {to}: serve it there; to go back, remove the file '{NAME}'",
            data_dir.display()
        )),
        None => Ok(()),
    }
}

/// Records the place where the account was moved to.
#[cfg_attr(not(feature = "object-storage"), allow(dead_code))]
pub fn set(data_dir: &Path, to: &str) -> io::Result<()> {
    private_file::write(&data_dir.join(NAME), format!("{to}\n").as_bytes(), Secrecy::Public)
}
