//! One physical partition: the sequencer that orders its writes, and its reads.
//!
//! *Write*: take the sequencer → read what the operations need (engine, then queued commits, then own writes) → plan →
//! queue one batch with its log entry in the shard → release the sequencer → wait for durability → reply. The sequencer
//! is never held across a disk sync, so writers of one partition share group commits.
//!
//! *Read*: no lock and no wait. The shard shows what is acknowledged, so that nobody learns of a write that a crash could still
//! undo; the engine's newest version of an item is looked at first, because it nearly always is acknowledged. After a
//! failed sync reads go on with what was acknowledged before it.
//!
//! Lock order: the walk over sizes or the gate of a logical partition, then a turn for a large commit, then the sequencer;
//! there is no other lock. Whoever holds the sequencer waits for none of the others. LSNs go up by exactly one per commit,
//! whatever the number of operations.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, MutexGuard, OnceLock, PoisonError};

use futures::future::try_join4;
use shardlake_heat::Heat;
use shardlake_index::IndexLayout;
use shardlake_model::{Error, ErrorKind, PartitionKeyDefinition, Preconditions, ReplyMeta, Result};
use shardlake_routing::EpkRange;
use shardlake_stdx::Timestamp;
use shardlake_storage::{Durability, PendingCommit, RowsTurn, SMALL_COMMIT_ROWS, Seq, Shard};
use tokio::sync::Mutex;

use crate::acknowledged::Acknowledged;
use crate::beside::HEAVY_BYTES;
use crate::change_log::Counters;
use crate::changes;
use crate::end::{End, Life};
use crate::expire::Expiry;
use crate::heavy::Ahead;
use crate::index::Maintained;
use crate::interactive::Gates;
use crate::item::StoredItem;
use crate::keys::{self, PartitionUid};
use crate::log_marks::LogMarks;
use crate::make_room::{LOOKS_MAX, is_full};
use crate::operation::{BatchFailure, BatchReply, CommandContext, ItemReply, LogicalKey, Operation, Outcome};
use crate::plan;
use crate::sequencer::{Sequencer, SequencerLock};
use crate::shape::ContainerShape;
use crate::sizes::{count, is_counted};
use crate::transaction::{Foresight, PlannedCommit, Transaction};
use crate::versions::KeptPast;

#[derive(Debug)]
pub struct Partition {
    pub uid: PartitionUid,
    pub range_id: u32,
    pub epk_range: EpkRange,
    /// High bits of the ordinals that this partition hands out.
    pub rid_prefix: u32,
    pub session_version: i64,
    shard: Shard,
    pub(crate) sequencer: SequencerLock,
    /// Logical partitions that transactions hold.
    pub(crate) gates: Arc<Gates>,
    /// Held while the sizes of all logical partitions are read.
    pub(crate) size_walk: Mutex<()>,
    acknowledged: Acknowledged,
    life: Arc<Life>,
    /// Generations of the index below this are being dropped: what is left of them must not be read.
    oldest_index: AtomicU32,
    pub(crate) expiry: Expiry,
    /// How much of what was is kept.
    pub(crate) past: KeptPast,
    /// Made when the first operation is counted.
    heat: OnceLock<Box<std::sync::Mutex<Heat>>>,
}

/// How an attempt to execute operations ended; nothing was changed unless it is done.
enum Attempt {
    Done(BatchReply),
    /// It met a heavy item that was not looked at before.
    LacksForesight,
    /// The commit has so many rows, and others are before it.
    NeedsTurn(usize),
}

/// What distinguishes a partition from its siblings.
#[derive(Debug, Clone)]
pub struct PartitionIdentity {
    pub uid: PartitionUid,
    pub range_id: u32,
    pub epk_range: EpkRange,
    pub rid_prefix: u32,
    /// Prefixes of the partitions that this one was made of: items keep their ordinals.
    pub inherited_prefixes: Vec<u32>,
    /// See [`ReplyMeta::session_version`].
    pub session_version: i64,
}

