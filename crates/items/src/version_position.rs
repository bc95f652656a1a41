//! Position of a reader of all versions in a container, exact to the single change.
//!
//! A position of the change feed is an LSN for each part of the hash space, which holds across splits, merges
//! and moves. A reader of single changes may stop within a commit of several items. Changes of one commit are
//! read in the order of their hashes, and those of one hash in the order of the commit. Items of one hash are
//! never separated, so this order is the same for any set of partitions:
//!
//! ```text
//! commit 7:   3F/a  3F/b  3F/c  80/d        after 3F/b: below 3F up to 7; from 3F on up to 6, and of 7 the first 2 of 3F
//! ```

use shardlake_routing::Epk;

use crate::change_feed_position::FeedPosition;

/// More parts than a position may have.
const PARTS_MAX: usize = 4096;
/// Longer than any hash of a key.
const EPK_BYTES_MAX: usize = 255;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VersionPosition {
    pub feed: FeedPosition,
    pub inside: Option<InsideCommit>,
}

/// Position inside a commit: `done` changes of the hash `epk` were taken, and all changes of lower hashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InsideCommit {
    pub lsn: u64,
    pub epk: Epk,
    pub done: u32,
}

impl VersionPosition {
    pub fn encode(&self, out: &mut Vec<u8>) {
        let starts = self.feed.starts();
        write_number(out, starts.len() as u64);
        for (start, lsn) in starts {
            write_bytes(out, &start.0);
            write_number(out, *lsn);
        }
        match &self.inside {
            None => write_number(out, 0),
            Some(InsideCommit { lsn, epk, done }) => {
                write_number(out, u64::from(*done));
                write_number(out, *lsn);
                write_bytes(out, &epk.0);
            }
        }
    }

    /// Decodes a position from the front of bytes that a client may have made up.
    pub fn decode(bytes: &mut &[u8]) -> Option<VersionPosition> {
        let count = usize::try_from(read_number(bytes)?).ok().filter(|count| *count <= PARTS_MAX)?;
        let mut starts: Vec<(Epk, u64)> = Vec::new();
        for _ in 0..count {
            let start = Epk(read_bytes(bytes)?);
            if starts.last().is_some_and(|(last, _)| *last >= start) {
                return None;
            }
            starts.push((start, read_number(bytes)?));
        }
        let done = u32::try_from(read_number(bytes)?).ok()?;
        let inside = match done {
            0 => None,
            done => Some(InsideCommit { done, lsn: read_number(bytes)?, epk: Epk(read_bytes(bytes)?) }),
        };
        Some(VersionPosition { feed: FeedPosition::of_starts(starts), inside })
    }
}

/// Seven bits a byte, the lowest first.
pub fn write_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub fn read_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for place in 0..10 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7F);
        number |= bits.checked_shl(place * 7).filter(|shifted| shifted >> (place * 7) == bits)?;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    write_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn read_bytes(bytes: &mut &[u8]) -> Option<Vec<u8>> {
    let length = usize::try_from(read_number(bytes)?).ok().filter(|length| *length <= EPK_BYTES_MAX)?;
    let (head, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(head.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn positions_survive(
            starts in prop::collection::btree_map(prop::collection::vec(any::<u8>(), 0..20), any::<u64>(), 0..9),
            inside in prop::option::of((any::<u64>(), prop::collection::vec(any::<u8>(), 0..20), 1..u32::MAX)),
        ) {
            let starts = starts.into_iter().map(|(start, lsn)| (Epk(start), lsn)).collect();
            let inside = inside.map(|(lsn, epk, done)| InsideCommit { lsn, epk: Epk(epk), done });
            let position = VersionPosition { feed: FeedPosition::of_starts(starts), inside };
            let mut bytes = Vec::new();
            position.encode(&mut bytes);
            let mut rest = &bytes[..];
            prop_assert_eq!(VersionPosition::decode(&mut rest), Some(position));
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn any_bytes_are_a_position_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = VersionPosition::decode(&mut &bytes[..]);
        }
    }
}
