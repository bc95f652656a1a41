//! `bulkWrite`: writes of any kind to any collections, one after the other.

use std::sync::Arc;

use shardlake_account::collections::{Collection, Collections, Namespace, NumberedInserts, Statement};
use shardlake_mql::write::{ActionSource, AnswerForm, DocumentStep, StepSource, inserted_answer};
use shardlake_mql::{Document, SortPattern, Value};

use super::common::{check_created, check_written, document, sort};
use super::find::{hinted_filter, hinted_write};
use super::write::statement;
use crate::arguments::{Arguments, Field, Types, check_collection, check_database, optional, required};
use crate::call::{Call, CursorOptions};
use crate::cursors::Listed;
use crate::errors::{CommandError, Result, code, error, fail};
use crate::reply::Reply;

const OPERATIONS_MAX: usize = 100_000;
const DOCUMENT_BYTES_MAX: usize = 16 * 1024 * 1024;

const BULK_WRITE: &[Field] = &[
    required("ops", Types::ARRAY),
    required("nsInfo", Types::ARRAY),
    optional("ordered", Types::BOOL_ONLY),
    optional("bypassDocumentValidation", Types::BOOL),
    optional("bypassEmptyTsReplacement", Types::BOOL_ONLY),
    optional("errorsOnly", Types::BOOL_ONLY),
    optional("let", Types::OBJECT),
    optional("cursor", Types::OBJECT),
    optional("stmtId", Types::INTEGER),
    optional("stmtIds", Types::ARRAY),
];
const NAMESPACE: &[Field] = &[
    required("ns", Types::STRING),
    optional("collectionUUID", Types::BINARY),
    optional("encryptionInformation", Types::OBJECT),
    optional("isTimeseriesNamespace", Types::BOOL),
];
const INSERT: &[Field] = &[required("insert", Types::NUMBER), required("document", Types::OBJECT)];
const UPDATE: &[Field] = &[
    required("update", Types::NUMBER),
    required("filter", Types::OBJECT),
    required("updateMods", Types::ANY),
    optional("arrayFilters", Types::ARRAY),
    optional("multi", Types::BOOL_ONLY),
    optional("hint", Types::ANY),
    optional("constants", Types::OBJECT),
    optional("collation", Types::OBJECT),
    optional("upsert", Types::BOOL_ONLY),
    optional("upsertSupplied", Types::BOOL_ONLY),
    optional("sort", Types::OBJECT),
    optional("sampleId", Types::BINARY),
];
const DELETE: &[Field] = &[
    required("delete", Types::NUMBER),
    required("filter", Types::OBJECT),
    optional("multi", Types::BOOL_ONLY),
    optional("hint", Types::ANY),
    optional("collation", Types::OBJECT),
    optional("sampleId", Types::BINARY),
];

/// One write, and its target collection.
struct Operation {
    kind: Kind,
    fields: Arc<Document>,
    target: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Insert,
    Update,
    Delete,
}

impl Kind {
    fn table(self) -> &'static [Field] {
        match self {
            Kind::Insert => INSERT,
            Kind::Update => UPDATE,
            Kind::Delete => DELETE,
        }
    }
}

struct Target {
    namespace: Namespace,
    uuid: Option<Value>,
}

#[derive(Default)]
struct Totals {
    errors: i32,
    inserted: i32,
    matched: i32,
    modified: i32,
    upserted: i32,
    deleted: i32,
}

