//! The shards of an account: independent stores, each with its own journal and sorted files.
//!
//! Shard 0 holds the catalog, which names the shard of every partition. A shard is named by its number, the same at
//! every opening; numbers have no gaps. This crate does not know whether a shard is a directory or memory.

use std::sync::Arc;

use shardlake_model::{Error, ErrorKind, Result};
use shardlake_storage::{PacedWork, Shard};

/// Bound on the number of shards: each has threads, memory and files of its own.
pub const SHARDS_MAX: usize = 64;
const _: () = assert!(SHARDS_MAX <= u16::MAX as usize, "records name shards by 16 bits");

/// One shard, or several in the order of their numbers. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Shards(Arc<[Shard]>);

impl From<Shard> for Shards {
    fn from(shard: Shard) -> Self {
        Shards(Arc::new([shard]))
    }
}

impl From<&Shard> for Shards {
    fn from(shard: &Shard) -> Self {
        shard.clone().into()
    }
}

impl From<Vec<Shard>> for Shards {
    fn from(shards: Vec<Shard>) -> Self {
        Shards(shards.into())
    }
}

impl From<&[Shard]> for Shards {
    fn from(shards: &[Shard]) -> Self {
        Shards(shards.into())
    }
}

impl From<&Shards> for Shards {
    fn from(shards: &Shards) -> Self {
        shards.clone()
    }
}

impl Shards {
    pub fn check_count(&self) -> Result<()> {
        if (1..=SHARDS_MAX).contains(&self.0.len()) {
            return Ok(());
        }
        Err(Error::bad_request(format!("an account has 1 to {SHARDS_MAX} shards, not {}", self.0.len())))
    }

    pub fn count(&self) -> u16 {
        self.0.len() as u16
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Shard> {
        self.0.iter()
    }

    /// The one with the catalog.
    pub fn first(&self) -> &Shard {
        &self.0[0]
    }

    pub fn get(&self, number: u16) -> Result<&Shard> {
        self.0.get(usize::from(number)).ok_or_else(|| {
            let needed = usize::from(number) + 1;
            Error::new(
                ErrorKind::Corrupt,
                format!("data of shard {number} is missing: start with --shards {needed} or more"),
            )
        })
    }

    /// Makes everything durable and closes every shard, the one with the catalog last; returns the first failure.
    pub async fn close(&self) -> Result<()> {
        let mut result = Ok(());
        for shard in self.0.iter().rev() {
            let closed = shard.close().await.map_err(shardlake_partition::storage_error);
            result = result.and(closed);
        }
        result
    }

    /// Background work on any of the shards, which gets a `patience`-th of the time of other background work.
    pub fn paced_work(&self, patience: u32) -> PacedWork {
        Shard::paced_work(self.iter(), patience)
    }

    /// Whether a client has asked any of the shards for something lately.
    pub fn have_clients(&self) -> bool {
        self.iter().any(Shard::has_clients)
    }

    /// Whether read data may be returned: this process holds the account's lease. It has all of its shards or none.
    pub fn is_leased(&self) -> bool {
        self.first().is_leased()
    }

    /// Whether the stores of all shards accept writes: see [`Shard::check_store`].
    pub fn accept_writes(&self) -> bool {
        self.iter().all(|shard| shard.check_store().is_ok())
    }

    /// Whether any shard has refused a write permanently.
    pub fn is_poisoned(&self) -> bool {
        self.iter().any(Shard::is_poisoned)
    }

    pub fn disk_bytes(&self) -> u64 {
        self.iter().map(Shard::disk_bytes).sum()
    }
}
