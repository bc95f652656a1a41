//! Functions over changes as JSON: their definitions, states and lags, and the actions of an operator.
//!
//! A definition is sent and shown as it is written (docs/functions.md). Its id is in the path; a body that names an id must
//! name the same.

use http::StatusCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use shardlake_account::{
    FunctionAsked, FunctionDefinition, FunctionLogLine, FunctionPut, FunctionReport, FunctionWriteKind,
    FunctionWriteOrder, ReplayFrom, name_of_write,
};
use shardlake_model::{Error, Result};
use shardlake_stdx::Timestamp;

use crate::pieces::written;
use crate::{OperatorCall, OperatorReply};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FunctionAction {
    One,
    Pause,
    Resume,
    Try,
    Replay,
    Log,
    Versions,
    Rollback,
}

impl FunctionAction {
    pub const NAMED: [FunctionAction; 7] = [
        FunctionAction::Pause,
        FunctionAction::Resume,
        FunctionAction::Try,
        FunctionAction::Replay,
        FunctionAction::Log,
        FunctionAction::Versions,
        FunctionAction::Rollback,
    ];

    /// Its segment in a path.
    pub fn name(self) -> &'static str {
        match self {
            FunctionAction::One => "",
            FunctionAction::Pause => "pause",
            FunctionAction::Resume => "resume",
            FunctionAction::Try => "try",
            FunctionAction::Replay => "replay",
            FunctionAction::Log => "log",
            FunctionAction::Versions => "versions",
            FunctionAction::Rollback => "rollback",
        }
    }
}

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
        (FunctionAction::Log, "GET") => return log(call, id),
        (FunctionAction::Versions, "GET") => return versions(call, id),
        (FunctionAction::Try, "POST") => return try_last(call, id).await,
        (FunctionAction::Replay, "POST") => {
            functions.replay(&call.context, id, replay_from(&call.body)?).await?;
        }
        (FunctionAction::Rollback, "POST") => {
            let order: RollbackOrder = order(&call.body)?;
            functions.rollback(&call.context, id, order.version).await?;
        }
        _ => return Err(crate::wrong_method(call)),
    }
    let report = functions.function(id).await?;
    Ok(OperatorReply::json(status, written(&document(&report, true))))
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RollbackOrder {
    version: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrialOrder {
    /// In place of the function's code.
    code: Option<String>,
    last: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplayOrder {
    from: String,
}

/// Changes of a trial that names no number.
const TRIAL_CHANGES: u32 = 20;

/// The body of an order, which may be empty where all members may be left out.
fn order<T: Default + DeserializeOwned>(body: &[u8]) -> Result<T> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(T::default());
    }
    serde_json::from_slice(body)
        .map_err(|error| Error::bad_request(format!("the request body is invalid: {error}")))
}

fn replay_from(body: &[u8]) -> Result<ReplayFrom> {
    let invalid = |reason: &dyn std::fmt::Display| {
        Error::bad_request(format!(
            "the request body is invalid: {reason}; send {{\"from\": \"beginning\"}}, or a time such as 2026-11-30T08:15:00Z"
        ))
    };
    let order: ReplayOrder = serde_json::from_slice(body).map_err(|error| invalid(&error))?;
    if order.from == "beginning" {
        return Ok(ReplayFrom::Beginning);
    }
    let time = chrono::DateTime::parse_from_rfc3339(&order.from).map_err(|error| invalid(&error))?;
    let milliseconds = u64::try_from(time.timestamp_millis()).unwrap_or(0);
    Ok(ReplayFrom::Time(Timestamp(milliseconds)))
}

fn log(call: &OperatorCall<'_>, id: &str) -> Result<OperatorReply> {
    let line = |line: FunctionLogLine| {
        let FunctionLogLine { time, version, attempt, upto, text } = line;
        json!({ "time": time_text(time), "version": version, "attempt": attempt, "upto": upto, "text": text })
    };
    let lines: Vec<Value> = call.account.functions().log(id)?.into_iter().map(line).collect();
    Ok(crate::ok(written(&json!({ "lines": lines }))))
}

/// As `2026-11-30T08:15:00.000Z`.
fn time_text(time: Timestamp) -> String {
    let milliseconds = i64::try_from(time.milliseconds()).unwrap_or(i64::MAX);
    let time = chrono::DateTime::from_timestamp_millis(milliseconds).unwrap_or_default();
    time.to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
}

