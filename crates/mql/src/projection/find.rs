//! Projections of `find` and `findAndModify`: those of `$project`, with `$slice`, `$elemMatch` and the positional `$`.

use super::parse::{Builder, as_flag, insert, split};
use super::tree::{Child, Mode, Projection};
use crate::error::{Result, fail};
use crate::expression::{Env, Scope};
use crate::filter::{Filter, Matched};
use crate::metadata;
use crate::value::{Document, Str, Value};

/// A parsed projection of `find`.
#[derive(Clone, Debug)]
pub struct FindProjection {
    projection: Projection,
    extras: Vec<(Vec<Str>, Extra)>,
}

#[derive(Clone, Debug)]
enum Extra {
    Slice(i64, Option<i64>),
    ElementMatch(Filter),
    /// The element that the query matched.
    Positional,
}

impl FindProjection {
    /// Parses a projection.
    pub fn parse(document: &Document, scope: &Scope) -> Result<FindProjection> {
        let mut builder = Builder { scope, root: Default::default(), mode: None, id: None };
        let mut extras: Vec<(Vec<Str>, Extra)> = Vec::new();
        metadata::check_members(document, true)?;
        for (path, value) in document.iter() {
            if path.split('.').next() == Some("$") {
                fail!(
                    16410,
                    "FieldPath field names may not start with '$'. Consider using $getField or $setField."
                );
            }
            if path.ends_with(".$") {
                parse_positional(path, value, &mut builder, &mut extras)?;
                continue;
            }
            if path.contains(".$.") || path.split('.').any(|part| part == "$") {
                fail!(31394, "positional projection may only be used at the end of a path: {path}");
            }
            match special(value) {
                Some(("$slice", operand)) => parse_slice(path, operand, &mut builder, &mut extras)?,
                Some(("$elemMatch", operand)) => {
                    parse_element_match(path, operand, &mut builder, &mut extras)?
                }
                _ => builder.member(&[], path, value, 0)?,
            }
        }
        let matches = extras.iter().any(|(_, extra)| matches!(extra, Extra::ElementMatch(_)));
        if matches && builder.mode.is_none() {
            builder.mode = Some(Mode::Include);
        }
        let slices_alone = builder.mode.is_none() && builder.id != Some(true);
        let mut projection = builder.finish()?;
        if slices_alone {
            projection.mode = Mode::Exclude;
        }
        Ok(FindProjection { projection, extras })
    }

    /// Whether the projection needs to know which element the query matched.
    pub fn needs_match(&self) -> bool {
        self.extras.iter().any(|(_, extra)| matches!(extra, Extra::Positional))
    }

    pub fn apply(&self, document: &Value, matched: Matched, env: &mut Env) -> Result<Value> {
        let mut result = self.projection.apply(document, env)?;
        for (path, extra) in &self.extras {
            result = match extra {
                Extra::Slice(first, count) => {
                    at_path(&result, path, &mut |value| slice(value, *first, *count))
                }
                Extra::ElementMatch(filter) => {
                    // An exclusion keeps the member where it stands, an inclusion shows it last.
                    let in_place = self.projection.mode == Mode::Exclude;
                    first_match(result, document, path, filter, (in_place, env))?
                }
                Extra::Positional => {
                    let mut code = None;
                    let result = at_first_array(&result, path, &mut |items| {
                        match matched.index.map(|index| items.get(index)) {
                            Some(Some(item)) => return Value::array(vec![item.clone()]),
                            Some(None) => code = Some(51247),
                            None => code = Some(51246),
                        }
                        Value::Missing
                    });
                    if let Some(code) = code {
                        fail!(
                            code,
                            "Executor error during find command: positional operator '.$' couldn't find a matching element in the array"
                        );
                    }
                    result
                }
            };
        }
        Ok(result)
    }
}

/// The operator of a value that only `find` knows.
fn special(value: &Value) -> Option<(&str, &Value)> {
    match value {
        Value::Document(document) if document.len() == 1 => {
            document.first().map(|(name, operand)| (&**name, operand))
        }
        _ => None,
    }
}

fn parse_positional(
    path: &str,
    value: &Value,
    builder: &mut Builder<'_>,
    extras: &mut Vec<(Vec<Str>, Extra)>,
) -> Result<()> {
    let bare = path.strip_suffix(".$").unwrap_or(path);
    if bare.split('.').any(|part| part == "$") {
        fail!(31394, "positional projection may only be used at the end of a path: {path}");
    }
    if as_flag(value) == Some(false) || builder.mode == Some(Mode::Exclude) {
        fail!(31395, "positional projection cannot be used with exclusion");
    }
    if as_flag(value).is_none() && !matches!(value, Value::Document(_)) {
        fail!(31308, "positional projection cannot be used with a literal");
    }
    if as_flag(value).is_none() {
        fail!(31271, "positional projection cannot be used with an expression or sub object");
    }
    if extras.iter().any(|(_, extra)| matches!(extra, Extra::Positional)) {
        fail!(31276, "Cannot specify more than one positional projection per query.");
    }
    if extras.iter().any(|(_, extra)| matches!(extra, Extra::ElementMatch(_))) {
        fail!(31256, "Cannot specify positional operator and $elemMatch.");
    }
    let parts = split(bare)?;
    builder.mode = Some(Mode::Include);
    insert(&mut builder.root, &parts, Child::Keep)?;
    extras.push((parts, Extra::Positional));
    Ok(())
}

