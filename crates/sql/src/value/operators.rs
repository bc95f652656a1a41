//! Unary and binary operators on values. Wrong types give undefined.

use crate::syntax::ast::{BinaryOperator, UnaryOperator};
use crate::value::arithmetic::{arithmetic, number, of_number};
use crate::value::datum::Datum;

pub(crate) fn unary<'a>(operator: UnaryOperator, operand: &Datum<'_>) -> Datum<'a> {
    match (operator, operand) {
        (UnaryOperator::Not, Datum::Bool(value)) => Datum::Bool(!value),
        (_, Datum::Number(number)) => of_number(operator, *number).map_or(Datum::Undefined, Datum::Number),
        _ => Datum::Undefined,
    }
}

pub(crate) fn binary<'a>(operator: BinaryOperator, left: &Datum<'_>, right: &Datum<'_>) -> Datum<'a> {
    match operator {
        BinaryOperator::Equal => left.equals(right).into(),
        BinaryOperator::NotEqual => left.equals(right).map(|equal| !equal).into(),
        BinaryOperator::Less => left.order(right).map(|order| order.is_lt()).into(),
        BinaryOperator::LessOrEqual => left.order(right).map(|order| order.is_le()).into(),
        BinaryOperator::Greater => left.order(right).map(|order| order.is_gt()).into(),
        BinaryOperator::GreaterOrEqual => left.order(right).map(|order| order.is_ge()).into(),
        _ => match (left, right) {
            (Datum::Number(left), Datum::Number(right)) => Datum::Number(arithmetic(operator, *left, *right)),
            _ => Datum::Undefined,
        },
    }
}

/// AND of two values.
pub(crate) fn both<'a>(left: &Datum<'_>, right: &Datum<'_>) -> Datum<'a> {
    match (left, right) {
        (Datum::Bool(false), _) | (_, Datum::Bool(false)) => Datum::Bool(false),
        (Datum::Bool(true), Datum::Bool(true)) => Datum::Bool(true),
        _ => Datum::Undefined,
    }
}

pub(crate) fn number_datum<'a>(value: f64) -> Datum<'a> {
    Datum::Number(number(value))
}
