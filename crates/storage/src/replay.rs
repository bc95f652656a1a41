//! Brings a shard from the state of a backup to that of a later moment, with the kept log of a later backup.
//!
//! ```text
//! state of the backup   … 41 42│
//! kept log                40 41│42 43 44 45 46 47 …      42 is the stamp in the state: the log goes on behind it
//!                              │      43 44│45           44 is the last one that is not later than the moment
//! ```
//!
//! Every group in between has to be there, follow the one before it, and be the work of the same account: otherwise nothing is given.

use shardlake_stdx::Timestamp;

use crate::history::{self, Group};
use crate::{Batch, PendingCommit, Shard, Stamp, StorageError};

/// Rows that are committed at a time.
const BATCH_BYTES: usize = 4 << 20;

/// Whether more of the log is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reached {
    NotYet,
    /// The shard has the state of the moment.
    Moment,
}

pub struct Replay {
    shard: Shard,
    key: Vec<u8>,
    until: Timestamp,
    /// The last group of the state so far.
    last: Stamp,
    /// The last group of the log that is known to have been written: there is nothing to find behind it.
    end: Stamp,
    reached: Reached,
    /// Whether the group before in the log had no stamp.
    is_behind_unstamped: bool,
    batch: Batch,
    pending: Option<PendingCommit>,
}

impl Replay {
    /// `state` is the stamp in the state of the shard, `end` that in the state of the later backup; `key` is theirs.
    pub fn new(shard: Shard, key: &[u8], (state, end): (Stamp, Stamp), until: Timestamp) -> Replay {
        let is_there = state == end || state.time > until;
        Replay {
            shard,
            key: key.to_owned(),
            until,
            last: state,
            end,
            reached: if is_there { Reached::Moment } else { Reached::NotYet },
            is_behind_unstamped: false,
            batch: Batch::new(),
            pending: None,
        }
    }

    pub fn reached(&self) -> Reached {
        self.reached
    }

    /// The next journal of a local shard.
    pub async fn journal(&mut self, content: bytes::Bytes) -> Result<Reached, StorageError> {
        let key = self.key.clone();
        for group in history::of_journal(content, &key) {
            if self.add(group?).await? == Reached::Moment {
                break;
            }
        }
        Ok(self.reached)
    }

    /// The next objects of the log of a shard in a store.
    #[cfg(feature = "object-storage")]
    pub async fn objects(&mut self, content: bytes::Bytes) -> Result<Reached, StorageError> {
        for object in crate::object::unpack(content)? {
            for group in crate::object::groups_of(object, &self.key).await? {
                if self.add(group).await? == Reached::Moment {
                    return Ok(self.reached);
                }
            }
        }
        Ok(self.reached)
    }

    async fn add(&mut self, group: Group) -> Result<Reached, StorageError> {
        let Some(stamp) = group.stamp else {
            self.is_behind_unstamped = true;
            return Ok(self.reached);
        };
        let is_behind_unstamped = std::mem::take(&mut self.is_behind_unstamped);
        if stamp.number <= self.last.number {
            // Of before the state, which has it; or of a copy of the account, after which nothing follows the state.
            return Ok(self.reached);
        }
        if !stamp.follows(&self.last) || is_behind_unstamped {
            return Err(StorageError::Corrupt {
                what: format!(
                    "the log goes on with write {} of {} ms, which does not follow write {} of {} ms: something between them is missing, or was written while no log was kept",
                    stamp.number, stamp.time.0, self.last.number, self.last.time.0
                )
                .into(),
            });
        }
        if stamp.time > self.until {
            self.reached = Reached::Moment;
            return Ok(self.reached);
        }
        let size_bytes = group.ops.iter().map(crate::Op::size_bytes).sum();
        self.batch.append(group.ops, size_bytes);
        self.last = stamp;
        if self.batch.size_bytes() >= BATCH_BYTES {
            self.commit().await?;
        }
        if stamp == self.end {
            self.reached = Reached::Moment;
        }
        Ok(self.reached)
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

    /// Ends with the state of the moment on stable storage, and gives its last stamp.
    ///
    /// # Errors
    /// Where the log ended before the moment.
    pub async fn finish(mut self) -> Result<Stamp, StorageError> {
        if self.reached == Reached::NotYet {
            return Err(StorageError::Corrupt {
                what: format!(
                    "the log ends with write {} of {} ms, though write {} is known: something is missing",
                    self.last.number, self.last.time.0, self.end.number
                )
                .into(),
            });
        }
        self.commit().await?;
        if let Some(pending) = self.pending.take() {
            pending.await?;
        }
        Ok(self.last)
    }
}
