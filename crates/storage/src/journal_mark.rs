//! Record of a shard about its journals, in the file `JOURNALS` of its directory.
//!
//! Rot at the end of a journal looks like a write that a crash tore. Three facts help to
//! distinguish the two, and this file holds them: whether the shard was closed, so that no write
//! can be torn; how much of each journal was on stable storage when the shard was closed or last
//! opened; and whether every batch was synced before the next was written.
//!
//! ```text
//! shardlake journals 1
//! closed every-batch-synced        or: open, and: syncs-follow
//! 0 67108850 1200                  a journal, its bytes up to the end of the last batch, that batch's sequence number
//! 1 4711 1264
//! checksum 8f3a…                   XXH3-64 of the lines above
//! ```
//!
//! The file is replaced as a whole: with `open` before the first write can reach a journal, with
//! `closed` after the last. A full disk prevents no shard from opening: where the file cannot be
//! replaced it is removed. Shards of earlier versions have no such file either.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use crate::StorageError;

pub(crate) const NAME: &str = "JOURNALS";
const FORM: &str = "shardlake journals 1";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tolerance {
    /// Every batch was synced before the next was written: only the last one can be torn.
    LastBatch,
    /// Several unsynced batches: a power cut may leave a good one behind a torn one.
    AnyTail,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Nothing was written since the journals below were measured.
    pub is_closed: bool,
    /// How the tail that follows was written.
    pub tolerance: Tolerance,
    /// In the order of their numbers.
    pub journals: Vec<Known>,
}

/// A journal that has at least so much, on stable storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    pub number: u64,
    pub good_bytes: u64,
    pub last_sequence: u64,
}

/// A place in the journals where a batch ends.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogPosition(pub(crate) Vec<Known>);

impl LogPosition {
    /// Bytes of a journal before the place.
    pub(crate) fn bytes_before(&self, number: u64) -> u64 {
        self.0.iter().find(|known| known.number == number).map_or(0, |known| known.good_bytes)
    }
}

impl Mark {
    pub fn new(is_closed: bool, tolerance: Tolerance, journals: Vec<Known>) -> Mark {
        Mark { is_closed, tolerance, journals }
    }

    pub fn of(&self, number: u64) -> Option<Known> {
        self.journals.iter().copied().find(|known| known.number == number)
    }

    pub fn read(directory: &Path) -> Result<Option<Mark>, StorageError> {
        let path = directory.join(NAME);
        match fs::read(&path) {
            Ok(content) => match Mark::parse(&content) {
                Some(mark) => Ok(Some(mark)),
                None => Err(StorageError::Corrupt {
                    what: format!(
                        "'{}' is damaged; if nothing else is, the shard opens without that file",
                        path.display()
                    )
                    .into(),
                }),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StorageError::io(format!("'{}' cannot be read: {error}", path.display()))),
        }
    }

    /// Durably replaces the recorded mark; removes it where it cannot be written.
    pub fn replace(&self, directory: &Path) -> Result<(), StorageError> {
        let path = directory.join(NAME);
        let unfinished = directory.join("JOURNALS.new");
        let Err(error) = self.write(directory, &unfinished, &path) else { return Ok(()) };
        let _none_is_fine = fs::remove_file(&unfinished);
        tracing::warn!(%error, file = %path.display(), "what is known of the journals cannot be kept");
        let removed = match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(()) => File::open(directory).and_then(|directory| directory.sync_all()),
        };
        removed.map_err(|error| StorageError::io(format!("'{}' cannot be removed: {error}", path.display())))
    }

    fn write(&self, directory: &Path, unfinished: &Path, path: &Path) -> io::Result<()> {
        let mut file = File::create(unfinished)?;
        file.write_all(self.text().as_bytes())?;
        file.sync_all()?;
        fs::rename(unfinished, path)?;
        File::open(directory)?.sync_all()
    }

    pub fn text(&self) -> String {
        let state = if self.is_closed { "closed" } else { "open" };
        let tolerance = match self.tolerance {
            Tolerance::LastBatch => "every-batch-synced",
            Tolerance::AnyTail => "syncs-follow",
        };
        let mut text = format!("{FORM}\n{state} {tolerance}\n");
        for Known { number, good_bytes, last_sequence } in &self.journals {
            text += &format!("{number} {good_bytes} {last_sequence}\n");
        }
        let checksum = xxh3_64(text.as_bytes());
        text + &format!("checksum {checksum:016x}\n")
    }

    pub fn parse(content: &[u8]) -> Option<Mark> {
        let text = std::str::from_utf8(content).ok()?;
        let mut lines = text.lines().skip(1);
        let (state, tolerance) = lines.next()?.split_once(' ')?;
        let tolerance = match tolerance {
            "every-batch-synced" => Tolerance::LastBatch,
            "syncs-follow" => Tolerance::AnyTail,
            _ => return None,
        };
        let known = |line: &str| {
            let numbers: Vec<u64> = line.split(' ').map(|word| word.parse().ok()).collect::<Option<_>>()?;
            let [number, good_bytes, last_sequence] = numbers[..] else { return None };
            Some(Known { number, good_bytes, last_sequence })
        };
        let journals = lines.map_while(known).collect();
        let mark = Mark { is_closed: state == "closed", tolerance, journals };
        // There is one way to write each of them, checksum included.
        (mark.text() == text).then_some(mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_read_as_written_and_no_other_bytes_are() {
        let known = Known { number: 3, good_bytes: 4711, last_sequence: 12 };
        for (is_closed, tolerance, journals) in
            [(true, Tolerance::LastBatch, vec![known]), (false, Tolerance::AnyTail, vec![])]
        {
            let mark = Mark { is_closed, tolerance, journals };
            let text = mark.text().into_bytes();
            assert_eq!(Mark::parse(&text), Some(mark));
            for (at, bit) in (0..text.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
                let mut damaged = text.clone();
                damaged[at] ^= 1 << bit;
                assert_eq!(Mark::parse(&damaged), None, "bit {bit} of byte {at}");
            }
            for length in 0..text.len() {
                assert_eq!(Mark::parse(&text[..length]), None, "{length} bytes");
            }
        }
    }
}
