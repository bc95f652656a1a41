//! Looks whether all files of a database are there and sound in form, before fjall opens it.
//!
//! fjall 3.1.13 repairs by deleting (read in its source): a keyspace that its catalog, keyspace 0,
//! cannot name is removed with all its tables, so is one without `current`, and tables that a
//! version does not name; where keyspace 0 has no `current` it is made anew, and where there is no
//! `version` or no journal, these are. A lost or zeroed file of 25 bytes thus became an empty
//! database, and all other content was deleted. A damaged version file made it panic under a lock
//! that its destructor takes, which ends the process. So nothing is opened here before everything
//! that a complete database consists of was found:
//!
//! | file | required content |
//! |---|---|
//! | `version` | `FJL` `3` |
//! | `N.jnl` | one or more; numbers without a gap |
//! | `keyspaces/0`, `keyspaces/1` | fjall's catalog, and the rows; there are no others |
//! | `current` | number of a version `u64`, XXH3-128 of its file, `0`; little-endian as everything here |
//! | `vN` | that file: sections, their table, and a trailer of 38 bytes |
//! | `tables/N` | every table that the version names |
//!
//! The section `tables` of a version: levels `u8`, each: runs `u8`, each: tables `u32`, each:
//! number `u64`, kind of checksum `u8`, checksum `u128`, sequence number `u64`. The content of
//! tables has checksums that fjall checks when it reads.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use shardlake_stdx::codec::Reader;
use xxhash_rust::xxh3::xxh3_128;

use crate::StorageError;
use crate::journal;

/// fjall's catalog and the rows.
pub(crate) const KEYSPACES: [&str; 2] = ["0", "1"];
const DATABASE_VERSION: &[u8] = b"FJL\x03";
const TRAILER_BYTES: usize = 38;
const TABLE_BYTES: usize = 33;

/// A complete database.
#[derive(Debug)]
pub(crate) struct Files {
    pub keyspaces: Vec<KeyspaceFiles>,
}

#[derive(Debug)]
pub(crate) struct KeyspaceFiles {
    /// Below the database.
    pub folder: PathBuf,
    pub version: String,
    pub tables: Vec<Table>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Table {
    pub number: u64,
    /// XXH3-128 of the whole file.
    pub checksum: u128,
}

/// Changes nothing.
pub(crate) fn check(database: &Path) -> Result<Files, StorageError> {
    let version = read(&database.join("version"))?;
    if version != DATABASE_VERSION {
        return Err(damaged(&database.join("version"), "is damaged"));
    }
    journal::check_numbers(database)?;
    for (name, path) in entries(&database.join("keyspaces"))? {
        if path.is_dir() && !KEYSPACES.contains(&name.as_str()) {
            return Err(damaged(&path, "is no part of this database"));
        }
    }
    let keyspaces: Vec<_> =
        KEYSPACES.iter().map(|name| check_keyspace(database, name)).collect::<Result<_, _>>()?;
    // Without the name of keyspace 1 in it, fjall would remove the rows.
    if keyspaces[0].tables.is_empty() {
        return Err(damaged(&database.join(&keyspaces[0].folder), "names no tables"));
    }
    Ok(Files { keyspaces })
}

/// fjall does not open a database without the file that it locks, in which there is nothing. We lock a file of our own.
pub(crate) fn restore_lock(database: &Path) -> Result<(), StorageError> {
    let path = database.join("lock");
    let file = OpenOptions::new().create(true).append(true).open(&path);
    file.map(drop).map_err(|error| StorageError::io(format!("'{}' cannot be made: {error}", path.display())))
}

fn check_keyspace(database: &Path, name: &str) -> Result<KeyspaceFiles, StorageError> {
    let folder = Path::new("keyspaces").join(name);
    let path = database.join(&folder);
    let current = read(&path.join("current"))?;
    let form = (current.first_chunk::<8>(), current.get(8..24), current.get(24..));
    let (Some(number), Some(checksum), Some([0])) = form else {
        return Err(damaged(&path.join("current"), "is damaged"));
    };
    let version = format!("v{}", u64::from_le_bytes(*number));
    let content = read(&path.join(&version))?;
    if xxh3_128(&content).to_le_bytes() != checksum {
        return Err(damaged(&path.join(&version), "is damaged, or 'current' beside it is"));
    }
    let tables = tables_of(&content).ok_or_else(|| damaged(&path.join(&version), "has an unknown form"))?;
    for table in &tables {
        let table = path.join("tables").join(table.number.to_string());
        match fs::metadata(&table) {
            Ok(found) if found.is_file() && found.len() > 0 => {}
            Ok(_) => return Err(damaged(&table, "is empty")),
            Err(error) => return Err(unreadable(&table, &error)),
        }
    }
    for (name, path) in entries(&path.join("tables"))? {
        if name.parse::<u64>().is_err() || path.is_dir() {
            return Err(damaged(&path, "is no part of this database"));
        }
    }
    Ok(KeyspaceFiles { folder, version, tables })
}

/// All tables; `None` when it is not the content of a version.
fn tables_of(version: &[u8]) -> Option<Vec<Table>> {
    let mut trailer = Reader::new(version.get(version.len().checked_sub(TRAILER_BYTES)?..)?);
    let (b"SFA!\x01\x00", _checksum) = (trailer.take(6)?, trailer.take(16)?) else { return None };
    let mut contents = Reader::new(version.get(usize::try_from(trailer.le::<u64>()?).ok()?..)?);
    let b"TOC!" = contents.take(4)? else { return None };
    for _ in 0..contents.le::<u32>()? {
        let (at, length, name) = (contents.le::<u64>()?, contents.le::<u64>()?, contents.le::<u16>()?);
        if contents.take(usize::from(name))? == b"tables" {
            let (at, length) = (usize::try_from(at).ok()?, usize::try_from(length).ok()?);
            return read_tables(&mut Reader::new(version.get(at..at.checked_add(length)?)?));
        }
    }
    None
}

fn read_tables(reader: &mut Reader<'_>) -> Option<Vec<Table>> {
    let mut tables = Vec::new();
    for _level in 0..reader.byte()? {
        for _run in 0..reader.byte()? {
            let count = reader.le::<u32>()? as usize;
            tables.extend(reader.list(count, TABLE_BYTES, |reader| {
                let (number, _kind) = (reader.le()?, reader.byte()?);
                let (checksum, _sequence) = (reader.le()?, reader.le::<u64>()?);
                Some(Table { number, checksum })
            })?);
        }
    }
    Some(tables)
}

fn read(path: &Path) -> Result<Vec<u8>, StorageError> {
    fs::read(path).map_err(|error| unreadable(path, &error))
}

fn entries(path: &Path) -> Result<Vec<(String, PathBuf)>, StorageError> {
    let failed = |error: io::Error| unreadable(path, &error);
    let mut found = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        found.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
    }
    Ok(found)
}

fn unreadable(path: &Path, error: &io::Error) -> StorageError {
    match error.kind() {
        io::ErrorKind::NotFound => damaged(path, "is missing"),
        _ => StorageError::io(format!("'{}' cannot be read: {error}", path.display())),
    }
}

fn damaged(path: &Path, what: &str) -> StorageError {
    StorageError::Corrupt { what: format!("'{}' {what}", path.display()).into() }
}
