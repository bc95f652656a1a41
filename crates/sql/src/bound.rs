//! A bound query: names are slots, functions are resolved, parameters and constants are values, and every
//! rule that needs no data has been checked. Evaluation, execution and access planning read it.
//!
//! Slots number the variables of the whole query, subqueries and `LET` included, without duplicates. A
//! container's item is slot 0 wherever the query has a `FROM` that names it.
//!
//! In expressions, operators that chain and are associative hold lists, so that long conditions stay shallow;
//! the parser bounds the depth of everything else, and code over trees may recurse.

use std::fmt;
use std::sync::Arc;

use shardlake_document::Value;

use crate::functions::{Function, PreparedCall};
use crate::syntax::ast::{BinaryOperator, SubqueryKind, UnaryOperator};
use crate::value::aggregate::AggregateFunction;
use crate::value::constant_set::ConstantSet;
use crate::value::like::Pattern;
use crate::value::plain_filter::PlainFilter;

pub(crate) type Slot = usize;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BoundQuery {
    /// Nested loops, outermost first. Empty without `FROM`: then there is one row.
    pub sources: Vec<BoundSource>,
    /// `WHERE`; constants are folded. `None` keeps every row.
    pub filter: Option<Expression>,
    /// The final `filter` as a plain filter, if it is over scalars alone (`value/plain_filter.rs`).
    pub plain_filter: Prepared<PlainFilter>,
    /// Parts of `filter` that can be tested before all sources are entered; `filter` still has them.
    pub early: Vec<EarlyTest>,
    /// With grouping or aggregates, `projection` and `order_by` see only [`Expression::GroupKey`] and
    /// [`Expression::Aggregate`] instead of rows.
    pub grouping: Option<Grouping>,
    pub order_by: Vec<SortKey>,
    /// Why no partition can order the rows as requested, although the query has a plan.
    pub order_refusal: Option<OrderRefusal>,
    pub projection: Projection,
    pub distinct: bool,
    /// `TOP n` is `limit` n. Offset comes before limit.
    pub offset: u64,
    pub limit: Option<u64>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EarlyTest {
    /// The number of sources entered before the test.
    pub after: usize,
    pub condition: Expression,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum BoundSource {
    /// The container's item itself: always slot 0, always first.
    Item,
    /// One row with the value, none when it is undefined: `FROM c.a.b`, `JOIN x.y`.
    Value { slot: Slot, of: Expression },
    /// A row for each element; none when the value is not an array: `t IN c.tags`.
    Elements { slot: Slot, of: Expression },
    /// A row for each row of the subquery: `(SELECT …)`; with `iterates`, a row for each element of each of them.
    Subquery { slot: Slot, query: Box<BoundQuery>, iterates: bool },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Grouping {
    /// Empty when there are only aggregates: there is then exactly one group, even without rows.
    pub keys: Vec<Expression>,
    pub aggregates: Vec<Aggregate>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Aggregate {
    pub function: AggregateFunction,
    pub argument: Expression,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OrderRefusal {
    /// `ORDER BY` names a variable that has several values for an item.
    Correlated,
    /// `ORDER BY` names the item as a whole.
    WholeItem,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SortKey {
    pub expression: Expression,
    pub descending: bool,
    /// The computed property of the key, by its place in the container's list.
    pub computed: Option<usize>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Projection {
    /// `SELECT *`: the value of the only source's slot.
    All(Slot),
    /// Bodies of items as stored in their records. Only built queries have it (`builder.rs`).
    Bodies(Slot),
    /// `SELECT VALUE`: no row where it is undefined.
    Value(Expression),
    /// An object without its undefined members; a row even when it is empty.
    Object(Vec<(String, Expression)>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expression {
    Literal(Value),
    Property {
        of: Box<Expression>,
        name: String,
    },
    /// `of[key]` with any expression as key.
    Index {
        of: Box<Expression>,
        key: Box<Expression>,
    },
    Unary {
        operator: UnaryOperator,
        operand: Box<Expression>,
    },
    Binary {
        operator: BinaryOperator,
        left: Box<Expression>,
        right: Box<Expression>,
    },
    And(Vec<Expression>),
    Or(Vec<Expression>),
    Coalesce(Vec<Expression>),
    Concatenate(Vec<Expression>),
    Conditional {
        condition: Box<Expression>,
        then: Box<Expression>,
        otherwise: Box<Expression>,
    },
    In {
        value: Box<Expression>,
        list: Vec<Expression>,
        /// The set of a list of constants.
        prepared: Prepared<ConstantSet>,
    },
    Between {
        value: Box<Expression>,
        low: Box<Expression>,
        high: Box<Expression>,
    },
    Like {
        value: Box<Expression>,
        pattern: Box<Expression>,
        escape: Option<char>,
        /// The pattern, if it is constant.
        prepared: Prepared<Pattern>,
    },
    Call {
        function: Function,
        arguments: Vec<Expression>,
        prepared: Prepared<PreparedCall>,
    },
    /// `udf.name(…)`, a function of the container's own. It may fail, so it is called only where its value is needed.
    UserDefined {
        name: Arc<str>,
        arguments: Vec<Expression>,
    },
    /// `CHOOSE`: the choice with this number, counted from 1; only that one is evaluated.
    Choose {
        number: Box<Expression>,
        choices: Vec<Expression>,
    },
    /// `DOCUMENTID`: the number of an item within its partition.
    DocumentId(Box<Expression>),
    Array(Vec<Expression>),
    Object(Vec<(String, Expression)>),
    /// The current value of a variable of the query.
    Variable(Slot),
    /// The value of a grouped query's key, by its place in `GROUP BY`.
    GroupKey(usize),
    /// The value of a grouped query's aggregate, by its place in [`Grouping::aggregates`].
    Aggregate(usize),
    /// A correlated subquery in an expression.
    Subquery {
        kind: SubqueryKind,
        query: Box<BoundQuery>,
    },
    /// `body` with the slot set to `value`.
    Let {
        slot: Slot,
        value: Box<Expression>,
        body: Box<Expression>,
    },
}

/// Work that binding has done once for all rows. It follows from the tree next to it, so it is excluded from
/// equality and debug output.
pub(crate) struct Prepared<T>(pub Option<Arc<T>>);

impl<T> fmt::Debug for Prepared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Prepared")
    }
}

impl<T> Prepared<T> {
    pub const NONE: Self = Prepared(None);
}

impl<T> Clone for Prepared<T> {
    fn clone(&self) -> Self {
        Prepared(self.0.clone())
    }
}

impl<T> PartialEq for Prepared<T> {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl BoundSource {
    /// The variable that gets its value from the source.
    pub fn slot(&self) -> Slot {
        match self {
            BoundSource::Item => 0,
            BoundSource::Value { slot, .. }
            | BoundSource::Elements { slot, .. }
            | BoundSource::Subquery { slot, .. } => *slot,
        }
    }
}

impl BoundQuery {
    /// The filter, if the item is the only source and the filter can be evaluated without the loops over the
    /// sources.
    pub fn test_of_item(&self) -> Option<&PlainFilter> {
        let Prepared(Some(plain)) = &self.plain_filter else { return None };
        let has_item_alone = matches!(self.sources[..], [BoundSource::Item]) && self.early.is_empty();
        has_item_alone.then_some(&**plain)
    }

    /// The filter's conditions, all of which must hold.
    pub fn conditions(&self) -> &[Expression] {
        match &self.filter {
            Some(Expression::And(parts)) => parts,
            Some(single) => std::slice::from_ref(single),
            None => &[],
        }
    }

    /// How many sources must be entered before all variables of a condition have values. `None` if a subquery
    /// or a user-defined function could fail, which it must not do for a row that may never exist.
    pub fn sources_needed(&self, condition: &Expression) -> Option<usize> {
        match condition {
            Expression::Subquery { .. } | Expression::UserDefined { .. } => None,
            Expression::Variable(slot) => {
                let place = self.sources.iter().position(|source| source.slot() == *slot);
                Some(place.map_or(0, |place| place + 1))
            }
            other => other
                .children()
                .into_iter()
                .try_fold(0, |needed, child| Some(needed.max(self.sources_needed(child)?))),
        }
    }

    /// Whether a condition certainly holds for all rows of an item or for none.
    pub fn is_of_item(&self, condition: &Expression) -> bool {
        self.sources_needed(condition).is_some_and(|needed| needed <= 1)
    }

    /// The subquery in `FROM` that groups the container's items or removes duplicates, with its slot and
    /// whether the source iterates. Its rows are known only when all items have been read.
    pub fn whole_result(&self) -> Option<(&BoundQuery, Slot, bool)> {
        let Some(BoundSource::Subquery { slot, query, iterates }) = self.sources.first() else { return None };
        let is_over_items = query.sources.first() == Some(&BoundSource::Item) || query.reads_a_whole_result();
        is_over_items.then_some((&**query, *slot, *iterates))
    }

    pub fn reads_a_whole_result(&self) -> bool {
        self.whole_result().is_some()
    }

    /// Innermost query, which reads the container's items.
    pub fn innermost(&self) -> &BoundQuery {
        self.whole_result().map_or(self, |(inner, ..)| inner.innermost())
    }

    /// False for queries that never name the container: they have the same row everywhere.
    pub fn reads_items(&self) -> bool {
        match self.sources.first() {
            Some(BoundSource::Subquery { query, .. }) => query.reads_items(),
            Some(_) => true,
            None => false,
        }
    }

    /// Whether a row needs inner loops: joins and subqueries, at any depth.
    pub fn has_loops(&self) -> bool {
        fn is_loop(expression: &Expression) -> bool {
            matches!(expression, Expression::Subquery { .. })
                || expression.children().into_iter().any(is_loop)
        }
        let is_subquery = |source: &BoundSource| matches!(source, BoundSource::Subquery { .. });
        self.sources.len() > 1 || self.sources.iter().any(is_subquery) || self.any_expression(&is_loop)
    }

    /// Whether `test` holds for one of its expressions, those of the queries in `FROM` included.
    pub fn any_expression(&self, test: &dyn Fn(&Expression) -> bool) -> bool {
        let in_source = |source: &BoundSource| match source {
            BoundSource::Item => false,
            BoundSource::Value { of, .. } | BoundSource::Elements { of, .. } => test(of),
            BoundSource::Subquery { query, .. } => query.any_expression(test),
        };
        let in_grouping = |grouping: &Grouping| {
            grouping.keys.iter().any(test)
                || grouping.aggregates.iter().any(|aggregate| test(&aggregate.argument))
        };
        self.sources.iter().any(in_source)
            || self.filter.iter().any(test)
            || self.grouping.iter().any(in_grouping)
            || self.order_by.iter().any(|key| test(&key.expression))
            || match &self.projection {
                Projection::All(_) | Projection::Bodies(_) => false,
                Projection::Value(value) => test(value),
                Projection::Object(members) => members.iter().any(|(_, value)| test(value)),
            }
    }

    /// Calls `visit` for each expression, those of the queries in `FROM` included.
    pub fn for_each_expression<E>(
        &mut self,
        visit: &mut dyn FnMut(&mut Expression) -> Result<(), E>,
    ) -> Result<(), E> {
        for source in &mut self.sources {
            match source {
                BoundSource::Item => {}
                BoundSource::Value { of, .. } | BoundSource::Elements { of, .. } => visit(of)?,
                BoundSource::Subquery { query, .. } => query.for_each_expression(visit)?,
            }
        }
        self.filter.iter_mut().try_for_each(&mut *visit)?;
        if let Some(grouping) = &mut self.grouping {
            grouping.keys.iter_mut().try_for_each(&mut *visit)?;
            grouping.aggregates.iter_mut().try_for_each(|aggregate| visit(&mut aggregate.argument))?;
        }
        self.order_by.iter_mut().try_for_each(|key| visit(&mut key.expression))?;
        match &mut self.projection {
            Projection::All(_) | Projection::Bodies(_) => Ok(()),
            Projection::Value(value) => visit(value),
            Projection::Object(members) => members.iter_mut().try_for_each(|(_, value)| visit(value)),
        }
    }
}

impl Expression {
    /// The direct parts; subqueries are not split.
    pub fn children(&self) -> Vec<&Expression> {
        match self {
            Expression::Literal(_)
            | Expression::Variable(_)
            | Expression::GroupKey(_)
            | Expression::Aggregate(_)
            | Expression::Subquery { .. } => Vec::new(),
            Expression::Let { value: a, body: b, .. }
            | Expression::Index { of: a, key: b }
            | Expression::Binary { left: a, right: b, .. }
            | Expression::Like { value: a, pattern: b, .. } => vec![a, b],
            Expression::Property { of: a, .. }
            | Expression::Unary { operand: a, .. }
            | Expression::DocumentId(a) => {
                vec![a]
            }
            Expression::Conditional { condition: a, then: b, otherwise: c }
            | Expression::Between { value: a, low: b, high: c } => vec![a, b, c],
            Expression::In { value: first, list: rest, .. }
            | Expression::Choose { number: first, choices: rest } => {
                std::iter::once(&**first).chain(rest).collect()
            }
            Expression::And(parts)
            | Expression::Or(parts)
            | Expression::Coalesce(parts)
            | Expression::Concatenate(parts)
            | Expression::Array(parts)
            | Expression::UserDefined { arguments: parts, .. }
            | Expression::Call { arguments: parts, .. } => parts.iter().collect(),
            Expression::Object(members) => members.iter().map(|(_, value)| value).collect(),
        }
    }

    /// Calls `visit` for each direct part.
    pub fn for_each_child<E>(
        &mut self,
        mut visit: impl FnMut(&mut Expression) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Expression::Literal(_)
            | Expression::Variable(_)
            | Expression::GroupKey(_)
            | Expression::Aggregate(_)
            | Expression::Subquery { .. } => Ok(()),
            Expression::Let { value, body, .. } => visit(value).and_then(|()| visit(body)),
            Expression::Property { of, .. } => visit(of),
            Expression::Unary { operand, .. } | Expression::DocumentId(operand) => visit(operand),
            Expression::Choose { number, choices } => {
                visit(number).and_then(|()| choices.iter_mut().try_for_each(visit))
            }
            Expression::Index { of, key } => visit(of).and_then(|()| visit(key)),
            Expression::Binary { left, right, .. } => visit(left).and_then(|()| visit(right)),
            Expression::Like { value, pattern, .. } => visit(value).and_then(|()| visit(pattern)),
            Expression::Conditional { condition: a, then: b, otherwise: c }
            | Expression::Between { value: a, low: b, high: c } => {
                visit(a).and_then(|()| visit(b)).and_then(|()| visit(c))
            }
            Expression::In { value, list, .. } => {
                visit(value).and_then(|()| list.iter_mut().try_for_each(visit))
            }
            Expression::And(parts)
            | Expression::Or(parts)
            | Expression::Coalesce(parts)
            | Expression::Concatenate(parts)
            | Expression::Array(parts)
            | Expression::UserDefined { arguments: parts, .. }
            | Expression::Call { arguments: parts, .. } => parts.iter_mut().try_for_each(visit),
            Expression::Object(members) => members.iter_mut().try_for_each(|(_, value)| visit(value)),
        }
    }
}
