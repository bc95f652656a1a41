//! `$out` and `$merge`: the results of a pipeline, written (spec mongo.md §15).

use std::sync::Arc;

use shardlake_mql::kept_collation;
use shardlake_mql::write::{Action, ActionSource, DocumentStep, StepSource};
use shardlake_mql::{
    Collation, Document, Matched, MergeTarget, Output, SortPattern, Str, Value, WhenMatched, WhenNotMatched,
    parse_expression,
};

use crate::aggregate::Aggregating;
use crate::catalog::Creation;
use crate::collections::{Collection, Collections, Namespace};
use crate::failure::{Failure, Result};
use crate::meta::BESIDE;
use crate::request::Request;
use crate::temporary::guarded;
use crate::update::Statement;

/// How the results of a pipeline are merged.
#[derive(Clone, Copy)]
struct Merging<'m> {
    target: &'m MergeTarget,
    variables: &'m Document,
    collation: &'m Collation,
}

const DUPLICATE_KEY: i32 = 11000;
const NOT_MATCHED: i32 = 13113;
const INVALID_DOCUMENT: i32 = 121;
/// Results that are written at a time.
const PART_BYTES: usize = 4 << 20;

impl Collections {
    /// Writes results where a pipeline sends them, a part at a time; `database` is the command's.
    pub async fn write_output(
        &self,
        request: &Arc<Request>,
        database: &str,
        output: &Output,
        (variables, collation): (&Document, &Collation),
        results: Aggregating,
    ) -> Result<()> {
        match output {
            Output::Replace { database: other, collection } => {
                let database = other.as_deref().unwrap_or(database);
                self.replace_with(request, &Namespace::new(database, &**collection), results).await
            }
            Output::Merge(target) => {
                let database = target.database.as_deref().unwrap_or(database);
                let namespace = Namespace::new(database, &*target.collection);
                // A pipeline that met its own results might not end.
                let bytes_max = if results.reads(&namespace) { usize::MAX } else { PART_BYTES };
                let merging = Merging { target, variables, collation };
                Box::pin(self.merge(request, &namespace, merging, (results, bytes_max))).await
            }
        }
    }

    /// Everything is written to a temporary collection, which then takes the name of the target: readers see one or the other.
    async fn replace_with(
        &self,
        request: &Arc<Request>,
        target: &Namespace,
        results: Aggregating,
    ) -> Result<()> {
        let old = self.writable(target)?;
        if old.as_ref().is_some_and(Collection::is_sharded) {
            return Err(Failure::new(
                28769,
                format!("$out to the sharded collection {target} is not supported: use $merge"),
            ));
        }
        if old.as_ref().is_some_and(|old| old.meta.is_capped()) {
            let words = format!("namespace '{target}' is capped so it can't be used for $out");
            return Err(Failure::new(17152, words));
        }
        let (collections, request, target) = (self.clone(), request.clone(), target.clone());
        guarded(move |interruption| async move {
            let beside = format!("{BESIDE}{}", collections.queries.router().random().guid());
            let beside = Namespace::new(&*target.database, beside);
            let options = old.as_ref().map(|old| old.meta.options.clone()).unwrap_or_default();
            let creation = Creation { options, is_temporary: true, ..Creation::default() };
            let made = collections.create(&request, &beside, creation).await?;
            // Boxed because the future is large.
            let filling = Box::pin(collections.fill(&request, &made, old.as_ref(), results));
            let filled = interruption.or(filling).await;
            let outcome = match filled {
                Ok(()) => collections.rename(&beside, &target, true).await,
                Err(failure) => Err(failure),
            };
            if outcome.is_err()
                && let Err(failure) = collections.drop_temporary(made.handle.container().rid).await
            {
                tracing::warn!(?failure, collection = %beside, "a temporary collection stays until the next start");
            }
            outcome
        })
        .await
    }

    /// Gives a collection the indexes of another one, and documents.
    async fn fill(
        &self,
        request: &Arc<Request>,
        made: &Collection,
        old: Option<&Collection>,
        mut results: Aggregating,
    ) -> Result<()> {
        if let Some(old) = old {
            let indexes = old.meta.indexes.clone();
            self.set_indexes(request, made, move |own| {
                own.indexes.clone_from(&indexes);
                Ok(())
            })
            .await?;
        }
        loop {
            let (rows, is_last) = results.rows(request, PART_BYTES).await?;
            let documents = rows.into_iter().filter_map(|row| row.as_document().cloned()).collect();
            let inserted = self
                .insert(request, &made.namespace, documents, (true, request.asks_validators()), None)
                .await?;
            if let Some((_, failure)) = inserted.failures.into_iter().next() {
                return Err(failure);
            }
            if is_last {
                return Ok(());
            }
        }
    }

