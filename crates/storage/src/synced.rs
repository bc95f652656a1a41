//! How far the journals are on stable storage, in the file `SYNCED` of a shard's directory.
//!
//! Each batch of a journal proves that those before it were synced. Nothing in the journal proves
//! that of the last batch: damage in it looks like a write that a crash tore. So after each sync,
//! before any writer is answered, its place is written to a file next to the journals:
//!
//! ```text
//! byte    0   journal u64 │ bytes u64 │ XXH3-64 of both u64        a slot; little-endian
//! byte  512   the same                                             the other slot, in another sector
//! ```
//!
//! | order | effect |
//! |---|---|
//! | the journal is synced up to 4711 | |
//! | a slot gets 4711 | no sync: the operating system writes it out in its own time |
//! | writers are answered | |
//!
//! A place is recorded after the sync that it is about, so that a record is true whenever it is
//! read, and an older one as well: the greater of the two slots counts. The slots alternate, so
//! that a power cut which tears one leaves the other. A slot with another checksum counts as empty.
//!
//! The record costs one write of 24 bytes into a page that is in memory already; it costs no sync. The process may be killed at any
//! time: all that was answered is recorded. A power cut may lose the records of the seconds before it, up to the time for
//! which the operating system keeps written pages (30 seconds by default): damage in the last batch is then known only
//! as far as an older record or a later batch proves it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use xxhash_rust::xxh3::xxh3_64;

use crate::StorageError;

const NAME: &str = "SYNCED";
const SLOTS: [u64; 2] = [0, 512];
const SLOT_BYTES: usize = 24;
const FILE_BYTES: u64 = 1024;

/// A place in the journals before which everything is on stable storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Synced {
    pub journal: u64,
    pub bytes: u64,
}

/// Writer of the record while the shard is open.
pub(crate) struct SyncedRecord {
    /// `None` where it cannot be written.
    file: Option<File>,
    records: AtomicU64,
}

impl SyncedRecord {
    /// Makes the file where there is none. A full disk keeps no shard from opening.
    pub fn open(directory: &Path) -> SyncedRecord {
        let file = make(directory).inspect_err(|error| unrecorded(directory, error)).ok();
        SyncedRecord { file, records: AtomicU64::new(0) }
    }

    /// Called after the sync, and before anything that rests on it is acknowledged.
    pub fn record(&self, synced: Synced) {
        let Some(file) = &self.file else { return };
        let slot = SLOTS[(self.records.fetch_add(1, Ordering::Relaxed) % 2) as usize];
        if let Err(error) = file.write_all_at(&synced.encode(), slot) {
            // An older record stays true.
            tracing::debug!(%error, "the synced place of a journal is not recorded");
        }
    }
}

impl Synced {
    /// The greatest place that is recorded; `None` where nothing is.
    pub fn read(directory: &Path) -> Result<Option<Synced>, StorageError> {
        let path = directory.join(NAME);
        let content = match std::fs::read(&path) {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(StorageError::io(format!("'{}' cannot be read: {error}", path.display())));
            }
        };
        let slot = |at: u64| content.get(at as usize..).and_then(Synced::decode);
        Ok(SLOTS.into_iter().filter_map(slot).max())
    }

    fn encode(self) -> [u8; SLOT_BYTES] {
        let mut slot = [0; SLOT_BYTES];
        slot[..8].copy_from_slice(&self.journal.to_le_bytes());
        slot[8..16].copy_from_slice(&self.bytes.to_le_bytes());
        let checksum = xxh3_64(&slot[..16]);
        slot[16..].copy_from_slice(&checksum.to_le_bytes());
        slot
    }

    fn decode(slot: &[u8]) -> Option<Synced> {
        let (journal, rest) = slot.split_first_chunk()?;
        let (bytes, _checksum) = rest.split_first_chunk()?;
        let synced = Synced { journal: u64::from_le_bytes(*journal), bytes: u64::from_le_bytes(*bytes) };
        (slot.get(..SLOT_BYTES)? == synced.encode()).then_some(synced)
    }
}

fn make(directory: &Path) -> io::Result<File> {
    let path = directory.join(NAME);
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path)?;
    if file.metadata()?.len() != FILE_BYTES {
        // Written and not only lengthened: later records need no new blocks.
        file.set_len(0)?;
        file.write_all_at(&[0; FILE_BYTES as usize], 0)?;
        file.sync_all()?;
        File::open(directory)?.sync_all()?;
    }
    Ok(file)
}

fn unrecorded(directory: &Path, error: &io::Error) {
    tracing::warn!(%error, directory = %directory.display(), "the synced places of the journals cannot be recorded");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(journal: u64, bytes: u64) -> Synced {
        Synced { journal, bytes }
    }

    #[test]
    fn greatest_recorded_place_is_read_and_damage_leaves_the_one_before() {
        let directory = tempfile::tempdir().expect("a directory");
        let read = || Synced::read(directory.path()).expect("readable");
        assert_eq!(read(), None);
        let record = SyncedRecord::open(directory.path());
        assert_eq!(read(), None, "nothing is recorded yet");
        let places = [at(0, 100), at(0, 900), at(1, 50), at(1, 60)];
        for place in places {
            record.record(place);
            assert_eq!(read(), Some(place));
        }
        // Opened again, nothing is lost; and a lower place takes nothing back while the greater one is there.
        let record = SyncedRecord::open(directory.path());
        assert_eq!(read(), Some(at(1, 60)));
        record.record(at(1, 0));
        assert_eq!(read(), Some(at(1, 60)));
        record.record(at(1, 70));

        let path = directory.path().join(NAME);
        let content = std::fs::read(&path).expect("there");
        for byte in SLOTS[1] as usize..SLOTS[1] as usize + SLOT_BYTES {
            let mut damaged = content.clone();
            damaged[byte] ^= 1;
            std::fs::write(&path, &damaged).expect("written");
            assert_eq!(read(), Some(at(1, 0)), "byte {byte}");
        }
        for length in [0, 7, SLOT_BYTES, SLOTS[1] as usize + SLOT_BYTES - 1] {
            std::fs::write(&path, &content[..length]).expect("written");
            assert!(read().is_none_or(|read| read == at(1, 0)), "{length} bytes");
        }
    }
}
