//! The exchange that opens a connection: name and version of the client, name and time limits of the server.
//!
//! It proves nothing about the client. Each request is signed for itself.

use crate::bad_frame::BadFrame;
use crate::frame::{RequestHead, framed};
use crate::token::{Value, put};

/// The one version of the protocol.
const PROTOCOL_VERSION: u32 = 1;

const VERSION: u16 = 0x00;
const CLIENT_VERSION: u16 = 0x01;
const USER_AGENT: u16 = 0x02;
const SERVER_AGENT: u16 = 0x02;
const SERVER_VERSION: u16 = 0x03;
const IDLE_TIMEOUT_SECONDS: u16 = 0x04;
const UNAUTHENTICATED_TIMEOUT_SECONDS: u16 = 0x05;

/// A client's name and versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    activity_id: [u8; 16],
    /// The version that it speaks.
    pub protocol: u32,
    /// Version of the REST protocol that its requests follow.
    pub client_version: String,
    pub user_agent: String,
}

/// The server's version and time limits.
#[derive(Debug, Clone, Copy)]
pub struct ContextAnswer<'a> {
    /// The server's version, which clients show.
    pub server_version: &'a str,
    pub idle_seconds: u32,
    pub unauthenticated_seconds: u32,
}

impl Context {
    /// Whether a frame is one of these, by its head alone.
    pub fn is_head(head: &RequestHead<'_>) -> bool {
        head.resource == 0 && head.operation == 0
    }

    pub fn of(head: &RequestHead<'_>) -> Result<Context, BadFrame> {
        if !Context::is_head(head) {
            return Err(BadFrame::Context);
        }
        let protocol = match head.tokens.get(VERSION) {
            Some(Value::ULong(protocol)) => protocol,
            _ => return Err(BadFrame::Token(VERSION)),
        };
        let text = |id| match head.tokens.get(id) {
            Some(Value::SmallString(text)) => Ok(String::from_utf8_lossy(text).into_owned()),
            _ => Err(BadFrame::Token(id)),
        };
        Ok(Context {
            activity_id: head.activity_id,
            protocol,
            client_version: text(CLIENT_VERSION)?,
            user_agent: text(USER_AGENT)?,
        })
    }

    /// Whether the server supports its protocol.
    pub fn is_understood(&self) -> bool {
        self.protocol == PROTOCOL_VERSION
    }

    /// The answer: welcome, or a refusal behind which the connection ends.
    pub fn answer(&self, answer: ContextAnswer<'_>) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        let status: u32 = if self.is_understood() { 200 } else { 400 };
        framed(&mut out, status.to_le_bytes(), self.activity_id, |out| {
            put(out, VERSION, Value::ULong(PROTOCOL_VERSION));
            put(out, CLIENT_VERSION, Value::SmallString(short(&self.client_version)));
            put(out, SERVER_AGENT, Value::SmallString(b"shardlake"));
            put(out, SERVER_VERSION, Value::SmallString(short(answer.server_version)));
            put(out, IDLE_TIMEOUT_SECONDS, Value::ULong(answer.idle_seconds));
            put(out, UNAUTHENTICATED_TIMEOUT_SECONDS, Value::ULong(answer.unauthenticated_seconds));
        });
        if !self.is_understood() {
            let message = format!("version {} of the protocol is not supported: use 1", self.protocol);
            let body = serde_json::json!({ "code": "BadRequest", "message": message }).to_string();
            out.extend_from_slice(&u32::try_from(body.len()).expect("a short text").to_le_bytes());
            out.extend_from_slice(body.as_bytes());
        }
        out
    }
}

fn short(text: &str) -> &[u8] {
    &text.as_bytes()[..text.len().min(usize::from(u8::MAX))]
}
