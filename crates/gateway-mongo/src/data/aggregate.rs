//! `aggregate`: pipelines over a collection, or over documents that they make themselves.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use shardlake_account::collections::{Aggregating, Aggregation, Found, Namespace, Request};
use shardlake_mql::{Collation, Document, Output, Pipeline, Value};
use shardlake_stdx::Clock;

use super::change_stream;
use super::collation::stated;
use super::common::{check_created, document, is_from_end};
use super::explain::{Verbosity, explain_aggregate};
use super::find::{check_hint, hint_of, rows_of_hint};
use super::own_databases::own_documents;
use super::server_stages;
use crate::arguments::{Arguments, Field, ReadLevel, Types, optional, required};
use crate::call::{Call, CursorOptions};
use crate::cursors::{Batch, BatchSource, Wants};
use crate::errors::{Result, code, fail};
use crate::reply::Reply;

const AGGREGATE: &[Field] = &[
    required("pipeline", Types::ARRAY),
    optional("cursor", Types::OBJECT),
    optional("explain", Types::BOOL),
    optional("allowDiskUse", Types::BOOL_ONLY).not_null(code::TYPE_MISMATCH),
    optional("bypassDocumentValidation", Types::BOOL),
    optional("hint", Types::ANY),
    optional("collation", Types::OBJECT),
    optional("let", Types::OBJECT),
    optional("needsMerge", Types::BOOL),
    optional("fromMongos", Types::BOOL),
    optional("exchange", Types::OBJECT),
];

pub async fn aggregate(call: &Call) -> Result<Reply> {
    let arguments = call.arguments(AGGREGATE)?;
    let collection = collection_of(call)?;
    let hint = hint_of(call)?;
    let stages = stages(&arguments)?;
    let name = collection.clone().unwrap_or_else(|| "$cmd.aggregate".to_owned());
    let namespace = Namespace::new(call.database(), name);
    let collation = match &*first_name(&stages) {
        // A stream without a collation of its own compares by bytes.
        "$changeStream" => stated(arguments.given("collation"))?.unwrap_or_default(),
        _ => call.collation(&namespace, arguments.given("collation"))?,
    };
    let batch_size = match arguments.document("cursor") {
        Some(cursor) => {
            let cursor = Arguments::of_document("cursor", cursor, &[optional("batchSize", Types::NUMBER)])?;
            cursor.count("batchSize")?
        }
        None if arguments.bool("explain") == Some(true) => None,
        None => fail!(
            code::FAILED_TO_PARSE,
            "The 'cursor' option is required, except for aggregate with the explain argument"
        ),
    };
    if arguments.bool("explain") == Some(true) {
        if call.generic.write_concern.is_some() {
            fail!(code::FAILED_TO_PARSE, "Aggregation explain does not support the 'writeConcern' option");
        }
        return Box::pin(explain_aggregate(call, &call.body, Verbosity::Planner)).await;
    }
    let request = call.request();
    let (scope, env) = request.bound(&collation, &document(&arguments, "let"))?;
    let (documents, stages) = begun(call, &namespace, collection.is_some(), stages)?;
    if let Some(documents) = documents {
        let rest = Pipeline::parse_behind_first(&stages, &scope)?;
        check_output(call, &rest)?;
        let collections = call.collections();
        let results = collections.aggregate_on(call.database(), &stages, documents, (&scope, env))?;
        return answer(call, namespace, results, (&request, &rest, &collation), &arguments, batch_size).await;
    }
    if let Some((argument, rest)) = change_stream::asked(&stages)? {
        let watched = change_stream::watched(call, collection, argument)?;
        return change_stream::open(call, (watched, argument), rest, (&scope, env), batch_size).await;
    }
    let stages = match rows_of_hint(call, &namespace, (hint.as_ref(), &collation))? {
        // This stage has to be the first.
        Some(rows) if first_name(&stages) != "$geoNear" => {
            let narrowed = Value::document(Document::one("$match", Value::document(rows)));
            [vec![narrowed], stages].concat()
        }
        _ => stages,
    };
    let parsed = Pipeline::parse(&stages, &scope)?;
    if collection.is_none() && !parsed.makes_documents() {
        fail!(
            code::INVALID_NAMESPACE,
            "{{aggregate: 1}} is not valid for a pipeline that begins with {}",
            first_name(&stages)
        );
    }
    if collection.is_some() && parsed.makes_documents() {
        fail!(code::INVALID_NAMESPACE, "$documents is only valid with {{aggregate: 1}}");
    }
    if let Found::Collection(found) = call.collections().find_name(&namespace)? {
        if first_name(&stages) == "$geoNear"
            && hint.as_ref().and_then(Value::as_document).is_some_and(|hint| hint.has("$natural"))
        {
            fail!(code::BAD_VALUE, "$geoNear cannot be used with a hint of $natural");
        }
        let first = stages.first().and_then(Value::as_document).and_then(|stage| stage.get("$match"));
        let filter = first.and_then(Value::as_document).map(|filter| Document::clone(filter));
        check_hint(&found, hint.as_ref(), (&filter.unwrap_or_default(), false))?;
    }
    check_output(call, &parsed)?;
    let (database, is_from_end) = (
        call.database().to_owned(),
        hint.as_ref().and_then(Value::as_document).is_some_and(|hint| is_from_end(hint)),
    );
    let aggregation = Aggregation { database, collection, stages, is_from_end, scope, env };
    let results = call.collections().aggregate(aggregation)?;
    answer(call, namespace, results, (&request, &parsed, &collation), &arguments, batch_size).await
}

