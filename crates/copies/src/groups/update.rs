//! The groups of a round: reading stored rows, writing those that follow.

use std::collections::BTreeMap;
use std::ops::ControlFlow::{self, Break};

use bytes::Bytes;
use shardlake_document::{RawValue, Value};
use shardlake_model::Result;
use shardlake_partition::{CopyBatch, LogicalKey, RoundView, RowStamp, StoredItem};
use shardlake_router::partition_of;
use shardlake_sql::{GROUP_STATE, GroupState};

use super::gather::{ChangedGroup, Gathered};
use super::plan::{ItemHistory, advance};
use super::recount::{Wanted, recount};
use super::rows::GroupRows;
use crate::at_work::IndexAtWork;

/// Applies the changes of a round up to the end of its view; breaks if the task is to end before. `base`: rows
/// that are not there are of groups that were empty at this LSN.
pub(super) async fn apply(
    at: &IndexAtWork<'_>,
    mut gathered: Gathered,
    view: &RoundView,
    base: Option<u64>,
) -> Result<ControlFlow<()>> {
    let mut again = Wanted::default();
    let mut groups = std::mem::take(&mut gathered.groups).into_iter().peekable();
    while groups.peek().is_some() {
        let batch: Vec<_> = groups.by_ref().take(CopyBatch::ROWS_MAX).collect();
        match gathered.histories() {
            None => batch.into_iter().for_each(|(id, group)| again.add(id, group.place, &group.source)),
            Some(items) => update(at, batch, items, (view, base), &mut again).await?,
        }
        if at.is_interrupted() {
            return Ok(Break(()));
        }
    }
    recount(at, view, again).await
}

async fn update(
    at: &IndexAtWork<'_>,
    groups: Vec<(String, ChangedGroup)>,
    items: &[ItemHistory],
    (view, base): (&RoundView, Option<u64>),
    again: &mut Wanted,
) -> Result<()> {
    let names = groups.iter().map(|(id, group)| (group.place.clone(), id.clone())).collect();
    let stored = stored_rows(at, names).await?;
    let mut written = GroupRows::new(at, view.upto());
    for (id, mut group) in groups {
        let row = stored.get(&id);
        let known = match row {
            Some(row) => row.known(at),
            None => base.map(|after| (after, None, at.rows.derivation().new_group())),
        };
        let Some((after, keys, mut state)) = known else {
            again.add(id, group.place, &group.source);
            continue;
        };
        if after >= view.upto() {
            continue;
        }
        group.items.sort_unstable();
        group.items.dedup();
        let histories = group.items.iter().map(|number| &items[*number as usize]);
        match advance(&mut state, (&id, after), histories) {
            Ok(false) => {}
            Ok(true) if state.is_empty() && row.is_none() => {}
            Ok(true) => {
                let keys = keys.or(group.keys).unwrap_or_default();
                written.add(id, group.place, &group.source, &keys, &state);
            }
            Err(_) => again.add(id, group.place, &group.source),
        }
    }
    written.apply().await
}

/// The stored row of a group.
pub(crate) struct StoredRow {
    pub stamp: RowStamp,
    pub item: StoredItem,
}

impl StoredRow {
    fn new(at: &IndexAtWork<'_>, record: Bytes) -> Result<StoredRow> {
        let index = at.serving.entry_of_rid(at.entry.index)?;
        let item = StoredItem::decode(record, &index.shape)?;
        Ok(StoredRow { stamp: RowStamp::of_etag(item.etag()), item })
    }

    /// The LSN at which it is true, its keys and its state; `None` if it is of an earlier generation.
    fn known(&self, at: &IndexAtWork<'_>) -> Option<(u64, Option<Vec<Value>>, GroupState)> {
        if self.stamp.generation != at.record.generation {
            return None;
        }
        let (keys, state) = self.state(at)?;
        Some((self.stamp.lsn, Some(keys), state))
    }

    /// Its keys and its state; `None` if they are not of the definition.
    pub fn state(&self, at: &IndexAtWork<'_>) -> Option<(Vec<Value>, GroupState)> {
        match self.item.body().get(GROUP_STATE) {
            Some(RawValue::String(text)) => at.rows.derivation().read_group(text),
            _ => None,
        }
    }
}

/// The stored rows of groups, by their ids.
pub(crate) async fn stored_rows(
    at: &IndexAtWork<'_>,
    mut names: Vec<(LogicalKey, String)>,
) -> Result<BTreeMap<String, StoredRow>> {
    let (serving, mut found) = (at.serving, BTreeMap::new());
    while !names.is_empty() {
        let mut routing = serving.routing_of(serving.entry_of_rid(at.entry.index)?);
        let mut parts = BTreeMap::new();
        for name in std::mem::take(&mut names) {
            let partition = partition_of(&routing.entry, &name.0);
            let part = parts.entry(partition.uid()).or_insert_with(|| (partition.clone(), Vec::new()));
            part.1.push(name);
        }
        for (partition, part) in parts.into_values() {
            let wanted: Vec<_> = part.iter().map(|(key, id)| (key, id.as_str())).collect();
            let records = partition.hosted().partition().copy_rows(&wanted).await;
            if routing.has_moved(&records).await? {
                names.extend(part);
                continue;
            }
            for ((_, id), record) in part.into_iter().zip(records?) {
                if let Some(record) = record {
                    found.insert(id, StoredRow::new(at, record)?);
                }
            }
        }
    }
    Ok(found)
}
