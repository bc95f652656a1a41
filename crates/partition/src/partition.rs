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
use shardlake_stdx::{CommitTimes, HybridTime};
use shardlake_storage::{Found, Shard};
use tokio::sync::Mutex;

use crate::acknowledged::Acknowledged;
use crate::answers;
use crate::changes::reader;
use crate::core::Core;
use crate::due::Expiry;
use crate::end::{End, Life};
use crate::feed::created;
use crate::index::Maintained;
use crate::invariants::{self, KeyBounds};
use crate::item::StoredItem;
use crate::keys::{self, PartitionUid};
use crate::log::entry::Counters;
use crate::log::holds::Holds;
use crate::log::marks::LogMarks;
use crate::open_transactions::Transactions;
use crate::operation::{CommandContext, ItemReply};
use crate::origin::PartitionIdentity;
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
    core: Arc<Core>,
    /// Made when the first operation is counted.
    heat: OnceLock<Box<std::sync::Mutex<Heat>>>,
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
            try_join(reader::last_entry(&view, uid), queued),
            try_join(marks, created::is_kept(&view, uid)),
            crate::index::load_counted(&view, uid),
            is_counted(&view, uid),
        )
        .await?;
        let (lsn, time, counters) = match last {
            Some((lsn, entry)) => (lsn, entry.time, entry.counters),
            None => (0, HybridTime::default(), Counters::default()),
        };
        if !times.observe(time) {
            tracing::warn!(
                partition = uid.0,
                last_commit_ms = time.milliseconds(),
                "the last commit is more than an hour ahead of the clock: check the clock"
            );
        }
        let marks = marks.as_deref().map_or(Ok(LogMarks::default()), LogMarks::decode)?;
        if let Err(reason) = invariants::opened(lsn, &counters, &marks) {
            tracing::error!(
                partition = uid.0,
                lsn,
                reason,
                "the stored state contradicts itself: run verify"
            );
        }
        if counters.items > 0 && !is_counted {
            count(&shard, uid).await?;
        }
        if lsn > 0 && !is_created_kept {
            created::build(&shard, uid).await?;
        }
        counted.retain(|counted| layouts.iter().any(|layout| layout.id == counted.index_id));
        let PartitionIdentity { range_id, epk_range, rid_prefix, session_version, .. } = identity;
        let life = Arc::new(Life::new(uid, range_id));
        let core = Arc::new(Core {
            uid,
            range_id,
            key_bounds: KeyBounds::of(&epk_range),
            epk_range: epk_range.clone(),
            rid_prefix,
            session_version,
            shard,
            times,
            sequencer: SequencerLock::new(
                Sequencer::new(lsn, time, counters, Maintained { layouts, counted }),
                life.clone(),
            ),
            transactions: Transactions::default(),
            size_walk: Mutex::new(()),
            life,
            oldest_index: AtomicU32::new(0),
            expiry: Expiry::of_partition(counters.items == 0, queued.is_some() || lsn == 0),
            past: KeptPast::new(marks),
            holds: Holds::default(),
            acknowledged: Acknowledged::new(lsn, counters),
            last_ms: AtomicU64::new(time.milliseconds()),
        });
        Ok(Partition { uid, range_id, epk_range, rid_prefix, session_version, core, heat: OnceLock::new() })
    }

    /// The state that the modules of this crate work on.
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Highest LSN known to be acknowledged; replies and session tokens carry it.
    pub fn durable_lsn(&self) -> u64 {
        self.core.durable_lsn()
    }

    /// The time of the last commit that was queued; zero where nothing was ever written.
    pub fn last_queued_ms(&self) -> u64 {
        self.core.last_ms.load(Ordering::Acquire)
    }

    /// Acknowledged items.
    pub fn items(&self) -> u64 {
        self.core.items()
    }

    pub fn size_bytes(&self) -> u64 {
        self.core.size_bytes()
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
        self.core.shard.note_client();
    }

    /// A client's write has taken so long: see [`Shard::note_write`].
    pub fn note_write(&self, latency: Duration) {
        self.core.shard.note_write(latency);
    }

    /// Waits until a commit above an LSN is durable, or the partition ends. A commit whose writer
    /// ended before the acknowledgement is noticed with the next one.
    pub async fn wait_for_change(&self, after: u64) {
        self.core.life.followers.wait_until(|| self.durable_lsn() > after || self.core.is_closed()).await;
    }

    /// Refuses everything from now on; called before the partition's data is dropped.
    pub async fn close(&self, end: End) {
        let _no_write_is_planned = self.core.sequencer.hold().await;
        self.core.end_with(end);
    }

    /// Refuses requests once the partition has ended. A read from before this check still counts:
    /// the items change elsewhere only after the partition has ended.
    pub fn check_open(&self) -> Result<()> {
        self.core.check_open()
    }

    pub fn meta(&self, charge_centi: u64, item_lsn: u64) -> ReplyMeta {
        self.core.meta(charge_centi, item_lsn)
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
        let mut reply = answers::read_reply(self.core.origin(), shape, command, item, preconditions);
        match &mut reply {
            Ok(reply) => self.core.tell_lsn(&mut reply.meta),
            Err(error) => self.core.tell_lsn(error.meta_mut()),
        }
        reply
    }

    async fn acknowledged_item(
        &self,
        shape: &Arc<ContainerSchema>,
        key: &[u8],
    ) -> Result<Option<StoredItem>> {
        let found = self.core.shard.get_hot(key).await.map_err(crate::storage_error)?;
        let Some(Found { value, hot }) = found else { return Ok(None) };
        let item = StoredItem::decode(value, shape)?.kept_at(hot);
        // The task of its writer may not have been woken yet.
        if item.lsn() > self.core.acknowledged.lsn() {
            self.core.acknowledged.note_lsn(item.lsn());
        }
        Ok(Some(item))
    }

    /// The id of the item with an ordinal, if there is one in the logical partition.
    pub async fn id_of_ordinal(&self, logical: &LogicalKey, ordinal: u64) -> Result<Option<String>> {
        let key = keys::ordinal_key(self.uid, ordinal);
        let item_key = self.core.shard.get(&key).await.map_err(crate::storage_error)?;
        self.check_open()?;
        let Some(item_key) = item_key else { return Ok(None) };
        let (owner, id) = keys::parse_item_key(&item_key).ok_or_else(crate::malformed_key)?;
        Ok(owner.partition_key.same(&logical.partition_key).then(|| id.to_owned()))
    }
}
