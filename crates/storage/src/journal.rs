//! Judges the end of fjall's journals before fjall replays them.
//!
//! A crash can tear the last write of a journal: it was not yet synced, so it was never
//! acknowledged, and it has to be removed. fjall 3.1.13 does less and more than that. It refuses to
//! open a journal whose last batch is complete in length but damaged inside, which a power cut can
//! leave, as pages reach a disk in any order. And wherever it meets something that is no journal
//! entry it cuts the journal off, even if good, acknowledged batches follow.
//!
//! So we walk the journals first. Bytes behind the last good batch are cut off when they can only
//! be a torn write: in the newest journal, with no good batch behind it, beyond the part known to
//! have been on stable storage (`journal_mark.rs`, `synced.rs`), and not after the shard was
//! closed. Anything else is damage: the shard refuses to open and leaves the files unchanged. The
//! bytes that were cut off are kept in a file next to the database. After a power cut, rot in the
//! last batch still looks like a torn write where its sync is not recorded.
//!
//! A journal is a sequence of batches, then zeros up to the preallocated length. Numbers are little-endian:
//!
//! | entry | bytes |
//! |---|---|
//! | start | `1`, entries that follow `u32`, sequence number `u64` |
//! | write | `2`, kind `u8`, compression `u8`, keyspace `u64`, key length `u16`, value length `u32`, stored length `u32`, key, stored value |
//! | clear | `4`, keyspace `u64` |
//! | end | `3`, XXH3 of all writes and clears of the batch `u64`, `FJL` `3` |

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::StorageError;
use crate::journal_mark::{Known, Mark, Tolerance};
use crate::synced::Synced;

/// The unit of `st_blocks` for every disk.
const BLOCK_BYTES: u64 = 512;
const BUFFER_BYTES: usize = 256 * 1024;

/// Bytes of a batch's start, of the part of a write before its key, and of a clear.
const START_BYTES: usize = 13;
const END_BYTES: usize = 13;
const WRITE_HEAD_BYTES: usize = 21;
const CLEAR_BYTES: usize = 9;

const _: () = assert!(START_BYTES == 1 + size_of::<u32>() + size_of::<u64>(), "a tag, a count, a number");
const _: () = assert!(CLEAR_BYTES == 1 + size_of::<u64>(), "a tag and a keyspace");

/// A journal that was walked to its end.
pub(crate) struct Inspected {
    pub path: PathBuf,
    pub known: Known,
    torn: Option<Torn>,
}

/// Each of them as far as its batches are good.
pub(crate) fn known(journals: &[Inspected]) -> Vec<Known> {
    journals.iter().map(|journal| journal.known).collect()
}

/// All journals, oldest first. Changes nothing. For the part that `known` covers, relies on the
/// recorded lengths.
pub(crate) fn inspect(database: &Path, known: &[Known]) -> Result<Vec<Inspected>, StorageError> {
    each(database, known, walk)
}

/// The journals of an open shard, without a check of the bytes behind the last good batch: at most
/// one batch that is being written.
pub(crate) fn measure(database: &Path, known: &[Known]) -> Result<Vec<Inspected>, StorageError> {
    each(database, known, |path, start| walk_batches(path, start).map(|(known, _)| (known, None)))
}

fn each(
    database: &Path,
    known: &[Known],
    walk: impl Fn(&Path, Known) -> io::Result<(Known, Option<Torn>)>,
) -> Result<Vec<Inspected>, StorageError> {
    let mut inspected = Vec::new();
    for (number, path) in journals(database).map_err(|error| unreadable(database, &error))? {
        let start = known.iter().copied().find(|known| known.number == number);
        let start = start.unwrap_or(Known { number, good_bytes: 0, last_sequence: 0 });
        match walk(&path, start) {
            Ok((known, torn)) => inspected.push(Inspected { path, known, torn }),
            // Sorted meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(unreadable(&path, &error)),
        }
    }
    Ok(inspected)
}

/// Records of a shard about its journals. A copy of a shard, or a shard of an early version, has
/// fewer.
#[derive(Debug, Default)]
pub(crate) struct Records {
    pub mark: Option<Mark>,
    pub synced: Option<Synced>,
}

