//! BSON to Cosmos binary JSON: one pass over the bytes, without a tree in between.
//!
//! The shortest plain form of each value (`binary_format.rs`) is written: integers in the fewest bytes, names
//! of the dictionary by their marker, other strings in full. Packed strings and references are read but not
//! written: they cost a search for every string, and a reference makes a part of a document unreadable by
//! itself, while clients extract parts of pages.
//!
//! A container's length comes before its values. The width of the length depends on the length of the
//! container in BSON, which is never much less (see [`content_bound`]). The length is filled in when the
//! container is complete.

use crate::binary_format::{PREAMBLE, SYSTEM_STRINGS, marker};
use crate::error::DocumentError;
use crate::json_in::parse_wrapped_value;
use crate::json_out::whole_number;
use crate::limits::{NESTING_CEILING, ParseLimits};
use crate::raw::{RawDocument, RawValue};

/// Appends a whole document of one value.
pub fn write_binary(value: RawValue<'_>, out: &mut Vec<u8>) {
    out.push(PREAMBLE);
    write_value(value, 0, out);
}

/// The document of `json`, which this program has written, in binary form.
pub fn binary_of_json(json: &[u8]) -> Result<Vec<u8>, DocumentError> {
    let limits =
        ParseLimits { nesting_max: NESTING_CEILING, size_max_bytes: json.len(), ..ParseLimits::default() };
    let wrapped = parse_wrapped_value(json, &limits)?;
    let mut out = Vec::with_capacity(json.len());
    write_binary(wrapped.raw().get("").unwrap_or(RawValue::Null), &mut out);
    Ok(out)
}

/// Values nested deeper than [`NESTING_CEILING`], which no valid body contains, become null.
fn write_value(value: RawValue<'_>, level: usize, out: &mut Vec<u8>) {
    match value {
        RawValue::Array(_) | RawValue::Object(_) if level > NESTING_CEILING => out.push(marker::NULL),
        RawValue::Null => out.push(marker::NULL),
        RawValue::Bool(false) => out.push(marker::FALSE),
        RawValue::Bool(true) => out.push(marker::TRUE),
        RawValue::Int(value) => write_int(value, out),
        RawValue::Double(value) => match whole_number(value) {
            Some(whole) => write_int(whole, out),
            None => {
                out.push(marker::NUMBER_DOUBLE);
                out.extend_from_slice(&value.to_le_bytes());
            }
        },
        RawValue::String(text) => write_string(text, out),
        RawValue::NonJson(value) => write_value(RawValue::Object(value.shown().raw()), level, out),
        RawValue::Array(array) if array.is_empty() => out.push(marker::ARRAY_EMPTY),
        RawValue::Array(array) => {
            let open = Open::new(marker::ARRAY_EMPTY, content_bound(array.as_bytes().len()), out);
            array.iter().for_each(|element| write_value(element, level + 1, out));
            open.close(out);
        }
        RawValue::Object(document) if document.is_empty() => out.push(marker::OBJECT_EMPTY),
        RawValue::Object(document) => {
            let open = Open::new(marker::OBJECT_EMPTY, content_bound(document.as_bytes().len()), out);
            write_members(document, level, out);
            open.close(out);
        }
    }
}

/// Appends the members of an object at `level`.
pub(crate) fn write_members(document: RawDocument<'_>, level: usize, out: &mut Vec<u8>) {
    for (name, value) in document.iter() {
        write_string(name, out);
        write_value(value, level + 1, out);
    }
}

/// An upper bound for the size of a container's values, from its bytes as BSON. Each value has a type, a name
/// and a zero in BSON, which are never shorter than its marker and its name here, except for names of more
/// than 63 bytes, which need up to 4 more. Values that JSON lacks may exceed the bound.
fn content_bound(bson_bytes: usize) -> usize {
    bson_bytes + bson_bytes / 64
}

/// A container with an unknown length.
pub(crate) struct Open {
    length_at: usize,
    width: usize,
}

impl Open {
    /// Opens a container, by the marker of its empty form, with at most `bound` bytes of values.
    pub fn new(empty: u8, bound: usize, out: &mut Vec<u8>) -> Open {
        let (form, width) = match bound {
            0..=0xFF => (marker::LENGTH_1, 1),
            0x100..=0xFFFF => (marker::LENGTH_2, 2),
            _ => (marker::LENGTH_4, 4),
        };
        out.push(empty + form);
        let length_at = out.len();
        out.extend_from_slice(&[0; 4][..width]);
        Open { length_at, width }
    }

    pub fn close(self, out: &mut Vec<u8>) {
        let start = self.length_at + self.width;
        let length = (out.len() - start).to_le_bytes();
        if length[self.width..].iter().all(|byte| *byte == 0) {
            out[self.length_at..start].copy_from_slice(&length[..self.width]);
        } else {
            self.widen(length, out);
        }
    }

    /// Widens the length field and moves the values up: objects that stand for values that JSON lacks can be
    /// longer than in BSON.
    #[cold]
    fn widen(self, length: [u8; 8], out: &mut Vec<u8>) {
        assert!(length[4..].iter().all(|byte| *byte == 0), "a container fits the widest length");
        let marker_at = self.length_at - 1;
        let empty = match self.width {
            1 => out[marker_at] - marker::LENGTH_1,
            _ => out[marker_at] - marker::LENGTH_2,
        };
        out[marker_at] = empty + marker::LENGTH_4;
        let start = self.length_at + self.width;
        out.splice(self.length_at..start, length[..4].iter().copied());
    }
}

pub(crate) fn write_int(value: i64, out: &mut Vec<u8>) {
    if (0..i64::from(marker::LITERAL_INTEGERS_END)).contains(&value) {
        out.push(value as u8);
    } else if let Ok(value) = u8::try_from(value) {
        out.extend_from_slice(&[marker::NUMBER_UINT8, value]);
    } else if let Ok(value) = i16::try_from(value) {
        out.push(marker::NUMBER_INT16);
        out.extend_from_slice(&value.to_le_bytes());
    } else if let Ok(value) = i32::try_from(value) {
        out.push(marker::NUMBER_INT32);
        out.extend_from_slice(&value.to_le_bytes());
    } else {
        out.push(marker::NUMBER_INT64);
        out.extend_from_slice(&value.to_le_bytes());
    }
}

pub(crate) fn write_string(text: &str, out: &mut Vec<u8>) {
    if let Some(index) = SYSTEM_STRINGS.iter().position(|known| *known == text) {
        out.push(marker::SYSTEM_STRINGS_START + index as u8);
        return;
    }
    match text.len() {
        length @ 0..0x40 => out.push(marker::SHORT_STRINGS_START + length as u8),
        length @ 0x40..=0xFF => out.extend_from_slice(&[marker::STRING_1, length as u8]),
        length @ 0x100..=0xFFFF => {
            out.push(marker::STRING_2);
            out.extend_from_slice(&(length as u16).to_le_bytes());
        }
        length => {
            out.push(marker::STRING_4);
            assert!(u32::try_from(length).is_ok(), "a text fits the widest length");
            out.extend_from_slice(&(length as u32).to_le_bytes());
        }
    }
    out.extend_from_slice(text.as_bytes());
}
