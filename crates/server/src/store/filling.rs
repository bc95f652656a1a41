//! The prefix of a store as the target or the source of `shardlake migrate`.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use shardlake_account::Shards;
use shardlake_lease::share_secret;
use shardlake_stdx::Clock;

use super::objects::Means;
use super::{Claim, Prefix, StoreUrl, objects};
use crate::config::Config;
use crate::private_file::{self, Secrecy};
use crate::settings::Settings;
use crate::stored_json;
use crate::tls::Authority;

const KEYS: &str = "keys.json";
const AUTHORITY: &str = "authority.json";
/// There while the copy is complete and follows its source.
const COPIED: &str = "COPIED";
/// Maximum size of a file with keys or an authority.
const SECRET_BYTES_MAX: u64 = 64 << 10;

/// Open to be filled, with the lease of the account.
pub struct Filling {
    prefix: Prefix,
    claim: Claim,
    shards: Shards,
}

impl Filling {
    /// Begins below an empty prefix, or continues an unfinished copy that was begun under the same name.
    ///
    /// The log is written to the store that `log` names, or to the same place as before.
    pub async fn open(url: &StoreUrl, what: &str, shards: u16, log: Option<&str>) -> Result<Filling, String> {
        let prefix = Prefix::new(url)?;
        match prefix.restoring().await? {
            Some(found) if found == what => {}
            Some(_) => prefix.check_is_served_here().await?,
            None if prefix.is_empty().await? => prefix.set_restoring(what).await?,
            None => return Err(format!("'{url}' is not empty: name a prefix that holds nothing")),
        }
        let prefix = prefix.with_log(log).await?;
        let claim = prefix.claim(objects::LEASE, "shardlake migrate").await?;
        let claim =
            claim.ok_or_else(|| format!("another command moves an account to '{url}': wait for its end"))?;
        let settings = Settings { store: Some(url.to_string()), shards: Some(shards), ..Settings::default() };
        let opened = match Config::new(settings) {
            Ok(config) => {
                objects::open_shards(&config, &prefix.location, claim.lease_holder(), Means::default()).await
            }
            Err(error) => Err(error),
        };
        match opened {
            Ok(shards) => Ok(Filling { prefix, claim, shards }),
            Err(error) => {
                claim.release().await;
                Err(error)
            }
        }
    }

    pub fn shards(&self) -> &Shards {
        &self.shards
    }

    pub fn url(&self) -> String {
        self.prefix.name()
    }

    /// The note of a copy that is complete.
    pub async fn copied(&self) -> Result<Option<Vec<u8>>, String> {
        self.prefix.get(COPIED, SECRET_BYTES_MAX).await
    }

    pub async fn set_copied(&self, text: Option<Vec<u8>>) -> Result<(), String> {
        self.claim.check()?;
        match text {
            Some(text) => self.prefix.put(COPIED, text).await,
            None => self.prefix.remove(COPIED).await,
        }
    }

    /// Completes the copy: records the account and its shards in the prefix, stores the keys and the certificate authority of the
    /// source directory, if it has them, and closes the shards.
    pub async fn complete(&self, from: &Path) -> Result<(), String> {
        objects::remember(&self.prefix.location, &self.shards).await?;
        let share = async |name: &str, content: Vec<u8>| {
            let shared = share_secret(&self.prefix.location, name, content).await;
            shared.map(|_| ()).map_err(|error| error.to_string())
        };
        if let Ok(keys) = std::fs::read(from.join(KEYS)) {
            share(KEYS, keys).await?;
        }
        if from.join("tls").join("ca-key.pem").exists() {
            let authority = Authority::of(from, Clock::System.now())?;
            share(AUTHORITY, serde_json::to_vec(&authority).map_err(|error| error.to_string())?).await?;
        }
        self.shards.close().await.map_err(|error| error.to_string())
    }

    /// Servers may take the account from now on.
    pub async fn release_to_servers(self) -> Result<(), String> {
        self.claim.check()?;
        self.prefix.clear_restoring().await?;
        // The note is unused from here on, so an error does not matter.
        let _removed = self.prefix.remove(COPIED).await;
        self.claim.release().await;
        Ok(())
    }

    pub async fn leave(self) -> Result<(), String> {
        let closed = self.shards.close().await.map_err(|error| error.to_string());
        self.claim.release().await;
        closed
    }
}

/// Copies the keys and the authority of a prefix to a data directory, and marks the prefix as moved there.
pub async fn leave(url: &StoreUrl, data_dir: &Path) -> Result<(), String> {
    let prefix = Prefix::new(url)?;
    if let Some(keys) = prefix.get("secrets/keys.json", SECRET_BYTES_MAX).await? {
        let path = data_dir.join(KEYS);
        private_file::write(&path, &keys, Secrecy::Secret)
            .map_err(|error| format!("'{}' cannot be written: {error}", path.display()))?;
    }
    if let Some(text) = prefix.get("secrets/authority.json", SECRET_BYTES_MAX).await? {
        let authority: Authority =
            stored_json::read(&text, &format!("the object '{url}/secrets/{AUTHORITY}'"), "")?;
        let tls = data_dir.join("tls");
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&tls)
            .map_err(|error| format!("'{}' cannot be made: {error}", tls.display()))?;
        authority.put(data_dir)?;
    }
    prefix.set_moved(&data_dir.display().to_string()).await
}
