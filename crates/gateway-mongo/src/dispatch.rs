//! From a message to a command and back: looks the command up, checks what holds for all of them, runs it, and makes a reply of what it
//! answers.
//!
//! The order of the checks is the reference's: is there such a command; may this client run it; is what every command may have well formed; may it
//! run in this session. Only then is the session entered and the command's own fields are read.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use shardlake_model::RequestContext;
use shardlake_mql::{Document, Value};

use crate::access::{Access, Principal};
use crate::arguments::{Generic, ReadLevel, TransactionPart};
use crate::call::{Call, Command, Connection};
use crate::deployment::Deployment;
use crate::errors::{CommandError, RETRYABLE_WRITE, Result, code, error, fail};
use crate::reply::Reply;
use crate::sessions::SessionKey;
use crate::table;

/// The engine ends an operation at its deadline; so much later it is no longer waited for.
const GRACE: Duration = Duration::from_secs(2);

/// Carries a command out. Failures are replies, too.
pub struct Answered {
    /// BSON.
    pub document: Vec<u8>,
    pub failed: bool,
    /// What the dispatcher found the command to be.
    pub name: &'static str,
    /// Instead of an answer, where a fail point says so.
    pub closes_connection: bool,
}

/// Whether the answer to this command may be a batch of many megabytes.
pub fn has_batch(body: &Document) -> bool {
    let row = body.first().and_then(|(name, _)| table::find(name));
    row.is_some_and(|row| row.rules.has_batch)
}

/// What is part of proving an identity is not compressed: how well secrets pack tells of them.
pub fn is_never_compressed(name: &str) -> bool {
    const PLAIN: &[&str] =
        &["hello", "isMaster", "saslStart", "saslContinue", "authenticate", "createUser", "updateUser"];
    PLAIN.contains(&name)
}

pub async fn answer(deployment: &Arc<Deployment>, connection: &Arc<Connection>, body: Document) -> Answered {
    let row = match find(&body) {
        Ok(row) => row,
        Err(error) => return failed("", &error),
    };
    deployment.counters.operations.count(row.name);
    let run = AssertUnwindSafe(run(deployment, connection, row, body)).catch_unwind();
    match run.await {
        Ok(Ok(document)) => Answered { document, failed: false, name: row.name, closes_connection: false },
        Ok(Err(error)) => failed(row.name, &told(row, error)),
        Err(panic) => {
            tracing::error!(command = row.name, panic = panic_message(&*panic), "a command handler panicked");
            failed(row.name, &error!(code::INTERNAL_ERROR, "a defect of the server: see its log"))
        }
    }
}

/// The answer to what is no command at all.
pub fn failed(name: &'static str, error: &CommandError) -> Answered {
    Answered { document: error.reply().to_bytes(), failed: true, name, closes_connection: false }
}

/// Only writes that drivers may repeat carry the label that makes them.
fn told(row: &Command, error: CommandError) -> CommandError {
    if row.rules.is_retryable { error } else { error.without_label(RETRYABLE_WRITE) }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

fn find(body: &Document) -> Result<&'static Command> {
    let name = body.first().map_or("", |(name, _)| &**name);
    table::find(name).ok_or_else(|| error!(code::COMMAND_NOT_FOUND, "no such command: '{name}'"))
}

async fn run(
    deployment: &Arc<Deployment>,
    connection: &Arc<Connection>,
    row: &'static Command,
    body: Document,
) -> Result<Vec<u8>> {
    let principal = connection.principal();
    check_access(deployment, row, principal.as_deref())?;
    let generic = Generic::parse(&body)?;
    check_rules(row, &generic)?;
    let call = enter(deployment, connection, row, (body, generic), principal).await?;
    let time = call.time_left() + GRACE;
    let reply = match tokio::time::timeout(time, (row.handler)(&call)).await {
        Ok(reply) => reply?,
        Err(_) => fail!(code::MAX_TIME_EXPIRED, "operation exceeded time limit"),
    };
    Ok(finish(row, &call, reply))
}

