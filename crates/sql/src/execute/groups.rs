//! Groups under construction, each with the accumulators of its aggregates.
//!
//! Groups are in the order in which their rows will be returned: by the sort keys of `ORDER BY`, which are
//! values of the group's own keys, and then by the hash of these keys. Without `ORDER BY` the hash alone
//! gives the order. Equal keys have equal hashes and equal sort keys, so that a group has the same place in
//! every partition and on every page.

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};
use shardlake_document::Value;

use super::distinct_hash::{DistinctHash, distinct_hash};
use super::kept::{Entry, EntryKey};
use super::limits::MEMORY_BYTES_MAX;
use super::rows::write_row;
use super::sort_value::sort_keys;
use super::state::Resume;
use crate::bound::{BoundQuery, Grouping};
use crate::error::SqlError;
use crate::evaluate::evaluate;
use crate::evaluate::rows::project;
use crate::evaluate::scope::{GroupValues, Scope};
use crate::value::aggregate::Accumulator;
use crate::value::context::EvaluationContext;
use crate::value::user_functions;

#[derive(Serialize, Deserialize)]
pub(super) struct Groups {
    found: BTreeMap<EntryKey, Group>,
    /// Groups from this place on are not kept: they belong to a later page.
    smallest_lost: Option<EntryKey>,
    /// Limit on useful groups.
    entries_max: usize,
    /// Equal rows of different groups are one row, which is only known when all groups are known.
    is_distinct: bool,
    size_bytes: usize,
    appeared: u64,
}

#[derive(Serialize, Deserialize)]
struct Group {
    keys: Vec<Value>,
    accumulators: Vec<Accumulator>,
    appeared: u64,
}

/// A group with the values of its aggregates.
struct FinishedGroup {
    place: EntryKey,
    keys: Vec<Value>,
    aggregates: Vec<Value>,
    appeared: u64,
}

impl Groups {
    pub fn new(entries_max: usize, is_distinct: bool) -> Groups {
        let found = BTreeMap::new();
        Groups { found, smallest_lost: None, entries_max, is_distinct, size_bytes: 0, appeared: 0 }
    }

    /// Keeps this many groups more.
    pub fn look_ahead(&mut self, groups: usize) {
        self.entries_max = self.entries_max.saturating_add(groups);
    }

    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// The first group that was found and not kept.
    pub fn smallest_lost(&self) -> Option<&EntryKey> {
        self.smallest_lost.as_ref()
    }

    /// Steps to find the place of one more group.
    pub fn steps_to_place(&self) -> u64 {
        1 + u64::from(self.len().checked_ilog2().unwrap_or(0))
    }

    /// Adds a row, unless its group was returned on an earlier page.
    pub fn add(
        &mut self,
        query: &BoundQuery,
        grouping: &Grouping,
        row: &Scope<'_>,
        resume: &Resume,
    ) -> Result<(), SqlError> {
        let mut keys = Vec::with_capacity(grouping.keys.len());
        for key in &grouping.keys {
            let key = evaluate(key, row)?;
            row.step(key.copy_steps())?;
            keys.push(key.to_value());
        }
        row.step(self.steps_to_place())?;
        let place = place_of(query, &keys, row)?;
        let is_out = !self.is_distinct && place.is_up_to(resume);
        if is_out || self.is_lost(&place) {
            return Ok(());
        }
        self.appeared += 1;
        let (is_new, appeared) = (!self.found.contains_key(&place), self.appeared);
        let group = self.found.entry(place).or_insert_with(|| Group::new(keys, grouping, appeared));
        assert_eq!(group.accumulators.len(), grouping.aggregates.len(), "a group has each aggregate");
        let before = if is_new { 0 } else { group.size() };
        for (aggregate, accumulator) in grouping.aggregates.iter().zip(&mut group.accumulators) {
            let argument = evaluate(&aggregate.argument, row)?;
            row.step(accumulator.steps(&argument))?;
            accumulator.add(&argument)?;
        }
        self.size_bytes = (self.size_bytes + group.size()).saturating_sub(before);
        self.bound()
    }

    /// Counts rows of the only group, of which only the number is needed.
    pub fn add_count(&mut self, grouping: &Grouping, rows: u64) {
        let place = EntryKey { keys: vec![], tie: 0 };
        let size_bytes = &mut self.size_bytes;
        let group = self.found.entry(place).or_insert_with(|| {
            let group = Group::new(vec![], grouping, 0);
            *size_bytes += group.size();
            group
        });
        group.accumulators.iter_mut().for_each(|accumulator| accumulator.add_count(rows));
    }

