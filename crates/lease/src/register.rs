//! One record that processes change one after the other: a compare-and-set made of creations.
//!
//! Each change is an object of its own with the next number, created only if it does not exist; the
//! highest number is the present record. If two processes saw the same number, only one of them
//! creates the next. This requires one law of a store, which the shards' databases require as well,
//! and which also holds for a directory.
//!
//! Old records are removed, so a process that slept very long could create a number that existed
//! before. It must check for higher numbers with [`Register::last`].

use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt as _;
use shardlake_storage::object::object_store::path::Path;
use shardlake_storage::object::object_store::{
    self, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload,
};

use crate::ClusterError;
use crate::lease::{Entry, Record};

/// Records that are kept before the present one.
const KEPT: u64 = 100;
/// The present record may be removed between being listed and being read; then there is a later one.
const LOOKS_MAX: u32 = 8;

#[derive(Debug, Clone)]
pub struct Register {
    store: Arc<dyn ObjectStore>,
    place: Path,
}

/// How an attempt to be the next one ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Append {
    Stored,
    /// Another process's record has the number.
    Taken(Entry),
}

impl Register {
    pub fn new(store: Arc<dyn ObjectStore>, place: Path) -> Register {
        Register { store, place }
    }

    /// The present record.
    pub async fn last(&self) -> Result<Option<Entry>, ClusterError> {
        for _ in 0..LOOKS_MAX {
            let Some(number) = self.numbers().await?.into_iter().max() else { return Ok(None) };
            match self.read(number).await {
                Err(ClusterError::Store(object_store::Error::NotFound { .. })) => {}
                record => return Ok(Some(Entry { number, record: record? })),
            }
        }
        Err(ClusterError::Damaged {
            place: self.place.to_string(),
            what: "records are listed that cannot be read".into(),
        })
    }

    /// Creates the record of a number. A record of the same incarnation at that number is the
    /// caller's own, from an attempt with a lost answer.
    pub async fn append(&self, number: u64, record: &Record) -> Result<Append, ClusterError> {
        let text = serde_json::to_vec(record).expect("a record of texts and numbers is JSON");
        let create = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match self
            .store
            .put_opts(&self.object(number), PutPayload::from_bytes(Bytes::from(text)), create)
            .await
        {
            Ok(_) => Ok(Append::Stored),
            Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {
                let found = self.read(number).await?;
                if found == *record {
                    return Ok(Append::Stored);
                }
                Ok(Append::Taken(Entry { number, record: found }))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Removes the records that are not needed any more once `present` exists.
    pub async fn forget_behind(&self, present: u64) -> Result<(), ClusterError> {
        let old = self.numbers().await?.into_iter().filter(|number| number + KEPT < present);
        for number in old {
            self.remove(number).await?;
        }
        Ok(())
    }

    /// Removes one record, where each earlier one was removed at its own time.
    pub async fn forget_one_behind(&self, present: u64) -> Result<(), ClusterError> {
        match present.checked_sub(KEPT + 1) {
            Some(number) if number > 0 => self.remove(number).await,
            _ => Ok(()),
        }
    }

    async fn remove(&self, number: u64) -> Result<(), ClusterError> {
        match self.store.delete(&self.object(number)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn numbers(&self) -> Result<Vec<u64>, ClusterError> {
        let objects: Vec<_> = self.store.list(Some(&self.place)).try_collect().await?;
        let number = |object: &object_store::ObjectMeta| {
            let name = object.location.filename().and_then(|name| name.strip_suffix(".json"));
            name.and_then(|name| name.parse().ok()).ok_or_else(|| ClusterError::Damaged {
                place: object.location.to_string(),
                what: "it is no record of a lease: remove it".into(),
            })
        };
        objects.iter().map(number).collect()
    }

    async fn read(&self, number: u64) -> Result<Record, ClusterError> {
        let place = self.object(number);
        let text = self.store.get(&place).await?.bytes().await?;
        serde_json::from_slice(&text)
            .map_err(|error| ClusterError::Damaged { place: place.to_string(), what: error.to_string() })
    }

    fn object(&self, number: u64) -> Path {
        self.place.clone().join(format!("{number:020}.json"))
    }
}
