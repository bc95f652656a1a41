//! Preview of an indexing policy: entries and charges of items under the policy in force and under
//! another one.
//!
//! Both are counted as for the charge of a write. A replace changes only the time of the last
//! change here: any further charge depends on the client's changes.

use shardlake_charge::ChargeTable;
use shardlake_index::{SYSTEM_TERMS, TermSet};
use shardlake_model::PathMatcher;

use crate::item::StoredItem;

/// Means over the items; charges in hundredths of a request unit.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PolicyFigures {
    pub terms: f64,
    pub create_centi: f64,
    pub replace_centi: f64,
}

/// Figures of items under a policy; zeros where there are none.
pub fn policy_figures(items: &[StoredItem], paths: &PathMatcher, charges: &ChargeTable) -> PolicyFigures {
    let of_system = if paths.indexes_anything() { SYSTEM_TERMS } else { 0 };
    // `_ts` changes with every write.
    let always = u64::from(paths.indexes_anything());
    let mut sum = PolicyFigures::default();
    for item in items {
        let terms = TermSet::of(item.body(), paths).charged() + of_system;
        let size = item.json_size_bytes();
        sum.terms += terms as f64;
        sum.create_centi += charges.create(size, terms).0 as f64;
        sum.replace_centi += charges.replace(size, size, always, always).0 as f64;
    }
    let count = items.len().max(1) as f64;
    PolicyFigures {
        terms: sum.terms / count,
        create_centi: sum.create_centi / count,
        replace_centi: sum.replace_centi / count,
    }
}