pub async fn bulk_write(call: &Call) -> Result<Reply> {
    let arguments = call.arguments(BULK_WRITE)?;
    let operations = operations(&arguments)?;
    let targets = targets(&arguments)?;
    if let Some(operation) = operations.iter().find(|operation| operation.target >= targets.len()) {
        fail!(
            code::BAD_VALUE,
            "BulkWrite ops entry names namespace {}, but nsInfo has {}",
            operation.target,
            targets.len()
        );
    }
    let is_multi = |operation: &&Operation| operation.fields.get("multi").is_some_and(Value::is_true);
    if call.retryable.is_some() && operations.iter().any(|operation| is_multi(&operation)) {
        fail!(code::INVALID_OPTIONS, "Cannot use retryable writes with multi=true");
    }
    let is_ordered = arguments.bool("ordered") != Some(false);
    let errors_only = arguments.bool("errorsOnly") == Some(true);
    let checks = arguments.bool("bypassDocumentValidation") != Some(true);
    let lets = document(&arguments, "let");
    let batch_size = match arguments.document("cursor") {
        Some(cursor) => Arguments::of_document("cursor", cursor, &[optional("batchSize", Types::NUMBER)])?
            .count("batchSize")?,
        None => None,
    };
    let collections = call.collections().gathering();
    let running = Running { call, collections, lets: &lets, checks, is_ordered, errors_only };
    let (totals, results) = running.run_all(&operations, &targets).await?;
    let options =
        CursorOptions { batch_size: Some(batch_size.unwrap_or(u64::MAX)), ..CursorOptions::default() };
    let namespace = "admin.$cmd.bulkWrite".to_owned();
    let mut reply = call.open_cursor(namespace, Box::new(Listed::new(results)), options).await?;
    for (name, value) in [
        ("nErrors", totals.errors),
        ("nInserted", totals.inserted),
        ("nMatched", totals.matched),
        ("nModified", totals.modified),
        ("nUpserted", totals.upserted),
        ("nDeleted", totals.deleted),
    ] {
        reply.fields.push(name, Value::Int(value));
    }
    Ok(reply)
}

/// A running command.
struct Running<'c> {
    call: &'c Call,
    collections: Collections,
    lets: &'c Document,
    checks: bool,
    is_ordered: bool,
    errors_only: bool,
}

