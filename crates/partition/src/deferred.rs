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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use shardlake_model::{Error, ErrorKind};

    use super::*;

    #[tokio::test]
    async fn the_last_wait_of_each_kind_and_partition_stands_for_the_earlier_ones() {
        let (deferred, waited) = (Deferred::default(), Arc::new(AtomicUsize::new(0)));
        let wait = |by: usize| -> Wait {
            let waited = waited.clone();
            Box::pin(async move {
                waited.fetch_add(by, Ordering::Relaxed);
                Ok(())
            })
        };
        deferred.note_commit(PartitionUid(1), wait(1));
        deferred.note_commit(PartitionUid(1), wait(10));
        deferred.note_met(PartitionUid(1), wait(100));
        deferred.note_commit(PartitionUid(2), wait(1000));
        deferred.wait().await.expect("acknowledged");
        assert_eq!(waited.load(Ordering::Relaxed), 1110);
        deferred.wait().await.expect("nothing is left");
        assert_eq!(waited.load(Ordering::Relaxed), 1110);
        deferred
            .note_met(PartitionUid(2), Box::pin(async { Err(Error::new(ErrorKind::Unavailable, "lost")) }));
        assert_eq!(deferred.wait().await.expect_err("lost").kind(), ErrorKind::Unavailable);
    }
}
