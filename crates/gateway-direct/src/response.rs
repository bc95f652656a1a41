//! From an answer of the REST protocol to a frame.
//!
//! Clients judge an answer by its tokens as well as by its status. Without an LSN, or with the LSN 0, an answer does not count: the client tries every address again for seconds, and then reports something else. A refusal that was made before a partition
//! was asked carries RequestValidationFailure; Java repeats it otherwise for up to half a minute. The session token has no range id in
//! front, since Java puts one there itself.

use http::{HeaderMap, StatusCode};

use crate::frame::{ANSWER_PAYLOAD_PRESENT, ANSWER_TRANSPORT_REQUEST_ID, framed};
use crate::response_tokens::{
    CURRENT_REPLICA_SET_SIZE, CURRENT_WRITE_QUORUM, Form, GLOBAL_COMMITTED_LSN, LOCAL_LSN, LSN,
    NUMBER_OF_READ_REGIONS, QUORUM_ACKED_LOCAL_LSN, QUORUM_ACKED_LSN, REQUEST_CHARGE,
    REQUEST_VALIDATION_FAILURE, SUBSTATUS, token_of,
};
use crate::token::{Value, put};

/// The request that is answered.
#[derive(Debug, Clone, Copy)]
pub struct Answer {
    pub activity_id: [u8; 16],
    /// The number that the request brought.
    pub number: u32,
}

const SESSION_TOKEN: &str = "x-ms-session-token";
/// Positions of a resource that is in no partition: any above 0 does, as long as all agree.
const NO_POSITION: i64 = 1;
/// The longest text of a token.
const TEXT_BYTES_MAX: usize = u16::MAX as usize;
const SMALL_TEXT_BYTES_MAX: usize = u8::MAX as usize;
/// Head and tokens of most answers.
const HEAD_CAPACITY: usize = 640;

/// Head and tokens of an answer, and the length of its body where it has one: the body follows.
pub fn rendered(answer: Answer, status: StatusCode, headers: &HeaderMap, body_bytes: usize) -> Vec<u8> {
    let asked = Asked::of(status, headers);
    let mut out = Vec::with_capacity(HEAD_CAPACITY);
    framed(&mut out, u32::from(asked.status.as_u16()).to_le_bytes(), answer.activity_id, |out| {
        put(out, ANSWER_PAYLOAD_PRESENT, Value::Byte(u8::from(body_bytes > 0)));
        put(out, ANSWER_TRANSPORT_REQUEST_ID, Value::ULong(answer.number));
        write_tokens(out, &asked, headers);
    });
    if body_bytes > 0 {
        let length = u32::try_from(body_bytes).expect("answers are below 4 GiB");
        out.extend_from_slice(&length.to_le_bytes());
    }
    out
}

/// A whole frame with an error, for a frame that never became a request.
pub fn refused(answer: Answer, status: StatusCode, code: &str, message: &str) -> Vec<u8> {
    let body = serde_json::json!({ "code": code, "message": message }).to_string();
    let mut out = rendered(answer, status, &HeaderMap::new(), body.len());
    out.extend_from_slice(body.as_bytes());
    out
}

/// Status and sub-status as Direct mode has them.
struct Asked {
    status: StatusCode,
    /// Instead of the header's.
    substatus: Option<u32>,
    is_of_partition: bool,
}

impl Asked {
    fn of(status: StatusCode, headers: &HeaderMap) -> Asked {
        let substatus = headers.get("x-ms-substatus").and_then(|value| value.to_str().ok());
        let is_of_partition = headers.contains_key(SESSION_TOKEN);
        let (status, substatus) = match (status, substatus) {
            // Clients show a 501 as a 500, and repeat reads that have one.
            (StatusCode::NOT_IMPLEMENTED, _) => (StatusCode::BAD_REQUEST, None),
            // The name leads to another container: clients look it up again.
            (StatusCode::BAD_REQUEST, Some("1024")) => (StatusCode::GONE, Some(1000)),
            (status, _) => (status, None),
        };
        Asked { status, substatus, is_of_partition }
    }

    /// Made before a partition was asked. Others than these statuses would not be believed with the mark.
    fn is_validation_failure(&self) -> bool {
        !self.is_of_partition && matches!(self.status.as_u16(), 400 | 401 | 403 | 405 | 413)
    }
}

fn write_tokens(out: &mut Vec<u8>, asked: &Asked, headers: &HeaderMap) {
    let mut written = Written::default();
    if asked.is_validation_failure() {
        put(out, REQUEST_VALIDATION_FAILURE, Value::Byte(1));
    }
    if let Some(substatus) = asked.substatus {
        put(out, SUBSTATUS, Value::ULong(substatus));
    }
    for (name, value) in headers {
        let Some((id, form)) = token_of(name.as_str()) else { continue };
        if id == SUBSTATUS && asked.substatus.is_some() {
            continue;
        }
        let text = value.as_bytes();
        let text = if name == SESSION_TOKEN { without_range(text) } else { text };
        if put_text(out, (id, form), text).is_some() {
            written.note(id);
        }
    }
    for id in [LSN, LOCAL_LSN, QUORUM_ACKED_LSN, QUORUM_ACKED_LOCAL_LSN, GLOBAL_COMMITTED_LSN] {
        if !written.has(id) {
            put(out, id, Value::LongLong(NO_POSITION));
        }
    }
    // One copy of the data is its own write quorum and its only replica, and there are no other regions.
    for (id, number) in
        [(CURRENT_WRITE_QUORUM, 1), (CURRENT_REPLICA_SET_SIZE, 1), (NUMBER_OF_READ_REGIONS, 0)]
    {
        if !written.has(id) {
            put(out, id, Value::ULong(number));
        }
    }
    if !written.has(REQUEST_CHARGE) {
        put(out, REQUEST_CHARGE, Value::Double(0.0));
    }
}

