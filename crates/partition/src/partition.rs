//! One physical partition: the sequencer that orders its writes, and its reads.
//!
//! *Write* (`commit.rs`): take the sequencer → plan, without a wait → queue one batch with its log entry in the shard → release
//! the sequencer → wait for durability → reply. The sequencer is held neither across a sync nor across a read that has to
//! be waited for, so writers of one partition share group commits, and a slow store is slow for each of them at a time.
//!
//! *Read*: no lock and no wait. The shard shows acknowledged writes only, so that no reader learns
//! of a write that a crash could still undo. After a failed sync reads still show the writes that
//! were acknowledged before it.
//!
//! Lock order: the walk over sizes or the gate of a logical partition, then a permit for a large
//! commit, then the sequencer; there is no other lock. The holder of the sequencer waits for none
//! of the others. LSNs go up by exactly one per commit, for any number of operations.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures::future::{try_join, try_join4};
use shardlake_heat::Heat;
use shardlake_index::IndexLayout;
use shardlake_model::{PartitionKeyDefinition, Preconditions, ReplyMeta, Result};
use shardlake_routing::KeyRange;
use shardlake_routing::LogicalKey;
use shardlake_stdx::CommitTimes;
use shardlake_storage::{Durability, Found, PendingCommit, Seq, Shard};
use tokio::sync::Mutex;
use tracing::Instrument;

use crate::acknowledged::Acknowledged;
use crate::answers;
use crate::change_log::Counters;
use crate::changes;
use crate::end::{End, Life};
use crate::expire::Expiry;
use crate::feed::created;
use crate::index::Maintained;
use crate::interactive::{Claims, Gates};
use crate::item::StoredItem;
use crate::keys::{self, PartitionUid};
use crate::log_marks::LogMarks;
use crate::operation::{CommandContext, ItemReply};
use crate::origin::Origin;
use crate::sequencer::{Sequencer, SequencerLock};
use crate::shape::ContainerSchema;
use crate::sizes::{count, is_counted};
use crate::versions::KeptPast;

#[derive(Debug)]
pub struct Partition {
    pub uid: PartitionUid,
    pub range_id: u32,
    pub epk_range: KeyRange,
    /// High bits of the ordinals that this partition hands out.
    pub rid_prefix: u32,
    pub session_version: i64,
    shard: Shard,
    /// Where commits take their times from.
    pub(crate) times: CommitTimes,
    pub(crate) sequencer: SequencerLock,
    /// Logical partitions that transactions hold.
    pub(crate) gates: Arc<Gates>,
    /// Rows that open transactions have written.
    pub(crate) claims: Arc<Claims>,
    /// Held while the sizes of all logical partitions are read.
    pub(crate) size_walk: Mutex<()>,
    pub(crate) acknowledged: Acknowledged,
    /// The time of the last commit that was queued; zero where nothing was ever written.
    pub(crate) last_ms: AtomicU64,
    life: Arc<Life>,
    /// Generations of the index below this are being dropped: their remaining rows must not be
    /// read.
    oldest_index: AtomicU32,
    pub(crate) expiry: Expiry,
    /// How far back history is retained.
    pub(crate) past: KeptPast,
    /// Made when the first operation is counted.
    heat: OnceLock<Box<std::sync::Mutex<Heat>>>,
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

impl Partition {
    /// Opens a partition at the position in its last log entry.
    pub async fn open(
        (shard, times): (Shard, CommitTimes),
        identity: PartitionIdentity,
        layouts: Vec<Arc<IndexLayout>>,
    ) -> Result<Partition> {
        shard.reads_hot(keys::is_read_hot);
        shard.scans_hot(keys::family_length, created::layout_of);
        let (view, uid) = (shard.view(), identity.uid);
        let marks = async { view.get(&keys::log_marks_key(uid)).await.map_err(crate::storage_error) };
        let queued = async { view.get(&keys::expiry_mark_key(uid)).await.map_err(crate::storage_error) };
        let ((last, queued), (marks, is_created_kept), mut counted, is_counted) = try_join4(
            try_join(changes::last_entry(&view, uid), queued),
            try_join(marks, created::is_kept(&view, uid)),
            crate::index::load_counted(&view, uid),
            is_counted(&view, uid),
        )
        .await?;
        let (lsn, timestamp_ms, counters) = match last {
            Some((lsn, entry)) => (lsn, entry.timestamp_ms, entry.counters),
            None => (0, 0, Counters::default()),
        };
        let marks = marks.as_deref().map_or(Ok(LogMarks::default()), LogMarks::decode)?;
        if counters.items > 0 && !is_counted {
            count(&shard, uid).await?;
        }
        if lsn > 0 && !is_created_kept {
            created::build(&shard, uid).await?;
        }
        counted.retain(|counted| layouts.iter().any(|layout| layout.id == counted.index_id));
        let PartitionIdentity { range_id, epk_range, rid_prefix, session_version, .. } = identity;
        let life = Arc::new(Life::new(uid, range_id));
        Ok(Partition {
            uid,
            range_id,
            epk_range,
            rid_prefix,
            session_version,
            shard,
            times,
            sequencer: SequencerLock::new(
                Sequencer::new(lsn, timestamp_ms, counters, Maintained { layouts, counted }),
                life.clone(),
            ),
            gates: Arc::default(),
            claims: Arc::default(),
            size_walk: Mutex::new(()),
            life,
            oldest_index: AtomicU32::new(0),
            expiry: Expiry::of_partition(counters.items == 0, queued.is_some() || lsn == 0),
            heat: OnceLock::new(),
            past: KeptPast::new(marks),
            acknowledged: Acknowledged::new(lsn, counters),
            last_ms: AtomicU64::new(timestamp_ms),
        })
    }