impl Partition {
    /// Opens a partition at the position that its last log entry tells.
    pub async fn open(
        shard: Shard,
        identity: PartitionIdentity,
        layouts: Vec<Arc<IndexLayout>>,
    ) -> Result<Partition> {
        let (view, uid) = (shard.view(), identity.uid);
        let marks = async { view.get(&keys::log_marks_key(uid)).await.map_err(crate::storage_error) };
        let (last, marks, mut counted, is_counted) = try_join4(
            changes::last_entry(&view, uid),
            marks,
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
            sequencer: SequencerLock::new(
                Sequencer::new(lsn, timestamp_ms, counters, Maintained { layouts, counted }),
                life.clone(),
            ),
            gates: Arc::default(),
            size_walk: Mutex::new(()),
            life,
            oldest_index: AtomicU32::new(0),
            expiry: Expiry::of_partition(counters.items == 0),
            heat: OnceLock::new(),
            past: KeptPast::new(marks),
            acknowledged: Acknowledged::new(lsn, counters),
        })
    }

    /// Highest LSN known to be acknowledged; what replies and session tokens carry.
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

    /// Counts what the shard has acknowledged, also where the writer has gone away before it heard of it.
    fn follow_shard(&self) {
        let acknowledged = match self.shard.durability() {
            Durability::Sync => self.shard.durable(),
            Durability::Async | Durability::Memory => self.shard.applied(),
        };
        self.acknowledged.follow(acknowledged);
    }

    /// What keeps the partition busy; to be let go before any await. The definition of the container's key says how
    /// hashes lie in the range.
    pub fn heat(&self, definition: &PartitionKeyDefinition) -> MutexGuard<'_, Heat> {
        let heat = self.heat.get_or_init(|| Box::new(Heat::new(definition, &self.epk_range).into()));
        // Counts are all it holds: whoever panicked left nothing worse than a count too few.
        heat.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Until something is durable above an LSN, or the partition ends. A commit whose writer has gone away before it heard of it
    /// is noticed with the next one.
    pub async fn wait_for_change(&self, after: u64) {
        self.life.followers.wait_until(|| self.durable_lsn() > after || self.is_closed()).await;
    }

    /// Refuses everything from now on; called before the partition's data is dropped.
    pub async fn close(&self, end: End) {
        let _no_write_is_planned = self.sequencer.hold().await;
        self.end_with(end);
    }

    /// Likewise, for whoever holds the sequencer.
    pub(crate) fn end_with(&self, end: End) {
        self.life.end(end);
    }

    /// Nothing may be written any more: the partition's data is being dropped.
    pub(crate) fn is_closed(&self) -> bool {
        self.life.is_over()
    }

    /// Refuses what the partition does not answer for any more. What was read before this was asked still counts: the
    /// items change elsewhere only after the partition has ended.
    pub fn check_open(&self) -> Result<()> {
        self.life.check()
    }

    pub fn meta(&self, charge_centi: u64, item_lsn: u64) -> ReplyMeta {
        ReplyMeta {
            charge_centi,
            lsn: self.durable_lsn().max(item_lsn),
            item_lsn,
            range_id: Some(self.range_id),
            session_version: self.session_version,
        }
    }

    /// Point read.
    pub async fn read(
        &self,
        shape: &Arc<ContainerShape>,
        command: &CommandContext,
        logical: &LogicalKey,
        id: &str,
        preconditions: &Preconditions,
    ) -> Result<ItemReply> {
        let key = keys::item_key(self.uid, logical, id);
        let item = self.acknowledged_item(shape, &key).await?;
        self.check_open()?;
        match item.filter(|item| !item.is_expired(command.now.seconds())) {
            Some(item) => self.read_reply(shape, command, item, preconditions),
            None => Err(self.missing(shape)),
        }
    }

    async fn acknowledged_item(&self, shape: &Arc<ContainerShape>, key: &[u8]) -> Result<Option<StoredItem>> {
        // The newest version is nearly always acknowledged, and says so by itself. An absence does not.
        let newest = self.shard.get_applied(key).await.map_err(crate::storage_error)?;
        if let Some(newest) = newest {
            let item = StoredItem::decode(newest, shape)?;
            if item.lsn() <= self.durable_lsn() {
                return Ok(Some(item));
            }
        }
        let Some(stored) = self.shard.get(key).await.map_err(crate::storage_error)? else { return Ok(None) };
        let item = StoredItem::decode(stored, shape)?;
        self.acknowledged.note_lsn(item.lsn());
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

    pub(crate) fn read_reply(
        &self,
        shape: &ContainerShape,
        command: &CommandContext,
        item: StoredItem,
        preconditions: &Preconditions,
    ) -> Result<ItemReply> {
        if plan::is_unmodified(&item, preconditions) {
            let meta = self.meta(shape.charges.not_modified().0, item.lsn());
            return Ok(ItemReply { outcome: Outcome::NotModified, item: Some(item), meta });
        }
        if let Some(condition) = &preconditions.if_match
            && !condition.matches(&item.etag())
        {
            let meta = self.meta(shape.charges.not_found().0, item.lsn());
            return Err(Error::new(ErrorKind::PreconditionFailed, plan::PRECONDITION).with_meta(meta));
        }
        let charge = shape.charges.read(item.json_size_bytes(), command.consistency);
        let meta = self.meta(charge.0, item.lsn());
        Ok(ItemReply { outcome: Outcome::Read, item: Some(item), meta })
    }

    fn missing(&self, shape: &ContainerShape) -> Error {
        plan::not_found().with_meta(self.meta(shape.charges.not_found().0, 0))
    }

    /// Waits until a commit, and all before it, may be acknowledged.
    pub(crate) async fn wait_for(&self, seq: Seq) -> Result<()> {
        // With asynchronous durability an applied commit is as good as acknowledged.
        if self.shard.durability() != Durability::Sync && seq <= self.shard.applied() {
            return Ok(());
        }
        self.shard.wait_durable(seq).await.map_err(crate::storage_error)
    }

    /// One write, as a transaction of its own.
    pub async fn write(
        &self,
        shape: &Arc<ContainerShape>,
        command: &CommandContext,
        logical: &LogicalKey,
        operation: &Operation,
    ) -> Result<ItemReply> {
        let reply = self.execute(shape, command, logical, std::slice::from_ref(operation)).await?;
        match reply.outcome {
            Ok(mut replies) => Ok(replies.pop().expect("one operation has one reply")),
            Err(failure) => Err(failure.error),
        }
    }

    /// Executes operations in order as one transaction: all of them or none.
    pub async fn execute(
        &self,
        shape: &Arc<ContainerShape>,
        command: &CommandContext,
        logical: &LogicalKey,
        operations: &[Operation],
    ) -> Result<BatchReply> {
        let mut reply = self.execute_once(shape, command, logical, operations).await?;
        for _ in 0..LOOKS_MAX {
            if !is_full(&reply) || !self.make_room(shape, command, logical).await? {
                break;
            }
            reply = self.execute_once(shape, command, logical, operations).await?;
        }
        Ok(reply)
    }

    async fn execute_once(
        &self,
        shape: &Arc<ContainerShape>,
        command: &CommandContext,
        logical: &LogicalKey,
        operations: &[Operation],
    ) -> Result<BatchReply> {
        let mut ahead = None;
        if operations.iter().any(Operation::is_heavy) {
            ahead = Some(self.look_ahead(shape, logical, operations).await?);
        }
        let terms = |operation: &Operation| operation.item().map_or(0, |item| item.terms.len() as usize);
        let mut rows = match &ahead {
            Some(ahead) => ahead.rows,
            None => operations.iter().map(terms).sum(),
        };
        loop {
            match self.attempt(shape, command, logical, operations, (ahead.as_ref(), rows)).await? {
                Attempt::Done(reply) => return Ok(reply),
                Attempt::NeedsTurn(needed) => rows = needed,
                Attempt::LacksForesight => {
                    let looked = self.look_ahead(shape, logical, operations).await?;
                    rows = rows.max(looked.rows);
                    ahead = Some(looked);
                }
            }
        }
    }

    /// `ahead` is what looking ahead has found; the commit is expected to have about so many `rows`.
    async fn attempt(
        &self,
        shape: &Arc<ContainerShape>,
        command: &CommandContext,
        logical: &LogicalKey,
        operations: &[Operation],
        (ahead, rows): (Option<&Ahead>, usize),
    ) -> Result<Attempt> {
        let mut sequencer = self.turn_to_write(logical, command.patience, rows).await?;
        self.check_open()?;
        sequencer.pending.forget_applied(self.shard.applied());
        let turn = sequencer.take_turn();
        let mut transaction = self.transaction(&sequencer, shape, command.now);
        transaction.is_clients = true;
        transaction.foresight = ahead.map_or(Foresight::Wanted, Foresight::Known);
        let mut replies = Vec::with_capacity(operations.len());
        let mut charge_centi = 0;
        let mut last_growth = 0;
        let (mut read_bytes, mut since_pause) = (0, 0);
        let mut failure = None;
        for (index, operation) in operations.iter().enumerate() {
            let grown_before = transaction.growth_bytes();
            match self.apply(&mut transaction, command, command.etags[index], logical, operation).await {
                Ok(reply) => {
                    charge_centi += reply.meta.charge_centi;
                    if let (Operation::Read { .. }, Some(item)) = (operation, &reply.item) {
                        read_bytes += item.json_size_bytes();
                    }
                    if read_bytes > shape.limits.page_size_bytes_max {
                        failure = Some((index, shape.limits.too_much_read()));
                        break;
                    }
                    replies.push(reply);
                }
                Err(error) => {
                    failure = Some((index, error));
                    break;
                }
            }
            if transaction.growth_bytes() > grown_before {
                last_growth = index;
            }
            // Of a stored item that an operation names, the size is not known here.
            since_pause += operation.item().map_or(HEAVY_BYTES / 8, |item| item.members.len());
            if since_pause > HEAVY_BYTES {
                since_pause = 0;
                tokio::task::yield_now().await;
            }
        }
        if transaction.lacks_foresight {
            return Ok(Attempt::LacksForesight);
        }
        if failure.is_none() {
            // The whole decides; the last operation that took room stands for it.
            let checked = transaction.record_size_within_limits().await;
            failure = checked.err().map(|error| (last_growth, error));
        }
        if let Some((index, mut error)) = failure {
            let (queued, last) = (transaction.queued(), sequencer.lsn);
            drop(sequencer);
            // What the error tells (an item exists, or not) may rest on commits that are not durable yet.
            self.wait_for(queued).await?;
            // Whoever wrote what it met may not have been woken yet.
            self.acknowledged.note_lsn(error.meta().item_lsn.min(last));
            let charge = error.meta().charge_centi.max(shape.charges.not_found().0);
            *error.meta_mut() = self.meta(charge, error.meta().item_lsn);
            let meta = self.meta(charge_centi + charge, 0);
            return Ok(Attempt::Done(BatchReply { outcome: Err(BatchFailure { index, error }), meta }));
        }
        if !transaction.changes_anything() {
            let queued = transaction.queued();
            drop(sequencer);
            self.wait_for(queued).await?;
            let seen = replies.iter().map(|reply| reply.meta.item_lsn).max().unwrap_or(0);
            self.acknowledged.note_lsn(seen);
            let meta = self.meta(charge_centi, 0);
            return Ok(Attempt::Done(BatchReply { outcome: Ok(replies), meta }));
        }
        let lsn = transaction.lsn;
        let planned = transaction.into_batch();
        let Some(turn) = self.turn_at_once(turn, &planned) else {
            return Ok(Attempt::NeedsTurn(planned.batch.len()));
        };
        let commit = self.queue(&mut sequencer, lsn, planned, turn)?;
        drop(sequencer);
        self.acknowledge(lsn, commit).await?;
        for reply in &mut replies {
            reply.meta.lsn = lsn;
        }
        let meta = self.write_meta(charge_centi, lsn);
        Ok(Attempt::Done(BatchReply { outcome: Ok(replies), meta }))
    }

    /// The next commit in the making.
    pub(crate) fn transaction<'a>(
        &'a self,
        sequencer: &'a Sequencer,
        shape: &'a Arc<ContainerShape>,
        now: Timestamp,
    ) -> Transaction<'a> {
        let position = (sequencer.lsn, sequencer.counters);
        let view = sequencer.view();
        let mut transaction = Transaction::new(self.uid, shape, &self.shard, view, position, now);
        transaction.timestamp_ms = transaction.timestamp_ms.max(sequencer.timestamp_ms);
        transaction.keeps_versions = self.past.keeps_versions();
        transaction
    }

    /// The turn that a planned commit needs, if it needs one: the one that its writer has, or one that is free. `None`, and
    /// the writer has to wait for one without the sequencer, where others are before it.
    pub(crate) fn turn_at_once(
        &self,
        held: Option<RowsTurn>,
        planned: &PlannedCommit,
    ) -> Option<Option<RowsTurn>> {
        let rows = planned.batch.len();
        match held.filter(|_| rows > SMALL_COMMIT_ROWS) {
            Some(held) => Some(Some(held)),
            None => self.shard.try_turn_for(rows),
        }
    }

    /// Hands a planned commit to the shard and moves the sequencer past it. Nothing changed when this fails.
    pub(crate) fn queue(
        &self,
        sequencer: &mut Sequencer,
        lsn: u64,
        planned: PlannedCommit,
        turn: Option<RowsTurn>,
    ) -> Result<PendingCommit> {
        assert_eq!(lsn, sequencer.lsn + 1, "a commit advances the LSN by exactly one");
        let mut batch = planned.batch;
        let marks = self.past.take_unsaved();
        if let Some(marks) = &marks {
            batch.put(keys::log_marks_key(self.uid), marks.encode());
        }
        let commit = match self.shard.commit_in_turn(batch, turn) {
            Ok(commit) => commit,
            Err(error) => {
                self.past.give_back(marks);
                return Err(crate::storage_error(error));
            }
        };
        #[cfg(feature = "testing")]
        crate::seeded::panic_if(crate::seeded::Mistake::PanicWhileQueueing);
        sequencer.lsn = lsn;
        sequencer.timestamp_ms = planned.timestamp_ms;
        sequencer.counters = planned.counters;
        self.expiry.note(planned.due);
        for (key, size) in planned.recorded {
            if let Some(largest) = &mut sequencer.largest {
                largest.note(&key[keys::HEADER..], size);
            }
            sequencer.sizes.put(key, size);
        }
        sequencer.pending.add(commit.seq(), planned.writes.into_iter());
        for (place, by) in planned.pending_counts {
            let pending = &mut sequencer.maintained.counted[place].pending;
            *pending = pending.map(|before| before + by);
        }
        self.acknowledged.queue(commit.seq(), lsn, planned.counters);
        Ok(commit)
    }

    /// Waits until a commit may be acknowledged.
    pub(crate) async fn acknowledge(&self, lsn: u64, commit: PendingCommit) -> Result<()> {
        commit.await.map_err(crate::storage_error)?;
        self.acknowledged.note_lsn(lsn);
        self.follow_shard();
        self.life.followers.wake();
        Ok(())
    }

    pub(crate) fn write_meta(&self, charge_centi: u64, lsn: u64) -> ReplyMeta {
        ReplyMeta {
            charge_centi,
            lsn,
            item_lsn: lsn,
            range_id: Some(self.range_id),
            session_version: self.session_version,
        }
    }
}
