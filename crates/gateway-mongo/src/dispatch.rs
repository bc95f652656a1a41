//! Dispatch of a message to its command: looks the command up, checks the rules common to all commands, runs it, and makes a reply of its
//! answer.
//!
//! The checks have the reference's order: the command exists; this client may run it; its generic fields are well formed; it may
//! run in this session. Only then is the session entered and the command's own fields are read.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt;
use shardlake_model::RequestContext;
use shardlake_mql::{Document, Value};

use crate::access::{Identity, Principal, wanted};
use crate::arguments::{Generic, NAMESPACE_SIZE_BYTES_MAX, ReadLevel, TransactionPart, check_variables};
use crate::audit::Audited;
use crate::call::{Call, Command, Connection, application_of};
use crate::deployment::Deployment;
use crate::errors::{
    CommandError, RESUMABLE_CHANGE_STREAM, RETRYABLE_WRITE, Result, TRANSIENT_TRANSACTION, code, error, fail,
    is_resumable_code, is_retryable_code, is_transient_code,
};
use crate::fail_points::{Aim, Strike};
use crate::last_request::LastRequest;
use crate::latencies::Kind;
use crate::operations::{Interruption, Work};
use crate::reply::Reply;
use crate::sessions::{RetryableWrite, Session, SessionKey, TransactionTurn};
use crate::{cluster_time, expressions, stable, table, transactions};

/// Time after its deadline for which an operation is still waited for. The engine ends it at its deadline.
const GRACE: Duration = Duration::from_secs(2);

/// Carries a command out. Failures are replies, too.
pub struct Answered {
    /// BSON.
    pub document: Vec<u8>,
    /// The command by the name in the table; empty where none was found.
    pub name: &'static str,
    /// A fail point ends the connection instead of sending the answer.
    pub closes_connection: bool,
}

/// Whether the answer to this command may be a batch of many megabytes.
pub fn has_batch(body: &Document) -> bool {
    let row = body.first().and_then(|(name, _)| table::find(name));
    row.is_some_and(|row| row.rules.has_batch)
}

/// Commands whose documents a validator may refuse.
const WRITES: [&str; 5] = ["insert", "update", "findAndModify", "findandmodify", "bulkWrite"];

/// Whether a command may evaluate expressions, which take long: then it is offloaded.
pub fn is_evaluated(deployment: &Deployment, body: &Document) -> bool {
    match body.first() {
        Some((name, id)) if &**name == "getMore" => {
            id.to_i64_exact().is_some_and(|id| deployment.cursors.is_evaluated(id))
        }
        Some((name, _)) => {
            let collections = deployment.account.collections();
            expressions::is_evaluated(body) || WRITES.contains(&&**name) && collections.validators_evaluate()
        }
        None => false,
    }
}

/// Whether a command is part of authentication. Such messages are not compressed, because their compressed size would reveal secrets.
pub fn is_never_compressed(name: &str) -> bool {
    const PLAIN: &[&str] =
        &["hello", "isMaster", "saslStart", "saslContinue", "authenticate", "createUser", "updateUser"];
    PLAIN.contains(&name)
}

/// A received command, and the memory for its answer.
pub struct Asked {
    pub body: Document,
    /// A batch has no more bytes, but one document at least.
    pub batch_bytes_max: usize,
}

pub async fn answer(deployment: &Arc<Deployment>, connection: &Arc<Connection>, asked: Asked) -> Answered {
    let begun = deployment.account.router().clock().elapsed();
    let (number, row) = match find(deployment, &asked.body) {
        Ok(placed) => placed,
        Err(error) => {
            deployment.commands.note(None, Some(error.code()), Duration::ZERO);
            return failed("", &error);
        }
    };
    // A client without a login changes nothing, and shall not fill the log.
    let audited =
        Audited::of(row.name, &asked.body, connection).filter(|_| connection.is_authenticated(deployment));
    let (answered, code) = answer_of(deployment, connection, (number, row), asked).await;
    let took = deployment.account.router().clock().elapsed().saturating_sub(begun);
    deployment.commands.note(Some(number), code, took);
    if let Some(audited) = audited {
        audited.log(code);
    }
    answered
}

