//! Access planning: the index entries that cover a query's condition, and the index that gives its order.
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | the plan; planning as a whole |
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
mod ranges;
mod scope;
mod text;
mod utilization;

use shardlake_document::Value;
use shardlake_model::{IndexPathSegment, PathMatcher};

use crate::bound::Slot;
use crate::error::SqlError;
use crate::evaluate::meter::Meter;
use crate::evaluate::scope::{EvaluationContext, Scope};
use crate::evaluate::{Datum, holds};
use crate::execute::Interrupt;
use crate::expression::Expression;
use crate::functions::FunctionContext;
use crate::prepared::PreparedQuery;

pub use advice::{Advice, query_advice};
pub use scope::KeyValue;
pub use utilization::{CompositeIndexUse, IndexUses, IndexUtilization, SingleIndexUse, index_utilization};

/// The available indexes and the policy.
#[derive(Debug, Clone, Copy)]
pub struct IndexSchema<'a> {
    /// Paths that the serving index holds; `None` without an index.
    pub paths: Option<&'a PathMatcher>,
    /// Composite indexes that the serving index holds.
    pub composites: &'a [CompositeSchema],
    /// Paths with an entry in the serving index even for items that lack them.
    pub explicit: &'a [Vec<String>],
    /// Computed properties that the serving index holds.
    pub computed: &'a [String],
    /// Paths that the container's policy indexes, even if the index is still being built: `ORDER BY` is
    /// allowed on them.
    pub policy_paths: &'a PathMatcher,
    pub policy_composites: &'a [CompositeSchema],
}

/// A composite index: its paths in order, with true where descending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompositeSchema {
    pub members: Vec<(Vec<String>, bool)>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct AccessPlan {
    /// Conditions that every item of the scope meets, from the partition key's values in the request.
    pub scope: Vec<Leaf>,
    /// The conditions of `WHERE` beyond `scope`.
    pub filter: IndexFilter,
    /// `filter` is exactly equivalent to `WHERE`.
    pub precise: bool,
    /// The source of the order of `ORDER BY`.
    pub order: Option<OrderAccess>,
    /// Except for `scope`, the plan is the same for all partition keys with values of these types.
    pub fits_other_keys: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum IndexFilter {
    /// The index does not restrict the items.
    Everything,
    Nothing,
    Leaf(Leaf),
    And(Vec<IndexFilter>),
    Or(Vec<IndexFilter>),
}

/// Entries of one path.
#[derive(Debug, Clone, PartialEq)]
pub struct Leaf {
    pub index: IndexRef,
    /// Disjoint and ascending.
    pub ranges: Vec<ValueRange>,
    /// A further test of values in the ranges.
    pub test: Option<ValueTest>,
    /// Ranges and test are exactly the values for which the condition is true, if the index holds the whole
    /// value.
    pub precise: bool,
    pub class: LookupClass,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum IndexRef {
    Path(Vec<IndexPathSegment>),
    /// By its place in [`IndexSchema::composites`].
    Composite(usize),
}

/// Index values from `start` to before `end`, as bytes. Neither bound need be the encoding of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueRange {
    pub start: Vec<u8>,
    pub end: Vec<u8>,
}

/// The cost class of a lookup, cheapest first (engine.md §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LookupClass {
    /// Single values.
    Seek,
    /// Ranges of values.
    PreciseScan,
    /// Ranges of values with a test that most of them fail.
    ExpandedScan,
    /// All values of a path.
    IndexScan,
}

/// A condition on one value, which is variable 0 of the expression.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueTest {
    expression: Expression,
}

impl ValueTest {
    /// Fails only when the time is used up. The work is counted by `meter`.
    pub fn matches(&self, value: &Value, meter: &Meter, interrupt: Interrupt<'_>) -> Result<bool, SqlError> {
        let functions = FunctionContext::default();
        let context = EvaluationContext::new(&functions, interrupt, meter);
        meter.begin_item();
        let scope = Scope::new(&context);
        let scope = scope.with(VALUE, Datum::from_tree(value));
        match holds(&self.expression, &scope) {
            Err(error @ (SqlError::Interrupted | SqlError::ItemTooDear { .. })) => Err(error),
            // Tests that fail to evaluate are left to the check of the item.
            outcome => Ok(outcome.unwrap_or(true)),
        }
    }
}

/// The slot of the tested value.
const VALUE: Slot = 0;

/// `ORDER BY` as a walk over an index.
#[derive(Debug, Clone, PartialEq)]
pub struct OrderAccess {
    pub index: IndexRef,
    /// From the greatest entry to the least.
    pub reverse: bool,
    /// Common prefix of the entries: the values of the composite members that the filter fixes, before the
    /// ordered ones.
    pub behind: Vec<u8>,
    /// The number of these members.
    pub members_behind: usize,
    /// The part of the index that the condition allows.
    pub range: Option<ValueRange>,
    /// Items without the path belong to the result, and have no entry.
    pub includes_undefined: bool,
    /// The range is the whole condition.
    pub exact: bool,
}

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
