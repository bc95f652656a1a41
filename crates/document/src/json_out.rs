//! BSON to JSON text: one pass over the bytes, without a tree in between.
//!
//! Compact text. Names and strings escape only the characters for which JSON requires it (quote, backslash,
//! control characters). Integers print their digits. Doubles print the shortest text that reads back as the
//! same double, always with a point or an exponent (`1.0`, `-0.0`, `1e+300`), so text → BSON → text keeps the
//! type of every number. Values that JSON lacks print as the objects that stand for them (`non_json.rs`).
//!
//! Damaged bytes end the text early; they do not panic. Callers check the record's checksum before.

use crate::bson_writer::kind;
use crate::raw::{NonJson, RawDocument, RawValue, named_element, read_string, value_length};
use crate::scan::find_special;

/// Appends `{"a":1,…}`.
pub fn write_json(document: RawDocument<'_>, out: &mut Vec<u8>) {
    out.push(b'{');
    write_members(document, out);
    out.push(b'}');
}

/// Appends `"a":1,…` without braces, so that a caller can append more members.
pub fn write_members(document: RawDocument<'_>, out: &mut Vec<u8>) {
    write_elements(document.as_bytes(), Level::Object, out);
}

/// Appends one value.
pub fn write_value(value: RawValue<'_>, out: &mut Vec<u8>) {
    match value {
        RawValue::Null => out.extend_from_slice(b"null"),
        RawValue::Bool(true) => out.extend_from_slice(b"true"),
        RawValue::Bool(false) => out.extend_from_slice(b"false"),
        RawValue::Int(value) => write_int(value, out),
        RawValue::Double(value) => write_double(value, out),
        RawValue::String(value) => write_json_string(value, out),
        RawValue::Object(document) => write_json(document, out),
        RawValue::Array(array) => {
            out.push(b'[');
            write_elements(array.as_bytes(), Level::Array, out);
            out.push(b']');
        }
        RawValue::NonJson(value) => write_json(value.shown().raw(), out),
    }
}

/// Appends a string in quotes.
pub fn write_json_string(text: &str, out: &mut Vec<u8>) {
    write_quoted(text.as_bytes(), out);
}

/// Length of the text that [`write_json`] appends.
pub fn json_size(document: RawDocument<'_>) -> usize {
    let mut counter = Counter(2);
    write_elements(document.as_bytes(), Level::Object, &mut counter);
    counter.0
}

pub(crate) fn write_int(value: i64, out: &mut impl Sink) {
    if value < 0 {
        out.byte(b'-');
    }
    let mut magnitude = value.unsigned_abs();
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (magnitude % 10) as u8;
        magnitude /= 10;
        if magnitude == 0 {
            break;
        }
    }
    out.bytes(&digits[at..]);
}

/// Digits for a whole number within the range of integer readers; other numbers as in [`write_shortest`].
pub(crate) fn write_double(value: f64, out: &mut impl Sink) {
    if let Some(whole) = whole_number(value) {
        return write_int(whole, out);
    }
    if value.fract() != 0.0 || value.abs() >= DIGITS_BELOW {
        return write_shortest(value, out);
    }
    if value == 0.0 {
        return out.bytes(b"-0");
    }
    out.bytes((value as i128).to_string().as_bytes());
}

/// The number as an equal integer, if there is one. Integers have no negative zero.
pub(crate) fn whole_number(value: f64) -> Option<i64> {
    const TWO_POW_63: f64 = 9_223_372_036_854_775_808.0;
    let is_whole = value.fract() == 0.0 && (-TWO_POW_63..TWO_POW_63).contains(&value);
    (is_whole && !(value == 0.0 && value.is_sign_negative())).then_some(value as i64)
}

/// Whole numbers from here on have an exponent, as in JavaScript.
const DIGITS_BELOW: f64 = 1e21;

/// The shortest text that reads back as `value`. A number that is not finite, which no valid body holds, prints as `null`.
pub(crate) fn write_shortest(value: f64, out: &mut impl Sink) {
    let mut buffer = [0; 40];
    let mut rest = &mut buffer[..];
    let written = serde_json::to_writer(&mut rest, &value);
    debug_assert!(written.is_ok(), "40 bytes hold every double");
    let length = 40 - rest.len();
    out.bytes(&buffer[..length]);
}

