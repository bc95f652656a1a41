//! Access planning: the index entries that cover a query's condition, and the index that gives its order.
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | planning as a whole |
//! | `plan.rs` | the indexes that there are; the plan and its parts |
//! | `path.rs` | expressions that name a path of the item |
//! | `ranges.rs` | sets of values as ranges of index values |
//! | `filter.rs` | `WHERE` as a tree of leaves |
//! | `combine.rs` | AND and OR |
//! | `calls.rs` | calls as conditions |
//! | `order.rs` | `ORDER BY` from an index, and the rules that it must keep |
//! | `composite.rs` | composite indexes for conditions on several paths |
//! | `scope.rs` | conditions from the scope of a request |
//! | `explain.rs` | a plan in words |
//! | `utilization.rs`, `text.rs` | which indexes a query uses, and which would help it |
//! | `advice.rs` | suggestions for better query text |
//!
//! Planning is pure: it sees the query and the indexing policy, no data. A plan may name too many items,
//! never too few: conditions that it does not prove are checked on the item. A leaf names the *stored* values
//! for which its condition is exactly `true`, so three-valued logic is settled here: an item without the path
//! has no entry, and hardly any condition is true of it.

mod advice;
mod calls;
mod combine;
mod composite;
mod explain;
mod filter;
mod order;
mod path;
mod plan;
mod ranges;
mod scope;
mod text;
mod utilization;

use crate::error::SqlError;
use crate::prepared::PreparedQuery;

pub use advice::{Advice, query_advice};
pub use plan::{
    AccessPlan, CompositeSchema, IndexFilter, IndexRef, IndexSchema, Leaf, LookupClass, OrderAccess,
    ValueRange, ValueTest,
};
pub use scope::KeyValue;
pub use utilization::{CompositeIndexUse, IndexUses, IndexUtilization, SingleIndexUse, index_utilization};

/// Plans a query over items with the values of the partition key in `scope`. Errors are broken rules of
/// `ORDER BY`.
pub fn plan_access(
    query: &PreparedQuery,
    schema: &IndexSchema<'_>,
    scope: &[KeyValue],
) -> Result<AccessPlan, SqlError> {
    if let Some(inner) = query.innermost() {
        return plan_access(&inner, schema, scope);
    }
    order::check(query, schema)?;
    let bound = query.bound();
    if schema.paths.is_none() {
        let precise = bound.filter.is_none();
        let filter = IndexFilter::Everything;
        return Ok(AccessPlan { scope: vec![], filter, precise, order: None, fits_other_keys: true });
    }
    let planner = filter::Planner::new(query, schema);
    let (filter, precise) = match &bound.filter {
        Some(filter) => combine::bounded(planner.plan(filter, true)),
        None => (IndexFilter::Everything, true),
    };
    let scope = scope::leaves(&planner, query, scope);
    let is_apart = schema.composites.is_empty() && scope::is_apart(&filter, &scope);
    let whole = scope::with_scope(filter, &scope);
    let order = order::access(query, schema, &whole, &scope);
    let fits_other_keys = is_apart && order.as_ref().is_none_or(|order| !scope::names(&scope, &order.index));
    let whole = composite::with_composites(whole, schema);
    let filter = scope::beyond(whole, &scope);
    // A row may still be missing where a source has no value: joins and paths in FROM drop it, which is not a
    // condition.
    Ok(AccessPlan { scope, filter, precise, order, fits_other_keys })
}
