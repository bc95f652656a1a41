//! Groups of a chunk of the source, which is of one view and whole logical partitions.
//!
//! A chunk is read in passes, if it has more groups than are counted at a time: each pass counts the groups
//! with the next ids.

use std::collections::BTreeMap;

use shardlake_document::Value;
use shardlake_model::Result;
use shardlake_partition::{ItemRow, ItemsRound, LogicalKey, StoredItem, item_of_position};
use shardlake_sql::GroupState;
use shardlake_storage::PacedWork;

use super::recount::GROUPS_MAX;
use crate::at_work::IndexAtWork;

/// A group of a chunk, with all its items.
pub(crate) struct CountedGroup {
    /// Logical partition of the index that has the group's row.
    pub place: LogicalKey,
    /// Logical partition of the source that has the group's items.
    pub source: LogicalKey,
    pub keys: Vec<Value>,
    pub state: GroupState,
}

/// An item of the chunk.
pub(crate) struct SeenItem<'i> {
    pub item: &'i ItemRow,
    pub logical: &'i LogicalKey,
    pub id: String,
    /// Why some of its contributions cannot be counted.
    pub refused: Vec<String>,
}

/// The passes over a chunk.
pub(crate) struct ChunkPasses<'a, C> {
    at: &'a IndexAtWork<'a>,
    /// Fails where the work is to end.
    check: C,
    next: Option<Pass>,
}

impl<'a, C: Fn() -> Result<()>> ChunkPasses<'a, C> {
    pub fn new(at: &'a IndexAtWork<'a>, check: C) -> Self {
        ChunkPasses { at, check, next: Some(Pass::default()) }
    }

    /// The groups of the next pass, by the ids of their rows; `None` after the last one. The first pass shows
    /// every item.
    pub async fn next(
        &mut self,
        chunk: &mut ItemsRound,
        work: &mut PacedWork,
        mut seen: impl FnMut(SeenItem<'_>),
    ) -> Result<Option<BTreeMap<String, CountedGroup>>> {
        let Some(mut pass) = self.next.take() else { return Ok(None) };
        let is_first = pass.from.is_none();
        if !is_first {
            chunk.begin_again();
        }
        while let Some(items) = chunk.next_page().await? {
            for item in &items {
                let found = pass.count(self.at, item)?;
                if is_first {
                    seen(found);
                }
            }
            work.pause().await;
            (self.check)()?;
        }
        self.next = pass.rest.map(|rest| Pass { from: Some(rest), ..Pass::default() });
        Ok(Some(pass.groups))
    }
}

/// Groups with the next ids.
#[derive(Default)]
struct Pass {
    groups: BTreeMap<String, CountedGroup>,
    /// The first id.
    from: Option<String>,
    /// The first id of the next pass.
    rest: Option<String>,
    /// Logical partition of the last item.
    logical: Option<LogicalKey>,
}

impl Pass {
    fn count<'i>(&'i mut self, at: &IndexAtWork<'_>, item: &'i ItemRow) -> Result<SeenItem<'i>> {
        let (logical, id) = item_of_position(&item.key)?;
        let stored = StoredItem::decode(item.record.clone(), at.schema())?;
        let found = at.rows.contributions_of(&stored.view(), &logical.partition_key);
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
        let logical = self.logical.insert(logical);
        Ok(SeenItem { item, logical, id, refused: found.refused })
    }
}
