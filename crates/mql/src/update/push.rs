//! Operators on arrays: `$push`, `$addToSet`, `$pull`, `$pullAll`, `$pop`.

use super::modifier::Change;
use crate::error::{BAD_VALUE, FAILED_TO_PARSE, Result, TYPE_MISMATCH, fail};
use crate::expression::{Env, Scope};
use crate::filter::{ElementFilter, Filter, is_operator_document};
use crate::order;
use crate::sort::SortPattern;
use crate::value::{Document, Value};

#[derive(Debug)]
pub(super) enum ArrayChange {
    Push { items: Vec<Value>, position: Option<i64>, slice: Option<i64>, sort: Option<SortBy> },
    AddToSet(Vec<Value>),
    Pull(Pulled),
    PullAll(Vec<Value>),
    Pop { first: bool },
}

#[derive(Debug)]
pub(super) enum SortBy {
    Whole { descending: bool },
    Pattern(SortPattern),
}

#[derive(Debug)]
pub(super) enum Pulled {
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
    match name {
        "$push" => parse_push(value),
        "$addToSet" => parse_add_to_set(value),
        "$pull" => Ok(ArrayChange::Pull(parse_pull(value, scope)?)),
        "$pullAll" => match value {
            Value::Array(items) => Ok(ArrayChange::PullAll(items.to_vec())),
            other => {
                fail!(BAD_VALUE, "$pullAll requires an array argument but was given a {}", other.type_name())
            }
        },
        _ => match value.to_i64_exact() {
            Some(1) => Ok(ArrayChange::Pop { first: false }),
            Some(-1) => Ok(ArrayChange::Pop { first: true }),
            _ => fail!(FAILED_TO_PARSE, "$pop expects 1 or -1, found: {path}: {value}"),
        },
    }
}

fn each(document: &Document) -> Option<&Value> {
    document.get("$each")
}

fn parse_push(value: &Value) -> Result<ArrayChange> {
    let plain = ArrayChange::Push { items: vec![value.clone()], position: None, slice: None, sort: None };
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
            "$sort" => sort = Some(parse_sort(value)?),
            other => fail!(BAD_VALUE, "Unrecognized clause in $push: {other}"),
        }
    }
    Ok(ArrayChange::Push { items: items.to_vec(), position, slice, sort })
}

fn parse_sort(value: &Value) -> Result<SortBy> {
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
            Ok(SortBy::Pattern(SortPattern::parse(pattern)?))
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

fn parse_add_to_set(value: &Value) -> Result<ArrayChange> {
    let Value::Document(document) = value else { return Ok(ArrayChange::AddToSet(vec![value.clone()])) };
    let Some(items) = each(document).filter(|_| document.first().is_some_and(|(name, _)| &**name == "$each"))
    else {
        return Ok(ArrayChange::AddToSet(vec![value.clone()]));
    };
    if document.len() > 1 {
        fail!(BAD_VALUE, "Found unexpected fields after $each in $addToSet: {document}");
    }
    match items {
        Value::Array(items) => Ok(ArrayChange::AddToSet(items.to_vec())),
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
    fn takes(&self, item: &Value, env: &mut Env) -> Result<bool> {
        match self {
            Pulled::Equal(value) => Ok(order::equal(value, item)),
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
        matches!(self, ArrayChange::Push { .. } | ArrayChange::AddToSet(_))
    }

    pub fn apply(&self, old: &Value, path: &str, env: &mut Env) -> Result<Change> {
        let mut items = match old {
            Value::Missing if self.creates() => Vec::new(),
            Value::Missing => return Ok(Change::None),
            Value::Array(items) => items.to_vec(),
            other => {
                let code = if matches!(self, ArrayChange::Pop { .. }) { TYPE_MISMATCH } else { BAD_VALUE };
                fail!(code, "The field '{path}' must be an array but is of type {}", other.type_name())
            }
        };
        match self {
            ArrayChange::Push { items: new, position, slice, sort } => {
                push(&mut items, new, *position);
                if let Some(sort) = sort {
                    items = sorted(items, sort)?;
                }
                if let Some(slice) = slice {
                    items = sliced(items, *slice);
                }
            }
            ArrayChange::AddToSet(new) => {
                for item in new {
                    if !items.iter().any(|known| order::equal(known, item)) {
                        items.push(item.clone());
                    }
                }
            }
            ArrayChange::Pull(pulled) => {
                let mut kept = Vec::with_capacity(items.len());
                for item in items {
                    if !pulled.takes(&item, env)? {
                        kept.push(item);
                    }
                }
                items = kept;
            }
            ArrayChange::PullAll(values) => {
                items.retain(|item| !values.iter().any(|value| order::equal(value, item)));
            }
            ArrayChange::Pop { first } => {
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
    items.splice(at as usize..at as usize, new.iter().cloned());
}

fn sorted(mut items: Vec<Value>, sort: &SortBy) -> Result<Vec<Value>> {
    match sort {
        SortBy::Whole { descending } => {
            items.sort_by(|left, right| {
                let order = order::compare(left, right);
                if *descending { order.reverse() } else { order }
            });
            Ok(items)
        }
        SortBy::Pattern(pattern) => Ok(pattern.sort_elements(items)),
    }
}

fn sliced(items: Vec<Value>, slice: i64) -> Vec<Value> {
    let length = items.len() as i64;
    if slice < 0 {
        return items.into_iter().skip((length + slice).max(0) as usize).collect();
    }
    items.into_iter().take(usize::try_from(slice).unwrap_or(usize::MAX)).collect()
}