    /// Highest LSN known to be acknowledged; replies and session tokens carry it.
    pub fn durable_lsn(&self) -> u64 {
        if self.acknowledged.is_behind() {
            self.follow_shard();
        }
        self.acknowledged.lsn()
    }

    /// The time of the last commit that was queued; zero where nothing was ever written.
    pub fn last_queued_ms(&self) -> u64 {
        self.last_ms.load(Ordering::Acquire)
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
    pub(crate) fn usual_items_in(&self, size_bytes: u64) -> usize {
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

    /// Heat of the partition; the guard must be dropped before any await. The definition of the
    /// container's key decides how hashes lie in the range.
    pub fn heat(&self, definition: &PartitionKeyDefinition) -> MutexGuard<'_, Heat> {
        let heat = self.heat.get_or_init(|| Box::new(Heat::new(definition, &self.epk_range).into()));
        // It holds only counts: a panic has at worst left one count too low.
        heat.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client asks for something: see [`Shard::note_client`].
    pub fn note_client(&self) {
        self.shard.note_client();
    }

    /// A client's write has taken so long: see [`Shard::note_write`].
    pub fn note_write(&self, latency: Duration) {
        self.shard.note_write(latency);
    }

    pub(crate) fn shard(&self) -> &Shard {
        &self.shard
    }

    /// Whether a generation of the index is whole; asked after a snapshot was taken, it holds for that snapshot.
    pub(crate) fn has_index(&self, id: u16) -> bool {
        u32::from(id) >= self.oldest_index.load(Ordering::Acquire)
    }

    /// From now on no query begins to read a generation below this one.
    pub fn retire_indexes_below(&self, id: u16) {
        self.oldest_index.fetch_max(u32::from(id), Ordering::AcqRel);
    }

    /// Waits until a commit above an LSN is durable, or the partition ends. A commit whose writer
    /// ended before the acknowledgement is noticed with the next one.
    pub async fn wait_for_change(&self, after: u64) {
        self.life.followers.wait_until(|| self.durable_lsn() > after || self.is_closed()).await;
    }

    /// Refuses everything from now on; called before the partition's data is dropped.
    pub async fn close(&self, end: End) {
        let _no_write_is_planned = self.sequencer.hold().await;
        self.end_with(end);
    }

    /// Closes the partition for a caller that holds the sequencer.
    pub(crate) fn end_with(&self, end: End) {
        self.life.end(end);
    }

    /// Nothing may be written any more: the partition's data is being dropped.
    pub(crate) fn is_closed(&self) -> bool {
        self.life.is_over()
    }

    /// Refuses requests once the partition has ended. A read from before this check still counts:
    /// the items change elsewhere only after the partition has ended.
    pub fn check_open(&self) -> Result<()> {
        self.life.check()
    }

    pub(crate) fn origin(&self) -> Origin {
        let Partition { uid, rid_prefix, range_id, session_version, .. } = *self;
        Origin { uid, rid_prefix, range_id, session_version }
    }

    pub fn meta(&self, charge_centi: u64, item_lsn: u64) -> ReplyMeta {
        let mut meta = self.origin().meta(charge_centi, item_lsn);
        self.tell_lsn(&mut meta);
        meta
    }

    /// Sets the partition's LSN.
    pub(crate) fn tell_lsn(&self, meta: &mut ReplyMeta) {
        meta.lsn = self.durable_lsn().max(meta.item_lsn);
    }

    /// Point read.
    #[tracing::instrument(name = "read", level = "debug", skip_all, fields(partition = self.uid.0))]
    pub async fn read(
        &self,
        shape: &Arc<ContainerSchema>,
        command: &CommandContext,
        logical: &LogicalKey,
        id: &str,
        preconditions: &Preconditions,
    ) -> Result<ItemReply> {
        let key = keys::item_key(self.uid, logical, id);
        let item = self.acknowledged_item(shape, &key).await?;
        self.check_open()?;
        let Some(item) = item.filter(|item| !item.is_expired(command.now.seconds())) else {
            return Err(answers::not_found().with_meta(self.meta(shape.charges.not_found().0, 0)));
        };
        let mut reply = answers::read_reply(self.origin(), shape, command, item, preconditions);
        match &mut reply {
            Ok(reply) => self.tell_lsn(&mut reply.meta),
            Err(error) => self.tell_lsn(error.meta_mut()),
        }
        reply
    }

    async fn acknowledged_item(
        &self,
        shape: &Arc<ContainerSchema>,
        key: &[u8],
    ) -> Result<Option<StoredItem>> {
        let found = self.shard.get_hot(key).await.map_err(crate::storage_error)?;
        let Some(Found { value, hot }) = found else { return Ok(None) };
        let item = StoredItem::decode(value, shape)?.kept_at(hot);
        // The task of its writer may not have been woken yet.
        if item.lsn() > self.acknowledged.lsn() {
            self.acknowledged.note_lsn(item.lsn());
        }
        Ok(Some(item))
    }

    /// The id of the item with an ordinal, if there is one in the logical partition.
    pub async fn id_of_ordinal(&self, logical: &LogicalKey, ordinal: u64) -> Result<Option<String>> {
        let key = keys::ordinal_key(self.uid, ordinal);
        let item_key = self.shard.get(&key).await.map_err(crate::storage_error)?;
        self.check_open()?;
        let Some(item_key) = item_key else { return Ok(None) };
        let (owner, id) = keys::parse_item_key(&item_key).ok_or_else(crate::malformed_key)?;
        Ok(owner.partition_key.same(&logical.partition_key).then(|| id.to_owned()))
    }

    /// Waits until the shard shows every commit that is queued now. Later commits may show as well.
    pub(crate) async fn settle(&self) -> Result<()> {
        let last = self.last_queued(&*self.sequencer.hold().await);
        self.wait_for(last).await
    }

    /// Waits until a commit, and all before it, may be acknowledged.
    pub(crate) async fn wait_for(&self, seq: Seq) -> Result<()> {
        // With asynchronous durability readers see a commit before it counts as applied, and then it is as good as acknowledged. In memory
        // they see it behind that: a relocation that looked between the two would lose it.
        if self.shard.durability() == Durability::Async && seq <= self.shard.applied() {
            return Ok(());
        }
        self.shard.wait_durable(seq).await.map_err(crate::storage_error)
    }

    /// Waits until a commit may be acknowledged.
    pub(crate) async fn acknowledge(&self, lsn: u64, commit: PendingCommit) -> Result<()> {
        let durable = tracing::debug_span!("durable", lsn);
        commit.instrument(durable).await.map_err(crate::storage_error)?;
        self.note_acknowledged(lsn);
        Ok(())
    }

    /// A commit may be acknowledged.
    pub(crate) fn note_acknowledged(&self, lsn: u64) {
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
