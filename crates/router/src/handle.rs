//! A partition as everything above the router knows it: an address, and the way to its owner.

use std::sync::Arc;

use shardlake_host::{Command, Hosted, ReadChanges, loopback};
use shardlake_model::{ReplyMeta, RequestContext, Result};
use shardlake_partition::{ChangeSink, FeedFound, PartitionUid};
use shardlake_routing::KeyRange;

/// A partition by its address. Cheap to clone; stays valid, though perhaps outdated, for as long as it is held.
#[derive(Debug, Clone)]
pub struct PartitionHandle(Arc<Slot>);

#[derive(Debug)]
struct Slot {
    target: Target,
}

/// How the partitions of this process are reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reach {
    #[default]
    Direct,
    /// As if each were in another process: for tests.
    Loopback,
}

/// Where the partition is open.
#[derive(Debug)]
enum Target {
    /// In this process.
    Local(Hosted),
    /// In this process, and reached as if it were in another one.
    Loopback(Hosted),
}

impl PartitionHandle {
    pub(crate) fn new(hosted: Hosted, reach: Reach) -> PartitionHandle {
        let target = match reach {
            Reach::Direct => Target::Local(hosted),
            Reach::Loopback => Target::Loopback(hosted),
        };
        PartitionHandle(Arc::new(Slot { target }))
    }

    /// The open partition, for the work of its owner: background work, procedures and transactions.
    pub fn hosted(&self) -> &Hosted {
        match &self.0.target {
            Target::Local(hosted) | Target::Loopback(hosted) => hosted,
        }
    }

    /// Runs a command at the owner.
    pub async fn send<C: Command>(&self, ctx: &RequestContext, command: &C) -> Result<C::Reply> {
        match &self.0.target {
            Target::Local(hosted) => command.run(hosted, ctx).await,
            // On the heap: the futures of commands that stay here do not carry it along.
            Target::Loopback(hosted) => Box::pin(loopback::send(hosted, ctx, command)).await,
        }
    }

    /// Hands a page of the change feed to a sink.
    pub async fn read_changes(
        &self,
        ctx: &RequestContext,
        command: &ReadChanges,
        out: &mut dyn ChangeSink,
    ) -> Result<FeedFound> {
        match &self.0.target {
            Target::Local(hosted) => hosted.read_changes(ctx, command, out).await,
            Target::Loopback(hosted) => Box::pin(loopback::read_changes(hosted, ctx, command, out)).await,
        }
    }

    /// Whether it is open on another node, or reached as if it were.
    pub fn is_elsewhere(&self) -> bool {
        matches!(self.0.target, Target::Loopback(_))
    }

    pub fn uid(&self) -> PartitionUid {
        self.hosted().partition().uid
    }

    pub fn range_id(&self) -> u32 {
        self.hosted().partition().range_id
    }

    pub fn epk_range(&self) -> &KeyRange {
        &self.hosted().partition().epk_range
    }

    /// See [`ReplyMeta::session_version`].
    pub fn session_version(&self) -> i64 {
        self.hosted().partition().session_version
    }

    /// Highest LSN known to be acknowledged.
    pub fn durable_lsn(&self) -> u64 {
        self.hosted().partition().durable_lsn()
    }

    /// Acknowledged items.
    pub fn items(&self) -> u64 {
        self.hosted().partition().items()
    }

    pub fn size_bytes(&self) -> u64 {
        self.hosted().partition().size_bytes()
    }

    /// The time of the last commit that was queued; zero where nothing was ever written.
    pub fn last_queued_ms(&self) -> u64 {
        self.hosted().partition().last_queued_ms()
    }

    pub fn meta(&self, charge_centi: u64, item_lsn: u64) -> ReplyMeta {
        self.hosted().partition().meta(charge_centi, item_lsn)
    }

    /// Refuses requests once the partition has ended.
    pub fn check_open(&self) -> Result<()> {
        self.hosted().partition().check_open()
    }

    /// Waits until a commit above an LSN is durable, or the partition ends.
    pub async fn wait_for_change(&self, after: u64) {
        self.hosted().partition().wait_for_change(after).await;
    }
}
