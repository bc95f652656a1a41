//! One transaction: its steps, what they see, and its end.
//!
//! A step is planned like a write of its own, under the sequencer, on top of everything queued and of the steps before; it
//! is kept in memory, or forgotten when it fails. The end plans the *difference* that all steps make, once more under the
//! sequencer and with the LSN of then, as one commit. What a step was told stays true to the end, because nobody else
//! writes to the logical partition; the partition's totals and its index, which others do change, are looked at in the end.
//!
//! Ordinals are taken for good by a step that succeeds: a transaction that is given up leaves holes, which nothing minds.

use std::sync::Arc;

use bytes::Bytes;
use shardlake_model::{Error, ErrorKind, ReplyMeta, Result};
use shardlake_stdx::{Clock, Guid};
use shardlake_storage::Seq;

use super::locks::Place;
use super::own_items::OwnItems;
use super::{NOTHING_MAINTAINED, WriteTurn};
use crate::change_log::ChangeKind;
use crate::feed::{FeedFilter, PageLimits, PartitionPage};
use crate::index::Maintained;
use crate::item::StoredItem;
use crate::keys::{self, HEADER};
use crate::make_room::{LOOKS_MAX, ROWS_OF_ROOM};
use crate::operation::{CommandContext, ItemReply, LogicalKey, Operation};
use crate::partition::Partition;
use crate::sequencer::Sequencer;
use crate::shape::ContainerShape;
use crate::transaction::{Base, Step, Transaction, View};

/// A logical partition in the hands of one caller. Dropping it leaves no trace.
#[derive(Debug)]
pub struct LogicalTransaction {
    partition: Arc<Partition>,
    shape: Arc<ContainerShape>,
    logical: LogicalKey,
    /// Without etags.
    command: CommandContext,
    /// Until the end.
    place: Option<Place>,
    base: Base,
    items: Arc<OwnItems>,
    writes: usize,
    /// The last commit that what was read may rest on.
    rests_on: Seq,
    /// The engine shows everything that the transaction began with.
    is_settled: bool,
}

impl Partition {
    /// Begins a transaction on a logical partition when all others there have ended. Its time is that of the beginning: what
    /// it writes is no older than what it read.
    pub async fn begin(
        self: &Arc<Self>,
        shape: &Arc<ContainerShape>,
        command: CommandContext,
        logical: &LogicalKey,
        clock: &Clock,
    ) -> Result<LogicalTransaction> {
        self.shard().check_writable().map_err(crate::storage_error)?;
        let mut place = self.gates.place(keys::logical_prefix(self.uid, logical));
        place.pass(command.patience).await?;
        // Whoever found no gate has queued his write by the time that the sequencer is to be had.
        let sequencer = self.sequencer.hold().await;
        self.check_open()?;
        let rests_on = sequencer.pending.last_seq().unwrap_or_else(|| self.shard().applied());
        let now = command.now.max(clock.now());
        Ok(LogicalTransaction {
            partition: self.clone(),
            shape: shape.clone(),
            logical: logical.clone(),
            command: CommandContext { now, ..command },
            place: Some(place),
            base: Base::default(),
            items: Arc::default(),
            writes: 0,
            rests_on,
            is_settled: false,
        })
    }
}

impl LogicalTransaction {
    pub fn partition(&self) -> &Arc<Partition> {
        &self.partition
    }

    pub fn logical(&self) -> &LogicalKey {
        &self.logical
    }

    /// With the time of the transaction.
    pub fn command(&self) -> &CommandContext {
        &self.command
    }

    /// What was written so far, for whoever reads beside the transaction's own methods.
    pub fn own_items(&self) -> &Arc<OwnItems> {
        &self.items
    }