    /// Merges the groups of other items.
    pub fn absorb(&mut self, other: Groups) -> Result<(), SqlError> {
        let offset = self.appeared;
        for (place, group) in other.found {
            self.absorb_group(place, group, offset)?;
        }
        if let Some(lost) = other.smallest_lost {
            self.lose_from(lost);
        }
        Ok(())
    }

    fn absorb_group(&mut self, place: EntryKey, mut group: Group, offset: u64) -> Result<(), SqlError> {
        if self.is_lost(&place) {
            return Ok(());
        }
        match self.found.get_mut(&place) {
            Some(own) => {
                assert_eq!(
                    own.accumulators.len(),
                    group.accumulators.len(),
                    "groups of one query have the same aggregates"
                );
                let before = own.size();
                for (own, other) in own.accumulators.iter_mut().zip(group.accumulators) {
                    own.merge(other)?;
                }
                self.size_bytes = (self.size_bytes + own.size()).saturating_sub(before);
            }
            None => {
                group.appeared += offset;
                self.appeared = self.appeared.max(group.appeared);
                self.size_bytes += group.size();
                self.found.insert(place, group);
            }
        }
        self.bound()
    }

    fn is_lost(&self, place: &EntryKey) -> bool {
        self.smallest_lost.as_ref().is_some_and(|lost| place >= lost)
    }

    fn lose_from(&mut self, lost: EntryKey) {
        if self.is_lost(&lost) {
            return;
        }
        let held: usize = self.found.split_off(&lost).values().map(Group::size).sum();
        self.size_bytes = self.size_bytes.saturating_sub(held);
        self.smallest_lost = Some(lost);
    }

    fn bound(&mut self) -> Result<(), SqlError> {
        let entries_max = if self.is_distinct { usize::MAX } else { self.entries_max };
        while self.found.len() > entries_max || (self.size_bytes > MEMORY_BYTES_MAX && self.found.len() > 1) {
            if self.is_distinct {
                return Err(SqlError::TooManyGroups);
            }
            let Some((lost, group)) = self.found.pop_last() else { break };
            self.size_bytes = self.size_bytes.saturating_sub(group.size());
            self.smallest_lost = Some(lost);
        }
        assert!(self.found.len() <= entries_max, "a page collects no more groups than it can use");
        Ok(())
    }

    /// The rows of all groups, in their order. An ordered group without a row has an entry without a text,
    /// because the next page has to count it.
    pub fn into_rows(
        mut self,
        query: &BoundQuery,
        grouping: &Grouping,
        resume: &Resume,
        context: &EvaluationContext<'_>,
    ) -> Result<Vec<(EntryKey, Entry)>, SqlError> {
        if grouping.keys.is_empty() && self.found.is_empty() {
            self.add_count(grouping, 0);
        }
        let scope = Scope::new(context);
        let groups: Vec<FinishedGroup> = self.found.into_iter().map(FinishedGroup::new).collect();
        gather_calls(query, &groups, &scope, context);
        let (mut rows, mut seen) = (BTreeMap::new(), HashSet::new());
        for (number, group) in groups.into_iter().enumerate() {
            context.begin_item();
            if let Some(calls) = context.calls() {
                calls.borrow_mut().begin(number as u64);
            }
            let FinishedGroup { mut place, keys, aggregates, appeared } = group;
            let scope = scope.with_group(GroupValues { keys: &keys, aggregates: &aggregates });
            let mut text = Vec::new();
            let is_row = write_row(&query.projection, &scope, &mut text)?;
            if !is_row && (query.order_by.is_empty() || query.distinct) {
                continue;
            }
            if query.distinct {
                place.tie = distinct_hash(&project(&query.projection, &scope)?.to_value());
                if !seen.insert(place.tie) || place.is_up_to(resume) {
                    continue;
                }
            }
            rows.entry(place).or_insert(Entry { text, appeared });
        }
        Ok(rows.into_iter().collect())
    }
}

/// The calls of user-defined functions that the rows of groups need.
fn gather_calls(
    query: &BoundQuery,
    groups: &[FinishedGroup],
    scope: &Scope<'_>,
    context: &EvaluationContext<'_>,
) {
    let Some(calls) = context.calls() else { return };
    user_functions::gather(calls, 0..groups.len() as u64, |number| {
        let FinishedGroup { keys, aggregates, .. } = &groups[number];
        let scope = scope.with_group(GroupValues { keys, aggregates });
        project(&query.projection, &scope).map(|_| ())
    });
}

