//! The options of a filter: lists of leaves, each of which covers it.
//!
//! An AND has the options of all its parts, an OR has one option, made of the best of each part.

use shardlake_model::{IndexPathSegment, KeyPath};
use shardlake_sql::{IndexFilter, IndexRef, Leaf, LookupClass};

/// Options looked at; a filter with more has as many good ones among the first.
const OPTIONS_MAX: usize = 8;

/// Leaves that together cover the filter.
pub(crate) struct Choice<'p> {
    pub leaves: Vec<&'p Leaf>,
    /// They are true of exactly the items of which the filter is.
    pub exact: bool,
}

impl<'p> Choice<'p> {
    /// The ranges to count, each by its leaf and its place in the leaf. The summaries of a leaf come
    /// behind its own ranges.
    pub(super) fn ranges(
        &self,
        has_summaries: impl Fn(&Leaf) -> bool,
    ) -> impl Iterator<Item = (&'p Leaf, usize)> {
        let count = move |leaf: &Leaf| leaf.ranges.len() + usize::from(has_summaries(leaf));
        self.leaves.iter().flat_map(move |leaf| (0..count(leaf)).map(move |place| (*leaf, place)))
    }
}

/// The options of a filter; `None` when it is never true, none when it needs a scan.
pub(crate) fn choices<'p>(
    filter: &'p IndexFilter,
    names_scope: &dyn Fn(&Leaf) -> bool,
) -> Option<Vec<Choice<'p>>> {
    match filter {
        IndexFilter::Nothing => None,
        IndexFilter::Everything => Some(vec![]),
        IndexFilter::Leaf(leaf) if leaf.ranges.is_empty() => None,
        IndexFilter::Leaf(leaf) if names_scope(leaf) => Some(vec![]),
        IndexFilter::Leaf(leaf) => Some(vec![Choice { leaves: vec![leaf], exact: leaf.precise }]),
        IndexFilter::And(parts) => {
            let mut all = Vec::new();
            for part in parts {
                let exact_alone = parts.len() == 1;
                all.extend(
                    choices(part, names_scope)?
                        .into_iter()
                        .map(|choice| Choice { exact: choice.exact && exact_alone, ..choice }),
                );
            }
            all.sort_by_key(rank);
            all.truncate(OPTIONS_MAX);
            Some(all)
        }
        IndexFilter::Or(parts) => {
            let mut whole = Choice { leaves: vec![], exact: true };
            let mut any = false;
            for part in parts {
                let Some(options) = choices(part, names_scope) else { continue };
                any = true;
                let Some(best) = options.into_iter().min_by_key(rank) else { return Some(vec![]) };
                whole.exact &= best.exact;
                whole.leaves.extend(best.leaves);
            }
            any.then(|| vec![whole])
        }
    }
}

/// Whether a leaf is about one of the paths of the partition key: within one logical partition such
/// a condition narrows nothing.
pub(crate) fn is_of_key(leaf: &Leaf, key_paths: &[KeyPath]) -> bool {
    let IndexRef::Path(path) = &leaf.index else { return false };
    let is = |key: &KeyPath| {
        key.0.len() == path.len()
            && key.0.iter().zip(path).all(|(name, segment)| *segment == IndexPathSegment::Name(name.clone()))
    };
    key_paths.iter().any(is)
}

/// Fewer and cheaper lookups first.
pub(crate) fn rank(choice: &Choice<'_>) -> (LookupClass, usize) {
    let worst = choice.leaves.iter().map(|leaf| leaf.class).max();
    (worst.unwrap_or(LookupClass::Seek), choice.leaves.len())
}
