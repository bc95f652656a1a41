//! Messages: frames, sections, compression and checksums. Nothing here knows a command.
//!
//! [`decode`] makes a command of a client's message, [`encode`] a message of an answer. An invalid message results in a
//! [`Fault`], which decides whether the client gets an error and whether its connection continues.

mod bytes;
mod compression;
mod crc32c;
mod fault;
mod header;
mod op_msg;
mod op_query;

pub use compression::Compressor;
pub use crc32c::crc32c;
pub use fault::{AnswerAs, Fault};
pub use header::{
    HEADER_SIZE_BYTES, Header, MESSAGE_SIZE_BYTES_MAX, OP_COMPRESSED, OP_MSG, OP_QUERY, OP_REPLY,
};

use shardlake_mql::Document;

use compression::Compressed;

/// A received command.
#[derive(Debug)]
pub struct Incoming {
    /// The command with `$db` and with the arrays of other sections.
    pub body: Document,
    pub answer_as: AnswerAs,
    /// Compressor for the answer.
    pub compressor: Option<Compressor>,
}

/// Unpacked size of a message's payload; the payload's own size if it is not compressed.
pub fn unpacked_size_bytes(header: &Header, payload: &[u8]) -> Result<usize, Fault> {
    match header.opcode {
        OP_COMPRESSED => Ok(Compressed::parse(payload)?.size_bytes),
        _ => Ok(payload.len()),
    }
}

pub fn decode(header: &Header, payload: &[u8]) -> Result<Incoming, Fault> {
    if header.opcode != OP_COMPRESSED {
        return decode_plain(header, header.opcode, payload, None);
    }
    let compressed = Compressed::parse(payload)?;
    let content = compressed.unpack()?;
    // A checksum inside covers the header that the message had before it was packed.
    let length = HEADER_SIZE_BYTES + content.len();
    let header = Header { length, opcode: compressed.opcode, ..*header };
    decode_plain(&header, compressed.opcode, &content, Some(compressed.compressor))
}

fn decode_plain(
    header: &Header,
    opcode: i32,
    payload: &[u8],
    compressor: Option<Compressor>,
) -> Result<Incoming, Fault> {
    let message = match opcode {
        OP_MSG => op_msg::parse(&header.bytes(), payload)?,
        OP_QUERY => op_query::parse(payload)?,
        other => return Err(Fault::close(format!("messages of kind {other} are not served"))),
    };
    Ok(Incoming { body: message.body, answer_as: message.answer_as, compressor })
}

/// A whole message with an answer in it.
pub fn encode(answer: &Answer<'_>) -> Vec<u8> {
    if answer.answer_as == AnswerAs::Message && answer.compressor.is_none() {
        return op_msg::message(answer.id, answer.response_to, answer.document);
    }
    let (mut opcode, mut payload) = match answer.answer_as {
        AnswerAs::Reply => (OP_REPLY, op_query::reply(answer.document, answer.is_refused)),
        AnswerAs::Message | AnswerAs::Nothing => (OP_MSG, op_msg::reply(answer.document)),
    };
    if let Some(packed) = answer.compressor.and_then(|with| compression::pack(with, opcode, &payload)) {
        (opcode, payload) = (OP_COMPRESSED, packed);
    }
    let length = HEADER_SIZE_BYTES + payload.len();
    let header = Header { length, request_id: answer.id, response_to: answer.response_to, opcode };
    let mut message = Vec::with_capacity(length);
    message.extend(header.bytes());
    message.append(&mut payload);
    assert_eq!(message.len(), length, "a message is as long as its header says");
    message
}

/// Content of a message with an answer.
pub struct Answer<'a> {
    /// BSON.
    pub document: &'a [u8],
    /// No command was run.
    pub is_refused: bool,
    pub id: i32,
    pub response_to: i32,
    pub answer_as: AnswerAs,
    pub compressor: Option<Compressor>,
}
