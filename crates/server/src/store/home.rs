//! From the URL to shards that this server alone serves, and back.

use std::sync::Arc;

use shardlake_account::Shards;
use shardlake_lease::{ClusterError, LeaseHolder, Location, Node, Register, self_test, share_secret, take};
use shardlake_stdx::{Clock, Random};
use shardlake_storage::StorageError;
use shardlake_storage::object::{Circuit, Circuits, DiskCache};

use super::node_file::LockedNode;
use super::objects::Means;
use super::{Prefix, log_place, objects};
use crate::config::{Config, DiskCacheConfig, Manner, StoreConfig};
use crate::keys;
use crate::private_file::{self, Secrecy};
use crate::store_metrics::StoreMetrics;
use crate::stored_json;
use crate::tls::Authority;

const KEYS: &str = "keys.json";
const AUTHORITY: &str = "authority.json";

/// The account's place, and this server's claim to it.
pub struct StoreHome {
    location: Location,
    data: LockedNode,
    node: Node,
    lease_holder: Option<LeaseHolder>,
    circuits: Circuits,
    disk_cache: Option<Arc<DiskCache>>,
}

impl StoreHome {
    /// Steps that need no lease: tests the store, and copies the keys and the authority of the account to the data directory.
    pub async fn prepare(
        config: &Config,
        store: &StoreConfig,
        (clock, random): (&Clock, &Random),
        metrics: &StoreMetrics,
    ) -> Result<StoreHome, String> {
        let location = Location::parse(&store.url, std::env::vars()).map_err(|error| error.to_string())?;
        let observed = |location: Location| location.observed(metrics.observe(), clock.clone());
        let location = observed(location);
        let data_dir = config.data_dir.as_deref().ok_or("--store needs a data directory")?;
        let data = LockedNode::open(data_dir, &store.url)?;
        let incarnation = random.guid().to_string();
        self_test(&location, &incarnation).await.map_err(|error| error.to_string())?;
        Prefix { location: location.clone() }.check_is_served_here().await?;
        let location = log_place::of_server(location, store.log_url.as_deref(), observed).await?;
        let disk_cache = store.disk_cache.as_ref().map(|disk| disk_cache(disk, metrics)).transpose()?;
        share_keys(config, &location, random).await?;
        if config.tls_files.is_none() {
            share_authority(&location, &data, clock).await?;
        }
        let node = Node {
            name: store.node_name.clone(),
            incarnation,
            former: data.former(),
            ttl: store.lease,
            manner: match store.manner {
                Manner::Refuse => shardlake_lease::Manner::Refuse,
                Manner::StandBy => shardlake_lease::Manner::StandBy,
                Manner::TakeOver => shardlake_lease::Manner::TakeOver,
            },
            clock: clock.clone(),
        };
        let circuits = circuits(store, clock, metrics);
        Ok(StoreHome { location, data, node, lease_holder: None, circuits, disk_cache })
    }

    /// Takes the lease, when it may be had, and opens the shards.
    pub async fn open(&mut self, config: &Config) -> Result<Shards, String> {
        let register = Register::new(self.location.store.clone(), self.location.place(objects::LEASE));
        let taken = take(register, self.node.clone()).await.map_err(|error| explain(&error))?;
        tracing::info!(term = taken.term, store = self.location.url, "this server has the account");
        let lease_holder = self.lease_holder.insert(taken);
        self.data.remember(&self.node.incarnation)?;
        let means = Means { circuits: Some(&self.circuits), disk_cache: self.disk_cache.as_ref() };
        objects::open_shards(config, &self.location, lease_holder, means).await
    }

    /// Whether the account was restored, and no server has noted that.
    pub async fn is_restored(&self) -> Result<bool, String> {
        Prefix { location: self.location.clone() }.is_restored().await
    }

    pub async fn clear_restored(&self) -> Result<(), String> {
        Prefix { location: self.location.clone() }.clear_restored().await
    }

    pub async fn remember(&self, shards: &Shards) -> Result<(), String> {
        objects::remember(&self.location, shards).await
    }

    /// Ends when another server has taken the account.
    pub async fn lost(&self) -> String {
        match &self.lease_holder {
            Some(lease_holder) => lease_holder.lost().await,
            None => std::future::pending().await,
        }
    }

    /// Nothing is written or answered any more: another server need not wait.
    pub async fn release(&mut self) {
        let Some(lease_holder) = self.lease_holder.take() else { return };
        if let Err(error) = lease_holder.release().await {
            tracing::warn!(%error, "the lease was not given back: another server waits for its end");
        }
    }
}

/// The circuit breakers: two where the log lies in a separate store.
fn circuits(store: &StoreConfig, clock: &Clock, metrics: &StoreMetrics) -> Circuits {
    let data = Arc::new(Circuit::new(clock.clone(), metrics.observe_circuit()));
    match store.log_url {
        Some(_) => {
            Circuits { data, log: Arc::new(Circuit::of_log(clock.clone(), metrics.observe_log_circuit())) }
        }
        None => Circuits::of_one_store(data),
    }
}

fn disk_cache(disk: &DiskCacheConfig, metrics: &StoreMetrics) -> Result<Arc<DiskCache>, String> {
    match DiskCache::open(&disk.directory, disk.bytes_max, metrics.observe_disk_cache()) {
        Ok(cache) => Ok(Arc::new(cache)),
        Err(StorageError::Locked { directory }) => Err(format!(
            "another server uses the disk cache '{}': name another --disk-cache",
            directory.display()
        )),
        Err(error) => Err(error.to_string()),
    }
}

fn explain(error: &ClusterError) -> String {
    error.to_string()
}

async fn share_keys(config: &Config, location: &Location, random: &Random) -> Result<(), String> {
    let Some(path) = keys::generated(config, random)? else { return Ok(()) };
    let cannot = |error: &dyn std::fmt::Display| format!("the key file '{}': {error}", path.display());
    let own = std::fs::read(&path).map_err(|error| cannot(&error))?;
    let shared = share_secret(location, KEYS, own.clone()).await.map_err(|error| error.to_string())?;
    if shared != own {
        private_file::write(&path, &shared, Secrecy::Secret).map_err(|error| cannot(&error))?;
        tracing::info!(file = %path.display(), "keys taken over from the store");
    }
    Ok(())
}

async fn share_authority(location: &Location, data: &LockedNode, clock: &Clock) -> Result<(), String> {
    let own = Authority::of(&data.data_dir, clock.now())?;
    let text = serde_json::to_vec(&own).map_err(|error| error.to_string())?;
    let shared = share_secret(location, AUTHORITY, text).await.map_err(|error| error.to_string())?;
    let place = format!("the object '{}'", location.place("secrets").join(AUTHORITY));
    let shared: Authority = stored_json::read(&shared, &place, "")?;
    if shared != own {
        shared.put(&data.data_dir)?;
        tracing::info!("the authority of certificates was taken over from the store");
    }
    Ok(())
}
