//! The order of a command's documents: by its sort, else by distance if its filter has a condition on distance.

use std::cmp::Ordering;

use shardlake_mql::{Filter, Matched, Near, SortKey, SortPattern, Value};

use crate::collections::Collection;
use crate::failure::{Failure, Result};

/// Bytes that a sort, or whatever needs all documents, may hold.
pub const MEMORY_BYTES_MAX: usize = 100 * 1024 * 1024;

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

/// The first of many in an order, within the bound of memory.
pub(crate) struct Sorter {
    order: Order,
    wanted: usize,
    kept: Vec<(SortKey, Value, Matched)>,
    bytes: usize,
}

impl Sorter {
    pub fn new(order: Order, wanted: usize) -> Sorter {
        Sorter { order, wanted, kept: Vec::new(), bytes: 0 }
    }

    pub fn push(&mut self, value: Value, matched: Matched) -> Result<()> {
        let key = self.order.key(&value)?;
        self.bytes += value.size() + self.order.key_bytes(&key);
        self.kept.push((key, value, matched));
        if self.kept.len() >= self.wanted.saturating_mul(2).max(1024) {
            self.cut();
        }
        if self.bytes > MEMORY_BYTES_MAX {
            let words = format!(
                "Sort exceeded memory limit of {MEMORY_BYTES_MAX} bytes: narrow the filter, or ask for fewer documents with limit"
            );
            return Err(Failure::new(292, words));
        }
        Ok(())
    }

    fn cut(&mut self) {
        let order = &self.order;
        if order.is_from_end() {
            self.kept.drain(..self.kept.len().saturating_sub(self.wanted));
        } else {
            self.kept.sort_by(|(left, ..), (right, ..)| order.compare(left, right));
            self.kept.truncate(self.wanted);
        }
        assert!(self.kept.len() <= self.wanted, "a sort keeps no more documents than are wanted");
        self.bytes = self.kept.iter().map(|(key, value, _)| value.size() + order.key_bytes(key)).sum();
    }

    pub fn finish(mut self) -> Vec<(Value, Matched)> {
        self.cut();
        if self.order.is_from_end() {
            self.kept.reverse();
        }
        self.kept.into_iter().map(|(_, value, matched)| (value, matched)).collect()
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
