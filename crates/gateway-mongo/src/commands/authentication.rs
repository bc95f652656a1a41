//! Commands by which a client proves who it is.

use std::sync::Arc;

use shardlake_mql::{Document, Value};

use crate::access::{Conversation, Mechanism, Step};
use crate::arguments::{Arguments, Field, Types, optional, required};
use crate::call::{Call, Command, command};
use crate::errors::{Result, code, error, fail};
use crate::reply::Reply;

pub static AUTHENTICATION: &[Command] = &[
    command!("saslStart", sasl_start).open().stable(),
    command!("saslContinue", sasl_continue).open().stable(),
    command!("logout", logout).open(),
    command!("getnonce", get_nonce).open(),
    command!("authenticate", authenticate).open().stable(),
];

const START: &[Field] = &[
    optional("saslStart", Types::ANY),
    required("mechanism", Types::STRING),
    required("payload", Types::BINARY.or(Types::STRING)),
    optional("autoAuthorize", Types::ANY),
    optional("options", Types::OBJECT),
    optional("db", Types::STRING),
];

async fn sasl_start(call: &Call) -> Result<Reply> {
    Ok(start(call, call.arguments(START)?, call.database()).await?.into())
}

/// Login within a handshake: the answer to the first message, or `None` if it fails, which is no error of the handshake.
pub async fn start_speculatively(call: &Call, asked: &Document) -> Option<Document> {
    const FREE: &[Field] = &[optional("$db", Types::STRING)];
    let fields: Vec<Field> = START.iter().chain(FREE).copied().collect();
    let arguments = Arguments::of_document("speculativeAuthenticate", asked, &fields).ok()?;
    let database = arguments.string("db").unwrap_or_else(|| call.database());
    start(call, arguments, database).await.ok()
}

async fn start(call: &Call, arguments: Arguments<'_>, database: &str) -> Result<Document> {
    call.connection.state().conversation = None;
    let mechanism = Mechanism::of_name(arguments.string("mechanism").unwrap_or_default())?;
    let skips_empty_exchange = match arguments.document("options") {
        Some(options) => options.value("skipEmptyExchange").is_true(),
        None => false,
    };
    let deployment = &call.deployment;
    let step = Conversation::begin(
        &deployment.users,
        &deployment.account,
        mechanism,
        (database, payload(&arguments)?),
        skips_empty_exchange,
    );
    step_document(call, step.await?)
}

async fn sasl_continue(call: &Call) -> Result<Reply> {
    const FIELDS: &[Field] = &[
        optional("saslContinue", Types::ANY),
        required("conversationId", Types::NUMBER),
        required("payload", Types::BINARY.or(Types::STRING)),
    ];
    let arguments = call.arguments(FIELDS)?;
    let conversation = call.connection.state().conversation.take();
    let Some(conversation) = conversation else {
        fail!(code::PROTOCOL_ERROR, "No SASL session state found");
    };
    if arguments.i64("conversationId") != Some(CONVERSATION) {
        fail!(code::PROTOCOL_ERROR, "sasl: Mismatched conversation id");
    }
    let step = conversation.go_on(&call.deployment.users, payload(&arguments)?)?;
    Ok(step_document(call, step)?.into())
}

/// A connection has one conversation at a time.
const CONVERSATION: i64 = 1;

/// The bytes of a message. Some old clients send them as a text.
fn payload<'b>(arguments: &Arguments<'b>) -> Result<&'b [u8]> {
    match arguments.given("payload") {
        Some(Value::Binary(_, bytes)) => Ok(bytes),
        Some(Value::String(text)) => Ok(text.as_bytes()),
        _ => Err(error!(code::TYPE_MISMATCH, "payload has to be binary")),
    }
}

fn step_document(call: &Call, step: Step) -> Result<Document> {
    let mut state = call.connection.state();
    let is_done = step.next.is_none();
    state.conversation = step.next;
    if let Some(principal) = step.proved {
        // The previous user is logged out first: a connection without a share of its own stays without a user.
        state.principal = None;
        state.share = None;
        let share = call.deployment.authenticated.take(Some(&principal.key())).map_err(|full| {
            let held = full.held;
            error!(
                code::TOO_MANY_REQUESTS,
                "this user has {held} connections, and the rest is for other users: close some"
            )
        })?;
        state.share = Some(share);
        state.principal = Some(Arc::new(principal));
        call.deployment.unauthenticated.leave(call.connection.id);
    }
    let mut reply = Document::one("conversationId", CONVERSATION as i32);
    reply.push("done", Value::Bool(is_done));
    reply.push("payload", Value::Binary(0, step.payload.into()));
    Ok(reply)
}

async fn logout(call: &Call) -> Result<Reply> {
    call.arguments(&[])?;
    let mut state = call.connection.state();
    state.principal = None;
    state.share = None;
    state.conversation = None;
    if call.deployment.settings.requires_authentication {
        call.deployment.unauthenticated.enter(call.connection.id, call.connection.ended.clone());
    }
    Ok(Reply::ok())
}

/// `getnonce` of a removed mechanism, which some old clients still call.
async fn get_nonce(call: &Call) -> Result<Reply> {
    call.arguments(&[])?;
    let nonce = format!("{:016x}", call.deployment.account.router().random().u64());
    Ok(Document::one("nonce", nonce.as_str()).into())
}

/// `authenticate`, by client certificates or a removed mechanism: always an error.
async fn authenticate(call: &Call) -> Result<Reply> {
    const FIELDS: &[Field] = &[
        required("mechanism", Types::STRING),
        optional("user", Types::STRING),
        optional("db", Types::STRING),
        optional("nonce", Types::STRING),
        optional("key", Types::STRING),
    ];
    let arguments = call.arguments(FIELDS)?;
    let name = arguments.string("mechanism").unwrap_or_default();
    if name == "MONGODB-X509" {
        Mechanism::of_name(name)?;
    }
    // The other mechanisms have conversations, which begin with saslStart.
    fail!(code::AUTHENTICATION_FAILED, "Authentication failed.")
}
