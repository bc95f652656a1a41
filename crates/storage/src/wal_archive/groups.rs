//! Content of an archived log: groups of writes, each with its stamp.

use bytes::Bytes;

use super::Stamp;
use crate::{Op, StorageError, journal};

/// Bytes of a batch's start in a journal, and of a write in it.
const START_BYTES: usize = 13;
const END_BYTES: usize = 13;
const HEAD_BYTES: usize = 21;

/// Writes that took effect together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    pub ops: Vec<Op>,
    /// `None` for a group that was written while no log was kept.
    pub stamp: Option<Stamp>,
}

impl Group {
    pub fn new(ops: Vec<Op>, key: &[u8]) -> Result<Group, StorageError> {
        let stamp = ops.iter().rev().find_map(|op| match op {
            Op::Put { key: found, value } if *found == key => Some(Stamp::decode(value)),
            _ => None,
        });
        Ok(Group { ops, stamp: stamp.transpose()? })
    }
}

/// The groups of one of fjall's journals, up to the end of its last good batch.
pub(crate) fn of_journal(content: Bytes, key: &[u8]) -> JournalGroups<'_> {
    JournalGroups { left: content, key }
}

pub(crate) struct JournalGroups<'k> {
    left: Bytes,
    key: &'k [u8],
}

impl JournalGroups<'_> {
    /// How many bytes are not read.
    pub fn left(&self) -> usize {
        self.left.len()
    }
}

impl Iterator for JournalGroups<'_> {
    type Item = Result<Group, StorageError>;

    fn next(&mut self) -> Option<Self::Item> {
        let size_bytes = journal::first_batch_bytes(&self.left)?;
        let batch = self.left.split_to(size_bytes);
        Some(writes(&batch).and_then(|ops| Group::new(ops, self.key)))
    }
}

/// Writes of a batch whose checksum is right: `journal.rs` has its layout.
fn writes(batch: &Bytes) -> Result<Vec<Op>, StorageError> {
    let mut entries = Entries { batch, at: START_BYTES };
    let mut ops = Vec::new();
    while entries.at + END_BYTES < batch.len() {
        ops.push(entries.next().ok_or_else(|| StorageError::Corrupt {
            what: "a batch of the log holds something else than writes".into(),
        })?);
    }
    Ok(ops)
}

struct Entries<'a> {
    batch: &'a Bytes,
    at: usize,
}

impl Entries<'_> {
    /// `None` where it is no write, or a compressed one.
    fn next(&mut self) -> Option<Op> {
        let head = self.take(HEAD_BYTES)?;
        let length = |at: usize| Some(u32::from_le_bytes(head.get(at..at + 4)?.try_into().ok()?) as usize);
        let [2, kind, 0, ..] = head[..] else { return None };
        let (plain, stored) = (length(13)?, length(17)?);
        let key = self.take(usize::from(u16::from_le_bytes([head[11], head[12]])))?;
        let value = self.take(stored)?;
        match kind {
            0 if plain == stored => Some(Op::Put { key, value }),
            1 if stored == 0 => Some(Op::Delete { key }),
            _ => None,
        }
    }

    fn take(&mut self, length: usize) -> Option<Bytes> {
        let end = self.at.checked_add(length).filter(|end| *end <= self.batch.len())?;
        let taken = self.batch.slice(self.at..end);
        self.at = end;
        Some(taken)
    }
}