fn parse_slice(
    path: &str,
    operand: &Value,
    builder: &mut Builder<'_>,
    extras: &mut Vec<(Vec<Str>, Extra)>,
) -> Result<()> {
    let whole = |value: &Value| {
        let number = value.to_f64().map(|number| number.clamp(-2_147_483_648.0, 2_147_483_647.0) as i64);
        number.filter(|_| value.is_number())
    };
    let extra = match operand {
        Value::Array(items) => {
            if items.len() == 3
                || matches!(items.first(), Some(Value::Array(_) | Value::String(_) | Value::Document(_)))
            {
                // The operator of expressions.
                return builder.member(
                    &[],
                    path,
                    &Value::document(Document::one("$slice", operand.clone())),
                    0,
                );
            }
            let [skip, limit] = &items[..] else {
                fail!(
                    28667,
                    "Invalid $slice syntax. The given syntax did not match the find() syntax: $slice array argument should be of form [skip, limit]"
                );
            };
            let (Some(skip), Some(limit)) = (whole(skip), whole(limit)) else {
                fail!(28724, "First argument to $slice must be an array");
            };
            if limit <= 0 {
                fail!(28724, "$slice limit must be positive, got {limit}");
            }
            Extra::Slice(skip, Some(limit))
        }
        value => match whole(value) {
            Some(count) => Extra::Slice(count, None),
            None => {
                fail!(28667, "Invalid $slice syntax. $slice only supports numbers and [skip, limit] arrays")
            }
        },
    };
    let parts = split(path)?;
    // In an inclusion the member is named by its slice as well.
    if builder.mode == Some(Mode::Include) {
        insert(&mut builder.root, &parts, Child::Keep)?;
    } else {
        let mut probe = builder.root.clone();
        insert(&mut probe, &parts, Child::Keep)?;
        builder.root = probe;
    }
    extras.push((parts, extra));
    Ok(())
}

fn parse_element_match(
    path: &str,
    operand: &Value,
    builder: &mut Builder<'_>,
    extras: &mut Vec<(Vec<Str>, Extra)>,
) -> Result<()> {
    if path.contains('.') {
        fail!(31275, "Cannot use $elemMatch projection on a nested field.");
    }
    let Value::Document(_) = operand else {
        fail!(31274, "elemMatch: Invalid argument, object required, but got {}", operand.type_name())
    };
    if extras.iter().any(|(_, extra)| matches!(extra, Extra::Positional)) {
        fail!(31255, "Cannot specify positional operator and $elemMatch.");
    }
    let parts = split(path)?;
    let query = Document::one(path, Value::document(Document::one("$elemMatch", operand.clone())));
    let filter = Filter::parse(&query, builder.scope)?;
    insert(&mut builder.root, &parts, Child::Keep)?;
    extras.push((parts, Extra::ElementMatch(filter)));
    Ok(())
}

/// Replaces the value at a path, in each element of arrays on the way.
fn at_path(value: &Value, path: &[Str], change: &mut dyn FnMut(&Value) -> Value) -> Value {
    let Some((name, rest)) = path.split_first() else { return change(value) };
    match value {
        Value::Document(document) => {
            let mut document = (**document).clone();
            if let Some(member) = document.get_mut(name) {
                *member = at_path(member, rest, change);
            }
            document.retain(|_, member| !member.is_missing());
            Value::document(document)
        }
        Value::Array(items) => Value::array(items.iter().map(|item| at_path(item, path, change)).collect()),
        other => other.clone(),
    }
}

/// Replaces the first array on a path.
fn at_first_array(value: &Value, path: &[Str], change: &mut dyn FnMut(&[Value]) -> Value) -> Value {
    if let Value::Array(items) = value {
        return change(items);
    }
    match (value, path.split_first()) {
        (Value::Document(document), Some((name, rest))) => {
            let mut document = (**document).clone();
            if let Some(member) = document.get_mut(name) {
                *member = at_first_array(member, rest, change);
            }
            document.retain(|_, member| !member.is_missing());
            Value::document(document)
        }
        (other, _) => other.clone(),
    }
}

fn slice(value: &Value, first: i64, count: Option<i64>) -> Value {
    let Value::Array(items) = value else { return value.clone() };
    let length = items.len() as i64;
    let (start, count) = match count {
        None if first < 0 => ((length + first).max(0), length),
        None => (0, first),
        Some(count) => (if first < 0 { (length + first).max(0) } else { first }, count),
    };
    Value::array(items.iter().skip(start as usize).take(count as usize).cloned().collect())
}

fn first_match(
    result: Value,
    document: &Value,
    path: &[Str],
    filter: &Filter,
    (in_place, env): (bool, &mut Env),
) -> Result<Value> {
    let (Value::Document(result), Value::Document(whole)) = (&result, document) else { return Ok(result) };
    let name = &path[0];
    let mut found = None;
    if let Some(Value::Array(items)) = whole.get(name) {
        for item in items.iter() {
            let probe = Document::one(name, Value::array(vec![item.clone()]));
            if filter.matches(&probe, env)? {
                found = Some(Value::array(vec![item.clone()]));
                break;
            }
        }
    }
    let mut shown = (**result).clone();
    match (found, in_place) {
        (Some(found), true) => shown.set(name, found),
        (found, _) => {
            shown.remove(name);
            found.into_iter().for_each(|found| shown.push(name.clone(), found));
        }
    }
    Ok(Value::document(shown))
}
