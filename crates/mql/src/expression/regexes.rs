//! `$regexMatch`, `$regexFind`, `$regexFindAll`.

use super::arguments::{Signature, value_of};
use super::bound::check_bytes;
use super::operands::At;
use super::tree::Expression;
use crate::error::{Result, fail};
use crate::pattern::{Found, Pattern};
use crate::value::{Document, Value};

pub(super) fn parse(name: &str, operand: &Value, at: &At<'_>) -> Result<Option<Expression>> {
    let signature = |operator| Signature {
        operator,
        names: &["input", "regex", "options"],
        required: &[31022, 31023],
        not_an_object: 51103,
        unknown: 31024,
    };
    match name {
        "$regexMatch" => signature("$regexMatch").call(operand, at, |_, values| is_match(values)),
        "$regexFind" => signature("$regexFind").call(operand, at, |_, values| find(values)),
        "$regexFindAll" => signature("$regexFindAll").call(operand, at, |_, values| find_all(values)),
        _ => Ok(None),
    }
}

/// The text and the compiled pattern; `None` where one of them is null.
fn arguments(values: &[Option<Value>]) -> Result<Option<(String, Pattern)>> {
    let (input, regex, options) = (value_of(&values[0]), value_of(&values[1]), value_of(&values[2]));
    let given = match options {
        value if value.is_nullish() => None,
        Value::String(options) => Some(options),
        other => fail!(51106, "'options' must be a string, found: {}", other.type_name()),
    };
    let (pattern, own) = match regex {
        value if value.is_nullish() => (None, None),
        Value::String(pattern) => (Some(pattern.to_string()), None),
        Value::Regex(regex) => (Some(regex.0.clone()), Some(regex.1.clone())),
        other => fail!(51105, "'regex' must be a string or a regex, found: {}", other.type_name()),
    };
    let own = own.filter(|own| !own.is_empty());
    if given.is_some() && own.is_some() {
        fail!(51107, "found regex option(s) specified in both 'regex' and 'options' fields");
    }
    let options = given.map(|given| given.to_string()).or(own).unwrap_or_default();
    if pattern.as_ref().is_some_and(|pattern| pattern.contains('\0')) {
        fail!(51109, "regular expression cannot contain an embedded null byte");
    }
    if options.contains('\0') {
        fail!(51110, "regular expression options cannot contain an embedded null byte");
    }
    // The pattern is looked at before the text; where there is none, its options do not matter.
    let compiled = match pattern {
        None => None,
        Some(_) if options.contains(|option: char| !"imsxu".contains(option)) => {
            fail!(51108, "invalid flag in regex options: {options}")
        }
        Some(pattern) => Some(compile(&pattern, &options)?),
    };
    let text = match input {
        value if value.is_nullish() => None,
        Value::String(text) | Value::Symbol(text) => Some(text.to_string()),
        other => fail!(51104, "'input' must be a string, found: {}", other.type_name()),
    };
    Ok(text.zip(compiled))
}

/// Bytes of a pattern in an expression.
const PATTERN_BYTES_MAX: usize = 16_384;

fn compile(pattern: &str, options: &str) -> Result<Pattern> {
    if pattern.len() > PATTERN_BYTES_MAX {
        fail!(51111, "invalid regex: it has more than {PATTERN_BYTES_MAX} bytes");
    }
    Pattern::compile(pattern, options).or_else(|words| fail!(51111, "invalid regex: {words}"))
}

fn is_match(values: &[Option<Value>]) -> Result<Value> {
    let Some((text, pattern)) = arguments(values)? else { return Ok(Value::Bool(false)) };
    Ok(Value::Bool(search(&pattern, &text, 0)?.is_some()))
}

fn search(pattern: &Pattern, text: &str, start: usize) -> Result<Option<Found>> {
    pattern.find_at(text, start).or_else(|words| fail!(51156, "error while executing the regex: {words}"))
}

/// A match as a document; `index` is its place in code points.
fn describe(text: &str, found: &Found, index: usize) -> Value {
    let (start, end) = found.span;
    let capture = |group: &Option<(usize, usize)>| {
        group.map_or(Value::Null, |(start, end)| Value::string(&text[start..end]))
    };
    let mut document = Document::with_capacity(3);
    document.push("match", Value::string(&text[start..end]));
    document.push("idx", Value::Int(index as i32));
    document.push("captures", Value::array(found.groups.iter().map(capture).collect()));
    Value::document(document)
}

fn find(values: &[Option<Value>]) -> Result<Value> {
    let Some((text, pattern)) = arguments(values)? else { return Ok(Value::Null) };
    let index = |found: &Found| text[..found.span.0].chars().count();
    Ok(search(&pattern, &text, 0)?.map_or(Value::Null, |found| describe(&text, &found, index(&found))))
}

/// Bytes that the matches of one text may take.
const RESULT_BYTES_MAX: usize = 64 * 1024 * 1024;

fn find_all(values: &[Option<Value>]) -> Result<Value> {
    let Some((text, pattern)) = arguments(values)? else { return Ok(Value::array(Vec::new())) };
    let (mut last, mut index, mut bytes) = (0, 0, 0);
    let mut results = Vec::new();
    for found in all_matches(&pattern, &text, usize::MAX)? {
        // The search stops at the end of the text: an empty match there counts only in an empty text.
        if found.span.0 == text.len() && !text.is_empty() {
            break;
        }
        index += text[last..found.span.0].chars().count();
        last = found.span.0;
        let result = describe(&text, &found, index);
        bytes += result.size();
        if bytes > RESULT_BYTES_MAX {
            fail!(51151, "$regexFindAll: the size of buffer to store output exceeded the 64MB limit");
        }
        results.push(result);
    }
    Ok(Value::array(results))
}

/// Matches from left to right that do not overlap. Behind an empty match the search continues one character later.
fn all_matches(pattern: &Pattern, text: &str, most: usize) -> Result<Vec<Found>> {
    let (mut start, mut matches) = (0, Vec::new());
    while matches.len() < most && start <= text.len() {
        let Some(found) = search(pattern, text, start)? else { break };
        let (from, to) = found.span;
        let step = text[to..].chars().next().map_or(1, char::len_utf8);
        start = if to == from { to + step } else { to };
        matches.push(found);
        if from == text.len() {
            break;
        }
    }
    Ok(matches)
}

/// The parts of a text between the matches of a pattern.
pub(super) fn split_by(text: &str, pattern: &str, options: &str) -> Result<Value> {
    let pattern = compile(pattern, options)?;
    let (mut parts, mut last) = (Vec::new(), 0);
    for found in all_matches(&pattern, text, usize::MAX)? {
        let (start, end) = found.span;
        if start == end {
            continue;
        }
        parts.push(Value::string(&text[last..start]));
        parts.extend(
            found
                .groups
                .iter()
                .map(|group| group.map_or("", |(from, to)| &text[from..to]))
                .map(Value::string),
        );
        last = end;
    }
    parts.push(Value::string(&text[last..]));
    Ok(Value::array(parts))
}

/// The text with matches of a pattern replaced.
pub(super) fn replace_by(
    text: &str,
    (pattern, options): (&str, &str),
    by: &str,
    most: usize,
) -> Result<Value> {
    let pattern = compile(pattern, options)?;
    let (mut result, mut last) = (String::new(), 0);
    for found in all_matches(&pattern, text, most)? {
        check_bytes(result.len() + text.len() + by.len())?;
        result.push_str(&text[last..found.span.0]);
        result.push_str(by);
        last = found.span.1;
    }
    result.push_str(&text[last..]);
    Ok(Value::string(result))
}