impl Records {
    pub fn read(directory: &Path) -> Result<Records, StorageError> {
        Ok(Records { mark: Mark::read(directory)?, synced: Synced::read(directory)? })
    }

    /// The greatest number of a journal that was there.
    fn newest(&self) -> Option<u64> {
        let marked = self.mark.as_ref().and_then(|mark| mark.journals.last()).map(|known| known.number);
        marked.max(self.synced.map(|synced| synced.journal))
    }

    /// Bytes of a journal that are known to have been on stable storage.
    fn stable_bytes(&self, number: u64) -> u64 {
        let marked = self.mark.as_ref().and_then(|mark| mark.of(number)).map_or(0, |known| known.good_bytes);
        let synced = self.synced.filter(|synced| synced.journal == number).map_or(0, |synced| synced.bytes);
        marked.max(synced)
    }
}

/// The torn write at the end of the newest journal, if there is one; an error where something is amiss that no crash
/// leaves. `tolerance` is for a shard without a mark.
pub(crate) fn judge<'a>(
    journals: &'a [Inspected],
    records: &Records,
    tolerance: Tolerance,
) -> Result<Option<(&'a Path, &'a Torn)>, StorageError> {
    let newest = journals.last().map(|journal| journal.known.number);
    if let (Some(newest), Some(recorded)) = (newest, records.newest())
        && recorded > newest
    {
        return Err(damaged(format!("the journal '{recorded}.jnl' is missing")));
    }
    let mark = records.mark.as_ref();
    let tolerance = mark.map_or(tolerance, |mark| mark.tolerance);
    for journal in journals {
        let Known { number, good_bytes, .. } = journal.known;
        let path = journal.path.display();
        let stable_bytes = records.stable_bytes(number);
        if stable_bytes > good_bytes {
            return Err(damaged(format!(
                "the journal '{path}' is damaged at byte {good_bytes}, though {stable_bytes} bytes of it were on stable storage"
            )));
        }
        let Some(torn) = &journal.torn else { continue };
        // Good batches behind a closed end are from an earlier version, which leaves no marks.
        let is_closed = mark.is_some_and(|mark| mark.is_closed)
            && mark.and_then(|mark| mark.of(number)).is_some_and(|known| known.good_bytes == good_bytes);
        if is_closed {
            return Err(damaged(format!(
                "the journal '{path}' has something at byte {good_bytes}, though the shard was closed"
            )));
        }
        let is_unsynced = tolerance == Tolerance::AnyTail || !torn.is_followed_by_batch();
        if newest != Some(number) || !is_unsynced {
            return Err(damaged(format!(
                "the journal '{path}' is damaged at byte {good_bytes}, not at its end"
            )));
        }
    }
    Ok(journals.last().and_then(|journal| journal.torn.as_ref().map(|torn| (journal.path.as_path(), torn))))
}

/// Makes the inspected journals durable, before a mark records that they are.
pub(crate) fn sync(journals: &[Inspected]) -> Result<(), StorageError> {
    for journal in journals {
        let synced = File::open(&journal.path).and_then(|file| file.sync_all());
        synced.map_err(|error| unreadable(&journal.path, &error))?;
    }
    Ok(())
}

/// Refuses a database without journals, and one with a gap between them.
pub(crate) fn check_numbers(database: &Path) -> Result<(), StorageError> {
    let journals = match journals(database) {
        Ok(journals) => journals,
        Err(error) => return Err(unreadable(database, &error)),
    };
    let Some((first, _)) = journals.first() else {
        return Err(damaged(format!("there is no journal in '{}'", database.display())));
    };
    for ((number, path), expected) in journals.iter().zip(*first..) {
        if *number != expected {
            return Err(damaged(format!(
                "the journal '{}' is missing",
                database.join(format!("{expected}.jnl")).display()
            )));
        }
        if !path.is_file() {
            return Err(damaged(format!("'{}' is no journal", path.display())));
        }
    }
    Ok(())
}

