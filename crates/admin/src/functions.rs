//! Functions over changes as JSON: their definitions, states and lags, and the actions of an operator.
//!
//! A definition is sent and shown as it is written (docs/functions.md). Its id is in the path; a body that names an id must
//! name the same.

use http::StatusCode;
use serde_json::{Value, json};
use shardlake_account::{FunctionDefinition, FunctionPut, FunctionReport};
use shardlake_model::{Error, Result};

use crate::copies::FunctionAction;
use crate::pieces::written;
use crate::{OperatorCall, OperatorReply};

pub(crate) async fn serve(
    call: &OperatorCall<'_>,
    id: &str,
    action: FunctionAction,
) -> Result<OperatorReply> {
    call.address.only_parameter("")?;
    let functions = call.account.functions();
    let mut status = StatusCode::OK;
    match (action, call.method.as_str()) {
        (FunctionAction::One, "GET") => {}
        (FunctionAction::One, "PUT") => {
            let put = functions.put(&call.context, definition(id, &call.body)?).await?;
            if put == FunctionPut::Created {
                status = StatusCode::CREATED;
            }
        }
        (FunctionAction::One, "DELETE") => {
            functions.delete(id).await?;
            return Ok(OperatorReply::empty(StatusCode::NO_CONTENT));
        }
        (FunctionAction::Pause, "POST") => functions.pause(id).await?,
        (FunctionAction::Resume, "POST") => functions.resume(id).await?,
        (
            FunctionAction::Try
            | FunctionAction::Replay
            | FunctionAction::Log
            | FunctionAction::Versions
            | FunctionAction::Rollback,
            _,
        ) => {
            return Err(Error::unsupported(format!(
                "'{}' of functions is not supported yet; nothing was done",
                action.name()
            )));
        }
        _ => return Err(crate::wrong_method(call)),
    }
    let report = functions.function(id).await?;
    Ok(OperatorReply::json(status, written(&document(&report, true))))
}

fn definition(id: &str, body: &[u8]) -> Result<FunctionDefinition> {
    let invalid = |error: &dyn std::fmt::Display| {
        Error::bad_request(format!("the request body is no definition of a function: {error}"))
    };
    let mut definition: Value = serde_json::from_slice(body).map_err(|error| invalid(&error))?;
    let members = definition.as_object_mut().ok_or_else(|| invalid(&"it is no object"))?;
    let named = members.entry("id").or_insert_with(|| id.into());
    if named.as_str() != Some(id) {
        return Err(Error::bad_request(format!(
            "the definition names the function {named}, and the path '{id}'"
        )));
    }
    serde_json::from_value(definition).map_err(|error| invalid(&error))
}

/// The report of a function; with its code where it is shown alone.
pub(crate) fn document(report: &FunctionReport, with_code: bool) -> Value {
    let place = |(min, max, lsn): &(String, String, u64)| json!({ "minInclusive": min, "maxExclusive": max, "lsn": lsn });
    let record = &report.record;
    let error = report.last_error.as_ref();
    let mut definition = serde_json::to_value(&record.definition).unwrap_or_default();
    if let Some(members) = definition.as_object_mut().filter(|_| !with_code) {
        members.remove("code");
    }
    json!({
        "kind": "function",
        "name": record.definition.id,
        "database": record.definition.source.database,
        "source": record.definition.source.container,
        "status": report.state.name(),
        "reason": report.state.reason(),
        "lag": { "changes": report.lag.changes, "seconds": report.lag.seconds },
        "version": record.version,
        "created": record.created,
        "changed": record.changed,
        "counts": {
            "changes": report.counts.changes,
            "written": report.counts.applied,
            "deadLetters": report.counts.dead_letters,
            "runs": report.runs,
            "failedRuns": report.failed_runs,
            "holes": report.holes,
        },
        "lastError": error.map(|(message, at)| json!({ "message": message, "time": at.seconds() })),
        "definition": definition,
        "places": report.places().iter().map(place).collect::<Vec<_>>(),
    })
}
