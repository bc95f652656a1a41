//! `insert`, `update`, `delete`.

use std::collections::BTreeSet;
use std::sync::Arc;

use shardlake_account::collections::{Done, Namespace, NumberedInserts, Request, Statement};
use shardlake_mql::write::{Action, ActionSource, AnswerForm, DocumentStep, StepSource, inserted_answer};
use shardlake_mql::{Collation, Document, Scope, SortPattern, Update, Value};

use super::common::{check_created, check_written, document, sort};
use super::find::{hinted_filter, hinted_write};
use crate::arguments::{Arguments, Field, Types, hint, optional, required};
use crate::call::Call;
use crate::errors::{CommandError, Result, code, error, fail};
use crate::reply::Reply;

const STATEMENTS_MAX: usize = 100_000;
const DOCUMENT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The option `ordered` of all write commands.
fn is_ordered(arguments: &Arguments<'_>) -> bool {
    arguments.bool("ordered") != Some(false)
}

fn statements<'b>(arguments: &Arguments<'b>, name: &str) -> Result<Vec<&'b Arc<Document>>> {
    let statements = arguments.documents(name)?;
    if statements.is_empty() || statements.len() > STATEMENTS_MAX {
        fail!(
            code::INVALID_LENGTH,
            "Write batch sizes must be between 1 and {STATEMENTS_MAX}. Got {} operations.",
            statements.len()
        );
    }
    Ok(statements)
}

/// The numbers of the statements of a retryable write.
struct StatementIds<'c> {
    first: i32,
    given: Option<&'c [Value]>,
}

impl StatementIds<'_> {
    fn of(call: &Call, count: usize) -> StatementIds<'_> {
        let first = call.body.get("stmtId").and_then(Value::to_i64_exact).unwrap_or(0) as i32;
        let given = call.body.get("stmtIds").and_then(Value::as_array).filter(|ids| ids.len() == count);
        StatementIds { first, given: given.map(|ids| &***ids) }
    }

    fn at(&self, place: usize) -> i32 {
        match self.given {
            Some(ids) => ids[place].to_i64_exact().unwrap_or(0) as i32,
            None => self.first + place as i32,
        }
    }
}

pub async fn insert(call: &Call) -> Result<Reply> {
    const FIELDS: &[Field] = &[
        required("documents", Types::ARRAY),
        optional("ordered", Types::BOOL_ONLY),
        optional("bypassDocumentValidation", Types::BOOL),
        optional("bypassEmptyTsReplacement", Types::BOOL_ONLY),
        optional("stmtId", Types::INTEGER),
        optional("stmtIds", Types::ARRAY),
        optional("maxTimeMS", Types::NUMBER),
    ];
    let namespace = call.written_namespace()?;
    let arguments = call.arguments(FIELDS)?;
    let documents = statements(&arguments, "documents")?;
    let checks = arguments.bool("bypassDocumentValidation") != Some(true);
    check_created(&namespace)?;
    let ids = StatementIds::of(call, documents.len());
    let (mut answer, mut todo) = (WriteAnswer::default(), Vec::with_capacity(documents.len()));
    // None where every document is inserted.
    let mut places: Option<Vec<usize>> = None;
    for (place, found) in documents.iter().enumerate() {
        if replayed(call, ids.at(place))?.is_some() {
            answer.count += 1;
            places.get_or_insert_with(|| (0..place).collect());
            continue;
        }
        if found.size() > DOCUMENT_BYTES_MAX {
            let told = error!(
                code::OBJECT_TOO_LARGE,
                "object to insert too large. size in bytes: {}, max size: {DOCUMENT_BYTES_MAX}",
                found.size()
            );
            answer.errors.push((place, told));
            places.get_or_insert_with(|| (0..place).collect());
            if is_ordered(&arguments) {
                break;
            }
            continue;
        }
        todo.push(Arc::clone(found));
        if let Some(places) = &mut places {
            places.push(place);
        }
    }
    debug_assert!(
        places.as_ref().is_none_or(|places| places.len() == todo.len()),
        "each document has its place"
    );
    let place_of = |index: usize| places.as_ref().map_or(index, |places| places[index]);
    let (request, count) = (call.request(), todo.len());
    let numbered = call.retryable.as_ref().map(|retryable| {
        let statements = (0..todo.len()).map(|index| ids.at(place_of(index))).collect();
        NumberedInserts { write: retryable.write(call.context.now), statements }
    });
    let how = (is_ordered(&arguments), checks);
    let inserted = call.collections().insert(&request, &namespace, todo, how, numbered.as_ref()).await?;
    debug_assert!(inserted.count as usize + inserted.failures.len() <= count, "a document has one outcome");
    answer.count += inserted.count;
    let failed: BTreeSet<usize> = inserted.failures.iter().map(|(index, _)| *index).collect();
    let stopped = failed.first().copied().filter(|_| is_ordered(&arguments)).unwrap_or(usize::MAX);
    if let Some(retryable) = &call.retryable {
        for index in 0..count {
            if index < stopped && !failed.contains(&index) {
                retryable.record(ids.at(place_of(index)), inserted_answer());
            }
        }
    }
    for (index, failure) in inserted.failures {
        let error = CommandError::from(failure);
        call.check_goes_on(&error)?;
        answer.errors.push((place_of(index), error));
    }
    answer.errors.sort_by_key(|(place, _)| *place);
    if is_ordered(&arguments) {
        answer.errors.truncate(1);
    }
    Ok(answer.reply(false))
}

