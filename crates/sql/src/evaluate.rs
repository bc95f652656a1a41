//! Evaluates an expression over one row.
//!
//! What is missing or has the wrong type is `undefined`, not an error; only an unknown parameter is an error. Logic has three
//! values: an operand that is not a boolean counts as undefined. Parts that do not matter are not evaluated.

use std::borrow::Cow;

use shardlake_document::{Number, Value};

use crate::datum::Datum;
use crate::error::SqlError;
use crate::expression::{BinaryOperator, Expression, UnaryOperator};
use crate::functions::Function;
use crate::{like, operators};

/// What names stand for.
pub(crate) struct Scope<'a> {
    pub row: &'a Datum<'a>,
    pub parameters: &'a [(String, Value)],
}

type Evaluated<'a> = Result<Datum<'a>, SqlError>;

/// Only dispatches: every level of an expression takes one frame of this function, so what needs room on the stack lies in
/// the functions it calls.
pub(crate) fn evaluate<'a>(expression: &'a Expression, scope: &Scope<'a>) -> Evaluated<'a> {
    match expression {
        Expression::Literal(literal) => Ok(Datum::from_tree(literal)),
        Expression::Parameter(name) => parameter(name, scope),
        Expression::Identifier { .. } => unreachable!("identifiers are resolved after parsing"),
        Expression::Row => Ok(scope.row.clone()),
        Expression::Property { of, name } => property(of, name, scope),
        Expression::Index { of, key } => Ok(index(evaluate(of, scope)?, &evaluate(key, scope)?)),
        Expression::Unary { operator, operand } => unary(*operator, operand, scope),
        Expression::Binary { operator, left, right } => binary(*operator, left, right, scope),
        Expression::And(parts) => logical(parts, scope, false),
        Expression::Or(parts) => logical(parts, scope, true),
        Expression::Coalesce(parts) => coalesce(parts, scope),
        Expression::Concatenate(parts) => concatenate(parts, scope),
        Expression::Conditional { condition, then, otherwise } => {
            let holds = matches!(evaluate(condition, scope)?, Datum::Bool(true));
            evaluate(if holds { then } else { otherwise }, scope)
        }
        Expression::In { value, list } => contained(value, list, scope),
        Expression::Between { value, low, high } => between([value, low, high], scope),
        Expression::Like { value, pattern, escape } => like(value, pattern, *escape, scope),
        Expression::Call { function, arguments } => call(*function, arguments, scope),
        Expression::Array(elements) => array(elements, scope),
        Expression::Object(members) => object(members, scope),
        Expression::Variable(_)
        | Expression::GroupKey(_)
        | Expression::Aggregate(_)
        | Expression::Subquery { .. }
        | Expression::Let { .. } => unreachable!("only the binder makes these"),
    }
}

fn parameter<'a>(name: &str, scope: &Scope<'a>) -> Evaluated<'a> {
    match scope.parameters.iter().find(|(candidate, _)| candidate == name) {
        Some((_, value)) => Ok(Datum::from_tree(value)),
        None => Err(SqlError::MissingParameter { name: name.to_string() }),
    }
}

fn property<'a>(of: &'a Expression, name: &str, scope: &Scope<'a>) -> Evaluated<'a> {
    let of = evaluate(of, scope)?;
    Ok(of.property(name))
}

fn unary<'a>(operator: UnaryOperator, operand: &'a Expression, scope: &Scope<'a>) -> Evaluated<'a> {
    let operand = evaluate(operand, scope)?;
    Ok(operators::unary(operator, &operand))
}

fn binary<'a>(
    operator: BinaryOperator,
    left: &'a Expression,
    right: &'a Expression,
    scope: &Scope<'a>,
) -> Evaluated<'a> {
    let left = evaluate(left, scope)?;
    let right = evaluate(right, scope)?;
    Ok(operators::binary(operator, &left, &right))
}

/// The first part that is defined.
fn coalesce<'a>(parts: &'a [Expression], scope: &Scope<'a>) -> Evaluated<'a> {
    for part in parts {
        let value = evaluate(part, scope)?;
        if !value.is_undefined() {
            return Ok(value);
        }
    }
    Ok(Datum::Undefined)
}

