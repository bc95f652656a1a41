//! Answers that the server gives by itself, without the gateway.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use shardlake_gateway_nosql::AnswerBody;

pub type Reply = Response<AnswerBody>;

/// The reason why a request is refused.
#[derive(Debug)]
pub struct Refusal {
    pub status: StatusCode,
    pub code: &'static str,
    pub message: String,
}

/// An error that the server itself answers, in the form of the gateway's.
pub fn failure(status: StatusCode, code: &str, message: &str) -> Reply {
    let body = serde_json::json!({ "code": code, "message": message }).to_string();
    let mut reply = Response::new(AnswerBody::from(Bytes::from(body)));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reply
}

/// Nothing was done, and clients in Direct mode look for another address and repeat the request.
pub fn gone(message: &str) -> Reply {
    failure(StatusCode::GONE, "Gone", message)
}
