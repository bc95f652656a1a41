//! Builds without object storage: `config.rs` lets no `--store` come here.

use std::convert::Infallible;

use shardlake_account::Shards;
use shardlake_stdx::{Clock, Random};

use crate::config::{Config, StoreConfig};
use crate::store_metrics::StoreMetrics;

pub struct StoreHome(Infallible);

impl StoreHome {
    pub async fn prepare(
        _config: &Config,
        _store: &StoreConfig,
        _time_and_chance: (&Clock, &Random),
        _metrics: &StoreMetrics,
    ) -> Result<StoreHome, String> {
        Err("this build has no object storage".into())
    }

    pub async fn open(&mut self, _config: &Config) -> Result<Shards, String> {
        match self.0 {}
    }

    pub async fn is_restored(&self) -> Result<bool, String> {
        match self.0 {}
    }

    pub async fn clear_restored(&self) -> Result<(), String> {
        match self.0 {}
    }

    pub async fn remember(&self, _shards: &Shards) -> Result<(), String> {
        match self.0 {}
    }

    pub async fn lost(&self) -> String {
        match self.0 {}
    }

    pub async fn release(&mut self) {
        match self.0 {}
    }
}