/// The answer of a statement that ran before.
fn replayed(call: &Call, id: i32) -> Result<Option<Arc<Document>>> {
    match &call.retryable {
        Some(retryable) => retryable.replay(id),
        None => Ok(None),
    }
}

#[derive(Default)]
struct WriteAnswer {
    count: u64,
    modified: u64,
    upserted: Vec<Value>,
    errors: Vec<(usize, CommandError)>,
    /// Statements of a retryable write that are done, to be recorded when they are durable.
    done: Vec<(i32, Document)>,
}

impl WriteAnswer {
    fn note(&mut self, place: usize, result: &Document) {
        let number = |name: &str| result.get(name).and_then(Value::to_i64_exact).unwrap_or(0) as u64;
        self.count += number("n");
        self.modified += number("nModified");
        if let Some(id) = result.get("upserted") {
            let mut entry = Document::one("index", Value::Int(place as i32));
            entry.push("_id", id.clone());
            self.upserted.push(Value::document(entry));
        }
    }

    /// Notes how a statement ended, and returns whether the next one is run. `form` makes the result that is kept of it.
    fn end(
        &mut self,
        call: &Call,
        (place, id): (usize, i32),
        outcome: Result<Done>,
        form: &AnswerForm,
        is_ordered: bool,
    ) -> Result<bool> {
        let error = match outcome {
            Ok(done) => {
                let result = form.answer(done.summary())?;
                self.note(place, &result);
                match done.failure {
                    Some(failure) => failure.into(),
                    None => {
                        if call.retryable.is_some() {
                            self.done.push((id, result));
                        }
                        return Ok(true);
                    }
                }
            }
            Err(error) => error,
        };
        call.check_goes_on(&error)?;
        self.errors.push((place, error));
        Ok(!is_ordered)
    }

    /// Keeps the results of completed statements for repetitions. Their writes are durable.
    fn record(&mut self, call: &Call) {
        for (id, result) in self.done.drain(..) {
            if let Some(retryable) = &call.retryable {
                retryable.record(id, result);
            }
        }
    }

    fn reply(self, shows_modified: bool) -> Reply {
        debug_assert!(self.done.is_empty(), "what is done is recorded before it is answered");
        debug_assert!(self.errors.is_sorted_by_key(|(place, _)| *place), "errors are in order of statements");
        let mut reply = Document::one("n", Value::Int(self.count as i32));
        if !self.upserted.is_empty() {
            reply.push("upserted", Value::array(self.upserted));
        }
        if shows_modified {
            reply.push("nModified", Value::Int(self.modified as i32));
        }
        if !self.errors.is_empty() {
            let errors = self.errors.iter().map(|(place, error)| Value::document(error.write_error(*place)));
            reply.push("writeErrors", Value::array(errors.collect()));
        }
        reply.into()
    }
}

pub const UPDATE: &[Field] = &[
    required("updates", Types::ARRAY),
    optional("ordered", Types::BOOL_ONLY),
    optional("bypassDocumentValidation", Types::BOOL),
    optional("bypassEmptyTsReplacement", Types::BOOL_ONLY),
    optional("let", Types::OBJECT),
    optional("stmtId", Types::INTEGER),
    optional("stmtIds", Types::ARRAY),
    optional("runtimeConstants", Types::OBJECT),
];
pub const UPDATE_STATEMENT: &[Field] = &[
    required("q", Types::OBJECT),
    required("u", Types::OBJECT.or(Types::ARRAY)).coded(code::FAILED_TO_PARSE),
    optional("c", Types::OBJECT),
    optional("multi", Types::BOOL_ONLY),
    optional("upsert", Types::BOOL_ONLY),
    optional("upsertSupplied", Types::BOOL_ONLY),
    optional("collation", Types::OBJECT),
    optional("arrayFilters", Types::ARRAY),
    hint(),
    optional("sort", Types::OBJECT),
    optional("sampleId", Types::BINARY),
    optional("allowShardKeyUpdatesWithoutFullShardKeyInQuery", Types::BOOL),
];

