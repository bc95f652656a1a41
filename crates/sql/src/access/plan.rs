//! The indexes that there are, and the plan of an access with its parts.

use shardlake_document::Value;
use shardlake_model::{IndexPathSegment, PathMatcher};

use crate::bound::{Expression, Slot};
use crate::error::SqlError;
use crate::evaluate::holds;
use crate::evaluate::scope::Scope;
use crate::value::context::{EvaluationContext, FunctionContext};
use crate::value::datum::Datum;
use crate::value::meter::{Interrupt, Meter};

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
    pub(super) expression: Expression,
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
pub(super) const VALUE: Slot = 0;

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
