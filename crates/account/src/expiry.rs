//! Background removal of documents that an index with `expireAfterSeconds` has expired: looks every
//! minute, and rests as the shards' pacer demands.

use std::sync::Arc;
use std::time::Duration;

use shardlake_mongo::Collections;
use shardlake_router::Shards;

/// As often as MongoDB looks.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// Documents of one step where a caller waits for the end.
const DOCUMENTS_WHEN_ASKED: usize = 1024;

/// The task holds the account weakly, so that dropping it ends the work; `parts` are `None` once it is closed.
pub(crate) fn start<S: Send + Sync + 'static>(
    account: &Arc<S>,
    parts: fn(&S) -> Option<(&Collections, &Shards)>,
    every: Option<Duration>,
) {
    let held = Arc::downgrade(account);
    let every = every.unwrap_or(LOOK_EVERY);
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(every).await;
            let Some(account) = held.upgrade() else { return };
            let Some((collections, shards)) = parts(&account) else { return };
            let mut sweep = collections.begin_expiry();
            let mut work = (!sweep.is_complete()).then(|| shards.paced_work(1));
            drop(account);
            while let Some(work) = work.as_mut().filter(|_| !sweep.is_complete()) {
                let Some(account) = held.upgrade() else { return };
                let Some((collections, _)) = parts(&account) else { return };
                let wait = collections.expire_some(&mut sweep, work.rows()).await;
                drop(account);
                match wait {
                    Some(wait) => work.wait(wait).await,
                    None => work.pause().await,
                }
            }
            if sweep.removed() > 0 {
                tracing::debug!(
                    documents = sweep.removed(),
                    "removed documents whose time was over by an index"
                );
            }
        }
    });
}

/// Removes all expired documents now, without rest; returns their number.
pub(crate) async fn expire_all(collections: &Collections) -> u64 {
    let mut sweep = collections.begin_expiry();
    while !sweep.is_complete() {
        if let Some(wait) = collections.expire_some(&mut sweep, DOCUMENTS_WHEN_ASKED).await {
            tokio::time::sleep(wait).await;
        }
    }
    sweep.removed()
}
