//! Operators on arrays: `$push`, `$addToSet`, `$pull`, `$pullAll`, `$pop`.

use super::change::Change;
use crate::error::{BAD_VALUE, FAILED_TO_PARSE, Result, TYPE_MISMATCH, fail};
use crate::expression::{Env, Scope};
use crate::filter::{ElementFilter, Filter, is_operator_document};
use crate::order;
use crate::sort::SortPattern;
use crate::value::{Document, Value};
use shardlake_collation::Collation;

/// A change of an array, by elements that a collation compares.
#[derive(Debug)]
pub(super) struct ArrayChange {
    kind: Kind,
    collation: Collation,
}

#[derive(Debug)]
enum Kind {
    Push { items: Vec<Value>, position: Option<i64>, slice: Option<i64>, sort: Option<SortBy> },
    AddToSet(Vec<Value>),
    Pull(Pulled),
    PullAll(Vec<Value>),
    Pop { first: bool },
}

#[derive(Debug)]
enum SortBy {
    Whole { descending: bool },
    Pattern(SortPattern),
}

#[derive(Debug)]
enum Pulled {
    Equal(Value),
    Operators(ElementFilter),
    Documents(Filter),
}

pub(super) fn parse_array_change(
    name: &str,
    path: &str,
    value: &Value,
    scope: &Scope,
) -> Result<ArrayChange> {
    Ok(ArrayChange { kind: parse_kind(name, path, value, scope)?, collation: scope.collation().clone() })
}

fn parse_kind(name: &str, path: &str, value: &Value, scope: &Scope) -> Result<Kind> {
    match name {
        "$push" => parse_push(value, scope),
        "$addToSet" => parse_add_to_set(value),
        "$pull" => Ok(Kind::Pull(parse_pull(value, scope)?)),
        "$pullAll" => match value {
            Value::Array(items) => Ok(Kind::PullAll(items.to_vec())),
            other => {
                fail!(BAD_VALUE, "$pullAll requires an array argument but was given a {}", other.type_name())
            }
        },
        _ => match value.to_i64_exact() {
            Some(1) => Ok(Kind::Pop { first: false }),
            Some(-1) => Ok(Kind::Pop { first: true }),
            _ => fail!(FAILED_TO_PARSE, "$pop expects 1 or -1, found: {path}: {value}"),
        },
    }
}

fn each(document: &Document) -> Option<&Value> {
    document.get("$each")
}

fn parse_push(value: &Value, scope: &Scope) -> Result<Kind> {
    let plain = Kind::Push { items: vec![value.clone()], position: None, slice: None, sort: None };
    let Value::Document(document) = value else { return Ok(plain) };
    let Some(items) = each(document) else { return Ok(plain) };
    let Value::Array(items) = items else {
        fail!(
            BAD_VALUE,
            "The argument to $each in $push must be an array but it was of type: {}",
            items.type_name()
        );
    };
    let (mut position, mut slice, mut sort) = (None, None, None);
    for (name, value) in document.iter() {
        let whole = |what: &str| match value.to_i64_exact() {
            Some(number) => Ok(Some(number)),
            None => fail!(BAD_VALUE, "The value for {what} must be an integer value but was given {value}"),
        };
        match &**name {
            "$each" => {}
            "$position" => position = whole("$position")?,
            "$slice" => slice = whole("$slice")?,
            "$sort" => sort = Some(parse_sort(value, scope)?),
            other => fail!(BAD_VALUE, "Unrecognized clause in $push: {other}"),
        }
    }
    Ok(Kind::Push { items: items.to_vec(), position, slice, sort })
}

fn parse_sort(value: &Value, scope: &Scope) -> Result<SortBy> {
    match value {
        Value::Document(pattern) => {
            if pattern.is_empty() {
                fail!(BAD_VALUE, "The $sort pattern is empty when it should be a set of fields.");
            }
            for (name, value) in pattern.iter() {
                if name.is_empty() || name.split('.').any(str::is_empty) {
                    fail!(BAD_VALUE, "The $sort field cannot be empty or have an empty part");
                }
                if !matches!(value.to_i64_exact(), Some(1 | -1)) {
                    fail!(BAD_VALUE, "The $sort element value must be either 1 or -1");
                }
            }
            Ok(SortBy::Pattern(SortPattern::parse(pattern, scope.collation())?))
        }
        value => match value.to_i64_exact() {
            Some(1) => Ok(SortBy::Whole { descending: false }),
            Some(-1) => Ok(SortBy::Whole { descending: true }),
            _ => fail!(
                BAD_VALUE,
                "The $sort is invalid: use 1/-1 to sort the whole element, or {{field:1/-1}} to sort embedded fields"
            ),
        },
    }
}

