//! Positions of all functions, stored in one change of the catalog, at most one a second and none when nothing moves.

use std::sync::Arc;
use std::time::Duration;

use shardlake_catalog::{Checkpoint, Definitions, HoldState, Holder};
use shardlake_model::{ErrorKind, Result};
use shardlake_partition::storage_error;

use crate::Functions;
use crate::entries::FunctionEntry;

const SAVE_EVERY: Duration = Duration::from_secs(1);

pub(crate) fn start(functions: &Functions) {
    let state = Arc::downgrade(&functions.0);
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(SAVE_EVERY).await;
            let Some(state) = state.upgrade() else { return };
            let functions = Functions(state);
            if let Err(error) = save(&functions).await
                && !functions.router().is_closing()
            {
                tracing::warn!(%error, "the positions of functions were not stored: that is tried again");
            }
        }
    });
}

/// Stores the positions that have moved. Everything that they count is durable before, on every shard.
pub(crate) async fn save(functions: &Functions) -> Result<()> {
    let _order = functions.0.saving.lock().await;
    let moved: Vec<(Arc<FunctionEntry>, Checkpoint)> =
        functions.entries().into_iter().filter_map(moved_of).collect();
    if moved.is_empty() || functions.router().is_closing() {
        return Ok(());
    }
    settle(functions).await?;
    let stored: Vec<(u32, Checkpoint)> =
        moved.iter().map(|(entry, checkpoint)| (entry.number, checkpoint.clone())).collect();
    let plan = move |_: &_, draft: &mut Definitions| {
        for (number, checkpoint) in stored {
            if draft.functions.contains(&number) {
                draft.checkpoints.put(number, checkpoint);
            }
        }
        Ok(())
    };
    functions.router().change(plan).await?;
    for (entry, checkpoint) in moved {
        hold(functions, &entry, &checkpoint).await?;
        entry.status.live().saved = checkpoint;
    }
    Ok(())
}

fn moved_of(entry: Arc<FunctionEntry>) -> Option<(Arc<FunctionEntry>, Checkpoint)> {
    let moved = {
        let live = entry.status.live();
        (live.checkpoint != live.saved).then(|| live.checkpoint.clone())
    };
    moved.map(|checkpoint| (entry, checkpoint))
}

/// Waits until everything applied so far is durable. A position must not outlive the commits that it counts, since
/// their LSNs would be given out again.
pub(crate) async fn settle(functions: &Functions) -> Result<()> {
    for shard in functions.router().stores().iter() {
        shard.wait_durable(shard.applied()).await.map_err(storage_error)?;
    }
    Ok(())
}

/// Keeps the source's log for a function from its stored progress on.
pub(crate) async fn hold(
    functions: &Functions,
    entry: &FunctionEntry,
    checkpoint: &Checkpoint,
) -> Result<()> {
    let (router, holder) = (functions.router(), Holder::Copy(entry.number));
    let position = checkpoint.source.clone();
    if router.move_hold(entry.source, holder, position.clone()) == Some(HoldState::Held) {
        return Ok(());
    }
    // It was too slow, or restored: the next round finds out whether the log has a hole.
    match router.hold_log(entry.source, holder, position).await {
        // The source was deleted.
        Err(error) if error.kind() == ErrorKind::OwnerNotFound => Ok(()),
        held => held,
    }
}
