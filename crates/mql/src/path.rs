//! Dotted paths through documents and arrays, as filters and sorts walk them (spec §12.2).
//!
//! A part of a path names a member of a document. On an array it names that member of each element that is a document,
//! and, if the part is a number, the element at that place. Only one level of arrays is searched.

use crate::error::{Result, fail};
use crate::value::{Document, Str, Value};

/// One value that a path reaches.
pub(crate) struct Reached<'a> {
    pub value: &'a Value,
    /// The place in the outermost array on the way, if there was one.
    pub index: Option<usize>,
}

/// Calls `visit` for each value at the end of the path, arrays as wholes, until it answers true.
/// If a document on the way lacks the member, the value is `Missing`; elements that are not documents have no members.
pub(crate) fn walk<'a>(
    document: &'a Document,
    path: &[Str],
    visit: &mut dyn FnMut(Reached<'a>) -> bool,
) -> bool {
    walk_document(document, path, None, visit)
}

const MISSING: &Value = &Value::Missing;

fn walk_document<'a>(
    document: &'a Document,
    path: &[Str],
    index: Option<usize>,
    visit: &mut dyn FnMut(Reached<'a>) -> bool,
) -> bool {
    let Some((name, rest)) = path.split_first() else { return false };
    walk_value(document.get(name).unwrap_or(MISSING), rest, index, visit)
}

fn walk_value<'a>(
    value: &'a Value,
    rest: &[Str],
    index: Option<usize>,
    visit: &mut dyn FnMut(Reached<'a>) -> bool,
) -> bool {
    let Some(next) = rest.first() else {
        return visit(Reached { value, index });
    };
    match value {
        Value::Document(inner) => walk_document(inner, rest, index, visit),
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                if let Value::Document(inner) = item
                    && walk_document(inner, rest, index.or(Some(at)), visit)
                {
                    return true;
                }
            }
            let Some((at, item)) = array_index(next).and_then(|at| Some((at, items.get(at)?))) else {
                return false;
            };
            // A scalar element has no members, and no missing ones either.
            let ends_here = rest.len() == 1;
            (ends_here || matches!(item, Value::Document(_) | Value::Array(_)))
                && walk_value(item, &rest[1..], index.or(Some(at)), visit)
        }
        _ => visit(Reached { value: MISSING, index }),
    }
}

/// A part of a path as a place in an array: digits without a leading zero.
pub(crate) fn array_index(part: &str) -> Option<usize> {
    let digits = !part.is_empty() && part.len() < 10 && part.bytes().all(|byte| byte.is_ascii_digit());
    (digits && (part == "0" || !part.starts_with('0'))).then(|| part.parse().ok()).flatten()
}

/// The values that a document sorts by under a path: elements in place of arrays, undefined for an empty one.
pub(crate) fn sort_values(value: &Value, path: &[Str], found: &mut Vec<Value>, through: &mut Option<String>) {
    collect(value, path, "", found, through);
}

fn collect(value: &Value, path: &[Str], so_far: &str, found: &mut Vec<Value>, through: &mut Option<String>) {
    let mark = |through: &mut Option<String>| {
        through.get_or_insert_with(|| so_far.to_owned());
    };
    match (value, path.split_first()) {
        (Value::Array(items), None) => {
            mark(through);
            if items.is_empty() {
                found.push(Value::Undefined);
            }
            found.extend(items.iter().cloned());
        }
        (value, None) => found.push(value.clone().or_null()),
        (Value::Document(document), Some((name, rest))) => {
            let longer = if so_far.is_empty() { name.to_string() } else { format!("{so_far}.{name}") };
            collect(document.get(name).unwrap_or(MISSING), rest, &longer, found, through);
        }
        (Value::Array(items), Some((name, rest))) => {
            let place = array_index(name).and_then(|at| items.get(at));
            if let Some(item) = place
                && !items.iter().any(|item| matches!(item, Value::Document(inner) if inner.has(name)))
            {
                collect(item, rest, &format!("{so_far}.{name}"), found, through);
                return;
            }
            mark(through);
            if items.is_empty() {
                found.push(Value::Null);
            }
            for item in items.iter() {
                match item {
                    Value::Document(_) => collect(item, path, so_far, found, through),
                    _ => found.push(Value::Null),
                }
            }
        }
        _ => found.push(Value::Null),
    }
}

/// The parts of a path of a filter, unchecked.
pub(crate) fn split_path(path: &str) -> Vec<Str> {
    path.split('.').map(Str::from).collect()
}

/// The parts of a path behind its `$`.
pub(crate) fn field_path(path: &str) -> Result<Vec<Str>> {
    if path.is_empty() {
        fail!(16872, "'$' by itself is not a valid FieldPath");
    }
    if path.ends_with('.') {
        fail!(40353, "FieldPath must not end with a '.'.");
    }
    let parts: Vec<Str> = path.split('.').map(Str::from).collect();
    if parts.len() > 200 {
        fail!(15, "FieldPath is too long");
    }
    for part in &parts {
        check_field_name(part)?;
    }
    Ok(parts)
}

/// Checks one part of a path in an expression.
pub(crate) fn check_field_name(part: &str) -> Result<()> {
    if part.is_empty() {
        fail!(15998, "FieldPath field names may not be empty strings.");
    }
    if part.starts_with('$') && !matches!(part, "$id" | "$ref" | "$db") {
        fail!(16410, "FieldPath field names may not start with '$'. Consider using $getField or $setField.");
    }
    if part.contains('\0') {
        fail!(16411, "FieldPath field names may not contain '\0'.");
    }
    Ok(())
}
