//! A transaction that reads a snapshot and writes to any partitions of one shard, step by step.
//!
//! ```text
//! begin      a view of the shard: all reads are from it, with the transaction's own writes laid over
//! step       planned under the partition's sequencer, on top of everything queued and of the steps before
//!            · the item is still the one of the view, else that is a conflict
//!            · the rows it writes are claimed, or another transaction has them, which is a conflict too
//! commit     snapshot_commit.rs
//! ```
//!
//! So it sees one point in time, and of two transactions that write the same item the first one
//! wins: snapshot isolation. Like with the transactions of scripts, ordinals are taken for good,
//! and the writes of a step are kept in memory. The transaction is given up by dropping it, which
//! leaves no trace.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use rustc_hash::FxHashMap;
use shardlake_model::{Error, ErrorKind, Preconditions, Result};
use shardlake_routing::LogicalKey;
use shardlake_stdx::Guid;
use shardlake_storage::{CachedView, Shard};
use xxhash_rust::xxh3::xxh3_128;

use crate::answers;
use crate::commit::{Task, Work, Writer, go_on_after, plan};
use crate::core::Core;
use crate::item::StoredItem;
use crate::keys::{self, PartitionUid};
use crate::open_transactions::Claimed;
use crate::open_transactions::OwnItems;
use crate::operation::{CommandContext, ItemReply, Operation, PreparedBody};
use crate::origin::Origin;
use crate::partition::Partition;
use crate::read_set::{Plan, ReadSet, Stop};
use crate::shape::ContainerSchema;
use crate::write::Transaction;
use crate::write::{Base, Step};
use crate::write::{footprint, look_ahead};

/// How the error of a transaction begins that writes too much.
pub const TRANSACTION_TOO_LARGE: &str = "a transaction writes at most";

/// Identifies one value of a row; `None` where there is none.
pub(super) type Fingerprint = Option<u128>;

pub(super) fn fingerprint(value: Option<&Bytes>) -> Fingerprint {
    value.map(|value| xxh3_128(value))
}

/// Another writer has written a row that the transaction rests on, or is about to.
pub(super) fn conflict() -> Error {
    Error::new(
        ErrorKind::PreconditionFailed,
        "another writer changed the same item: begin the transaction anew",
    )
}

/// A transaction over items of partitions that lie on one shard.
#[derive(Debug)]
pub struct SnapshotTransaction {
    shard: Shard,
    view: TransactionView,
    /// Without etags. Its time is that of the beginning.
    command: CommandContext,
    writes: usize,
    pub(super) branches: BTreeMap<PartitionUid, Branch>,
}

/// State that a transaction reads: one point in time, and its own writes.
#[derive(Clone)]
pub struct TransactionView {
    hot: CachedView,
    own: Arc<OwnItems>,
    has_index: bool,
}

impl std::fmt::Debug for TransactionView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "view at {}", self.hot.view().seq())
    }
}

impl TransactionView {
    pub(crate) fn hot(&self) -> &CachedView {
        &self.hot
    }

    pub(crate) fn own(&self) -> &OwnItems {
        &self.own
    }

    /// For a container whose index serves now as it did when the view was made: queries may use it.
    pub fn with_index(self) -> TransactionView {
        TransactionView { has_index: true, ..self }
    }

    /// Another generation of the index may not be whole in the view.
    pub(crate) fn has_index(&self) -> bool {
        self.has_index
    }
}

/// A transaction's work in one partition.
#[derive(Debug)]
pub(super) struct Branch {
    pub core: Arc<Core>,
    pub shape: Arc<ContainerSchema>,
    pub base: Arc<Base>,
    pub claimed: Claimed,
    /// The values of the rows that it claims, from before the transaction.
    pub displaced: FxHashMap<Bytes, Fingerprint>,
}

impl SnapshotTransaction {
    /// Begins a transaction on everything that is acknowledged now in a shard.
    pub fn begin(shard: &Shard, command: CommandContext) -> SnapshotTransaction {
        let view = TransactionView { hot: shard.cached_view(), own: Arc::default(), has_index: false };
        SnapshotTransaction { shard: shard.clone(), view, command, writes: 0, branches: BTreeMap::new() }
    }

