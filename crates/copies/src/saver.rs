//! Positions of all indexes, stored in one change of the catalog, at most one a second and none when
//! nothing moves.

use std::sync::Arc;
use std::time::Duration;

use shardlake_catalog::{Checkpoint, Definitions, HoldState, Holder, PlaceRecord};
use shardlake_model::{ErrorKind, Result};
use shardlake_partition::storage_error;

use crate::Copies;
use crate::entries::IndexEntry;
use crate::parts::held;

const SAVE_EVERY: Duration = Duration::from_secs(1);

/// Progress that is to be stored.
struct Moved {
    entry: Arc<IndexEntry>,
    generation: u16,
    checkpoint: Checkpoint,
}

pub(crate) fn start(copies: &Copies) {
    let state = Arc::downgrade(&copies.0);
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(SAVE_EVERY).await;
            let Some(state) = state.upgrade() else { return };
            let copies = Copies(state);
            if let Err(error) = save(&copies).await
                && !copies.router().is_closing()
            {
                tracing::warn!(%error, "the positions of indexes were not stored: that is tried again");
            }
        }
    });
}

/// Stores the positions that have moved. Everything that they count is durable before, on every shard.
pub(crate) async fn save(copies: &Copies) -> Result<()> {
    let _order = copies.0.saving.lock().await;
    let moved: Vec<Moved> = copies.entries().into_iter().filter_map(moved_of).collect();
    if moved.is_empty() || copies.router().is_closing() {
        return Ok(());
    }
    settle(copies).await?;
    let stored: Vec<(u32, u16, Checkpoint)> =
        moved.iter().map(|moved| (moved.entry.number, moved.generation, moved.checkpoint.clone())).collect();
    let plan = move |_: &_, draft: &mut Definitions| {
        let in_force: Vec<(u32, u16)> =
            draft.secondary_indexes.values().map(|record| (record.number, record.generation)).collect();
        for (number, generation, checkpoint) in stored {
            // A position of an earlier generation is of other rows.
            if in_force.contains(&(number, generation)) {
                draft.checkpoints.put(number, checkpoint);
            }
        }
        Ok(())
    };
    copies.router().change(plan).await?;
    for Moved { entry, generation, checkpoint } in moved {
        hold(copies, &entry, &checkpoint).await?;
        let mut live = entry.status.live();
        if live.generation == generation {
            live.saved = checkpoint;
        }
    }
    Ok(())
}

fn moved_of(entry: Arc<IndexEntry>) -> Option<Moved> {
    let (generation, checkpoint) = {
        let live = entry.status.live();
        if live.checkpoint == live.saved {
            return None;
        }
        (live.generation, live.checkpoint.clone())
    };
    Some(Moved { entry, generation, checkpoint })
}

/// Waits until everything applied so far is durable. A position must not outlive the commits that it
/// counts, since their LSNs would be given out again.
pub(crate) async fn settle(copies: &Copies) -> Result<()> {
    for shard in copies.router().stores().iter() {
        shard.wait_durable(shard.applied()).await.map_err(storage_error)?;
    }
    Ok(())
}

/// Keeps the source's log for an index from its stored progress on.
pub(crate) async fn hold(copies: &Copies, entry: &IndexEntry, checkpoint: &Checkpoint) -> Result<()> {
    let position = held(&checkpoint.source, &checkpoint.target)?;
    hold_at(copies, entry, position).await
}

async fn hold_at(copies: &Copies, entry: &IndexEntry, position: Vec<PlaceRecord>) -> Result<()> {
    let (router, holder) = (copies.router(), Holder::Copy(entry.number));
    if router.move_hold(entry.source, holder, position.clone()) == Some(HoldState::Held) {
        return Ok(());
    }
    // It is new, or the index was too slow: the next round finds out whether the log has a hole.
    match router.hold_log(entry.source, holder, position).await {
        // The source was deleted.
        Err(error) if error.kind() == ErrorKind::OwnerNotFound => Ok(()),
        held => held,
    }
}
