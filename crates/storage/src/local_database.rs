//! Opening the fjall database of the local engine.

use std::io;
use std::path::Path;

use fjall::config::{BlockSizePolicy, CompressionPolicy, TableCut};
use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, LsmError};

use crate::StorageError;
use crate::key_kinds::{KEY_KINDS, UID_BYTES};

/// Memtables never grow to fjall's own limit: `local.rs` gives the reason.
const ENGINE_MEMTABLE_BYTES_MAX: u64 = 512 * 1024 * 1024;
/// Merges begin a new table behind a partition that has so much in the one before, so that dropping it is dropping tables.
const OWN_TABLE_BYTES: u64 = 1024 * 1024;
/// The one keyspace.
const ROWS: &str = "rows";
const JOURNAL_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Reason for opening a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Create,
    Serve,
    /// Nothing is sorted, so that nothing is written.
    Inspect,
}

/// A database and the rows in it.
pub(crate) fn open_database(
    path: &Path,
    (cache_bytes, tables_open_max): (u64, usize),
    purpose: Purpose,
) -> Result<(Database, Keyspace), StorageError> {
    let workers = if purpose == Purpose::Inspect { 0 } else { 1 };
    let database = Database::builder(path)
        .cache_size(cache_bytes)
        .max_cached_files(Some(tables_open_max))
        .manual_journal_persist(true)
        .journal_compression(CompressionType::None)
        .max_journaling_size(JOURNAL_BYTES_MAX)
        .table_cut(Some(TableCut { prefix_len: UID_BYTES, bytes_min: OWN_TABLE_BYTES }))
        .key_kinds(KEY_KINDS)
        .worker_threads_unchecked(workers)
        .open()
        .map_err(|error| not_opened(path, error))?;
    if purpose != Purpose::Create && !database.keyspace_exists(ROWS) {
        let what = format!("the database '{}' has lost its rows", path.display());
        return Err(StorageError::Corrupt { what: what.into() });
    }
    let rows = database.keyspace(ROWS, keyspace_options).map_err(|error| not_opened(path, error))?;
    Ok((database, rows))
}

/// Classifies an error of fjall on opening: it is damage, unless it comes from the system.
fn not_opened(path: &Path, error: fjall::Error) -> StorageError {
    let what = |error: String| format!("the database '{}' cannot be opened: {error}", path.display());
    match error {
        fjall::Error::Locked => StorageError::Locked { directory: path.to_owned() },
        fjall::Error::Io(error) => StorageError::io(what(error.to_string())),
        // An operator must not restore a backup over good data because the disk is full.
        fjall::Error::Storage(LsmError::Io(error)) if !is_of_content(&error) => {
            StorageError::io(what(error.to_string()))
        }
        other => StorageError::Corrupt { what: what(other.to_string()).into() },
    }
}

/// Whether a failed read is about the content of the files, and not about the disk or the system.
fn is_of_content(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, NotFound, Other, UnexpectedEof};
    matches!(error.kind(), InvalidData | InvalidInput | NotFound | Other | UnexpectedEof)
}

fn keyspace_options() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .manual_journal_persist(true)
        .max_memtable_size(ENGINE_MEMTABLE_BYTES_MAX)
        .data_block_size_policy(BlockSizePolicy::all(8 * 1024))
        .data_block_compression_policy(CompressionPolicy::new([
            CompressionType::None,
            CompressionType::None,
            CompressionType::Lz4,
        ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_not_told_as_damage() {
        let told = |error: io::Error| not_opened(Path::new("db"), fjall::Error::Storage(LsmError::Io(error)));
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let full_with_its_path =
            io::Error::new(io::ErrorKind::StorageFull, "keyspaces/0/.tmp: no space left");
        // 5 is EIO, which has no kind.
        for system in [full, full_with_its_path, io::Error::from_raw_os_error(5)] {
            let error = told(system);
            assert!(matches!(&error, StorageError::Io { .. }), "{error}");
        }
        for damage in [io::ErrorKind::UnexpectedEof, io::ErrorKind::InvalidData, io::ErrorKind::NotFound] {
            let error = told(damage.into());
            assert!(matches!(&error, StorageError::Corrupt { .. }), "{error}");
        }
    }
}
