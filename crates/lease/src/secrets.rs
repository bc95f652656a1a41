//! Files that all servers of an account share: the account's keys, the authority of its certificates.
//!
//! Any reader of the data may read them, so they lie next to the data. The first server to store a
//! file wins, and the others take it over: clients keep using the key and the authority that they
//! know, whichever server answers.

use bytes::Bytes;
use shardlake_storage::object::object_store::ObjectStore as _;
use shardlake_storage::object::object_store::{self, ObjectStoreExt as _, PutMode, PutOptions, PutPayload};

use crate::{ClusterError, Location};

/// The content that the store has under the name, which is `own` if there was none yet.
pub async fn share_secret(location: &Location, name: &str, own: Vec<u8>) -> Result<Vec<u8>, ClusterError> {
    let place = location.place("secrets").join(name);
    let create = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
    let stored = location.store.put_opts(&place, PutPayload::from_bytes(Bytes::from(own)), create).await;
    match stored {
        Ok(_) | Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {
        }
        Err(error) => return Err(error.into()),
    }
    Ok(location.store.get(&place).await?.bytes().await?.to_vec())
}
