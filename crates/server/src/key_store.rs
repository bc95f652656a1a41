//! The keys of a running server, for operators: each can be replaced by a new one while clients keep working.
//!
//! A rotation writes the key file first, whole and synced, then accepts the new keys. A crash in between leaves the new key in the file, so
//! that the next start accepts it. Once the new file is in its place, the new key is in force, also where its directory cannot be synced:
//! file and server agree at each point in time. The log has a line with the fingerprints of both keys.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use shardlake_admin::{KeyName, KeyStore, NamedKey};
use shardlake_gateway_mongo::MongoGateway;
use shardlake_gateway_nosql::Gateway;
use shardlake_model::{Error, ErrorKind, Result};
use shardlake_signature::fingerprint;
use shardlake_stdx::Random;

use crate::keys::{self, AccountKeys, KeySource};
use crate::mongo;

/// Changed keys are on record at every level of the log.
const AUDIT: &str = "audit";

pub struct ServedKeys {
    source: KeySource,
    /// Several servers share the keys through the object store.
    is_shared: bool,
    random: Random,
    keys: Mutex<Vec<NamedKey>>,
    /// `None` before the start ends, and after the stop begins: a gateway holds the account open.
    gateways: Mutex<Option<(Gateway, Option<MongoGateway>)>>,
}

impl fmt::Debug for ServedKeys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "keys from {:?}", self.source)
    }
}

impl ServedKeys {
    pub fn new(keys: &AccountKeys, is_shared: bool, random: Random) -> ServedKeys {
        ServedKeys {
            source: keys.source.clone(),
            is_shared,
            random,
            keys: Mutex::new(keys.named.clone()),
            gateways: Mutex::default(),
        }
    }

    /// Lets these gateways accept the keys. Returns the first of them.
    pub fn serve(&self, gateway: Gateway, mongo: Option<MongoGateway>) -> Gateway {
        *self.gateways() = Some((gateway.clone(), mongo));
        gateway
    }

    /// Lets go of the gateways.
    pub fn end(&self) {
        *self.gateways() = None;
    }

    fn gateways(&self) -> MutexGuard<'_, Option<(Gateway, Option<MongoGateway>)>> {
        self.gateways.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self) -> Result<&Path> {
        let refuse = |why: &str| Err(Error::new(ErrorKind::Conflict, why.to_owned()));
        match &self.source {
            KeySource::File { path, is_json: true } if !self.is_shared => Ok(path),
            KeySource::File { is_json: true, .. } => refuse(
                "the servers of this account share their keys through the object store: stop them, and change the keys there",
            ),
            KeySource::File { .. } => refuse(
                "the key file holds a key alone, without names: write it as JSON with the members primary and secondary first",
            ),
            KeySource::Variable => refuse("the key comes from AZURE_COSMOS_EMULATOR_KEY: change it there"),
            KeySource::WellKnown => refuse(
                "the emulators' well-known key does not change: give the server keys of its own with --key-file, or by listening on an \
                 address that others reach",
            ),
        }
    }
}

impl KeyStore for ServedKeys {
    fn keys(&self) -> Vec<NamedKey> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn file(&self) -> Option<String> {
        match &self.source {
            KeySource::File { path, .. } => Some(absolute(path).display().to_string()),
            KeySource::WellKnown | KeySource::Variable => None,
        }
    }

    fn rotate(&self, name: KeyName) -> Result<NamedKey> {
        let path = self.path()?;
        let gateways = self.gateways().clone();
        let unavailable = || Error::new(ErrorKind::Unavailable, "the server is starting or stopping");
        let (gateway, mongo) = gateways.ok_or_else(unavailable)?;
        // The file is synced, which blocks.
        tokio::task::block_in_place(|| {
            let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
            check_can_change(path, &keys)?;
            let made = NamedKey { name, key: keys::new_key(&self.random) };
            let old = keys.iter().find(|key| key.name == name).map(|key| fingerprint(&key.key));
            let mut changed: Vec<NamedKey> = keys.iter().filter(|key| key.name != name).cloned().collect();
            changed.push(made.clone());
            changed.sort_by_key(|key| key.name);
            assert!(changed.iter().any(|key| key.name == KeyName::Primary), "a key file has a primary key");
            let unsynced = keys::write(path, &changed).map_err(|why| Error::new(ErrorKind::Internal, why))?;
            let accepted = keys::accepted(&changed);
            gateway.set_keys(&accepted)?;
            if let Some(mongo) = mongo {
                mongo.set_keys(mongo::keys_of(&accepted));
            }
            *keys = changed;
            if let Some(reason) = unsynced {
                tracing::warn!(
                    reason,
                    key = name.text(),
                    "the new account key is in force and in its file, but a power cut may bring back the old key: keep a copy of the file"
                );
            }
            tracing::info!(
                target: AUDIT,
                key = name.text(),
                old = old.as_deref().unwrap_or("none"),
                new = fingerprint(&made.key),
                "an account key was rotated"
            );
            Ok(made)
        })
    }
}

/// A rotation writes the whole file. Another program's changes to the file would be lost, and a key with a second name would
/// stay valid under that name.
fn check_can_change(path: &Path, keys: &[NamedKey]) -> Result<()> {
    let refuse = |why: String| Err(Error::new(ErrorKind::Conflict, why));
    if keys.iter().any(|key| key.key == keys::WELL_KNOWN_KEY) {
        return refuse(format!(
            "'{}' holds the emulators' well-known key, with which MongoDB's clients need no login: replace it in the file, and restart",
            path.display()
        ));
    }
    let mut texts: Vec<&str> = keys.iter().map(|key| key.key.as_str()).collect();
    texts.sort_unstable();
    if texts.windows(2).any(|pair| pair[0] == pair[1]) {
        return refuse(format!(
            "'{}' holds one key under two names: replace one of them in the file, and restart",
            path.display()
        ));
    }
    let stored = keys::read_named(path).map_err(|why| Error::new(ErrorKind::Conflict, why))?;
    let is_same = |(left, right): (&NamedKey, &NamedKey)| left.name == right.name && left.key == right.key;
    if stored.len() != keys.len() || !stored.iter().zip(keys).all(is_same) {
        return refuse(format!(
            "'{}' was changed since the server read it: restart the server, so that it serves these keys, and rotate then",
            path.display()
        ));
    }
    Ok(())
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
