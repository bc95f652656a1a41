//! `POST scripts/run`: a trial run of a script's current text, which keeps or discards its writes.
//!
//! | `kind` | `arguments` | `request` | `result` |
//! |---|---|---|---|
//! | `procedure` | a JSON array | – | the body that it sets |
//! | `trigger`, `triggerType` `Pre` or none | – | `{"operation": "Create", "body": …}` | the request's body as the trigger leaves it |
//! | `trigger`, `triggerType` `Post` | – | as above; a delete has `"id"` | the response's body as the trigger leaves it |
//! | `function` | a JSON array | – | its return value; null for undefined |
//!
//! A trigger after a write is tried with that write, which is among `writes`. A function has no partition key
//! and writes nothing. If a script fails, the answer is its error with `log`, `line` and `column` added.

use http::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use shardlake_account::{
    ContainerHandle, ScriptTrial, TrialReply, TrialRole, TrialWrite, parse_partition_key,
};
use shardlake_model::{Error, Result, TriggerOperation};

use crate::{OperatorCall, OperatorReply};

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Body<'a> {
    kind: String,
    body: String,
    #[serde(borrow, default)]
    partition_key: Option<&'a RawValue>,
    #[serde(default)]
    trigger_type: Option<String>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    request: Option<Request<'a>>,
    #[serde(default)]
    commit: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request<'a> {
    operation: String,
    #[serde(borrow, default)]
    body: Option<&'a RawValue>,
    #[serde(default)]
    id: Option<String>,
}

pub(crate) async fn run(call: &OperatorCall<'_>, container: &ContainerHandle) -> Result<OperatorReply> {
    let body: Body<'_> = serde_json::from_slice(&call.body)
        .map_err(|error| Error::bad_request(format!("the request body is no script to run: {error}")))?;
    let started = call.account.router().clock().elapsed();
    let reply = match body.kind.as_str() {
        "function" => call_function(call, container, &body).await?,
        _ => try_out(call, container, &body).await?,
    };
    let elapsed = call.account.router().clock().elapsed().saturating_sub(started);
    Ok(answer(reply, elapsed.as_secs_f64() * 1000.0))
}

async fn try_out(
    call: &OperatorCall<'_>,
    container: &ContainerHandle,
    body: &Body<'_>,
) -> Result<TrialReply> {
    let role = role(body)?;
    let key = body
        .partition_key
        .ok_or_else(|| Error::bad_request("procedures and triggers take a 'partitionKey'"))?;
    let key = parse_partition_key(key.get())
        .map_err(|error| Error::bad_request(format!("the partition key is invalid: {error}")))?;
    let trial = ScriptTrial { role, source: &body.body, key: Some(&key), commits: body.commit };
    call.account.procedures().try_script(&call.context, container, &trial).await
}

async fn call_function(
    call: &OperatorCall<'_>,
    container: &ContainerHandle,
    body: &Body<'_>,
) -> Result<TrialReply> {
    let is_plain = body.partition_key.is_none() && body.request.is_none() && body.trigger_type.is_none();
    if !is_plain || body.commit {
        return Err(Error::bad_request(
            "a function takes 'arguments' alone: it has no partition key, and nothing to commit",
        ));
    }
    let arguments: Vec<&RawValue> = serde_json::from_str(arguments(body)?)
        .map_err(|error| Error::bad_request(format!("'arguments' is no array: {error}")))?;
    let arguments: Vec<String> = arguments.iter().map(|argument| argument.get().to_owned()).collect();
    call.account.procedures().try_function(&call.context, container, &body.body, &arguments).await
}

fn role<'b>(body: &'b Body<'_>) -> Result<TrialRole<'b>> {
    match (body.kind.as_str(), &body.request) {
        ("procedure", None) if body.trigger_type.is_none() => {
            Ok(TrialRole::Procedure { arguments: arguments(body)? })
        }
        ("trigger", Some(request)) if body.arguments.is_none() => trigger(body, request),
        ("procedure" | "trigger", _) => Err(Error::bad_request(
            "a procedure takes 'arguments' and no 'request', a trigger a 'request' and no 'arguments'",
        )),
        (other, _) => {
            Err(Error::bad_request(format!("the kind '{other}' is none of procedure, trigger, function")))
        }
    }
}