fn versions(call: &OperatorCall<'_>, id: &str) -> Result<OperatorReply> {
    let versions = call.account.functions().versions(id)?;
    Ok(crate::ok(written(&json!({ "versions": versions }))))
}

async fn try_last(call: &OperatorCall<'_>, id: &str) -> Result<OperatorReply> {
    let order: TrialOrder = order(&call.body)?;
    let last = order.last.unwrap_or(TRIAL_CHANGES);
    let trial = call.account.functions().try_last(id, order.code.as_deref(), last).await?;
    let letter = |(place, reason): &(u32, String)| json!({ "change": place, "reason": reason });
    let failure = trial.failure.as_ref().map(|error| json!({ "message": error.message() }));
    Ok(crate::ok(written(&json!({
        "changes": trial.changes.iter().map(|change| parsed(change)).collect::<Vec<_>>(),
        "error": failure,
        "writes": trial.writes.iter().map(write).collect::<Vec<_>>(),
        "deadLetters": trial.letters.iter().map(letter).collect::<Vec<_>>(),
        "reads": trial.reads.iter().map(read).collect::<Vec<_>>(),
        "log": trial.log,
        "requestUnits": trial.charge_centi as f64 / 100.0,
        "milliseconds": u64::try_from(trial.time.as_millis()).unwrap_or(u64::MAX),
    }))))
}

/// JSON that the server made.
fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

fn write(order: &FunctionWriteOrder) -> Value {
    let mut write = json!({ "container": order.container, "operation": name_of_write(&order.kind) });
    match &order.kind {
        FunctionWriteKind::Create { item }
        | FunctionWriteKind::Upsert { item }
        | FunctionWriteKind::Replace { item } => write["item"] = parsed(item),
        FunctionWriteKind::Patch { id, partition_key, operations } => {
            write["id"] = id.as_str().into();
            write["partitionKey"] = parsed(partition_key);
            write["operations"] = parsed(operations);
        }
        FunctionWriteKind::Delete { id, partition_key } => {
            write["id"] = id.as_str().into();
            write["partitionKey"] = parsed(partition_key);
        }
    }
    if let Some(etag) = &order.if_match {
        write["ifMatch"] = etag.as_str().into();
    }
    write
}

fn read(asked: &FunctionAsked) -> Value {
    match asked {
        FunctionAsked::Read(read) => {
            json!({ "container": read.container, "id": read.id, "partitionKey": parsed(&read.partition_key) })
        }
        FunctionAsked::Query(query) => json!({
            "container": query.container,
            "query": query.text,
            "parameters": parsed(&query.parameters),
            "partitionKey": query.partition_key.as_deref().map(parsed),
        }),
    }
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
    assert!(report.failed_runs <= report.runs, "failed runs are among the runs");
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
            "requestUnits": report.charge_centi as f64 / 100.0,
        },
        "lastError": error.map(|(message, at)| json!({ "message": message, "time": at.seconds() })),
        "definition": definition,
        "places": report.places().iter().map(place).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_read_and_others_refused() {
        let from = |body: &str| replay_from(body.as_bytes());
        assert_eq!(from(r#"{"from":"beginning"}"#).expect("valid"), ReplayFrom::Beginning);
        let time = ReplayFrom::Time(Timestamp(1_764_490_500_000));
        assert_eq!(from(r#"{"from":"2025-11-30T08:15:00Z"}"#).expect("valid"), time);
        for body in ["", "{}", r#"{"from":"yesterday"}"#, r#"{"from":"beginning","to":1}"#] {
            assert!(from(body).expect_err(body).message().contains("2026-11-30T08:15:00Z"), "{body}");
        }
        assert_eq!(time_text(Timestamp(1_764_490_500_007)), "2025-11-30T08:15:00.007Z");
        assert_eq!(order::<TrialOrder>(b" ").expect("empty").last, None);
        assert_eq!(order::<TrialOrder>(br#"{"last":5}"#).expect("valid").last, Some(5));
        order::<TrialOrder>(br#"{"first":5}"#).expect_err("unknown");
        assert!(definition("f", br#"{"id":"g"}"#).expect_err("another").message().contains("\"g\""));
        let unknown = br#"{"source":{"database":"d","container":"c"},"code":"x","colour":1}"#;
        assert!(definition("f", unknown).expect_err("unknown").message().contains("colour"));
    }
}
