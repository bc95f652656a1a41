//! `commitTransaction` and `abortTransaction`.
//!
//! A commit runs to its end even if its client disconnects. Its outcome is kept for a client that asks again.

use shardlake_account::Uncommitted;
use shardlake_account::collections::Failure;
use shardlake_model::ErrorKind;

use crate::arguments::{Field, Types, optional};
use crate::call::{Call, Command, command};
use crate::errors::{CommandError, Result, TRANSIENT_TRANSACTION, code, error, fail};
use crate::reply::Reply;
use crate::sessions::{Ending, TransactionTurn};
use crate::transactions::end_cursors;

pub static TRANSACTIONS: &[Command] = &[
    command!("commitTransaction", commit).write().admin_only().in_transaction().ends_transaction().stable(),
    command!("abortTransaction", abort).write().admin_only().in_transaction().ends_transaction().stable(),
];

const FIELDS: &[Field] =
    &[optional("recoveryToken", Types::OBJECT), optional("durableTxnNumber", Types::LONG)];

/// The transaction that the command names, with its number.
async fn ending(call: &Call) -> Result<(Ending, i64)> {
    call.arguments(FIELDS)?;
    let name = call.name;
    let (Some(session), Some(number)) = (&call.session, call.generic.transaction_number) else {
        fail!(code::COMMAND_FAILED, "{name} must be run within a transaction");
    };
    let now = call.deployment.account.router().clock().elapsed();
    let past = call.deployment.past();
    Ok((session.statements.end_transaction(number, now, past).await?, number))
}

fn unknown(number: i64) -> CommandError {
    error!(
        code::NO_SUCH_TRANSACTION,
        "Given transaction number {number} does not match any in-progress transactions."
    )
}

async fn commit(call: &Call) -> Result<Reply> {
    let (ending, number) = ending(call).await?;
    match ending {
        Ending::Open(turn) => {
            end_cursors(call, number);
            committed(call, *turn).await
        }
        Ending::Committed => Ok(Reply::ok()),
        // Without a label: a commit is remembered for as long as a session lives, and an older commit may have succeeded.
        Ending::Unknown => Err(unknown(number)),
    }
}

async fn committed(call: &Call, turn: TransactionTurn) -> Result<Reply> {
    let outcome = tokio::spawn(turn.commit(call.context.now)).await;
    let outcome = outcome.map_err(|_| error!(code::INTERNAL_ERROR, "a defect of the server: see its log"))?;
    outcome.map(|()| Reply::ok()).map_err(|Uncommitted { error, is_in_doubt }| {
        let has_moved = error.kind() == ErrorKind::PartitionGone;
        let told = CommandError::from(Failure::from(error));
        if is_in_doubt {
            return error!(code::INTERRUPTED_AT_SHUTDOWN, "{}", told.message());
        }
        if has_moved || told.code() == code::WRITE_CONFLICT {
            return error!(code::WRITE_CONFLICT, "{}", told.message()).with_label(TRANSIENT_TRANSACTION);
        }
        told
    })
}

async fn abort(call: &Call) -> Result<Reply> {
    let (ending, number) = ending(call).await?;
    match ending {
        Ending::Open(turn) => {
            drop(turn);
            end_cursors(call, number);
            Ok(Reply::ok())
        }
        Ending::Committed => Err(error!(
            code::TRANSACTION_COMMITTED,
            "Transaction with {{ txnNumber: {number} }} has been committed."
        )),
        Ending::Unknown => Err(unknown(number)),
    }
}
