//! Groups of partial results, and groups in the order of `ORDER BY`.
//!
//! Clients make ordered groups from the payloads of ordered rows: they merge the rows of all sources by their
//! sort keys, and keep the groups in that order. No client resumes in the middle of groups: a page here reads
//! everything again, and skips the rows already returned.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use shardlake_document::Value;

use super::output::{Output, row_text};
use super::partial::Partial;
use super::state::Resume;
use crate::envelope::{items, member, order_by_items, parse};
use crate::error::SqlError;
use crate::execute::{DistinctHash, Rows, SortValue, distinct_hash};
use crate::plan::{DistinctKind, QueryInfo, SortDirection};
use crate::value::aggregate::AggregateFunction;
use crate::value::datum::value_size;

/// Rows of groups in order that a merge keeps.
const GROUPS_BYTES_MAX: usize = 64 * 1024 * 1024;

pub(super) struct OrderedGroups<'q> {
    info: &'q QueryInfo,
    groups: HashMap<DistinctHash, (Vec<SortValue>, Group)>,
    size_bytes: usize,
    /// Rows returned by earlier pages.
    out: u64,
}

pub(super) struct Group {
    parts: Vec<Part>,
}

/// Parts of a group's row.
enum Part {
    Aggregate(Partial),
    /// A value that is the same for all rows of the group.
    Fixed(Value),
}

impl<'q> OrderedGroups<'q> {
    pub fn new(info: &'q QueryInfo, resume: Option<Resume>) -> Result<Self, SqlError> {
        let out = match resume {
            None => 0,
            Some(Resume::OrderedGroups(out)) => out,
            Some(_) => return Err(SqlError::InvalidState),
        };
        Ok(OrderedGroups { info, groups: HashMap::new(), size_bytes: 0, out })
    }

    pub fn feed(&mut self, rows: &Rows) -> Result<(), SqlError> {
        for row in rows.iter() {
            let keys: Vec<SortValue> = order_by_items(row)?.into_iter().map(SortValue::from).collect();
            let grouped = member(row, "payload")?.ok_or(SqlError::UnmergeableRow)?;
            let payload = payload(self.info, grouped)?;
            self.size_bytes += row.len();
            let entry = self.groups.entry(group_hash(grouped)?);
            entry.or_insert_with(|| (keys, Group::new(self.info))).1.add(self.info, &payload)?;
        }
        if self.size_bytes > GROUPS_BYTES_MAX { Err(SqlError::TooManyGroups) } else { Ok(()) }
    }

    /// Fills the page; returns the place where the next one resumes.
    pub fn finish(self, output: &mut Output) -> Result<Option<Resume>, SqlError> {
        let OrderedGroups { info, groups, out, .. } = self;
        let mut groups: Vec<_> =
            groups.into_iter().map(|(hash, (keys, group))| (keys, hash, group)).collect();
        groups.sort_by(|left, right| order(info, &left.0, &right.0).then(left.1.cmp(&right.1)));
        let (mut rows, mut seen) = (0, HashSet::new());
        for (_, _, group) in groups {
            let row = group.finish(info);
            let is_row = !row.is_undefined();
            if !is_row || (info.distinct != DistinctKind::None && !seen.insert(distinct_hash(&row))) {
                continue;
            }
            if output.is_complete() {
                return Ok(None);
            }
            if rows >= out && !output.offer(&row_text(&row)?) {
                return Ok(Some(Resume::OrderedGroups(rows)));
            }
            rows += 1;
        }
        Ok(None)
    }
}

fn order(info: &QueryInfo, left: &[SortValue], right: &[SortValue]) -> Ordering {
    for ((left, right), direction) in left.iter().zip(right).zip(&info.order_by) {
        let order = left.cmp(right);
        if order.is_ne() {
            return if *direction == SortDirection::Descending { order.reverse() } else { order };
        }
    }
    Ordering::Equal
}

/// Whether rows of the result are made of several rows.
pub(super) fn merges_groups(info: &QueryInfo) -> bool {
    !info.aggregates.is_empty() || !info.group_by_aliases.is_empty() || !info.group_by_expressions.is_empty()
}

/// A group's hash is that of its keys as one array; undefined keys keep their position.
pub(super) fn group_hash(row: &[u8]) -> Result<DistinctHash, SqlError> {
    let keys = member(row, "groupByItems")?.ok_or(SqlError::UnmergeableRow)?;
    Ok(distinct_hash(&Value::Array(items(keys)?)))
}

/// Content of a row for its group.
pub(super) fn payload(info: &QueryInfo, row: &[u8]) -> Result<Value, SqlError> {
    let is_bare = info.group_by_expressions.is_empty() && info.has_select_value;
    let text = if is_bare { Some(row) } else { member(row, "payload")? };
    text.map_or(Ok(Value::Undefined), parse)
}

impl Group {
    pub fn new(info: &QueryInfo) -> Group {
        let part = |function: &Option<AggregateFunction>| match function {
            Some(function) => Part::Aggregate(Partial::new(*function)),
            None => Part::Fixed(Value::Undefined),
        };
        let parts = match info.has_select_value {
            true => vec![part(&info.aggregates.first().copied())],
            false => info.group_by_alias_to_aggregate.iter().map(|(_, function)| part(function)).collect(),
        };
        Group { parts }
    }

    pub fn add(&mut self, info: &QueryInfo, payload: &Value) -> Result<(), SqlError> {
        if info.has_select_value {
            let Some(part) = self.parts.first_mut() else { return Ok(()) };
            return match (&*part, payload) {
                (Part::Aggregate(_), Value::Array(partials)) => {
                    part.add(partials.first().unwrap_or(&Value::Undefined))
                }
                (Part::Aggregate(_), _) => Err(SqlError::UnmergeableRow),
                (Part::Fixed(_), value) => part.add(value),
            };
        }
        for ((alias, _), part) in info.group_by_alias_to_aggregate.iter().zip(&mut self.parts) {
            part.add(payload.get(alias).unwrap_or(&Value::Undefined))?;
        }
        Ok(())
    }

    pub fn size(&self) -> usize {
        let sizes = self.parts.iter().map(|part| match part {
            Part::Aggregate(partial) => partial.size(),
            Part::Fixed(value) => value_size(value),
        });
        sizes.sum::<usize>() + self.parts.len() * size_of::<Part>()
    }

    /// `Undefined` without a row.
    pub fn finish(self, info: &QueryInfo) -> Value {
        let mut values = self.parts.into_iter().map(|part| match part {
            Part::Aggregate(partial) => partial.finish(),
            Part::Fixed(value) => value,
        });
        if info.has_select_value {
            return values.next().unwrap_or(Value::Undefined);
        }
        let aliases = info.group_by_aliases.iter().cloned();
        Value::Object(aliases.zip(values).filter(|(_, value)| !value.is_undefined()).collect())
    }
}

impl Part {
    fn add(&mut self, value: &Value) -> Result<(), SqlError> {
        match self {
            Part::Aggregate(partial) => partial.add(value),
            Part::Fixed(fixed) => {
                if fixed.is_undefined() {
                    *fixed = value.clone();
                }
                Ok(())
            }
        }
    }
}
