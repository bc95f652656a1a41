//! Archiving of the account's log, for restores to a point in time: `--restore-window`.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use shardlake_account::{Shards, stamp_key};
use shardlake_stdx::{Clock, Random};
use shardlake_storage::HistoryOptions;

use crate::config::Config;

/// After the shards are open, and before anything is written to them.
pub async fn begin(
    config: &Config,
    shards: &Shards,
    (clock, random): (&Clock, &Random),
) -> Result<(), String> {
    let failed = |error: shardlake_storage::StorageError| error.to_string();
    let Some(window) = config.restore_window else {
        for shard in shards.iter() {
            shard.forget_history(&stamp_key()).await.map_err(failed)?;
        }
        return Ok(());
    };
    let options = HistoryOptions {
        key: stamp_key(),
        window,
        clock: clock.clone(),
        random: random.clone(),
        times: Arc::new(AtomicU64::new(0)),
    };
    for shard in shards.iter() {
        shard.keep_history(&options).await.map_err(failed)?;
    }
    Ok(())
}
