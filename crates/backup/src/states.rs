//! States of all shards that are kept while their files are copied.
//!
//! *Begin*: the shards are held at one point in time (`Shard::checkpoint_shards`), so that data
//! that moves between shards is in the state once, and continues after a restore as it would after
//! a crash. *Read*: files are read piece by piece; each request shows that the client is still
//! active. *End*: the client ends the state, or has been silent for too long, or the account is
//! closed. States left by a killed server are removed at the next start, by their names.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures::future::try_join_all;
use shardlake_model::{Error, ErrorKind, RequestContext, Result};
use shardlake_partition::storage_error;
use shardlake_router::{AccountMark, Shards, uninterrupted};
use shardlake_stdx::{Clock, Random, Timestamp};
use shardlake_storage::{KeptFiles, Shard, StorageError, View};
use tokio::sync::watch;

use crate::describe::{Moment, describe};
use crate::last::{BackupOutcome, EndedBackup, LastBackups};

/// States at a time: each keeps files on the disk that would otherwise be deleted.
const STATES_MAX: usize = 4;
/// A client without a request for this long is considered gone.
const SILENCE_MAX: Duration = Duration::from_secs(600);
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// Names of containers in a log line.
const NAMES_MAX: usize = 20;
/// Name prefix of the checkpoints that are made here.
const PREFIX: &str = "backup-";
/// The most bytes of one answer.
pub const PIECE_BYTES_MAX: usize = 2 << 20;

/// The states that are kept now. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Backups(Arc<State>);

#[derive(Debug)]
struct State {
    shards: Shards,
    clock: Clock,
    random: Random,
    /// Held by the task that begins a state: states are made one after the other, and none once this is set to closed.
    beginning: tokio::sync::Mutex<Beginning>,
    kept: Mutex<BTreeMap<String, Arc<KeptState>>>,
    last: watch::Sender<LastBackups>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Beginning {
    #[default]
    Open,
    Closed,
}

/// A state of the account at one point in time.
#[derive(Debug)]
pub struct KeptState {
    /// Random, so that it cannot be guessed.
    pub id: String,
    /// Everything acknowledged before this time is in it.
    pub time: Timestamp,
    pub account: Option<AccountMark>,
    pub moment: Moment,
    /// In the order of the shards.
    pub shards: Vec<KeptFiles>,
    /// Milliseconds in terms of the clock's elapsed time.
    last_asked: AtomicU64,
    /// Bytes that the client has read.
    read_bytes: AtomicU64,
}

impl KeptState {
    fn size_bytes(&self) -> u64 {
        self.shards.iter().flat_map(KeptFiles::files).map(|file| file.size_bytes).sum()
    }
}

impl Backups {
    /// Removes the states that an earlier process kept. A state that cannot be removed does not
    /// prevent the removal of the others.
    pub async fn start(shards: Shards, clock: Clock, random: Random) -> Backups {
        for shard in shards.iter() {
            if let Err(error) = remove_left(shard).await {
                tracing::warn!(%error, "what was kept for a backup stays, and takes space");
            }
        }
        let (beginning, kept) = (tokio::sync::Mutex::default(), Mutex::default());
        let last = watch::Sender::new(LastBackups::default());
        Backups(Arc::new(State { shards, clock, random, beginning, kept, last }))
    }

    /// States that are kept now.
    pub fn count(&self) -> usize {
        self.0.kept().len()
    }

    /// The backups that ended last, of this process and those recalled from an earlier one.
    pub fn last(&self) -> watch::Receiver<LastBackups> {
        self.0.last.subscribe()
    }

    /// Takes back the record of an earlier process, unless a backup has ended since.
    pub fn recall_last(&self, earlier: LastBackups) {
        self.0.last.send_if_modified(|last| {
            let is_first = last.any.is_none();
            if is_first {
                *last = earlier;
            }
            is_first
        });
    }

    /// Keeps the present state. It is deleted when its client ends it or stops asking.
    pub async fn begin(&self) -> Result<Arc<KeptState>> {
        let backups = self.clone();
        uninterrupted(async move { backups.begin_uninterrupted().await }).await
    }

