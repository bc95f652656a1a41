//! Which shards belong together: a mark on each, so that a shard that was emptied, swapped or taken from another account
//! is refused at opening instead of being served as lost data.
//!
//! ```text
//! 0u32 | 'S' → Membership: the account, the number of this shard; on shard 0 also the number of shards
//! ```
//! A new shard gets its mark before shard 0 counts it: after a crash in between it is still new, and empty. A
//! single shard has a mark as well: an external store that keeps an [`AccountMark`] can check by it that the
//! account still exists.

use serde::{Deserialize, Serialize};
use shardlake_catalog::{MEMBERSHIP, decode, encode, key, stamp_key};
use shardlake_model::{Error, ErrorKind, Result};
use shardlake_partition::storage_error;
use shardlake_stdx::Random;
use shardlake_storage::{Batch, ScanOptions, Shard};

use crate::refusals::catalog_error;
use crate::shards::Shards;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Membership {
    /// Random, so that no two accounts share it.
    account: String,
    number: u16,
    /// On shard 0: how many shards the account has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shards: Option<u16>,
}

/// Identity of an account and its number of shards, to be stored outside the shards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountMark {
    /// Random, so that no two accounts share it.
    pub account: String,
    pub shards: u16,
}

impl AccountMark {
    /// `None` for shards on which no account was opened yet, or only by an earlier version.
    pub async fn read(shards: &Shards) -> Result<Option<AccountMark>> {
        let mark = Membership::read(shards.first()).await?;
        Ok(mark.map(|mark| AccountMark { account: mark.account, shards: mark.shards.unwrap_or(1) }))
    }

    /// Refuses shards that are not those of this account.
    pub async fn check(&self, shards: &Shards) -> Result<()> {
        match AccountMark::read(shards).await? {
            Some(found) if found.account == self.account => Ok(()),
            Some(_) => Err(misplaced(0, "it belongs to another account".to_owned())),
            None => Err(misplaced(0, "it has lost what was on it".to_owned())),
        }
    }
}

impl Membership {
    async fn read(shard: &Shard) -> Result<Option<Membership>> {
        let stored = shard.get(&key(MEMBERSHIP, &[])).await.map_err(storage_error)?;
        stored.map(|bytes| decode(&bytes)).transpose().map_err(catalog_error)
    }

    async fn write(&self, shard: &Shard) -> Result<()> {
        let mut batch = Batch::new();
        batch.put(key(MEMBERSHIP, &[]), encode(self));
        shard.commit(batch).map_err(storage_error)?.await.map_err(storage_error)?;
        shard.wait_durable(shard.applied()).await.map_err(storage_error)
    }
}

/// Refuses shards of different accounts, and adds new ones to the account.
pub async fn join(shards: &Shards, random: &Random) -> Result<()> {
    let mut first = read_first(shards).await?;
    let known = first.shards.unwrap_or(1);
    let account = first.account.clone();
    if first.account.is_empty() {
        first.account = random.guid().to_string();
    }
    for number in 1..shards.count() {
        let shard = shards.get(number)?;
        if !check(shard, number, known, &account).await? {
            Membership { account: first.account.clone(), number, shards: None }.write(shard).await?;
        }
    }
    if shards.count() > known || account.is_empty() {
        first.shards = Some(shards.count());
        first.write(shards.first()).await?;
    }
    Ok(())
}

/// Descriptions of everything that [`join`] would refuse.
pub async fn problems(shards: &Shards) -> Result<Vec<String>> {
    let first = match read_first(shards).await {
        Ok(first) => first,
        Err(error) => return Ok(vec![error.message().to_owned()]),
    };
    let mut problems = Vec::new();
    for number in 1..shards.count() {
        let checked = check(shards.get(number)?, number, first.shards.unwrap_or(1), &first.account).await;
        problems.extend(checked.err().map(|error| error.message().to_owned()));
    }
    Ok(problems)
}

/// The mark of shard 0; without an account if none was opened yet.
async fn read_first(shards: &Shards) -> Result<Membership> {
    let stored = Membership::read(shards.first()).await?;
    let first = stored.unwrap_or(Membership { account: String::new(), number: 0, shards: None });
    if first.number != 0 {
        return Err(misplaced(0, format!("it is shard {} of an account", first.number)));
    }
    if let Some(known) = first.shards.filter(|known| *known > shards.count()) {
        shards.get(known - 1)?;
    }
    Ok(first)
}

/// Whether a further shard is marked as it should be; false for a new one.
async fn check(shard: &Shard, number: u16, known: u16, account: &str) -> Result<bool> {
    match Membership::read(shard).await? {
        Some(mark) if mark.number != number => {
            Err(misplaced(number, format!("it is shard {} of an account", mark.number)))
        }
        Some(mark) if mark.account == account => Ok(true),
        // Marked by an interrupted start of any account, and not counted by shard 0: nothing was ever stored there.
        Some(_) if number >= known && holds_nothing(shard).await? => Ok(false),
        Some(_) => Err(misplaced(number, "it belongs to another account".to_owned())),
        None if number < known => Err(misplaced(number, "it has lost what was on it".to_owned())),
        None if holds_nothing(shard).await? => Ok(false),
        None => Err(misplaced(number, "it holds data of another account".to_owned())),
    }
}

/// Whether there is nothing but, perhaps, the mark and the stamp of the log.
async fn holds_nothing(shard: &Shard) -> Result<bool> {
    let own = [key(MEMBERSHIP, &[]), stamp_key()];
    let mut scan = shard
        .snapshot()
        .scan(vec![0]..vec![0xFF; 8], ScanOptions { limit: Some(3), ..ScanOptions::default() });
    while let Some(rows) = scan.next_chunk().await.map_err(storage_error)? {
        if rows.iter().any(|(found, _)| !own.iter().any(|own| **found == **own)) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn misplaced(number: u16, why: String) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("shard {number} cannot be used: {why}; bring back the shard that was in its place"),
    )
}
