//! `configureFailPoint`, for servers that are started for tests.

use std::time::Duration;

use shardlake_mql::{Document, Value};

use crate::arguments::{Arguments, Field, Types, optional, required};
use crate::call::{Call, Command, command};
use crate::errors::{CommandError, Result, code, error, fail};
use crate::fail_points::{FailCommand, Mode, texts};
use crate::reply::Reply;

pub static FAIL_POINTS: &[Command] =
    &[command!("configureFailPoint", configure_fail_point).admin_only().for_tests()];

async fn configure_fail_point(call: &Call) -> Result<Reply> {
    const FIELDS: &[Field] = &[
        required("configureFailPoint", Types::STRING),
        required("mode", Types::STRING.or(Types::OBJECT)),
        optional("data", Types::OBJECT),
    ];
    let arguments = call.arguments(FIELDS)?;
    let name = arguments.string("configureFailPoint").unwrap_or_default();
    if !["failCommand", "failGetMoreAfterCursorCheckout"].contains(&name) {
        return Err(CommandError::not_supported(format!(
            "the fail point {name}: failCommand and failGetMoreAfterCursorCheckout are there"
        )));
    }
    let is_of_get_more = name != "failCommand";
    let point = match mode(arguments.given("mode"))? {
        None => None,
        Some(mode) => Some((mode, data(arguments.document("data").map(|data| &**data), is_of_get_more)?)),
    };
    let count = call.deployment.fail_points.set(point);
    Ok(Document::one("count", count as i64).into())
}

/// `None` switches it off.
fn mode(value: Option<&Value>) -> Result<Option<Mode>> {
    const FIELDS: &[Field] = &[optional("times", Types::NUMBER), optional("skip", Types::NUMBER)];
    match value {
        Some(Value::String(text)) if **text == *"off" => Ok(None),
        Some(Value::String(text)) if **text == *"alwaysOn" => Ok(Some(Mode::default())),
        Some(Value::Document(document)) => {
            let arguments = Arguments::of_document("mode", document, FIELDS)?;
            match (arguments.count("times")?, arguments.count("skip")?) {
                (None, None) => Err(error!(code::BAD_VALUE, "mode has times or skip, or both")),
                (times, skip) => Ok(Some(Mode { skip: skip.unwrap_or(0), times })),
            }
        }
        _ => Err(error!(code::BAD_VALUE, "mode is 'off', 'alwaysOn', {{times: n}} or {{skip: n}}")),
    }
}

/// The commands that the fail point strikes, and its effects. Unknown fields are ignored, as in the reference.
fn data(document: Option<&Document>, is_of_get_more: bool) -> Result<FailCommand> {
    const FIELDS: &[Field] = &[
        optional("failCommands", Types::ARRAY),
        optional("namespace", Types::STRING),
        optional("errorExtraInfo", Types::OBJECT),
        optional("errorCode", Types::NUMBER),
        optional("errorLabels", Types::ARRAY),
        optional("closeConnection", Types::BOOL),
        optional("blockConnection", Types::BOOL),
        optional("blockTimeMS", Types::NUMBER),
        optional("appName", Types::STRING),
        optional("writeConcernError", Types::OBJECT),
        optional("failInternalCommands", Types::BOOL),
        optional("failLocalClients", Types::BOOL),
    ];
    let Some(document) = document else { fail!(code::BAD_VALUE, "failCommand needs data") };
    let arguments = Arguments::of_open_command(document, FIELDS)?;
    let list = |name: &str| match arguments.given(name).map(texts) {
        Some(None) => Err(error!(code::TYPE_MISMATCH, "data.{name} is a list of texts")),
        found => Ok(found.flatten()),
    };
    let flag = |name| arguments.bool(name).unwrap_or(false);
    let milliseconds = arguments.count("blockTimeMS")?.unwrap_or_default();
    let commands = match list("failCommands")? {
        _ if is_of_get_more => vec!["getMore".to_owned()],
        Some(commands) => commands,
        None => fail!(code::MISSING_FIELD, "BSON field 'data.failCommands' is missing but a required field"),
    };
    Ok(FailCommand {
        commands,
        is_inside: is_of_get_more,
        namespace: arguments.string("namespace").map(str::to_owned),
        error_fields: arguments.document("errorExtraInfo").cloned(),
        application: arguments.string("appName").map(str::to_owned),
        error_code: arguments.i64("errorCode").map(|code| code as i32),
        error_labels: list("errorLabels")?,
        closes_connection: flag("closeConnection"),
        blocks_for: flag("blockConnection").then_some(Duration::from_millis(milliseconds)),
        write_concern_error: arguments.document("writeConcernError").cloned(),
    })
}