    /// Whether a partition lies on the shard of the transaction.
    pub fn is_on_shard_of(&self, partition: &Partition) -> bool {
        self.shard.is(partition.core().shard())
    }

    /// Its current state for reads.
    pub fn view(&self) -> &TransactionView {
        &self.view
    }

    /// How many bytes it has written, also where a later step has written the same again.
    pub fn size_bytes(&self) -> usize {
        self.branches.values().map(|branch| branch.base.size_bytes()).sum()
    }

    pub(super) fn command(&self) -> &CommandContext {
        &self.command
    }

    pub(super) fn shard(&self) -> &Shard {
        &self.shard
    }

    pub(super) fn own(&self) -> &OwnItems {
        &self.view.own
    }

    /// Refuses a partition that lies on another shard: no snapshot and no commit has both.
    pub fn check_reach(&self, partition: &Partition) -> Result<()> {
        partition.check_open()?;
        // It could not commit writes to a partition that has ended.
        self.branches.values().try_for_each(|branch| branch.core.check_open())?;
        match self.shard.is(partition.core().shard()) {
            true => Ok(()),
            false => Err(Error::unsupported(
                "transactions over several physical partitions are supported where these lie on one shard only",
            )),
        }
    }

    /// The item of a name, as the transaction sees it.
    pub async fn read(
        &self,
        partition: &Partition,
        shape: &Arc<ContainerSchema>,
        logical: &LogicalKey,
        id: &str,
    ) -> Result<ItemReply> {
        self.check_reach(partition)?;
        let key = keys::item_key(partition.uid, logical, id);
        let record = match self.view.own.get(&key) {
            Some(own) => own.clone(),
            None => self.view.hot.view().get(&key).await.map_err(crate::storage_error)?,
        };
        // The view's content counts for as long as the partition answers for it.
        partition.check_open()?;
        let item = record.map(|record| StoredItem::decode(record, shape)).transpose()?;
        let Some(item) = item.filter(|item| !item.is_expired(self.command.now.seconds())) else {
            return Err(answers::not_found().with_meta(partition.meta(shape.charges.not_found().0, 0)));
        };
        answers::read_reply(partition.core().origin(), shape, &self.command, item, &Preconditions::default())
    }

    /// One step. A failed one changes nothing.
    pub async fn execute(
        &mut self,
        partition: &Arc<Partition>,
        shape: &Arc<ContainerSchema>,
        logical: &LogicalKey,
        (operation, etag): (Operation, Guid),
    ) -> Result<ItemReply> {
        self.check_reach(partition)?;
        self.check_bounds(shape)?;
        let branch = self.branches.entry(partition.uid).or_insert_with(|| Branch {
            core: partition.core().clone(),
            shape: shape.clone(),
            base: Arc::default(),
            claimed: Claimed::none(&partition.core().transactions.claims),
            displaced: FxHashMap::default(),
        });
        branch.shape = shape.clone();
        let key = Bytes::from(keys::item_key(partition.uid, logical, operation.id()));
        let seen = match branch.displaced.contains_key(&key) {
            true => None,
            false => {
                let seen = self.view.hot.view().get(&key).await.map_err(crate::storage_error)?;
                Some(fingerprint(seen.as_ref()))
            }
        };
        let (command, logical) = (self.command.clone(), logical.clone());
        let step = Arc::new(SnapshotStep { command, logical, operation, etag, key, seen });
        let outcome = branch.plan(&step).await;
        match outcome {
            Ok((reply, step)) => {
                let own = Arc::make_mut(&mut self.view.own);
                for (key, record) in step.writes.iter().filter(|(key, _)| keys::is_item(key)) {
                    own.put(key.clone(), record.clone());
                }
                Arc::make_mut(&mut branch.base).add(step);
                Ok(reply)
            }
            Err(mut error) => {
                let charge = error.meta().charge_centi.max(shape.charges.not_found().0);
                *error.meta_mut() = partition.meta(charge, 0);
                Err(error)
            }
        }
    }

