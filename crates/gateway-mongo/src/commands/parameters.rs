//! `getParameter`: the few parameters that this server has.

use shardlake_mql::{Document, Value};

use super::version::VERSION;
use crate::arguments::{Arguments, Field, Types, optional};
use crate::call::Call;
use crate::deployment::MongoSettings;
use crate::errors::{Result, code, error, fail};
use crate::reply::Reply;

/// Each parameter by its name.
fn parameters(settings: &MongoSettings) -> Vec<(&'static str, Value)> {
    let version = format!("{}.{}", VERSION[0], VERSION[1]);
    let mechanisms = ["SCRAM-SHA-1", "SCRAM-SHA-256"].map(Value::string);
    let session_minutes = (settings.sessions.idle_max.as_secs() / 60) as i32;
    let cursor_milliseconds = settings.cursors.idle_max.as_millis() as i64;
    vec![
        ("allowDiskUseByDefault", Value::Bool(true)),
        ("authenticationMechanisms", Value::array(mechanisms.to_vec())),
        ("authSchemaVersion", Value::Int(5)),
        ("cursorTimeoutMillis", Value::Long(cursor_milliseconds)),
        ("enableTestCommands", Value::Bool(settings.has_test_commands)),
        ("featureCompatibilityVersion", Document::one("version", version.as_str()).into()),
        ("localLogicalSessionTimeoutMinutes", Value::Int(session_minutes)),
        ("logLevel", Value::Int(0)),
        ("quiet", Value::Bool(false)),
        ("requireApiVersion", Value::Bool(false)),
        ("scramIterationCount", Value::Int(10_000)),
        ("scramSHA256IterationCount", Value::Int(15_000)),
    ]
}

pub async fn get_parameter(call: &Call) -> Result<Reply> {
    let known = parameters(&call.deployment.settings);
    let (is_all, is_detailed) = wanted(call.first())?;
    let show = |value: &Value| if is_detailed { detailed(value) } else { value.clone() };
    let mut reply = Document::new();
    for (name, value) in &known {
        if is_all || call.body.has(name) {
            reply.push(*name, show(value));
        }
    }
    if reply.is_empty() {
        fail!(code::INVALID_OPTIONS, "no option found to get");
    }
    Ok(reply.into())
}

/// Whether the client asks for all parameters, and for details.
fn wanted(first: &Value) -> Result<(bool, bool)> {
    const FIELDS: &[Field] = &[
        optional("showDetails", Types::BOOL),
        optional("allParameters", Types::BOOL),
        optional("setAt", Types::STRING),
    ];
    match first {
        Value::String(text) => Ok((**text == *"*", false)),
        Value::Document(document) => {
            let arguments = Arguments::of_document("getParameter", document, FIELDS)?;
            let flag = |name| arguments.bool(name).unwrap_or(false);
            match arguments.string("setAt") {
                None | Some("startup" | "runtime") => Ok((flag("allParameters"), flag("showDetails"))),
                Some(other) => Err(error!(code::BAD_VALUE, "'{other}' is neither startup nor runtime")),
            }
        }
        _ => Ok((false, false)),
    }
}

fn detailed(value: &Value) -> Value {
    let mut detailed = Document::one("value", value.clone());
    detailed.push("settableAtRuntime", Value::Bool(false));
    detailed.push("settableAtStartup", Value::Bool(false));
    detailed.into()
}
