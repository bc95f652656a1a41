//! An account in a store as commands see it: read-only, with its server stopped or running.

use shardlake_account::{AccountMark, Shards};
use shardlake_storage::object::{
    Moment, ReadOptions, SharedCache, WithLog, check_log, forget_checkpoints, kept_files_of_closed,
    open_to_read,
};
use shardlake_storage::{KeptFiles, LogTail, Shard};

use super::objects;
use super::{Claim, Prefix, StoreUrl};
use crate::shards;

/// Block cache of commands: small, since they read each table once.
const CACHE_BYTES: u64 = 64 << 20;

/// An account that no server has for as long as this is there.
pub struct Stopped {
    pub prefix: Prefix,
    pub claim: Claim,
}

impl Stopped {
    /// Takes the lease of the account, as its server would.
    ///
    /// `moving_to` is where it is being moved: a move that was cut off after its last copy is no reason to refuse that.
    pub async fn take(url: &StoreUrl, what: &str, moving_to: Option<&str>) -> Result<Stopped, String> {
        let prefix = Prefix::of_account(url).await?;
        if moving_to.is_none() || prefix.moved().await?.as_deref() != moving_to {
            prefix.check_is_served_here().await?;
        }
        if objects::count(&prefix.location).await? == 0 {
            return Err(format!("'{url}' holds no account of a server: there is no shard in it"));
        }
        let claim = prefix.claim(objects::LEASE, what).await?.ok_or_else(|| {
            format!("a server has the account in '{url}': stop it, or say --online and where it is")
        })?;
        Ok(Stopped { prefix, claim })
    }

    /// Everything that was acknowledged.
    pub async fn files(&self, with_log: WithLog) -> Result<Vec<KeptFiles>, String> {
        let mut files = Vec::new();
        for path in paths(&self.prefix).await? {
            let kept = kept_files_of_closed(&self.prefix.location.store, &path, with_log).await;
            files.push(kept.map_err(|error| error.to_string())?);
        }
        Ok(files)
    }

    pub async fn shards(&self) -> Result<Shards, String> {
        self.prefix.shards_to_read(&Moment::Latest).await
    }
}

impl Prefix {
    /// All shards of the account, to read.
    pub async fn shards_to_read(&self, moment: &Moment) -> Result<Shards, String> {
        let cache = SharedCache::new(CACHE_BYTES);
        let mut found: Vec<Shard> = Vec::new();
        for (number, path) in (0..).zip(paths(self).await?) {
            let options = ReadOptions {
                store: self.location.store.clone(),
                path,
                moment: moment.clone(),
                cache: cache.clone(),
                number,
                is_scanned: shardlake_account::is_scanned,
            };
            found.push(open_to_read(options).await.map_err(|error| error.to_string())?);
        }
        let found = Shards::from(found);
        shards::check(objects::read_mark(&self.location).await?.as_ref(), &found).await?;
        Ok(found)
    }

    /// Which account a server found here at its last good start.
    pub async fn account_mark(&self) -> Result<Option<AccountMark>, String> {
        objects::read_mark(&self.location).await
    }

    /// The logs of the first shards, each from a place on, or from where it ends now.
    pub async fn logs(&self, places: &[Option<u64>]) -> Result<Vec<LogTail>, String> {
        let mut logs = Vec::with_capacity(places.len());
        for (number, place) in (0..).zip(places) {
            let path = self.location.place(&objects::name(number)).to_string();
            let log = LogTail::of_store(&self.location.store, &path, *place).await;
            logs.push(log.map_err(|error| error.to_string())?);
        }
        Ok(logs)
    }

    /// Refuses a log with a missing object, of any shard.
    pub async fn check_logs(&self) -> Result<(), String> {
        for path in paths(self).await? {
            check_log(&self.location.store, &path).await.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Removes the checkpoints of the original place after files of a backup were copied here.
    pub async fn forget_checkpoints(&self) -> Result<(), String> {
        for path in paths(self).await? {
            let forgotten = forget_checkpoints(&self.location.store, &path).await;
            forgotten.map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

/// The paths of the shards.
async fn paths(prefix: &Prefix) -> Result<Vec<String>, String> {
    let count = objects::count(&prefix.location).await?;
    let remembered = objects::read_mark(&prefix.location).await?.map_or(0, |mark| mark.shards);
    if count < remembered {
        return Err(format!(
            "the shard {count} of '{}' is missing: the account has {remembered}",
            prefix.name()
        ));
    }
    Ok((0..count).map(|number| prefix.location.place(&objects::name(number)).to_string()).collect())
}
