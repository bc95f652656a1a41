//! The laws that a store must keep, tried before anything relies on them.
//!
//! | law | consequence of a violation |
//! |---|---|
//! | of concurrent creations of one object, exactly one succeeds | two servers own a shard, and acknowledged writes are lost |
//! | a stored object is read and listed at once | a server does not see that another one was faster |
//! | a removed object stays removed | old records come back |

use bytes::Bytes;
use futures::TryStreamExt as _;
use futures::future::join_all;
use shardlake_storage::object::object_store::path::Path;
use shardlake_storage::object::object_store::{
    self, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload,
};

use crate::{ClusterError, Location};

const ROUNDS: u32 = 3;
const AT_ONCE: u32 = 12;

/// Tries the laws on objects of its own, named by `run`, which must be unique.
///
/// # Errors
/// [`ClusterError::Law`] names the law that the store broke.
pub async fn self_test(location: &Location, run: &str) -> Result<(), ClusterError> {
    for round in 0..ROUNDS {
        let folder = location.place("probe");
        let place = folder.clone().join(format!("{run}-{round}"));
        create_at_once(&*location.store, &place).await?;
        let listed: Vec<_> = location.store.list(Some(&folder)).try_collect().await?;
        if !listed.iter().any(|object| object.location == place) {
            return Err(broken("an object that was stored is not listed"));
        }
        location.store.delete(&place).await?;
        match location.store.get(&place).await {
            Err(object_store::Error::NotFound { .. }) => {}
            Ok(_) => return Err(broken("an object that was removed is still there")),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

async fn create_at_once(store: &dyn ObjectStore, place: &Path) -> Result<(), ClusterError> {
    let writers = 0..AT_ONCE;
    let created = join_all(writers.clone().map(|writer| create(store, place, writer))).await;
    let mut winners = Vec::new();
    for (writer, created) in writers.zip(created) {
        if created? {
            winners.push(writer);
        }
    }
    if winners.len() > 1 {
        return Err(broken("several requests at the same time created one object (If-None-Match: *)"));
    }
    let found = match store.get(place).await {
        Ok(found) => found.bytes().await?,
        Err(object_store::Error::NotFound { .. }) => {
            return Err(broken("an object that was stored cannot be read"));
        }
        Err(error) => return Err(error.into()),
    };
    // Without a winner the answer to it was lost and asked for again.
    if winners.first().is_some_and(|winner| found != content(*winner)) {
        return Err(broken("an object has the content of a request that was refused"));
    }
    if create(store, place, AT_ONCE).await? {
        return Err(broken("an object was created though it was there (If-None-Match: *)"));
    }
    Ok(())
}

async fn create(store: &dyn ObjectStore, place: &Path, writer: u32) -> Result<bool, ClusterError> {
    let create = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
    match store.put_opts(place, PutPayload::from_bytes(content(writer)), create).await {
        Ok(_) => Ok(true),
        Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {
            Ok(false)
        }
        Err(object_store::Error::NotImplemented { .. }) => {
            Err(broken("it has no conditional writes (If-None-Match: *)"))
        }
        Err(error) => Err(error.into()),
    }
}

fn content(writer: u32) -> Bytes {
    Bytes::from(format!("writer {writer}"))
}

fn broken(law: &str) -> ClusterError {
    ClusterError::Law { law: law.to_owned() }
}