/// Documents of the server itself, in place of the first stage's, and the stages including the first.
fn begun(
    call: &Call,
    namespace: &Namespace,
    has_collection: bool,
    stages: Vec<Value>,
) -> Result<(Option<Vec<Value>>, Vec<Value>)> {
    Ok(match own_documents(call, namespace)? {
        // An empty stage stands for the first stage that these documents replace.
        Some(documents) => (Some(documents), [vec![Value::document(Document::new())], stages].concat()),
        None => (server_stages::answered(call, namespace, has_collection, &stages)?, stages),
    })
}

/// Checks that the pipeline may write to its output collection.
fn check_output(call: &Call, pipeline: &Pipeline) -> Result<()> {
    let (stage, database, collection) = match pipeline.output() {
        None => return Ok(()),
        Some(Output::Replace { database, collection }) => ("$out", database, collection),
        Some(Output::Merge(merge)) => ("$merge", &merge.database, &merge.collection),
    };
    if call.generic.read_concern.is_some_and(|concern| concern.level == Some(ReadLevel::Linearizable)) {
        fail!(code::INVALID_OPTIONS, "{stage} cannot be used with a 'linearizable' read concern level");
    }
    check_created(&Namespace::new(database.as_deref().unwrap_or(call.database()), &**collection))?;
    if call.is_read_only() {
        fail!(code::UNAUTHORIZED, "not authorized to write with a read-only key");
    }
    Ok(())
}

/// The collection of the pipeline; `None` for 1.
fn collection_of(call: &Call) -> Result<Option<String>> {
    Ok(match call.first() {
        Value::String(_) => Some(call.collection()?.to_owned()),
        number if number.to_f64() == Some(1.0) => None,
        number if number.is_number() => {
            fail!(
                code::BAD_VALUE,
                "Invalid command format: the 'aggregate' field must specify a collection name or 1"
            )
        }
        other => fail!(code::INVALID_NAMESPACE, "collection name has invalid type {}", other.type_name()),
    })
}

/// Answers with the first batch, which is empty if the results are written to a collection.
async fn answer(
    call: &Call,
    namespace: Namespace,
    results: Aggregating,
    (request, pipeline, collation): (&Arc<Request>, &Pipeline, &Collation),
    arguments: &Arguments<'_>,
    batch_size: Option<u64>,
) -> Result<Reply> {
    if let Some(output) = pipeline.output() {
        let lets = document(arguments, "let");
        call.collections()
            .write_output(request, call.database(), output, (&lets, collation), results)
            .await?;
        return Ok(Reply::of_all(namespace.to_string(), None));
    }
    let options = CursorOptions { batch_size, ..CursorOptions::default() };
    let source = AggregateSource { results, seed: call.seed(), clock: call.clock() };
    call.open_cursor(namespace.to_string(), Box::new(source), options).await
}

/// A pipeline as the source of a cursor.
struct AggregateSource {
    results: Aggregating,
    /// Seed of random choices.
    seed: u64,
    clock: Clock,
}

impl BatchSource for AggregateSource {
    fn next<'s>(&'s mut self, wants: &'s Wants) -> BoxFuture<'s, Result<Batch>> {
        Box::pin(async move {
            let (context, charged) = (wants.context.clone(), wants.charged.clone());
            let request = Request::charged_to(context, self.seed, charged, self.clock.clone());
            let request = Arc::new(request.ending_with(wants.end.clone()));
            let documents_max = wants.documents_max.and_then(|max| usize::try_from(max).ok());
            let documents_max = documents_max.unwrap_or(usize::MAX);
            let (documents, is_last) =
                self.results.batch(&request, documents_max, wants.size_bytes_max).await?;
            let documents = documents.into_iter().map(Bytes::from).collect();
            Ok(Batch { documents, is_last, resume_token: None })
        })
    }

    fn held_bytes(&self) -> usize {
        self.results.held_bytes()
    }
}

fn stages(arguments: &Arguments<'_>) -> Result<Vec<Value>> {
    let stages = arguments.array("pipeline").unwrap_or_default();
    for stage in stages {
        if stage.as_document().is_none() {
            fail!(code::TYPE_MISMATCH, "Each element of the 'pipeline' array must be an object");
        }
    }
    Ok(stages.to_vec())
}

fn first_name(stages: &[Value]) -> String {
    let first = stages.first().and_then(Value::as_document).and_then(|stage| stage.first());
    first.map_or_else(|| "nothing".to_owned(), |(name, _)| name.to_string())
}