pub async fn update(call: &Call) -> Result<Reply> {
    let namespace = call.written_namespace()?;
    let arguments = call.arguments(UPDATE)?;
    let mut parsed = Vec::new();
    for (place, statement) in statements(&arguments, "updates")?.into_iter().enumerate() {
        let context = format!("update.updates.{place}");
        let fields = Arguments::of_document(&context, statement, UPDATE_STATEMENT)?;
        let is_multi = fields.bool("multi") == Some(true);
        if is_multi && call.retryable.is_some() {
            fail!(code::INVALID_OPTIONS, "Cannot use retryable writes with multi=true");
        }
        if is_multi && fields.document("sort").is_some() {
            fail!(code::FAILED_TO_PARSE, "Cannot specify sort with multi=true");
        }
        check_stages(fields.given("u"))?;
        parsed.push((Document::clone(statement), is_multi));
    }
    let lets = document(&arguments, "let");
    let checks = arguments.bool("bypassDocumentValidation") != Some(true);
    let made = |statement: &Document, is_multi| {
        let fields = Arguments::of_document("update", statement, UPDATE_STATEMENT)?;
        let statement = update_statement(call, &namespace, &fields, &lets, (is_multi, checks))?;
        if statement.is_upsert {
            check_created(&namespace)?;
        }
        Ok(statement)
    };
    let answer =
        run_all(call, &namespace, (&parsed, is_ordered(&arguments)), &AnswerForm::Updated, made).await?;
    Ok(answer.reply(true))
}

/// Runs the statements of a command one after the other. They share one wait for the disk: a statement sees the earlier ones before they
/// are durable, and the command is answered when all are durable.
async fn run_all(
    call: &Call,
    namespace: &Namespace,
    (statements, is_ordered): (&[(Document, bool)], bool),
    form: &AnswerForm,
    made: impl Fn(&Document, bool) -> Result<Statement>,
) -> Result<WriteAnswer> {
    let collections = call.collections().gathering();
    let ids = StatementIds::of(call, statements.len());
    let mut answer = WriteAnswer::default();
    let ran = async {
        for (place, (statement, is_multi)) in statements.iter().enumerate() {
            let id = ids.at(place);
            if let Some(result) = replayed(call, id)? {
                answer.note(place, &result);
                continue;
            }
            let outcome = async {
                let mut statement = made(statement, *is_multi)?;
                statement.numbered = call.numbered(id, form);
                let request = call.request();
                Ok::<Done, CommandError>(
                    collections.run_statement(&request, namespace, &mut statement).await?,
                )
            };
            let outcome = Box::pin(outcome).await;
            if !answer.end(call, (place, id), outcome, form, is_ordered)? {
                break;
            }
            collections.pause().await?;
        }
        Ok(())
    };
    let ran: Result<()> = ran.await;
    collections.settle().await?;
    answer.record(call);
    ran.map(|()| answer)
}

/// Checks the stages of a pipeline before a statement runs. An unknown stage fails the command.
fn check_stages(update: Option<&Value>) -> Result<()> {
    const UNKNOWN_STAGE: i32 = 40324;
    const SEVERAL_STAGES: i32 = 40323;
    let Some(pipeline @ Value::Array(_)) = update else { return Ok(()) };
    match Update::parse(pipeline, &[], &Scope::new()) {
        Err(error) if matches!(error.code(), UNKNOWN_STAGE | SEVERAL_STAGES) => Err(error.into()),
        _ => Ok(()),
    }
}

