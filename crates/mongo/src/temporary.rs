//! Temporary collections: made by a command for its own use, and deleted when the command ends.
//!
//! A mark in the catalog's record of the container makes a collection temporary. The name does not: a client's own collection
//! may have any name. A rename clears the mark.
//!
//! ```text
//! the command ends with an error, is killed, or its client leaves   the task of the command deletes the collection
//! the process ends                                                  the next start deletes it
//! ```
//!
//! A command's future can be dropped at any await. So the work on a temporary collection runs on a task of its own
//! ([`guarded`]), which is notified when its command's future is dropped and always reaches its end.

use std::future::Future;

use shardlake_model::{Container, ContainerRid};
use shardlake_router::{Definitions, LiveCatalog};
use tokio::sync::oneshot;

use crate::collections::Collections;
use crate::failure::{Failure, Result};
use crate::meta::Meta;

const INTERRUPTED: i32 = 11601;

/// Notified when the future of the command is dropped.
pub(crate) struct Interruption(oneshot::Receiver<()>);

impl Interruption {
    /// Runs work that may be dropped at any await, until the command is interrupted.
    pub async fn or<T>(self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            biased;
            outcome = work => outcome,
            _ = self.0 => Err(Failure::new(INTERRUPTED, "operation was interrupted")),
        }
    }
}

/// Runs work on a task that nothing drops. The work learns from its [`Interruption`] that its command was interrupted.
pub(crate) async fn guarded<T, W>(work: impl FnOnce(Interruption) -> W) -> Result<T>
where
    T: Send + 'static,
    W: Future<Output = Result<T>> + Send + 'static,
{
    let (_command, interruption) = oneshot::channel();
    let task = tokio::spawn(work(Interruption(interruption)));
    task.await.map_err(|_| Failure::new(1, "a command ended without an answer"))?
}

fn is_temporary(container: &Container) -> bool {
    Meta::of(container).is_ok_and(|meta| meta.is_temporary)
}

impl Collections {
    /// Deletes a collection if it is still temporary.
    pub(crate) async fn drop_temporary(&self, rid: ContainerRid) -> Result<()> {
        let plan = move |_: &LiveCatalog, draft: &mut Definitions| {
            if draft.containers.get(&rid).is_some_and(|record| is_temporary(&record.container)) {
                draft.remove_container(rid);
            }
            Ok(())
        };
        self.queries.router().change(plan).await?;
        Ok(())
    }

    /// Deletes the temporary collections of the previous process. For a start, before any client is served.
    pub async fn drop_temporaries(&self) -> Result<()> {
        let plan = |_: &LiveCatalog, draft: &mut Definitions| {
            let temporary = draft.containers.iter().filter(|(_, record)| is_temporary(&record.container));
            let temporary: Vec<ContainerRid> = temporary.map(|(rid, _)| *rid).collect();
            temporary.iter().for_each(|rid| draft.remove_container(*rid));
            Ok(temporary.len())
        };
        let (deleted, _) = self.queries.router().change(plan).await?;
        if deleted > 0 {
            tracing::info!(
                collections = deleted,
                "temporary collections of interrupted commands are deleted"
            );
        }
        Ok(())
    }
}
