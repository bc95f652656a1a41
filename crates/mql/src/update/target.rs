//! Paths of updates, with `$`, `$[]` and `$[name]`, and the walk to what they name.

use crate::error::{BAD_VALUE, Result, fail};
use crate::expression::{Env, Scope};
use crate::filter::{Filter, Matched};
use crate::path::array_index;
use crate::value::{Document, Str, Value};
use std::sync::Arc;

/// Places behind the end of an array that one update may fill with nulls.
const PADDING_MAX: usize = 1_500_000;

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

/// What to do with a value at the end of a path.
pub(super) enum Change {
    None,
    Set(Value),
    Remove,
}

/// Computes the change of a value; the flag tells whether the way to it exists.
pub(super) type Changer<'a> = &'a mut dyn FnMut(&Value, &mut Env) -> Result<Change>;

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
            if part.starts_with('$')
                && matches!(parsed, Part::Field(_))
                && !matches!(part, "$id" | "$ref" | "$db")
            {
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

    pub fn is_plain(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, Part::Field(_)))
    }

    /// The order in which operators apply: by parts, numbers as numbers.
    pub fn order_key(&self) -> Vec<(u8, usize, String)> {
        let key = |part: &Part| match part {
            Part::Field(name) => match array_index(name) {
                Some(number) => (0, number, String::new()),
                None => (1, 0, name.to_string()),
            },
            Part::Matched => (1, 0, "$".into()),
            Part::All => (1, 0, "$[]".into()),
            Part::Filtered(name) => (1, 0, format!("$[{name}]")),
        };
        self.parts.iter().map(key).collect()
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

/// What a walk along a path knows besides the value.
pub(super) struct Walk<'a> {
    pub target: &'a Target,
    pub filters: &'a ArrayFilters,
    pub matched: Matched,
    /// Whether what is missing on the way is created.
    pub creates: bool,
}

impl Walk<'_> {
    pub fn change(&self, value: &mut Value, change: Changer<'_>, env: &mut Env) -> Result<()> {
        self.step(value, 0, change, env)
    }

    fn step(&self, value: &mut Value, at: usize, change: Changer<'_>, env: &mut Env) -> Result<()> {
        let Some(part) = self.target.parts.get(at) else { return Ok(()) };
        match part {
            Part::Field(name) => self.field(value, name, at, change, env),
            Part::Matched => {
                let Some(index) = self.matched.index else {
                    fail!(BAD_VALUE, "The positional operator did not find the match needed from the query.");
                };
                self.field(value, &Str::from(index.to_string()), at, change, env)
            }
            Part::All | Part::Filtered(_) => self.elements(value, part, at, change, env),
        }
    }

    fn elements(
        &self,
        value: &mut Value,
        part: &Part,
        at: usize,
        change: Changer<'_>,
        env: &mut Env,
    ) -> Result<()> {
        let Value::Array(items) = value else {
            let path = &self.target.text;
            if value.is_missing() {
                fail!(
                    BAD_VALUE,
                    "The path '{path}' must exist in the document in order to apply array updates."
                );
            }
            fail!(BAD_VALUE, "Cannot apply array updates to non-array element of '{path}': {value}");
        };
        let filter = match part {
            Part::Filtered(name) => self.filters.iter().find(|(known, _)| known == name),
            _ => None,
        };
        let items = Arc::make_mut(items);
        for item in items.iter_mut() {
            if let Some((name, filter)) = filter {
                let probe = Document::one(name, item.clone());
                if !filter.matches(&probe, env)? {
                    continue;
                }
            }
            self.end_or_step(item, at, change, env, true)?;
        }
        Ok(())
    }

    fn end_or_step(
        &self,
        slot: &mut Value,
        at: usize,
        change: Changer<'_>,
        env: &mut Env,
        in_array: bool,
    ) -> Result<()> {
        if at + 1 < self.target.parts.len() {
            return self.step(slot, at + 1, change, env);
        }
        match change(slot, env)? {
            Change::None => {}
            Change::Set(value) => *slot = value,
            // The place of an element stays.
            Change::Remove => *slot = if in_array { Value::Null } else { Value::Missing },
        }
        Ok(())
    }

    fn field(
        &self,
        value: &mut Value,
        name: &Str,
        at: usize,
        change: Changer<'_>,
        env: &mut Env,
    ) -> Result<()> {
        match value {
            Value::Document(document) => {
                if !document.has(name) {
                    if !self.creates && !self.needs_elements(at + 1) {
                        return Ok(());
                    }
                    let mut created = self.created(at);
                    self.end_or_step(&mut created, at, change, env, false)?;
                    if !created.is_missing() && self.creates {
                        Arc::make_mut(document).push(name.clone(), created);
                    }
                    return Ok(());
                }
                let document = Arc::make_mut(document);
                let Some(slot) = document.get_mut(name) else { return Ok(()) };
                self.end_or_step(slot, at, change, env, false)?;
                if slot.is_missing() {
                    document.remove(name);
                }
                Ok(())
            }
            Value::Array(items) => {
                let Some(index) = array_index(name) else {
                    if !self.creates {
                        return Ok(());
                    }
                    fail!(28, "Cannot create field '{name}' in element {value}");
                };
                if index < items.len() {
                    return self.end_or_step(&mut Arc::make_mut(items)[index], at, change, env, true);
                }
                if !self.creates {
                    return Ok(());
                }
                if index - items.len() > PADDING_MAX {
                    fail!(BAD_VALUE, "can't backfill more than {PADDING_MAX} elements");
                }
                let mut created = self.created(at);
                self.end_or_step(&mut created, at, change, env, false)?;
                if !created.is_missing() {
                    let items = Arc::make_mut(items);
                    items.resize(index, Value::Null);
                    items.push(created);
                }
                Ok(())
            }
            _ if !self.creates => Ok(()),
            other => fail!(28, "Cannot create field '{name}' in element {{{}: {other}}}", self.target.text),
        }
    }

    /// What a missing part of the way starts as.
    fn created(&self, at: usize) -> Value {
        match self.target.parts.get(at + 1) {
            Some(Part::Field(_)) => Value::document(Document::new()),
            _ => Value::Missing,
        }
    }

    /// Whether the next part wants an array that is not there.
    fn needs_elements(&self, at: usize) -> bool {
        matches!(self.target.parts.get(at), Some(Part::All | Part::Filtered(_)))
    }
}

/// The value at a plain path; through an array only by places.
pub(super) fn value_at<'a>(value: &'a Value, parts: &[Part]) -> Result<Option<&'a Value>> {
    let Some((Part::Field(name), rest)) = parts.split_first() else { return Ok(Some(value)) };
    match value {
        Value::Document(document) => match document.get(name) {
            Some(member) => value_at(member, rest),
            None => Ok(None),
        },
        Value::Array(_) => fail!(
            BAD_VALUE,
            "The source field of $rename cannot be an array element, '{name}' is in an array"
        ),
        _ => Ok(None),
    }
}
