//! Evaluates expressions and queries over the variables of a scope.
//!
//! Missing values and values of a wrong type evaluate to `undefined`, not to an error. Logic has three
//! values: an operand that is not a boolean counts as undefined. Parts that cannot change the result are not
//! evaluated. An evaluation fails only when no value can express the outcome: the time is used up, a value
//! grows too large, a scalar subquery has several rows.
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | expressions |
//! | `scope.rs` | the variables |
//! | `rows.rs` | the nested loops of a query's sources; the results of a subquery |
//!
//! Expressions hold subqueries, whose rows are made of expressions: `mod.rs` and `rows.rs` call each other.

pub(crate) mod rows;
pub(crate) mod scope;

use std::borrow::Cow;
use std::sync::Arc;

use shardlake_document::{Number, Value};

use crate::bound::{Expression, Prepared, Slot};
use crate::error::SqlError;
use crate::functions::{Function, PreparedCall};
use crate::syntax::ast::{BinaryOperator, UnaryOperator};
use crate::value::constant_set::ConstantSet;
use crate::value::datum::{Datum, Evaluated, grow};
use crate::value::json_text::write_datum;
use crate::value::like::Pattern;
use crate::value::meter::{COPIED_BYTES_PER_STEP, READ_BYTES_PER_STEP};
use crate::value::operators;

pub(crate) use scope::Scope;

/// Only dispatches: each nesting level of an expression costs one stack frame of this function, so large
/// locals belong in the functions it calls.
pub(crate) fn evaluate<'s>(expression: &'s Expression, scope: &'s Scope<'s>) -> Evaluated<'s> {
    scope.step(1)?;
    match expression {
        Expression::Literal(literal) => Ok(Datum::from_tree(literal)),
        Expression::Variable(slot) => Ok(scope.variable(*slot)),
        Expression::Property { of, name } => property(of, name, scope),
        Expression::Index { of, key } => index(of, key, scope),
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
        Expression::In { value, prepared: Prepared(Some(set)), .. } => contained_in_set(value, set, scope),
        Expression::In { value, list, .. } => contained(value, list, scope),
        Expression::Between { value, low, high } => between([value, low, high], scope),
        Expression::Like { value, prepared: Prepared(Some(pattern)), .. } => {
            like_prepared(value, pattern, scope)
        }
        Expression::Like { value, pattern, escape, .. } => like(value, pattern, *escape, scope),
        Expression::Call { function, arguments, prepared } => call(*function, arguments, prepared, scope),
        Expression::UserDefined { name, arguments } => user_defined(name, arguments, scope),
        Expression::Choose { number, choices } => choose(number, choices, scope),
        Expression::DocumentId(of) => document_id(of, scope),
        Expression::Array(elements) => array(elements, scope),
        Expression::Object(members) => object(members, scope),
        Expression::GroupKey(place) => Ok(group_value(scope, *place, |group| group.keys)),
        Expression::Aggregate(place) => Ok(group_value(scope, *place, |group| group.aggregates)),
        Expression::Subquery { kind, query } => rows::subquery(*kind, query, scope),
        Expression::Let { slot, value, body } => bound(*slot, value, body, scope),
    }
}

/// [`evaluate`] for the most common operands, constants and properties of variables; `None` for others. It
/// does not recurse, so deep expressions need no more stack.
#[inline]
fn leaf<'s>(expression: &'s Expression, scope: &'s Scope<'s>) -> Option<Evaluated<'s>> {
    match expression {
        Expression::Literal(literal) => Some(scope.step(1).map(|()| Datum::from_tree(literal))),
        Expression::Property { of, name } => match **of {
            Expression::Variable(slot) => Some(property_of_variable(slot, name, scope)),
            _ => None,
        },
        _ => None,
    }
}

fn property_of_variable<'s>(slot: Slot, name: &str, scope: &'s Scope<'s>) -> Evaluated<'s> {
    let variable = scope.variable(slot);
    // Steps of the property, the variable, and the walk.
    scope.step(2 + variable.walk_steps())?;
    Ok(variable.property(name))
}

/// Evaluates a `WHERE` condition: is it exactly `true`?
pub(crate) fn holds(condition: &Expression, scope: &Scope<'_>) -> Result<bool, SqlError> {
    Ok(matches!(evaluate(condition, scope)?, Datum::Bool(true)))
}

fn property<'s>(of: &'s Expression, name: &str, scope: &'s Scope<'s>) -> Evaluated<'s> {
    let of = evaluate(of, scope)?;
    scope.step(of.walk_steps())?;
    Ok(of.property(name))
}