fn check_access(deployment: &Deployment, row: &Command, principal: Option<&Principal>) -> Result<()> {
    match principal {
        None if deployment.settings.requires_authentication && row.rules.needs_user => {
            Err(error!(code::UNAUTHORIZED, "Command {} requires authentication", row.name))
        }
        Some(principal) if principal.access == Access::ReadOnly && row.rules.is_write => Err(error!(
            code::UNAUTHORIZED,
            "not authorized to execute command {} with a read-only key", row.name
        )),
        _ => Ok(()),
    }
}

fn check_rules(row: &Command, generic: &Generic) -> Result<()> {
    let name = row.name;
    if row.rules.is_admin_only && generic.database != "admin" {
        fail!(code::UNAUTHORIZED, "{name} may only be run against the admin database.");
    }
    if generic.is_api_strict && !row.rules.is_stable {
        fail!(code::API_STRICT, "Provided apiStrict:true, but the command {name} is not in API Version 1");
    }
    check_transaction(row, generic)?;
    let level = generic.read_concern.and_then(|concern| concern.level);
    if level.is_some_and(|level| level != ReadLevel::Local) && !row.rules.has_read_concern {
        fail!(code::INVALID_OPTIONS, "read concern is not supported by the command {name}");
    }
    Ok(())
}

fn check_transaction(row: &Command, generic: &Generic) -> Result<()> {
    let name = row.name;
    let is_numbered = generic.transaction_number.is_some();
    if is_numbered && generic.session.is_none() {
        fail!(code::INVALID_OPTIONS, "Transaction number requires a session ID to also be specified");
    }
    match generic.transaction_part {
        Some(_) if !is_numbered => Err(error!(
            code::INVALID_OPTIONS,
            "'autocommit' field requires a transaction number to also be specified"
        )),
        Some(_) if !row.rules.in_transaction => {
            Err(error!(code::NOT_IN_TRANSACTION, "Cannot run '{name}' in a multi-document transaction."))
        }
        Some(TransactionPart::First | TransactionPart::Later) => Err(error!(
            code::NOT_IN_TRANSACTION,
            "transactions are not supported yet: leave out startTransaction"
        )),
        None if is_numbered && !row.rules.is_retryable => Err(error!(
            code::NOT_A_RETRYABLE_WRITE,
            "txnNumber may only be provided for multi-document transactions and retryable write commands. \
             autocommit:false was not provided, and {name} is not a retryable write command."
        )),
        None => Ok(()),
    }
}

async fn enter(
    deployment: &Arc<Deployment>,
    connection: &Arc<Connection>,
    row: &'static Command,
    (body, generic): (Document, Generic),
    principal: Option<Arc<Principal>>,
) -> Result<Call> {
    let account = &deployment.account;
    let user = principal.as_ref().map(|principal| principal.key());
    let session = generic.session.map(|id| deployment.sessions.enter(SessionKey { id, user })).transpose()?;
    let time = deployment.settings.request_timeout;
    let time = generic.time_max.map_or(time, |asked| asked.min(time));
    let deadline = account.clock().elapsed() + time;
    let retryable = match (&session, generic.transaction_number) {
        (Some(session), Some(number)) => {
            let begun = tokio::time::timeout(time, session.statements.begin(number)).await;
            Some(begun.map_err(|_| error!(code::MAX_TIME_EXPIRED, "operation exceeded time limit"))??)
        }
        _ => None,
    };
    let context = RequestContext {
        activity_id: account.random().guid(),
        now: account.clock().now(),
        deadline,
        consistency: account.consistency(),
        session: None,
        priority: Default::default(),
        answer_space: None,
    };
    let (deployment, connection, name) = (deployment.clone(), connection.clone(), row.name);
    Ok(Call { deployment, connection, name, body, generic, principal, session, retryable, context })
}

/// Adds what every reply has.
fn finish(row: &Command, call: &Call, mut reply: Reply) -> Vec<u8> {
    if let Some(concern) = &call.generic.write_concern
        && row.rules.has_write_concern
    {
        if concern.is_unacknowledged() {
            reply.fields.remove("writeErrors");
        }
        if let Some(error) = concern.unsatisfied()
            && !reply.fields.has("writeConcernError")
        {
            reply.fields.push("writeConcernError", error.write_concern_error().into());
        }
    }
    if !reply.fields.has("ok") {
        reply.fields.push("ok", Value::Double(1.0));
    }
    reply.to_bytes()
}