impl Running<'_> {
    /// Runs the operations one after the other, and waits for the disk once for many of them.
    async fn run_all(&self, operations: &[Operation], targets: &[Target]) -> Result<(Totals, Vec<Document>)> {
        let Running { call, collections, .. } = self;
        let (mut totals, mut results, mut done) = (Totals::default(), Vec::new(), Vec::new());
        let ran = async {
            for (index, operation) in operations.iter().enumerate() {
                let outcome =
                    self.replay_or_run(operation, &targets[operation.target], index, &mut done).await;
                let failed = !matches!(outcome, Ok((_, None)));
                let result = match outcome {
                    Ok((result, stopped)) => {
                        totals.note(operation.kind, &result);
                        match stopped {
                            None => result,
                            Some(error) => {
                                totals.errors += 1;
                                failure(&error, &result)
                            }
                        }
                    }
                    Err(error) => {
                        call.check_goes_on(&error)?;
                        totals.errors += 1;
                        failure(&error, &Document::one("n", Value::Int(0)))
                    }
                };
                if failed || !self.errors_only {
                    let mut shown = Document::one("ok", Value::Double(if failed { 0.0 } else { 1.0 }));
                    shown.push("idx", Value::Int(index as i32));
                    result.iter().for_each(|(name, value)| shown.push(name.clone(), value.clone()));
                    results.push(shown);
                }
                if failed && self.is_ordered {
                    break;
                }
                collections.pause().await?;
            }
            Ok(())
        };
        let ran: Result<()> = ran.await;
        collections.settle().await?;
        for (id, result) in done {
            if let Some(retryable) = &call.retryable {
                retryable.record(id, result);
            }
        }
        debug_assert!(results.len() <= operations.len(), "an operation has one result");
        debug_assert!(!self.is_ordered || totals.errors <= 1, "an error ends operations that are in order");
        ran.map(|()| (totals, results))
    }

    async fn replay_or_run(
        &self,
        operation: &Operation,
        target: &Target,
        index: usize,
        recorded: &mut Vec<(i32, Document)>,
    ) -> Result<Ended> {
        let id = index as i32;
        if let Some(retryable) = &self.call.retryable
            && let Some(result) = retryable.replay(id)?
        {
            return Ok((Document::clone(&result), None));
        }
        let (result, stopped) = Box::pin(self.run(operation, target, id)).await?;
        if self.call.retryable.is_some() && stopped.is_none() {
            recorded.push((id, result.clone()));
        }
        Ok((result, stopped))
    }

    async fn run(&self, operation: &Operation, target: &Target, id: i32) -> Result<Ended> {
        let &Running { call, ref collections, lets, checks, .. } = self;
        let namespace = &target.namespace;
        let fields = Arguments::of_document("bulkWrite.ops", &operation.fields, operation.kind.table())?;
        let collection = collections.collection(namespace)?;
        check_uuid(target, collection.as_ref())?;
        let collation = call.collation(namespace, fields.given("collation"))?;
        let hint = fields.given("hint");
        let request = call.request();
        match operation.kind {
            Kind::Insert => {
                check_created(namespace)?;
                let document = document(&fields, "document");
                if document.size() > DOCUMENT_BYTES_MAX {
                    fail!(
                        code::OBJECT_TOO_LARGE,
                        "object to insert too large. size in bytes: {}, max size: {DOCUMENT_BYTES_MAX}",
                        document.size()
                    );
                }
                let write = call.retryable.as_ref().map(|retryable| retryable.write(call.context.now));
                let numbered = write.map(|write| NumberedInserts { write, statements: vec![id] });
                let (documents, how) = (vec![Arc::new(document)], (true, checks));
                let inserted =
                    collections.insert(&request, namespace, documents, how, numbered.as_ref()).await?;
                match inserted.failures.into_iter().next() {
                    Some((_, failure)) => Err(failure.into()),
                    None => Ok((inserted_answer(), None)),
                }
            }
            Kind::Update => {
                let is_multi = fields.bool("multi") == Some(true);
                let is_upsert = fields.bool("upsert") == Some(true);
                if is_upsert {
                    check_created(namespace)?;
                }
                let constants = document(&fields, "constants");
                let mods = fields.given("updateMods").cloned().unwrap_or_default();
                if !constants.is_empty() && !matches!(mods, Value::Array(_)) {
                    fail!(51198, "Constant values may only be specified for pipeline updates");
                }
                let mut variables = lets.clone();
                constants.iter().for_each(|(name, value)| variables.set(name, value.clone()));
                let filters = fields.array("arrayFilters").unwrap_or_default();
                let order = sort(&document(&fields, "sort"), &collation)?;
                let filter = hinted_write(
                    call,
                    namespace,
                    (document(&fields, "filter"), &collation),
                    (hint, is_upsert),
                )?;
                let mut statement = statement(
                    call,
                    filter,
                    (&mods, filters),
                    (&variables, &collation),
                    (is_multi, is_upsert),
                    order,
                    checks,
                )?;
                let form = AnswerForm::UpdatedInBulk;
                statement.numbered = call.numbered(id, &form);
                let done = collections.run_statement(&request, namespace, &mut statement).await?;
                Ok((form.answer(done.summary())?, done.failure.map(CommandError::from)))
            }
            Kind::Delete => {
                let (scope, env) = request.bound(&collation, lets)?;
                let filter = hinted_filter(call, namespace, (document(&fields, "filter"), &collation), hint)?;
                let form = AnswerForm::Removed;
                let action = ActionSource::Remove;
                let mut statement = Statement {
                    step: Arc::new(DocumentStep::of(StepSource { filter, action, scope })?),
                    is_upsert: false,
                    is_multi: fields.bool("multi") == Some(true),
                    sort: SortPattern::default(),
                    env,
                    checks: false,
                    numbered: call.numbered(id, &form),
                };
                let done = collections.run_statement(&request, namespace, &mut statement).await?;
                Ok((form.answer(done.summary())?, done.failure.map(CommandError::from)))
            }
        }
    }
}

impl Totals {
    fn note(&mut self, kind: Kind, result: &Document) {
        let number = |name: &str| result.get(name).and_then(Value::to_i64_exact).unwrap_or(0) as i32;
        match kind {
            Kind::Insert => self.inserted += number("n"),
            Kind::Delete => self.deleted += number("n"),
            Kind::Update if result.has("upserted") => self.upserted += 1,
            Kind::Update => {
                self.matched += number("n");
                self.modified += number("nModified");
            }
        }
    }
}

