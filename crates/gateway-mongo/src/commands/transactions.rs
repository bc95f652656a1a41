//! `commitTransaction` and `abortTransaction`. No transaction can be begun yet, so there is none that they could end.

use crate::arguments::{Field, Types, optional};
use crate::call::{Call, Command, command};
use crate::errors::{Result, TRANSIENT_TRANSACTION, code, error, fail};
use crate::reply::Reply;

pub static TRANSACTIONS: &[Command] = &[
    command!("commitTransaction", end).write().admin_only().in_transaction().ends_transaction().stable(),
    command!("abortTransaction", end).write().admin_only().in_transaction().ends_transaction().stable(),
];

async fn end(call: &Call) -> Result<Reply> {
    const FIELDS: &[Field] =
        &[optional("recoveryToken", Types::OBJECT), optional("durableTxnNumber", Types::LONG)];
    call.arguments(FIELDS)?;
    let name = call.name;
    let (Some(session), Some(number)) = (&call.session, call.generic.transaction_number) else {
        fail!(code::COMMAND_FAILED, "{name} must be run within a transaction");
    };
    match session.statements.number() {
        Some(highest) if number < highest => fail!(
            code::TRANSACTION_TOO_OLD,
            "Cannot end transaction {number}: the session has used {highest}"
        ),
        _ => {
            let told = error!(
                code::NO_SUCH_TRANSACTION,
                "Given transaction number {number} does not match any in-progress transactions."
            );
            Err(if name == "commitTransaction" { told.with_label(TRANSIENT_TRANSACTION) } else { told })
        }
    }
}
