//! Layout of the prefix of an account, and opening its shards.
//!
//! ```text
//! account.json          the account's id and number of shards: written at the end of every successful start if the content differs
//! lease/{number}.json   the server that serves the account (shardlake_lease)
//! s/{shard}-1/          the database of a shard; the 1 allows for a later rebuild of the shard next to the old one
//! secrets/              keys and the authority of certificates, for every server of the account
//! wal.json              where the log is, if not here: `log_place.rs`
//! probe/                for self-tests, which delete their objects
//! ```

use std::sync::Arc;

use futures::future::try_join_all;
use shardlake_account::{AccountMark, SHARDS_MAX, Shards};
use shardlake_lease::{LeaseHolder, Location};
use shardlake_stdx::Clock;
use shardlake_storage::object::object_store::{self, ObjectStore as _, ObjectStoreExt as _, PutPayload};
use shardlake_storage::object::{Circuits, DiskCache, ObjectEngine, ObjectOptions, SharedCache, WriteMemory};
use shardlake_storage::{Shard, ShardOptions, StorageError};

use crate::config::Config;
use crate::shards;
use crate::stored_json;

/// Folder of the lease of the serving server.
pub const LEASE: &str = "lease";
const ACCOUNT: &str = "account.json";
const SHARDS: &str = "s";
const GENERATION: &str = "-1";
const DIGITS: usize = 5;
/// Memtables of each shard, as on a local disk: one for writes, and some that wait to be written to tables.
const MEMTABLES: u64 = 4;
/// The remedy for data that is missing.
const BRING_BACK: &str = "bring it back from a backup or from the store's former versions";

/// Circuit breakers and disk cache of a server; a command has neither, and waits for a store that fails.
#[derive(Debug, Clone, Copy, Default)]
pub struct Means<'m> {
    pub circuits: Option<&'m Circuits>,
    pub disk_cache: Option<&'m Arc<DiskCache>>,
}

/// Opens the shards for the lease holder, and makes those that are missing.
pub async fn open_shards(
    config: &Config,
    location: &Location,
    lease_holder: &LeaseHolder,
    means: Means<'_>,
) -> Result<Shards, String> {
    let remembered = read_mark(location).await?;
    let known = remembered.as_ref().map_or(0, |mark| mark.shards);
    let existing = count(location).await?;
    if existing < known {
        let place = location.place(&name(existing));
        return Err(format!(
            "the shard at '{place}' is missing, though the account has {known} of them: {BRING_BACK}"
        ));
    }
    let wanted = shards::wanted(config, existing)?;
    let shared = shards::options(config, wanted);
    let cache = SharedCache::new(u64::from(wanted) * shared.block_cache_bytes());
    let write_memory = WriteMemory::new(u64::from(wanted) * MEMTABLES * shared.memtable_bytes);
    let open = |number: u16| {
        let options = ObjectOptions {
            store: location.store.clone(),
            path: location.place(&name(number)).to_string(),
            must_exist: number < known,
            epoch: Some(lease_holder.term),
            lease: Some(lease_holder.lease.clone()),
            circuits: means.circuits.cloned(),
            disk_cache: means.disk_cache.cloned(),
            cache: cache.clone(),
            number: u64::from(number),
            memtable_bytes: shared.memtable_bytes,
            write_memory: write_memory.clone(),
            shards: wanted,
            log_kept: config.restore_window.unwrap_or_default(),
            clock: Clock::System,
            is_scanned: shardlake_account::is_scanned,
        };
        Box::pin(open_shard(options, &shared))
    };
    let mut shards = try_join_all((0..existing).map(open)).await?;
    // One after the other: a start that is interrupted leaves no gap.
    for number in existing..wanted {
        shards.push(open(number).await?);
    }
    let shards = Shards::from(shards);
    shards::check(remembered.as_ref(), &shards).await?;
    Ok(shards)
}

async fn open_shard(options: ObjectOptions, shared: &ShardOptions) -> Result<Shard, String> {
    let engine = ObjectEngine::open(options).await.map_err(|error| explain(&error))?;
    Shard::with_engine(Arc::new(engine), shared).map_err(|error| explain(&error))
}

