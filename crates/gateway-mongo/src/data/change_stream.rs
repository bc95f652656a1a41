//! `$changeStream`: the options of a client, and the stream as a cursor.

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use shardlake_account::collections::{
    BeforeChange, ChangeStream, FullDocument, Namespace, RESULT_BYTES_MAX, Request, StreamOptions,
    StreamRoom, StreamStart, Token, Watched, milliseconds_of, too_large,
};
use shardlake_mql::{Document, Env, Scope, Value};
use shardlake_stdx::Clock;

use crate::arguments::Arguments;
use crate::call::{Call, CursorOptions};
use crate::cursors::{Batch, BatchSource, Wants};
use crate::errors::{CommandError, Result, code, fail};
use crate::reply::Reply;

/// Label of errors after which drivers do not resume by themselves.
const NON_RESUMABLE: &str = "NonResumableChangeStreamError";
const CHANGE_STREAM_FATAL: i32 = 280;
const HISTORY_LOST: i32 = 286;
/// Databases without change streams.
const OWN_DATABASES: [&str; 3] = ["admin", "config", "local"];

/// The argument of `$changeStream` and the stages after it, if a pipeline begins with it.
pub fn asked(stages: &[Value]) -> Result<Option<(&Value, &[Value])>> {
    let Some((first, rest)) = stages.split_first() else { return Ok(None) };
    let first = first.as_document().filter(|stage| stage.len() == 1).and_then(|stage| stage.first());
    match first {
        Some((name, argument @ Value::Document(_))) if &**name == "$changeStream" => {
            Ok(Some((argument, rest)))
        }
        Some((name, argument)) if &**name == "$changeStream" => {
            Arguments::of_stage(name, argument).map(|_| None)
        }
        _ => Ok(None),
    }
}

/// Scope of the stream: a collection, a database, or the whole cluster.
pub fn watched(call: &Call, collection: Option<String>, argument: &Value) -> Result<Watched> {
    let database = call.database();
    let fields = argument.as_document();
    let is_everything = fields.is_some_and(|fields| fields.value("allChangesForCluster").is_true());
    if is_everything {
        if database != "admin" || collection.is_some() {
            fail!(
                code::INVALID_OPTIONS,
                "A $changeStream with 'allChangesForCluster:true' may only be opened on the 'admin' database, and with no collection name"
            );
        }
        return Ok(Watched::Everything);
    }
    if OWN_DATABASES.contains(&database) {
        fail!(code::INVALID_NAMESPACE, "$changeStream may not be opened on the internal {database} database");
    }
    match collection {
        Some(name) if name.starts_with("system.") => {
            fail!(
                code::INVALID_NAMESPACE,
                "$changeStream may not be opened on the internal {database}.{name} collection"
            )
        }
        Some(name) => Ok(Watched::Collection(Namespace::new(database, name))),
        None => Ok(Watched::Database(database.to_owned())),
    }
}

pub async fn open(
    call: &Call,
    (watched, argument): (Watched, &Value),
    rest: &[Value],
    (scope, env): (&Scope, Env),
    batch_size: Option<u64>,
) -> Result<Reply> {
    let arguments = Arguments::of_stage("$changeStream", argument)?;
    for option in ["showExpandedEvents", "showMigrationEvents", "showSystemEvents"] {
        if arguments.bool(option) == Some(true) {
            fail!(code::NOT_IMPLEMENTED, "$changeStream with {option}: true is not supported");
        }
    }
    let options = StreamOptions { full_document: full_document(&arguments), before: before(&arguments) };
    let asked = (start(&arguments)?, options);
    let namespace = match &watched {
        Watched::Collection(namespace) => namespace.to_string(),
        Watched::Database(_) | Watched::Everything => format!("{}.$cmd.aggregate", call.database()),
    };
    let stream = call.collections().watch(watched, asked, rest, (scope, env)).await;
    let stream = stream.map_err(|failure| told(failure.into()))?;
    let seed = call.deployment.account.router().random().u64();
    let source = Box::new(StreamSource { stream, too_large: None, seed, clock: call.clock() });
    call.open_cursor(namespace, source, CursorOptions { batch_size, ..CursorOptions::default() }).await
}

