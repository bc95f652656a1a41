//! `createIndexes`: checked, prepared, claimed by every document, and only then unique.

use std::future::Future;

use shardlake_mql::{Document, Value};
use tokio::sync::MutexGuard;

use crate::collections::{Collection, Collections, Namespace};
use crate::failure::{Failure, Result};
use crate::index_policy::{is_enforced, uniqueness_of};
use crate::index_rules::{check_kind_and_collation, checked, with_collation};
use crate::indexes::same_key;
use crate::meta::{Meta, flag};
use crate::request::Request;

/// Indexes of a collection.
const INDEXES_MAX: usize = 64;
const DUPLICATE_KEY: i32 = 11000;
const OUT_OF_TIME: i32 = 50;

/// How the indexes of a collection changed.
#[derive(Debug, Clone, Copy)]
pub struct IndexChange {
    pub before: usize,
    pub after: usize,
    pub made_collection: bool,
}

impl Collections {
    /// Creates indexes, and the collection if it does not exist. Returns when the indexes serve reads. Builds that were
    /// interrupted, by a crash or a disconnect, are finished by the next command that asks for the same indexes.
    pub async fn create_indexes(
        &self,
        request: &Request,
        namespace: &Namespace,
        specifications: Vec<Document>,
    ) -> Result<IndexChange> {
        let words = "other indexes of the collection are being made, which takes longer than the command may";
        let _lock = self.in_time(request, words, self.index_locks.take(namespace.to_string())).await?;
        let found = self.writable(namespace)?;
        let default = found.as_ref().map(|found| found.meta.collation.clone()).unwrap_or_default();
        specifications.iter().try_for_each(|index| check_kind_and_collation(index, &default))?;
        let wanted = specifications.into_iter().map(checked).collect::<Result<Vec<_>>>()?;
        let made_collection = found.is_none();
        let collection = match found {
            Some(collection) => collection,
            None => self.create_implicitly(request, namespace).await?,
        };
        // Another client may have just made the collection.
        let default = &collection.meta.collation;
        wanted.iter().try_for_each(|index| check_kind_and_collation(index, default))?;
        let wanted = wanted.into_iter().map(|index| with_collation(index, default));
        let wanted = wanted.collect::<Result<Vec<_>>>()?;
        for index in &wanted {
            check_unique_has_key(index, &collection)?;
            if is_enforced(index) && !collection.meta.is_own {
                let words = "cannot create unique index: the container was made through the NoSQL interface, which sets unique keys when it is made";
                return Err(Failure::new(67, words));
            }
        }
        let before = collection.indexes().len();
        let meta = with_indexes(&collection.meta, &wanted)?;
        let is_new = meta.indexes.len() != collection.meta.indexes.len();
        let unfinished = wanted.iter().any(|index| is_unfinished(&collection.meta, index));
        let changed = match is_new || unfinished {
            true => Box::pin(self.build(request, &collection, &meta, wanted)).await?,
            false => collection,
        };
        // Builds that are not ready in time continue.
        let words = "the index is being built, which takes longer than the command may: see listIndexes";
        let rid = changed.handle.container().rid;
        self.in_time(request, words, self.queries.router().wait_for_index(rid)).await?;
        Ok(IndexChange { before, after: changed.indexes().len(), made_collection })
    }

