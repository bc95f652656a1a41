//! OP_MSG: flags, sections, and a checksum where the client wants one.
//!
//! A section of kind 0 is the body; sections of kind 1 stand for arrays of the body, so that documents need not be copied
//! into it by the client. Here they become members of the body.

use std::collections::HashSet;

use shardlake_mql::{Document, Str, Value};

use super::bytes::Bytes;
use super::crc32c::crc32c;
use super::fault::{AnswerAs, Fault};
use super::header::{HEADER_SIZE_BYTES, Header, OP_MSG};
use crate::errors::{CommandError, code};

const CHECKSUM_PRESENT: u32 = 1;
const MORE_TO_COME: u32 = 1 << 1;
/// Flags that a receiver must know.
const REQUIRED_BITS: u32 = 0xFFFF;
const CHECKSUM_SIZE_BYTES: usize = 4;
/// Bytes before the one document of an answer: no flags, and the kind of a body.
const PREFIX: [u8; 5] = [0; 5];

/// A command, and the kind of its answer.
#[derive(Debug)]
pub struct Message {
    pub body: Document,
    pub answer_as: AnswerAs,
}

/// Parses the payload of a message. `header` is also covered by the checksum.
pub fn parse(header: &[u8], payload: &[u8]) -> Result<Message, Fault> {
    let mut bytes = Bytes(payload);
    let flags = bytes.i32()? as u32;
    if flags & REQUIRED_BITS & !(CHECKSUM_PRESENT | MORE_TO_COME) != 0 {
        return Err(Fault::close(format!("a message has flags that nobody knows: {flags:#x}")));
    }
    if flags & CHECKSUM_PRESENT != 0 {
        bytes = checked(header, payload, bytes)?;
    }
    let wants_nothing = flags & MORE_TO_COME != 0;
    let answer_as = if wants_nothing { AnswerAs::Nothing } else { AnswerAs::Message };
    let sections = Sections::parse(bytes)?;
    let body = sections.body().map_err(|error| Fault::Refuse { error, answer_as })?;
    Ok(Message { body, answer_as })
}

/// The payload of an answer: no flags, one body.
pub fn reply(document: &[u8]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(PREFIX.len() + document.len());
    payload.extend_from_slice(&PREFIX);
    payload.extend_from_slice(document);
    payload
}

/// A whole answer with its header, made in one piece, so that most answers are copied once.
pub fn message(id: i32, response_to: i32, document: &[u8]) -> Vec<u8> {
    let length = HEADER_SIZE_BYTES + PREFIX.len() + document.len();
    let header = Header { length, request_id: id, response_to, opcode: OP_MSG };
    let mut message = Vec::with_capacity(length);
    message.extend_from_slice(&header.bytes());
    message.extend_from_slice(&PREFIX);
    message.extend_from_slice(document);
    assert_eq!(message.len(), length, "a message is as long as its header says");
    message
}

/// The sections of a message whose checksum matches.
fn checked<'m>(header: &[u8], payload: &'m [u8], sections: Bytes<'m>) -> Result<Bytes<'m>, Fault> {
    let Some((content, checksum)) = sections.0.split_last_chunk::<CHECKSUM_SIZE_BYTES>() else {
        return Err(Fault::close("a message is too short for its checksum"));
    };
    let covered = &payload[..payload.len() - CHECKSUM_SIZE_BYTES];
    if u32::from_le_bytes(*checksum) != crc32c(&[header, covered]) {
        let error = CommandError::new(code::UNKNOWN_ERROR, "the checksum of the message does not match");
        return Err(Fault::RefuseAndClose(error));
    }
    Ok(Bytes(content))
}

/// The sections of a message, whose documents are not parsed yet.
struct Sections<'m> {
    body: &'m [u8],
    sequences: Vec<(&'m [u8], Vec<&'m [u8]>)>,
}

impl<'m> Sections<'m> {
    fn parse(mut bytes: Bytes<'m>) -> Result<Sections<'m>, Fault> {
        let mut body = None;
        let mut sequences = Vec::new();
        while !bytes.0.is_empty() {
            match bytes.u8()? {
                0 => {
                    if body.replace(bytes.document()?).is_some() {
                        return Err(Fault::close("a message has two bodies"));
                    }
                }
                1 => sequences.push(sequence(&mut bytes)?),
                kind => return Err(Fault::close(format!("sections of kind {kind} are not known"))),
            }
        }
        match body {
            Some(body) => Ok(Sections { body, sequences }),
            None => Err(Fault::close("a message has no body")),
        }
    }

    fn body(self) -> Result<Document, CommandError> {
        let mut body = Document::from_bytes(self.body)?;
        let mut names: HashSet<Str> = body.iter().map(|(name, _)| name.clone()).collect();
        for (name, documents) in self.sequences {
            let name = std::str::from_utf8(name)
                .map_err(|_| CommandError::new(code::INVALID_BSON, "the name of a section is not UTF-8"))?;
            let name = Str::from(name);
            if !names.insert(name.clone()) {
                return Err(CommandError::new(
                    code::DUPLICATE_FIELD,
                    format!("Duplicate document sequence: '{name}' is there more than once"),
                ));
            }
            let documents = documents.into_iter().map(|bytes| Document::from_bytes(bytes).map(Value::from));
            body.push(name, Value::array(documents.collect::<Result<_, _>>()?));
        }
        Ok(body)
    }
}

fn sequence<'m>(bytes: &mut Bytes<'m>) -> Result<(&'m [u8], Vec<&'m [u8]>), Fault> {
    let size = bytes.i32()?;
    // The size counts itself.
    let Some(size) = usize::try_from(size).ok().and_then(|size| size.checked_sub(4)) else {
        return Err(Fault::close("a section of a message has an impossible size"));
    };
    let mut content = Bytes(bytes.take(size)?);
    let name = content.cstring()?;
    let mut documents = Vec::new();
    while !content.0.is_empty() {
        documents.push(content.document()?);
    }
    Ok((name, documents))
}