fn group_value<'s>(
    scope: &'s Scope<'s>,
    place: usize,
    list: fn(scope::GroupValues<'s>) -> &'s [Value],
) -> Datum<'s> {
    let value = scope.group().and_then(|group| list(group).get(place));
    value.map_or(Datum::Undefined, Datum::from_tree)
}

fn bound<'s>(
    slot: usize,
    value: &'s Expression,
    body: &'s Expression,
    scope: &'s Scope<'s>,
) -> Evaluated<'s> {
    let inner = scope.with(slot, evaluate(value, scope)?);
    let body = evaluate(body, &inner)?;
    scope.step(body.copy_steps())?;
    Ok(body.detach())
}

fn unary<'s>(operator: UnaryOperator, operand: &'s Expression, scope: &'s Scope<'s>) -> Evaluated<'s> {
    let operand = evaluate(operand, scope)?;
    Ok(operators::unary(operator, &operand))
}

fn binary<'s>(
    operator: BinaryOperator,
    left: &'s Expression,
    right: &'s Expression,
    scope: &'s Scope<'s>,
) -> Evaluated<'s> {
    let left = leaf(left, scope).unwrap_or_else(|| evaluate(left, scope))?;
    let right = leaf(right, scope).unwrap_or_else(|| evaluate(right, scope))?;
    scope.step(left.comparison_steps(&right))?;
    Ok(operators::binary(operator, &left, &right))
}

/// The first part that is defined.
fn coalesce<'s>(parts: &'s [Expression], scope: &'s Scope<'s>) -> Evaluated<'s> {
    for part in parts {
        let value = evaluate(part, scope)?;
        if !value.is_undefined() {
            return Ok(value);
        }
    }
    Ok(Datum::Undefined)
}

fn between<'s>([value, low, high]: [&'s Expression; 3], scope: &'s Scope<'s>) -> Evaluated<'s> {
    let value = evaluate(value, scope)?;
    let above = operators::binary(BinaryOperator::GreaterOrEqual, &value, &evaluate(low, scope)?);
    let below = operators::binary(BinaryOperator::LessOrEqual, &value, &evaluate(high, scope)?);
    Ok(operators::both(&above, &below))
}

fn like<'s>(
    value: &'s Expression,
    pattern: &'s Expression,
    escape: Option<char>,
    scope: &'s Scope<'s>,
) -> Evaluated<'s> {
    match (evaluate(value, scope)?, evaluate(pattern, scope)?) {
        (Datum::String(text), Datum::String(pattern)) => {
            scope.step(pattern.len() as u64)?;
            matches(&Pattern::new(&pattern, escape), &text, scope)
        }
        _ => Ok(Datum::Undefined),
    }
}

fn like_prepared<'s>(value: &'s Expression, pattern: &Pattern, scope: &'s Scope<'s>) -> Evaluated<'s> {
    match evaluate(value, scope)? {
        Datum::String(text) => matches(pattern, &text, scope),
        _ => Ok(Datum::Undefined),
    }
}

fn matches<'s>(pattern: &Pattern, text: &str, scope: &Scope<'_>) -> Evaluated<'s> {
    Ok(Datum::Bool(pattern.matches(text, &mut |steps| scope.step(steps))?))
}

fn choose<'s>(number: &'s Expression, choices: &'s [Expression], scope: &'s Scope<'s>) -> Evaluated<'s> {
    let place = position(&evaluate(number, scope)?).and_then(|number| number.checked_sub(1));
    match place.and_then(|place| choices.get(place)) {
        Some(choice) => evaluate(choice, scope),
        None => Ok(Datum::Undefined),
    }
}

fn document_id<'s>(of: &'s Expression, scope: &'s Scope<'s>) -> Evaluated<'s> {
    match evaluate(of, scope)? {
        Datum::Item(item) => Ok(Datum::Number(Number::Int(item.envelope.ordinal as i64))),
        _ => Ok(Datum::Undefined),
    }
}

/// The usual few arguments are kept on the stack.
fn call<'s>(
    function: Function,
    arguments: &'s [Expression],
    Prepared(prepared): &'s Prepared<PreparedCall>,
    scope: &'s Scope<'s>,
) -> Evaluated<'s> {
    let context = scope.context();
    if let Some(prepared) = prepared {
        let values = arguments.iter().map(|argument| evaluate(argument, scope));
        return function.apply_prepared(prepared, &values.collect::<Result<Vec<_>, _>>()?, context);
    }
    match arguments {
        [] => function.apply(&[], context),
        [only] => function.apply(&[evaluate(only, scope)?], context),
        [first, second] => function.apply(&[evaluate(first, scope)?, evaluate(second, scope)?], context),
        _ => {
            let mut values = Vec::with_capacity(arguments.len());
            for argument in arguments {
                values.push(evaluate(argument, scope)?);
            }
            function.apply(&values, context)
        }
    }
}