    async fn build(
        &self,
        request: &Request,
        collection: &Collection,
        meta: &Meta,
        wanted: Vec<Document>,
    ) -> Result<Collection> {
        self.check_all_places(request, collection, &wanted).await?;
        self.check_all_arrays(request, collection, &wanted).await?;
        let is_known = |index: &Document| {
            let name = index.value("name");
            collection.meta.indexes.iter().any(|known| known.value("name").as_str() == name.as_str())
        };
        let is_more_unique = uniqueness_of(meta)? != uniqueness_of(&collection.meta)?;
        // Prepared until every document has claimed its values, so that an interrupted command leaves no unique index
        // without all its values.
        let prepares = |index: &&Document| {
            let is_prepared_now = is_more_unique && flag(index, "unique") && !is_known(index);
            is_prepared_now || is_unfinished(&collection.meta, index)
        };
        let unique: Vec<String> = wanted.iter().filter(prepares).map(name_of).collect();
        let mut taken_back: Vec<String> = unique.clone();
        taken_back.extend(wanted.iter().filter(|index| !is_known(index)).map(name_of));
        let claims = is_more_unique || !unique.is_empty();
        let _still = match claims {
            true => Some(self.keep_partitions(request, collection).await?),
            false => None,
        };
        if claims && let Err(failure) = self.check_unique(request, collection, &wanted).await {
            if failure.code == DUPLICATE_KEY {
                self.take_back_indexes(request, collection, taken_back).await?;
            }
            return Err(failure);
        }
        let prepared = unique.clone();
        let mut changed = self
            .set_indexes(request, collection, move |meta| {
                *meta = with_indexes(meta, &wanted)?;
                for index in meta.indexes.iter_mut().filter(|index| prepared.contains(&name_of(index))) {
                    index.set(&"unique".into(), Value::Missing);
                    index.set(&"prepareUnique".into(), Value::Bool(true));
                }
                meta.unfinished.extend(prepared.iter().cloned());
                Ok(())
            })
            .await?;
        if claims && let Err(failure) = self.claim_unique(request, &changed).await {
            // A writer was faster than the check.
            self.take_back_indexes(request, &changed, taken_back).await?;
            return Err(failure);
        }
        for name in &unique {
            changed = self.set_unique(request, &changed, name).await?;
        }
        Ok(changed)
    }

    /// Blocks splits, merges and moves of the partitions while values are claimed: a copy would use the previous unique
    /// keys.
    pub(crate) async fn keep_partitions<'c>(
        &self,
        request: &Request,
        collection: &'c Collection,
    ) -> Result<MutexGuard<'c, ()>> {
        let words = "a partition is being split, merged or moved, or an index filled, which takes longer than the command may";
        self.in_time(request, words, collection.handle.entry.motion.topology.lock()).await
    }

    /// Error 50 with these words where it takes longer than the command may.
    async fn in_time<T>(
        &self,
        request: &Request,
        words: &str,
        work: impl Future<Output = T> + Send,
    ) -> Result<T> {
        let time = request.ctx.deadline.saturating_sub(self.queries.router().clock().elapsed());
        tokio::time::timeout(time, work).await.map_err(|_| Failure::new(OUT_OF_TIME, words))
    }

    /// Removes the indexes that a failed command made, and nothing else.
    async fn take_back_indexes(
        &self,
        request: &Request,
        collection: &Collection,
        names: Vec<String>,
    ) -> Result<()> {
        let is_there = |name: &String| collection.meta.indexes.iter().any(|index| name_of(index) == *name);
        if !names.iter().any(is_there) {
            return Ok(());
        }
        self.set_indexes(request, collection, move |meta| {
            meta.indexes.retain(|index| !names.contains(&name_of(index)));
            Ok(())
        })
        .await
        .map(drop)
    }
}

fn name_of(index: &Document) -> String {
    index.get("name").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Whether an interrupted command was to make this index unique.
fn is_unfinished(meta: &Meta, wanted: &Document) -> bool {
    flag(wanted, "unique") && meta.unfinished.contains(&name_of(wanted))
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
                    &as_it_is_to_be(&meta, own),
                    index,
                    &["collation", "partialFilterExpression", "sparse", "unique", "wildcardProjection"],
                )
        };
        if let Some(known) = meta.indexes.iter().find(is_same_name) {
            let known = &as_it_is_to_be(&meta, known);
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

/// The definition that an unfinished index is going to have; comparisons use this one.
fn as_it_is_to_be(meta: &Meta, known: &Document) -> Document {
    let mut known = known.clone();
    if meta.unfinished.contains(&name_of(&known)) {
        known.set(&"unique".into(), Value::Bool(true));
        known.set(&"prepareUnique".into(), Value::Missing);
    }
    known
}

fn equal_options(left: &Document, right: &Document, names: &[&str]) -> bool {
    names.iter().all(|name| {
        let (left, right) = (left.value(name), right.value(name));
        let is_off = |value: &Value| match value {
            // Earlier builds kept the simple collation with an index.
            Value::Document(collation) => collation.value("locale").as_str() == Some("simple"),
            value => value.is_missing() || matches!(value, Value::Bool(false)),
        };
        (is_off(&left) && is_off(&right)) || shardlake_mql::equal(&left, &right)
    })
}

fn check_unique_has_key(index: &Document, collection: &Collection) -> Result<()> {
    let key = index.get("key").and_then(Value::as_document).cloned().unwrap_or_default();
    let lacks = collection.shard_key().paths().iter().find(|path| !key.has(path));
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