fn between<'a>([value, low, high]: [&'a Expression; 3], scope: &Scope<'a>) -> Evaluated<'a> {
    let value = evaluate(value, scope)?;
    let above = operators::binary(BinaryOperator::GreaterOrEqual, &value, &evaluate(low, scope)?);
    let below = operators::binary(BinaryOperator::LessOrEqual, &value, &evaluate(high, scope)?);
    Ok(operators::both(&above, &below))
}

fn like<'a>(
    value: &'a Expression,
    pattern: &'a Expression,
    escape: Option<char>,
    scope: &Scope<'a>,
) -> Evaluated<'a> {
    match (evaluate(value, scope)?, evaluate(pattern, scope)?) {
        (Datum::String(text), Datum::String(pattern)) => {
            Ok(Datum::Bool(like::matches(&text, &pattern, escape)))
        }
        _ => Ok(Datum::Undefined),
    }
}

fn call<'a>(function: Function, arguments: &'a [Expression], scope: &Scope<'a>) -> Evaluated<'a> {
    let mut values = Vec::with_capacity(arguments.len());
    for argument in arguments {
        values.push(evaluate(argument, scope)?);
    }
    Ok(function.apply(values))
}

/// Undefined elements are left out and the others close up.
fn array<'a>(elements: &'a [Expression], scope: &Scope<'a>) -> Evaluated<'a> {
    let mut out = Vec::with_capacity(elements.len());
    for element in elements {
        out.push(evaluate(element, scope)?.to_value());
    }
    out.retain(|element| !element.is_undefined());
    Ok(Datum::Array(Cow::Owned(out)))
}

fn object<'a>(members: &'a [(String, Expression)], scope: &Scope<'a>) -> Evaluated<'a> {
    let mut out = Vec::with_capacity(members.len());
    for (name, member) in members {
        out.push((name.clone(), evaluate(member, scope)?.to_value()));
    }
    out.retain(|(_, member)| !member.is_undefined());
    Ok(Datum::Object(Cow::Owned(out)))
}

/// AND with `dominant` false, OR with true: the dominant value decides, else anything not boolean makes it undefined.
fn logical<'a>(parts: &'a [Expression], scope: &Scope<'a>, dominant: bool) -> Evaluated<'a> {
    let mut result = Datum::Bool(!dominant);
    for part in parts {
        match evaluate(part, scope)? {
            Datum::Bool(value) if value == dominant => return Ok(Datum::Bool(dominant)),
            Datum::Bool(_) => {}
            _ => result = Datum::Undefined,
        }
    }
    Ok(result)
}

fn concatenate<'a>(parts: &'a [Expression], scope: &Scope<'a>) -> Evaluated<'a> {
    let mut out = String::new();
    for part in parts {
        let Datum::String(text) = evaluate(part, scope)? else { return Ok(Datum::Undefined) };
        out.push_str(&text);
    }
    Ok(Datum::String(Cow::Owned(out)))
}

fn contained<'a>(value: &'a Expression, list: &'a [Expression], scope: &Scope<'a>) -> Evaluated<'a> {
    let value = evaluate(value, scope)?;
    if value.is_undefined() {
        return Ok(Datum::Undefined);
    }
    for element in list {
        if value.equals(&evaluate(element, scope)?) == Some(true) {
            return Ok(Datum::Bool(true));
        }
    }
    Ok(Datum::Bool(false))
}

/// `of["name"]` or `of[3]`; any other key gives undefined.
fn index<'a>(of: Datum<'a>, key: &Datum<'_>) -> Datum<'a> {
    match key {
        Datum::String(name) => of.property(name),
        Datum::Number(Number::Int(index)) => {
            usize::try_from(*index).map_or(Datum::Undefined, |index| of.element(index))
        }
        Datum::Number(Number::Double(index)) if index.trunc() == *index && (0.0..1e15).contains(index) => {
            of.element(*index as usize)
        }
        _ => Datum::Undefined,
    }
}
