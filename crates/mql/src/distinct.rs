//! The distinct values of a field, gathered value by value.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use shardlake_collation::Collation;

use crate::error::{Result, fail};
use crate::order::Key;
use crate::value::Value;

/// Bytes that all values have at most: they are one document.
const BYTES_MAX: usize = 16 * 1024 * 1024;

/// Different values, each as it came first, in the order of values.
#[derive(Debug)]
pub struct DistinctValues {
    collation: Collation,
    values: BTreeMap<Key, Value>,
    bytes: usize,
}

impl DistinctValues {
    pub fn new(collation: Collation) -> DistinctValues {
        DistinctValues { collation, values: BTreeMap::new(), bytes: 0 }
    }

    /// Adds a value, unless an equal one is there.
    pub fn add(&mut self, value: Value) -> Result<()> {
        let key = Key::by(&self.collation, &value)?;
        let Entry::Vacant(place) = self.values.entry(key) else { return Ok(()) };
        self.bytes += value.size();
        if self.bytes > BYTES_MAX {
            fail!(17217, "distinct too big, 16mb cap");
        }
        place.insert(value);
        Ok(())
    }

    pub fn into_values(self) -> Vec<Value> {
        self.values.into_values().collect()
    }
}