/// The answer, and the code of its error.
async fn answer_of(
    deployment: &Arc<Deployment>,
    connection: &Arc<Connection>,
    (number, row): (usize, &'static Command),
    asked: Asked,
) -> (Answered, Option<i32>) {
    let body = &asked.body;
    deployment.counters.operations.count(row.name);
    let repeats = Repeats::of(row, body);
    let is_of_stream = is_of_stream(deployment, row.name, body);
    let strike = strike(deployment, connection, (row, body)).await;
    // An error before the command runs is no error of the stream.
    let is_of_stream = is_of_stream && strike.as_ref().is_none_or(|strike| strike.is_inside);
    if let Some(Strike { closes_connection: true, .. }) = strike {
        let answered = Answered { document: Vec::new(), name: row.name, closes_connection: true };
        return (answered, Some(code::HOST_UNREACHABLE));
    }
    let run = AssertUnwindSafe(run(deployment, connection, (number, row), (asked, strike))).catch_unwind();
    match run.await {
        Ok(Ok((document, code))) => (Answered { document, name: row.name, closes_connection: false }, code),
        Ok(Err(error)) => {
            deployment.counters.failures.fetch_add(1, Ordering::Relaxed);
            let code = error.code();
            let reply = Reply::from(told(repeats, is_of_stream, error).reply());
            let now = deployment.account.router().clock().now();
            let times = (now, deployment.account.router().times().seen_before_at(now));
            let document = reply.to_bytes(|out| cluster_time::append(out, times));
            (Answered { document, name: row.name, closes_connection: false }, Some(code))
        }
        Err(panic) => {
            tracing::error!(command = row.name, panic = panic_message(&*panic), "a command handler panicked");
            let error = error!(code::INTERNAL_ERROR, "a defect of the server: see its log");
            (failed(row.name, &error), Some(error.code()))
        }
    }
}

/// The answer to a message without a valid command.
pub fn failed(name: &'static str, error: &CommandError) -> Answered {
    Answered { document: error.reply().to_bytes(), name, closes_connection: false }
}

/// The unit that a driver repeats after a transient error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Repeats {
    Nothing,
    /// The command: a write with a number of its own, or the end of a transaction.
    Command,
    /// The end of a transaction.
    End,
    Transaction,
}

impl Repeats {
    fn of(row: &Command, body: &Document) -> Repeats {
        let in_transaction = matches!(body.get("autocommit"), Some(Value::Bool(false)));
        match body.has("txnNumber") {
            true if row.rules.ends_transaction => Repeats::End,
            true if in_transaction => Repeats::Transaction,
            true if row.rules.is_retryable => Repeats::Command,
            _ => Repeats::Nothing,
        }
    }
}

/// Whether a command opens a change stream or continues with one.
fn is_of_stream(deployment: &Deployment, name: &str, body: &Document) -> bool {
    match name {
        "getMore" => {
            let id = body.first().and_then(|(_, id)| id.to_i64_exact());
            id.is_some_and(|id| deployment.cursors.is_stream(id))
        }
        "aggregate" => {
            let stages = body.get("pipeline").and_then(Value::as_array);
            let first = stages.and_then(|stages| stages.first()).and_then(Value::as_document);
            first.is_some_and(|stage| stage.has("$changeStream"))
        }
        _ => false,
    }
}

/// Error with labels for retries. Drivers repeat a command or resume a change stream by its label, so only errors that allow it carry one.
fn told(repeats: Repeats, is_of_stream: bool, error: CommandError) -> CommandError {
    if error.has_given_labels() {
        return error;
    }
    let error = match is_of_stream && is_resumable_code(error.code()) {
        true => error.with_label(RESUMABLE_CHANGE_STREAM),
        false => error,
    };
    match repeats {
        Repeats::Command | Repeats::End if is_retryable_code(error.code()) => {
            error.with_label(RETRYABLE_WRITE)
        }
        Repeats::End if is_transient_code(error.code()) => {
            error.without_label(RETRYABLE_WRITE).with_label(TRANSIENT_TRANSACTION)
        }
        Repeats::Transaction if is_transient_code(error.code()) => {
            error.without_label(RETRYABLE_WRITE).with_label(TRANSIENT_TRANSACTION)
        }
        _ => error.without_label(RETRYABLE_WRITE),
    }
}

