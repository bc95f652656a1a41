//! `$trim`, `$ltrim`, `$rtrim`, `$replaceOne`, `$replaceAll`.

use super::arguments::{Signature, is_given_null, value_of};
use super::bound::check_bytes;
use super::operands::At;
use super::regexes;
use super::tree::Expression;
use crate::error::{Result, fail};
use crate::value::Value;

pub(super) fn parse(name: &str, operand: &Value, at: &At<'_>) -> Result<Option<Expression>> {
    let trim = |operator| Signature {
        operator,
        names: &["input", "chars"],
        required: &[50695],
        not_an_object: 50696,
        unknown: 50694,
    };
    let replace = |operator| Signature {
        operator,
        names: &["input", "find", "replacement"],
        required: &[51749, 51748, 51747],
        not_an_object: 51751,
        unknown: 51750,
    };
    match name {
        "$trim" => trim("$trim").call(operand, at, |_, values| trimmed(values, true, true)),
        "$ltrim" => trim("$ltrim").call(operand, at, |_, values| trimmed(values, true, false)),
        "$rtrim" => trim("$rtrim").call(operand, at, |_, values| trimmed(values, false, true)),
        "$replaceOne" => replace("$replaceOne").call(operand, at, |_, values| replaced(values, 1)),
        "$replaceAll" => replace("$replaceAll").call(operand, at, |_, values| replaced(values, usize::MAX)),
        _ => Ok(None),
    }
}

/// Characters that count as space where none are given: those of Unicode, and zero.
const SPACES: &[char] = &[
    '\0', ' ', '\t', '\n', '\u{b}', '\u{c}', '\r', '\u{a0}', '\u{1680}', '\u{2000}', '\u{2001}', '\u{2002}',
    '\u{2003}', '\u{2004}', '\u{2005}', '\u{2006}', '\u{2007}', '\u{2008}', '\u{2009}', '\u{200a}',
];

fn trimmed(values: &[Option<Value>], left: bool, right: bool) -> Result<Value> {
    let text = match value_of(&values[0]) {
        value if value.is_nullish() => return Ok(Value::Null),
        Value::String(text) => text,
        other => fail!(50699, "trim requires its input to be a string, got {}", other.type_name()),
    };
    let chosen: Vec<char> = match &values[1] {
        None => SPACES.to_vec(),
        Some(value) if value.is_nullish() => return Ok(Value::Null),
        Some(Value::String(chars)) => chars.chars().collect(),
        Some(other) => fail!(50700, "trim requires 'chars' to be a string, got {}", other.type_name()),
    };
    let is_chosen = |c: char| chosen.contains(&c);
    let text = if left { text.trim_start_matches(is_chosen) } else { text };
    Ok(Value::string(if right { text.trim_end_matches(is_chosen) } else { text }))
}

fn replaced(values: &[Option<Value>], most: usize) -> Result<Value> {
    let (input, find, replacement) = (value_of(&values[0]), value_of(&values[1]), value_of(&values[2]));
    let string_or_null = |value: &Value, code: i32, what: &str| {
        if !value.is_nullish() && !matches!(value, Value::String(_)) {
            fail!(code, "'{what}' must be a string, found: {}", value.type_name());
        }
        Ok(())
    };
    string_or_null(input, 10503904, "input")?;
    if !matches!(find, Value::Regex(_)) {
        string_or_null(find, 10503901, "find")?;
    }
    string_or_null(replacement, 10503902, "replacement")?;
    if values.iter().any(is_given_null) {
        return Ok(Value::Null);
    }
    let (Value::String(input), Value::String(replacement)) = (input, replacement) else {
        return Ok(Value::Null);
    };
    match find {
        Value::Regex(regex) => regexes::replace_by(input, (&regex.0, &regex.1), replacement, most),
        Value::String(find) => {
            let count = input.matches(&**find).take(most).count();
            check_bytes(input.len().saturating_add(count.saturating_mul(replacement.len())))?;
            Ok(Value::string(input.replacen(&**find, replacement, most)))
        }
        _ => Ok(Value::Null),
    }
}
