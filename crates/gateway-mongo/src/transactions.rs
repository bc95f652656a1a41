//! Rules for all commands in a transaction: which commands may be part of one, and how it continues.

use shardlake_mql::{Document, Value};

use crate::arguments::{Generic, TransactionPart};
use crate::call::{Call, Command};
use crate::errors::{CommandError, Result, code, error, fail};
use crate::reply::Reply;

/// Stages that write, or that report the server's state instead of documents.
const REFUSED_STAGES: &[&str] = &[
    "$out",
    "$merge",
    "$unionWith",
    "$currentOp",
    "$collStats",
    "$indexStats",
    "$planCacheStats",
    "$listLocalSessions",
    "$listSessions",
    "$changeStream",
];

/// Checks the generic fields of a command that has `autocommit`.
pub fn check_fields(row: &Command, generic: &Generic, part: TransactionPart) -> Result<()> {
    let name = row.name;
    if generic.transaction_number.is_none() {
        fail!(code::INVALID_OPTIONS, "'autocommit' field requires a transaction number to also be specified");
    }
    generic.check_session()?;
    if row.rules.ends_transaction {
        return match part {
            TransactionPart::Later => Ok(()),
            TransactionPart::First => {
                Err(error!(code::NOT_IN_TRANSACTION, "{name} cannot begin a transaction"))
            }
        };
    }
    if generic.write_concern.is_some() {
        fail!(code::INVALID_OPTIONS, "writeConcern is not allowed within a multi-statement transaction");
    }
    if part == TransactionPart::Later && generic.read_concern.is_some() {
        fail!(code::INVALID_OPTIONS, "Only the first command in a transaction may specify a readConcern");
    }
    Ok(())
}

/// Refuses namespaces and stages that a transaction does not allow. A refused command neither begins a transaction nor ends one.
pub fn check(row: &Command, body: &Document, generic: &Generic) -> Result<()> {
    if generic.transaction_part.is_none() || row.rules.ends_transaction {
        return Ok(());
    }
    let database = &*generic.database;
    let target = body.first().and_then(|(_, value)| value.as_str());
    check_namespace(database, target.unwrap_or_default())?;
    for info in body.get("nsInfo").and_then(Value::as_array).into_iter().flat_map(|list| list.iter()) {
        let info = info.as_document().map(|info| info.value("ns"));
        let name = info.as_ref().and_then(Value::as_str).unwrap_or_default();
        let (database, collection) = name.split_once('.').unwrap_or((name, ""));
        check_namespace(database, collection)?;
    }
    if row.name == "aggregate" {
        if body.get("explain").is_some_and(Value::is_true) {
            fail!(code::NOT_IN_TRANSACTION, "Cannot run 'explain' in a multi-document transaction.");
        }
        check_stages(body.get("pipeline"))?;
    }
    Ok(())
}

fn check_namespace(database: &str, collection: &str) -> Result<()> {
    if matches!(database, "config" | "local") {
        fail!(
            code::NOT_IN_TRANSACTION,
            "Cannot run command against the '{database}' database in a transaction."
        );
    }
    if collection.starts_with("system.") {
        fail!(
            code::NOT_IN_TRANSACTION,
            "Cannot run command against the '{database}.{collection}' collection in a transaction."
        );
    }
    Ok(())
}

/// Also those of pipelines within stages.
fn check_stages(pipeline: Option<&Value>) -> Result<()> {
    let stages = pipeline.and_then(Value::as_array).into_iter().flat_map(|stages| stages.iter());
    for stage in stages.filter_map(Value::as_document) {
        for (name, specification) in stage.iter() {
            if REFUSED_STAGES.contains(&&**name) {
                fail!(
                    code::NOT_IN_TRANSACTION,
                    "Operation not permitted in transaction :: caused by :: Aggregation stage {name} cannot run within a multi-document transaction"
                );
            }
            let inner = specification.as_document().filter(|_| matches!(&**name, "$lookup" | "$facet"));
            for (_, value) in inner.iter().flat_map(|inner| inner.iter()) {
                check_stages(Some(value))?;
            }
        }
    }
    Ok(())
}

/// Gives the transaction back after a command. It continues if the command has succeeded with all its statements.
pub fn give_back(call: &mut Call, outcome: &Result<Reply, CommandError>) {
    let Some(turn) = call.transaction.take() else { return };
    let now = call.deployment.account.router().clock().elapsed();
    match outcome {
        Ok(reply) if !has_write_errors(reply) => turn.keep(now),
        _ => {
            let number = turn.number();
            drop(turn);
            end_cursors(call, number);
        }
    }
}

fn has_write_errors(reply: &Reply) -> bool {
    let errors = reply.fields.get("nErrors").and_then(Value::to_i64_exact);
    reply.fields.has("writeErrors") || errors.is_some_and(|errors| errors > 0)
}

/// The cursors of a transaction end with it.
pub fn end_cursors(call: &Call, number: i64) {
    let owner = call.owner();
    call.deployment.cursors.kill_of_sessions(|own| {
        own.session == owner.session && own.user == owner.user && own.transaction == Some(number)
    });
}
