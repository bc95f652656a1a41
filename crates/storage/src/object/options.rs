//! Options to open a shard in a store, and the place where it lies.

use std::sync::Arc;
use std::time::Duration;

use shardlake_stdx::Clock;
use slatedb::object_store::ObjectStore;
use slatedb::object_store::path::Path;
use tokio::runtime::Handle;

use super::circuit::Circuits;
use super::compactor::Drops;
use super::disk_cache::DiskCache;
use super::filters::IsScanned;
use super::settings::SharedCache;
use super::write_memory::WriteMemory;
use crate::Lease;

#[derive(Debug, Clone)]
pub struct ObjectOptions {
    pub store: Arc<dyn ObjectStore>,
    /// Path of the shard in the store.
    pub path: String,
    /// Where it is known to have been made.
    pub must_exist: bool,
    /// Epoch of this owner: see [`crate::ShardOptions::epoch`].
    pub epoch: Option<u64>,
    /// Without one, the process owns the shard for as long as the store takes its writes.
    pub lease: Option<Arc<Lease>>,
    /// Without any, requests wait for a store that fails.
    pub circuits: Option<Circuits>,
    /// Shared by all shards of the process.
    pub disk_cache: Option<Arc<DiskCache>>,
    /// Shared by all shards of the process, which have different numbers.
    pub cache: SharedCache,
    pub number: u64,
    /// A quarter of the memory for rows of this shard that are in no table yet, if all shards are
    /// written to alike.
    pub memtable_bytes: u64,
    /// Shared by all shards of the process.
    pub write_memory: WriteMemory,
    /// Number of shards of the process: they share the memory that merges read ahead into, and the
    /// rate at which stores are asked for orders.
    pub shards: u16,
    /// For how long the log stays; at least a day.
    pub log_kept: Duration,
    /// Clock of the machine. The database has its own, which follows it and never goes back.
    pub clock: Clock,
    /// Keys that no filter needs to know.
    pub is_scanned: IsScanned,
}

/// Where a shard lies, and the runtime on which the store's sockets and timers live.
#[derive(Clone)]
pub(super) struct Place {
    pub store: Arc<dyn ObjectStore>,
    pub path: Path,
    pub runtime: Handle,
    pub is_scanned: IsScanned,
    pub circuits: Option<Circuits>,
    pub drops: Drops,
}
