//! Reader of the log of a shard in a store that may be in use: the objects of SlateDB's write-ahead
//! log, as many as there are at the time of a look. An object that is listed is whole, and never
//! changes.

use std::sync::Arc;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use slatedb::admin::Admin;
use slatedb::object_store::path::Path;
use slatedb::object_store::{ObjectStore, ObjectStoreExt as _};

use super::errors::unreadable;
use super::objects::{LOG, Object, below};
use super::whole_log;
use crate::StorageError;

/// Read at a time.
const READS_MAX: usize = 16;

pub struct ObjectTail {
    store: Arc<dyn ObjectStore>,
    shard: Path,
    /// The last object that was read.
    number: u64,
}

impl ObjectTail {
    pub(crate) async fn new(
        store: &Arc<dyn ObjectStore>,
        path: &str,
        number: Option<u64>,
    ) -> Result<ObjectTail, StorageError> {
        let shard = Path::from(path);
        let number = match number {
            Some(number) => number,
            None => {
                // Earlier objects are in tables.
                let admin = Admin::builder(shard.clone(), store.clone()).build();
                let found = whole_log::read_manifest(&**store, &shard, &admin).await?;
                found.ok_or_else(|| StorageError::Missing { directory: path.into() })?.replay_after_wal_id()
            }
        };
        Ok(ObjectTail { store: store.clone(), shard, number })
    }

    pub(crate) fn place(&self) -> u64 {
        self.number
    }

    /// The objects that follow, in their order: their stamps show whether one is missing.
    pub(crate) async fn look(&self) -> Result<Objects, StorageError> {
        let folder = below(&self.shard, LOG);
        let last = below(&folder, &format!("{:020}.sst", self.number));
        let listed = self.store.list_with_offset(Some(&folder), &last);
        let listed = listed.try_filter_map(async |object| Ok(Object::of(object)));
        let mut objects: Vec<Object> =
            listed.try_collect().await.map_err(|error| unreadable(&folder, &error))?;
        objects.retain(|object| object.number > self.number);
        objects.sort_unstable_by_key(|object| object.number);
        // A list that is read while objects are added may have a later one without an earlier one,
        // which the store has: the next look has both. The stamps show a hole before the first
        // object: the log may begin anywhere.
        if let Some(unlisted) = whole_log::check_listed(&*self.store, &self.shard, &objects).await? {
            objects.retain(|object| object.number < unlisted);
        }
        let store = self.store.clone();
        let reads = objects.into_iter().map(move |object| {
            let store = store.clone();
            async move {
                let read = async { store.get(&object.place).await?.bytes().await };
                let content = read.await.map_err(|error| unreadable(&object.place, &error))?;
                Ok((object.number, content))
            }
        });
        Ok(Objects(stream::iter(reads).buffered(READS_MAX).boxed()))
    }

    pub(crate) fn advance(&mut self, number: u64) {
        self.number = number;
    }
}

/// Read ahead, in their order.
pub(crate) struct Objects(BoxStream<'static, Result<(u64, Bytes), StorageError>>);

impl Objects {
    pub async fn next(&mut self) -> Result<Option<(u64, Bytes)>, StorageError> {
        self.0.try_next().await
    }
}
