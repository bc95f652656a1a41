//! Where the data lies: in the data directory, in memory, or in an object store.

use shardlake_account::{Account, Shards};
use shardlake_stdx::{Clock, Random};

use crate::config::Config;
use crate::descriptors::Descriptors;
use crate::moved_mark;
use crate::restore_mark;
use crate::shards;
use crate::start_checks;
use crate::store::{StoreHome, check_is_not_of_a_store};
use crate::store_metrics::StoreMetrics;

/// Shards' worth of open files for the connections to a store.
const STORE_FILES: u16 = 2;

pub struct Home {
    /// `None` for data in the data directory or in memory.
    store: Option<StoreHome>,
    /// From when they are open.
    shards: Option<Shards>,
}

impl Home {
    /// Finds it and has it for itself. Shards in the data directory are opened; those in a store wait for [`Home::open`].
    pub async fn find(
        config: &Config,
        files_max: u64,
        (clock, random): (&Clock, &Random),
        metrics: Option<&StoreMetrics>,
    ) -> Result<(Home, Descriptors), String> {
        if let (Some(store), Some(metrics)) = (&config.store, metrics) {
            let descriptors = Descriptors::share(files_max, STORE_FILES, config.limits.connections_max)?;
            let store = StoreHome::prepare(config, store, (clock, random), metrics).await?;
            return Ok((Home { store: Some(store), shards: None }, descriptors));
        }
        let mut found = None;
        if let Some(data_dir) = &config.data_dir {
            check_is_not_of_a_store(data_dir)?;
            moved_mark::check_is_here(data_dir)?;
            start_checks::check_holds_no_backups(data_dir)?;
            found = Some((start_checks::look(data_dir), data_dir));
        }
        let (shards, descriptors) = shards::open(config, files_max).await?;
        if let Some((found, data_dir)) = found {
            start_checks::log(found, data_dir);
        }
        Ok((Home { store: None, shards: Some(shards) }, descriptors))
    }

    /// The shards. In a store, they are opened when no other server has them any more.
    pub async fn open(&mut self, config: &Config) -> Result<Shards, String> {
        if let Some(shards) = &self.shards {
            return Ok(shards.clone());
        }
        let store = self.store.as_mut().ok_or("there is no store")?;
        Ok(self.shards.insert(store.open(config).await?).clone())
    }

    /// Records account and shards in the place after a successful start.
    pub async fn remember(&self, config: &Config) -> Result<(), String> {
        match (&self.store, &self.shards) {
            (Some(store), Some(shards)) => store.remember(shards).await,
            (None, Some(shards)) => shards::remember(config, shards).await,
            _ => Ok(()),
        }
    }

    /// Notes in the catalog that the account was restored from a backup, once after each restore: analytical tables may have
    /// changes that the account lacks.
    pub async fn note_restored(&self, config: &Config, account: &Account) -> Result<(), String> {
        let cannot = |error: std::io::Error| format!("the mark of a restore cannot be removed: {error}");
        let is_restored = match (&self.store, &config.data_dir) {
            (Some(store), _) => store.is_restored().await?,
            (None, data_dir) => data_dir.as_deref().is_some_and(restore_mark::is_restored),
        };
        if !is_restored {
            return Ok(());
        }
        let noted = account.definitions().renew_analytical_histories().await;
        noted.map_err(|error| format!("the restore cannot be noted: {error}"))?;
        match (&self.store, &config.data_dir) {
            (Some(store), _) => store.clear_restored().await,
            (None, Some(data_dir)) => restore_mark::clear_restored(data_dir).map_err(cannot),
            (None, None) => Ok(()),
        }
    }

    /// Resolves when another server has taken the account, to the message for the log.
    pub async fn lost(&self) -> String {
        match &self.store {
            Some(store) => store.lost().await,
            None => std::future::pending().await,
        }
    }

    /// After a start that was not finished.
    pub async fn abandon(&mut self) -> Result<(), String> {
        if let Some(shards) = self.shards.take() {
            shards.close().await.map_err(|error| error.to_string())?;
        }
        self.release().await;
        Ok(())
    }

    /// Nothing is written or answered any more.
    pub async fn release(&mut self) {
        if let Some(store) = &mut self.store {
            store.release().await;
        }
    }
}
