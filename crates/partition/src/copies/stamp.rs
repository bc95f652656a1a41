//! Version of a row of a copy: which version of which item it was made of.
//!
//! The stamp of a row is its etag, so that no stored format has a part for it, and a row that is made
//! again is identical to the byte.
//!
//! ```text
//! LSN of the item's version u64 | hash of its logical partition [u8; 4] | generation u16 | number u16
//! ```
//! LSNs of different logical partitions do not compare, since each may have been written in a partition
//! of its own. A row has its id from the key and the id of its item, so all its versions are of one
//! logical partition of the source. Its LSNs rise through splits, merges and moves: the partitions that
//! these make begin above the LSNs of the partitions that they were made of. A re-key changes that, and
//! gives the copy another generation.

use serde::{Deserialize, Serialize};
use shardlake_routing::LogicalKey;
use shardlake_stdx::Guid;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RowStamp {
    /// LSN of the version that the row was made of.
    pub lsn: u64,
    /// Start of the hash of that version's logical partition.
    pub source: [u8; 4],
    /// Rises with each layout of the source.
    pub generation: u16,
    /// Which of the item's rows it is.
    pub number: u16,
}

/// Two rows of one name are of different items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OtherSource;

impl RowStamp {
    /// The part of a stamp that locates the row's item in the source's hash space.
    pub fn source_of(logical: &LogicalKey) -> [u8; 4] {
        let mut source = [0; 4];
        source.iter_mut().zip(&logical.epk.0).for_each(|(to, byte)| *to = *byte);
        source
    }

    pub fn etag(self) -> Guid {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.lsn.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.source);
        bytes[12..14].copy_from_slice(&self.generation.to_be_bytes());
        bytes[14..].copy_from_slice(&self.number.to_be_bytes());
        Guid(bytes)
    }

    pub fn of_etag(etag: Guid) -> RowStamp {
        let bytes = etag.0;
        let pair = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let mut lsn = [0; 8];
        lsn.copy_from_slice(&bytes[..8]);
        RowStamp {
            lsn: u64::from_be_bytes(lsn),
            source: [bytes[8], bytes[9], bytes[10], bytes[11]],
            generation: pair(12),
            number: pair(14),
        }
    }

    /// The stamp that ends the row of the version before a commit, and no row of that commit.
    pub fn before(self) -> RowStamp {
        RowStamp { lsn: self.lsn.saturating_sub(1), ..self }
    }

    /// Whether a row with this stamp takes the place of a stored one.
    pub fn replaces(self, stored: RowStamp) -> Result<bool, OtherSource> {
        Ok(self.order(stored)?.is_gt())
    }

    /// Whether the end of a row, with this stamp, removes a stored one.
    pub fn ends(self, stored: RowStamp) -> Result<bool, OtherSource> {
        Ok(self.order(stored)?.is_ge())
    }

    fn order(self, stored: RowStamp) -> Result<std::cmp::Ordering, OtherSource> {
        if self.generation == stored.generation
            && (self.source, self.number) != (stored.source, stored.number)
        {
            return Err(OtherSource);
        }
        Ok((self.generation, self.lsn).cmp(&(stored.generation, stored.lsn)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stamp(lsn: u64, generation: u16) -> RowStamp {
        RowStamp { lsn, source: [1, 2, 3, 4], generation, number: 7 }
    }

    #[test]
    fn later_versions_replace_and_the_same_one_does_not() {
        assert_eq!(stamp(5, 0).replaces(stamp(4, 0)), Ok(true));
        assert_eq!(stamp(5, 0).replaces(stamp(5, 0)), Ok(false));
        assert_eq!(stamp(5, 0).replaces(stamp(6, 0)), Ok(false));
        assert_eq!(stamp(1, 1).replaces(stamp(6, 0)), Ok(true), "LSNs of a former layout are lower");
        assert_eq!(stamp(9, 0).replaces(stamp(1, 1)), Ok(false));
        assert_eq!(stamp(5, 0).ends(stamp(5, 0)), Ok(true));
        assert_eq!(stamp(5, 0).before().ends(stamp(5, 0)), Ok(false), "a row of the same commit stays");
        assert_eq!(stamp(5, 0).before().ends(stamp(4, 0)), Ok(true));
        assert_eq!(stamp(5, 0).ends(stamp(6, 0)), Ok(false));
    }

    #[test]
    fn rows_of_other_items_are_noticed() {
        let other = RowStamp { source: [9; 4], ..stamp(5, 0) };
        assert_eq!(stamp(6, 0).replaces(other), Err(OtherSource));
        assert_eq!(stamp(6, 0).ends(RowStamp { number: 8, ..stamp(5, 0) }), Err(OtherSource));
        assert_eq!(stamp(6, 1).replaces(other), Ok(true), "a re-key gives items other hashes");
    }

    proptest! {
        #[test]
        fn stamps_survive_as_etags(lsn in any::<u64>(), source in any::<[u8; 4]>(), rest in any::<(u16, u16)>()) {
            let stamp = RowStamp { lsn, source, generation: rest.0, number: rest.1 };
            prop_assert_eq!(RowStamp::of_etag(stamp.etag()), stamp);
        }
    }
}