/// The error of a statement, with the writes that it did before it failed.
fn failure(error: &CommandError, done: &Document) -> Document {
    let mut told = error.write_error(0);
    told.remove("index");
    done.iter().for_each(|(name, value)| told.push(name.clone(), value.clone()));
    told
}

fn operations(arguments: &Arguments<'_>) -> Result<Vec<Operation>> {
    let found = arguments.documents("ops")?;
    if found.is_empty() || found.len() > OPERATIONS_MAX {
        fail!(
            code::INVALID_LENGTH,
            "Write batch sizes must be between 1 and {OPERATIONS_MAX}. Got {} operations.",
            found.len()
        );
    }
    let mut operations = Vec::with_capacity(found.len());
    for fields in found {
        let kind = match fields.first().map(|(name, _)| &**name) {
            Some("insert") => Kind::Insert,
            Some("update") => Kind::Update,
            Some("delete") => Kind::Delete,
            other => fail!(
                code::UNKNOWN_FIELD,
                "BSON field 'bulkWrite.ops.{}' is an unknown field.",
                other.unwrap_or_default()
            ),
        };
        for name in ["updateMods", "hint"] {
            if matches!(fields.get(name), Some(Value::Null)) {
                fail!(code::FAILED_TO_PARSE, "BSON field 'bulkWrite.ops.{name}' cannot be null");
            }
        }
        let checked = Arguments::of_document("bulkWrite.ops", fields, kind.table())?;
        if let Some(mods) = checked.given("updateMods")
            && !matches!(mods, Value::Document(_) | Value::Array(_))
        {
            fail!(code::FAILED_TO_PARSE, "Update argument must be either an object or an array");
        }
        if let Some(hint) = checked.given("hint")
            && !matches!(hint, Value::Document(_) | Value::String(_))
        {
            fail!(code::FAILED_TO_PARSE, "Hint must be a string or an object");
        }
        let name = fields.first().map_or("", |(name, _)| &**name);
        let Some(target) = checked.i64(name).and_then(|target| usize::try_from(target).ok()) else {
            fail!(code::BAD_VALUE, "BSON field 'bulkWrite.ops.{name}' value must be >= 0");
        };
        operations.push(Operation { kind, fields: fields.clone(), target });
    }
    Ok(operations)
}

fn targets(arguments: &Arguments<'_>) -> Result<Vec<Target>> {
    let mut targets = Vec::new();
    for info in arguments.documents("nsInfo")? {
        let info = Arguments::of_document("bulkWrite.nsInfo", info, NAMESPACE)?;
        let name = info.string("ns").unwrap_or_default();
        let Some((database, collection)) = name.split_once('.') else {
            fail!(code::INVALID_NAMESPACE, "Invalid namespace specified for bulkWrite: '{name}'");
        };
        check_database(database)?;
        check_collection(database, collection)?;
        let namespace = Namespace::new(database, collection);
        check_written(&namespace)?;
        targets.push(Target { namespace, uuid: info.given("collectionUUID").cloned() });
    }
    Ok(targets)
}

/// Result of a statement, and the error that ended it early.
type Ended = (Document, Option<CommandError>);

/// Refuses a write that is meant for another collection of this name.
fn check_uuid(target: &Target, collection: Option<&Collection>) -> Result<()> {
    let Some(uuid) = &target.uuid else { return Ok(()) };
    let own = collection.map(|found| Value::Binary(4, found.uuid().as_slice().into()));
    if own.is_some_and(|own| shardlake_mql::equal(&own, uuid)) {
        return Ok(());
    }
    let Namespace { database, collection } = &target.namespace;
    let told = error!(361, "Collection UUID does not match that specified");
    let told = told.with_field("db", &**database).with_field("collectionUUID", uuid.clone());
    let told = told.with_field("expectedCollection", &**collection);
    Err(told.with_field("actualCollection", Value::Null))
}
