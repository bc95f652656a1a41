//! Brings a copy of a shard up to its original with the archived log of the original, while clients
//! write to the original.
//!
//! ```text
//! copy             … 41 42│
//! archived log       41 42│43 44 45 …      each group is committed to the copy as it is, its stamp with it
//! ```
//!
//! A commit holds whole groups, so that the stamp in the copy identifies the state of the original
//! at any time: after a kill, following continues from there. A group that does not follow the last
//! one is refused, and so are all groups behind it.

use bytes::Bytes;

use crate::wal_archive::{Group, JournalTail, of_journal};
use crate::{Batch, Op, PendingCommit, Shard, Stamp, StorageError};

/// Rows that are committed at a time.
const BATCH_BYTES: usize = 4 << 20;

/// Size of the groups that one look at a log found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Followed {
    pub groups: u64,
    /// Bytes of keys and values.
    pub size_bytes: u64,
}

impl Followed {
    #[must_use]
    pub fn and(self, other: Followed) -> Followed {
        Followed { groups: self.groups + other.groups, size_bytes: self.size_bytes + other.size_bytes }
    }
}

/// The copy.
pub struct Follower {
    shard: Shard,
    key: Vec<u8>,
    /// The last group that it has, or is to have.
    last: Stamp,
    /// Whether the group before in the log had no stamp.
    is_behind_unstamped: bool,
    /// A group that does not follow the last one, if the last one was not found behind it.
    hole: Option<StorageError>,
    batch: Batch,
    pending: Option<PendingCommit>,
    followed: Followed,
}

impl Follower {
    /// `state` is the stamp in the shard, under the key.
    pub fn new(shard: Shard, key: &[u8], state: Stamp) -> Follower {
        Follower {
            shard,
            key: key.to_owned(),
            last: state,
            is_behind_unstamped: false,
            hole: None,
            batch: Batch::new(),
            pending: None,
            followed: Followed::default(),
        }
    }

    pub fn last(&self) -> Stamp {
        self.last
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Commits the groups that the log has and the copy lacks, and waits until they are on stable
    /// storage.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`] where the log does not continue from the state of the copy.
    pub async fn catch_up(&mut self, log: &mut LogTail) -> Result<Followed, StorageError> {
        self.followed = Followed::default();
        match log {
            LogTail::Directory(log) => self.journals(log).await?,
            #[cfg(feature = "object-storage")]
            LogTail::Store(log) => self.objects(log).await?,
        }
        self.check()?;
        if self.is_behind_unstamped {
            return Err(StorageError::Corrupt {
                what: "the last writes are of a time in which no log was kept".into(),
            });
        }
        self.finish().await?;
        Ok(self.followed)
    }

    async fn journals(&mut self, log: &mut JournalTail) -> Result<(), StorageError> {
        for journal in log.look()? {
            // A deleted journal is a hole, which the next journal shows.
            let Some(content) = log.read(journal).await? else { continue };
            let length = content.len();
            let left = self.journal(content).await?;
            log.advance((length - left) as u64);
        }
        Ok(())
    }

    /// A piece of a journal that begins with a batch. Gives how much is left behind its last good one.
    async fn journal(&mut self, content: Bytes) -> Result<usize, StorageError> {
        let key = self.key.clone();
        let mut groups = of_journal(content, &key);
        for group in groups.by_ref() {
            self.add(group?).await?;
        }
        Ok(groups.left())
    }

    #[cfg(feature = "object-storage")]
    async fn objects(&mut self, log: &mut crate::object::ObjectTail) -> Result<(), StorageError> {
        let mut objects = log.look().await?;
        while let Some(object) = objects.next().await? {
            for group in crate::object::groups_of(object.clone(), &self.key).await? {
                self.add(group).await?;
            }
            log.advance(object.0);
        }
        Ok(())
    }

    async fn add(&mut self, group: Group) -> Result<(), StorageError> {
        match self.next(&group) {
            Some(stamp) => self.push(group, stamp).await,
            None => Ok(()),
        }
    }

    /// The stamp of a group that comes next; `None` for a group that the shard has, or that was
    /// written while no log was archived.
    pub(crate) fn next(&mut self, group: &Group) -> Option<Stamp> {
        let Some(stamp) = group.stamp else {
            self.is_behind_unstamped = true;
            return None;
        };
        let is_behind_unstamped = std::mem::take(&mut self.is_behind_unstamped);
        if stamp == self.last {
            // Groups before this stamp precede the state, including a log from before a time
            // without one.
            self.hole = None;
        }
        // From before the state, which has it; or from a copy of the account, after which nothing
        // follows the state.
        if self.hole.is_some() || stamp.number <= self.last.number {
            return None;
        }
        if stamp.follows(&self.last) && !is_behind_unstamped {
            return Some(stamp);
        }
        self.hole = Some(StorageError::Corrupt {
            what: format!(
                "the log goes on with write {} of {} ms, which does not follow write {} of {} ms: something between them is missing, or was written while no log was kept",
                stamp.number, stamp.time.0, self.last.number, self.last.time.0
            )
            .into(),
        });
        None
    }

    /// Refuses groups behind a hole.
    pub(crate) fn check(&self) -> Result<(), StorageError> {
        self.hole.clone().map_or(Ok(()), Err)
    }

    pub(crate) async fn push(&mut self, group: Group, stamp: Stamp) -> Result<(), StorageError> {
        let size_bytes = group.ops.iter().map(Op::size_bytes).sum();
        self.batch.append(group.ops, size_bytes);
        self.last = stamp;
        self.followed.groups += 1;
        self.followed.size_bytes += size_bytes as u64;
        match self.batch.size_bytes() >= BATCH_BYTES {
            true => self.commit().await,
            false => Ok(()),
        }
    }

    /// The next is gathered while one is written.
    async fn commit(&mut self) -> Result<(), StorageError> {
        if let Some(pending) = self.pending.take() {
            pending.await?;
        }
        let batch = std::mem::take(&mut self.batch);
        if !batch.is_empty() {
            let turn = self.shard.turn_for(batch.len()).await?;
            self.pending = Some(self.shard.commit_in_turn(batch, turn)?);
        }
        Ok(())
    }

    /// Commits the remaining groups and waits until all are on stable storage.
    pub(crate) async fn finish(&mut self) -> Result<(), StorageError> {
        self.commit().await?;
        match self.pending.take() {
            Some(pending) => pending.await,
            None => Ok(()),
        }
    }
}

/// The log of a shard that may still be written to: read from a place on, up to its end.
pub enum LogTail {
    Directory(JournalTail),
    #[cfg(feature = "object-storage")]
    Store(crate::object::ObjectTail),
}

impl LogTail {
    /// Log of a shard on a local disk: from a given place, or else from where its log ends now.
    pub fn of_directory(shard: &std::path::Path, place: Option<u64>) -> Result<LogTail, StorageError> {
        JournalTail::new(shard, place).map(LogTail::Directory)
    }

    /// Log of a shard in a store.
    #[cfg(feature = "object-storage")]
    pub async fn of_store(
        store: &std::sync::Arc<dyn crate::object::object_store::ObjectStore>,
        path: &str,
        place: Option<u64>,
    ) -> Result<LogTail, StorageError> {
        crate::object::ObjectTail::new(store, path, place).await.map(LogTail::Store)
    }

    /// Where to continue: at or before the last group that was found.
    pub fn place(&self) -> u64 {
        match self {
            LogTail::Directory(log) => log.place(),
            #[cfg(feature = "object-storage")]
            LogTail::Store(log) => log.place(),
        }
    }
}
