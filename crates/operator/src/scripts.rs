//! `POST scripts/run`: a script in the form that its author has it now, run without keeping what it writes, or with.
//!
//! | `kind` | `arguments` | `request` | `result` |
//! |---|---|---|---|
//! | `procedure` | a JSON array | – | the body that it sets |
//! | `trigger` | – | `{"operation": "Create", "body": …}` | the request's body as the trigger leaves it |
//!
//! A script that fails is answered with its error, to which `log`, `line` and `column` are added.

use http::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use shardlake_account::{ContainerHandle, ScriptTrial, TrialReply, TrialRole, parse_partition_key};
use shardlake_model::{Error, Result, TriggerOperation};

use crate::{OperatorCall, OperatorReply};

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Body<'a> {
    kind: String,
    body: String,
    #[serde(borrow)]
    partition_key: &'a RawValue,
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
}

pub(crate) async fn run(call: &OperatorCall<'_>, container: &ContainerHandle) -> Result<OperatorReply> {
    let body: Body<'_> = serde_json::from_slice(&call.body)
        .map_err(|error| Error::bad_request(format!("the request body is no script to run: {error}")))?;
    let key = parse_partition_key(body.partition_key.get())
        .map_err(|error| Error::bad_request(format!("the partition key is invalid: {error}")))?;
    let trial = ScriptTrial { role: role(&body)?, source: &body.body, key: Some(&key), commits: body.commit };
    let started = call.account.clock().elapsed();
    let reply = call.account.try_script(&call.context, container, &trial).await?;
    let elapsed = call.account.clock().elapsed().saturating_sub(started);
    Ok(answer(reply, elapsed.as_secs_f64() * 1000.0))
}

fn role<'b>(body: &'b Body<'_>) -> Result<TrialRole<'b>> {
    match (body.kind.as_str(), &body.request) {
        ("procedure", None) => {
            let arguments = body.arguments.map_or("[]", RawValue::get);
            if !arguments.starts_with('[') {
                return Err(Error::bad_request("'arguments' is an array, in the order of the parameters"));
            }
            Ok(TrialRole::Procedure { arguments })
        }
        ("trigger", Some(request)) if body.arguments.is_none() => Ok(TrialRole::PreTrigger {
            operation: operation(&request.operation)?,
            request_body: request.body.map(RawValue::get),
        }),
        ("procedure" | "trigger", _) => Err(Error::bad_request(
            "a procedure takes 'arguments' and no 'request', a trigger a 'request' and no 'arguments'",
        )),
        ("function", _) => Err(Error::unsupported(
            "running functions here is not supported: call them in a query, as udf.name()",
        )),
        (other, _) => Err(Error::bad_request(format!("the kind '{other}' is none of procedure, trigger"))),
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
    OperatorReply { charge_centi, ..OperatorReply::json(StatusCode::OK, text) }
}

/// Where an error of a script says that it is.
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
