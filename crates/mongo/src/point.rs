//! Point reads by shard key and `_id`, like an item read of the REST protocol: without a plan, from a cached row
//! if there is one, and with its members as they are stored.

use shardlake_document::ItemName;
use shardlake_items::{ItemRead, ReadCommand};
use shardlake_model::{ErrorKind, PartitionKey, Preconditions};
use shardlake_mql::write::{document_bytes_of, document_of, members_of};
use shardlake_mql::{Collation, Document, Env, Filter};
use shardlake_partition::StoredItem;

use crate::collections::{Collection, Collections};
use crate::failure::Result;
use crate::plan::point;
use crate::request::Request;

/// Key of the only document that a filter can match.
#[derive(Debug, Clone)]
pub struct Point {
    key: PartitionKey,
    id: String,
}

impl Point {
    /// `None` for a filter that may mean another document, or several.
    pub fn of(filter: &Document, collation: &Collation, collection: &Collection) -> Option<Point> {
        point(filter, collation, collection.shard_key()).map(|(key, id)| Point { key, id })
    }
}

impl Collections {
    /// The bytes of the document at a point, if it matches the whole filter: the point covers only part of the filter.
    pub async fn find_at(
        &self,
        request: &Request,
        collection: &Collection,
        Point { key, id }: Point,
        (filter, parsed): (&Document, &Filter),
        env: &mut Env,
    ) -> Result<Option<Vec<u8>>> {
        collection.uses.note_identity();
        let Some(item) = self.read_named(request, collection, (key, id)).await? else { return Ok(None) };
        let is_met = match filter.iter().any(|(name, _)| name.starts_with('$')) {
            true => parsed.matches(&document_of(item.body().as_bytes())?, env)?,
            false => {
                let first = |path: &str, name: &str| path.split('.').next() == Some(name);
                let is_named = |name: &str| filter.iter().any(|(path, _)| first(path, name));
                parsed.matches(&members_of(item.body(), is_named)?, env)?
            }
        };
        Ok(is_met.then(|| document_bytes_of(item.body())).transpose()?)
    }

    /// The item of a name, charged as a point read; `None` where none is.
    pub(crate) async fn read_named(
        &self,
        request: &Request,
        collection: &Collection,
        (key, id): (PartitionKey, String),
    ) -> Result<Option<StoredItem>> {
        let read = ItemRead { item: ItemName::from(id), preconditions: Preconditions::default() };
        let command = ReadCommand { key: Some(key), read };
        let (queries, handle) = (&self.queries, &collection.handle);
        let reply = match self.transaction.as_deref() {
            Some(transaction) => {
                queries.items().read_within(&request.ctx, handle, transaction, command).await
            }
            None => queries.items().read(&request.ctx, handle, command).await,
        };
        let item = match reply {
            Ok(reply) => {
                request.charge(reply.meta.charge_centi);
                reply.item
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                request.charge(error.meta().charge_centi);
                None
            }
            Err(error) => return Err(self.failed(error)),
        };
        request.examine(u64::from(item.is_some()), 1);
        Ok(item)
    }
}
