//! Indexes by name: creation rules, listing and dropping (spec mongo.md §17).

use shardlake_mql::kept_collation;
use shardlake_mql::{
    Collation, Document, Value, by_collation, document_of_collation, has_strings, identical_documents,
};

use crate::collections::{Collection, Collections};
use crate::failure::{Failure, Result};
use crate::meta::flag;
use crate::request::Request;
use crate::wildcard_rules::has_entries_of;

/// The index that every collection has.
pub fn identity_index() -> Document {
    let mut index = Document::one("v", Value::Int(2));
    index.push("key", Value::document(Document::one("_id", Value::Int(1))));
    index.push("name", Value::string("_id_"));
    index
}

impl Collection {
    /// The index over `_id`, which has the collation of the collection.
    pub fn identity_index(&self) -> Document {
        let mut index = identity_index();
        if let Some(collation) = document_of_collation(&self.meta.collation) {
            index.push("collation", Value::document(collation));
        }
        index
    }

    /// As `listIndexes` shows them.
    pub fn indexes(&self) -> Vec<Document> {
        let mut indexes = vec![self.identity_index()];
        if !self.meta.is_open {
            // Another front end's policy, as close as an index by name can express it.
            let mut all = Document::one("v", Value::Int(2));
            all.push("key", Value::document(Document::one("$**", Value::Int(1))));
            all.push("name", Value::string("$**_1"));
            let policy = &self.handle.container().definition.indexing_policy;
            indexes.extend((!policy.included_paths.is_empty()).then_some(all));
        }
        if let Some(pattern) = self.meta.shard_key_pattern(self.shard_key())
            && !self.meta.indexes.iter().any(|index| {
                index
                    .get("key")
                    .and_then(Value::as_document)
                    .is_some_and(|key| identical_documents(key, &pattern))
            })
            && !(pattern.len() == 1 && pattern.has("_id"))
        {
            let name: Vec<String> =
                pattern.iter().map(|(field, kind)| format!("{field}_{}", plain(kind))).collect();
            let mut index = Document::one("v", Value::Int(2));
            index.push("key", Value::document(pattern));
            index.push("name", Value::string(name.join("_")));
            indexes.push(index);
        }
        indexes.extend(self.meta.indexes.iter().cloned());
        indexes
    }

    /// The index that a hint names; error 2 where there is none.
    pub fn hinted(&self, hint: &Value) -> Result<Option<Document>> {
        let unknown = || {
            Failure::new(
                2,
                "error processing query: planner returned error: bad hint: hint provided does not correspond to an existing index",
            )
        };
        let matches = |index: &Document| match hint {
            Value::String(name) => index.get("name").and_then(Value::as_str) == Some(name),
            Value::Document(key) => {
                index.get("key").and_then(Value::as_document).is_some_and(|own| same_key(own, key))
            }
            _ => false,
        };
        match hint {
            Value::Document(key) if key.is_empty() || key.has("$natural") => Ok(None),
            Value::String(name) if &**name == "$natural" => Ok(None),
            _ => {
                let found = self.indexes().into_iter().find(matches).ok_or_else(unknown)?;
                // The planner ignores hidden indexes.
                if flag(&found, "hidden") { Err(unknown()) } else { Ok(Some(found)) }
            }
        }
    }

    /// Whether the index of a hint can answer a filter. A wildcard index answers conditions on its fields. Only a
    /// geographic index finds documents near a point.
    pub fn is_answered_by(&self, hint: &Value, filter: &Document, is_near: bool) -> Result<bool> {
        let Some(index) = self.hinted(hint)? else { return Ok(true) };
        if is_near {
            let key = index.get("key").and_then(Value::as_document);
            return Ok(key.is_some_and(|key| {
                key.iter().any(|(_, kind)| matches!(kind.as_str(), Some("2d" | "2dsphere")))
            }));
        }
        // Indexes of other kinds are not restricted.
        match has_entries_of(&index, "any") {
            None => Ok(true),
            Some(_) => Ok(paths_of(filter).iter().any(|path| has_entries_of(&index, path) == Some(true))),
        }
    }

