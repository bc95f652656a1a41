//! Syncs the tables that a load writes while they grow.
//!
//! fjall 3.1.13 syncs a table when it is complete, which for the last one of an ingestion is under
//! the lock of the journal (read in its source): writers wait while tens of megabytes are written
//! to the disk. Bytes that were synced before need not be written then. fjall names a table by a
//! number that goes up, so the new ones are those above all that there were; a table that a merge
//! writes at the same time is synced along, which it is at its end anyway.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::sync_channel;

use fjall::Keyspace;

use crate::StorageError;

pub(crate) struct IncrementalSync {
    folder: PathBuf,
    /// Tables above this number may not be synced.
    above: u64,
}

impl IncrementalSync {
    /// Begins for a load that begins now.
    pub fn of(rows: &Keyspace) -> Result<IncrementalSync, StorageError> {
        let tables = IncrementalSync { folder: rows.path().join("tables"), above: 0 };
        let above = tables.numbers()?.into_iter().max().unwrap_or(0);
        Ok(IncrementalSync { above, ..tables })
    }

    /// Has a thread sync the tables now and again while they are written: `write` gets a callback
    /// that reports their growth. When this returns, all bytes that reached the operating system
    /// are on stable storage.
    pub fn synced_while(
        &self,
        write: impl FnOnce(&(dyn Fn() + Sync)) -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        let panicked = |_| Err(StorageError::io("a thread panicked that syncs tables"));
        std::thread::scope(|scope| {
            let (tell, told) = sync_channel::<()>(1);
            let syncing = scope.spawn(move || told.iter().try_for_each(|()| self.sync()));
            // A full channel is no error: a sync that is requested but has not begun covers everything
            // written before it begins.
            let written = write(&|| {
                let _is_asked_for = tell.try_send(());
            });
            drop(tell);
            let synced = syncing.join().unwrap_or_else(panicked);
            written.and(synced)
        })?;
        self.sync()
    }

    fn sync(&self) -> Result<(), StorageError> {
        for number in self.numbers()?.into_iter().filter(|number| *number > self.above) {
            match File::open(self.folder.join(number.to_string())) {
                Ok(table) => table.sync_data().map_err(StorageError::io)?,
                // A merge has taken it in.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(StorageError::io(error)),
            }
        }
        Ok(())
    }

    fn numbers(&self) -> Result<Vec<u64>, StorageError> {
        let mut numbers = Vec::new();
        for entry in std::fs::read_dir(&self.folder).map_err(StorageError::io)? {
            let name = entry.map_err(StorageError::io)?.file_name();
            numbers.extend(name.to_str().and_then(|name| name.parse::<u64>().ok()));
        }
        Ok(numbers)
    }
}
