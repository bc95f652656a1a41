//! How often each index of a collection was used, since the server began to count.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use shardlake_mql::Document;
use shardlake_stdx::Timestamp;

use crate::plan::{Access, Plan, access_of};

const IDENTITY: &str = "_id_";

/// Counts by the name of an index; lives as long as its container is known.
#[derive(Debug)]
pub struct IndexUses {
    pub since: Timestamp,
    /// Uses of `_id_`, which most commands use.
    identities: AtomicU64,
    counts: Mutex<HashMap<String, u64>>,
}

impl IndexUses {
    pub(crate) fn from(since: Timestamp) -> IndexUses {
        IndexUses { since, identities: AtomicU64::new(0), counts: Mutex::default() }
    }

    pub fn of(&self, index: &str) -> u64 {
        if index == IDENTITY {
            return self.identities.load(Ordering::Relaxed);
        }
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).get(index).copied().unwrap_or_default()
    }

    /// Counts a use of the index that `explain` reports for a plan.
    pub(crate) fn note_plan(&self, plan: &Plan, indexes: &[Document]) {
        if plan.key.is_some() && plan.id.is_some() {
            self.note_identity();
        } else if plan.query.filter.is_some()
            && let Access::Index(name) = access_of(plan, indexes.iter())
        {
            self.note(&name);
        }
    }

    /// Counts a document that is read or written by its key.
    pub(crate) fn note_identity(&self) {
        self.identities.fetch_add(1, Ordering::Relaxed);
    }

    fn note(&self, index: &str) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        match counts.get_mut(index) {
            Some(count) => *count += 1,
            None => drop(counts.insert(index.to_owned(), 1)),
        }
    }
}
