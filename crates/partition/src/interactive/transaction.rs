//! Transaction of a script: its steps, the state that they see, and its end.
//!
//! A step is planned like a write of its own, under the sequencer, on top of everything queued and
//! of the steps before; it is kept in memory, or forgotten when it fails. The end plans the
//! *difference* that all steps make, once more under the sequencer and with the LSN and time
//! current at commit, as one commit. Earlier reads stay valid to the end, because no other client
//! writes to the logical partition; the partition's totals and its index, which others do change,
//! are looked at in the end.
//!
//! Ordinals are taken for good by a step that succeeds: a transaction that is given up leaves
//! holes, which are harmless.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use shardlake_model::{Error, ErrorKind, ReplyMeta, Result};
use shardlake_routing::LogicalKey;
use shardlake_stdx::{Clock, Guid};
use shardlake_storage::Seq;

use crate::commit::{Done, Task, Work, Writer, acknowledge, carry_out, go_on_after, plan};
use crate::core::Core;
use crate::feed::{FeedFilter, PageLimits, PartitionPage, read_page};
use crate::item::StoredItem;
use crate::keys::{self, HEADER};
use crate::log::entry::ChangeKind;
use crate::open_transactions::OwnItems;
use crate::open_transactions::Place;
use crate::operation::{CommandContext, ItemReply, Operation, PreparedBody};
use crate::origin::Origin;
use crate::partition::Partition;
use crate::read_set::{Plan, ReadSet};
use crate::reclaim::{LOOKS_MAX, reclaim_space};
use crate::shape::ContainerSchema;
use crate::write::{Base, Step};
use crate::write::{ItemName, PlannedCommit, Transaction};
use crate::write::{footprint, look_ahead};

/// A logical partition in the hands of one caller. Dropping it leaves no trace.
#[derive(Debug)]
pub struct LogicalTransaction {
    partition: Arc<Partition>,
    core: Arc<Core>,
    shape: Arc<ContainerSchema>,
    logical: LogicalKey,
    /// Without etags.
    command: CommandContext,
    /// Until the end.
    place: Option<Place>,
    base: Arc<Base>,
    items: Arc<OwnItems>,
    writes: usize,
    /// The last commit that its reads may rest on.
    rests_on: Seq,
    /// The engine shows everything that the transaction began with.
    is_settled: bool,
}

impl LogicalTransaction {
    /// Begins a transaction: see [`Partition::begin`].
    pub(super) async fn begin(
        partition: &Arc<Partition>,
        shape: &Arc<ContainerSchema>,
        command: CommandContext,
        logical: &LogicalKey,
        clock: &Clock,
    ) -> Result<LogicalTransaction> {
        let core = partition.core();
        core.shard().check_writable().map_err(crate::storage_error)?;
        let mut place = core.transactions.gates.place(keys::logical_prefix(core.uid, logical));
        place.pass(command.patience).await?;
        // A writer that found no gate has queued its write before it releases the sequencer.
        let sequencer = core.sequencer.hold().await;
        core.check_open()?;
        let rests_on = core.last_queued(&sequencer);
        let now = command.now.max(clock.now());
        Ok(LogicalTransaction {
            partition: partition.clone(),
            core: core.clone(),
            shape: shape.clone(),
            logical: logical.clone(),
            command: CommandContext { now, ..command },
            place: Some(place),
            base: Arc::default(),
            items: Arc::default(),
            writes: 0,
            rests_on,
            is_settled: false,
        })
    }

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

    /// The writes so far, for callers that read without the transaction's own methods.
    pub fn own_items(&self) -> &Arc<OwnItems> {
        &self.items
    }

