//! Handshake: a driver's first command, which it repeats every few seconds.
//!
//! The server shows itself as a router (`msg: "isdbgrid"`), so that drivers use sessions, retryable writes and transactions without
//! having to know addresses. `topologyVersion` is left out: with it drivers would hold a handshake open to wait for news.

use shardlake_mql::{Document, Value};

use super::authentication::start_speculatively;
use crate::access::{Kept, Mechanism};
use crate::arguments::{Arguments, Field, Types, optional, wrong_type};
use crate::call::{Call, Command, command};
use crate::errors::{Result, code, error};
use crate::reply::Reply;
use crate::sessions::TIMEOUT_MINUTES;
use crate::wire::Compressor;

pub const WIRE_VERSION_MAX: i32 = 25;
pub const OBJECT_SIZE_BYTES_MAX: i32 = 16 << 20;
const MESSAGE_SIZE_BYTES_MAX: i32 = 48_000_000;
const WRITE_BATCH_MAX: i32 = 100_000;

pub static HANDSHAKE: &[Command] = &[
    command!("hello", hello).open().stable(),
    command!("isMaster", is_master).alias(&["ismaster"]).open(),
    command!("isdbgrid", is_dbgrid),
];

const FIELDS: &[Field] = &[
    optional("helloOk", Types::BOOL),
    optional("client", Types::OBJECT),
    optional("compression", Types::ARRAY),
    optional("speculativeAuthenticate", Types::OBJECT),
    optional("loadBalanced", Types::BOOL),
    optional("topologyVersion", Types::OBJECT),
    optional("maxAwaitTimeMS", Types::NUMBER),
    optional("backpressure", Types::ANY),
    optional("hostInfo", Types::ANY),
    optional("internalClient", Types::ANY),
];

async fn hello(call: &Call) -> Result<Reply> {
    greet(call, "isWritablePrimary").await
}

async fn is_master(call: &Call) -> Result<Reply> {
    greet(call, "ismaster").await
}

async fn greet(call: &Call, writable: &str) -> Result<Reply> {
    let arguments = Arguments::of_open_command(&call.body, FIELDS)?;
    if let Some(client) = arguments.document("client") {
        call.connection.introduce(client)?;
    }
    let mut reply = Document::new();
    if arguments.bool("helloOk").unwrap_or(false) {
        reply.push("helloOk", Value::Bool(true));
    }
    reply.push(writable, Value::Bool(true));
    reply.push("msg", Value::string("isdbgrid"));
    reply.push("maxBsonObjectSize", Value::Int(OBJECT_SIZE_BYTES_MAX));
    reply.push("maxMessageSizeBytes", Value::Int(MESSAGE_SIZE_BYTES_MAX));
    reply.push("maxWriteBatchSize", Value::Int(WRITE_BATCH_MAX));
    reply.push("localTime", Value::Date(call.context.now.milliseconds() as i64));
    reply.push("logicalSessionTimeoutMinutes", Value::Int(TIMEOUT_MINUTES));
    reply.push("connectionId", Value::Int(call.connection.id));
    reply.push("minWireVersion", Value::Int(0));
    reply.push("maxWireVersion", Value::Int(WIRE_VERSION_MAX));
    reply.push("readOnly", Value::Bool(false));
    let compressors = shared_compressors(arguments.array("compression").unwrap_or_default());
    if !compressors.is_empty() {
        reply.push("compression", Value::array(compressors));
    }
    if let Some(user) = call.body.get("saslSupportedMechs") {
        check_user(user)?;
        let mechanisms = mechanisms_of(call, user).into_iter();
        let mechanisms = mechanisms.map(|mechanism| Value::string(mechanism.name())).collect();
        reply.push("saslSupportedMechs", Value::array(mechanisms));
    }
    if let Some(asked) = arguments.document("speculativeAuthenticate")
        && is_offered(call, asked)
        && let Some(answer) = start_speculatively(call, asked).await
    {
        reply.push("speculativeAuthenticate", answer.into());
    }
    Ok(reply.into())
}

/// `database.user`, or a document of both.
fn check_user(value: &Value) -> Result<()> {
    let is_user = match value {
        Value::String(text) => text.contains('.'),
        Value::Document(user) => ["user", "db"].iter().all(|name| user.value(name).as_str().is_some()),
        other => return Err(wrong_type("saslSupportedMechs", other, Types::STRING)),
    };
    match is_user {
        true => Ok(()),
        false => Err(error!(code::BAD_VALUE, "saslSupportedMechs names a user as 'database.user'")),
    }
}

/// Mechanisms of a user; for an unknown user all of them, so that the reply does not reveal whether the user exists.
fn mechanisms_of(call: &Call, user: &Value) -> Vec<Mechanism> {
    let kept = match user {
        Value::Document(user) => {
            let (database, name) = (user.value("db"), user.value("user"));
            call.deployment
                .account
                .definitions()
                .login(database.as_str().unwrap_or(""), name.as_str().unwrap_or(""))
        }
        other => {
            let parts = other.as_str().and_then(|text| text.split_once('.'));
            parts.and_then(|(database, name)| call.deployment.account.definitions().login(database, name))
        }
    };
    let kept = kept.and_then(|login| Kept::decoded(&login.kept));
    kept.map_or_else(|| Mechanism::ALL.to_vec(), |kept| kept.mechanisms())
}

/// Whether the server answers a speculative login. A driver continues an answered login with its mechanism, so a mechanism that the user
/// does not have gets no answer.
fn is_offered(call: &Call, asked: &Document) -> bool {
    let Some(user) = call.body.get("saslSupportedMechs") else { return true };
    let mechanism = asked.get("mechanism").and_then(Value::as_str);
    mechanisms_of(call, user).iter().any(|offered| Some(offered.name()) == mechanism)
}

/// The client's compressors that this server has, in the client's order.
fn shared_compressors(offered: &[Value]) -> Vec<Value> {
    let is_known = |name: &&Value| name.as_str().and_then(Compressor::of_name).is_some();
    offered.iter().filter(is_known).cloned().collect()
}

async fn is_dbgrid(call: &Call) -> Result<Reply> {
    let mut reply = Document::one("isdbgrid", 1);
    reply.push("hostname", Value::string(call.connection.ends.server.to_string()));
    Ok(reply.into())
}
