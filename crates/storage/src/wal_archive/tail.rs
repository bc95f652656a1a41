//! Reader of the journals of a shard that may be in use: the journals at the time of a look, up to
//! the last batch that is whole.
//!
//! A batch that is being written has no right checksum yet, so that reading ends before it and goes
//! on there at the next look. A journal with a newer one behind it is not written to any more. The
//! links of the archived log are read as well as the journals themselves, so that no journal is
//! missed that is sorted and deleted between two looks.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::journals::KEPT;
use crate::StorageError;
use crate::directory::DATABASE;
use crate::journal::journals;

pub struct JournalTail {
    shard: PathBuf,
    /// The journal that is read, or was read last, and where to continue in it.
    number: u64,
    offset: u64,
}

impl JournalTail {
    pub(crate) fn new(shard: &Path, number: Option<u64>) -> Result<JournalTail, StorageError> {
        let mut tail = JournalTail { shard: shard.to_owned(), number: number.unwrap_or(0), offset: 0 };
        if number.is_none() {
            tail.number = tail.look()?.last().copied().unwrap_or(0);
        }
        Ok(tail)
    }

    pub(crate) fn place(&self) -> u64 {
        self.number
    }

    /// The journals in which there may be more, oldest first.
    pub(crate) fn look(&self) -> Result<Vec<u64>, StorageError> {
        let listed = || -> io::Result<Vec<u64>> {
            let mut found = BTreeMap::new();
            for folder in [KEPT, DATABASE] {
                let folder = self.shard.join(folder);
                if folder.is_dir() {
                    found.extend(journals(&folder)?);
                }
            }
            Ok(found.into_keys().filter(|number| *number >= self.number).collect())
        };
        listed().map_err(|error| self.unreadable(&error))
    }

    /// The unread rest of a journal; `None` where the journal is deleted, which is seen as a hole
    /// if it is one.
    pub(crate) async fn read(&mut self, journal: u64) -> Result<Option<Bytes>, StorageError> {
        if journal != self.number {
            (self.number, self.offset) = (journal, 0);
        }
        let (shard, offset) = (self.shard.clone(), self.offset);
        let read = tokio::task::spawn_blocking(move || {
            // The link first: it was made before the journal was deleted.
            match read_from(&shard.join(KEPT).join(format!("{journal}.jnl")), offset) {
                Ok(None) => read_from(&shard.join(DATABASE).join(format!("{journal}.jnl")), offset),
                read => read,
            }
        });
        read.await.map_err(StorageError::io)?.map_err(|error| self.unreadable(&error))
    }

    /// Moves the place behind so many bytes of good batches.
    pub(crate) fn advance(&mut self, bytes: u64) {
        self.offset += bytes;
    }

    fn unreadable(&self, error: &io::Error) -> StorageError {
        StorageError::io(format!("the log of '{}' cannot be read: {error}", self.shard.display()))
    }
}

fn read_from(path: &Path, offset: u64) -> io::Result<Option<Bytes>> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    file.seek(SeekFrom::Start(offset))?;
    let mut content = Vec::new();
    file.read_to_end(&mut content)?;
    // Preallocated space ahead of the end.
    let used = content.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    content.truncate(used);
    Ok(Some(content.into()))
}
