//! The records of one kind. A copy shares everything; changing a copy leaves the original unchanged.

use std::collections::BTreeMap;
use std::ops::RangeBounds;
use std::sync::Arc;

/// One record before and after: at least one of both exists, and they differ.
#[derive(Debug, Clone)]
pub struct Changed<K, V> {
    pub key: K,
    pub old: Option<Arc<V>>,
    pub new: Option<Arc<V>>,
}

#[derive(Debug)]
pub struct Table<K, V>(Arc<BTreeMap<K, Arc<V>>>);

impl<K, V> Clone for Table<K, V> {
    fn clone(&self) -> Self {
        Table(self.0.clone())
    }
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Table(Arc::default())
    }
}

impl<K: Ord + Clone, V: PartialEq> Table<K, V> {
    pub fn get(&self, key: &K) -> Option<&Arc<V>> {
        self.0.get(key)
    }

    pub fn contains(&self, key: &K) -> bool {
        self.0.contains_key(key)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// In the order of the keys.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &Arc<V>)> {
        self.0.iter()
    }

    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Arc<V>> {
        self.0.values()
    }

    pub fn range(&self, keys: impl RangeBounds<K>) -> impl DoubleEndedIterator<Item = (&K, &Arc<V>)> {
        self.0.range(keys)
    }

    /// Adds or replaces.
    pub fn put(&mut self, key: K, value: V) -> Arc<V> {
        let value = Arc::new(value);
        Arc::make_mut(&mut self.0).insert(key, value.clone());
        value
    }

    /// Adds a record that must not be there yet; false where it is.
    pub fn add(&mut self, key: K, value: V) -> bool {
        Arc::make_mut(&mut self.0).insert(key, Arc::new(value)).is_none()
    }

    pub fn remove(&mut self, key: &K) -> Option<Arc<V>> {
        if !self.contains(key) {
            return None;
        }
        Arc::make_mut(&mut self.0).remove(key)
    }

    pub fn retain(&mut self, keeps: impl Fn(&K, &V) -> bool) {
        if self.0.iter().any(|(key, value)| !keeps(key, value)) {
            Arc::make_mut(&mut self.0).retain(|key, value| keeps(key, value));
        }
    }

    /// Whether no record was put or removed between the two copies. Cheap; false for equal tables of different origin.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Differences from an earlier copy, in the order of the keys. Records are compared by value,
    /// so that a record that was rewritten unchanged does not count.
    pub(crate) fn changes_since(&self, before: &Self) -> Vec<Changed<K, V>> {
        if self.is_same(before) {
            return Vec::new();
        }
        let differs = |a: &Arc<V>, b: &Arc<V>| !Arc::ptr_eq(a, b) && a != b;
        let mut changes = Vec::new();
        for (key, old) in before.iter() {
            let new = self.get(key);
            if new.is_none_or(|new| differs(old, new)) {
                changes.push(Changed { key: key.clone(), old: Some(old.clone()), new: new.cloned() });
            }
        }
        for (key, new) in self.iter().filter(|(key, _)| !before.contains(key)) {
            changes.push(Changed { key: key.clone(), old: None, new: Some(new.clone()) });
        }
        changes.sort_by(|a, b| a.key.cmp(&b.key));
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn applying_the_changes_to_the_earlier_copy_gives_the_later_one(
            before in prop::collection::btree_map(0u8..20, 0u8..4, 0..20),
            edits in prop::collection::vec((0u8..20, prop::option::of(0u8..4)), 0..20),
        ) {
            let mut earlier: Table<u8, u8> = Table::default();
            before.iter().for_each(|(key, value)| { earlier.put(*key, *value); });
            let mut later = earlier.clone();
            for (key, value) in edits {
                match value {
                    Some(value) => { later.put(key, value); }
                    None => { later.remove(&key); }
                }
            }
            let changes = later.changes_since(&earlier);
            prop_assert!(changes.iter().all(|change| change.old != change.new));
            for change in changes {
                prop_assert_eq!(change.old.as_ref(), earlier.get(&change.key));
                match change.new {
                    Some(new) => { earlier.put(change.key, *new); }
                    None => { earlier.remove(&change.key); }
                }
            }
            prop_assert_eq!(earlier.0, later.0);
        }
    }
}
