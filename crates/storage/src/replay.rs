//! Brings a shard from the state of a backup to a later point in time, with the archived log of a
//! later backup.
//!
//! ```text
//! state of the backup   … 41 42│
//! archived log            40 41│42 43 44 45 46 47 …      42 is the stamp in the state: the log continues behind it
//!                              │      43 44│45           44 is the last one that is not later than the point in time
//! ```
//!
//! Every group in between has to be there, follow the one before it, and be the work of the same account: otherwise nothing is given.

use shardlake_stdx::Timestamp;

use crate::wal_archive::{self, Group};
use crate::wal_copy::Follower;
use crate::{Shard, Stamp, StorageError};

/// Whether more of the log is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reached {
    NotYet,
    /// The shard has the state of the point in time.
    Moment,
}

pub struct Replay {
    follower: Follower,
    until: Timestamp,
    /// The last group of the log that is known to have been written: there is nothing to find behind it.
    end: Stamp,
    reached: Reached,
}

impl Replay {
    /// `state` is the stamp in the state of the shard, `end` that in the state of the later backup; `key` is theirs.
    pub fn new(shard: Shard, key: &[u8], (state, end): (Stamp, Stamp), until: Timestamp) -> Replay {
        let is_there = state == end || state.time > until;
        let reached = if is_there { Reached::Moment } else { Reached::NotYet };
        Replay { follower: Follower::new(shard, key, state), until, end, reached }
    }

    pub fn reached(&self) -> Reached {
        self.reached
    }

    /// The next journal of a local shard.
    pub async fn journal(&mut self, content: bytes::Bytes) -> Result<Reached, StorageError> {
        let key = self.follower.key().to_owned();
        for group in wal_archive::of_journal(content, &key) {
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
            for group in crate::object::groups_of(object, self.follower.key()).await? {
                if self.add(group).await? == Reached::Moment {
                    return Ok(self.reached);
                }
            }
        }
        Ok(self.reached)
    }

    async fn add(&mut self, group: Group) -> Result<Reached, StorageError> {
        let Some(stamp) = self.follower.next(&group) else { return Ok(self.reached) };
        if stamp.time > self.until {
            self.reached = Reached::Moment;
            return Ok(self.reached);
        }
        self.follower.push(group, stamp).await?;
        if stamp == self.end {
            self.reached = Reached::Moment;
        }
        Ok(self.reached)
    }

    /// Ends with the state of the point in time on stable storage, and returns its last stamp.
    ///
    /// # Errors
    /// Where the log ended before the point in time.
    pub async fn finish(mut self) -> Result<Stamp, StorageError> {
        let last = self.follower.last();
        if self.reached == Reached::NotYet {
            self.follower.check()?;
            return Err(StorageError::Corrupt {
                what: format!(
                    "the log ends with write {} of {} ms, though write {} is known: something is missing",
                    last.number, last.time.0, self.end.number
                )
                .into(),
            });
        }
        self.follower.finish().await?;
        Ok(last)
    }
}