    /// The filter that a hint adds to a command with `collation`: read alone, an index of part of the documents returns
    /// only that part.
    pub fn rows_of_hint(&self, hint: &Value, collation: &Collation) -> Result<Option<Document>> {
        let Some(index) = self.hinted(hint)? else { return Ok(None) };
        if let Some(filter) = index.get("partialFilterExpression").and_then(Value::as_document) {
            let own = kept_collation(&index)?;
            let is_alike = own == *collation || !has_strings(&Value::Document(filter.clone()));
            return Ok(Some(if is_alike { Document::clone(filter) } else { by_collation(filter, &own) }));
        }
        if !flag(&index, "sparse") {
            return Ok(None);
        }
        let key = index.get("key").and_then(Value::as_document).cloned().unwrap_or_default();
        let there = |path: &str| {
            Value::document(Document::one(path, Value::document(Document::one("$exists", Value::Bool(true)))))
        };
        let parts = key.iter().map(|(path, _)| there(path)).collect();
        Ok(Some(Document::one("$or", Value::array(parts))))
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string(),
        number => number.to_i64_exact().map_or_else(|| number.to_string(), |number| number.to_string()),
    }
}

/// Directions are compared by value: 1 is 1.0.
pub(crate) fn same_key(left: &Document, right: &Document) -> bool {
    left.len() == right.len()
        && left.iter().zip(right.iter()).all(|((a, x), (b, y))| a == b && shardlake_mql::equal(x, y))
}

impl Collections {
    /// Drops the indexes that a name, a key, a list of names or `*` selects; returns how many there were.
    pub async fn drop_indexes(
        &self,
        request: &Request,
        collection: &Collection,
        which: &Value,
    ) -> Result<usize> {
        let before = collection.indexes().len();
        let names = names_of(collection, which)?;
        self.set_indexes(request, collection, move |meta| {
            meta.indexes.retain(|index| {
                !index
                    .get("name")
                    .and_then(Value::as_str)
                    .is_some_and(|name| names.iter().any(|own| own == name))
            });
            Ok(())
        })
        .await?;
        Ok(before)
    }

    /// Changes options of one index by name; `Missing` takes one out.
    pub(crate) async fn change_index(
        &self,
        request: &Request,
        collection: &Collection,
        name: &str,
        options: &'static [(&'static str, Value)],
    ) -> Result<Collection> {
        let name = name.to_owned();
        self.set_indexes(request, collection, move |meta| {
            let index = meta
                .indexes
                .iter_mut()
                .find(|index| index.get("name").and_then(Value::as_str) == Some(&name));
            let index = index.ok_or_else(|| Failure::new(27, format!("cannot find index {name}")))?;
            for (option, value) in options {
                index.set(&(*option).into(), value.clone());
            }
            Ok(())
        })
        .await
    }
}

fn names_of(collection: &Collection, which: &Value) -> Result<Vec<String>> {
    let own = |index: &Document| index.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let by_name = |name: &str| {
        if name == "_id_" {
            return Err(Failure::new(72, "cannot drop _id index"));
        }
        let known = collection.indexes().iter().any(|index| own(index) == name);
        match known {
            true => Ok(name.to_owned()),
            false => Err(Failure::new(27, format!("index not found with name [{name}]"))),
        }
    };
    match which {
        Value::String(name) if &**name == "*" => Ok(collection.meta.indexes.iter().map(own).collect()),
        Value::String(name) => Ok(vec![by_name(name)?]),
        Value::Array(names) => names
            .iter()
            .map(|name| {
                let name = name.as_str().ok_or_else(|| {
                    Failure::new(14, "dropIndexes: the names of a list of indexes must be strings")
                })?;
                by_name(name)
            })
            .collect(),
        Value::Document(key) => {
            let matching: Vec<Document> = collection
                .indexes()
                .into_iter()
                .filter(|index| {
                    index.get("key").and_then(Value::as_document).is_some_and(|known| same_key(known, key))
                })
                .collect();
            match &matching[..] {
                [] => Err(Failure::new(
                    27,
                    format!("can't find index with key: {}", Value::document(Document::clone(key))),
                )),
                [index] => Ok(vec![by_name(&own(index))?]),
                _ => Err(Failure::new(181, "several indexes have this key: drop them by name")),
            }
        }
        other => Err(Failure::new(
            14,
            format!(
                "BSON field 'dropIndexes.index' is the wrong type '{}', expected types '[string, object]'",
                other.type_name()
            ),
        )),
    }
}

/// The fields that a filter has conditions on, all of which have to hold.
fn paths_of(filter: &Document) -> Vec<&str> {
    let mut paths = Vec::new();
    for (name, value) in filter.iter() {
        match (&**name, value) {
            ("$and", Value::Array(parts)) => {
                paths.extend(parts.iter().filter_map(Value::as_document).flat_map(|part| paths_of(part)));
            }
            (name, _) if !name.starts_with('$') => paths.push(name),
            _ => {}
        }
    }
    paths
}
