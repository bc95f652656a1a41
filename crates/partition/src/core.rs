//! Core of a partition: the state that its commits and its reads share.
//!
//! The modules of this crate take a `&Core` and are free functions, or small structs of their own. So none
//! of them knows [`crate::Partition`], which stands above all of them and hands its methods on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use shardlake_model::{PartitionUid, ReplyMeta, Result};
use shardlake_routing::KeyRange;
use shardlake_stdx::CommitTimes;
use shardlake_storage::{Durability, Seq, Shard};
use tokio::sync::Mutex;

use crate::acknowledged::Acknowledged;
use crate::due::Expiry;
use crate::end::{End, Life};
use crate::invariants::KeyBounds;
use crate::log::holds::Holds;
use crate::open_transactions::Transactions;
use crate::origin::Origin;
use crate::sequencer::{Sequencer, SequencerLock};
use crate::versions::KeptPast;

#[derive(Debug)]
pub(crate) struct Core {
    pub uid: PartitionUid,
    pub range_id: u32,
    pub epk_range: KeyRange,
    pub key_bounds: KeyBounds,
    /// High bits of the ordinals that this partition hands out.
    pub rid_prefix: u32,
    pub session_version: i64,
    pub shard: Shard,
    /// Where commits take their times from.
    pub times: CommitTimes,
    pub sequencer: SequencerLock,
    pub life: Arc<Life>,
    pub acknowledged: Acknowledged,
    /// The time of the last commit that was queued; zero where nothing was ever written.
    pub last_ms: AtomicU64,
    /// Logical partitions and rows that open transactions hold.
    pub transactions: Transactions,
    pub expiry: Expiry,
    /// How far back history is retained.
    pub past: KeptPast,
    /// How far the followers of the log are.
    pub holds: Holds,
    /// Held while the sizes of all logical partitions are read.
    pub size_walk: Mutex<()>,
    /// Generations of the index below this are being dropped: their remaining rows must not be
    /// read.
    pub oldest_index: AtomicU32,
}

impl Core {
    pub fn shard(&self) -> &Shard {
        &self.shard
    }

    pub fn origin(&self) -> Origin {
        let Core { uid, rid_prefix, range_id, session_version, .. } = *self;
        Origin { uid, rid_prefix, range_id, session_version }
    }

    /// Highest LSN known to be acknowledged; replies and session tokens carry it.
    pub fn durable_lsn(&self) -> u64 {
        if self.acknowledged.is_behind() {
            self.follow_shard();
        }
        self.acknowledged.lsn()
    }

    /// Acknowledged items.
    pub fn items(&self) -> u64 {
        self.follow_shard();
        self.acknowledged.items()
    }

    pub fn size_bytes(&self) -> u64 {
        self.follow_shard();
        self.acknowledged.size_bytes()
    }

    /// How many items of the usual size are so many bytes; at least one.
    pub fn usual_items_in(&self, size_bytes: u64) -> usize {
        usual_items_in(size_bytes, (self.items(), self.size_bytes()))
    }

    /// Counts the commits that the shard has acknowledged, also where the writer ended before the
    /// acknowledgement.
    fn follow_shard(&self) {
        let acknowledged = match self.shard.durability() {
            Durability::Sync | Durability::Memory => self.shard.durable(),
            Durability::Async => self.shard.applied(),
        };
        self.acknowledged.follow(acknowledged);
    }

    /// Whether a generation of the index is whole; asked after a snapshot was taken, it holds for that snapshot.
    pub fn has_index(&self, id: u16) -> bool {
        u32::from(id) >= self.oldest_index.load(Ordering::Acquire)
    }

    /// Closes the partition for a caller that holds the sequencer.
    pub fn end_with(&self, end: End) {
        self.life.end(end);
    }

    /// Nothing may be written any more: the partition's data is being dropped.
    pub fn is_closed(&self) -> bool {
        self.life.is_over()
    }

    /// Refuses requests once the partition has ended. A read from before this check still counts:
    /// the items change elsewhere only after the partition has ended.
    pub fn check_open(&self) -> Result<()> {
        self.life.check()
    }

    pub fn meta(&self, charge_centi: u64, item_lsn: u64) -> ReplyMeta {
        let mut meta = self.origin().meta(charge_centi, item_lsn);
        self.tell_lsn(&mut meta);
        meta
    }

    /// Sets the partition's LSN.
    pub fn tell_lsn(&self, meta: &mut ReplyMeta) {
        meta.lsn = self.durable_lsn().max(meta.item_lsn);
    }

    /// The last commit that a plan made now may rest on.
    pub fn last_queued(&self, sequencer: &Sequencer) -> Seq {
        sequencer.pending.last_seq().unwrap_or_else(|| self.shard.applied())
    }

    /// Waits until the shard shows every commit that is queued now. Later commits may show as well.
    pub async fn settle(&self) -> Result<()> {
        let last = self.last_queued(&*self.sequencer.hold().await);
        self.wait_for(last).await
    }

    /// Waits until a commit, and all before it, may be acknowledged.
    pub async fn wait_for(&self, seq: Seq) -> Result<()> {
        // With asynchronous durability readers see a commit before it counts as applied, and then it is as good as acknowledged. In memory
        // they see it behind that: a relocation that looked between the two would lose it.
        if self.shard.durability() == Durability::Async && seq <= self.shard.applied() {
            return Ok(());
        }
        self.shard.wait_durable(seq).await.map_err(crate::storage_error)
    }

    /// A commit may be acknowledged.
    pub fn note_acknowledged(&self, lsn: u64) {
        self.acknowledged.note_lsn(lsn);
        self.follow_shard();
        self.life.followers.wake();
    }
}

/// How many items are so many bytes where so many items have so many; at least one.
pub(crate) fn usual_items_in(size_bytes: u64, (items, items_bytes): (u64, u64)) -> usize {
    let average = items_bytes / items.max(1);
    usize::try_from(size_bytes / average.max(1)).unwrap_or(usize::MAX).max(1)
}