/// The value of a call of a user-defined function: known, made now, or awaited.
#[inline(never)] // Its locals would be in each frame of `evaluate`.
fn user_defined<'s>(name: &Arc<str>, arguments: &'s [Expression], scope: &'s Scope<'s>) -> Evaluated<'s> {
    let Some(calls) = scope.calls() else {
        return Err(SqlError::unsupported(format!("the user-defined function '{name}'")));
    };
    let mut texts = Vec::with_capacity(arguments.len());
    for argument in arguments {
        let mut text = Vec::new();
        let is_defined = write_datum(&evaluate(argument, scope)?, &mut text)?;
        let text = String::from_utf8(text).expect("values are written from text");
        texts.push(is_defined.then_some(text));
    }
    calls.borrow_mut().value(name, texts).map(Datum::from)
}

/// Undefined elements are left out.
fn array<'s>(elements: &'s [Expression], scope: &'s Scope<'s>) -> Evaluated<'s> {
    let mut out = Vec::with_capacity(elements.len());
    let mut size = 0;
    for element in elements {
        let element = evaluate(element, scope)?;
        if !element.is_undefined() {
            let held = element.size();
            scope.step(held as u64 / COPIED_BYTES_PER_STEP)?;
            grow(&mut size, held)?;
            out.push(element.into_value());
        }
    }
    Ok(Datum::Array(Cow::Owned(out)))
}

fn object<'s>(members: &'s [(String, Expression)], scope: &'s Scope<'s>) -> Evaluated<'s> {
    let mut out = Vec::with_capacity(members.len());
    let mut size = 0;
    for (name, member) in members {
        let member = evaluate(member, scope)?;
        if !member.is_undefined() {
            let held = name.len() + member.size();
            scope.step(held as u64 / COPIED_BYTES_PER_STEP)?;
            grow(&mut size, held)?;
            out.push((name.clone(), member.into_value()));
        }
    }
    Ok(Datum::Object(Cow::Owned(out)))
}

/// AND with `dominant` false, OR with true: the dominant value decides; otherwise a value that is not boolean
/// makes it undefined.
fn logical<'s>(parts: &'s [Expression], scope: &'s Scope<'s>, dominant: bool) -> Evaluated<'s> {
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

fn concatenate<'s>(parts: &'s [Expression], scope: &'s Scope<'s>) -> Evaluated<'s> {
    let mut out = String::new();
    let mut size = 0;
    for part in parts {
        let Datum::String(text) = evaluate(part, scope)? else { return Ok(Datum::Undefined) };
        scope.step(text.len() as u64 / READ_BYTES_PER_STEP)?;
        grow(&mut size, text.len())?;
        out.push_str(&text);
    }
    Ok(Datum::String(Cow::Owned(out)))
}

fn contained<'s>(value: &'s Expression, list: &'s [Expression], scope: &'s Scope<'s>) -> Evaluated<'s> {
    let value = evaluate(value, scope)?;
    if value.is_undefined() {
        return Ok(Datum::Undefined);
    }
    for element in list {
        let element = evaluate(element, scope)?;
        scope.step(value.comparison_steps(&element))?;
        if value.equals(&element) == Some(true) {
            return Ok(Datum::Bool(true));
        }
    }
    Ok(Datum::Bool(false))
}

/// [`contained`] for a list of constants.
fn contained_in_set<'s>(value: &'s Expression, set: &ConstantSet, scope: &'s Scope<'s>) -> Evaluated<'s> {
    let value = evaluate(value, scope)?;
    if value.is_undefined() {
        return Ok(Datum::Undefined);
    }
    scope.step(set.steps(&value))?;
    Ok(Datum::Bool(set.contains(&value)))
}

/// `of["name"]` or `of[3]`; any other key gives undefined.
fn index<'s>(of: &'s Expression, key: &'s Expression, scope: &'s Scope<'s>) -> Evaluated<'s> {
    let of = evaluate(of, scope)?;
    let key = evaluate(key, scope)?;
    scope.step(of.walk_steps())?;
    Ok(match &key {
        Datum::String(name) => of.property(name),
        _ => position(&key).map_or(Datum::Undefined, |place| of.element(place)),
    })
}

/// A whole number that can be an index.
fn position(datum: &Datum<'_>) -> Option<usize> {
    match datum {
        Datum::Number(Number::Int(number)) => usize::try_from(*number).ok(),
        Datum::Number(Number::Double(number))
            if number.trunc() == *number && (0.0..1e15).contains(number) =>
        {
            Some(*number as usize)
        }
        _ => None,
    }
}