fn parse_add_to_set(value: &Value) -> Result<Kind> {
    let Value::Document(document) = value else { return Ok(Kind::AddToSet(vec![value.clone()])) };
    let Some(items) = each(document).filter(|_| document.first().is_some_and(|(name, _)| &**name == "$each"))
    else {
        return Ok(Kind::AddToSet(vec![value.clone()]));
    };
    if document.len() > 1 {
        fail!(BAD_VALUE, "Found unexpected fields after $each in $addToSet: {document}");
    }
    match items {
        Value::Array(items) => Ok(Kind::AddToSet(items.to_vec())),
        other => fail!(
            TYPE_MISMATCH,
            "The argument to $each in $addToSet must be an array but it was of type {}",
            other.type_name()
        ),
    }
}

fn parse_pull(value: &Value, scope: &Scope) -> Result<Pulled> {
    Ok(match value {
        Value::Document(document) if is_operator_document(document) => {
            let logical = document
                .first()
                .is_some_and(|(name, _)| matches!(&**name, "$and" | "$or" | "$nor" | "$expr"));
            if logical {
                Pulled::Documents(Filter::parse(document, scope)?)
            } else {
                Pulled::Operators(ElementFilter::operators(document, scope)?)
            }
        }
        Value::Document(document) => Pulled::Documents(Filter::parse(document, scope)?),
        regex @ Value::Regex(_) => {
            Pulled::Operators(ElementFilter::operators(&Document::one("$regex", regex.clone()), scope)?)
        }
        other => Pulled::Equal(other.clone()),
    })
}

impl Pulled {
    fn takes(&self, item: &Value, collation: &Collation, env: &mut Env) -> Result<bool> {
        match self {
            Pulled::Equal(value) => Ok(order::equal_by(collation, value, item)),
            Pulled::Operators(filter) => filter.matches(item, env),
            Pulled::Documents(filter) => match item {
                Value::Document(document) => filter.matches(document, env),
                _ => Ok(false),
            },
        }
    }
}

impl ArrayChange {
    /// Whether a missing array is made.
    pub fn creates(&self) -> bool {
        matches!(self.kind, Kind::Push { .. } | Kind::AddToSet(_))
    }

    pub fn apply(&self, old: &Value, path: &str, env: &mut Env) -> Result<Change> {
        let mut items = match old {
            Value::Missing if self.creates() => Vec::new(),
            Value::Missing => return Ok(Change::None),
            Value::Array(items) => items.to_vec(),
            other => {
                let code = if matches!(self.kind, Kind::Pop { .. }) { TYPE_MISMATCH } else { BAD_VALUE };
                fail!(code, "The field '{path}' must be an array but is of type {}", other.type_name())
            }
        };
        let collation = &self.collation;
        match &self.kind {
            Kind::Push { items: new, position, slice, sort } => {
                push(&mut items, new, *position);
                if let Some(sort) = sort {
                    items = sorted(items, sort, collation)?;
                }
                if let Some(slice) = slice {
                    items = sliced(items, *slice);
                    debug_assert!(items.len() as u64 <= slice.unsigned_abs(), "a slice has so many elements");
                }
            }
            Kind::AddToSet(new) => {
                for item in new {
                    if !items.iter().any(|known| order::equal_by(collation, known, item)) {
                        items.push(item.clone());
                    }
                }
            }
            Kind::Pull(pulled) => {
                let mut kept = Vec::with_capacity(items.len());
                for item in items {
                    if !pulled.takes(&item, collation, env)? {
                        kept.push(item);
                    }
                }
                items = kept;
            }
            Kind::PullAll(values) => {
                items.retain(|item| !values.iter().any(|value| order::equal_by(collation, value, item)));
            }
            Kind::Pop { first } => {
                if items.is_empty() {
                    return Ok(Change::None);
                }
                let at = if *first { 0 } else { items.len() - 1 };
                items.remove(at);
            }
        }
        Ok(Change::Set(Value::array(items)))
    }
}

fn push(items: &mut Vec<Value>, new: &[Value], position: Option<i64>) {
    let length = items.len() as i64;
    let at = match position {
        None => length,
        Some(at) if at < 0 => (length + at).max(0),
        Some(at) => at.min(length),
    };
    debug_assert!((0..=length).contains(&at), "elements are put into the array");
    items.splice(at as usize..at as usize, new.iter().cloned());
}

fn sorted(mut items: Vec<Value>, sort: &SortBy, collation: &Collation) -> Result<Vec<Value>> {
    match sort {
        SortBy::Whole { descending } => {
            items.sort_by(|left, right| {
                let order = order::compare_by(collation, left, right);
                if *descending { order.reverse() } else { order }
            });
            Ok(items)
        }
        SortBy::Pattern(pattern) => pattern.sort_elements(items),
    }
}

fn sliced(items: Vec<Value>, slice: i64) -> Vec<Value> {
    let length = items.len() as i64;
    if slice < 0 {
        return items.into_iter().skip((length + slice).max(0) as usize).collect();
    }
    items.into_iter().take(usize::try_from(slice).unwrap_or(usize::MAX)).collect()
}
