//! Plans of filters: the partitions that hold the documents, and a condition that all the documents meet.
//!
//! The condition is weaker than the filter, never stronger: documents that it lets through are matched again. Queries
//! of the engine compare values as JSON shows them and do not look into arrays. So each leaf also lets through values
//! that may hide a match: an array on the way, or an object that stands for a type which JSON lacks.
//!
//! The engine compares strings by their bytes. Under another collation, conditions on strings are left to the match.

use shardlake_document::Value as Plain;
use shardlake_items::FeedScope;
use shardlake_model::PartitionKey;
use shardlake_mql::kept_collation;
use shardlake_mql::write::{ShardKey, identity_text, stored_path};
use shardlake_mql::{Collation, Document, Value, has_strings};
use shardlake_sql::{ItemQuery, Predicate, SortKey};
use std::borrow::Cow;

use crate::collated::{self, fields_of, sort_key_of};
use crate::conditions::{IN_MAX, hidden_in, is_operators};

/// How the documents of a filter are reached.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The shard key, if the filter's equalities give all of its components.
    pub key: Option<PartitionKey>,
    pub scope: FeedScope,
    /// The identity of the one document that it can be.
    pub id: Option<String>,
    pub query: ItemQuery,
}

/// How a filter may be answered, before anything is read.
#[derive(Debug, Clone, PartialEq)]
pub enum Access {
    /// By the key of the one document that it can be.
    Identity,
    /// By an index of this name, unless reading everything is cheaper.
    Index(String),
    Scan,
}

/// Which access a filter has in a collection with these indexes.
pub fn access(
    filter: &Document,
    collation: &Collation,
    shard_key: &ShardKey,
    indexes: &[Document],
) -> Access {
    let mut plan = plan(filter, collation, shard_key);
    let is_own = |index: &&Document| kept_collation(index).is_ok_and(|own| own == *collation);
    let served = indexes.iter().filter(is_own).flat_map(fields_of).map(str::to_owned);
    let served: Vec<String> = served.filter(|_| !collation.is_simple()).collect();
    plan.narrow(filter, collation, &served);
    access_of(&plan, indexes.iter())
}

impl Plan {
    /// Adds conditions on strings under a collation.
    pub(crate) fn narrow(&mut self, filter: &Document, collation: &Collation, served: &[String]) {
        if served.is_empty() || (self.key.is_some() && self.id.is_some()) {
            return;
        }
        if let Some(more) = collated::condition(filter, collation, served) {
            let parts = self.query.filter.take().into_iter().chain([more]);
            self.query.filter = Some(Predicate::All(parts.collect()));
        }
    }
}

/// The access of a plan.
pub(crate) fn access_of<'i>(plan: &Plan, mut indexes: impl Iterator<Item = &'i Document>) -> Access {
    if plan.key.is_some() && plan.id.is_some() {
        return Access::Identity;
    }
    let mut named = Vec::new();
    let is_narrowed = plan.query.filter.as_ref().is_some_and(|filter| {
        names(filter, &mut named);
        !named.is_empty()
    });
    let serves = |index: &&Document| {
        let collation = kept_collation(index).unwrap_or_default();
        let key = index.get("key").and_then(Value::as_document);
        key.is_some_and(|key| {
            key.iter().any(|(name, _)| named.iter().any(|named| named.is_served_by(name, &collation)))
        })
    };
    let found = indexes.find(serves).filter(|_| is_narrowed);
    let name = found.and_then(|index| index.get("name")).and_then(Value::as_str);
    name.map_or(Access::Scan, |name| Access::Index(name.to_owned()))
}

/// A value that a condition names.
enum Named<'p> {
    /// At a path, compared by bytes; whether it is a string.
    Value(&'p [String], bool),
    SortKey(&'p SortKey),
}

impl Named<'_> {
    /// Whether a field of an index holds such values.
    fn is_served_by(&self, field: &str, collation: &Collation) -> bool {
        match self {
            Named::Value(path, is_string) => {
                (collation.is_simple() || !is_string) && (field == "$**" || **path == stored_path(field))
            }
            Named::SortKey(key) => sort_key_of(field, collation).as_ref() == Some(*key),
        }
    }
}

