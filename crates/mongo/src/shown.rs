//! Answers of a find besides documents: keys of the index that answers (`returnKey`), and numbers of documents
//! (`showRecordId`).
//!
//! The number of a document is the ordinal of its item. It is unique in a collection, ascends in a partition with each insert,
//! and stays through updates, splits and merges.

use shardlake_mql::kept_collation;
use shardlake_mql::{Document, Env, Filter, Scope, Str, Value, compare_by, hashed_key};

use crate::collections::{Collection, Collections};
use crate::failure::{Failure, Result};
use crate::plan::{Access, access};
use crate::request::Request;

/// The form of the results of a find.
#[derive(Debug, Clone, Default)]
pub struct Shown {
    pub keys: Option<IndexKeys>,
    /// Where the numbers of documents are read, and of which collection.
    pub numbered: Option<(Collections, Collection)>,
}

impl Shown {
    pub(crate) fn is_plain(&self) -> bool {
        self.keys.is_none() && self.numbered.is_none()
    }

    /// The answer for a document, and for its projection; `None` where it has been removed since it was found.
    pub(crate) async fn answer(
        &self,
        request: &Request,
        env: &mut Env,
        (document, projected): (&Value, Value),
    ) -> Result<Option<Value>> {
        let Value::Document(document) = document else { return Ok(Some(projected)) };
        let shown = match &self.keys {
            Some(keys) => Value::document(keys.key_of(document, env)?),
            None => projected,
        };
        let Some((collections, collection)) = &self.numbered else { return Ok(Some(shown)) };
        let name = collection.name_of(document)?;
        let item = collections.read_named(request, collection, (name.key, name.id)).await?;
        let number = item.and_then(|item| i64::try_from(item.envelope().ordinal).ok());
        Ok(number.map(|number| {
            let mut numbered = shown.as_document().map(|shown| Document::clone(shown)).unwrap_or_default();
            numbered.push("$recordId", Value::Long(number));
            Value::document(numbered)
        }))
    }
}

/// Keys of documents in the index that answers a find. Without an index they are empty.
#[derive(Debug, Clone, Default)]
pub struct IndexKeys {
    fields: Vec<Field>,
}

#[derive(Debug, Clone)]
struct Field {
    path: Str,
    order: Order,
    /// The find's own condition on the field, as one on the member `v`.
    condition: Option<Filter>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Ascending,
    Descending,
    Hashed,
}

impl IndexKeys {
    /// Keys of the index that a hint names, or of the index that answers a filter.
    pub fn of_find(
        collection: &Collection,
        filter: &Document,
        hint: Option<&Value>,
        scope: &Scope,
    ) -> Result<IndexKeys> {
        let indexes = || collection.indexes();
        let hinted = hint.map(|hint| collection.hinted(hint)).transpose()?;
        let index = match hinted {
            Some(index) => index,
            None => match access(filter, scope.collation(), collection.shard_key(), &indexes()) {
                Access::Identity => Some(collection.identity_index()),
                Access::Index(name) => {
                    indexes().into_iter().find(|index| index.value("name").as_str() == Some(&name))
                }
                Access::Scan => None,
            },
        };
        match index {
            Some(index) => IndexKeys::of(&index, filter, scope),
            None => Ok(IndexKeys::default()),
        }
    }

    fn of(index: &Document, filter: &Document, scope: &Scope) -> Result<IndexKeys> {
        let key = index.get("key").and_then(Value::as_document).cloned().unwrap_or_default();
        let is_collated = !kept_collation(index)?.is_simple();
        let field = |(path, kind): (&Str, &Value)| {
            let order = match kind {
                Value::String(kind) if &**kind == "hashed" => Order::Hashed,
                Value::String(_) => return Err(not_shown(&format!("of kind {kind}"))),
                _ if is_collated => return Err(not_shown("with a collation")),
                _ if path.ends_with("$**") => return Err(not_shown("over all fields")),
                number if number.to_f64().is_some_and(|number| number < 0.0) => Order::Descending,
                _ => Order::Ascending,
            };
            let condition = filter.get(path).map(|condition| Document::one("v", condition.clone()));
            let condition = condition.map(|condition| Filter::parse(&condition, scope)).transpose()?;
            Ok(Field { path: path.clone(), order, condition })
        };
        Ok(IndexKeys { fields: key.iter().map(field).collect::<Result<_>>()? })
    }

    pub(crate) fn key_of(&self, document: &Document, env: &mut Env) -> Result<Document> {
        let mut key = Document::new();
        for field in &self.fields {
            key.push(field.path.clone(), field.value_of(document, env)?);
        }
        Ok(key)
    }
}

fn not_shown(of: &str) -> Failure {
    const NOT_IMPLEMENTED: i32 = 238;
    Failure::new(NOT_IMPLEMENTED, format!("find with returnKey is not supported where an index {of} answers"))
}

impl Field {
    /// The field's part of the key. If an array has several values, the key has the first match of the condition.
    fn value_of(&self, document: &Document, env: &mut Env) -> Result<Value> {
        let path: Vec<&str> = self.path.split('.').collect();
        if self.order == Order::Hashed {
            let found = path.iter().try_fold(Value::document(document.clone()), |value, name| {
                value.as_document().map(|document| document.value(name))
            });
            return Ok(hashed_key(&found.unwrap_or_default()));
        }
        let mut values = Vec::new();
        reach(&Value::document(document.clone()), &path, &mut values);
        if let (Some(condition), true) = (&self.condition, values.len() > 1) {
            let mut met = Vec::with_capacity(values.len());
            for value in &values {
                if condition.matches(&Document::one("v", value.clone()), env)? {
                    met.push(value.clone());
                }
            }
            // A condition on the array as a whole is met by none of its elements.
            values = if met.is_empty() { values } else { met };
        }
        let compared = |left: &Value, right: &Value| compare_by(&shardlake_mql::SIMPLE, left, right);
        let first = match self.order {
            Order::Descending => values.into_iter().max_by(compared),
            _ => values.into_iter().min_by(compared),
        };
        Ok(first.unwrap_or(Value::Null))
    }
}

/// The values at a path, arrays taken apart.
pub fn reach(value: &Value, path: &[impl AsRef<str>], found: &mut Vec<Value>) {
    match (value, path.split_first()) {
        (Value::Array(items), None) => found.extend(items.iter().cloned()),
        (Value::Missing, _) => {}
        (value, None) => found.push(value.clone()),
        (Value::Document(document), Some((name, rest))) => {
            reach(&document.value(name.as_ref()), rest, found);
        }
        (Value::Array(items), Some((name, rest))) => {
            if let Some(item) = name.as_ref().parse::<usize>().ok().and_then(|at| items.get(at)) {
                reach(item, rest, found);
            }
            let documents = items.iter().filter(|item| item.as_document().is_some());
            documents.for_each(|item| reach(item, path, found));
        }
        _ => {}
    }
}