/// A bit for each token below 128.
#[derive(Default)]
struct Written(u128);

impl Written {
    fn note(&mut self, id: u16) {
        self.0 |= 1_u128.checked_shl(id.into()).unwrap_or(0);
    }

    fn has(&self, id: u16) -> bool {
        debug_assert!(id < 128, "a token that is asked for has a bit");
        self.0 & 1_u128.checked_shl(id.into()).unwrap_or(0) != 0
    }
}

/// `None` where the text is no value of the form; the token is left out then.
fn put_text(out: &mut Vec<u8>, (id, form): (u16, Form), text: &[u8]) -> Option<()> {
    let as_text = || std::str::from_utf8(text).ok().map(str::trim);
    let value = match form {
        Form::SmallString if text.len() <= SMALL_TEXT_BYTES_MAX => Value::SmallString(text),
        Form::String if text.len() <= TEXT_BYTES_MAX => Value::String(text),
        Form::SmallString | Form::String => return None,
        Form::ULong => Value::ULong(as_text()?.parse().ok()?),
        Form::LongLong => {
            let number: i64 = as_text()?.parse().ok()?;
            // Nothing was written yet. To clients 0 means that there is no position.
            Value::LongLong(number.max(NO_POSITION))
        }
        Form::Double => Value::Double(as_text()?.parse().ok()?),
        Form::Flag => Value::Byte(u8::from(text.eq_ignore_ascii_case(b"true"))),
    };
    put(out, id, value);
    Some(())
}

/// `0:5#8` as `5#8`.
fn without_range(token: &[u8]) -> &[u8] {
    let colon = token.iter().position(|byte| *byte == b':');
    colon.map_or(token, |colon| &token[colon + 1..])
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::frame::{AnswerHead, answer_head};

    const ANSWER: Answer = Answer { activity_id: [7; 16], number: 9 };

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (http::HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    fn read(frame: &[u8]) -> AnswerHead<'_> {
        let length = crate::frame::frame_length(frame, frame.len()).expect("a length").expect("four bytes");
        answer_head(&frame[..length]).expect("a frame")
    }

    fn ulong(head: &AnswerHead<'_>, id: u16) -> Option<i64> {
        head.tokens.get(id).and_then(|value| value.as_integer())
    }

    #[test]
    fn every_answer_has_positions_above_zero() {
        for status in [200, 201, 304, 400, 401, 403, 404, 409, 410, 412, 429, 449, 500, 503] {
            let status = StatusCode::from_u16(status).expect("a status");
            for sent in [&[][..], &[("lsn", "0"), ("x-ms-session-token", "0:1#0")][..]] {
                let frame = rendered(ANSWER, status, &headers(sent), 0);
                let head = read(&frame);
                assert_eq!(ulong(&head, LSN), Some(1), "{status}");
                assert_eq!(ulong(&head, QUORUM_ACKED_LSN), Some(1));
                assert_eq!(ulong(&head, CURRENT_REPLICA_SET_SIZE), Some(1));
                assert_eq!(ulong(&head, ANSWER_TRANSPORT_REQUEST_ID), Some(9));
                assert!(head.tokens.get(REQUEST_CHARGE).is_some());
            }
        }
    }

    #[test]
    fn the_range_id_is_left_to_the_client() {
        let frame = rendered(ANSWER, StatusCode::OK, &headers(&[("x-ms-session-token", "12:5#8")]), 0);
        assert_eq!(read(&frame).tokens.get(0x3e), Some(Value::String(b"5#8")));
    }

    #[test]
    fn statuses_that_clients_misread_are_others() {
        let of = |status: u16, sent: &[(&'static str, &'static str)]| {
            let frame = rendered(ANSWER, StatusCode::from_u16(status).expect("a status"), &headers(sent), 0);
            let head = read(&frame);
            (head.status, ulong(&head, SUBSTATUS), ulong(&head, REQUEST_VALIDATION_FAILURE))
        };
        let partition = ("x-ms-session-token", "0:5#8");
        assert_eq!(of(501, &[]), (400, None, Some(1)));
        assert_eq!(of(400, &[("x-ms-substatus", "1024")]), (410, Some(1000), None));
        assert_eq!(of(400, &[("x-ms-substatus", "1001"), partition]), (400, Some(1001), None));
        assert_eq!(of(401, &[]), (401, None, Some(1)));
        assert_eq!(of(404, &[]), (404, None, None), "a missing item is no wrong request");
        assert_eq!(of(429, &[("x-ms-substatus", "3200"), partition]), (429, Some(3200), None));
    }

    #[test]
    fn a_text_that_no_token_holds_is_left_out() {
        let long: &'static str = Box::leak("x".repeat(70_000).into_boxed_str());
        let frame =
            rendered(ANSWER, StatusCode::OK, &headers(&[("x-ms-documentdb-script-log-results", long)]), 0);
        assert_eq!(read(&frame).tokens.get(0x25), None);
    }

    #[test]
    fn a_refusal_is_a_whole_frame() {
        let frame = refused(ANSWER, StatusCode::BAD_REQUEST, "BadRequest", "no \"such\" thing");
        let head = read(&frame);
        assert_eq!((head.status, head.has_body()), (400, Ok(true)));
        let length = crate::frame::frame_length(&frame, frame.len()).expect("a length").expect("four bytes");
        let (size, body) = frame[length..].split_first_chunk().expect("a length");
        assert_eq!(u32::from_le_bytes(*size) as usize, body.len());
        let body: serde_json::Value = serde_json::from_slice(body).expect("JSON");
        assert_eq!(body["message"], "no \"such\" thing");
    }
}
