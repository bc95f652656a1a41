//! OP_QUERY, by which many drivers send their first handshake and some log in, and OP_REPLY to it.

use shardlake_mql::{Document, Value};

use super::bytes::Bytes;
use super::fault::{AnswerAs, Fault};
use super::op_msg::Message;
use crate::errors::{CommandError, code};

/// Commands that the reference still accepts as OP_QUERY: handshakes, and logins by drivers that do not
/// send OP_MSG before they have the server's wire version.
const ALLOWED: [&str; 9] = [
    "_isSelf",
    "authenticate",
    "buildInfo",
    "buildinfo",
    "hello",
    "isMaster",
    "ismaster",
    "saslContinue",
    "saslStart",
];

/// The command of an OP_QUERY on `*.$cmd`, with `$db` as a message has it. Commands that are not [`ALLOWED`] are refused.
pub fn parse(payload: &[u8]) -> Result<Message, Fault> {
    let mut bytes = Bytes(payload);
    let _flags = bytes.i32()?;
    let namespace = bytes.cstring()?;
    let _skip = bytes.i32()?;
    let _return = bytes.i32()?;
    let query = bytes.document()?;
    command(namespace, query)
        .map(|body| Message { body, answer_as: AnswerAs::Reply })
        .map_err(|error| Fault::Refuse { error, answer_as: AnswerAs::Reply })
}

fn command(namespace: &[u8], query: &[u8]) -> Result<Document, CommandError> {
    let database = std::str::from_utf8(namespace).ok().and_then(|text| text.strip_suffix(".$cmd"));
    let Some(database) = database else { return Err(unsupported("a query")) };
    let query = Document::from_bytes(query)?;
    // Old drivers wrap a command to add a read preference.
    let mut body = match query.get("$query").or_else(|| query.get("query")) {
        Some(Value::Document(inner)) => (**inner).clone(),
        _ => query,
    };
    let name = body.first().map(|(name, _)| name.to_string()).unwrap_or_default();
    if !ALLOWED.contains(&name.as_str()) {
        return Err(unsupported(&name));
    }
    body.remove("$db");
    body.push("$db", Value::string(database));
    Ok(body)
}

fn unsupported(what: &str) -> CommandError {
    CommandError::new(
        code::UNSUPPORTED_OP_QUERY_COMMAND,
        format!("Unsupported OP_QUERY command: {what}. The client driver may require an upgrade"),
    )
}

/// The payload of an OP_REPLY. `is_refused` marks an answer to a message of which no command was run; a
/// failed command has its error in the document.
pub fn reply(document: &[u8], is_refused: bool) -> Vec<u8> {
    const QUERY_FAILURE: i32 = 1 << 1;
    let mut payload = Vec::with_capacity(20 + document.len());
    payload.extend((if is_refused { QUERY_FAILURE } else { 0 }).to_le_bytes());
    // Cursor, place of the first document, number of documents.
    payload.extend(0i64.to_le_bytes());
    payload.extend(0i32.to_le_bytes());
    payload.extend(1i32.to_le_bytes());
    payload.extend(document);
    payload
}
