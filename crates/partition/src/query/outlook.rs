//! The sort keys of the items that come next in the order of an index, read from its entries alone.
//!
//! A merge of several partitions learns from them how many rows each partition will contribute,
//! before any item is read. The keys are a forecast: entries of expired items, and of items whose
//! rows are out already, are among them. The returned rows do not depend on it, only the number of
//! rows that each page collects in vain.

use std::sync::Arc;

use bytes::Bytes;
use shardlake_index::{is_cut, path_hash};
use shardlake_model::Result;
use shardlake_sql::{IndexRef, OrderAccess};
use shardlake_storage::ScanOptions;

use super::ordered;
use super::position::Position;
use super::postings::Posting;
use super::reader::Reader;
use super::request::QueryPageRequest;
use super::start::{Start, narrowed};
use super::walk::is_proven;
use crate::core::Core;
use crate::index;
use crate::operation::CommandContext;
use crate::shape::ContainerSchema;

/// The next sort keys of one partition.
#[derive(Debug)]
pub struct Outlook {
    /// As the index has them: their bytes are in the order of their values. In the order of the query.
    pub keys: Vec<Bytes>,
    /// No items follow.
    pub is_all: bool,
}

/// Up to so many sort keys of the items that a page of the query would meet. `None` where the
/// entries do not suffice, and where a slow store would take a round trip for them.
pub(super) async fn outlook(
    core: &Core,
    shape: &Arc<ContainerSchema>,
    command: &CommandContext,
    request: QueryPageRequest<'_>,
    keys_max: usize,
) -> Result<Option<Outlook>> {
    let reader = Reader::open(core, shape, command, request)?;
    let Some(order) = request.access.order.as_ref() else { return Ok(None) };
    let may_tell = reader.layout.is_some()
        && is_proven(&reader, order)
        && reader.covers_partition()
        && request.own().is_none()
        && reader.snapshot.reads_at_once();
    if !may_tell || may_begin_without_entry(&reader, order).await? {
        return Ok(None);
    }
    let state = request.resume.map(Position::decode).transpose()?.and_then(|position| position.state);
    let state = shardlake_sql::resumes_at(state.as_deref())?;
    let starts = Start::all(request.resume_filter.map(|filter| &**filter), state);
    let order = narrowed(&reader, order, &starts);
    let prefix = reader.prefix_of(&order.index)?;
    let (start, end) = ordered::bounds(&prefix, &order);
    let options = ScanOptions { reverse: order.reverse, limit: Some(keys_max), ..ScanOptions::default() };
    let mut scan = reader.hot.scan(start..end, options);
    let mut keys = Vec::with_capacity(keys_max);
    while let Some(rows) = scan.next_chunk().await.map_err(crate::storage_error)? {
        for (key, _) in rows {
            let posting = Posting::parse(&key, prefix.len())?;
            let value = posting.key.slice(..posting.value().len());
            if is_cut(&value) {
                return Ok(None);
            }
            keys.push(value);
        }
    }
    let is_all = keys.len() < keys_max;
    Ok(Some(Outlook { keys, is_all }))
}

/// Whether items may come first that have no entry. `true` also where the path is not counted yet.
async fn may_begin_without_entry(reader: &Reader<'_>, order: &OrderAccess) -> Result<bool> {
    let (IndexRef::Path(path), Some(layout)) = (&order.index, &reader.layout) else { return Ok(true) };
    if order.reverse || !order.includes_undefined || layout.writes_undefined(path) {
        return Ok(false);
    }
    let key = index::counter_key(reader.core.uid, layout.id, path_hash(path));
    let count = reader.snapshot.get(&key).await.map_err(crate::storage_error)?;
    let counted = count.map(|count| index::decode_counter(&count)).transpose()?;
    Ok(counted.is_none_or(|counted| counted < reader.core.items()))
}
