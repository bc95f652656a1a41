//! Writes zeros ahead of the end of fjall's newest journal, so that the sync of a small group finds its blocks in place.
//!
//! fjall gives a new journal its length and no blocks: every sync then waits for the blocks of the group and, after them, for
//! the file system's note of where they lie. Over blocks that were written before, it waits for the group alone.
//!
//! ```text
//! journal   batch │ batch │ batch │ zeros, written │ nothing yet …
//!                                  ▲ about used     ▲ ready_to
//! ```
//!
//! Zeros cannot change the content of a journal: they are written only where zeros were just read,
//! and only by the thread that writes the batches, between two of them. The place of the journal's
//! end is known about, from the sizes of the batches; where it is wrong, less room is made. Large
//! groups make none: their blocks are worth one wait, and writing all twice is not. A journal that
//! was there when the shard was opened has no length ahead of its end, and stays as it is.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::journal::journals;

/// Zeros that are written at once.
const STEP_BYTES: usize = 1024 * 1024;
/// Bytes of a step, read and written at once.
const PIECE_BYTES: usize = 32 * 1024;
/// Compared with as a whole, which takes a tenth of the time that looking at every byte does.
static ZEROS: [u8; PIECE_BYTES] = [0; PIECE_BYTES];
/// Zeros that are left when the next are written.
const LEFT_BYTES_MIN: u64 = 32 * 1024;
/// Larger groups make no room.
const GROUP_BYTES_MAX: u64 = 16 * 1024;
const BLOCK_BYTES: u64 = 4096;

pub(crate) struct JournalPreallocation {
    database: PathBuf,
    newest: Mutex<Newest>,
}

/// The newest journal, as far as known.
#[derive(Default)]
struct Newest {
    /// Not kept open: fjall deletes it one day.
    journal: Option<(u64, PathBuf)>,
    /// Bytes of batches in it; about, and rather too many.
    used: u64,
    ready_to: u64,
    /// Bytes written since the last check for the newest journal.
    used_since: u64,
}

impl JournalPreallocation {
    pub fn new(database: PathBuf) -> Self {
        JournalPreallocation { database, newest: Mutex::default() }
    }

    /// Makes room before a group of about so many bytes is written. Only for the thread that writes
    /// the group.
    pub fn make_for(&self, group_bytes: u64) {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        newest.used += group_bytes;
        newest.used_since += group_bytes;
        if group_bytes > GROUP_BYTES_MAX || newest.used + LEFT_BYTES_MIN < newest.ready_to {
            return;
        }
        let made = newest.look(&self.database).and_then(|()| newest.extend());
        if !made.as_ref().is_ok_and(|made| *made) {
            // Commits do without; a later one tries again.
            newest.ready_to = newest.used + LEFT_BYTES_MIN + STEP_BYTES as u64;
        }
        if let Err(error) = made {
            tracing::debug!(%error, "no room is made in the journal");
        }
    }
}

impl Newest {
    /// Finds out whether fjall has begun another journal.
    fn look(&mut self, database: &Path) -> io::Result<()> {
        let newest = journals(database)?.pop();
        let number = |journal: &Option<(u64, PathBuf)>| journal.as_ref().map(|(number, _)| *number);
        if number(&newest) != number(&self.journal) {
            (self.used, self.ready_to) = (self.used_since, 0);
            self.journal = newest;
        }
        self.used_since = 0;
        Ok(())
    }

    /// Writes the next zeros; false where there is no place for them.
    fn extend(&mut self) -> io::Result<bool> {
        let Some((_, path)) = &self.journal else { return Ok(false) };
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let start = self.ready_to.max(self.used.next_multiple_of(BLOCK_BYTES));
        let end = file.metadata()?.len().min(start + STEP_BYTES as u64);
        if start >= end {
            return Ok(false);
        }
        let mut piece = vec![0; PIECE_BYTES];
        for at in (start..end).step_by(PIECE_BYTES) {
            let piece = &mut piece[..(end - at).min(PIECE_BYTES as u64) as usize];
            file.read_exact_at(piece, at)?;
            if *piece != ZEROS[..piece.len()] {
                return Ok(false);
            }
            file.write_all_at(piece, at)?;
        }
        self.ready_to = end;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::MetadataExt;

    const LENGTH: u64 = 4 * 1024 * 1024;

    fn journal(directory: &Path, number: u64, content: &[u8]) -> PathBuf {
        let path = directory.join(format!("{number}.jnl"));
        let file = File::create_new(&path).expect("creates");
        file.set_len(LENGTH).expect("sets the length");
        file.write_all_at(content, 0).expect("writes");
        path
    }

    fn written_bytes(path: &Path) -> u64 {
        std::fs::metadata(path).expect("is there").blocks() * 512
    }

    #[test]
    fn blocks_are_written_ahead_of_small_groups_and_hold_zeros() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = journal(directory.path(), 7, b"a batch");
        let room = JournalPreallocation::new(directory.path().to_owned());
        let mut at = 4096;
        while at < LENGTH - STEP_BYTES as u64 {
            room.make_for(3000);
            at += 3000;
            File::open(&path).and_then(|file| file.sync_all()).expect("syncs");
            assert!(written_bytes(&path) > at, "{at} bytes are used");
        }
        for _ in 0..1000 {
            room.make_for(3000);
        }
        let content = std::fs::read(&path).expect("reads");
        assert_eq!(content.len() as u64, LENGTH, "the length stays");
        assert!(content.starts_with(b"a batch") && content[7..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn nothing_that_is_there_is_written_over() {
        let directory = tempfile::tempdir().expect("a directory");
        let content: Vec<u8> = (0..LENGTH as usize).map(|at| u8::from(at % 50_000 == 0)).collect();
        let path = journal(directory.path(), 1, &content);
        let room = JournalPreallocation::new(directory.path().to_owned());
        for _ in 0..3000 {
            room.make_for(2000);
        }
        assert!(std::fs::read(&path).expect("reads") == content);
    }

    #[test]
    fn another_journal_is_noticed_and_large_groups_make_no_room() {
        let directory = tempfile::tempdir().expect("a directory");
        let room = JournalPreallocation::new(directory.path().to_owned());
        room.make_for(100);
        let first = journal(directory.path(), 1, b"");
        room.make_for(GROUP_BYTES_MAX + 1);
        assert_eq!(written_bytes(&first), 0, "a large group");
        for _ in 0..800 {
            room.make_for(3000);
        }
        let used = written_bytes(&first);
        assert!(used >= STEP_BYTES as u64);
        let second = journal(directory.path(), 2, b"");
        for _ in 0..800 {
            room.make_for(3000);
        }
        assert!(written_bytes(&second) >= STEP_BYTES as u64, "the newer journal has room");
    }
}
