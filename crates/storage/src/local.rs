//! The engine on a local disk: one fjall database, one keyspace, our own grouping of writes.
//!
//! Facts about fjall 3.1 that this file rests on (read in its source):
//! - a batch gives all its writes one sequence number, so two writes of one key in a batch would be ambiguous: they are
//!   reduced to the last one here;
//! - a batch is one checksummed journal entry; recovery drops a torn one whole, and everything after it;
//! - `persist` holds the journal's lock for the length of the sync, so only the committer's thread may write;
//! - nothing is flushed on drop: without [`Engine::close`] the next start replays the journal.
//!
//! `clear`, keyspace deletion and ingestion are not used. The directory carries a file with our own format number.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use fjall::config::{BlockSizePolicy, CompressionPolicy};
use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable};
use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use rustc_hash::FxHashMap;

use crate::scan::collect_chunk;
use crate::{Batch, Engine, EngineSnapshot, Op, Row, ScanOptions, StorageError};

const FORMAT: &str = "shardlake shard 1";
const FORMAT_FILE: &str = "FORMAT";
const DATABASE: &str = "db";

pub(crate) struct LocalEngine {
    database: Database,
    rows: Keyspace,
}

pub(crate) struct LocalOptions {
    pub directory: PathBuf,
    pub cache_bytes: u64,
    pub memtable_bytes: u64,
}

impl LocalEngine {
    pub fn open(options: &LocalOptions) -> Result<LocalEngine, StorageError> {
        fs::create_dir_all(&options.directory).map_err(|error| {
            StorageError::io(format!(
                "the directory '{}' cannot be created: {error}",
                options.directory.display()
            ))
        })?;
        check_format(&options.directory)?;
        let database = Database::builder(options.directory.join(DATABASE))
            .cache_size(options.cache_bytes)
            .manual_journal_persist(true)
            .max_journaling_size(256 * 1024 * 1024)
            .worker_threads(2)
            .open()
            .map_err(|error| match error {
                fjall::Error::Locked => StorageError::Locked { directory: options.directory.clone() },
                other => other.into(),
            })?;
        let rows = database.keyspace("rows", || {
            KeyspaceCreateOptions::default()
                .manual_journal_persist(true)
                .max_memtable_size(options.memtable_bytes)
                .data_block_size_policy(BlockSizePolicy::all(8 * 1024))
                .data_block_compression_policy(CompressionPolicy::new([
                    CompressionType::None,
                    CompressionType::None,
                    CompressionType::Lz4,
                ]))
        })?;
        Ok(LocalEngine { database, rows })
    }

    fn write(&self, batches: Vec<Batch>) -> Result<(), StorageError> {
        let ops = batches.into_iter().flat_map(Batch::into_ops);
        let mut latest: FxHashMap<Bytes, Option<Bytes>> = FxHashMap::default();
        for op in ops {
            match op {
                Op::Put { key, value } => latest.insert(key, Some(value)),
                Op::Delete { key } => latest.insert(key, None),
            };
        }
        let mut batch = self.database.batch();
        for (key, value) in latest {
            match value {
                Some(value) => batch.insert(&self.rows, key, value),
                None => batch.remove(&self.rows, key),
            }
        }
        batch.commit().map_err(StorageError::from)
    }

    fn flush(&self) -> Result<(), StorageError> {
        self.database.persist(PersistMode::SyncAll)?;
        self.rows.rotate_memtable_and_wait()?;
        Ok(())
    }
}

/// Refuses a directory that another version of the program has written; marks a new one.
fn check_format(directory: &Path) -> Result<(), StorageError> {
    let file = directory.join(FORMAT_FILE);
    match fs::read_to_string(&file) {
        Ok(found) if found.trim() == FORMAT => Ok(()),
        Ok(found) => Err(StorageError::Format {
            directory: directory.to_owned(),
            found: format!("'{}'", found.trim()),
            expected: format!("'{FORMAT}'"),
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !directory.join(DATABASE).exists() => {
            let write = || -> io::Result<()> {
                fs::write(&file, FORMAT)?;
                fs::File::open(&file)?.sync_all()?;
                fs::File::open(directory)?.sync_all()
            };
            write()
                .map_err(|error| StorageError::io(format!("'{}' cannot be written: {error}", file.display())))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(StorageError::Format {
            directory: directory.to_owned(),
            found: "no format file".into(),
            expected: format!("'{FORMAT}'"),
        }),
        Err(error) => Err(StorageError::io(format!("'{}' cannot be read: {error}", file.display()))),
    }
}

impl Engine for LocalEngine {
    fn apply(&self, batches: Vec<Batch>) -> BoxFuture<'_, Result<(), StorageError>> {
        ready(self.write(batches)).boxed()
    }

    fn sync(&self) -> BoxFuture<'_, Result<(), StorageError>> {
        ready(self.database.persist(PersistMode::SyncData).map_err(StorageError::from)).boxed()
    }

    fn get(&self, key: &[u8]) -> BoxFuture<'static, Result<Option<Bytes>, StorageError>> {
        let value = self.rows.get(key).map(|value| value.map(Bytes::from)).map_err(StorageError::from);
        ready(value).boxed()
    }

    fn snapshot(&self) -> Box<dyn EngineSnapshot> {
        Box::new(LocalSnapshot { snapshot: self.database.snapshot(), rows: self.rows.clone() })
    }

    fn close(&self) -> BoxFuture<'_, Result<(), StorageError>> {
        async move {
            self.flush()?;
            // Sealing leaves an empty journal only once the worker has dropped the flushed ones.
            for _ in 0..100 {
                if self.database.outstanding_flushes() == 0 {
                    break;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            Ok(())
        }
        .boxed()
    }

    fn disk_bytes(&self) -> u64 {
        self.database.disk_space().unwrap_or(0)
    }
}

struct LocalSnapshot {
    snapshot: fjall::Snapshot,
    rows: Keyspace,
}

impl EngineSnapshot for LocalSnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StorageError> {
        Ok(self.snapshot.get(&self.rows, key)?.map(Bytes::from))
    }

    fn chunk(&self, start: &[u8], end: &[u8], options: ScanOptions) -> Result<Vec<Row>, StorageError> {
        let row = |guard: fjall::Guard| {
            let (key, value) = guard.into_inner()?;
            Ok((Bytes::from(key), Bytes::from(value)))
        };
        let rows = self.snapshot.range(&self.rows, start..end);
        if options.reverse {
            collect_chunk(rows.rev().map(row), options)
        } else {
            collect_chunk(rows.map(row), options)
        }
    }
}