    async fn merge(
        &self,
        request: &Arc<Request>,
        namespace: &Namespace,
        merging: Merging<'_>,
        (mut results, bytes_max): (Aggregating, usize),
    ) -> Result<()> {
        let collection = self.writable(namespace)?;
        let on = match (&merging.target.on[..], &collection) {
            ([], Some(collection)) => {
                let keys = collection.shard_key().paths().iter().map(|path| Str::from(path.as_str()));
                let mut on = vec![Str::from("_id")];
                on.extend(keys.filter(|path| &**path != "_id"));
                on
            }
            ([], None) => vec![Str::from("_id")],
            (on, _) => on.to_vec(),
        };
        let Some(nullish) = uniqueness(&on, collection.as_ref(), merging.collation)? else {
            return Err(Failure::new(51183, "Cannot find index to verify that join fields will be unique"));
        };
        let gathering = self.gathering();
        let merged = async {
            loop {
                let (rows, is_last) = results.rows(request, bytes_max).await?;
                let mut refused = None;
                for row in rows {
                    let merging = gathering.merge_row(request, namespace, merging, (&on, nullish), &row);
                    match Box::pin(merging).await {
                        // The other documents of the part are written, as those of an unordered write are.
                        Err(failure) if is_of_row(&failure) => drop(refused.get_or_insert(failure)),
                        merged => merged?,
                    }
                    gathering.pause().await?;
                }
                if let Some(failure) = refused {
                    return Err(failure);
                }
                if is_last {
                    return Ok(());
                }
            }
        };
        let merged: Result<()> = merged.await;
        gathering.settle().await?;
        merged
    }

    async fn merge_row(
        &self,
        request: &Arc<Request>,
        namespace: &Namespace,
        Merging { target, variables: given, collation }: Merging<'_>,
        (on, nullish): (&[Str], Nullish),
        row: &Value,
    ) -> Result<()> {
        let mut new = row.as_document().map(|row| Document::clone(row)).unwrap_or_default();
        if !new.has("_id") && on.iter().any(|path| &**path == "_id") {
            new.push_front("_id", Value::ObjectId(self.new_object_id(request)));
        }
        let filter = filter_of(&mut new, (on, nullish))?;
        let mut variables = given.clone();
        let update = match &target.matched {
            WhenMatched::Keep | WhenMatched::Fail => {
                Value::document(Document::one("$setOnInsert", new.clone()))
            }
            WhenMatched::Replace => Value::document(new.clone()),
            WhenMatched::Merge => Value::document(Document::one("$set", new.clone())),
            WhenMatched::Pipeline(stages) => {
                let literal = |value: Value| Value::document(Document::one("$literal", value));
                let (scope, mut env) = request.bound(collation, given)?;
                variables.set(&"new".into(), literal(Value::document(new.clone())));
                for (name, expression) in target.variables.iter().flat_map(Document::iter) {
                    // A variable without a value is not set.
                    match parse_expression(expression, &scope)?.evaluate_on(&mut env, row)? {
                        Value::Missing => drop(variables.remove(name)),
                        value => variables.set(name, literal(value)),
                    }
                }
                Value::array(stages.clone())
            }
        };
        let (scope, env) = request.bound(collation, &variables)?;
        let keeps = matches!(target.matched, WhenMatched::Keep | WhenMatched::Fail);
        let action = ActionSource::Update { update, array_filters: Vec::new() };
        let mut statement = Statement {
            step: Arc::new(DocumentStep::of(StepSource { filter, action, scope })?),
            is_upsert: false,
            is_multi: false,
            sort: SortPattern::default(),
            env,
            checks: request.asks_validators(),
            numbered: None,
        };
        let done = Box::pin(self.run_statement(request, namespace, &mut statement)).await?;
        if done.matched > 0 {
            let fails = keeps && matches!(target.matched, WhenMatched::Fail);
            return match fails {
                true => Err(Failure::new(
                    DUPLICATE_KEY,
                    "$merge found a matching document in the target collection",
                )),
                false => Ok(()),
            };
        }
        match target.not_matched {
            WhenNotMatched::Discard => Ok(()),
            WhenNotMatched::Fail => Err(Failure::new(
                NOT_MATCHED,
                "$merge could not find a matching document in the target collection for at least one document",
            )),
            WhenNotMatched::Insert => {
                let new = match &target.matched {
                    WhenMatched::Keep | WhenMatched::Merge => in_order_of(&statement, new, request),
                    _ => new,
                };
                let inserted = self
                    .insert(request, namespace, vec![Arc::new(new)], (true, request.asks_validators()), None)
                    .await?;
                inserted.failures.into_iter().next().map_or(Ok(()), |(_, failure)| Err(failure))
            }
        }
    }
}