/// Files that hold the bytes cut off journals at earlier starts.
pub(crate) fn count_torn_files(database: &Path) -> Result<u64, StorageError> {
    let names = fs::read_dir(database).map_err(|error| unreadable(database, &error))?;
    let is_torn = |name: &std::ffi::OsStr| name.to_string_lossy().contains(".torn-at-");
    Ok(names.flatten().filter(|entry| is_torn(&entry.file_name())).count() as u64)
}

fn damaged(what: String) -> StorageError {
    StorageError::Corrupt { what: what.into() }
}

fn unreadable(path: &Path, error: &io::Error) -> StorageError {
    StorageError::io(format!("the journal '{}' cannot be checked: {error}", path.display()))
}

/// Oldest first.
pub(crate) fn journals(database: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut journals = Vec::new();
    let entries = match fs::read_dir(database) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(journals),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        let number = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok());
        if let (Some(number), true) = (number, path.extension().is_some_and(|extension| extension == "jnl")) {
            journals.push((number, path));
        }
    }
    journals.sort_unstable();
    Ok(journals)
}

/// Bytes that the journals of a database take on the disk.
pub(crate) fn allocated_bytes(database: &Path) -> io::Result<u64> {
    let sizes = journals(database)?.into_iter().map(|(_, path)| match path.metadata() {
        // Sorted and deleted since it was listed.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        metadata => metadata.map(|metadata| metadata.blocks() * BLOCK_BYTES),
    });
    sizes.sum()
}

/// The bytes behind the last good batch of a journal.
pub(crate) struct Torn {
    pub at: u64,
    last_sequence: u64,
    /// Without the zeros at the end.
    pub bytes: Vec<u8>,
}

/// Walks the journal from a place where a batch ends, unless it is shorter.
fn walk(path: &Path, start: Known) -> io::Result<(Known, Option<Torn>)> {
    let (known, mut input) = walk_batches(path, start)?;
    input.seek(SeekFrom::Start(known.good_bytes))?;
    let bytes = read_without_padding(&mut input)?;
    let torn = Torn { at: known.good_bytes, last_sequence: known.last_sequence, bytes };
    Ok((known, (!torn.bytes.is_empty()).then_some(torn)))
}

fn walk_batches(path: &Path, start: Known) -> io::Result<(Known, BufReader<File>)> {
    let mut input = BufReader::with_capacity(BUFFER_BYTES, File::open(path)?);
    let mut known = start;
    input.seek(SeekFrom::Start(known.good_bytes))?;
    while let Some(batch) = read_batch(&mut input)? {
        known.good_bytes += batch.size_bytes;
        known.last_sequence = batch.sequence;
    }
    Ok((known, input))
}

impl Torn {
    /// Whether a good batch with a later number begins at any byte behind the first. A group of sixteen megabytes may be torn,
    /// and about every byte of it may look like the start of a batch. So the search follows lengths, which costs a few steps for
    /// nearly every start, and hashes only bytes that lie between a start and an end of a batch.
    fn is_followed_by_batch(&self) -> bool {
        let is_end = |bytes: &[u8]| matches!(bytes, [3, .., b'F', b'J', b'L', 3]);
        let Some(last_end) = self.bytes.windows(END_BYTES).rposition(is_end) else { return false };
        let bytes = &self.bytes[..last_end + END_BYTES];
        let starts = (1..bytes.len()).filter(|start| bytes[*start] == 1);
        starts
            .filter_map(|start| Framed::first_of(&bytes[start..]))
            .any(|framed| framed.sequence > self.last_sequence && xxh3_64(framed.hashed) == framed.checksum)
    }

    pub fn cut_off(&self, path: &Path) -> Result<(), StorageError> {
        self.cut(path).map_err(|error| unreadable(path, &error))
    }

    fn cut(&self, path: &Path) -> io::Result<()> {
        let size_bytes = self.bytes.len();
        tracing::warn!(journal = %path.display(), at = self.at, size_bytes, "cut a torn write off the journal");
        let kept = path.with_extension(format!("torn-at-{}", self.at));
        if let Err(error) = fs::write(&kept, &self.bytes) {
            // A full disk must not keep the shard from opening: the bytes were never acknowledged.
            tracing::warn!(%error, file = %kept.display(), "the torn write cannot be kept");
        }
        let journal = OpenOptions::new().write(true).open(path)?;
        journal.set_len(self.at)?;
        journal.sync_all()
    }
}

