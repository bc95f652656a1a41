//! Transactions of clients: they last for several commands, read at one point in time and write at the end.
//!
//! A transaction reads the point in time of its first command, even if that command finds no container: it
//! keeps the catalog and a view of every shard. Its first read or write of an item chooses the shard: all
//! items of the transaction have to be there. A container of the kept catalog must still have the same
//! partitions later: the view shows nothing of a partition that has been replaced since.
//!
//! ```text
//! new ── begin ──► views of all shards ── first item ──► view of one shard ── commit ──► over
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use shardlake_host::{OperationKind, Touched, cost_of_item};
use shardlake_model::{Error, ErrorKind, RequestContext, Result};
use shardlake_partition::{ItemReply, SnapshotTransaction, StatementRow, TransactionView, Uncommitted};
use shardlake_router::{
    ContainerEntry, ContainerHandle, LiveCatalog, PartitionHandle, key_of_read, partition_of,
};
use tokio::sync::{Mutex, MutexGuard};

use crate::Items;
use crate::command::{ReadCommand, WriteCommand};

/// Memory budget for the writes of all open transactions together.
#[derive(Debug)]
pub struct TransactionSpace {
    taken_bytes: AtomicUsize,
    bytes_max: usize,
}

impl TransactionSpace {
    pub fn new(bytes_max: usize) -> TransactionSpace {
        TransactionSpace { taken_bytes: AtomicUsize::new(0), bytes_max }
    }

    fn check(&self) -> Result<()> {
        match self.taken_bytes.load(Ordering::Relaxed) < self.bytes_max {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::PreconditionFailed,
                "open transactions hold as much as they may together: begin the transaction anew when some have ended",
            )),
        }
    }
}

/// The share of one transaction.
#[derive(Debug)]
struct Taken {
    space: Arc<TransactionSpace>,
    bytes: usize,
}

impl Taken {
    fn grow_to(&mut self, bytes: usize) {
        self.space.taken_bytes.fetch_add(bytes.saturating_sub(self.bytes), Ordering::Relaxed);
        self.bytes = self.bytes.max(bytes);
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let before = self.space.taken_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        debug_assert!(before >= self.bytes, "memory that a transaction gives back was taken");
    }
}

/// A transaction in the hands of a front end. Commands of one transaction wait for each other.
#[derive(Debug)]
pub struct OpenTransaction {
    state: Mutex<State>,
    space: Arc<TransactionSpace>,
    /// Set first, so that a running command of the transaction finds out that it was aborted.
    is_over: AtomicBool,
}

#[derive(Debug, Default)]
enum State {
    /// Nothing was read or written yet.
    #[default]
    New,
    /// No item was read or written yet: the transaction has a view of each shard.
    Pinned(Box<Pinned>),
    Begun(Box<Begun>),
    Over,
}

/// The point in time of a transaction.
#[derive(Debug)]
struct Pinned {
    catalog: Arc<LiveCatalog>,
    views: Vec<SnapshotTransaction>,
}

impl Pinned {
    fn now(items: &Items, ctx: &RequestContext) -> Pinned {
        // The catalog comes first: the views then show every collection in it.
        let catalog = items.router().live_catalog();
        let views =
            items.router().shards().map(|shard| SnapshotTransaction::begin(shard, items.command(ctx, 0)));
        Pinned { catalog, views: views.collect() }
    }

    /// Keeps the view of a partition's shard, and drops the others.
    fn on_shard_of(self, partition: &PartitionHandle, space: &Arc<TransactionSpace>) -> Result<Begun> {
        let view = self.views.into_iter().find(|view| view.is_on_shard_of(partition.hosted().partition()));
        let Some(transaction) = view else {
            return Err(Error::new(
                ErrorKind::PreconditionFailed,
                "the partition was moved since the transaction began: begin it anew",
            ));
        };
        Ok(Begun { catalog: self.catalog, transaction, taken: Taken { space: space.clone(), bytes: 0 } })
    }
}

#[derive(Debug)]
struct Begun {
    catalog: Arc<LiveCatalog>,
    transaction: SnapshotTransaction,
    taken: Taken,
}

fn is_over() -> Error {
    Error::new(ErrorKind::PreconditionFailed, "the transaction has ended")
}

impl OpenTransaction {
    pub fn new(space: Arc<TransactionSpace>) -> OpenTransaction {
        OpenTransaction { state: Mutex::default(), space, is_over: AtomicBool::new(false) }
    }

    /// Aborts the transaction. To be called when no command of the transaction is running; a running one
    /// finds out with its next step.
    pub fn abort(&self) {
        self.is_over.store(true, Ordering::Release);
        if let Ok(mut state) = self.state.try_lock() {
            *state = State::Over;
        }
    }

    /// Commits everything, or nothing. The future must run to its end: a caller that drops it does not learn
    /// the outcome. `row` is stored with the writes, if there are any.
    pub async fn commit(&self, row: Option<StatementRow>) -> Result<(), Uncommitted> {
        let state = std::mem::replace(&mut *self.state.lock().await, State::Over);
        let was_over = self.is_over.swap(true, Ordering::AcqRel);
        match state {
            State::Over => Err(is_over().into()),
            _ if was_over => Err(is_over().into()),
            State::New | State::Pinned(_) => Ok(()),
            State::Begun(begun) => begun.transaction.commit(row).await,
        }
    }

