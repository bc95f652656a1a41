//! Conditions from the scope of a request: a request for a partition key implies an equality on each path of
//! the key.
//!
//! Planning uses the equalities like equalities in the text, so that composite indexes which begin with the
//! partition key serve both. They are then removed from the filter: every item of the scope meets them.

use serde::{Deserialize, Serialize};
use shardlake_document::Value;
use shardlake_model::IndexPathSegment;

use super::combine::all;
use super::filter::Planner;
use super::ranges::ValueSet;
use super::{IndexFilter, IndexRef, Leaf, LookupClass};
use crate::prepared::PreparedQuery;

/// A value that all items of a scope have under a path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeyValue {
    pub path: Vec<String>,
    pub value: Value,
}

/// The leaves of the scope's equalities, if the index has entries for them.
pub(super) fn leaves(planner: &Planner<'_>, query: &PreparedQuery, scope: &[KeyValue]) -> Vec<Leaf> {
    let leaf = |known: &KeyValue| {
        // The index holds the result of a computed property, not the stored value under its name.
        if query.computed().names().any(|name| known.path.first().is_some_and(|first| first == name)) {
            return None;
        }
        let path = known.path.iter().cloned().map(IndexPathSegment::Name).collect();
        match planner.leaf_at(path, ValueSet::equal(&known.value), None, LookupClass::Seek) {
            (IndexFilter::Leaf(leaf), _) => Some(leaf),
            _ => None,
        }
    };
    scope.iter().filter_map(leaf).collect()
}

/// Whether the filter is independent of the scope's conditions: the scope's values then do not change it.
pub(super) fn is_apart(filter: &IndexFilter, scope: &[Leaf]) -> bool {
    match filter {
        IndexFilter::Everything | IndexFilter::Nothing => true,
        IndexFilter::Leaf(leaf) => !names(scope, &leaf.index),
        IndexFilter::And(parts) | IndexFilter::Or(parts) => parts.iter().all(|part| is_apart(part, scope)),
    }
}

pub(super) fn names(scope: &[Leaf], index: &IndexRef) -> bool {
    scope.iter().any(|leaf| leaf.index == *index)
}

/// The filter and the scope's equalities.
pub(super) fn with_scope(filter: IndexFilter, scope: &[Leaf]) -> IndexFilter {
    if scope.is_empty() {
        return filter;
    }
    let scope = scope.iter().cloned().map(IndexFilter::Leaf);
    all(std::iter::once(filter).chain(scope).map(|part| (part, true))).0
}

/// The filter without the scope's equalities.
pub(super) fn beyond(filter: IndexFilter, scope: &[Leaf]) -> IndexFilter {
    match filter {
        IndexFilter::And(mut parts) => {
            parts.retain(|part| !is_of_scope(part, scope));
            match parts.len() {
                0 => IndexFilter::Everything,
                1 => parts.remove(0),
                _ => IndexFilter::And(parts),
            }
        }
        other if is_of_scope(&other, scope) => IndexFilter::Everything,
        other => other,
    }
}

/// The parts of a filter, all of which must hold, that the scope does not imply.
pub(super) fn says_more<'f>(
    filter: &'f IndexFilter,
    scope: &[Leaf],
) -> impl Iterator<Item = &'f IndexFilter> {
    let parts = match filter {
        IndexFilter::And(parts) => &parts[..],
        other => std::slice::from_ref(other),
    };
    parts.iter().filter(|part| !matches!(part, IndexFilter::Everything) && !is_of_scope(part, scope))
}

fn is_of_scope(part: &IndexFilter, scope: &[Leaf]) -> bool {
    let IndexFilter::Leaf(leaf) = part else { return false };
    leaf.test.is_none() && scope.iter().any(|one| one.index == leaf.index && one.ranges == leaf.ranges)
}
