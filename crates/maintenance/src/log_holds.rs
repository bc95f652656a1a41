//! Stores how far the followers of change logs are: all that have moved, in one batch each ten seconds. Gives
//! up the holds of followers that are too slow.

use std::time::Duration;

use shardlake_model::Result;

use crate::{Held, Upkeep};

const STORE_EVERY: Duration = Duration::from_secs(10);

pub(crate) fn start(upkeep: &Upkeep) {
    let held = Held::of(upkeep);
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(STORE_EVERY).await;
            let Some(upkeep) = held.upkeep() else { return };
            if let Err(error) = upkeep.store_log_holds().await
                && !upkeep.router().is_closing()
            {
                tracing::warn!(%error, "the holds of followers on change logs were not stored");
            }
        }
    });
}

pub(crate) async fn store(upkeep: &Upkeep) -> Result<()> {
    for (container, holder) in upkeep.router().store_moved_holds().await? {
        tracing::warn!(%container, ?holder, "a follower is too slow: the change log is not kept for it any more");
    }
    Ok(())
}