    /// Pins the point in time that the transaction reads. To be called before the first command looks for
    /// anything: an answer about a missing container belongs to this point, too.
    pub async fn begin(&self, items: &Items, ctx: &RequestContext) {
        let mut state = self.state.lock().await;
        if let State::New = *state {
            *state = State::Pinned(Box::new(Pinned::now(items, ctx)));
        }
    }

    /// The transaction, on the shard of the first partition that it meets.
    async fn begun(
        &self,
        items: &Items,
        ctx: &RequestContext,
        (entry, partition): (&ContainerEntry, &PartitionHandle),
    ) -> Result<Working<'_>> {
        let mut state = self.state.lock().await;
        if self.is_over.load(Ordering::Acquire) {
            *state = State::Over;
        }
        *state = match std::mem::replace(&mut *state, State::Over) {
            State::New => {
                let pinned = Pinned::now(items, ctx);
                State::Begun(Box::new(pinned.on_shard_of(partition, &self.space)?))
            }
            State::Pinned(pinned) => State::Begun(Box::new(pinned.on_shard_of(partition, &self.space)?)),
            state @ (State::Begun(_) | State::Over) => state,
        };
        let working = Working(state);
        working.check(entry, partition)?;
        Ok(working)
    }

    /// The transaction's view of the given partitions of a container; `None` without partitions.
    pub async fn view<'p>(
        &self,
        items: &Items,
        ctx: &RequestContext,
        entry: &ContainerEntry,
        partitions: impl Iterator<Item = &'p PartitionHandle>,
    ) -> Result<Option<TransactionView>> {
        let mut view = None;
        for partition in partitions {
            let working = self.begun(items, ctx, (entry, partition)).await?;
            let begun = working.begun()?;
            begun.transaction.check_reach(partition.hosted().partition())?;
            view = Some(begun.view_of(entry));
        }
        Ok(view)
    }
}

/// A transaction while a command runs in it.
struct Working<'t>(MutexGuard<'t, State>);

impl Working<'_> {
    fn begun(&self) -> Result<&Begun> {
        match &*self.0 {
            State::Begun(begun) => Ok(begun),
            State::New | State::Pinned(_) | State::Over => Err(is_over()),
        }
    }

    fn begun_mut(&mut self) -> Result<&mut Begun> {
        match &mut *self.0 {
            State::Begun(begun) => Ok(begun),
            State::New | State::Pinned(_) | State::Over => Err(is_over()),
        }
    }

    /// Refuses a partition that was made of others since the transaction began.
    fn check(&self, entry: &ContainerEntry, partition: &PartitionHandle) -> Result<()> {
        let Some(then) = self.begun()?.catalog.container_of_rid(entry.record.container.rid) else {
            return Ok(());
        };
        match then.map.iter().any(|own| own.uid() == partition.uid()) {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::PreconditionFailed,
                "the partition was split, merged or moved since the transaction began: begin it anew",
            )),
        }
    }
}

impl Begun {
    fn view_of(&self, entry: &ContainerEntry) -> TransactionView {
        let view = self.transaction.view().clone();
        let serving = |entry: &ContainerEntry| entry.shape.serving.as_ref().map(|layout| layout.id);
        match self.catalog.container_of_rid(entry.record.container.rid) {
            Some(then) if serving(then) == serving(entry) => view.with_index(),
            _ => view,
        }
    }
}

impl Items {
    /// Creates, upserts, replaces, patches or deletes one item in a transaction.
    pub async fn write_within(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        transaction: &OpenTransaction,
        command: WriteCommand,
    ) -> Result<ItemReply> {
        let (logical, operation) = self.planned(container, command.key.as_ref(), command.write).await?;
        let entry = &container.entry;
        let partition = partition_of(entry, &logical);
        let permit = partition.hosted().admit(ctx, OperationKind::Write, Touched::Logical(&logical))?;
        let work = async {
            let mut working = transaction.begun(self, ctx, (entry, partition)).await?;
            let begun = working.begun_mut()?;
            begun.taken.space.check()?;
            let etag = self.router().random().guid();
            let step = begun.transaction.execute(
                partition.hosted().partition(),
                &entry.shape,
                &logical,
                (operation, etag),
            );
            let reply = step.await?;
            begun.taken.grow_to(begun.transaction.size_bytes());
            Ok(reply)
        };
        let outcome = Box::pin(work).await;
        permit.settle_outcome(&outcome, cost_of_item);
        outcome
    }

    /// Reads one item as a transaction sees it.
    pub async fn read_within(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        transaction: &OpenTransaction,
        command: ReadCommand,
    ) -> Result<ItemReply> {
        let logical = key_of_read(container, command.key.as_ref())?;
        let id = self.resolved(container, &logical, command.read.item).await?;
        let entry = &container.entry;
        let partition = partition_of(entry, &logical);
        let permit = partition.hosted().admit(ctx, OperationKind::Read, Touched::Logical(&logical))?;
        let work = async {
            let working = transaction.begun(self, ctx, (entry, partition)).await?;
            working
                .begun()?
                .transaction
                .read(partition.hosted().partition(), &entry.shape, &logical, &id)
                .await
        };
        let outcome = Box::pin(work).await;
        permit.settle_outcome(&outcome, cost_of_item);
        outcome
    }
}
