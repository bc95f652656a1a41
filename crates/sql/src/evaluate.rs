//! Evaluates an expression over one row.
//!
//! What is missing or has the wrong type is `undefined`, not an error; only an unknown parameter is an error. Logic has three
//! values: an operand that is not a boolean counts as undefined. Parts that do not matter are not evaluated.

use std::borrow::Cow;

use shardlake_document::{Number, Value};

use crate::datum::Datum;
use crate::error::SqlError;
use crate::expression::{BinaryOperator, Expression};
use crate::{like, operators};

/// What names stand for.
pub(crate) struct Scope<'a> {
    pub row: &'a Datum<'a>,
    pub parameters: &'a [(String, Value)],
}

pub(crate) fn evaluate<'a>(expression: &'a Expression, scope: &Scope<'a>) -> Result<Datum<'a>, SqlError> {
    let value = |part: &'a Expression| evaluate(part, scope);
    Ok(match expression {
        Expression::Literal(literal) => Datum::from_tree(literal),
        Expression::Parameter(name) => {
            let parameter = scope.parameters.iter().find(|(candidate, _)| candidate == name);
            let (_, found) = parameter.ok_or_else(|| SqlError::MissingParameter { name: name.clone() })?;
            Datum::from_tree(found)
        }
        Expression::Identifier { .. } => unreachable!("identifiers are resolved after parsing"),
        Expression::Row => scope.row.clone(),
        Expression::Property { of, name } => value(of)?.property(name),
        Expression::Index { of, key } => index(value(of)?, &value(key)?),
        Expression::Unary { operator, operand } => operators::unary(*operator, &value(operand)?),
        Expression::Binary { operator, left, right } => {
            operators::binary(*operator, &value(left)?, &value(right)?)
        }
        Expression::And(parts) => logical(parts, scope, false)?,
        Expression::Or(parts) => logical(parts, scope, true)?,
        Expression::Coalesce(parts) => {
            for part in parts {
                let defined = value(part)?;
                if !defined.is_undefined() {
                    return Ok(defined);
                }
            }
            Datum::Undefined
        }
        Expression::Concatenate(parts) => concatenate(parts, scope)?,
        Expression::Conditional { condition, then, otherwise } => match value(condition)? {
            Datum::Bool(true) => value(then)?,
            _ => value(otherwise)?,
        },
        Expression::In { value: operand, list } => contained(&value(operand)?, list, scope)?,
        Expression::Between { value: operand, low, high } => {
            let operand = value(operand)?;
            let above = operators::binary(BinaryOperator::GreaterOrEqual, &operand, &value(low)?);
            let below = operators::binary(BinaryOperator::LessOrEqual, &operand, &value(high)?);
            operators::both(&above, &below)
        }
        Expression::Like { value: text, pattern, escape } => match (value(text)?, value(pattern)?) {
            (Datum::String(text), Datum::String(pattern)) => {
                Datum::Bool(like::matches(&text, &pattern, *escape))
            }
            _ => Datum::Undefined,
        },
        Expression::Call { function, arguments } => {
            let arguments = arguments.iter().map(value).collect::<Result<Vec<_>, _>>()?;
            function.apply(arguments)
        }
        Expression::Array(elements) => {
            let mut out = Vec::with_capacity(elements.len());
            for element in elements {
                out.push(value(element)?.to_value());
            }
            out.retain(|element| !element.is_undefined());
            Datum::Array(Cow::Owned(out))
        }
        Expression::Object(members) => {
            let mut out = Vec::with_capacity(members.len());
            for (name, member) in members {
                out.push((name.clone(), value(member)?.to_value()));
            }
            out.retain(|(_, member)| !member.is_undefined());
            Datum::Object(Cow::Owned(out))
        }
    })
}

/// AND with `dominant` false, OR with true: the dominant value decides, else anything not boolean makes it undefined.
fn logical<'a>(parts: &'a [Expression], scope: &Scope<'a>, dominant: bool) -> Result<Datum<'a>, SqlError> {
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

fn concatenate<'a>(parts: &'a [Expression], scope: &Scope<'a>) -> Result<Datum<'a>, SqlError> {
    let mut out = String::new();
    for part in parts {
        let Datum::String(text) = evaluate(part, scope)? else { return Ok(Datum::Undefined) };
        out.push_str(&text);
    }
    Ok(Datum::String(Cow::Owned(out)))
}

fn contained<'a>(
    value: &Datum<'a>,
    list: &'a [Expression],
    scope: &Scope<'a>,
) -> Result<Datum<'a>, SqlError> {
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