fn names<'p>(predicate: &'p Predicate, named: &mut Vec<Named<'p>>) {
    let is_string = |value: &Plain| matches!(value, Plain::String(_));
    match predicate {
        Predicate::Equal { path, value } => named.push(Named::Value(path, is_string(value))),
        Predicate::Range { path, from, to } => {
            let mut bounds = from.iter().chain(to).map(|(bound, _)| bound);
            named.push(Named::Value(path, bounds.any(is_string)));
        }
        Predicate::SortKey { key, .. } => named.push(Named::SortKey(key)),
        Predicate::All(parts) | Predicate::Any(parts) => parts.iter().for_each(|part| names(part, named)),
        _ => {}
    }
}

/// Plans a filter on a collection with this shard key.
pub fn plan(filter: &Document, collation: &Collation, shard_key: &ShardKey) -> Plan {
    let filter = by_bytes(filter, collation);
    let key = shard_key.of_equalities(|path| equality(&filter, path));
    let id = identity(&filter);
    let is_whole = shard_key.is_whole(&key);
    let scope = if key.0.is_empty() { FeedScope::All } else { FeedScope::Key(key.clone()) };
    // One document by its key is read without a query.
    let condition = if is_whole && id.is_some() { None } else { condition(&filter) };
    let query = ItemQuery { filter: condition, ..ItemQuery::default() };
    Plan { key: is_whole.then_some(key), scope, id, query }
}

/// The shard key that a filter names: whole, its first parts, or nothing of it.
pub(crate) fn key_of(filter: &Document, collation: &Collation, shard_key: &ShardKey) -> PartitionKey {
    let filter = by_bytes(filter, collation);
    shard_key.of_equalities(|path| equality(&filter, path))
}

/// The shard key and the identity of the one document that a filter can mean, if it names both.
pub(crate) fn point(
    filter: &Document,
    collation: &Collation,
    shard_key: &ShardKey,
) -> Option<(PartitionKey, String)> {
    let filter = by_bytes(filter, collation);
    let id = identity(&filter)?;
    let key = shard_key.of_equalities(|path| equality(&filter, path));
    shard_key.is_whole(&key).then_some((key, id))
}

/// The conditions of a filter that compare by bytes: under a collation, those that name no string.
fn by_bytes<'f>(filter: &'f Document, collation: &Collation) -> Cow<'f, Document> {
    if collation.is_simple() { Cow::Borrowed(filter) } else { Cow::Owned(without_strings(filter)) }
}

/// A filter without its conditions on strings. A branch of an alternative that has only such conditions becomes empty
/// and matches everything.
fn without_strings(filter: &Document) -> Document {
    let mut kept = Document::new();
    for (name, value) in filter.iter() {
        match (&**name, value) {
            ("$and" | "$or", Value::Array(parts)) => {
                let part = |part: &Value| match part {
                    Value::Document(part) => Value::document(without_strings(part)),
                    other => other.clone(),
                };
                kept.push(name.clone(), Value::array(parts.iter().map(part).collect()));
            }
            (_, Value::Document(operators)) if is_operators(operators) => {
                let plain = operators.iter().filter(|(_, operand)| !has_strings(operand));
                let plain: Document =
                    plain.map(|(operator, operand)| (operator.clone(), operand.clone())).collect();
                if !plain.is_empty() {
                    kept.push(name.clone(), Value::document(plain));
                }
            }
            (_, value) if has_strings(value) => {}
            (_, value) => kept.push(name.clone(), value.clone()),
        }
    }
    kept
}

fn identity(filter: &Document) -> Option<String> {
    equality(filter, "_id").and_then(|value| identity_text(&value).ok())
}

