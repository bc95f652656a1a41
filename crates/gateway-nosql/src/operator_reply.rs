//! Replies of the operator's interface: errors with members of their own, and answers that are made while they are sent.

use http::header::TE;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::Value;
use shardlake_admin::OperatorReply;
use shardlake_model::Error;
use shardlake_stdx::Guid;

use crate::answer_body::{Streamed, Text};
use crate::errors;
use crate::header_names::{RETRY_AFTER, SUBSTATUS};
use crate::reply::Reply;

pub(crate) fn of(reply: OperatorReply, request: (Guid, &str), headers: &HeaderMap) -> Reply {
    if let Some((error, members)) = &reply.failure {
        let mut refusal = failed(error, members, request, reply.charge_centi);
        refusal.extra.extend(reply.headers);
        return refusal;
    }
    if let Some(source) = reply.source {
        let streamed = Streamed { source, takes_trailers: takes_trailers(headers) };
        return Reply::streamed(reply.status, reply.media_type, streamed, reply.headers);
    }
    let Some(body) = reply.body else { return Reply::empty(reply.status, reply.charge_centi) };
    let whole = Reply::json(reply.status, reply.charge_centi, Text::of_pieces(body));
    if reply.is_bytes { whole.of_bytes() } else { whole }
}

/// The usual error, with further `members`.
pub(crate) fn failed(
    error: &Error,
    members: &Value,
    (activity_id, path): (Guid, &str),
    charge_centi: u64,
) -> Reply {
    let shape = errors::shape(error.kind());
    let mut body = errors::body(error, activity_id, path);
    if let Ok(Value::Object(mut usual)) = serde_json::from_slice(&body)
        && let Value::Object(members) = members
    {
        usual.extend(members.clone());
        body = Value::Object(usual).to_string().into_bytes();
    }
    let reply = Reply::json(shape.status, charge_centi, body);
    let reply = match shape.substatus {
        0 => reply,
        number => reply.with_header(SUBSTATUS.clone(), HeaderValue::from(number)),
    };
    let Some(milliseconds) = error.retry_after_ms() else { return reply };
    let reply = reply.with_header(RETRY_AFTER.clone(), HeaderValue::from(milliseconds));
    match shape.status {
        StatusCode::SERVICE_UNAVAILABLE => {
            reply.with_header(http::header::RETRY_AFTER, HeaderValue::from(milliseconds.div_ceil(1000)))
        }
        _ => reply,
    }
}

/// Whether the client reads headers behind a body that is sent in chunks; HTTP/2 always has them.
fn takes_trailers(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(TE).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|coding| coding.trim().eq_ignore_ascii_case("trailers"))
}
