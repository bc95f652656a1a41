//! Documents to BSON bytes, and their sizes.

use std::borrow::Cow;

use super::{Document, Value};

impl Document {
    /// The document as BSON.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.size());
        write_document(&mut out, self);
        out
    }

    /// Appends the members as BSON, without the length in front and the zero at the end.
    pub fn append_members(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|(name, value)| write_member(out, name, value));
    }

    /// The number of bytes that `to_bytes` makes.
    pub fn size(&self) -> usize {
        5 + self.iter().map(|(name, value)| 2 + name.len() + value.size()).sum::<usize>()
    }
}

/// A document of borrowed members, as BSON. `size` is its approximate number of bytes.
pub fn bytes_of_members<'v>(
    members: impl Iterator<Item = (Cow<'v, str>, &'v Value)>,
    size: usize,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(size + 16);
    let start = open(&mut out);
    members.for_each(|(name, value)| write_member(&mut out, &name, value));
    close(&mut out, start);
    out
}

impl Value {
    /// The bytes that the value takes in BSON, without type and name.
    pub fn size(&self) -> usize {
        match self {
            Value::Missing | Value::MinKey | Value::MaxKey | Value::Undefined | Value::Null => 0,
            Value::Bool(_) => 1,
            Value::Int(_) => 4,
            Value::Double(_) | Value::Long(_) | Value::Date(_) | Value::Timestamp(..) => 8,
            Value::ObjectId(_) => 12,
            Value::Decimal(_) => 16,
            Value::String(text) | Value::Symbol(text) | Value::Code(text) => 5 + text.len(),
            Value::Document(document) => document.size(),
            Value::Array(items) => {
                let name = |at: usize| at.checked_ilog10().unwrap_or(0) as usize + 1;
                5 + items.iter().enumerate().map(|(at, item)| 2 + name(at) + item.size()).sum::<usize>()
            }
            Value::Binary(subtype, bytes) => 5 + bytes.len() + if *subtype == 2 { 4 } else { 0 },
            Value::Regex(regex) => regex.0.len() + regex.1.len() + 2,
            Value::DbPointer(pointer) => 5 + pointer.0.len() + 12,
            Value::CodeWithScope(code) => 4 + 5 + code.0.len() + code.1.size(),
        }
    }

    /// The value as in BSON, without type and name.
    pub(crate) fn content_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.size());
        write_value(&mut out, self);
        out
    }
}

fn write_document(out: &mut Vec<u8>, document: &Document) {
    let start = open(out);
    for (name, value) in document.iter() {
        write_member(out, name, value);
    }
    close(out, start);
}

fn open(out: &mut Vec<u8>) -> usize {
    out.extend([0; 4]);
    out.len() - 4
}

/// A length as its field has it.
fn length_of(bytes: usize) -> i32 {
    assert!(i32::try_from(bytes).is_ok(), "a document fits its length field");
    bytes as i32
}

fn close(out: &mut Vec<u8>, start: usize) {
    assert!(start + 4 <= out.len(), "the length field of a document is before its members");
    out.push(0);
    let length = length_of(out.len() - start);
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

fn write_member(out: &mut Vec<u8>, name: &str, value: &Value) {
    write_named(out, name.as_bytes(), value);
}

/// The name of an element of an array: its place in digits.
fn place_name(mut place: usize, digits: &mut [u8; 20]) -> &[u8] {
    let mut from = digits.len();
    loop {
        from -= 1;
        digits[from] = b'0' + (place % 10) as u8;
        place /= 10;
        if place == 0 {
            return &digits[from..];
        }
    }
}

fn write_named(out: &mut Vec<u8>, name: &[u8], value: &Value) {
    out.push(match value.type_number() {
        -1 => 0xFF,
        number => number as u8,
    });
    out.extend_from_slice(name);
    out.push(0);
    write_value(out, value);
}

fn write_string(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(length_of(text.len()) + 1).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

fn write_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Missing | Value::MinKey | Value::MaxKey | Value::Undefined | Value::Null => {}
        Value::Double(value) => out.extend(value.to_le_bytes()),
        Value::Int(value) => out.extend(value.to_le_bytes()),
        Value::Long(value) | Value::Date(value) => out.extend(value.to_le_bytes()),
        Value::Decimal(value) => out.extend(value.bytes()),
        Value::String(text) | Value::Symbol(text) | Value::Code(text) => write_string(out, text),
        Value::Document(document) => write_document(out, document),
        Value::Array(items) => {
            let start = open(out);
            for (at, item) in items.iter().enumerate() {
                let mut digits = [0; 20];
                write_named(out, place_name(at, &mut digits), item);
            }
            close(out, start);
        }
        Value::Binary(subtype, bytes) => {
            let inner = if *subtype == 2 { 4 } else { 0 };
            out.extend((length_of(bytes.len()) + inner).to_le_bytes());
            out.push(*subtype);
            if inner > 0 {
                out.extend(length_of(bytes.len()).to_le_bytes());
            }
            out.extend(bytes.iter());
        }
        Value::ObjectId(id) => out.extend(id),
        Value::Bool(value) => out.push(u8::from(*value)),
        Value::Timestamp(seconds, increment) => {
            out.extend(increment.to_le_bytes());
            out.extend(seconds.to_le_bytes());
        }
        Value::Regex(regex) => {
            out.extend(regex.0.bytes().chain([0]));
            out.extend(regex.1.bytes().chain([0]));
        }
        Value::DbPointer(pointer) => {
            write_string(out, &pointer.0);
            out.extend(pointer.1);
        }
        Value::CodeWithScope(code) => {
            let start = out.len();
            out.extend([0; 4]);
            write_string(out, &code.0);
            write_document(out, &code.1);
            let length = length_of(out.len() - start);
            out[start..start + 4].copy_from_slice(&length.to_le_bytes());
        }
    }
}