fn read_without_padding(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let (mut bytes, mut zeros) = (Vec::new(), 0);
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let length = input.read(&mut buffer)?;
        if length == 0 {
            return Ok(bytes);
        }
        // Zeros count only once something follows them: there may be 64 MB.
        let used = buffer[..length].iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        if used > 0 {
            bytes.resize(bytes.len() + zeros, 0);
            bytes.extend_from_slice(&buffer[..used]);
            zeros = 0;
        }
        zeros += length - used;
    }
}

/// How many bytes of a journal are batches.
pub(crate) fn good_bytes(path: &Path) -> io::Result<u64> {
    let start = Known { number: 0, good_bytes: 0, last_sequence: 0 };
    walk_batches(path, start).map(|(known, _)| known.good_bytes)
}

/// The length of the batch that a piece of a journal starts with.
pub(crate) fn first_batch_bytes(mut piece: &[u8]) -> Option<usize> {
    let batch = read_batch(&mut piece).ok().flatten()?;
    usize::try_from(batch.size_bytes).ok()
}

/// A batch by its lengths alone.
struct Framed<'a> {
    sequence: u64,
    /// All writes and clears.
    hashed: &'a [u8],
    checksum: u64,
}

impl<'a> Framed<'a> {
    /// `None` where the bytes do not start with a batch, or do not hold all of it.
    fn first_of(bytes: &'a [u8]) -> Option<Framed<'a>> {
        let (start, entries) = bytes.split_first_chunk::<START_BYTES>()?;
        let [1, c0, c1, c2, c3, sequence @ ..] = *start else { return None };
        let mut left = entries;
        for _ in 0..u32::from_le_bytes([c0, c1, c2, c3]) {
            let size_bytes = match left.first()? {
                2 => {
                    let length = |at: usize| left.get(at..at + 4)?.first_chunk().copied();
                    let key = left.get(11..13)?.first_chunk().copied().map(u16::from_le_bytes)?;
                    WRITE_HEAD_BYTES + usize::from(key) + u32::from_le_bytes(length(17)?) as usize
                }
                4 => CLEAR_BYTES,
                _ => return None,
            };
            left = left.get(size_bytes..)?;
        }
        let [3, checksum @ .., b'F', b'J', b'L', 3] = *left.first_chunk::<END_BYTES>()? else { return None };
        Some(Framed {
            sequence: u64::from_le_bytes(sequence),
            hashed: &entries[..entries.len() - left.len()],
            checksum: u64::from_le_bytes(checksum),
        })
    }
}

struct Batch {
    sequence: u64,
    size_bytes: u64,
}

/// The batch that the input starts with; `None` when it is anything but a complete and undamaged one.
fn read_batch(input: &mut impl Read) -> io::Result<Option<Batch>> {
    let mut entries = Entries { input, hash: Xxh3::new(), size_bytes: 0 };
    match entries.batch() {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        result => result,
    }
}

struct Entries<'a, R> {
    input: &'a mut R,
    hash: Xxh3,
    size_bytes: u64,
}