fn full_document(arguments: &Arguments<'_>) -> FullDocument {
    match arguments.string("fullDocument") {
        Some("updateLookup") => FullDocument::UpdateLookup,
        Some("whenAvailable") => FullDocument::WhenAvailable,
        Some("required") => FullDocument::Required,
        _ => FullDocument::Default,
    }
}

fn before(arguments: &Arguments<'_>) -> BeforeChange {
    match arguments.string("fullDocumentBeforeChange") {
        Some("whenAvailable") => BeforeChange::WhenAvailable,
        Some("required") => BeforeChange::Required,
        _ => BeforeChange::Off,
    }
}

fn start(arguments: &Arguments<'_>) -> Result<StreamStart> {
    let (resume, after) = (arguments.document("resumeAfter"), arguments.document("startAfter"));
    let time = arguments.given("startAtOperationTime");
    if resume.is_some() && after.is_some() {
        fail!(50674, "Do not specify both 'resumeAfter' and 'startAfter' in a $changeStream stage");
    }
    if time.is_some() && (resume.is_some() || after.is_some()) {
        fail!(40674, "Only one type of resume option is allowed, but multiple were found.");
    }
    Ok(match (resume, after, time) {
        (Some(token), ..) => StreamStart::ResumeAfter(Token::read(token)?),
        (_, Some(token), _) => StreamStart::StartAfter(Token::read(token)?),
        (_, _, Some(Value::Timestamp(seconds, increment))) => {
            StreamStart::At(milliseconds_of(*seconds, *increment))
        }
        _ => StreamStart::Now,
    })
}

/// The error, with the label that keeps drivers from resuming in vain.
fn told(error: CommandError) -> CommandError {
    match error.code() {
        CHANGE_STREAM_FATAL | HISTORY_LOST => error.with_label(NON_RESUMABLE),
        _ => error,
    }
}

struct StreamSource {
    stream: ChangeStream,
    /// Size of an event too large for any client. The stream ends before it, so that no client skips it.
    too_large: Option<usize>,
    /// Random seed of the pipeline.
    seed: u64,
    clock: Clock,
}

impl BatchSource for StreamSource {
    fn next<'s>(&'s mut self, wants: &'s Wants) -> BoxFuture<'s, Result<Batch>> {
        async move {
            if let Some(size) = self.too_large {
                return Err(too_large(size).into());
            }
            let documents_max = wants.documents_max.and_then(|max| usize::try_from(max).ok());
            let room = StreamRoom {
                documents_max: documents_max.unwrap_or(usize::MAX),
                size_bytes_max: wants.size_bytes_max,
                wait: wants.wait,
            };
            let request = Request::charged_to(
                wants.context.clone(),
                self.seed,
                wants.charged.clone(),
                self.clock.clone(),
            )
            .ending_with(wants.end.clone());
            let batch = self.stream.next(&request, room).await.map_err(|failure| told(failure.into()))?;
            let mut documents: Vec<Bytes> = batch.events.into_iter().map(Bytes::from).collect();
            let (mut is_last, mut token) = (batch.is_last, batch.token);
            if let Some(at) = documents.iter().position(|event| event.len() > RESULT_BYTES_MAX) {
                let size = documents[at].len();
                self.too_large = Some(size);
                documents.truncate(at);
                let Some(before) = documents.last() else { return Err(too_large(size).into()) };
                let before = Document::from_bytes(before)?;
                if let Value::Document(id) = before.value("_id") {
                    token = Document::clone(&id);
                }
                is_last = false;
            }
            Ok(Batch { documents, is_last, resume_token: Some(token) })
        }
        .boxed()
    }

    fn is_stream(&self) -> bool {
        true
    }

    fn resume_token(&self) -> Option<Document> {
        Some(self.stream.token())
    }
}
