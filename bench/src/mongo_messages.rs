//! Requests to the server's MongoDB API, as bytes: commands written as JSON, and the parts of the
//! answers that a measurement needs.
//!
//! The load generator sends prepared messages, as it does over HTTP, without a driver.

use serde_json::Value;

use crate::requests::Requests;

/// OP_MSG with one document.
const OP_MSG: i32 = 2013;
const HEADER_BYTES: usize = 16;
/// Status of a successful reply.
pub const SUCCESS: u16 = 200;

/// A command as a message.
pub fn message(command: &Value) -> Vec<u8> {
    let mut out = vec![0; HEADER_BYTES];
    out.extend([0; 5]);
    document(command, &mut out);
    let length = out.len() as i32;
    for (place, field) in [length, 1, 0, OP_MSG].into_iter().enumerate() {
        out[place * 4..place * 4 + 4].copy_from_slice(&field.to_le_bytes());
    }
    out
}

/// An object as a document, an array as a document with positions for names.
fn document(value: &Value, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend([0; 4]);
    match value {
        Value::Object(members) => members.iter().for_each(|(name, value)| member(name, value, out)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(place, item)| member(&place.to_string(), item, out));
        }
        _ => unreachable!("commands and their parts are objects and arrays"),
    }
    out.push(0);
    let length = (out.len() - start) as i32;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

fn member(name: &str, value: &Value, out: &mut Vec<u8>) {
    let kind = match value {
        Value::Null => 10,
        Value::Bool(_) => 8,
        Value::Number(number) if number.is_f64() => 1,
        Value::Number(number) if number.as_i64().is_some_and(|number| i32::try_from(number).is_ok()) => 16,
        Value::Number(_) => 18,
        Value::String(_) => 2,
        Value::Array(_) => 4,
        Value::Object(_) => 3,
    };
    out.push(kind);
    out.extend(name.bytes().chain([0]));
    match value {
        Value::Null => {}
        Value::Bool(value) => out.push(u8::from(*value)),
        Value::Number(number) => match (kind, number.as_i64()) {
            (16, Some(number)) => out.extend((number as i32).to_le_bytes()),
            (18, Some(number)) => out.extend(number.to_le_bytes()),
            _ => out.extend(number.as_f64().unwrap_or_default().to_le_bytes()),
        },
        Value::String(text) => {
            out.extend((text.len() as i32 + 1).to_le_bytes());
            out.extend(text.bytes().chain([0]));
        }
        Value::Array(_) | Value::Object(_) => document(value, out),
    }
}

/// Status of a whole message: whether everything was done.
pub fn status(reply: &[u8]) -> u16 {
    let has = |wanted: &[u8]| reply.windows(wanted.len()).any(|window| window == wanted);
    let done = has(b"\x01ok\0\0\0\0\0\0\0\xF0\x3F") && !has(b"\x04writeErrors\0");
    if done { SUCCESS } else { 500 }
}

/// The length of the message that begins with this header, once the header is complete.
pub fn length(head: &[u8]) -> Option<usize> {
    let bytes = head.first_chunk::<4>().filter(|_| head.len() >= HEADER_BYTES)?;
    usize::try_from(i32::from_le_bytes(*bytes)).ok()
}

/// Commands that a function makes, by connection and number.
pub struct Commands<F>(pub F);

impl<F: Fn(usize, u64) -> Vec<u8> + Send + Sync + 'static> Requests for Commands<F> {
    fn next(&self, connection: usize, number: u64, out: &mut Vec<u8>) {
        out.extend(self.0(connection, number));
    }

    fn expected_status(&self) -> u16 {
        SUCCESS
    }

    fn are_messages(&self) -> bool {
        true
    }
}
