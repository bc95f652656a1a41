//! Operands of operators that hold no further conditions.

use super::condition::{Comparison, Leaf};
use crate::decimal::Rounding;
use crate::error::{BAD_VALUE, Result, fail};
use crate::expression::Scope;
use crate::order;
use crate::pattern::Pattern;
use crate::value::{Document, Value};
use crate::value_type;
use std::sync::Arc;

/// Whether a document states operators rather than a value.
pub(crate) fn is_operator_document(document: &Document) -> bool {
    document
        .first()
        .is_some_and(|(name, _)| name.starts_with('$') && !matches!(&**name, "$ref" | "$id" | "$db"))
}

/// The condition of a plain value.
pub(super) fn equality(value: &Value, scope: &Scope) -> Result<Leaf> {
    match value {
        Value::Regex(regex) => pattern(&regex.0, &regex.1),
        Value::Undefined => fail!(BAD_VALUE, "cannot compare to undefined"),
        value => Ok(Leaf::Compare(Comparison::Equal, value.clone(), scope.collation().clone())),
    }
}

/// Bytes of a pattern in a filter.
const PATTERN_BYTES_MAX: usize = 32_764;

pub(super) fn pattern(text: &str, options: &str) -> Result<Leaf> {
    if text.len() > PATTERN_BYTES_MAX {
        fail!(51091, "Regular expression is invalid: it has more than {PATTERN_BYTES_MAX} bytes");
    }
    if text.contains('\0') {
        fail!(BAD_VALUE, "Regular expression cannot contain an embedded null byte");
    }
    if let Some(wrong) = options.chars().find(|option| !"imsxu".contains(*option)) {
        fail!(51108, "invalid flag in regex options: {wrong}");
    }
    match Pattern::compile(text, options) {
        Ok(compiled) => {
            let own = Value::Regex(Arc::new((text.to_owned(), options.to_owned())));
            Ok(Leaf::Regex(Arc::new(compiled), own))
        }
        Err(words) => fail!(51091, "Regular expression is invalid: {words}"),
    }
}

pub(super) fn parse_in(name: &str, value: &Value, scope: &Scope) -> Result<Leaf> {
    let Value::Array(items) = value else { fail!(BAD_VALUE, "{name} needs an array") };
    let (mut values, mut patterns) = (Vec::new(), Vec::new());
    for item in items.iter() {
        match item {
            Value::Regex(regex) => patterns.push(pattern(&regex.0, &regex.1)?),
            Value::Document(document) if is_operator_document(document) => {
                fail!(BAD_VALUE, "cannot nest $ under {name}")
            }
            Value::Undefined => fail!(BAD_VALUE, "InMatchExpression equality cannot be undefined"),
            item => values.push(order::collated(scope.collation(), item)?),
        }
    }
    values.sort_by(order::compare);
    Ok(Leaf::In(values, patterns, scope.collation().clone()))
}

pub(super) fn parse_regex(value: &Value, operators: &Document) -> Result<Leaf> {
    let (text, own) = match value {
        Value::String(text) => (text.to_string(), String::new()),
        Value::Regex(regex) => (regex.0.clone(), regex.1.clone()),
        _ => fail!(BAD_VALUE, "$regex has to be a string"),
    };
    let options = match operators.get("$options") {
        None => own,
        Some(Value::String(options)) => {
            if !own.is_empty() {
                let is_first = operators.first().is_some_and(|(name, _)| &**name == "$options");
                let code = if is_first { 51074 } else { 51075 };
                fail!(code, "options set in both $regex and $options");
            }
            options.to_string()
        }
        Some(_) => fail!(BAD_VALUE, "$options has to be a string"),
    };
    pattern(&text, &options)
}

pub(super) fn parse_type(value: &Value) -> Result<Leaf> {
    let items = match value {
        Value::Array(items) if items.is_empty() => fail!(9, "$type must match at least one type"),
        Value::Array(items) => &items[..],
        other => std::slice::from_ref(other),
    };
    let (mut types, mut numbers) = (Vec::new(), false);
    for item in items {
        match item {
            Value::String(name) if &**name == "number" => numbers = true,
            Value::String(name) => match value_type::number_of(name) {
                Some(number) => types.push(number),
                None => fail!(BAD_VALUE, "Unknown type name alias: {name}"),
            },
            item if item.is_number() => {
                match item.to_i32_exact().filter(|number| value_type::by_number(*number).is_some()) {
                    Some(number) => types.push(number),
                    None => fail!(BAD_VALUE, "Invalid numerical type code: {item}"),
                }
            }
            other => fail!(14, "type must be represented as a number or a string, not {}", other.type_name()),
        }
    }
    Ok(Leaf::Type(types, numbers))
}

pub(super) fn parse_size(value: &Value) -> Result<Leaf> {
    if !value.is_number() {
        fail!(BAD_VALUE, "Failed to parse $size. Expected a number in: $size: {value}");
    }
    match value.to_i64_exact() {
        Some(size) if (0..=i64::from(i32::MAX)).contains(&size) => Ok(Leaf::Size(size)),
        Some(size) if size > 0 => {
            fail!(BAD_VALUE, "Failed to parse $size. Expected a 32-bit integer: $size: {size}")
        }
        Some(size) => {
            fail!(BAD_VALUE, "Failed to parse $size. Expected a non-negative number in: $size: {size}")
        }
        None => fail!(BAD_VALUE, "Failed to parse $size. Expected an integer: $size: {value}"),
    }
}

pub(super) fn parse_modulo(value: &Value) -> Result<Leaf> {
    let Value::Array(items) = value else { fail!(BAD_VALUE, "malformed mod, needs to be an array") };
    let [divisor, rest] = &items[..] else {
        let words = if items.len() < 2 { "not enough" } else { "too many" };
        fail!(BAD_VALUE, "malformed mod, {words} elements");
    };
    let number = |value: &Value, what: &str| {
        let whole = match value {
            Value::Double(number) if !number.is_finite() => None,
            Value::Double(number) => crate::value::double_to_i64(number.trunc()),
            Value::Decimal(number) => {
                number.to_whole(Rounding::Down).to_integer().and_then(|number| i64::try_from(number).ok())
            }
            other => other.to_i64_exact(),
        };
        match whole {
            Some(number) => Ok(number),
            None => fail!(BAD_VALUE, "malformed mod, {what} is not a number: {value}"),
        }
    };
    let divisor = number(divisor, "divisor")?;
    if divisor == 0 {
        fail!(BAD_VALUE, "divisor cannot be 0");
    }
    Ok(Leaf::Modulo(divisor, number(rest, "remainder")?))
}