fn arguments<'b>(body: &'b Body<'_>) -> Result<&'b str> {
    let arguments = body.arguments.map_or("[]", RawValue::get);
    match arguments.starts_with('[') {
        true => Ok(arguments),
        false => Err(Error::bad_request("'arguments' is an array, in the order of the parameters")),
    }
}

fn trigger<'b>(body: &'b Body<'_>, request: &'b Request<'_>) -> Result<TrialRole<'b>> {
    let operation = operation(&request.operation)?;
    let written = request.body.map(RawValue::get);
    match (body.trigger_type.as_deref(), written, request.id.as_deref()) {
        (None | Some("Pre"), request_body, None) => Ok(TrialRole::PreTrigger { operation, request_body }),
        (Some("Post"), Some(text), None) => {
            Ok(TrialRole::PostTrigger { operation, write: TrialWrite::Body(text) })
        }
        (Some("Post"), None, Some(id)) => Ok(TrialRole::PostTrigger { operation, write: TrialWrite::Id(id) }),
        (None | Some("Pre" | "Post"), ..) => Err(Error::bad_request(
            "the request of a trigger has the 'body' that is written; only a delete, before a trigger of the type Post, has an 'id'",
        )),
        (Some(other), ..) => {
            Err(Error::bad_request(format!("the trigger type '{other}' is none of Pre, Post")))
        }
    }
}

fn operation(name: &str) -> Result<TriggerOperation> {
    match name {
        "Create" => Ok(TriggerOperation::Create),
        "Replace" => Ok(TriggerOperation::Replace),
        "Upsert" => Ok(TriggerOperation::Upsert),
        "Delete" => Ok(TriggerOperation::Delete),
        other => Err(Error::bad_request(format!(
            "the operation '{other}' is none of Create, Replace, Upsert, Delete"
        ))),
    }
}

fn answer(reply: TrialReply, elapsed_ms: f64) -> OperatorReply {
    let charge_centi = reply.charge_centi;
    let result = match reply.outcome {
        Ok(result) => result,
        Err(error) => {
            let (line, column) = place(error.message());
            let members = json!({
                "log": reply.log,
                "line": line,
                "column": column,
                "charge": charge_centi as f64 / 100.0,
                "elapsedMs": elapsed_ms,
            });
            return OperatorReply::failed(error, charge_centi, members);
        }
    };
    let writes: Vec<Value> =
        reply.writes.iter().map(|write| json!({ "operation": write.operation, "id": write.id })).collect();
    let head = json!({
        "log": reply.log,
        "charge": charge_centi as f64 / 100.0,
        "elapsedMs": elapsed_ms,
        "writes": writes,
        "committed": reply.committed,
    });
    let mut text = serde_json::to_vec(&head).expect("reports have a JSON form");
    text.pop();
    // Last, and as the script made it: no number passes through a double.
    text.extend_from_slice(b",\"result\":");
    text.extend_from_slice(result.as_deref().unwrap_or("null").as_bytes());
    text.push(b'}');
    OperatorReply { charge_centi, ..OperatorReply::json(StatusCode::OK, vec![text]) }
}

/// The line and column that an error of a script names.
fn place(message: &str) -> (Option<u32>, Option<u32>) {
    let number = |text: &str| -> Option<u32> {
        let end = text.find(|one: char| !one.is_ascii_digit()).unwrap_or(text.len());
        text[..end].parse().ok()
    };
    let Some((_, rest)) = message.split_once(" at line ") else { return of_stack(message) };
    let column = rest.split_once(", column ").and_then(|(_, column)| number(column));
    (number(rest), column)
}

/// `name.js:3:14` in the first line of a stack that has one.
fn of_stack(message: &str) -> (Option<u32>, Option<u32>) {
    let Some((_, rest)) = message.split_once(".js:") else { return (None, None) };
    let mut numbers = rest.split(|one: char| !one.is_ascii_digit());
    let line = numbers.next().and_then(|text| text.parse().ok());
    (line, numbers.next().and_then(|text| text.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_in_the_words_of_errors() {
        assert_eq!(place("unexpected token at line 3, column 14"), (Some(3), Some(14)));
        assert_eq!(place("Error: no\n   at f (trial.js:2:9)\n   at trial.js:7:1"), (Some(2), Some(9)));
        assert_eq!(place("took longer than a script may"), (None, None));
    }
}
