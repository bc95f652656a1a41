//! Acknowledgements that a command of many writes waits for together.
//!
//! Each write of such a command is planned and queued in its order, and returns then. Later writes
//! are planned behind it, like the writes of other writers. No write or read of the command may be
//! answered before [`Deferred::wait`] has returned.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use futures::future::BoxFuture;
use rustc_hash::FxHashMap;
use shardlake_model::{PartitionUid, Result};

#[derive(Default)]
pub struct Deferred(Mutex<FxHashMap<PartitionUid, Outstanding>>);

/// Waits for one partition. A commit is acknowledged after all before it, so the last wait of a kind stands for the earlier ones.
#[derive(Default)]
struct Outstanding {
    committed: Option<Wait>,
    met: Option<Wait>,
}

pub(crate) type Wait = BoxFuture<'static, Result<()>>;

impl fmt::Debug for Deferred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Deferred")
    }
}

impl Deferred {
    fn outstanding(&self) -> std::sync::MutexGuard<'_, FxHashMap<PartitionUid, Outstanding>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until the last commit is acknowledged.
    pub(crate) fn note_commit(&self, partition: PartitionUid, wait: Wait) {
        self.outstanding().entry(partition).or_default().committed = Some(wait);
    }

    /// Until the commits are acknowledged that an answer rests on.
    pub(crate) fn note_met(&self, partition: PartitionUid, wait: Wait) {
        self.outstanding().entry(partition).or_default().met = Some(wait);
    }

    /// Waits until everything noted so far may be answered.
    pub async fn wait(&self) -> Result<()> {
        let outstanding = std::mem::take(&mut *self.outstanding());
        for Outstanding { committed, met } in outstanding.into_values() {
            for wait in [committed, met].into_iter().flatten() {
                wait.await?;
            }
        }
        Ok(())
    }
}
