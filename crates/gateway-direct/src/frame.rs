//! Heads of frames.
//!
//! | offset | bytes | request | answer |
//! |---|---|---|---|
//! | 0 | 4 | length of head and tokens, this field included and the body not | the same |
//! | 4 | 4 | resource type, operation type: two bytes each | status |
//! | 8 | 16 | activity id | that of the request |
//! | 24 | | tokens | tokens |
//!
//! With the token PayloadPresent, four bytes of length and a body follow. So the end of a frame is known only from its tokens.

use crate::bad_frame::BadFrame;
use crate::token::{Tokens, Value};

/// A frame without tokens.
pub const FRAME_BYTES_MIN: usize = 24;

/// Length of head and tokens, from the first bytes of a frame; `None` until there are four.
pub fn frame_length(bytes: &[u8], length_max: usize) -> Result<Option<usize>, BadFrame> {
    let Some(length) = bytes.first_chunk().copied().map(u32::from_le_bytes) else { return Ok(None) };
    match usize::try_from(length) {
        Ok(fits) if (FRAME_BYTES_MIN..=length_max).contains(&fits) => Ok(Some(fits)),
        _ => Err(BadFrame::Length(length)),
    }
}

/// A request without its body.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestHead<'f> {
    pub resource: u16,
    pub operation: u16,
    pub activity_id: [u8; 16],
    pub tokens: Tokens<'f>,
}

/// An answer without its body.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerHead<'f> {
    pub status: u32,
    pub activity_id: [u8; 16],
    pub tokens: Tokens<'f>,
}

/// Reads head and tokens of a request; `frame` has the announced length.
pub fn request_head(frame: &[u8]) -> Result<RequestHead<'_>, BadFrame> {
    let (kinds, activity_id, tokens) = parts(frame)?;
    let [resource, operation] = [[kinds[0], kinds[1]], [kinds[2], kinds[3]]].map(u16::from_le_bytes);
    Ok(RequestHead { resource, operation, activity_id, tokens: Tokens::parse(tokens)? })
}

/// Reads head and tokens of an answer.
pub fn answer_head(frame: &[u8]) -> Result<AnswerHead<'_>, BadFrame> {
    let (status, activity_id, tokens) = parts(frame)?;
    Ok(AnswerHead { status: u32::from_le_bytes(status), activity_id, tokens: Tokens::parse(tokens)? })
}

type Parts<'f> = ([u8; 4], [u8; 16], &'f [u8]);

fn parts(frame: &[u8]) -> Result<Parts<'_>, BadFrame> {
    let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
    let (_length, rest) = frame.split_first_chunk::<4>().ok_or(BadFrame::Length(length))?;
    let (kinds, rest) = rest.split_first_chunk().ok_or(BadFrame::Length(length))?;
    let (activity_id, tokens) = rest.split_first_chunk().ok_or(BadFrame::Length(length))?;
    Ok((*kinds, *activity_id, tokens))
}

impl RequestHead<'_> {
    pub fn has_body(&self) -> Result<bool, BadFrame> {
        has_body(&self.tokens, PAYLOAD_PRESENT)
    }

    /// The number that comes back with the answer.
    pub fn number(&self) -> Result<u32, BadFrame> {
        match self.tokens.get(TRANSPORT_REQUEST_ID) {
            Some(Value::ULong(number)) => Ok(number),
            _ => Err(BadFrame::Token(TRANSPORT_REQUEST_ID)),
        }
    }

    /// Head and tokens, as a client sends them.
    pub fn write(&self, out: &mut Vec<u8>) {
        let [resource, operation] = [self.resource, self.operation].map(u16::to_le_bytes);
        let kinds = [resource[0], resource[1], operation[0], operation[1]];
        framed(out, kinds, self.activity_id, |out| self.tokens.write(out));
    }
}

impl AnswerHead<'_> {
    pub fn has_body(&self) -> Result<bool, BadFrame> {
        has_body(&self.tokens, ANSWER_PAYLOAD_PRESENT)
    }

    pub fn write(&self, out: &mut Vec<u8>) {
        framed(out, self.status.to_le_bytes(), self.activity_id, |out| self.tokens.write(out));
    }
}

/// Writes a head, then tokens, then the length of both where it belongs.
pub(crate) fn framed(
    out: &mut Vec<u8>,
    kinds: [u8; 4],
    activity_id: [u8; 16],
    write_tokens: impl FnOnce(&mut Vec<u8>),
) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&kinds);
    out.extend_from_slice(&activity_id);
    write_tokens(out);
    assert!(out.len() - start >= 24, "a frame has its whole head");
    let length = u32::try_from(out.len() - start).expect("a frame's head and tokens are small");
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

pub(crate) const PAYLOAD_PRESENT: u16 = 0x02;
pub(crate) const TRANSPORT_REQUEST_ID: u16 = 0x4d;
pub(crate) const ANSWER_PAYLOAD_PRESENT: u16 = 0x00;
pub(crate) const ANSWER_TRANSPORT_REQUEST_ID: u16 = 0x35;

fn has_body(tokens: &Tokens<'_>, id: u16) -> Result<bool, BadFrame> {
    match tokens.get(id) {
        Some(Value::Byte(flag @ 0..=1)) => Ok(flag == 1),
        _ => Err(BadFrame::Token(id)),
    }
}