fn update_statement(
    call: &Call,
    namespace: &Namespace,
    fields: &Arguments<'_>,
    lets: &Document,
    (is_multi, checks): (bool, bool),
) -> Result<Statement> {
    let collation = call.collation(namespace, fields.given("collation"))?;
    let constants = document(fields, "c");
    let update = fields.given("u").cloned().unwrap_or_default();
    if !constants.is_empty() && !matches!(update, Value::Array(_)) {
        fail!(51198, "Constant values may only be specified for pipeline updates");
    }
    let mut variables = lets.clone();
    constants.iter().for_each(|(name, value)| variables.set(name, value.clone()));
    let array_filters = fields.array("arrayFilters").unwrap_or_default();
    let is_upsert = fields.bool("upsert") == Some(true);
    let sort = sort(&document(fields, "sort"), &collation)?;
    let filter = hinted_write(
        call,
        namespace,
        (document(fields, "q"), &collation),
        (fields.given("hint"), is_upsert),
    )?;
    statement(
        call,
        filter,
        (&update, array_filters),
        (&variables, &collation),
        (is_multi, is_upsert),
        sort,
        checks,
    )
}

/// An update in the engine's form.
pub fn statement(
    call: &Call,
    filter: Document,
    (update, array_filters): (&Value, &[Value]),
    (variables, collation): (&Document, &Collation),
    (is_multi, is_upsert): (bool, bool),
    sort: SortPattern,
    checks: bool,
) -> Result<Statement> {
    let request = call.request();
    let (scope, env) = request.bound(collation, variables)?;
    let update = with_timestamps(call, &request, update);
    let array_filters = array_filters.to_vec();
    let action = ActionSource::Update { update, array_filters };
    let step = Arc::new(DocumentStep::of(StepSource { filter, action, scope })?);
    if is_multi && matches!(&step.value().action, Action::Update(update) if update.is_replacement()) {
        fail!(code::FAILED_TO_PARSE, "multi update is not supported for replacement-style update");
    }
    Ok(Statement { step, is_upsert, is_multi, sort, env, checks, numbered: None })
}

/// A replacement with the current time in place of its empty timestamps; another update unchanged.
fn with_timestamps(call: &Call, request: &Request, update: &Value) -> Value {
    match update {
        Value::Document(replacement)
            if replacement.first().is_some_and(|(name, _)| !name.starts_with('$')) =>
        {
            let mut replacement = Document::clone(replacement);
            call.collections().fill_timestamps(request, &mut replacement);
            Value::document(replacement)
        }
        other => other.clone(),
    }
}

pub const DELETE: &[Field] = &[
    required("deletes", Types::ARRAY),
    optional("ordered", Types::BOOL_ONLY),
    optional("let", Types::OBJECT),
    optional("stmtId", Types::INTEGER),
    optional("stmtIds", Types::ARRAY),
    optional("runtimeConstants", Types::OBJECT),
];
pub const DELETE_STATEMENT: &[Field] = &[
    required("q", Types::OBJECT),
    required("limit", Types::NUMBER),
    optional("collation", Types::OBJECT),
    hint(),
    optional("sampleId", Types::BINARY),
];

pub async fn delete(call: &Call) -> Result<Reply> {
    let namespace = call.namespace()?;
    check_written(&namespace)?;
    let arguments = call.arguments(DELETE)?;
    let mut parsed = Vec::new();
    for (place, statement) in statements(&arguments, "deletes")?.into_iter().enumerate() {
        let context = format!("delete.deletes.{place}");
        let fields = Arguments::of_document(&context, statement, DELETE_STATEMENT)?;
        let is_multi = match fields.given("limit").and_then(Value::to_f64) {
            Some(0.0) => true,
            Some(1.0) => false,
            limit => fail!(
                code::FAILED_TO_PARSE,
                "The limit field in delete objects must be 0 or 1. Got {}",
                limit.unwrap_or(f64::NAN)
            ),
        };
        if is_multi && call.retryable.is_some() {
            fail!(code::INVALID_OPTIONS, "Cannot use retryable writes with limit=0");
        }
        parsed.push((Document::clone(statement), is_multi));
    }
    let lets = document(&arguments, "let");
    let made = |statement: &Document, is_multi| {
        let fields = Arguments::of_document("delete", statement, DELETE_STATEMENT)?;
        let collation = call.collation(&namespace, fields.given("collation"))?;
        let (scope, env) = call.request().bound(&collation, &lets)?;
        let filter =
            hinted_filter(call, &namespace, (document(&fields, "q"), &collation), fields.given("hint"))?;
        Ok(Statement {
            step: Arc::new(DocumentStep::of(StepSource { filter, action: ActionSource::Remove, scope })?),
            is_upsert: false,
            is_multi,
            sort: SortPattern::default(),
            env,
            checks: false,
            numbered: None,
        })
    };
    let answer =
        run_all(call, &namespace, (&parsed, is_ordered(&arguments)), &AnswerForm::Removed, made).await?;
    Ok(answer.reply(false))
}