/// The place of the group with these keys.
fn place_of(query: &BoundQuery, keys: &[Value], row: &Scope<'_>) -> Result<EntryKey, SqlError> {
    let tie = if keys.is_empty() { 0 } else { group_hash(keys) };
    if query.order_by.is_empty() {
        return Ok(EntryKey { keys: vec![], tie });
    }
    let group = row.with_group(GroupValues { keys, aggregates: &[] });
    Ok(EntryKey { keys: sort_keys(&query.order_by, &group)?, tie })
}

/// A group's hash is that of its keys as one array; undefined keys keep their position.
fn group_hash(keys: &[Value]) -> DistinctHash {
    distinct_hash(&Value::Array(keys.to_vec()))
}

impl Group {
    fn new(keys: Vec<Value>, grouping: &Grouping, appeared: u64) -> Group {
        let accumulators = grouping.aggregates.iter().map(|aggregate| Accumulator::new(aggregate.function));
        Group { keys, accumulators: accumulators.collect(), appeared }
    }

    /// With the contents of its accumulators.
    fn size(&self) -> usize {
        let held: usize = self.accumulators.iter().map(Accumulator::size).sum();
        64 + held
            + self.keys.iter().map(crate::value::datum::value_size).sum::<usize>()
            + self.accumulators.len() * size_of::<Accumulator>()
    }
}

impl FinishedGroup {
    fn new((place, group): (EntryKey, Group)) -> FinishedGroup {
        let Group { keys, accumulators, appeared } = group;
        let aggregates = accumulators.into_iter().map(Accumulator::finish).collect();
        FinishedGroup { place, keys, aggregates, appeared }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MB: usize = 1 << 20;

    fn place(tie: u128) -> EntryKey {
        EntryKey { keys: vec![], tie }
    }

    /// Groups by place, each with a list of so many megabytes.
    fn groups(sizes: &[(u128, usize)], lost: Option<u128>) -> Groups {
        let mut groups = Groups::new(usize::MAX, false);
        for (tie, megabytes) in sizes {
            let list = Accumulator::List { elements: vec![], size_bytes: megabytes * MB, seen: None };
            let group = Group { keys: vec![], accumulators: vec![list], appeared: 1 };
            groups.absorb_group(place(*tie), group, 0).expect("within the bounds");
        }
        groups.smallest_lost = lost.map(place);
        groups
    }

    fn places(groups: &Groups) -> Vec<u128> {
        groups.found.keys().map(|place| place.tie).collect()
    }

    #[test]
    fn lost_groups_free_their_memory() {
        let mut own = groups(&[(1, 20), (2, 20), (3, 20)], None);
        own.absorb(groups(&[], Some(2))).expect("merges");
        own.absorb(groups(&[(0, 40)], None)).expect("merges");
        assert_eq!(places(&own), [0, 1], "60 MB of 64");
        assert_eq!(own.smallest_lost, Some(place(2)));
    }

    #[test]
    fn merged_groups_count_with_both_contents() {
        let least = |tie, letter: &str, megabytes: usize| {
            let value = Some(Value::String(letter.repeat(megabytes * MB)));
            let least = Accumulator::Extreme { largest: false, value, poisoned: false };
            let mut groups = groups(&[], None);
            let group = Group { keys: vec![], accumulators: vec![least], appeared: 1 };
            groups.absorb_group(place(tie), group, 0).expect("within the bounds");
            groups
        };
        let mut own = least(1, "b", 10);
        own.absorb(least(2, "b", 10)).expect("merges");
        own.absorb(least(1, "a", 60)).expect("merges");
        assert_eq!((places(&own), own.smallest_lost), (vec![1], Some(place(2))), "70 MB of 64");
    }

    proptest! {
        #[test]
        fn the_size_is_the_sum_of_the_groups(
            parts in prop::collection::vec(
                (prop::collection::vec((0..12u128, 0..30usize), 0..6), prop::option::of(0..12u128)), 1..8),
        ) {
            let mut own = groups(&[], None);
            for (sizes, lost) in parts {
                own.absorb(groups(&sizes, lost)).expect("merges");
                let sum: usize = own.found.values().map(Group::size).sum();
                prop_assert_eq!(own.size_bytes, sum);
                prop_assert!(own.size_bytes <= MEMORY_BYTES_MAX || own.len() == 1);
                prop_assert!(own.found.keys().all(|place| !own.is_lost(place)));
            }
        }
    }
}
