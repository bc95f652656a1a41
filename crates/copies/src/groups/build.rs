//! The first rows of an index of groups: chunks of the source, each of one view and whole logical partitions.
//!
//! A chunk is read in passes, if it has more groups than are counted at a time: each pass counts the groups
//! with the next ids.
//!
//! A row is true at the LSN of its chunk's view. A chunk that was interrupted may have written rows of groups
//! that have ended when it is begun again. The rounds that follow have all changes above the LSNs of these rows,
//! so the rows end there.

use std::collections::BTreeMap;

use shardlake_document::{Value, partition_key_text};
use shardlake_model::Result;
use shardlake_partition::{CopyBatch, ItemRow, ItemsRound, LogicalKey, StoredItem, item_of_position};
use shardlake_sql::GroupState;
use shardlake_storage::Shard;

use super::recount::GROUPS_MAX;
use super::rows::GroupRows;
use crate::at_work::{IndexAtWork, interrupted};
use crate::status::Refusal;

/// Writes the groups of a chunk. Fails where the task is to end before.
pub(crate) async fn write_chunk(at: &IndexAtWork<'_>, chunk: &mut ItemsRound) -> Result<()> {
    // Rows have the LSN of the view, which no crash may give to another commit.
    chunk.durable().await?;
    let mut work = Shard::paced_work(at.serving.shards(), 1);
    let mut from = None;
    loop {
        let is_first = from.is_none();
        let mut pass = Pass { from, ..Pass::default() };
        while let Some(items) = chunk.next_page().await? {
            items.iter().try_for_each(|item| pass.count(at, item, is_first))?;
            work.pause().await;
            if at.is_interrupted() {
                return Err(interrupted());
            }
        }
        let mut rows = GroupRows::new(at, chunk.upto());
        for (id, CountedGroup { place, source, keys, state }) in pass.groups {
            rows.add(id, place, &source, &keys, &state);
            if rows.len() == CopyBatch::ROWS_MAX {
                rows.apply().await?;
                work.pause().await;
            }
        }
        rows.apply().await?;
        if pass.rest.is_none() {
            return Ok(());
        }
        from = pass.rest;
        chunk.begin_again();
    }
}

struct CountedGroup {
    place: LogicalKey,
    source: LogicalKey,
    keys: Vec<Value>,
    state: GroupState,
}

/// Groups with the next ids.
#[derive(Default)]
struct Pass {
    groups: BTreeMap<String, CountedGroup>,
    /// The first id.
    from: Option<String>,
    /// The first id of the next pass.
    rest: Option<String>,
}

impl Pass {
    fn count(&mut self, at: &IndexAtWork<'_>, item: &ItemRow, is_first: bool) -> Result<()> {
        let (logical, item_id) = item_of_position(&item.key)?;
        let stored = StoredItem::decode(item.record.clone(), at.schema())?;
        let found = at.rows.contributions_of(&stored.view(), &logical.partition_key);
        if is_first {
            at.entry.status.live().items_built += 1;
            if let Some(reason) = found.refused.into_iter().next() {
                let key = partition_key_text(&logical.partition_key);
                let refusal = Refusal { key, id: item_id, reason };
                at.entry.status.live().note_item(item.key.clone(), Some(refusal));
            }
        }
        for one in found.contributions {
            let id = one.contribution.id;
            let is_before = self.from.as_ref().is_some_and(|from| id < *from);
            if is_before || self.rest.as_ref().is_some_and(|rest| id >= *rest) {
                continue;
            }
            let group = self.groups.entry(id).or_insert_with(|| CountedGroup {
                place: one.key,
                source: logical.clone(),
                keys: one.contribution.keys,
                state: at.rows.derivation().new_group(),
            });
            group.state.add(&one.contribution.arguments);
            if self.groups.len() > GROUPS_MAX {
                self.rest = self.groups.pop_last().map(|(id, _)| id);
            }
        }
        Ok(())
    }
}
