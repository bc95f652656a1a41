//! `currentOp` and `killOp`.

use shardlake_mql::{Document, Value};

use crate::arguments::{Field, Types, optional, truncated, wrong_type};
use crate::call::{Call, Command, command};
use crate::errors::{Result, code, error, fail};
use crate::operations::Operation;
use crate::reply::Reply;

pub static OPERATIONS: &[Command] =
    &[command!("currentOp", current_op).admin_only(), command!("killOp", kill_op).admin_only()];

/// All running commands, this one included.
async fn current_op(call: &Call) -> Result<Reply> {
    const FIELDS: &[Field] = &[optional("$ownOps", Types::BOOL), optional("$all", Types::BOOL)];
    call.arguments(FIELDS)?;
    let operations = call.deployment.operations.list();
    let listed = operations.iter().map(|operation| describe_operation(call, operation).into()).collect();
    Ok(Document::one("inprog", Value::array(listed)).into())
}

/// A running command in the form of `currentOp` and of the stage of this name.
pub fn describe_operation(call: &Call, operation: &Operation) -> Document {
    let now = call.deployment.account.router().clock().elapsed();
    let work = &operation.work;
    let running = now.saturating_sub(work.started);
    let mut described = Document::one("type", "op");
    described.push("desc", Value::string(format!("conn{}", work.connection)));
    described.push("connectionId", Value::Int(work.connection));
    described.push("active", Value::Bool(true));
    described.push("opid", Value::Int(operation.number));
    described.push("secs_running", Value::Long(running.as_secs() as i64));
    described.push("microsecs_running", Value::Long(running.as_micros() as i64));
    described.push("op", Value::string("command"));
    described.push("ns", Value::string(format!("{}.$cmd", work.database)));
    described.push("command", Document::one(work.command, 1).into());
    described
}

/// Succeeds also for an unknown operation, which may have ended just before.
async fn kill_op(call: &Call) -> Result<Reply> {
    let Some(value) = call.body.get("op") else {
        fail!(code::NO_SUCH_KEY, "Missing expected field \"op\"");
    };
    if !Types::NUMBER.has(value) {
        return Err(wrong_type("killOp.op", value, Types::NUMBER));
    }
    let number = truncated(value).unwrap_or_default();
    if !(i64::from(i32::MIN)..=i64::from(u32::MAX)).contains(&number) {
        return Err(error!(code::INVALID_OPERATION, "invalid op : {number}"));
    }
    call.deployment.operations.kill(number as i32);
    Ok(Document::one("info", "attempting to kill op").into())
}
