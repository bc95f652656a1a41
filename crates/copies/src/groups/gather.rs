//! Changes of a round, by group.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use shardlake_document::{Value, partition_key_text};
use shardlake_model::Result;
use shardlake_partition::{ChangeKind, Image, LogChange, LogicalKey, StoredItem, item_of_position};
use shardlake_router::{EndedContribution, NO_CONTRIBUTIONS};

use super::plan::{Counted, ItemHistory};
use crate::at_work::IndexAtWork;
use crate::plan::Generation;
use crate::status::Refusal;

/// Operations of a round whose contributions are kept. Beyond, groups are counted anew.
const OPERATIONS_MAX: usize = 100_000;
/// Contributions that are kept.
const CONTRIBUTIONS_MAX: usize = 400_000;
/// Groups of one round.
const GROUPS_OF_ROUND_MAX: usize = 400_000;

/// An index with so many changed groups is built anew.
pub(crate) struct TooManyGroups;

/// A group that a round may change.
#[derive(Debug)]
pub(crate) struct ChangedGroup {
    /// Logical partition of the index that has the group's row.
    pub place: LogicalKey,
    /// Logical partition of the source that has the group's items.
    pub source: Arc<LogicalKey>,
    /// Values of its keys, if a live item has them.
    pub keys: Option<Vec<Value>>,
    /// Numbers of items that contribute to it, or did, with repetitions.
    pub items: Vec<u32>,
}

#[derive(Debug, Default)]
pub(crate) struct Gathered {
    /// By the ids of their rows.
    pub groups: BTreeMap<String, ChangedGroup>,
    numbers: BTreeMap<Bytes, u32>,
    items: Vec<ItemHistory>,
    operations: usize,
    contributions: usize,
    is_beyond: bool,
    /// Items that cannot be counted are noted in the status of the index.
    notes_refusals: bool,
}

impl Gathered {
    pub fn of_follower() -> Gathered {
        Gathered { notes_refusals: true, ..Gathered::default() }
    }

    /// By the numbers of items; `None` beyond the bounds.
    pub fn histories(&self) -> Option<&[ItemHistory]> {
        (!self.is_beyond).then_some(&self.items)
    }

    pub fn add(
        &mut self,
        at: &IndexAtWork<'_>,
        changes: &[LogChange],
    ) -> Result<std::result::Result<(), TooManyGroups>> {
        for change in changes {
            self.add_change(at, change)?;
            self.operations += 1;
            if self.operations > OPERATIONS_MAX || self.contributions > CONTRIBUTIONS_MAX {
                self.forget_histories();
            }
            if self.groups.len() > GROUPS_OF_ROUND_MAX {
                return Ok(Err(TooManyGroups));
            }
        }
        Ok(Ok(()))
    }

    fn forget_histories(&mut self) {
        self.is_beyond = true;
        (self.numbers, self.items) = Default::default();
        self.groups.values_mut().for_each(|group| group.items = Vec::new());
    }

    fn add_change(&mut self, at: &IndexAtWork<'_>, change: &LogChange) -> Result<()> {
        let source = Arc::new(item_of_position(&change.key)?.0);
        let number = self.number_of(&change.key);
        let before = self.contributions_before(at, change, &source, number)?;
        let now = self.contributions_now(at, change, &source, number)?;
        self.contributions += before.len() + now.as_ref().map_or(0, Vec::len);
        let Some(item) = number.and_then(|number| self.items.get_mut(number as usize)) else { return Ok(()) };
        // A replacement that records nothing has the contributions of its predecessor.
        let is_recorded = change.ended.iter().any(|ended| ended.copy == at.record.number);
        if change.kind != ChangeKind::Replace || is_recorded {
            item.before.push((change.lsn, before));
        }
        item.now = now.or(item.now.take());
        Ok(())
    }

    /// `None` beyond the bounds.
    fn number_of(&mut self, key: &Bytes) -> Option<u32> {
        if self.is_beyond {
            return None;
        }
        if let Some(number) = self.numbers.get(key) {
            return Some(*number);
        }
        let number = u32::try_from(self.items.len()).expect("operations are bounded");
        self.numbers.insert(key.clone(), number);
        self.items.push(ItemHistory::default());
        Some(number)
    }

    fn contributions_before(
        &mut self,
        at: &IndexAtWork<'_>,
        change: &LogChange,
        source: &Arc<LogicalKey>,
        number: Option<u32>,
    ) -> Result<Vec<Counted>> {
        let mut before = Vec::new();
        let own = change.ended.iter().filter(|ended| ended.copy == at.record.number);
        for ended in own.filter(|ended| ended.row != NO_CONTRIBUTIONS) {
            let EndedContribution { id, key, arguments, .. } = EndedContribution::decode(&ended.row)?;
            self.note_group(&id, || at.logical(key), source, number);
            before.push((id, arguments));
        }
        Ok(before)
    }

    /// The contributions of an item's live version; `None` where another change has them, or there is none.
    fn contributions_now(
        &mut self,
        at: &IndexAtWork<'_>,
        change: &LogChange,
        source: &Arc<LogicalKey>,
        number: Option<u32>,
    ) -> Result<Option<Vec<Counted>>> {
        let Image::Record(record) = &change.new else {
            self.note_refusal(at, &change.key, None);
            return Ok(None);
        };
        let known = number.and_then(|number| self.items.get(number as usize));
        if known.is_some_and(|item| item.now.is_some()) {
            return Ok(None);
        }
        let item = StoredItem::decode(record.clone(), at.schema())?;
        let found = at.rows.contributions_of(&item.view(), &source.partition_key);
        let refusal = found.refused.into_iter().next().map(|reason| {
            let id = item_of_position(&change.key).map(|(_, id)| id).unwrap_or_default();
            Refusal { key: partition_key_text(&source.partition_key), id, reason }
        });
        self.note_refusal(at, &change.key, refusal);
        let mut now = Vec::with_capacity(found.contributions.len());
        for one in found.contributions {
            let (id, keys) = (one.contribution.id, one.contribution.keys);
            self.note_group(&id, || one.key, source, number).keys.get_or_insert(keys);
            now.push((id, one.contribution.arguments));
        }
        Ok(Some(now))
    }

    fn note_refusal(&self, at: &IndexAtWork<'_>, item: &Bytes, refusal: Option<Refusal>) {
        if self.notes_refusals {
            at.entry.status.live().note_item(item.clone(), refusal);
        }
    }

    fn note_group(
        &mut self,
        id: &str,
        place: impl FnOnce() -> LogicalKey,
        source: &Arc<LogicalKey>,
        number: Option<u32>,
    ) -> &mut ChangedGroup {
        if !self.groups.contains_key(id) {
            let (place, source) = (place(), source.clone());
            let group = ChangedGroup { place, source, keys: None, items: Vec::new() };
            self.groups.insert(id.to_owned(), group);
        }
        let group = self.groups.get_mut(id).expect("it was just made");
        if let Some(number) = number.filter(|number| group.items.last() != Some(number)) {
            group.items.push(number);
        }
        group
    }
}