    async fn begin_uninterrupted(&self) -> Result<Arc<KeptState>> {
        let state = &self.0;
        let turn = state.beginning.lock().await;
        if *turn == Beginning::Closed {
            return Err(Error::new(ErrorKind::Unavailable, "the server is stopping"));
        }
        state.drop_silent().await;
        if state.kept().len() >= STATES_MAX {
            return Err(Error::new(
                ErrorKind::InProgress,
                format!(
                    "{STATES_MAX} backups are being copied: wait for one of them; one whose client is gone is given up after {} minutes",
                    SILENCE_MAX.as_secs() / 60
                ),
            ));
        }
        let mut bytes = [0; 16];
        state.random.fill(&mut bytes);
        let id: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let time = state.clock.now();
        let shards: Vec<Shard> = state.shards.iter().cloned().collect();
        let views = Shard::checkpoint_shards(&shards, &name_of(&id)).await.map_err(refusal)?;
        let kept = match state.gather(&id, time, views).await {
            Ok(kept) => Arc::new(kept),
            Err(error) => {
                state.remove(&id).await;
                return Err(error);
            }
        };
        state.kept().insert(id.clone(), kept.clone());
        tracing::info!(
            id,
            bytes = kept.size_bytes(),
            shards = kept.shards.len(),
            partitions = kept.moment.partitions.len(),
            containers = ?kept.moment.containers(NAMES_MAX),
            files = kept.shards.iter().map(|shard| shard.files().len()).sum::<usize>(),
            "a state is kept to be read"
        );
        tokio::spawn(drop_when_silent(Arc::downgrade(state), id));
        Ok(kept)
    }

    /// A piece of a file: up to [`PIECE_BYTES_MAX`] from a position on, empty past its end.
    pub async fn read(
        &self,
        ctx: &RequestContext,
        id: &str,
        (shard, file, offset): (usize, usize, u64),
    ) -> Result<Bytes> {
        let kept = self.0.find(id)?;
        if let Some(space) = &ctx.answer_space {
            space.take(ctx.deadline.saturating_sub(self.0.clock.elapsed())).await?;
        }
        let missing = move || {
            Error::new(ErrorKind::NotFound, format!("the backup has no file {file} of shard {shard}"))
        };
        let files = kept.shards.get(shard).filter(|files| file < files.files().len()).ok_or_else(missing)?;
        let piece = files.read(file, offset, PIECE_BYTES_MAX).await.map_err(storage_error)?;
        kept.read_bytes.fetch_add(piece.len() as u64, Ordering::Relaxed);
        Ok(piece)
    }

    /// The client needs the state no more. `outcome` is that of a backup, with the name that its client gave it;
    /// `None`: the state was read for something else.
    pub async fn end(&self, id: &str, outcome: Option<(BackupOutcome, Option<String>)>) -> Result<()> {
        let (state, ended) = (self.0.clone(), self.0.find(id)?);
        uninterrupted(async move {
            state.kept().remove(&ended.id);
            state.remove(&ended.id).await;
            match outcome {
                Some((outcome, name)) => state.note_end(&ended, outcome, name),
                None => tracing::info!(id = ended.id, "a state that was read ends"),
            }
            Ok(())
        })
        .await
    }

    /// Drops all states, and makes no others: the shards are about to be closed.
    pub async fn close(&self) {
        *self.0.beginning.lock().await = Beginning::Closed;
        let kept = std::mem::take(&mut *self.0.kept());
        for id in kept.into_keys() {
            self.0.remove(&id).await;
        }
    }
}

impl State {
    fn kept(&self) -> MutexGuard<'_, BTreeMap<String, Arc<KeptState>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds a state, and records that its client is active.
    fn find(&self, id: &str) -> Result<Arc<KeptState>> {
        let found = self.kept().get(id).cloned();
        let found = found.ok_or_else(|| {
            Error::new(
                ErrorKind::NotFound,
                format!(
                    "no backup '{id}' is being copied: it has ended, or nobody asked for {} minutes",
                    SILENCE_MAX.as_secs() / 60
                ),
            )
        })?;
        found.last_asked.store(self.now_ms(), Ordering::Relaxed);
        Ok(found)
    }

