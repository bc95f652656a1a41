//! A bound expression: names are slots, functions are known, parameters are values.
//!
//! Operators that chain and are associative hold lists, so that long conditions stay shallow; the parser bounds the depth
//! of everything else, and code over trees may recurse.

use std::fmt;
use std::sync::Arc;

use shardlake_document::Value;

use crate::bound::{BoundQuery, Slot};
use crate::evaluate::constant_set::ConstantSet;
use crate::evaluate::like::Pattern;
use crate::functions::{Function, PreparedCall};
use crate::syntax::ast::SubqueryKind;

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
    /// The value of a grouped query's aggregate, by its place in [`crate::bound::Grouping::aggregates`].
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnaryOperator {
    Not,
    Minus,
    Plus,
    BitNot,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BinaryOperator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
    ShiftRightZeroFill,
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