    /// One step. A failed one changes nothing, and the transaction continues. LSNs of the reply are not final.
    pub async fn execute(&mut self, operation: &Operation, etag: Guid) -> Result<ItemReply> {
        if !matches!(operation, Operation::Read { .. }) {
            self.check_bounds()?;
        }
        let mut reply = self.execute_once(operation, etag).await;
        // Expired items are removed by commits of their own, which only a transaction without
        // writes can follow.
        for _ in 0..LOOKS_MAX {
            let is_full = reply.as_ref().is_err_and(|error| error.kind() == ErrorKind::LogicalPartitionFull);
            if !is_full || !self.base.is_empty() || !self.reclaim_space().await? {
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
        let step = OneStep {
            command: Cow::Borrowed(&self.command),
            logical: Cow::Borrowed(&self.logical),
            operation: Cow::Borrowed(operation),
            etag,
        };
        let task = Task { base: Some(&self.base), ..task(&self.shape, &self.command) };
        match plan_step(&self.core, task, &step, &mut self.rests_on).await {
            Ok((reply, step)) => {
                self.take_over(step);
                Ok(reply)
            }
            Err(mut error) => {
                let charge = error.meta().charge_centi.max(self.shape.charges.not_found().0);
                *error.meta_mut() = self.core.meta(charge, 0);
                Err(error)
            }
        }
    }

    fn take_over(&mut self, step: Step) {
        let prefix = keys::logical_prefix(self.core.uid, &self.logical);
        let mut items = step.writes.iter().filter(|(key, _)| key.starts_with(&prefix)).peekable();
        if items.peek().is_some() {
            let own = Arc::make_mut(&mut self.items);
            items.for_each(|(key, record)| own.put(key.clone(), record.clone()));
        }
        // No other owner exists: plans give it back.
        Arc::make_mut(&mut self.base).add(step);
    }

    async fn reclaim_space(&self) -> Result<bool> {
        reclaim_space(&self.core, &self.shape, &self.command, &self.logical, Writer::Holder).await
    }

    /// The id of the item with an ordinal, if there is one in the logical partition.
    pub async fn id_of_ordinal(&self, ordinal: u64) -> Result<Option<String>> {
        let key = keys::ordinal_key(self.core.uid, ordinal);
        let item_key = match self.base.get(&key) {
            Some(own) => own.clone(),
            None => {
                // Shown by then, since no other client has written to the logical partition.
                self.core.wait_for(self.rests_on).await?;
                self.core.shard().get(&key).await.map_err(crate::storage_error)?
            }
        };
        self.core.check_open()?;
        let Some(item_key) = item_key else { return Ok(None) };
        let (owner, id) = keys::parse_item_key(&item_key).ok_or_else(crate::malformed_key)?;
        Ok(owner.partition_key.same(&self.logical.partition_key).then(|| id.to_owned()))
    }

    /// Waits until the engine shows the state with which the transaction began: for callers that
    /// read the engine.
    pub async fn settle(&mut self) -> Result<()> {
        if !self.is_settled {
            self.core.wait_for(self.rests_on).await?;
            self.is_settled = true;
        }
        Ok(())
    }

    /// One page of the items in the order of their ids.
    pub async fn read_page(&mut self, after: Option<&[u8]>, limits: PageLimits) -> Result<PartitionPage> {
        self.settle().await?;
        let filter = FeedFilter::Logical(self.logical.clone());
        let own = Some(&*self.items);
        read_page(&self.core, &self.shape, &self.command, &filter, after, limits, own).await
    }

    /// Commits the difference that all steps make, if they make any. Commits that it rests on are
    /// durable, too, when this returns.
    pub async fn commit(mut self) -> Result<ReplyMeta> {
        if self.items.is_empty() {
            return self.end().await;
        }
        let core = self.core.clone();
        let work = Difference { logical: self.logical.clone(), items: self.items.clone() };
        let task = task(&self.shape, &self.command);
        let Done { commit, .. } = match carry_out(&core, task, ReadSet::default(), &work).await {
            Ok(done) => done,
            Err(error) => {
                core.wait_for(self.rests_on).await?;
                return Err(error);
            }
        };
        let Some((lsn, commit)) = commit else { return self.end().await };
        // The next one may begin: it finds the commit queued.
        self.place = None;
        acknowledge(&core, lsn, commit).await?;
        Ok(core.origin().meta(0, lsn))
    }

    /// Rolls the transaction back. When this returns, the writes of others that the caller has read
    /// are durable.
    pub async fn end(mut self) -> Result<ReplyMeta> {
        self.place = None;
        self.core.wait_for(self.rests_on).await?;
        Ok(self.core.meta(0, 0))
    }
}

/// The task of a transaction that holds its logical partition.
fn task<'t>(shape: &'t Arc<ContainerSchema>, command: &CommandContext) -> Task<'t> {
    Task {
        shape,
        now: command.now,
        is_decided: true,
        writer: Writer::Holder,
        is_clients: true,
        rows: 0,
        is_heavy: false,
        base: None,
    }
}

