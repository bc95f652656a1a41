//! Removes documents whose time is over by an index, in the background: looks every minute, and goes on as the pacer of the shards
//! says. The task holds the account weakly, so that dropping it ends the work.

use std::sync::Arc;
use std::time::Duration;

use crate::Account;
use crate::account::AccountState;

/// As often as MongoDB looks.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// Documents of one step where somebody waits for the end.
const DOCUMENTS_WHEN_ASKED: usize = 1024;

pub(crate) fn start(account: &Arc<AccountState>, every: Option<Duration>) {
    let every = every.unwrap_or(LOOK_EVERY);
    let held = Arc::downgrade(account);
    let state = move || held.upgrade().filter(|state| !state.is_closing());
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(every).await;
            let Some(account) = state() else { return };
            let mut sweep = account.collections.begin_expiry();
            let mut work = (!sweep.is_complete()).then(|| account.shards.paced_work(1));
            drop(account);
            while let Some(work) = work.as_mut().filter(|_| !sweep.is_complete()) {
                let Some(account) = state() else { return };
                let wait = account.collections.expire_some(&mut sweep, work.rows()).await;
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

impl Account {
    /// Removes what is over by an index with `expireAfterSeconds` now and without rest; says how many documents went. The
    /// server does so by itself every minute.
    pub async fn expire_documents(&self) -> u64 {
        let mut sweep = self.0.collections.begin_expiry();
        while !sweep.is_complete() {
            if let Some(wait) = self.0.collections.expire_some(&mut sweep, DOCUMENTS_WHEN_ASKED).await {
                tokio::time::sleep(wait).await;
            }
        }
        sweep.removed()
    }
}