/// Destination of text: a buffer, or only a count of its bytes.
pub(crate) trait Sink {
    fn byte(&mut self, byte: u8);
    fn bytes(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    #[inline]
    fn byte(&mut self, byte: u8) {
        self.push(byte);
    }

    #[inline]
    fn bytes(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

struct Counter(usize);

impl Sink for Counter {
    #[inline]
    fn byte(&mut self, _: u8) {
        self.0 += 1;
    }

    #[inline]
    fn bytes(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }
}

/// The meaning of an open BSON document.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Object,
    Array,
    /// The scope that holds the value of a name with U+0000: only the value is printed.
    NamedValue,
}

/// Writes the members or elements of one document. Nested documents end with a zero type byte like the outer
/// one, so one walk from front to back with a stack of levels is enough, and only the lengths of strings are
/// trusted.
fn write_elements(bytes: &[u8], level: Level, out: &mut impl Sink) {
    let mut rest = bytes.get(4..).unwrap_or_default();
    let mut outer_levels: Vec<Level> = Vec::new();
    let mut level = level;
    let mut is_first = true;
    loop {
        let Some((&kind, after_kind)) = rest.split_first() else { return };
        if kind == kind::END {
            rest = after_kind;
            match level {
                _ if outer_levels.is_empty() => return,
                Level::Object => out.byte(b'}'),
                Level::Array => out.byte(b']'),
                Level::NamedValue => {}
            }
            level = outer_levels.pop().unwrap_or(Level::Object);
            is_first = false;
            continue;
        }
        let Some(name_length) = after_kind.iter().position(|byte| *byte == 0) else { return };
        let name = &after_kind[..name_length];
        let value = &after_kind[name_length + 1..];
        if !is_first {
            out.byte(b',');
        }
        if kind == kind::CODE_WITH_SCOPE
            && let Some((exact_name, scope)) = split_named_value(name, value)
        {
            // Bytes of a client may have such a member in an array, whose elements are shown without names.
            if level != Level::Array {
                write_name(exact_name, out);
            }
            outer_levels.push(level);
            level = Level::NamedValue;
            is_first = true;
            rest = scope;
            continue;
        }
        if level == Level::Object {
            write_name(name, out);
        }
        let inner = match kind {
            kind::DOCUMENT => Some((Level::Object, b'{')),
            kind::ARRAY => Some((Level::Array, b'[')),
            _ => None,
        };
        if let Some((inner_level, bracket)) = inner {
            out.byte(bracket);
            outer_levels.push(level);
            level = inner_level;
            is_first = true;
            rest = value.get(4..).unwrap_or_default();
            continue;
        }
        let Some(after_value) = write_scalar(kind, value, out) else { return };
        rest = after_value;
        is_first = false;
    }
}

/// The exact name in a "code with scope" that encodes a member, and the bytes of its scope after the length
/// field.
#[cold]
fn split_named_value<'a>(shown_name: &[u8], value: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    let wrapper = value.get(..value_length(kind::CODE_WITH_SCOPE, value)?)?;
    named_element(shown_name, wrapper)?;
    let (name, scope) = read_string(value.get(4..)?)?;
    Some((name, scope.get(4..)?))
}

/// Writes a value that is not a container and returns the bytes after it.
#[inline]
fn write_scalar<'a>(kind: u8, value: &'a [u8], out: &mut impl Sink) -> Option<&'a [u8]> {
    match kind {
        kind::STRING => {
            let (string, rest) = read_string(value)?;
            write_quoted(string, out);
            Some(rest)
        }
        kind::INT32 => {
            let (bytes, rest) = value.split_first_chunk()?;
            write_int(i64::from(i32::from_le_bytes(*bytes)), out);
            Some(rest)
        }
        kind::INT64 => {
            let (bytes, rest) = value.split_first_chunk()?;
            write_int(i64::from_le_bytes(*bytes), out);
            Some(rest)
        }
        kind::DOUBLE => {
            let (bytes, rest) = value.split_first_chunk()?;
            match f64::from_le_bytes(*bytes) {
                double if double.is_finite() => write_double(double, out),
                _ => write_non_json(NonJson { kind, bytes }, out),
            }
            Some(rest)
        }
        kind::BOOL => {
            let (byte, rest) = value.split_first()?;
            out.bytes(if *byte == 0 { b"false" } else { b"true" });
            Some(rest)
        }
        kind::NULL => {
            out.bytes(b"null");
            Some(value)
        }
        _ => {
            let (bytes, rest) = value.split_at_checked(value_length(kind, value)?)?;
            write_non_json(NonJson { kind, bytes }, out);
            Some(rest)
        }
    }
}

/// Nested scopes cost a stack frame each; validation limits their number.
#[cold]
fn write_non_json(value: NonJson<'_>, out: &mut impl Sink) {
    out.byte(b'{');
    write_elements(value.shown().as_bytes(), Level::Object, out);
    out.byte(b'}');
}

#[inline]
fn write_name(name: &[u8], out: &mut impl Sink) {
    write_quoted(name, out);
    out.byte(b':');
}

pub(crate) fn write_quoted(text: &[u8], out: &mut impl Sink) {
    out.byte(b'"');
    let mut rest = text;
    loop {
        let plain = find_special(rest);
        out.bytes(&rest[..plain]);
        let Some(&byte) = rest.get(plain) else { break };
        write_escape(byte, out);
        rest = &rest[plain + 1..];
    }
    out.byte(b'"');
}

fn write_escape(byte: u8, out: &mut impl Sink) {
    let letter = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        0x0C => b'f',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        _ => {
            const HEX: &[u8; 16] = b"0123456789abcdef";
            out.bytes(&[b'\\', b'u', b'0', b'0', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            return;
        }
    };
    out.bytes(&[b'\\', letter]);
}