/// The value that a filter demands of a path, and nothing else of it: a scalar, which arrays may hold too.
fn equality(filter: &Document, path: &str) -> Option<Value> {
    for (name, value) in filter.iter() {
        match (&**name, value) {
            ("$and", Value::Array(parts)) => {
                let found = parts.iter().filter_map(Value::as_document).find_map(|part| equality(part, path));
                if found.is_some() {
                    return found;
                }
            }
            (name, Value::Document(operators)) if name == path && is_operators(operators) => {
                return operators.get("$eq").filter(|value| is_scalar(value)).cloned();
            }
            (name, value) if name == path && (is_scalar(value) || path == "_id") => {
                return (!matches!(value, Value::Regex(_))).then(|| value.clone());
            }
            _ => {}
        }
    }
    None
}

fn is_scalar(value: &Value) -> bool {
    !matches!(value, Value::Document(_) | Value::Array(_) | Value::Regex(_) | Value::Null | Value::Undefined)
}

/// A condition that holds for every document that matches the filter; `None` if there is none.
fn condition(filter: &Document) -> Option<Predicate> {
    let parts: Vec<Predicate> = filter.iter().filter_map(|(name, value)| member(name, value)).collect();
    (!parts.is_empty()).then_some(Predicate::All(parts))
}

fn member(name: &str, value: &Value) -> Option<Predicate> {
    let parts = || value.as_array().map(|parts| parts.iter().map(|part| condition(part.as_document()?)));
    match name {
        "$and" => {
            let known: Vec<Predicate> = parts()?.flatten().collect();
            (!known.is_empty()).then_some(Predicate::All(known))
        }
        // A branch without a condition makes the whole alternative unconditional.
        "$or" => parts()?.collect::<Option<Vec<_>>>().map(Predicate::Any),
        _ if name.starts_with('$') => None,
        path => match value {
            Value::Document(operators) if is_operators(operators) => {
                let known: Vec<Predicate> =
                    operators.iter().filter_map(|(operator, value)| leaf(path, operator, value)).collect();
                (!known.is_empty()).then_some(Predicate::All(known))
            }
            value => leaf(path, "$eq", value),
        },
    }
}

fn leaf(path: &str, operator: &str, value: &Value) -> Option<Predicate> {
    match operator {
        "$eq" => equal(path, value),
        "$in" => {
            let values = value.as_array()?;
            if values.len() > IN_MAX {
                return None;
            }
            values.iter().map(|value| equal(path, value)).collect::<Option<Vec<_>>>().map(Predicate::Any)
        }
        "$gt" | "$gte" => range(path, Some((value, operator == "$gte")), None),
        "$lt" | "$lte" => range(path, None, Some((value, operator == "$lte"))),
        _ => None,
    }
}

fn equal(path: &str, value: &Value) -> Option<Predicate> {
    if path == "_id" {
        return equal_id(value);
    }
    let stored = stored_path(path);
    let mut any = hidden_in(&stored);
    match value {
        Value::ObjectId(_) | Value::Date(_) => {
            let (member, text) = shown(value)?;
            any.push(Predicate::Equal { path: below(&stored, member), value: Plain::String(text) });
            any.push(Predicate::IsArray { path: stored });
        }
        value => {
            let plain = plain(value)?;
            any.push(Predicate::Equal { path: stored.clone(), value: plain.clone() });
            any.push(Predicate::Contains { path: stored.clone(), value: plain });
            if let Some(hidden) = hidden_at(&stored, value) {
                any.push(hidden);
                any.push(Predicate::ContainsObject { path: stored });
            }
        }
    }
    Some(Predicate::Any(any))
}

/// Both forms in which an identity may be stored.
fn equal_id(value: &Value) -> Option<Predicate> {
    let path = vec!["id".to_owned()];
    let text = identity_text(value).ok()?;
    let mut any = vec![Predicate::Equal { path: path.clone(), value: Plain::String(text) }];
    if let Some(plain) = plain(value)
        && !matches!(plain, Plain::String(_))
    {
        any.push(Predicate::Equal { path: path.clone(), value: plain });
    }
    any.push(Predicate::IsObject { path });
    Some(Predicate::Any(any))
}

type Bound<'v> = Option<(&'v Value, bool)>;