    /// One step. A failed one changes nothing, and the transaction goes on. LSNs of the reply are not final.
    pub async fn execute(&mut self, operation: &Operation, etag: Guid) -> Result<ItemReply> {
        if !matches!(operation, Operation::Read { .. }) {
            self.check_bounds()?;
        }
        let mut reply = self.execute_once(operation, etag).await;
        // Items whose time has run out are removed by commits of their own, which only what has no writes yet can stand on.
        for _ in 0..LOOKS_MAX {
            let is_full = reply.as_ref().is_err_and(|error| error.kind() == ErrorKind::LogicalPartitionFull);
            if !is_full || !self.base.is_empty() || !self.make_room().await? {
                break;
            }
            reply = self.execute_once(operation, etag).await;
        }
        reply
    }

    fn check_bounds(&mut self) -> Result<()> {
        let limits = &self.shape.limits;
        let (writes, size_bytes) = (limits.transaction_operations_max, limits.transaction_size_bytes_max);
        if self.writes >= writes || self.base.size_bytes() >= size_bytes {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!(
                    "a transaction of a script writes at most {writes} times and {size_bytes} bytes: write less in each"
                ),
            ));
        }
        self.writes += 1;
        Ok(())
    }

    async fn execute_once(&mut self, operation: &Operation, etag: Guid) -> Result<ItemReply> {
        let partition = self.partition.clone();
        let mut sequencer = partition.sequencer.hold().await;
        partition.check_open()?;
        sequencer.pending.forget_applied(partition.shard().applied());
        let before = self.base.on(sequencer.counters);
        let mut step = self.step(&sequencer);
        let mut reply = partition.apply(&mut step, &self.command, etag, &self.logical, operation).await;
        if reply.is_ok()
            && let Err(full) = step.record_size_within_limits().await
        {
            reply = Err(full);
        }
        let rests_on = step.queued();
        let outcome = reply.map(|reply| (reply, step.into_step(before)));
        self.rests_on = self.rests_on.max(rests_on);
        match outcome {
            Ok((reply, step)) => {
                sequencer.reserve_ordinals(step.next_ordinal);
                drop(sequencer);
                self.take_over(step);
                Ok(reply)
            }
            Err(mut error) => {
                let charge = error.meta().charge_centi.max(self.shape.charges.not_found().0);
                *error.meta_mut() = partition.meta(charge, 0);
                Err(error)
            }
        }
    }

    /// The next step in the making. The index follows at the end.
    fn step<'a>(&'a self, sequencer: &'a Sequencer) -> Transaction<'a> {
        let maintained = NOTHING_MAINTAINED.get_or_init(Maintained::default);
        let view = View { maintained, base: Some(&self.base), ..sequencer.view() };
        let position = (sequencer.lsn, self.base.on(sequencer.counters));
        Transaction::new(
            self.partition.uid,
            &self.shape,
            self.partition.shard(),
            view,
            position,
            self.command.now,
        )
    }

    fn take_over(&mut self, step: Step) {
        let prefix = keys::logical_prefix(self.partition.uid, &self.logical);
        let is_item = |(key, _): &(&Vec<u8>, &Option<Bytes>)| key.starts_with(&prefix);
        let mut items = step.writes.iter().filter(is_item).peekable();
        if items.peek().is_some() {
            let own = Arc::make_mut(&mut self.items);
            items.for_each(|(key, record)| own.put(key.clone(), record.clone()));
        }
        self.base.add(step);
    }

    async fn make_room(&self) -> Result<bool> {
        let large = self.partition.turn_for(ROWS_OF_ROOM).await?;
        let turn = WriteTurn::of_holder(self.partition.sequencer.hold().await, large);
        self.partition.make_room_in(turn, &self.shape, &self.command, &self.logical).await
    }

    /// The id of the item with an ordinal, if there is one in the logical partition.
    pub async fn id_of_ordinal(&self, ordinal: u64) -> Result<Option<String>> {
        let key = keys::ordinal_key(self.partition.uid, ordinal);
        let sequencer = self.partition.sequencer.hold().await;
        self.partition.check_open()?;
        let Some(item_key) = self.step(&sequencer).get(&key).await? else { return Ok(None) };
        let (owner, id) = keys::parse_item_key(&item_key).ok_or_else(crate::malformed_key)?;
        Ok(owner.partition_key.same(&self.logical.partition_key).then(|| id.to_owned()))
    }

    /// Waits until the engine shows what the transaction began with: for whoever reads it there.
    pub async fn settle(&mut self) -> Result<()> {
        if !self.is_settled {
            self.partition.wait_for(self.rests_on).await?;
            self.is_settled = true;
        }
        Ok(())
    }

    /// One page of the items in the order of their ids.
    pub async fn read_page(&mut self, after: Option<&[u8]>, limits: PageLimits) -> Result<PartitionPage> {
        self.settle().await?;
        let filter = FeedFilter::Logical(self.logical.clone());
        let own = Some(&*self.items);
        self.partition.read_page_over(&self.shape, &self.command, &filter, after, limits, own).await
    }

    /// Commits the difference that all steps make, if they make any. What went before is durable, too, when this returns.
    pub async fn commit(mut self) -> Result<ReplyMeta> {
        if self.items.is_empty() {
            return self.end().await;
        }
        let partition = self.partition.clone();
        let mut rows = 0;
        loop {
            let turn = partition.turn_for(rows).await?;
            let mut sequencer = partition.sequencer.hold().await;
            partition.check_open()?;
            sequencer.pending.forget_applied(partition.shard().applied());
            let mut transaction = partition.transaction(&sequencer, &self.shape, self.command.now);
            transaction.is_clients = true;
            if let Err(error) = self.plan(&mut transaction).await {
                drop(sequencer);
                self.partition.wait_for(self.rests_on).await?;
                return Err(error);
            }
            if !transaction.changes_anything() {
                drop(sequencer);
                return self.end().await;
            }
            let lsn = transaction.lsn;
            let planned = transaction.into_batch();
            let Some(turn) = partition.turn_at_once(turn, &planned) else {
                rows = planned.batch.len();
                continue;
            };
            let commit = partition.queue(&mut sequencer, lsn, planned, turn)?;
            drop(sequencer);
            // The next one may begin: it finds the commit queued.
            self.place = None;
            partition.acknowledge(lsn, commit).await?;
            return Ok(partition.write_meta(0, lsn));
        }
    }

    async fn plan(&self, transaction: &mut Transaction<'_>) -> Result<()> {
        let now = self.command.now.seconds();
        // An ordinal may have gone from one item to another: what has it no more goes before what has it now.
        let mut versions = Vec::new();
        for (key, record) in self.items.iter() {
            let (_, id) = keys::parse_item_key(&key[HEADER..]).ok_or_else(crate::malformed_key)?;
            let old = transaction.item(key).await?;
            let is_live = old.as_ref().is_some_and(|old| !old.is_expired(now));
            let Some(record) = record else {
                if let Some(old) = old.filter(|_| is_live) {
                    transaction.delete(&self.logical, id, &old, ChangeKind::Delete).await?;
                }
                continue;
            };
            let item = StoredItem::decode(record.clone(), &self.shape)?.at_lsn(transaction.lsn)?;
            if let Some(old) = &old
                && old.envelope().ordinal != item.envelope().ordinal
            {
                transaction.take_out(&self.logical, id, old).await?;
            }
            let kind = if is_live { ChangeKind::Replace } else { ChangeKind::Create };
            versions.push((id, item, old, kind));
        }
        for (id, item, old, kind) in versions {
            transaction.put_decided(&self.logical, id, &item, old.as_ref(), kind).await?;
        }
        transaction.record_size_within_limits().await
    }

    /// Gives everything up. When this returns, what the caller was told about others' writes is durable.
    pub async fn end(mut self) -> Result<ReplyMeta> {
        self.place = None;
        self.partition.wait_for(self.rests_on).await?;
        Ok(self.partition.meta(0, 0))
    }
}
