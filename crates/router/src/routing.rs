//! The way of an operation to its partition: find the owner, run; retry where the partition has moved meanwhile.
//!
//! A handle may be older than the last split, merge or move. A partition that gave up its items reports this
//! ([`ErrorKind::PartitionGone`]) when the catalog names its successors. A request for a key then continues
//! at the successor unnoticed; a request that named the range by its id gets the error.

use std::sync::Arc;

use shardlake_host::Command;
use shardlake_model::{ContainerRid, ErrorKind, RequestContext, Result};
use shardlake_partition::LogicalKey;
use shardlake_stdx::Guid;
use shardlake_storage::Shard;

use crate::Serving;
use crate::container_handle::{ContainerEntry, ContainerHandle};
use crate::handle::PartitionHandle;
use crate::keys::partition_of;
use crate::live_catalog::LiveCatalog;
use crate::refusals::was_deleted;

/// Partitions that one operation may find moved, one after the other, before it gives up.
const MOVES_MAX: usize = 8;

/// Routing of one operation.
pub struct Routing<'a> {
    serving: &'a Serving,
    pub entry: Arc<ContainerEntry>,
    moves: usize,
}

impl Routing<'_> {
    pub fn owner(&self, logical: &LogicalKey) -> &PartitionHandle {
        partition_of(&self.entry, logical)
    }

    /// Whether the operation is to be done again, with the current partition map.
    pub async fn has_moved<T>(&mut self, outcome: &Result<T>) -> Result<bool> {
        match outcome {
            Err(error) if error.kind() == ErrorKind::PartitionGone && self.moves < MOVES_MAX => {
                // On the heap: every operation's future is as large as the largest future that it may await.
                Box::pin(self.follow()).await
            }
            _ => Ok(false),
        }
    }

    /// Waits for the successors of a partition that has ended.
    async fn follow(&mut self) -> Result<bool> {
        self.moves += 1;
        assert!(self.moves <= MOVES_MAX, "a request follows a bounded number of moves");
        let mut versions = self.serving.0.catalog_version.subscribe();
        loop {
            versions.borrow_and_update();
            let current = self.serving.current_entry(&self.entry)?;
            assert!(
                current.record.generation >= self.entry.record.generation,
                "the routing of a container never moves back"
            );
            // Sources end slightly before the catalog names their successors.
            let is_about_to_change = current.record.generation == self.entry.record.generation
                && current.map.iter().any(|partition| partition.hosted().is_gone());
            self.entry = current;
            if !is_about_to_change {
                return Ok(true);
            }
            if versions.changed().await.is_err() {
                return Ok(false);
            }
        }
    }
}

impl Serving {
    /// Sends a command to the owner of a key; again where the partition has moved meanwhile.
    pub async fn send<C: Command>(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        key: &LogicalKey,
        command: &C,
    ) -> Result<C::Reply> {
        let mut routing = self.routing(container);
        loop {
            let outcome = routing.owner(key).send(ctx, command).await;
            if !routing.has_moved(&outcome).await? {
                return outcome;
            }
        }
    }

    /// The context of the server's own work.
    pub fn own_context(&self) -> RequestContext {
        RequestContext::internal(self.clock(), Guid::default())
    }

    pub fn routing(&self, container: &ContainerHandle) -> Routing<'_> {
        self.routing_of(container.entry.clone())
    }

    pub fn routing_of(&self, entry: Arc<ContainerEntry>) -> Routing<'_> {
        Routing { serving: self, entry, moves: 0 }
    }

    /// The shards of the account, in the order of their numbers.
    pub fn shards(&self) -> impl Iterator<Item = &Shard> {
        self.0.shards.iter()
    }

    /// The catalog in force.
    pub fn live_catalog(&self) -> Arc<LiveCatalog> {
        self.0.catalog.load_full()
    }

    /// The entry of a container as the catalog has it now.
    pub fn current_entry(&self, entry: &ContainerEntry) -> Result<Arc<ContainerEntry>> {
        self.entry_of_rid(entry.record.container.rid)
    }

    pub fn entry_of_rid(&self, rid: ContainerRid) -> Result<Arc<ContainerEntry>> {
        self.0.catalog.load().container_of_rid(rid).cloned().ok_or_else(was_deleted)
    }
}
