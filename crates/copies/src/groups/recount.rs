//! Groups from the items of a view, each logical partition of the source read once.

use std::collections::BTreeMap;
use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;

use shardlake_document::Value;
use shardlake_model::Result;
use shardlake_partition::{
    CopyBatch, ItemRow, LogicalKey, RoundView, StoredItem, item_of_position, logical_name,
};
use shardlake_sql::GroupState;
use shardlake_storage::Shard;

use super::rows::GroupRows;
use crate::at_work::IndexAtWork;

/// Groups that are counted at a time.
pub(super) const GROUPS_MAX: usize = 1 << 15;

/// Groups to be counted anew, by logical partitions of the source.
#[derive(Debug, Default)]
pub(super) struct Wanted(BTreeMap<Vec<u8>, WantedOfSource>);

#[derive(Debug)]
struct WantedOfSource {
    source: Arc<LogicalKey>,
    /// Ids and places of rows.
    groups: Vec<(String, LogicalKey)>,
}

impl Wanted {
    pub fn add(&mut self, id: String, place: LogicalKey, source: &Arc<LogicalKey>) {
        let of_source = || WantedOfSource { source: source.clone(), groups: Vec::new() };
        self.0.entry(logical_name(source)).or_insert_with(of_source).groups.push((id, place));
    }
}

/// A group that is counted.
pub(crate) struct Counting {
    pub place: LogicalKey,
    /// Values of its keys, if an item has them.
    pub keys: Option<Vec<Value>>,
    pub state: GroupState,
}

impl Counting {
    pub fn begin(at: &IndexAtWork<'_>, place: LogicalKey) -> Counting {
        Counting { place, keys: None, state: at.rows.derivation().new_group() }
    }
}

/// Writes the rows of groups as the items of the view have them. Breaks if the task is to end before.
pub(super) async fn recount(
    at: &IndexAtWork<'_>,
    view: &RoundView,
    wanted: Wanted,
) -> Result<ControlFlow<()>> {
    let mut work = Shard::paced_work(at.serving.shards(), 1);
    for WantedOfSource { source, groups } in wanted.0.into_values() {
        let mut groups = groups.into_iter().peekable();
        while groups.peek().is_some() {
            let begin = |(id, place)| (id, Counting::begin(at, place));
            let mut counted: BTreeMap<String, Counting> =
                groups.by_ref().take(GROUPS_MAX).map(begin).collect();
            let mut items = view.items_of(&source);
            while let Some(page) = items.next_page().await? {
                page.iter().try_for_each(|item| count(at, item, &mut counted))?;
                work.pause().await;
                if at.is_interrupted() {
                    return Ok(Break(()));
                }
            }
            write(at, view.upto(), &source, counted).await?;
        }
    }
    Ok(Continue(()))
}

/// Adds the contributions of an item to the groups among `counted`.
pub(crate) fn count(
    at: &IndexAtWork<'_>,
    item: &ItemRow,
    counted: &mut BTreeMap<String, Counting>,
) -> Result<()> {
    let (logical, _) = item_of_position(&item.key)?;
    let item = StoredItem::decode(item.record.clone(), at.schema())?;
    for one in at.rows.contributions_of(&item.view(), &logical.partition_key).contributions {
        let Some(group) = counted.get_mut(&one.contribution.id) else { continue };
        group.keys.get_or_insert(one.contribution.keys);
        group.state.add(&one.contribution.arguments);
    }
    Ok(())
}

async fn write(
    at: &IndexAtWork<'_>,
    upto: u64,
    source: &LogicalKey,
    counted: BTreeMap<String, Counting>,
) -> Result<()> {
    let mut rows = GroupRows::new(at, upto);
    for (id, Counting { place, keys, state }) in counted {
        rows.add(id, place, source, &keys.unwrap_or_default(), &state);
        if rows.len() == CopyBatch::ROWS_MAX {
            rows.apply().await?;
        }
    }
    rows.apply().await
}