/// Records account and shards in the prefix after a successful start.
pub async fn remember(location: &Location, shards: &Shards) -> Result<(), String> {
    let found = AccountMark::read(shards).await.map_err(|error| error.to_string())?;
    let Some(found) = found else { return Ok(()) };
    if read_mark(location).await?.as_ref() == Some(&found) {
        return Ok(());
    }
    let text = serde_json::to_vec(&found).map_err(|error| error.to_string())?;
    let written = location.store.put(&location.place(ACCOUNT), PutPayload::from(text)).await;
    written.map(|_| ()).map_err(|error| failed(&error))
}

pub async fn read_mark(location: &Location) -> Result<Option<AccountMark>, String> {
    let place = location.place(ACCOUNT);
    let text = match location.store.get(&place).await {
        Ok(found) => found.bytes().await.map_err(|error| failed(&error))?,
        Err(object_store::Error::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(failed(&error)),
    };
    let remedy = ": remove it if all shards are in their places, and the next start writes it anew";
    stored_json::read(&text, &format!("the object '{place}'"), remedy).map(Some)
}

/// The number of shards. A gap is an error: the data of that shard is missing.
pub async fn count(location: &Location) -> Result<u16, String> {
    let listed = location.store.list_with_delimiter(Some(&location.place(SHARDS))).await;
    let found = listed.map_err(|error| failed(&error))?.common_prefixes;
    let mut numbers: Vec<u16> =
        found.iter().filter_map(|place| number_of(place.parts().next_back()?.as_ref())).collect();
    numbers.sort_unstable();
    let gap =
        (0..).zip(&numbers).find(|(expected, number)| expected != *number).map(|(expected, _)| expected);
    match gap {
        Some(missing) => Err(format!(
            "the shard at '{}' is missing, though there are later ones: {BRING_BACK}",
            location.place(&name(missing))
        )),
        None if numbers.len() > SHARDS_MAX => {
            Err(format!("there are {} shards, but an account has at most {SHARDS_MAX}", numbers.len()))
        }
        None => {
            let count = numbers.len() as u16;
            assert!(
                numbers.last().is_none_or(|last| last + 1 == count),
                "shards are numbered from 0 without gaps"
            );
            Ok(count)
        }
    }
}

pub fn name(number: u16) -> String {
    format!("{SHARDS}/{number:0DIGITS$}{GENERATION}")
}

fn number_of(name: &str) -> Option<u16> {
    let digits = name.strip_suffix(GENERATION).filter(|digits| digits.len() == DIGITS)?;
    digits.parse().ok()
}

fn failed(error: &object_store::Error) -> String {
    format!("the store: {error}")
}

/// The error with the remedy for a shard that does not open.
fn explain(error: &StorageError) -> String {
    let advice = match error {
        StorageError::Missing { .. } => return format!("{error}, though there was one: {BRING_BACK}"),
        StorageError::Fenced { .. } => ": another server has taken the account",
        StorageError::Corrupt { .. } => ": bring back what is missing, or restore the account from a backup",
        _ => "",
    };
    format!("{error}{advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn counted(names: &[&str]) -> Result<u16, String> {
        let directory = tempfile::tempdir().expect("a directory");
        let url = format!("file://{}", directory.path().display());
        let location = Location::parse(&url, std::iter::empty()).expect("a directory");
        for name in names {
            let object = location.place(name).join("manifest");
            location.store.put(&object, PutPayload::from_static(b"x")).await.expect("stored");
        }
        count(&location).await
    }

    #[tokio::test]
    async fn shards_are_counted_and_a_gap_is_told() {
        assert_eq!(counted(&[]).await, Ok(0));
        assert_eq!(counted(&["s/00000-1", "s/1-1", "s/00001-2", "lease"]).await, Ok(1));
        assert_eq!(counted(&["s/00001-1", "s/00000-1"]).await, Ok(2));
        assert!(counted(&["s/00000-1", "s/00002-1"]).await.expect_err("a gap").contains("s/00001-1"));
    }
}