/// Whether a failure is that of one document alone, and others can be written.
fn is_of_row(failure: &Failure) -> bool {
    failure.is_of_document || matches!(failure.code, DUPLICATE_KEY | NOT_MATCHED | INVALID_DOCUMENT)
}

/// A new document with its fields in the order in which an update adds them. If the update fails, the document stays as
/// it is.
fn in_order_of(statement: &Statement, new: Document, request: &Request) -> Document {
    let Action::Update(update) = &statement.step.value().action else { return new };
    let made = update.apply(&Document::new(), Matched::default(), true, &mut request.env());
    made.map_or(new, |made| made.document)
}

/// Treatment of a missing or null value in a field that identifies documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nullish {
    Refused,
    /// A value like others: the index has documents without the field at null.
    Null,
}

/// Finds the document that another one is merged into.
fn filter_of(new: &mut Document, (on, nullish): (&[Str], Nullish)) -> Result<Document> {
    let mut filter = Document::new();
    for path in on {
        let value = value_at(new, path);
        let value = match value {
            Value::Missing | Value::Null | Value::Undefined if nullish == Nullish::Refused => {
                return Err(Failure::new(
                    51132,
                    "$merge write error: 'on' field cannot be missing, null or undefined",
                ));
            }
            Value::Array(_) => {
                return Err(Failure::new(51185, "$merge write error: 'on' field cannot be an array"));
            }
            Value::Missing if !path.contains('.') => {
                new.push(path.clone(), Value::Null);
                Value::Null
            }
            Value::Missing | Value::Undefined => Value::Null,
            value => value,
        };
        filter.push(path.clone(), Value::document(Document::one("$eq", value)));
    }
    Ok(filter)
}

/// How a unique index over these fields and this collation treats missing values; `None` if there is no such index.
fn uniqueness(on: &[Str], collection: Option<&Collection>, collation: &Collation) -> Result<Option<Nullish>> {
    let is = |paths: &[&str]| {
        paths.len() == on.len() && paths.iter().all(|path| on.iter().any(|own| **own == **path))
    };
    let Some(collection) = collection else {
        return Ok(is(&["_id"]).then_some(Nullish::Refused));
    };
    let mut identity = vec!["_id"];
    identity.extend(collection.shard_key().paths().iter().map(String::as_str).filter(|path| *path != "_id"));
    if is(&identity) && collection.meta.collation == *collation {
        return Ok(Some(Nullish::Refused));
    }
    let flag = crate::meta::flag;
    let is_of = |index: &Document| {
        let key = index.get("key").and_then(Value::as_document);
        key.is_some_and(|key| is(&key.iter().map(|(name, _)| &**name).collect::<Vec<_>>()))
    };
    let mut unique = Vec::new();
    for index in collection.meta.indexes.iter().filter(|index| flag(index, "unique") && is_of(index)) {
        if kept_collation(index)? == *collation {
            unique.push(index);
        }
    }
    let has_all = |index: &&Document| !flag(index, "sparse") && !index.has("partialFilterExpression");
    Ok(match unique.iter().any(has_all) {
        _ if unique.is_empty() => None,
        true => Some(Nullish::Null),
        false => Some(Nullish::Refused),
    })
}

fn value_at(document: &Document, path: &str) -> Value {
    let mut value = Value::document(document.clone());
    for part in path.split('.') {
        value = match &value {
            Value::Document(inner) => inner.value(part),
            Value::Array(_) => return value,
            _ => return Value::Missing,
        };
    }
    value
}
