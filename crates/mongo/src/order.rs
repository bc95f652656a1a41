//! The order of a command's documents: by its sort, else by distance if its filter has a condition on distance.

use std::cmp::Ordering;

use shardlake_mql::{Filter, Near, SortKey, SortPattern, Value};

use crate::collections::Collection;
use crate::failure::Result;

#[derive(Debug, Clone)]
pub(crate) struct Order {
    pattern: SortPattern,
    near: Option<Near>,
}

impl Order {
    /// `None` where any order will do.
    pub fn of(sort: &SortPattern, filter: &Filter) -> Option<Order> {
        match filter.near() {
            _ if !sort.is_empty() => Some(Order { pattern: sort.clone(), near: None }),
            Some(near) => Some(Order { pattern: SortPattern::one_ascending(), near: Some(near.clone()) }),
            None => None,
        }
    }

    /// Whether the order is that of storage, from its end.
    pub fn is_from_end(&self) -> bool {
        self.pattern.is_from_end()
    }

    pub fn key(&self, document: &Value) -> Result<SortKey> {
        match (&self.near, document) {
            (Some(near), Value::Document(document)) => Ok(near.sort_key(document)),
            _ => Ok(self.pattern.key(document)?),
        }
    }

    /// Memory of a key in addition to its document.
    pub fn key_bytes(&self, key: &SortKey) -> usize {
        if self.near.is_some() { 0 } else { self.pattern.key_bytes(key) }
    }

    pub fn compare(&self, left: &SortKey, right: &SortKey) -> Ordering {
        self.pattern.compare_keys(left, right)
    }
}

impl Collection {
    /// Error 291 where the filter has a condition on distances, and no index of the collection is for it.
    pub fn check_near(&self, filter: &Filter) -> Result<()> {
        match filter.near() {
            Some(near) => Ok(near.check_served(&self.indexes())?),
            None => Ok(()),
        }
    }
}