fn range(path: &str, from: Bound<'_>, to: Bound<'_>) -> Option<Predicate> {
    let (value, _) = from.or(to)?;
    if path == "_id" {
        return range_of_ids(value, from.is_some());
    }
    let stored = stored_path(path);
    let mut any = hidden_in(&stored);
    match value {
        Value::ObjectId(_) => {
            let (member, text) = shown(value)?;
            let bound = (Plain::String(text), true);
            let (from, to) = if from.is_some() { (Some(bound), None) } else { (None, Some(bound)) };
            any.push(Predicate::Range { path: below(&stored, member), from, to });
            any.push(Predicate::IsArray { path: stored });
        }
        // Shown as text with or without milliseconds, so that seconds are compared: one more, one less.
        Value::Date(at) => {
            const SECOND: i64 = 1000;
            let whole = at.div_euclid(SECOND) * SECOND;
            let member = "$date";
            let bound = if from.is_some() { whole - SECOND } else { whole + 2 * SECOND };
            let (_, text) = shown(&Value::Date(bound))?;
            let bound = (Plain::String(text), true);
            let (from, to) = if from.is_some() { (Some(bound), None) } else { (None, Some(bound)) };
            let dates = below(&stored, member);
            any.push(Predicate::Range { path: dates.clone(), from, to });
            any.push(Predicate::IsObject { path: dates });
            any.push(Predicate::IsArray { path: stored });
        }
        Value::Bool(_) | Value::Null | Value::MinKey | Value::MaxKey => return None,
        value => {
            let bound = |bound: Bound<'_>| Some((plain(bound?.0)?, true));
            // The engine orders text by UTF-16.
            if matches!(value, Value::String(text) if text.chars().any(|c| c >= '\u{D7FF}')) {
                return None;
            }
            plain(value)?;
            any.push(Predicate::Range { path: stored.clone(), from: bound(from), to: bound(to) });
            any.push(Predicate::IsArray { path: stored.clone() });
            any.extend(hidden_at(&stored, value));
        }
    }
    Some(Predicate::Any(any))
}

/// The condition for a range of ObjectIds. Other identities have texts in another order than their values.
fn range_of_ids(value: &Value, is_from: bool) -> Option<Predicate> {
    let Value::ObjectId(_) = value else { return None };
    let text = |text: &str| Plain::String(text.to_owned());
    let own = Plain::String(identity_text(value).ok()?);
    let (from, to) = if is_from { (own, text("$oid;")) } else { (text("$oid:"), own) };
    let path = vec!["id".to_owned()];
    Some(Predicate::Range { path, from: Some((from, true)), to: Some((to, true)) })
}

/// A number may be a decimal, a text a symbol: both are shown as objects.
fn hidden_at(path: &[String], value: &Value) -> Option<Predicate> {
    let may_hide = value.is_number() || matches!(value, Value::String(_));
    may_hide.then(|| Predicate::IsObject { path: path.to_vec() })
}

fn below(path: &[String], member: &str) -> Vec<String> {
    path.iter().cloned().chain([member.to_owned()]).collect()
}

/// The member and the text that JSON shows a value by.
pub(crate) fn shown(value: &Value) -> Option<(&'static str, String)> {
    let bytes = Document::one("", value.clone()).to_bytes();
    let raw = shardlake_document::RawDocument::assume_valid(&bytes).get("")?;
    let Plain::Object(members) = Plain::from_raw(raw) else { return None };
    let (name, text) = members.into_iter().next()?;
    let Plain::String(text) = text else { return None };
    let member = if name == "$oid" { "$oid" } else { "$date" };
    Some((member, text))
}

/// A value that JSON has as well.
fn plain(value: &Value) -> Option<Plain> {
    Some(match value {
        Value::Bool(value) => Plain::Bool(*value),
        Value::String(text) => Plain::String(text.to_string()),
        Value::Int(value) => Plain::Int(i64::from(*value)),
        Value::Long(value) => Plain::Int(*value),
        Value::Double(value) if value.is_finite() => Plain::Double(*value),
        // Only numbers that are exactly this one are found under it.
        Value::Decimal(value) => {
            let whole = value.to_integer().and_then(|whole| i64::try_from(whole).ok());
            whole.map(Plain::Int)?
        }
        _ => return None,
    })
}