    async fn gather(&self, id: &str, time: Timestamp, views: Vec<View>) -> Result<KeptState> {
        let moment = describe(&views).await?;
        drop(views);
        let name = name_of(id);
        let files = self.shards.iter().map(|shard| shard.kept_files(&name));
        let shards = try_join_all(files).await.map_err(refusal)?;
        assert_eq!(shards.len(), usize::from(self.shards.count()), "a state has every shard of its account");
        let account = AccountMark::read(&self.shards).await?;
        if !self.shards.iter().all(Shard::is_leased) {
            // Another server may have continued from an earlier state.
            return Err(storage_error(StorageError::NotLeased));
        }
        let last_asked = AtomicU64::new(self.now_ms());
        let read_bytes = AtomicU64::new(0);
        Ok(KeptState { id: id.to_owned(), time, account, moment, shards, last_asked, read_bytes })
    }

    /// Logs and records the end of a backup.
    fn note_end(&self, kept: &KeptState, outcome: BackupOutcome, name: Option<String>) {
        let ended = self.clock.now();
        let milliseconds = ended.milliseconds().saturating_sub(kept.time.milliseconds());
        let (size_bytes, read_bytes) = (kept.size_bytes(), kept.read_bytes.load(Ordering::Relaxed));
        let (id, result) = (&*kept.id, outcome.name());
        match outcome {
            BackupOutcome::Done => {
                tracing::info!(id, result, milliseconds, bytes = size_bytes, read_bytes, "a backup ends");
            }
            BackupOutcome::Failed | BackupOutcome::Abandoned => {
                tracing::warn!(id, result, milliseconds, bytes = size_bytes, read_bytes, "a backup ends");
            }
        }
        let ended = EndedBackup { id: kept.id.clone(), name, began: kept.time, ended, size_bytes, outcome };
        self.last.send_modify(|last| last.note(ended));
    }

    async fn remove(&self, id: &str) {
        for shard in self.shards.iter() {
            if let Err(error) = shard.remove_checkpoint(&name_of(id)).await {
                tracing::warn!(%error, "what was kept for a backup stays until the next start");
            }
        }
    }

    /// Drops the states with inactive clients.
    async fn drop_silent(&self) {
        let now = self.now_ms();
        let is_silent = |kept: &KeptState| {
            let silence = now.saturating_sub(kept.last_asked.load(Ordering::Relaxed));
            u128::from(silence) >= SILENCE_MAX.as_millis()
        };
        let silent: Vec<Arc<KeptState>> = {
            let mut kept = self.kept();
            let silent = kept.values().filter(|kept| is_silent(kept)).cloned().collect();
            kept.retain(|_, kept| !is_silent(kept));
            silent
        };
        for kept in silent {
            tracing::warn!(
                id = kept.id,
                "a backup was given up: its client has asked for nothing for {} minutes",
                SILENCE_MAX.as_secs() / 60
            );
            self.remove(&kept.id).await;
            self.note_end(&kept, BackupOutcome::Abandoned, None);
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.clock.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Checks one state until it is dropped.
async fn drop_when_silent(state: Weak<State>, id: String) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(state) = state.upgrade() else { return };
        state.drop_silent().await;
        if !state.kept().contains_key(&id) {
            return;
        }
    }
}

async fn remove_left(shard: &Shard) -> Result<(), StorageError> {
    let mut outcome = Ok(());
    for name in shard.checkpoints().await?.iter().filter(|name| name.starts_with(PREFIX)) {
        let removed = shard.remove_checkpoint(name).await;
        if removed.is_ok() {
            tracing::info!(checkpoint = name, "a backup that was cut off is removed");
        }
        outcome = outcome.and(removed);
    }
    outcome
}

fn name_of(id: &str) -> String {
    format!("{PREFIX}{id}")
}

fn refusal(error: StorageError) -> Error {
    match error {
        StorageError::NoFiles | StorageError::NoCheckpoints => {
            Error::unsupported(format!("this account cannot be backed up by this command: {error}"))
        }
        error => storage_error(error),
    }
}
