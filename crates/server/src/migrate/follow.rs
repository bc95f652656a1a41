//! Following the log of the source: the copy receives the groups of writes after the state that it was made of and compared with.
//!
//! A chain proves that the copy is equal to the source. The copy was compared, row by row, with a state of the source. In the log,
//! each group behind that state has a checksum, a unique stamp, and the stamp of the group before it. The copy receives a group
//! in one commit with its stamp, or not at all. So when the last stamps of both are equal, all rows are equal. A missing
//! link is detected, and then both sides are read and compared, as without a log.

use std::path::Path;

use serde::{Deserialize, Serialize};
use shardlake_account::{AccountMark, Shards, stamp_key};
use shardlake_storage::{Followed, Follower, LogTail, Stamp, StorageError};

use crate::account_file;
use crate::shards;
use crate::store::url_of;
use crate::stored_json;

/// Less than this is little: the next look would find about as much.
const LITTLE_BYTES: u64 = 1 << 20;
/// A server that writes as fast as the copy follows is followed no longer than that.
const LOOKS_MAX: usize = 50;

/// The target's note of a copy that is complete and follows its source by the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Copied {
    /// Position from which to continue in the log of each shard.
    pub log: Vec<u64>,
}

impl Copied {
    pub fn parse(text: &[u8]) -> Result<Copied, String> {
        stored_json::read(text, "the record of the copy", "")
    }

    pub fn text(&self) -> Result<Vec<u8>, String> {
        serde_json::to_vec(self).map_err(|error| error.to_string())
    }
}

pub enum Outcome {
    /// The copy has every group of the log; the note holds the new position in the log.
    Followed(Followed, Copied),
    /// The log does not lead on from the copy.
    Cut(String),
}

/// The account mark of a place whose server may run.
pub async fn mark_of(from: &Path) -> Result<AccountMark, String> {
    let mark = match url_of(from) {
        None => account_file::read(from)?,
        Some(url) => in_store::mark_of(&url).await?,
    };
    mark.ok_or_else(|| "there is no account in it: start a server on it once".to_owned())
}

/// The logs of so many shards, from where they end now or from where the copy had come to.
pub async fn logs(from: &Path, shards: u16, copied: Option<&Copied>) -> Result<Vec<LogTail>, String> {
    let place = |number: u16| copied.and_then(|copied| copied.log.get(usize::from(number)).copied());
    match url_of(from) {
        None => shards::logs(from, (0..shards).map(place)),
        Some(url) => in_store::logs(&url, (0..shards).map(place).collect()).await,
    }
}

pub fn places(logs: &[LogTail]) -> Copied {
    Copied { log: logs.iter().map(LogTail::place).collect() }
}

/// Follows the log until little is left, while the source's server writes.
pub async fn nearly(from: &Path, to: &Shards, copied: &Copied) -> Result<Outcome, String> {
    follow(from, to, copied, LITTLE_BYTES).await
}

/// Follows the log of a stopped source to its end.
pub async fn to_the_end(from: (&Path, &Shards), to: &Shards, copied: &Copied) -> Result<Outcome, String> {
    if from.1.count() != to.count() || usize::from(to.count()) != copied.log.len() {
        return Ok(Outcome::Cut("the source has got more shards".to_owned()));
    }
    let outcome = follow(from.0, to, copied, 0).await?;
    if matches!(outcome, Outcome::Cut(_)) {
        return Ok(outcome);
    }
    for (number, (from, to)) in from.1.iter().zip(to.iter()).enumerate() {
        if stamp(from).await? != stamp(to).await? {
            return Ok(Outcome::Cut(format!(
                "the log of shard {number} ends at another write than the shard"
            )));
        }
    }
    Ok(outcome)
}

async fn follow(from: &Path, to: &Shards, copied: &Copied, little: u64) -> Result<Outcome, String> {
    let mut logs = logs(from, copied.log.len() as u16, Some(copied)).await?;
    let mut followers = Vec::new();
    for (number, shard) in to.iter().enumerate() {
        match stamp(shard).await? {
            Some(stamp) => followers.push(Follower::new(shard.clone(), &stamp_key(), stamp)),
            None => {
                return Ok(Outcome::Cut(format!("the copy of shard {number} is of a time without a log")));
            }
        }
    }
    let mut followed = Followed::default();
    for _ in 0..LOOKS_MAX {
        let mut found = Followed::default();
        for (follower, log) in followers.iter_mut().zip(&mut logs) {
            match follower.catch_up(log).await {
                Ok(more) => found = found.and(more),
                Err(StorageError::Corrupt { what }) => return Ok(Outcome::Cut(what.to_string())),
                Err(error) => return Err(error.to_string()),
            }
        }
        followed = followed.and(found);
        if found.size_bytes <= little {
            break;
        }
    }
    Ok(Outcome::Followed(followed, places(&logs)))
}

/// Whether every shard has a stamp: its position in its log.
pub async fn are_stamped(shards: &Shards) -> Result<bool, String> {
    for shard in shards.iter() {
        if stamp(shard).await?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn stamp(shard: &shardlake_storage::Shard) -> Result<Option<Stamp>, String> {
    Stamp::of(&shard.view(), &stamp_key()).await.map_err(|error| error.to_string())
}

#[cfg(feature = "object-storage")]
mod in_store {
    use shardlake_account::AccountMark;
    use shardlake_storage::LogTail;

    use crate::store::{Prefix, StoreUrl};

    pub async fn mark_of(url: &StoreUrl) -> Result<Option<AccountMark>, String> {
        Prefix::of_account(url).await?.account_mark().await
    }

    pub async fn logs(url: &StoreUrl, places: Vec<Option<u64>>) -> Result<Vec<LogTail>, String> {
        Prefix::of_account(url).await?.logs(&places).await
    }
}

#[cfg(not(feature = "object-storage"))]
mod in_store {
    use shardlake_account::AccountMark;
    use shardlake_storage::LogTail;

    use crate::store::StoreUrl;

    pub async fn mark_of(url: &StoreUrl) -> Result<Option<AccountMark>, String> {
        Err(url.unsupported())
    }

    pub async fn logs(url: &StoreUrl, _places: Vec<Option<u64>>) -> Result<Vec<LogTail>, String> {
        Err(url.unsupported())
    }
}
