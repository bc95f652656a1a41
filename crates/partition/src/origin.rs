//! Identity of a partition in replies and ordinals.

use shardlake_model::{PartitionUid, ReplyMeta};

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