    fn check_bounds(&mut self, shape: &ContainerSchema) -> Result<()> {
        let limits = &shape.limits;
        let (writes, size_bytes) =
            (limits.snapshot_transaction_writes_max, limits.transaction_size_bytes_max);
        if self.writes >= writes || self.size_bytes() >= size_bytes {
            let words =
                format!("{TRANSACTION_TOO_LARGE} {writes} times and {size_bytes} bytes: write less in each");
            return Err(Error::new(ErrorKind::TooLarge, words));
        }
        self.writes += 1;
        Ok(())
    }
}

impl Branch {
    /// Plans a step on top of everything queued and of the steps before, and claims the rows that
    /// it writes.
    async fn plan(&mut self, step: &Arc<SnapshotStep>) -> Result<(ItemReply, Step)> {
        let (core, shape) = (self.core.clone(), self.shape.clone());
        let mut task = task(&shape, &step.command, Some(&self.base));
        let mut reads = ReadSet::default();
        if step.operation.item().is_some_and(PreparedBody::is_heavy) {
            task.is_heavy = true;
            step.look_ahead(&core, &task, &mut reads).await?;
        }
        loop {
            let mut turn = core.sequencer.hold().await;
            core.check_open()?;
            turn.pending.forget_applied(core.shard().applied());
            let planned;
            (turn, planned) = plan(&core, turn, (&task, task.now.into()), &mut reads, step).await?;
            match planned {
                Ok((reply, planned, displaced)) => {
                    if !self.claimed.take(displaced.iter().map(|(key, _)| key.clone())) {
                        return Err(conflict());
                    }
                    turn.reserve_ordinals(planned.next_ordinal);
                    let displaced = displaced.into_iter();
                    self.displaced.extend(displaced.map(|(key, value)| (key, fingerprint(value.as_ref()))));
                    return Ok((reply, planned));
                }
                Err(stop) => {
                    drop(turn);
                    go_on_after(&core, stop, &mut task, &mut reads, step).await?;
                }
            }
        }
    }
}

/// The step holds no gate, and the rows that it meets are compared with those that it saw.
pub(super) fn task<'t>(
    shape: &'t Arc<ContainerSchema>,
    command: &CommandContext,
    base: Option<&'t Arc<Base>>,
) -> Task<'t> {
    let (now, writer) = (command.now, Writer::Holder);
    Task { shape, now, is_decided: true, writer, is_clients: true, rows: 0, is_heavy: false, base }
}

/// One operation, on top of the steps before.
struct SnapshotStep {
    command: CommandContext,
    logical: LogicalKey,
    operation: Operation,
    etag: Guid,
    /// Key of the item that the operation names.
    key: Bytes,
    /// The item in the view; `None` where the transaction has written it already.
    seen: Option<Fingerprint>,
}

impl Work for Arc<SnapshotStep> {
    type Outcome = (ItemReply, Step, Vec<(Bytes, Option<Bytes>)>);

    fn plan(&self, mut transaction: Transaction<'_>) -> Plan<Self::Outcome> {
        if let Some(seen) = self.seen
            && fingerprint(transaction.get(&self.key)?.as_ref()) != seen
        {
            return Err(Stop::Error(conflict()));
        }
        let reply = transaction.apply(&self.command, self.etag, &self.logical, &self.operation)?;
        transaction.record_size_within_limits()?;
        let displaced = transaction.displaced()?;
        Ok((reply, transaction.into_step(), displaced))
    }

    fn owned(&self) -> impl Work<Outcome = Self::Outcome> + Send + 'static {
        self.clone()
    }

    fn footprint(&self, origin: Origin, shape: &ContainerSchema) -> Vec<Bytes> {
        footprint(origin, shape, &self.logical, std::slice::from_ref(&self.operation))
    }

    async fn look_ahead(&self, core: &Core, task: &Task<'_>, reads: &mut ReadSet) -> Result<usize> {
        let operations = std::slice::from_ref(&self.operation);
        look_ahead(core, task.shape, reads, (&self.logical, operations)).await
    }
}
