//! Identity of a partition in replies and ordinals.

use shardlake_model::{PartitionUid, ReplyMeta};
use shardlake_routing::KeyRange;

/// Identity of a partition in replies and ordinals.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    pub uid: PartitionUid,
    pub rid_prefix: u32,
    pub range_id: u32,
    pub session_version: i64,
}

impl Origin {
    /// Meta of a reply about the version that a commit wrote.
    pub fn meta(self, charge_centi: u64, lsn: u64) -> ReplyMeta {
        ReplyMeta {
            charge_centi,
            lsn,
            item_lsn: lsn,
            range_id: Some(self.range_id),
            session_version: self.session_version,
        }
    }
}

/// Properties that distinguish a partition from its siblings.
#[derive(Debug, Clone)]
pub struct PartitionIdentity {
    pub uid: PartitionUid,
    pub range_id: u32,
    pub epk_range: KeyRange,
    pub rid_prefix: u32,
    /// Prefixes of the partitions that this one was made of: items keep their ordinals.
    pub inherited_prefixes: Vec<u32>,
    /// See [`ReplyMeta::session_version`].
    pub session_version: i64,
}

impl PartitionIdentity {
    pub(crate) fn origin(&self) -> Origin {
        let PartitionIdentity { uid, rid_prefix, range_id, session_version, .. } = *self;
        Origin { uid, rid_prefix, range_id, session_version }
    }
}