impl<R: Read> Entries<'_, R> {
    fn batch(&mut self) -> io::Result<Option<Batch>> {
        let [1, count @ .., s0, s1, s2, s3, s4, s5, s6, s7] = self.take::<13>()? else { return Ok(None) };
        let sequence = u64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7]);
        for _ in 0..u32::from_le_bytes(count) {
            if !self.entry()? {
                return Ok(None);
            }
        }
        let hash = self.hash.digest().to_le_bytes();
        let [3, found @ .., b'F', b'J', b'L', 3] = self.take::<13>()? else { return Ok(None) };
        Ok((found == hash).then_some(Batch { sequence, size_bytes: self.size_bytes }))
    }

    /// A write or a clear; false when it is neither.
    fn entry(&mut self) -> io::Result<bool> {
        let [tag] = self.take_hashed::<1>()?;
        match tag {
            2 => {
                let head = self.take_hashed::<20>()?;
                let key = u16::from_le_bytes([head[10], head[11]]);
                let value = u32::from_le_bytes([head[16], head[17], head[18], head[19]]);
                self.skip_hashed(u64::from(key) + u64::from(value))?;
                Ok(true)
            }
            4 => self.take_hashed::<8>().map(|_| true),
            _ => Ok(false),
        }
    }

    fn take<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.input.read_exact(&mut bytes)?;
        self.size_bytes += N as u64;
        Ok(bytes)
    }

    fn take_hashed<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let bytes = self.take()?;
        self.hash.update(&bytes);
        Ok(bytes)
    }

    /// Lengths of a damaged entry are anything: nothing is allocated by them.
    fn skip_hashed(&mut self, mut length: u64) -> io::Result<()> {
        let mut buffer = [0; 4096];
        while length > 0 {
            let part = &mut buffer[..length.min(4096) as usize];
            self.input.read_exact(part)?;
            self.hash.update(part);
            self.size_bytes += part.len() as u64;
            length -= part.len() as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEGABYTES: usize = 1 << 20;

    /// A batch of one write.
    fn batch(sequence: u64, value: &[u8]) -> Vec<u8> {
        let mut write = vec![2, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0];
        write.extend([(value.len() as u32).to_le_bytes(), (value.len() as u32).to_le_bytes()].concat());
        write.push(b'k');
        write.extend(value);
        let start = [&[1, 1, 0, 0, 0][..], &sequence.to_le_bytes()].concat();
        let end = [&[3][..], &xxh3_64(&write).to_le_bytes(), b"FJL\x03"].concat();
        [start, write, end].concat()
    }

    fn torn(bytes: Vec<u8>) -> Torn {
        Torn { at: 0, last_sequence: 7, bytes }
    }

    #[test]
    fn framed_batches_are_those_that_are_read() {
        let good = batch(8, b"value");
        let framed = Framed::first_of(&good).expect("a batch");
        assert_eq!((framed.sequence, xxh3_64(framed.hashed)), (8, framed.checksum));
        assert_eq!(first_batch_bytes(&good), Some(good.len()));
        for length in 0..good.len() {
            assert!(Framed::first_of(&good[..length]).is_none(), "{length} bytes");
        }
        for at in 0..good.len() {
            let mut damaged = good.clone();
            damaged[at] ^= 1;
            let is_good =
                Framed::first_of(&damaged).is_some_and(|framed| xxh3_64(framed.hashed) == framed.checksum);
            assert_eq!(is_good, first_batch_bytes(&damaged).is_some(), "byte {at}");
        }
    }

    #[test]
    fn good_batches_behind_a_torn_write_are_found_wherever_they_begin() {
        for before in 1..40 {
            let behind = |sequence| [vec![1; before], batch(sequence, b"value"), vec![9; 5]].concat();
            assert!(torn(behind(8)).is_followed_by_batch(), "behind {before} bytes");
            assert!(!torn(behind(7)).is_followed_by_batch(), "one of an earlier use of the file");
            let mut damaged = behind(8);
            damaged[before + 30] ^= 1;
            assert!(!torn(damaged).is_followed_by_batch(), "no good one");
        }
    }

    /// Hashing from each such start to the end would take minutes: two megabytes for each of half a million starts.
    #[test]
    fn a_large_torn_write_full_of_starts_is_searched_at_once() {
        // Bytes that look like a batch of a write with a long value, and then the end of a batch
        // that is none.
        let start = [1, 255, 255, 255, 255, 8, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 1];
        let long = [255, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 32, 0, 0, 0, 32];
        let mut bytes: Vec<u8> = start.iter().chain(&long).copied().cycle().take(4 * MEGABYTES).collect();
        bytes.extend(b"\x03checksumFJL\x03");
        assert!(!torn(bytes.clone()).is_followed_by_batch());
        bytes.extend(batch(8, b"value"));
        assert!(torn(bytes).is_followed_by_batch());
    }
}
