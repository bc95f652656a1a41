//! Reads of a plan from the engine, so that no plan waits for one.
//!
//! A plan is made under the sequencer by a function that cannot wait. Its reads come from the
//! transaction's own writes, else from the overlay of queued commits, else from here: values that
//! were fetched before, or values that the engine has at hand. Where a value is missing the plan
//! stops and returns the keys that it wants ([`Stop::Wanted`]). Its caller gives the sequencer
//! back, fetches them in one go and plans anew. Engines that answer at once never see this.
//!
//! Why fetched values are not outdated: starting before the fetch, the overlay keeps every commit
//! that the fetch may not have seen ([`crate::pending::Pending::keep_behind`]). So every commit is
//! in the values or in the overlay, which is read first.
//!
//! Why it ends, whatever others write meanwhile: the keys of a command are known from the
//! beginning, and so are the keys that follow from fetched values. Changes of later commits are in
//! the overlay with all the keys that follow from them.

use bytes::Bytes;
use rustc_hash::FxHashMap;
use shardlake_document::Record;
use shardlake_model::{Error, Result};
use shardlake_storage::Shard;

use crate::item::StoredItem;
use crate::keys::{self, HEADER};
use crate::pending::Kept;
use crate::shape::ContainerSchema;

/// Why a plan goes no further; nothing was changed.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The command is refused.
    Error(Error),
    /// Values that the engine does not have at hand.
    Wanted(Vec<Bytes>),
    /// The oldest items of the logical partition whose item keys begin so.
    Oldest(Vec<u8>),
    /// Work that is too long for a thread that answers requests.
    Heavy,
}

/// Result of a step of a plan.
pub(crate) type Plan<T> = std::result::Result<T, Stop>;

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Error(error)
    }
}

/// Values of the engine that were fetched for a plan, and the items decoded from them.
#[derive(Debug, Default)]
pub(crate) struct ReadSet {
    values: FxHashMap<Bytes, Option<Bytes>>,
    /// Heavy items with their terms, as they were when they were fetched.
    heavy: FxHashMap<Bytes, StoredItem>,
    /// While it lasts, the overlay keeps commits that the values may lack.
    pub kept: Option<Kept>,
}

impl ReadSet {
    /// The fetched value of a key that is not in the overlay; `None` where it was not fetched.
    pub fn value(&self, key: &[u8]) -> Option<&Option<Bytes>> {
        self.values.get(key)
    }

    /// A value that was fetched, of a key that is not in the overlay.
    pub fn fetched(&self, key: &[u8]) -> Option<Bytes> {
        self.values.get(key).cloned().flatten()
    }

    /// The heavy item under a key, if it is still this record.
    pub fn heavy(&self, key: &[u8], record: &[u8]) -> Option<&StoredItem> {
        self.heavy.get(key).filter(|item| item.record_bytes() == record)
    }

    pub fn note_heavy(&mut self, key: Bytes, item: StoredItem) {
        self.heavy.insert(key, item);
    }

    /// Fetches values in one go, and then the holders of the unique values of the items among them. Of a partition that
    /// others write to, `Partition::fetch` does.
    pub async fn fetch(&mut self, shard: &Shard, shape: &ContainerSchema, keys: Vec<Bytes>) -> Result<()> {
        let mut follow = Vec::new();
        for (key, value) in self.fetch_values(shard, keys).await? {
            if let Some(record) = value.filter(|_| !shape.unique_keys.is_empty() && keys::is_item(&key)) {
                let (logical, _) = keys::parse_item_key(&key[HEADER..]).ok_or_else(crate::malformed_key)?;
                let body = Record::decode(&record).map_err(crate::corrupt)?.body;
                let unique = shape.unique_keys_of(keys::uid_of(&key), &logical, body);
                follow.extend(unique.into_iter().map(|(_, key)| key));
            }
        }
        self.fetch_values(shard, follow).await?;
        Ok(())
    }

    /// Fetches values in one go, and gives those that were not there.
    pub async fn fetch_values(
        &mut self,
        shard: &Shard,
        mut keys: Vec<Bytes>,
    ) -> Result<Vec<(Bytes, Option<Bytes>)>> {
        keys.retain(|key| !self.values.contains_key(key));
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let values = shard.applied_view().get_many(keys.clone()).await.map_err(crate::storage_error)?;
        let fetched: Vec<_> = keys.into_iter().zip(values).collect();
        self.values.extend(fetched.iter().cloned());
        Ok(fetched)
    }
}
