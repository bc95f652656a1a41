//! Conditions over scalar values alone: the filter that most scans spend their time in.
//!
//! `evaluate` makes a `Datum` of every node, which may own its value, and counts its work node by node. A
//! condition of comparisons, arithmetic and logic over constants and top-level properties needs neither: it
//! finds all its properties in one walk over the item's bytes, or in prepared columns (`column.rs`). Steps and
//! results are the same as those of `evaluate`. A row in which a property is an array, an object or a value
//! that JSON lacks is left to `evaluate`. The binder makes plain filters (`bind/plain_filter.rs`).

use std::cmp::Ordering;
use std::sync::Arc;

use shardlake_document::{ItemView, MemberNames, Members, Value};

use crate::syntax::ast::{BinaryOperator, UnaryOperator};
use crate::value::arithmetic::{arithmetic, of_number};
use crate::value::column::ScalarColumn;
use crate::value::datum::walk_steps;
use crate::value::scalar::Scalar;

/// Whether a filter holds for an item, and the steps of the test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tested {
    pub(crate) holds: bool,
    pub(crate) steps: u64,
}

impl Tested {
    pub fn holds(self) -> bool {
        self.holds
    }
}

/// A plain condition over named members of an item.
#[derive(Debug)]
pub(crate) struct PlainFilter {
    names: Vec<Box<str>>,
    members: MemberNames,
    condition: Plain,
}

/// A condition over scalar values.
#[derive(Debug)]
pub(crate) enum Plain {
    /// Neither an array nor an object.
    Literal(Value),
    /// A member, by the place of its name.
    Member(usize),
    Unary(UnaryOperator, Box<Plain>),
    Binary(BinaryOperator, Box<[Plain; 2]>),
    And(Vec<Plain>),
    Or(Vec<Plain>),
}

impl PlainFilter {
    /// `None` where there are too many names.
    pub fn new(condition: Plain, names: Vec<&str>) -> Option<PlainFilter> {
        let members = MemberNames::new(names.iter().copied())?;
        Some(PlainFilter { names: names.into_iter().map(Box::from).collect(), members, condition })
    }

    /// The properties in the condition.
    pub fn names(&self) -> &[Box<str>] {
        &self.names
    }

    /// Whether it holds for an item, and the steps of the test; `None` if the item has an array or an object
    /// there.
    pub fn holds(&self, item: &ItemView<'_>) -> Option<Tested> {
        let mut members = Members::new(&self.members, item.body);
        self.holds_with(item.body.as_bytes().len(), |place| {
            members.get(place).map_or(Some(Scalar::Undefined), Scalar::of_raw)
        })
    }

    /// Like `holds`, for the values of [`PlainFilter::names`] from columns and the size of the item's body.
    pub fn holds_in(
        &self,
        columns: &[Arc<ScalarColumn>],
        place_of_item: usize,
        body_bytes: usize,
    ) -> Option<Tested> {
        debug_assert_eq!(columns.len(), self.names.len(), "each name has its column");
        self.holds_with(body_bytes, |place| columns[place].value(place_of_item))
    }

    fn holds_with<'s>(
        &'s self,
        body_bytes: usize,
        values: impl FnMut(usize) -> Option<Scalar<'s>>,
    ) -> Option<Tested> {
        let mut evaluation = Evaluation { values, walk_steps: walk_steps(body_bytes), steps: 0 };
        let value = evaluation.value(&self.condition)?;
        Some(Tested { holds: matches!(value, Scalar::Bool(true)), steps: evaluation.steps })
    }
}

struct Evaluation<V> {
    /// Values by the places of their names; `None` for an array or an object.
    values: V,
    walk_steps: u64,
    steps: u64,
}

impl<'s, V: FnMut(usize) -> Option<Scalar<'s>>> Evaluation<V> {
    fn value(&mut self, expression: &'s Plain) -> Option<Scalar<'s>> {
        self.steps += 1;
        match expression {
            Plain::Literal(value) => Scalar::of_literal(value),
            Plain::Member(place) => {
                // Steps of the variable, and the walk.
                self.steps += 1 + self.walk_steps;
                (self.values)(*place)
            }
            Plain::Unary(operator, operand) => {
                let operand = self.value(operand)?;
                Some(unary(*operator, operand))
            }
            Plain::Binary(operator, operands) => {
                let [left, right] = &**operands;
                let (left, right) = (self.value(left)?, self.value(right)?);
                self.steps += left.comparison_steps(right);
                Some(binary(*operator, left, right))
            }
            Plain::And(parts) => self.logical(parts, false),
            Plain::Or(parts) => self.logical(parts, true),
        }
    }

    fn logical(&mut self, parts: &'s [Plain], dominant: bool) -> Option<Scalar<'s>> {
        let mut result = Scalar::Bool(!dominant);
        for part in parts {
            match self.value(part)? {
                Scalar::Bool(value) if value == dominant => return Some(Scalar::Bool(dominant)),
                Scalar::Bool(_) => {}
                _ => result = Scalar::Undefined,
            }
        }
        Some(result)
    }
}

#[inline]
fn unary<'a>(operator: UnaryOperator, operand: Scalar<'_>) -> Scalar<'a> {
    match (operator, operand) {
        (UnaryOperator::Not, Scalar::Bool(value)) => Scalar::Bool(!value),
        (_, Scalar::Number(number)) => of_number(operator, number).map_or(Scalar::Undefined, Scalar::Number),
        _ => Scalar::Undefined,
    }
}

/// Inlined into the evaluation of each row in every unit of code generation.
#[inline]
fn binary<'a>(operator: BinaryOperator, left: Scalar<'_>, right: Scalar<'_>) -> Scalar<'a> {
    match operator {
        BinaryOperator::Equal => left.equals(right).into(),
        BinaryOperator::NotEqual => left.equals(right).map(|equal| !equal).into(),
        BinaryOperator::Less => left.order(right).map(Ordering::is_lt).into(),
        BinaryOperator::LessOrEqual => left.order(right).map(Ordering::is_le).into(),
        BinaryOperator::Greater => left.order(right).map(Ordering::is_gt).into(),
        BinaryOperator::GreaterOrEqual => left.order(right).map(Ordering::is_ge).into(),
        _ => match (left, right) {
            (Scalar::Number(left), Scalar::Number(right)) => {
                Scalar::Number(arithmetic(operator, left, right))
            }
            _ => Scalar::Undefined,
        },
    }
}