/// Plans a step on top of everything queued and of the steps before.
async fn plan_step(
    core: &Core,
    mut task: Task<'_>,
    step: &OneStep<'_>,
    rests_on: &mut Seq,
) -> Result<(ItemReply, Step)> {
    let mut reads = ReadSet::default();
    if step.operation.item().is_some_and(PreparedBody::is_heavy) {
        task.is_heavy = true;
        step.look_ahead(core, &task, &mut reads).await?;
    }
    loop {
        let mut turn = core.sequencer.hold().await;
        core.check_open()?;
        turn.pending.forget_applied(core.shard().applied());
        let planned;
        (turn, planned) = plan(core, turn, (&task, task.now.into()), &mut reads, step).await?;
        *rests_on = core.last_queued(&turn).max(*rests_on);
        match planned {
            Ok((reply, step)) => {
                turn.reserve_ordinals(step.next_ordinal);
                return Ok((reply, step));
            }
            Err(stop) => {
                drop(turn);
                go_on_after(core, stop, &mut task, &mut reads, step).await?;
            }
        }
    }
}

/// One operation, on top of the steps before.
struct OneStep<'s> {
    command: Cow<'s, CommandContext>,
    logical: Cow<'s, LogicalKey>,
    operation: Cow<'s, Operation>,
    etag: Guid,
}

impl Work for OneStep<'_> {
    type Outcome = (ItemReply, Step);

    fn plan(&self, mut transaction: Transaction<'_>) -> Plan<Self::Outcome> {
        let reply = transaction.apply(&self.command, self.etag, &self.logical, &self.operation)?;
        transaction.record_size_within_limits()?;
        Ok((reply, transaction.into_step()))
    }

    fn owned(&self) -> impl Work<Outcome = Self::Outcome> + Send + 'static {
        OneStep {
            command: Cow::Owned(self.command.clone().into_owned()),
            logical: Cow::Owned(self.logical.clone().into_owned()),
            operation: Cow::Owned(self.operation.clone().into_owned()),
            etag: self.etag,
        }
    }

    fn footprint(&self, origin: Origin, shape: &ContainerSchema) -> Vec<Bytes> {
        footprint(origin, shape, &self.logical, std::slice::from_ref(&*self.operation))
    }

    async fn look_ahead(&self, core: &Core, task: &Task<'_>, reads: &mut ReadSet) -> Result<usize> {
        let operations = std::slice::from_ref(&*self.operation);
        look_ahead(core, task.shape, reads, (&self.logical, operations)).await
    }
}

/// Net result of all steps of a transaction: the final state of its items.
struct Difference {
    logical: LogicalKey,
    items: Arc<OwnItems>,
}

impl Work for Difference {
    type Outcome = ((), Option<PlannedCommit>);

    fn plan(&self, mut transaction: Transaction<'_>) -> Plan<Self::Outcome> {
        make_different(&mut transaction, &self.logical, self.items.iter())?;
        let changes = transaction.changes_anything();
        Ok(((), changes.then(|| transaction.into_batch())))
    }

    fn owned(&self) -> impl Work<Outcome = Self::Outcome> + Send + 'static {
        Difference { logical: self.logical.clone(), items: self.items.clone() }
    }

    fn footprint(&self, origin: Origin, _shape: &ContainerSchema) -> Vec<Bytes> {
        let size = keys::size_key(origin.uid, &self.logical).into();
        self.items.iter().map(|(key, _)| key.clone()).chain([size]).collect()
    }
}

/// Changes items of one logical partition to the net result of several steps.
pub(super) fn make_different<'i>(
    transaction: &mut Transaction<'_>,
    logical: &LogicalKey,
    items: impl Iterator<Item = (&'i Bytes, &'i Option<Bytes>)>,
) -> Plan<()> {
    let now = transaction.input.now.seconds();
    // An ordinal may have moved from one item to another: its old owner is written before its new
    // one.
    let mut versions = Vec::new();
    for (key, record) in items {
        let (_, id) = keys::parse_item_key(&key[HEADER..]).ok_or_else(crate::malformed_key)?;
        let name = ItemName { logical, id, key: key.clone() };
        let old = transaction.item(key)?;
        let is_live = old.as_ref().is_some_and(|old| !old.is_expired(now));
        let Some(record) = record else {
            if let Some(old) = old.filter(|_| is_live) {
                transaction.delete(&name, &old, ChangeKind::Delete)?;
            }
            continue;
        };
        let item = StoredItem::decode(record.clone(), transaction.input.shape)?;
        let item = item.committed(transaction.input.lsn, transaction.input.time);
        if let Some(old) = &old
            && old.envelope().ordinal != item.envelope().ordinal
        {
            transaction.take_out(&name, old)?;
        }
        let kind = if is_live { ChangeKind::Replace } else { ChangeKind::Create };
        versions.push((name, item, old, kind));
    }
    for (name, item, old, kind) in versions {
        transaction.put_decided(&name, &item, old.as_ref(), kind)?;
    }
    transaction.record_size_within_limits()
}
