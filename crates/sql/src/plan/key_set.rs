//! Sets of partition keys: unions of boxes, where a box fixes some components of the key and leaves the others open.
//!
//! Unions and intersections never lose a key. Where exactness would cost too much they return a larger set,
//! so that no query text makes a plan big or slow.

use std::collections::HashSet;

use shardlake_model::{KeyComponent, PartitionKey};

use super::info::KeyFilter;

/// Limit beyond which a set becomes the set of all keys.
const BOXES_MAX: usize = 1 << 16;
/// Limit beyond which an intersection is replaced by one of its two sides.
const PRODUCT_MAX: usize = 1 << 18;

type KeyBox = Vec<Option<KeyComponent>>;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct KeySet {
    boxes: Vec<KeyBox>,
}

impl KeySet {
    /// All keys with this many components.
    pub fn all(components: usize) -> KeySet {
        KeySet { boxes: vec![vec![None; components]] }
    }

    pub fn nothing() -> KeySet {
        KeySet { boxes: Vec::new() }
    }

    /// The keys whose component `at` is one of the given ones.
    pub fn of(components: usize, at: usize, values: impl IntoIterator<Item = KeyComponent>) -> KeySet {
        let box_of = |value| {
            assert!(at < components, "a fixed component is one of the key's");
            let mut fixed = vec![None; components];
            fixed[at] = Some(value);
            fixed
        };
        KeySet { boxes: values.into_iter().map(box_of).collect() }.bounded(components)
    }

    pub fn union_of(sets: impl Iterator<Item = KeySet>) -> KeySet {
        let mut union = KeySet::nothing();
        for set in sets {
            if set.is_all() {
                return set;
            }
            union.boxes.extend(set.boxes);
            if let (true, Some(first)) = (union.boxes.len() > BOXES_MAX, union.boxes.first()) {
                return KeySet::all(first.len());
            }
        }
        let boxes = &union.boxes;
        assert!(boxes.len() <= BOXES_MAX, "sets of keys are bounded");
        debug_assert!(
            boxes.windows(2).all(|pair| pair[0].len() == pair[1].len()),
            "keys of one container have the same components"
        );
        union
    }

    pub fn intersect(self, other: KeySet) -> KeySet {
        if self.is_all() {
            return other;
        }
        if other.is_all() {
            return self;
        }
        if self.boxes.len().saturating_mul(other.boxes.len()) > PRODUCT_MAX {
            return if self.boxes.len() <= other.boxes.len() { self } else { other };
        }
        let pairs = self.boxes.iter().flat_map(|left| other.boxes.iter().map(move |right| (left, right)));
        let boxes: Vec<KeyBox> = pairs.filter_map(|(left, right)| intersect_boxes(left, right)).collect();
        if boxes.len() > BOXES_MAX { self } else { KeySet { boxes } }
    }

    /// The filter of a query. `prefixes`: the first components alone are enough to find the partition.
    pub fn into_filter(self, prefixes: bool) -> KeyFilter {
        let mut keys: Vec<Vec<KeyComponent>> = Vec::with_capacity(self.boxes.len());
        for fixed in self.boxes {
            let components = fixed.len();
            let key: Vec<KeyComponent> = fixed.into_iter().map_while(|component| component).collect();
            if key.is_empty() || (key.len() < components && !prefixes) {
                return KeyFilter::All;
            }
            keys.push(key);
        }
        if keys.is_empty() {
            return KeyFilter::Nothing;
        }
        // Short ones first: a prefix covers the keys that it begins.
        keys.sort_by_key(Vec::len);
        let mut seen: HashSet<Vec<Identity>> = HashSet::with_capacity(keys.len());
        keys.retain(|key| {
            let identity: Vec<Identity> = key.iter().map(identity_of).collect();
            let covered = (1..=identity.len()).any(|length| seen.contains(&identity[..length]));
            !covered && seen.insert(identity)
        });
        debug_assert!(
            keys.iter().all(|key| !key.is_empty()),
            "a filter by keys names at least one component"
        );
        KeyFilter::Keys(keys.into_iter().map(PartitionKey).collect())
    }

    fn is_all(&self) -> bool {
        self.boxes.iter().any(|fixed| fixed.iter().all(Option::is_none))
    }

    fn bounded(self, components: usize) -> KeySet {
        if self.boxes.len() > BOXES_MAX { KeySet::all(components) } else { self }
    }
}

fn intersect_boxes(left: &KeyBox, right: &KeyBox) -> Option<KeyBox> {
    left.iter()
        .zip(right)
        .map(|components| match components {
            (Some(left), Some(right)) if !left.same(right) => None,
            (Some(component), _) | (None, Some(component)) => Some(Some(component.clone())),
            (None, None) => Some(None),
        })
        .collect()
}

/// Equal for components that are the same in the sense of [`KeyComponent::same`].
#[derive(PartialEq, Eq, Hash)]
enum Identity {
    Undefined,
    Null,
    Bool(bool),
    Number(u64),
    String(String),
}

fn identity_of(component: &KeyComponent) -> Identity {
    match component {
        KeyComponent::Undefined => Identity::Undefined,
        KeyComponent::Null => Identity::Null,
        KeyComponent::Bool(value) => Identity::Bool(*value),
        KeyComponent::Number(number) => Identity::Number(number.to_bits()),
        KeyComponent::String(text) => Identity::String(text.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(value: f64) -> KeyComponent {
        KeyComponent::Number(value)
    }

    fn keys(keys: &[&[f64]]) -> KeyFilter {
        KeyFilter::Keys(
            keys.iter().map(|key| PartitionKey(key.iter().copied().map(number).collect())).collect(),
        )
    }

    #[test]
    fn intersections_fix_more_components_and_contradictions_leave_nothing() {
        let first = KeySet::of(2, 0, [number(1.0), number(2.0)]);
        let second = KeySet::of(2, 1, [number(3.0)]);
        assert_eq!(first.clone().into_filter(true), keys(&[&[1.0], &[2.0]]));
        assert_eq!(first.clone().into_filter(false), KeyFilter::All);
        assert_eq!(second.clone().into_filter(true), KeyFilter::All);
        assert_eq!(first.clone().intersect(second).into_filter(false), keys(&[&[1.0, 3.0], &[2.0, 3.0]]));
        let other = KeySet::of(2, 0, [number(4.0)]);
        assert_eq!(first.intersect(other).into_filter(true), KeyFilter::Nothing);
    }

    #[test]
    fn keys_come_once_and_prefixes_cover_what_they_begin() {
        let long = KeySet::of(2, 0, [number(1.0), number(1.0)]).intersect(KeySet::of(2, 1, [number(5.0)]));
        assert_eq!(long.clone().into_filter(true), keys(&[&[1.0, 5.0]]));
        let short = KeySet::of(2, 0, [number(1.0)]);
        assert_eq!(KeySet::union_of([long, short].into_iter()).into_filter(true), keys(&[&[1.0]]));
    }

    #[test]
    fn sets_that_would_be_too_large_grow_instead_of_losing_keys() {
        let many = |at| KeySet::of(2, at, (0..2_000).map(|value| number(f64::from(value))));
        let product = many(0).intersect(many(1));
        let KeyFilter::Keys(found) = product.into_filter(true) else { panic!("one side bounds it") };
        assert_eq!(found.len(), 2_000);
        let huge = KeySet::of(1, 0, (0..=BOXES_MAX).map(|value| number(value as f64)));
        assert_eq!(huge.into_filter(true), KeyFilter::All);
    }
}
