//! Indexes by name: what may be made, what is there, what is dropped (spec mongo.md §17).

use shardlake_mql::{Document, Value, identical_documents};

use crate::collections::{Collection, Collections, Namespace};
use crate::failure::{Failure, Result};
use crate::index_policy::{is_enforced, uniqueness_of};
use crate::index_rules::checked;
use crate::meta::Meta;
use crate::meta::flag;
use crate::request::Request;

/// Indexes of a collection.
const INDEXES_MAX: usize = 64;

/// How the indexes of a collection changed.
#[derive(Debug, Clone, Copy)]
pub struct IndexChange {
    pub before: usize,
    pub after: usize,
    pub made_collection: bool,
}

/// The index that every collection has.
pub fn identity_index() -> Document {
    let mut index = Document::one("v", Value::Int(2));
    index.push("key", Value::document(Document::one("_id", Value::Int(1))));
    index.push("name", Value::string("_id_"));
    index
}

impl Collection {
    /// As `listIndexes` shows them.
    pub fn indexes(&self) -> Vec<Document> {
        let mut indexes = vec![identity_index()];
        if !self.meta.is_open {
            // Another front end's policy, as far as this one can say it.
            let mut all = Document::one("v", Value::Int(2));
            all.push("key", Value::document(Document::one("$**", Value::Int(1))));
            all.push("name", Value::string("$**_1"));
            let policy = &self.handle.container().definition.indexing_policy;
            indexes.extend((!policy.included_paths.is_empty()).then_some(all));
        }
        if let Some(pattern) = self.meta.shard_key_pattern(&self.shard_key)
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
                // A hidden one is not there for the planner.
                if flag(&found, "hidden") { Err(unknown()) } else { Ok(Some(found)) }
            }
        }
    }

    /// The filter that a hint adds: an index that holds part of the documents, read alone, gives these.
    pub fn rows_of_hint(&self, hint: &Value) -> Result<Option<Document>> {
        let Some(index) = self.hinted(hint)? else { return Ok(None) };
        if let Some(filter) = index.get("partialFilterExpression").and_then(Value::as_document) {
            return Ok(Some(Document::clone(filter)));
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
fn same_key(left: &Document, right: &Document) -> bool {
    left.len() == right.len()
        && left.iter().zip(right.iter()).all(|((a, x), (b, y))| a == b && shardlake_mql::equal(x, y))
}

impl Collections {
    /// Makes indexes, and the collection where there is none. Returns when they serve.
    pub async fn create_indexes(
        &self,
        request: &Request,
        namespace: &Namespace,
        specifications: Vec<Document>,
    ) -> Result<IndexChange> {
        let found = self.writable(namespace)?;
        let mut wanted = Vec::new();
        for specification in specifications {
            wanted.push(checked(specification)?);
        }
        let made_collection = found.is_none();
        let collection = match found {
            Some(collection) => collection,
            None => self.create_implicitly(request, namespace).await?,
        };
        for index in &wanted {
            check_unique_has_key(index, &collection)?;
            if is_enforced(index) && !collection.meta.is_own {
                let words = "cannot create unique index: the container was made through the NoSQL interface, which sets unique keys when it is made";
                return Err(Failure::new(67, words));
            }
        }
        let before = collection.indexes().len();
        let meta = with_indexes(&collection.meta, &wanted)?;
        if meta.indexes.len() == collection.meta.indexes.len() {
            return Ok(IndexChange { before, after: before, made_collection });
        }
        self.check_all_places(request, &collection, &wanted).await?;
        let is_more_unique = uniqueness_of(&meta)? != uniqueness_of(&collection.meta)?;
        if is_more_unique {
            self.check_unique(request, &collection, &wanted).await?;
        }
        // Prepared until every document has claimed its values, so that a command that is broken off leaves no index that says
        // more than it holds.
        let unique: Vec<String> = wanted
            .iter()
            .filter(|index| is_more_unique && flag(index, "unique"))
            .filter_map(|index| index.get("name").and_then(Value::as_str).map(str::to_owned))
            .filter(|name| {
                !collection.meta.indexes.iter().any(|known| known.value("name").as_str() == Some(name))
            })
            .collect();
        let prepared = unique.clone();
        let changed = self
            .set_indexes(request, &collection, move |indexes| {
                let own = Meta { indexes: std::mem::take(indexes), ..Meta::default() };
                *indexes = with_indexes(&own, &wanted)?.indexes;
                for index in indexes.iter_mut() {
                    let name = index.value("name");
                    if prepared.iter().any(|prepared| name.as_str() == Some(prepared)) {
                        index.set(&"unique".into(), Value::Missing);
                        index.set(&"prepareUnique".into(), Value::Bool(true));
                    }
                }
                Ok(())
            })
            .await?;
        if is_more_unique && let Err(failure) = self.claim_unique(request, &changed).await {
            self.take_back_indexes(request, &changed, collection.indexes()).await?;
            return Err(failure);
        }
        let mut changed = changed;
        for name in &unique {
            changed = self.set_unique(request, &changed, name).await?;
        }
        // Within the time of the command; what is not ready then goes on being built.
        let time = request.ctx.deadline.saturating_sub(self.queries.clock().elapsed());
        let rid = changed.handle.container().rid;
        let ready = tokio::time::timeout(time, self.queries.wait_for_index(rid)).await;
        if ready.is_err() {
            return Err(Failure::new(
                50,
                "the index is being built, which takes longer than the command may: see listIndexes",
            ));
        }
        Ok(IndexChange { before, after: changed.indexes().len(), made_collection })
    }

    /// Leaves the indexes that were there before: a writer was faster than the check of a unique one.
    async fn take_back_indexes(
        &self,
        request: &Request,
        collection: &Collection,
        before: Vec<Document>,
    ) -> Result<()> {
        let was_there = move |index: &Document| {
            let name = index.value("name");
            before.iter().any(|known| known.value("name").as_str() == name.as_str())
        };
        self.set_indexes(request, collection, move |indexes| {
            indexes.retain(&was_there);
            Ok(())
        })
        .await
        .map(drop)
    }

    /// Drops the indexes that a name, a key, a list of names or `*` means; says how many there were.
    pub async fn drop_indexes(
        &self,
        request: &Request,
        collection: &Collection,
        which: &Value,
    ) -> Result<usize> {
        let before = collection.indexes().len();
        let names = names_of(collection, which)?;
        self.set_indexes(request, collection, move |indexes| {
            indexes.retain(|index| {
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
        self.set_indexes(request, collection, move |indexes| {
            let index =
                indexes.iter_mut().find(|index| index.get("name").and_then(Value::as_str) == Some(&name));
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

/// The indexes of a collection with others; an identical one changes nothing.
fn with_indexes(meta: &Meta, wanted: &[Document]) -> Result<Meta> {
    let mut meta = meta.clone();
    for index in wanted {
        let name = index.value("name");
        let key = index.get("key").and_then(Value::as_document).cloned().unwrap_or_default();
        if key.len() == 1 && key.has("_id") {
            continue;
        }
        let is_same_name = |own: &&Document| own.get("name").and_then(Value::as_str) == name.as_str();
        let is_same_key = |own: &&Document| {
            own.get("key").and_then(Value::as_document).is_some_and(|known| same_key(known, &key))
                && equal_options(
                    own,
                    index,
                    &["collation", "partialFilterExpression", "sparse", "unique", "wildcardProjection"],
                )
        };
        if let Some(known) = meta.indexes.iter().find(is_same_name) {
            let words = format!("An existing index has the same name as the requested index: {name}");
            let known_key = known.get("key").and_then(Value::as_document).cloned().unwrap_or_default();
            if !same_key(&known_key, &key) {
                return Err(Failure::new(86, words));
            }
            if !equal_options(
                known,
                index,
                &[
                    "unique",
                    "sparse",
                    "expireAfterSeconds",
                    "partialFilterExpression",
                    "collation",
                    "wildcardProjection",
                ],
            ) {
                return Err(Failure::new(86, words));
            }
            if !equal_options(known, index, &["hidden"]) {
                let words = format!("An equivalent index exists with another 'hidden': {name}");
                return Err(Failure::new(85, words));
            }
            continue;
        }
        if let Some(known) = meta.indexes.iter().find(is_same_key) {
            let words = format!("Index already exists with a different name: {}", known.value("name"));
            return Err(Failure::new(85, words));
        }
        if meta.indexes.len() + 1 >= INDEXES_MAX {
            return Err(Failure::new(67, format!("a collection takes at most {INDEXES_MAX} indexes")));
        }
        meta.indexes.push(index.clone());
    }
    Ok(meta)
}

fn equal_options(left: &Document, right: &Document, names: &[&str]) -> bool {
    names.iter().all(|name| {
        let (left, right) = (left.value(name), right.value(name));
        let is_off = |value: &Value| value.is_missing() || matches!(value, Value::Bool(false));
        (is_off(&left) && is_off(&right)) || shardlake_mql::equal(&left, &right)
    })
}

fn check_unique_has_key(index: &Document, collection: &Collection) -> Result<()> {
    let key = index.get("key").and_then(Value::as_document).cloned().unwrap_or_default();
    let lacks = collection.shard_key.paths().iter().find(|path| !key.has(path));
    match lacks {
        Some(path) if is_enforced(index) => Err(Failure::new(
            67,
            format!(
                "cannot create unique index over {}: it must hold the shard key '{path}'",
                Value::document(Document::clone(&key))
            ),
        )),
        _ => Ok(()),
    }
}
