//! Checkpoint of several shards at one point in time.
//!
//! Shards commit on their own, and yet data on one shard may depend on another: the catalog on
//! shard 0 describes the content of all, and a partition that moves is copied from shard to shard.
//! So the states have to be those of one point in time, at which no shard has a group on its way:
//!
//! ```text
//! shard 0   ─ flush ─┤ lock                     ├─ checkpoint ─┤ unlock     (checkpoint.rs)
//! shard 1   ─ flush ────┤ lock                  ├─ checkpoint ─┤ unlock
//! shard 2   ─ flush ──┤        lock             ├─ checkpoint ─┤ unlock
//!                                               ▲ the point in time
//! ```
//!
//! The states hold every write that was acknowledged before this point, with every write that it
//! followed from, on whichever shard. They hold no later write. They are therefore a state that a
//! power cut at this point could have left, and work that continues after a power cut continues in
//! them: relocations, index builds, deletions, projections.
//!
//! Over an object store the point is shorter: the engine begins the checkpoint, which sends no
//! request to the store, and writers continue while the content of memory is stored
//! (`Engine::begin_checkpoint`).
//!
//! ```text
//! shard 0   ─ flush ─┤ hold                     ├─ begin ─┤ continue ─── stored
//! shard 1   ─ flush ────┤ hold                  ├─ begin ─┤ continue ────── stored
//!                                               ▲ the point in time
//! ```
//!
//! Rows that are loaded past the log do not wait for the lock. They belong to no partition until a
//! commit adds them, and this commit waits. Locks are taken in the order in which the shards are
//! given, and no other code holds two.

use std::sync::Arc;
use std::thread;

use futures::future::{BoxFuture, join_all, try_join_all};

use crate::checkpoint::check_name;
use crate::committer::in_the_call;
use crate::shard::blocking;
use crate::shared::Shared;
use crate::{KeptFiles, LogPosition, Shard, StorageError, View};

/// Checkpoints that are made at a time: each waits for its disk most of the time.
const AT_A_TIME: usize = 8;

impl Shard {
    /// Keeps the states of all shards at one point in time under a name, and shows them. Writers of
    /// all of them wait while files are linked. After an error nothing is kept.
    pub async fn checkpoint_shards(shards: &[Shard], name: &str) -> Result<Vec<View>, StorageError> {
        check_name(name)?;
        if shards.iter().all(|shard| shard.shared().engine.answers_later()) {
            return keep_later(shards, name).await;
        }
        if shards.iter().any(|shard| shard.shared().engine.answers_later()) {
            return Err(StorageError::NoFiles);
        }
        let ready = try_join_all(shards.iter().map(make_ready)).await?;
        let name = name.to_owned();
        blocking(move || keep(&ready, &name)).await
    }

    /// The names under which states are kept.
    pub async fn checkpoints(&self) -> Result<Vec<String>, StorageError> {
        self.work(|engine| engine.checkpoints()).await
    }

    /// The files of the state that [`Shard::checkpoint`] kept.
    pub async fn kept_files(&self, name: &str) -> Result<KeptFiles, StorageError> {
        check_name(name)?;
        let name = name.to_owned();
        self.work(move |engine| engine.kept_files(&name)).await
    }
}

/// As [`keep`], of engines that answer later.
async fn keep_later(shards: &[Shard], name: &str) -> Result<Vec<View>, StorageError> {
    for shard in shards {
        shard.shared().check()?;
        if shard.checkpoints().await?.iter().any(|known| known == name) {
            return Err(StorageError::CheckpointExists);
        }
    }
    // Most of the content of memory is stored while no writer waits.
    try_join_all(shards.iter().map(Shard::flush)).await?;
    let begun = begin_together(shards, name).await;
    let stored = join_all(begun.into_iter().map(|begun| async { begun?.await })).await;
    let views = async {
        stored.into_iter().collect::<Result<Vec<()>, _>>()?;
        let kept = try_join_all(shards.iter().map(|shard| shard.open_checkpoint(name))).await?;
        Ok(kept.iter().map(Shard::view).collect())
    };
    let views: Result<Vec<View>, StorageError> = views.await;
    if views.is_err() {
        for shard in shards {
            match shard.remove_checkpoint(name).await {
                Ok(()) | Err(StorageError::CheckpointMissing) => {}
                Err(error) => tracing::warn!(%error, name, "a checkpoint stays until the next start"),
            }
        }
    }
    views
}

type Begun = Result<BoxFuture<'static, Result<(), StorageError>>, StorageError>;

/// Holds all shards while their checkpoints begin, without a request to a store.
async fn begin_together(shards: &[Shard], name: &str) -> Vec<Begun> {
    let mut held = Vec::with_capacity(shards.len());
    for shard in shards {
        held.push(shard.shared().applying.lock().await);
    }
    join_all(shards.iter().map(|shard| shard.shared().engine.begin_checkpoint(name).into_future())).await
}

/// A shard, and the place in its log before which everything is sorted.
type Ready = (Arc<Shared>, LogPosition);

/// Sorts the memtables while writers continue, so that the next pause without writers is short.
async fn make_ready(shard: &Shard) -> Result<Ready, StorageError> {
    let shared = shard.shared().clone();
    let position = blocking(move || {
        shared.check()?;
        // Most of the way without holding up writers.
        let near_the_end = in_the_call(shared.engine.log_position(&LogPosition::default()))?;
        let _writing = shared.lock_writing();
        in_the_call(shared.engine.log_position(&near_the_end))
    });
    let position = position.await?;
    shard.flush().await?;
    Ok((shard.shared().clone(), position))
}

fn keep(shards: &[Ready], name: &str) -> Result<Vec<View>, StorageError> {
    let _writing: Vec<_> = shards.iter().map(|(shard, _)| shard.lock_writing()).collect();
    shards.iter().try_for_each(|(shard, _)| shard.check())?;
    let mut made = Vec::with_capacity(shards.len());
    for some in shards.chunks(AT_A_TIME) {
        made.extend(thread::scope(|scope| {
            let checkpoint =
                |(shard, sorted): &Ready| in_the_call(shard.engine.checkpoint_from(name, sorted));
            let running: Vec<_> = some.iter().map(|ready| scope.spawn(move || checkpoint(ready))).collect();
            let panicked = |_| Err(StorageError::io("the storage engine panicked"));
            running.into_iter().map(|running| running.join().unwrap_or_else(panicked)).collect::<Vec<_>>()
        }));
        if made.iter().any(Result::is_err) {
            break;
        }
    }
    if let Some(error) = made.iter().find_map(|made| made.as_ref().err()) {
        // A checkpoint that failed may be there all the same, unless there was one of the name before.
        let is_new = |made: &Result<(), _>| !matches!(made, Err(StorageError::CheckpointExists));
        for ((shard, _), _) in shards.iter().zip(&made).filter(|(_, made)| is_new(made)) {
            match in_the_call(shard.engine.remove_checkpoint(name)) {
                Ok(()) | Err(StorageError::CheckpointMissing) => {}
                Err(error) => tracing::warn!(%error, name, "a checkpoint stays until the next start"),
            }
        }
        return Err(error.clone());
    }
    Ok(shards.iter().map(|(shard, _)| shard.shown.view(&*shard.engine)).collect())
}
