//! Composite indexes for conditions on several paths: equalities first, then at most one range (engine.md §5).
//!
//! An entry is the concatenation of the members' index values, inverted byte by byte where a member's order
//! differs from the first one's.

use shardlake_model::IndexPathSegment;

use super::combine::leaves;
use super::ranges::successor;
use super::{CompositeSchema, IndexFilter, IndexRef, IndexSchema, Leaf, LookupClass, ValueRange};

/// Adds to an AND the ranges of a composite index for several of its parts at once.
pub(super) fn with_composites(filter: IndexFilter, schema: &IndexSchema<'_>) -> IndexFilter {
    let IndexFilter::And(mut parts) = filter else { return filter };
    let whole = IndexFilter::And(parts.clone());
    let found: Vec<Leaf> = {
        let leaves = leaves(&whole);
        schema
            .composites
            .iter()
            .enumerate()
            .filter_map(|(number, one)| leaf_of(number, one, &leaves))
            .collect()
    };
    parts.extend(found.into_iter().map(IndexFilter::Leaf));
    IndexFilter::And(parts)
}

fn leaf_of(number: usize, candidate: &CompositeSchema, leaves: &[&Leaf]) -> Option<Leaf> {
    let covered = covered(candidate, leaves);
    if covered.members < 2 {
        return None;
    }
    let class =
        if covered.members == covered.fixed.len() { LookupClass::Seek } else { LookupClass::PreciseScan };
    let ranges = vec![covered.range?];
    Some(Leaf { index: IndexRef::Composite(number), ranges, test: None, precise: false, class })
}

/// The part of a composite index that leaves cover.
pub(super) struct Covered {
    /// Members that have one value, in the form of an entry.
    pub fixed: Vec<Vec<u8>>,
    /// The fixed members, plus the next one if it has a range.
    pub members: usize,
    /// `None` when it is the whole index.
    pub range: Option<ValueRange>,
    /// The range covers the members' leaves completely.
    pub exact: bool,
}

pub(super) fn covered(candidate: &CompositeSchema, leaves: &[&Leaf]) -> Covered {
    let fixed = fixed_members(candidate, leaves);
    assert!(fixed.len() <= candidate.members.len(), "a composite covers no more than its members");
    let prefix = fixed.concat();
    let next = candidate.members.get(fixed.len());
    let ranged = next.and_then(|(names, descending)| {
        let leaf = on_path(leaves, names).find(|leaf| leaf.ranges.len() == 1)?;
        debug_assert!(fixed.len() < candidate.members.len(), "a range follows the fixed members");
        Some((placed(&prefix, &leaf.ranges[0], *descending != candidate.members[0].1), leaf))
    });
    match ranged {
        Some((range, leaf)) => {
            let exact = leaf.precise && leaf.test.is_none();
            Covered { members: fixed.len() + 1, fixed, range: Some(range), exact }
        }
        None => {
            let range = (!fixed.is_empty()).then(|| ValueRange { end: successor(&prefix), start: prefix });
            Covered { members: fixed.len(), fixed, range, exact: true }
        }
    }
}

/// The first members that the leaves fix to one value each, in the form of an entry.
fn fixed_members(candidate: &CompositeSchema, leaves: &[&Leaf]) -> Vec<Vec<u8>> {
    let mut fixed = Vec::new();
    for (names, descending) in &candidate.members {
        let equality = on_path(leaves, names).find(|leaf| is_equality(leaf));
        let Some(leaf) = equality else { break };
        let mut bytes = leaf.ranges[0].start.clone();
        if *descending != candidate.members[0].1 {
            bytes.iter_mut().for_each(|byte| *byte = !*byte);
        }
        fixed.push(bytes);
    }
    fixed
}

fn on_path<'l>(leaves: &'l [&'l Leaf], names: &'l [String]) -> impl Iterator<Item = &'l Leaf> {
    leaves.iter().copied().filter(move |leaf| match &leaf.index {
        IndexRef::Path(path) => {
            path.len() == names.len()
                && path
                    .iter()
                    .zip(names)
                    .all(|(segment, name)| *segment == IndexPathSegment::Name(name.clone()))
        }
        IndexRef::Composite(_) => false,
    })
}

/// Whether a leaf names the entries of one whole value, so that its start is that value's encoding.
fn is_equality(leaf: &Leaf) -> bool {
    leaf.precise
        && leaf.test.is_none()
        && leaf.class == LookupClass::Seek
        && leaf.ranges.len() == 1
        && leaf.ranges[0].end == successor(&leaf.ranges[0].start)
        && shardlake_document::index_value_length(&leaf.ranges[0].start) == Some(leaf.ranges[0].start.len())
}

/// A member's range after a prefix.
fn placed(prefix: &[u8], range: &ValueRange, inverted: bool) -> ValueRange {
    let invert = |bytes: &[u8]| bytes.iter().map(|byte| !byte).collect::<Vec<u8>>();
    let (start, end) = match inverted {
        false => (range.start.clone(), range.end.clone()),
        // Everything below the old end sorts after all inversions with its inverted beginning; the old start
        // comes last.
        true => (successor(&invert(&range.end)), successor(&invert(&range.start))),
    };
    ValueRange { start: [prefix, &start].concat(), end: [prefix, &end].concat() }
}
