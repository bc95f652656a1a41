//! Last owner of a shard, recorded as `epoch.rs` does on a local disk.
//!
//! An owner creates an object named by its epoch; the highest name is the last owner's. Creating
//! only where no object exists is the one guarantee that SlateDB requires of a store as well, and a
//! directory gives it, too, where it has no compare-and-set. Two owners that claim at the same time
//! may both create theirs: then the higher one is seen by the lower, which looks again.

use futures::TryStreamExt as _;
use slatedb::object_store::path::Path;
use slatedb::object_store::{self, ObjectStore, PutMode, PutOptions, PutPayload};

use crate::StorageError;

const OWNERS: &str = "owners";

/// Records the epoch and returns it. An owner that opens without an epoch adopts the recorded one:
/// 0 where there is none.
pub(super) async fn claim(
    store: &dyn ObjectStore,
    shard: &Path,
    epoch: Option<u64>,
) -> Result<u64, StorageError> {
    let owners = shard.clone().join(OWNERS);
    let Some(epoch) = epoch else { return last(store, &owners).await };
    refuse_lower(epoch, last(store, &owners).await?)?;
    let record = owners.clone().join(format!("{epoch:020}"));
    let create = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
    match store.put_opts(&record, PutPayload::new(), create).await {
        // Its own, from before a restart or from a request whose answer was lost.
        Ok(_) | Err(object_store::Error::AlreadyExists { .. }) => {}
        Err(error) => return Err(failed(&record, &error)),
    }
    let last = last(store, &owners).await?;
    refuse_lower(epoch, last)?;
    if last != epoch {
        // Some stores refuse a request while another one for the same object is under way.
        return Err(StorageError::io(format!("the store refused to create '{record}', and has none")));
    }
    Ok(epoch)
}

fn refuse_lower(epoch: u64, last: u64) -> Result<(), StorageError> {
    if epoch < last { Err(StorageError::Fenced { epoch: last }) } else { Ok(()) }
}

async fn last(store: &dyn ObjectStore, owners: &Path) -> Result<u64, StorageError> {
    let mut last = 0;
    let mut records = store.list(Some(owners));
    while let Some(record) = records.try_next().await.map_err(|error| failed(owners, &error))? {
        let epoch = record.location.filename().and_then(|name| name.parse::<u64>().ok());
        let epoch = epoch.ok_or_else(|| StorageError::Corrupt {
            what: format!("'{}' is no record of an owner", record.location).into(),
        })?;
        last = last.max(epoch);
    }
    Ok(last)
}

fn failed(record: &Path, error: &object_store::Error) -> StorageError {
    StorageError::io(format!("'{record}': {error}"))
}

#[cfg(test)]
mod tests {
    use slatedb::object_store::ObjectStoreExt as _;
    use slatedb::object_store::memory::InMemory;

    use super::*;

    #[tokio::test]
    async fn epochs_only_grow() {
        let (store, shard) = (InMemory::new(), Path::from("s/1"));
        let claim = |epoch| claim(&store, &shard, epoch);
        assert_eq!(claim(None).await.expect("no owner yet"), 0);
        for epoch in [3, 3, 9, 10, 11] {
            assert_eq!(claim(Some(epoch)).await.expect("not lower"), epoch);
        }
        assert!(matches!(claim(Some(10)).await, Err(StorageError::Fenced { epoch: 11 })));
        assert_eq!(claim(None).await.expect("takes what is there"), 11);
        let stray = shard.clone().join(OWNERS).join("note.txt");
        store.put(&stray, PutPayload::new()).await.expect("stored");
        assert!(matches!(claim(Some(12)).await, Err(StorageError::Corrupt { .. })));
    }
}
