//! A writer's handle of its commit until the commit may be acknowledged.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use crate::committer::lead;
use crate::shared::Shared;
use crate::{Seq, StorageError, witness};

/// A queued commit; resolves when it may be acknowledged.
pub struct PendingCommit {
    pub(crate) seq: Seq,
    pub(crate) receiver: oneshot::Receiver<Result<(), StorageError>>,
    /// The committer was not woken: this future sees to the commit when it is first polled, or when it is dropped.
    pub(crate) lead: Option<Arc<Shared>>,
}

impl fmt::Debug for PendingCommit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "commit {}", self.seq)
    }
}

impl Drop for PendingCommit {
    fn drop(&mut self) {
        self.begin();
    }
}

impl PendingCommit {
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// Has the commit written although no caller waits for it yet.
    pub fn begin(&mut self) {
        if let Some(shared) = self.lead.take() {
            shared.queue.call_committer();
        }
    }
}

impl Future for PendingCommit {
    type Output = Result<(), StorageError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        witness::may_wait("a commit");
        if let Some(shared) = self.lead.take() {
            lead(&shared);
        }
        // The committer answers every commit, unless an engine panicked under it.
        let gone = || Err(StorageError::Poisoned { reason: "the storage engine panicked".into() });
        Pin::new(&mut self.receiver).poll(context).map(|result| result.unwrap_or_else(|_| gone()))
    }
}
