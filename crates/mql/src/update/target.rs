//! Paths of updates, with `$`, `$[]` and `$[name]`, and array filters.

use crate::error::{BAD_VALUE, Result, fail};
use crate::expression::Scope;
use crate::filter::Filter;
use crate::value::{Document, Str, Value};

/// A parsed path.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub text: String,
    pub parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    Field(Str),
    /// The element that the filter matched.
    Matched,
    All,
    /// The elements that an array filter of this name accepts.
    Filtered(Str),
}

/// Filters by their identifiers.
pub(super) type ArrayFilters = Vec<(Str, Filter)>;

impl Target {
    pub fn parse(path: &str) -> Result<Target> {
        if path.is_empty() {
            fail!(56, "An empty update path is not valid.");
        }
        if path.contains('\0') {
            fail!(9867600, "the update path contains a null byte");
        }
        let mut parts = Vec::new();
        for (at, part) in path.split('.').enumerate() {
            if part.is_empty() {
                fail!(56, "The update path '{path}' contains an empty field name, which is not allowed.");
            }
            let parsed = parse_part(part);
            if at == 0 && !matches!(parsed, Part::Field(_)) {
                fail!(
                    BAD_VALUE,
                    "Cannot have positional (i.e. '$') element in the first position in path '{path}'"
                );
            }
            // A member of an object inside may have such a name.
            if at == 0 && part.starts_with('$') {
                fail!(52, "The dollar ($) prefixed field '{part}' in '{path}' is not valid for storage.");
            }
            parts.push(parsed);
        }
        if parts.iter().filter(|part| **part == Part::Matched).count() > 1 {
            fail!(BAD_VALUE, "Too many positional (i.e. '$') elements found in path '{path}'");
        }
        Ok(Target { text: path.to_owned(), parts })
    }

    /// Whether one of two paths leads through the other.
    pub fn conflicts(&self, other: &Target) -> bool {
        self.parts.iter().zip(&other.parts).all(|(left, right)| left == right)
    }

    /// Identifiers of the array filters of the path.
    pub fn identifiers(&self) -> impl Iterator<Item = &Str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Filtered(identifier) => Some(identifier),
            _ => None,
        })
    }

    pub fn is_plain(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, Part::Field(_)))
    }
}

fn parse_part(part: &str) -> Part {
    match part {
        "$" => Part::Matched,
        "$[]" => Part::All,
        other => match other.strip_prefix("$[").and_then(|rest| rest.strip_suffix(']')) {
            Some(name) => Part::Filtered(Str::from(name)),
            None => Part::Field(Str::from(other)),
        },
    }
}

/// Parses array filters, each of one identifier.
pub(super) fn parse_filters(filters: &[Value], scope: &Scope) -> Result<ArrayFilters> {
    let mut parsed: ArrayFilters = Vec::with_capacity(filters.len());
    for filter in filters {
        let Value::Document(filter) = filter else {
            fail!(14, "each array filter must be an object");
        };
        if filter.has("$text") {
            fail!(BAD_VALUE, "$text is not allowed in array filters");
        }
        let mut names = Vec::new();
        identifiers(filter, &mut names);
        let Some(name) = names.first().cloned() else {
            if filter.has("$expr") {
                fail!(224, "$expr is not allowed in this context");
            }
            fail!(9, "Cannot use an expression without a top-level field name in arrayFilters");
        };
        if names.iter().any(|other| *other != name) {
            fail!(9, "Error parsing array filter: Expected a single top-level field name, found several");
        }
        let valid = name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_alphanumeric());
        if !valid {
            fail!(
                BAD_VALUE,
                "Error parsing array filter: The top-level field name must be an alphanumeric string beginning with a lowercase letter, found '{name}'"
            );
        }
        if parsed.iter().any(|(known, _)| *known == name) {
            fail!(9, "Found multiple array filters with the same top-level field name {name}");
        }
        parsed.push((name, Filter::parse(filter, scope)?));
    }
    Ok(parsed)
}

fn identifiers(filter: &Document, names: &mut Vec<Str>) {
    for (name, value) in filter.iter() {
        if name.starts_with('$') {
            if let Value::Array(clauses) = value {
                clauses.iter().filter_map(Value::as_document).for_each(|clause| identifiers(clause, names));
            }
            continue;
        }
        names.push(Str::from(name.split('.').next().unwrap_or_default()));
    }
}

/// The value at a plain path; the error is an array or a scalar on the way.
pub(super) fn value_at<'a>(
    document: &'a Document,
    parts: &[Part],
) -> std::result::Result<Option<&'a Value>, &'a Value> {
    let Some((Part::Field(name), rest)) = parts.split_first() else { return Ok(None) };
    match document.get(name) {
        found if rest.is_empty() => Ok(found),
        Some(Value::Document(inner)) => value_at(inner, rest),
        Some(other) => Err(other),
        None => Ok(None),
    }
}
