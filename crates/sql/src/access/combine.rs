//! AND and OR of planned parts. Leaves of one path are merged into one leaf where the meaning stays the same:
//! under an AND, leaves of paths with one value per item; under an OR, all. The time is little more than
//! linear in the length of the list.

use std::collections::HashMap;

use super::path::is_single;
use super::ranges::{ValueSet, are_ascending};
use super::{IndexFilter, IndexRef, Leaf, LookupClass, ValueRange};

/// A plan of a condition, and whether it is exactly equivalent to the condition.
pub(super) type Planned = (IndexFilter, bool);

pub(super) const UNKNOWN: Planned = (IndexFilter::Everything, false);
pub(super) const NEVER: Planned = (IndexFilter::Nothing, true);

pub(super) fn all(parts: impl Iterator<Item = Planned>) -> Planned {
    let (mut filters, mut precise) = (Vec::new(), true);
    for (filter, is_precise) in parts {
        precise &= is_precise;
        match filter {
            IndexFilter::Everything => {}
            // No other part can make the AND true.
            IndexFilter::Nothing => return NEVER,
            IndexFilter::And(inner) => filters.extend(inner),
            other => filters.push(other),
        }
    }
    let may_join = |leaf: &Leaf| matches!(&leaf.index, IndexRef::Path(path) if is_single(path));
    let mut filters = joined(filters, may_join, intersections);
    if filters.iter().any(|filter| matches!(filter, IndexFilter::Leaf(leaf) if leaf.ranges.is_empty())) {
        return NEVER;
    }
    let filter = match filters.len() {
        0 => IndexFilter::Everything,
        1 => filters.remove(0),
        _ => IndexFilter::And(filters),
    };
    (filter, precise)
}

pub(super) fn any(parts: impl Iterator<Item = Planned>) -> Planned {
    let (mut filters, mut precise) = (Vec::new(), true);
    for (filter, is_precise) in parts {
        precise &= is_precise;
        match filter {
            IndexFilter::Everything => return (IndexFilter::Everything, is_precise),
            IndexFilter::Nothing => {}
            IndexFilter::Or(inner) => filters.extend(inner),
            other => filters.push(other),
        }
    }
    let may_join = |leaf: &Leaf| leaf.test.is_none() && matches!(leaf.index, IndexRef::Path(_));
    let mut filters = joined(filters, may_join, union);
    let filter = match filters.len() {
        0 => IndexFilter::Nothing,
        1 => filters.remove(0),
        _ => IndexFilter::Or(filters),
    };
    (filter, precise)
}

/// Up to this length, filters are searched linearly rather than hashed.
const SHORT: usize = 8;

/// Replaces the leaves of one index by the result of `join`, in the place of the first.
fn joined(
    filters: Vec<IndexFilter>,
    may_join: impl Fn(&Leaf) -> bool,
    join: impl Fn(Vec<Leaf>) -> Vec<Leaf>,
) -> Vec<IndexFilter> {
    if filters.len() < 2 {
        return filters;
    }
    // Most conditions are short: a linear search through the groups is quicker than hashing paths, and copies
    // none.
    let is_short = filters.len() <= SHORT;
    let mut places: HashMap<IndexRef, usize> = HashMap::new();
    let mut groups: Vec<(Vec<Leaf>, Option<IndexFilter>)> = Vec::with_capacity(filters.len());
    for filter in filters {
        match filter {
            IndexFilter::Leaf(leaf) if may_join(&leaf) => {
                let is_of = |(leaves, _): &(Vec<Leaf>, _)| {
                    leaves.first().is_some_and(|first: &Leaf| first.index == leaf.index)
                };
                let place = match is_short {
                    true => groups.iter().position(is_of).unwrap_or(groups.len()),
                    false => *places.entry(leaf.index.clone()).or_insert(groups.len()),
                };
                if place == groups.len() {
                    groups.push((Vec::new(), None));
                }
                groups[place].0.push(leaf);
            }
            other => groups.push((Vec::new(), Some(other))),
        }
    }
    let ungrouped = |(leaves, other): (Vec<Leaf>, Option<IndexFilter>)| {
        join(leaves).into_iter().map(IndexFilter::Leaf).chain(other)
    };
    groups.into_iter().flat_map(ungrouped).collect()
}