/// Effect of a fail point on this command, after its delay.
async fn strike(
    deployment: &Deployment,
    connection: &Connection,
    (row, body): (&Command, &Document),
) -> Option<Strike> {
    if !deployment.settings.has_test_commands {
        return None;
    }
    // The first handshake carries the client's metadata itself.
    let application = connection.application().or_else(|| application_of(body.get("client")?));
    let database = body.get("$db").and_then(Value::as_str).unwrap_or_default();
    let collection = body.first().and_then(|(_, first)| first.as_str());
    let namespace = collection.map(|collection| format!("{database}.{collection}"));
    let aim = Aim {
        name: row.name,
        aliases: row.aliases,
        application: application.as_deref(),
        namespace: namespace.as_deref(),
    };
    let strike = deployment.fail_points.strike(&aim)?;
    if let Some(time) = strike.blocks_for {
        tokio::time::sleep(time).await;
    }
    Some(strike)
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

fn find(deployment: &Deployment, body: &Document) -> Result<(usize, &'static Command)> {
    let name = body.first().map_or("", |(name, _)| &**name);
    let is_here =
        |(_, row): &(usize, &Command)| !row.rules.is_for_tests || deployment.settings.has_test_commands;
    table::placed(name).filter(is_here).ok_or_else(|| match SEARCH_COMMANDS.contains(&name) {
        true => error!(
            code::SEARCH_NOT_ENABLED,
            "{name}: search indexes are not supported; MongoDB has them in Atlas and in local deployments of Atlas"
        ),
        false => error!(code::COMMAND_NOT_FOUND, "no such command: '{name}'"),
    })
}

/// Commands of MongoDB's separate search service. A database without it answers them with a code of its own, and
/// drivers and Spring look for the word Atlas in its message.
const SEARCH_COMMANDS: [&str; 4] =
    ["createSearchIndexes", "dropSearchIndex", "listSearchIndexes", "updateSearchIndex"];

async fn run(
    deployment: &Arc<Deployment>,
    connection: &Arc<Connection>,
    (number, row): (usize, &'static Command),
    (asked, strike): (Asked, Option<Strike>),
) -> Result<(Vec<u8>, Option<i32>)> {
    let principal = connection.principal();
    check_access(deployment, row, principal.as_deref())?;
    let concern_error = match strike.map(Strike::into_outcome) {
        None => None,
        Some(outcome) => outcome?,
    };
    let body = &asked.body;
    let generic = Generic::parse(body)?;
    check_rights(deployment, row, (body, &generic.database), principal.as_deref())?;
    check_rules(row, &generic)?;
    if generic.is_api_strict {
        stable::check(row.name, body)?;
    }
    if generic.transaction_part.is_some() {
        transactions::check(row, body, &generic)?;
    }
    check_variables(row.name, body)?;
    let mut call = enter(deployment, connection, row, (asked, generic), principal).await?;
    // A client's time for the next batch of a cursor limits the wait for documents. The reads after it have a command's time.
    let time = match row.name {
        "getMore" => deployment.settings.request_timeout,
        _ => call.time_left(),
    };
    let time = time + GRACE;
    let started = deployment.account.router().clock().elapsed();
    let work = Work {
        command: row.name,
        database: call.generic.database.clone(),
        connection: connection.id,
        session: call.session.as_ref().map(|session| session.key.clone()),
        is_read: !row.rules.is_write && !row.rules.ends_transaction && !has_output(&call.body),
        started,
    };
    let is_read = work.is_read;
    let at_work = deployment.operations.begin(work, call.end.clone());
    if is_read && connection.is_gone() {
        // The client disconnected before the operation was listed, so nothing else ends the command.
        return Err(interrupted(Interruption::ClientGone));
    }
    let outcome = tokio::select! {
        biased;
        // A command that ends with its session reports the session, not its cursor.
        outcome = answered(row, &call) => match (outcome, at_work.interruption()) {
            (Err(_), Some(why)) => Err(interrupted(why)),
            (outcome, _) => outcome,
        },
        why = at_work.interrupted() => Err(interrupted(why)),
        () = tokio::time::sleep(time) => Err(error!(code::MAX_TIME_EXPIRED, "operation exceeded time limit")),
    };
    let in_transaction = call.generic.transaction_part.is_some() && !row.rules.ends_transaction;
    let outcome = if in_transaction { outcome.map_err(conflict_if_moved) } else { outcome };
    drop(at_work);
    deployment.commands.note_charge(Some(number), call.charged.load(Ordering::Relaxed));
    note_request(&call, row, started, outcome.is_ok());
    if call.transaction.is_some() {
        transactions::give_back(&mut call, &outcome);
    }
    let reply = outcome?;
    let code = if row.rules.is_write { first_write_error(&reply) } else { None };
    Ok((finish(row, &call, reply, concern_error), code))
}

async fn answered(row: &Command, call: &Call) -> Result<Reply> {
    crate::data::index_reads::wait(call).await?;
    (row.handler)(call).await
}

/// The code of the first statement that failed, of a command that succeeds all the same.
fn first_write_error(reply: &Reply) -> Option<i32> {
    let errors = reply.fields.get("writeErrors").and_then(Value::as_array)?;
    errors.first()?.as_document()?.get("code")?.to_i32_exact()
}

/// A moved partition ends a transaction with the code of a write conflict. Fail points do not pass here.
fn conflict_if_moved(error: CommandError) -> CommandError {
    match error.code() {
        code::HOST_UNREACHABLE => error!(code::WRITE_CONFLICT, "{}", error.message()),
        _ => error,
    }
}

fn interrupted(why: Interruption) -> CommandError {
    match why {
        Interruption::Killed => error!(code::INTERRUPTED, "operation was interrupted"),
        Interruption::ClientGone => error!(code::CLIENT_DISCONNECT, "the client has closed its connection"),
    }
}

/// Whether a pipeline writes its results.
fn has_output(body: &Document) -> bool {
    let stages = body.get("pipeline").and_then(Value::as_array);
    let last = stages.and_then(|stages| stages.last()).and_then(Value::as_document);
    last.is_some_and(|stage| stage.has("$out") || stage.has("$merge"))
}

/// Records a command for `getLastRequestStatistics`, and for the latencies of the collection that it names. That command itself is not
/// recorded, nor are the commands by which drivers keep connections.
fn note_request(call: &Call, row: &Command, started: Duration, has_succeeded: bool) {
    if !row.rules.needs_user || row.name == "getLastRequestStatistics" {
        return;
    }
    let time = call.deployment.account.router().clock().elapsed().saturating_sub(started);
    let collection = match row.name {
        "getMore" => call.body.get("collection").and_then(Value::as_str),
        _ => call.first().as_str(),
    };
    if let Some(collection) = collection
        && !row.rules.is_admin_only
        // A name that was refused stands for no collection.
        && has_succeeded
        && collection.len() <= NAMESPACE_SIZE_BYTES_MAX
    {
        call.deployment.latencies.note(Kind::of(row.name), (call.database(), collection), time);
    }
    let charge_centi = call.charged.load(Ordering::Relaxed);
    let last = LastRequest { command: row.name, charge_centi, time };
    if let Some(session) = &call.session {
        session.note_request(last);
    }
    call.connection.state().last_request = Some(last);
}

fn check_access(deployment: &Deployment, row: &Command, principal: Option<&Principal>) -> Result<()> {
    match principal {
        None if deployment.settings.requires_authentication && row.rules.needs_user => {
            Err(error!(code::UNAUTHORIZED, "Command {} requires authentication", row.name))
        }
        Some(principal) if principal.is_read_only() && row.rules.is_write => Err(error!(
            code::UNAUTHORIZED,
            "not authorized to execute command {} with a read-only key", row.name
        )),
        _ => Ok(()),
    }
}

/// Checks the current rights of a user made by `createUser`.
fn check_rights(
    deployment: &Deployment,
    row: &Command,
    (body, database): (&Document, &str),
    principal: Option<&Principal>,
) -> Result<()> {
    let Some(Identity::User(number)) = principal.map(|principal| principal.identity) else { return Ok(()) };
    if !row.rules.needs_user {
        return Ok(());
    }
    let Some(rights) = deployment.users.rights(&deployment.account, number) else {
        fail!(code::UNAUTHORIZED, "Command {} requires authentication: the user was removed", row.name);
    };
    let wanted = wanted(row.name, database, body);
    match wanted.iter().find(|(privilege, database)| !rights.has(*privilege, *database)) {
        None => Ok(()),
        Some((_, database)) => {
            let database = database.unwrap_or("admin");
            fail!(code::UNAUTHORIZED, "not authorized on {database} to execute command {}", row.name)
        }
    }
}

fn check_rules(row: &Command, generic: &Generic) -> Result<()> {
    let name = row.name;
    if generic.transaction_part.is_some() && !row.rules.in_transaction {
        fail!(code::NOT_IN_TRANSACTION, "Cannot run '{name}' in a multi-document transaction.");
    }
    if row.rules.is_admin_only && &*generic.database != "admin" {
        fail!(code::UNAUTHORIZED, "{name} may only be run against the admin database.");
    }
    if generic.is_api_strict && !row.rules.is_stable {
        fail!(code::API_STRICT, "Provided apiStrict:true, but the command {name} is not in API Version 1");
    }
    match generic.transaction_part {
        Some(part) => transactions::check_fields(row, generic, part)?,
        None => check_retryable(row, generic)?,
    }
    // Pipelines accept a write concern even if they write nothing.
    let takes_write_concern = row.rules.has_write_concern || row.name == "aggregate";
    if generic.write_concern.is_some() && row.rules.needs_user && !takes_write_concern {
        fail!(code::INVALID_OPTIONS, "Command does not support writeConcern");
    }
    let level = generic.read_concern.and_then(|concern| concern.level);
    if level == Some(ReadLevel::Snapshot) && generic.transaction_part.is_none() && !row.rules.has_snapshot {
        fail!(code::INVALID_OPTIONS, "Command {name} does not support read concern level snapshot");
    }
    let takes_level = row.rules.has_read_concern || generic.transaction_part == Some(TransactionPart::First);
    if level.is_some_and(|level| level != ReadLevel::Local) && !takes_level {
        fail!(code::INVALID_OPTIONS, "read concern is not supported by the command {name}");
    }
    Ok(())
}

fn check_retryable(row: &Command, generic: &Generic) -> Result<()> {
    let name = row.name;
    if generic.transaction_number.is_some() && !row.rules.is_retryable {
        fail!(
            code::NOT_A_RETRYABLE_WRITE,
            "txnNumber may only be provided for multi-document transactions and retryable write commands. \
             autocommit:false was not provided, and {name} is not a retryable write command."
        );
    }
    generic.check_session()
}

async fn enter(
    deployment: &Arc<Deployment>,
    connection: &Arc<Connection>,
    row: &'static Command,
    (asked, generic): (Asked, Generic),
    principal: Option<Arc<Principal>>,
) -> Result<Call> {
    let account = &deployment.account;
    let user = principal.as_ref().map(|principal| principal.key());
    // As in the reference, an `lsid` is ignored while the client has yet to authenticate.
    let id = generic.session.filter(|_| connection.is_authenticated(deployment));
    let session = id.map(|id| deployment.sessions.enter(SessionKey { id, user })).transpose()?;
    // Taken before anything is read.
    let now = account.router().clock().now();
    let seen_before = account.router().times().seen_before_at(now);
    let time = deployment.settings.request_timeout;
    let time = generic.time_max.map_or(time, |asked| asked.min(time));
    let deadline = account.router().clock().elapsed() + time;
    let turn = tokio::time::timeout(time, turn(deployment, row, &generic, session.as_deref()));
    let (retryable, mut transaction) =
        turn.await.map_err(|_| error!(code::MAX_TIME_EXPIRED, "operation exceeded time limit"))??;
    let is_first = generic.transaction_part == Some(TransactionPart::First);
    let seen_before = match &mut transaction {
        Some(turn) => Some(turn.seen_before(is_first.then_some(seen_before))),
        None => (!row.rules.is_write).then_some(seen_before),
    };
    let collections =
        transaction.as_ref().map(|turn| account.collections().within(turn.transaction().clone()));
    // A command with a number may have waited for its session's lock.
    let now = if generic.transaction_number.is_some() { account.router().clock().now() } else { now };
    let context = RequestContext {
        activity_id: account.router().random().guid(),
        now,
        deadline,
        consistency: account.router().consistency(),
        session: None,
        priority: Default::default(),
        answer_space: None,
    };
    if let Some(collections) = collections.as_ref().filter(|_| is_first) {
        collections.begin_transaction(&context).await;
    }
    let (deployment, connection, name) = (deployment.clone(), connection.clone(), row.name);
    Ok(Call {
        deployment,
        connection,
        name,
        body: asked.body,
        generic,
        principal,
        session,
        retryable,
        transaction,
        collections,
        context,
        seen_before,
        batch_bytes_max: asked.batch_bytes_max,
        charged: Arc::default(),
        seeds: AtomicU64::default(),
        end: Arc::default(),
    })
}

/// Waits for the session's lock if the command has a number.
async fn turn(
    deployment: &Deployment,
    row: &Command,
    generic: &Generic,
    session: Option<&Session>,
) -> Result<(Option<RetryableWrite>, Option<TransactionTurn>)> {
    let (Some(session), Some(number)) = (session, generic.transaction_number) else {
        return Ok((None, None));
    };
    let (statements, now) = (&session.statements, deployment.account.router().clock().elapsed());
    let past = deployment.past();
    Ok(match generic.transaction_part {
        _ if row.rules.ends_transaction => (None, None),
        Some(TransactionPart::First) => (None, Some(statements.begin_transaction(number, now, past).await?)),
        Some(TransactionPart::Later) => (None, Some(statements.resume_transaction(number, now, past).await?)),
        None if row.rules.is_retryable => (Some(statements.begin(number, past).await?), None),
        None => (None, None),
    })
}

/// Adds the fields that every reply has.
fn finish(row: &Command, call: &Call, mut reply: Reply, given: Option<Arc<Document>>) -> Vec<u8> {
    let fields = &mut reply.fields;
    let mut concern_error = given.map(|error| Document::clone(&error));
    if let Some(concern) = &call.generic.write_concern
        && row.rules.has_write_concern
    {
        if concern.is_unacknowledged() {
            fields.remove("writeErrors");
        }
        concern_error =
            concern_error.or_else(|| concern.unsatisfied().map(|error| error.write_concern_error()));
    }
    if let Some(error) = concern_error
        && !fields.has("writeConcernError")
    {
        let code = error.value("code").to_i32_exact().unwrap_or_default();
        let is_repeated = call.retryable.is_some() || row.rules.ends_transaction;
        if !error.has("errorLabels") && is_repeated && is_retryable_code(code) {
            fields.push("errorLabels", Value::array(vec![Value::string(RETRYABLE_WRITE)]));
        }
        fields.push("writeConcernError", error.into());
    }
    if !fields.has("ok") {
        fields.push("ok", Value::Double(1.0));
    }
    if call.body.get("$requestCharge").is_some_and(Value::is_true) {
        let charge_centi = call.charged.load(Ordering::Relaxed);
        fields.push("requestCharge", Value::Double(charge_centi as f64 / 100.0));
    }
    let account = &call.deployment.account;
    let now = account.router().clock().now();
    let seen_before = call.seen_before.unwrap_or_else(|| account.router().times().seen_before_at(now));
    reply.to_bytes(|out| cluster_time::append(out, (now, seen_before)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_that_was_moved_ends_a_transaction_as_a_conflict_does() {
        let moved = || error!(code::HOST_UNREACHABLE, "the partition is gone");
        let has = |error: &CommandError, label: &str| {
            let labels = error.reply().get("errorLabels").cloned();
            matches!(labels, Some(Value::Array(labels)) if labels.iter().any(|one| one.as_str() == Some(label)))
        };
        let in_transaction = told(Repeats::Transaction, false, conflict_if_moved(moved()));
        assert_eq!(in_transaction.code(), code::WRITE_CONFLICT);
        assert!(has(&in_transaction, TRANSIENT_TRANSACTION) && !has(&in_transaction, RETRYABLE_WRITE));
        // As a fail point gives it.
        assert_eq!(told(Repeats::Transaction, false, moved()).code(), code::HOST_UNREACHABLE);
        let alone = told(Repeats::Command, false, moved());
        assert_eq!(alone.code(), code::HOST_UNREACHABLE);
        assert!(has(&alone, RETRYABLE_WRITE) && !has(&alone, TRANSIENT_TRANSACTION));
    }
}