/// Intersects neighbours, then neighbours of the results, so that each leaf is processed at most
/// logarithmically often. Two leaves with tests stay separate.
fn intersections(mut leaves: Vec<Leaf>) -> Vec<Leaf> {
    loop {
        let before = leaves.len();
        let mut next = Vec::with_capacity(before.div_ceil(2));
        let mut rest = leaves.into_iter();
        while let Some(left) = rest.next() {
            match rest.next() {
                None => next.push(left),
                Some(right) if left.test.is_some() && right.test.is_some() => next.extend([left, right]),
                Some(right) => next.push(intersection(left, right)),
            }
        }
        leaves = next;
        if leaves.len() < 2 || leaves.len() == before {
            return leaves;
        }
    }
}

/// At most one of them has a test.
fn intersection(left: Leaf, right: Leaf) -> Leaf {
    debug_assert_eq!(left.index, right.index, "only conditions on one index are joined");
    debug_assert!(left.test.is_none() || right.test.is_none(), "a lookup has one test of its values");
    let set = set_of(&left).intersect(&set_of(&right));
    debug_assert!(are_ascending(&set.ranges), "the ranges of a leaf are disjoint and ascend");
    let narrower = left.class.min(right.class);
    let test = left.test.or(right.test);
    let is_seek = test.is_none() && set.is_single_values();
    let class = if is_seek { LookupClass::Seek } else { narrower.max(LookupClass::PreciseScan) };
    Leaf { index: left.index, ranges: set.ranges, test, precise: set.precise, class }
}

fn union(leaves: Vec<Leaf>) -> Vec<Leaf> {
    if leaves.len() < 2 {
        return leaves;
    }
    let Some(index) = leaves.first().map(|leaf| leaf.index.clone()) else { return leaves };
    debug_assert!(
        leaves.iter().all(|leaf| leaf.index == index && leaf.test.is_none()),
        "only plain conditions on one index are joined"
    );
    let class = leaves.iter().map(|leaf| leaf.class).max().unwrap_or(LookupClass::Seek);
    let set = ValueSet::union(leaves.iter().map(set_of));
    debug_assert!(are_ascending(&set.ranges), "the ranges of a leaf are disjoint and ascend");
    vec![Leaf { index, ranges: set.ranges, test: None, precise: set.precise, class }]
}

/// Limits on the ranges of a leaf and the parts of an OR: the executor numbers them with 16 bits, and looks
/// each of them up.
const RANGES_MAX: usize = 16_384;
const PARTS_MAX: usize = 4096;

/// The plan with neighbouring ranges merged until there are few enough, and without ORs of too many parts.
pub(super) fn bounded((mut filter, precise): Planned) -> Planned {
    let precise = bound(&mut filter) && precise;
    (filter, precise)
}

/// False when precision was lost.
fn bound(filter: &mut IndexFilter) -> bool {
    match filter {
        IndexFilter::Everything | IndexFilter::Nothing => true,
        IndexFilter::Leaf(leaf) if leaf.ranges.len() <= RANGES_MAX => true,
        IndexFilter::Leaf(leaf) => {
            debug_assert!(are_ascending(&leaf.ranges), "the ranges of a leaf are disjoint and ascend");
            let together = leaf.ranges.len().div_ceil(RANGES_MAX);
            let hull = |ranges: &[ValueRange]| ValueRange {
                start: ranges[0].start.clone(),
                end: ranges[ranges.len() - 1].end.clone(),
            };
            leaf.ranges = leaf.ranges.chunks(together).map(hull).collect();
            assert!(leaf.ranges.len() <= RANGES_MAX, "the ranges of a lookup are bounded");
            (leaf.precise, leaf.class) = (false, leaf.class.max(LookupClass::PreciseScan));
            false
        }
        IndexFilter::Or(parts) if parts.len() > PARTS_MAX => {
            *filter = IndexFilter::Everything;
            false
        }
        IndexFilter::And(parts) | IndexFilter::Or(parts) => {
            let mut keeps_all = true;
            for part in parts {
                keeps_all &= bound(part);
            }
            keeps_all
        }
    }
}

fn set_of(leaf: &Leaf) -> ValueSet {
    ValueSet { ranges: leaf.ranges.clone(), precise: leaf.precise }
}

/// The leaves that all must hold.
pub(super) fn leaves(filter: &IndexFilter) -> Vec<&Leaf> {
    match filter {
        IndexFilter::Leaf(leaf) => vec![leaf],
        IndexFilter::And(parts) => parts
            .iter()
            .filter_map(|part| match part {
                IndexFilter::Leaf(leaf) => Some(leaf),
                _ => None,
            })
            .collect(),
        _ => vec![],
    }
}
