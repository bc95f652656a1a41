//! JSON text to BSON bytes in one pass, without a tree in between.
//!
//! The grammar is RFC 8259 and nothing more: no comments, no trailing commas, no `NaN`, no text after the value. Beyond
//! the grammar these are refused: invalid UTF-8, more nesting than allowed, numbers beyond the range of a double, escapes of
//! half a surrogate pair.
//!
//! Numbers: text without fraction and exponent that fits `i64` is an integer (int32 where it fits, int64
//! otherwise); everything else, and `-0`, is the nearest double. `1.0` and `1` print alike. Integers beyond
//! 64 bits that a double does not hold either are refused where numbers must be kept exactly, see
//! `builder.rs`. Fractions are accepted: every reader of JSON takes them as the nearest double.
//!
//! The reader is a loop over values; `builder.rs` keeps containers, names and limits. Names and strings are
//! unescaped straight into the output. Lengths are patched when a container closes.

use crate::body::Body;
use crate::bson_writer::{Slot, kind};
use crate::builder::{Builder, Shape};
use crate::error::DocumentError;
use crate::limits::{ParseLimits, SIZE_CEILING_BYTES};
use crate::scan::find_special;

/// Reads an item: the root must be an object. System properties at its top level are dropped.
pub fn parse_document(json: &[u8], limits: &ParseLimits) -> Result<Body, DocumentError> {
    let mut parser = Parser::new(json, limits)?;
    parser.skip_space();
    match parser.peek() {
        Some(b'{') => parser.at += 1,
        Some(_) => return Err(DocumentError::NotAnObject),
        None => return Err(parser.syntax("the text is empty")),
    }
    parser.builder.drop_system_properties();
    if let Some(slot) = parser.open(Shape::Object, None)? {
        parser.values(slot)?;
    }
    parser.end_of_text()?;
    parser.builder.into_body()
}

/// Refuses a text with a number that would not be kept. Other mistakes are ignored.
pub fn check_numbers(json: &[u8], limits: &ParseLimits) -> Result<(), DocumentError> {
    match parse_wrapped_value(json, limits) {
        Err(error @ DocumentError::NumberNotKept { .. }) => Err(error),
        _ => Ok(()),
    }
}

/// Reads any JSON value, as the only member, with an empty name, of a BSON document.
pub(crate) fn parse_wrapped_value(json: &[u8], limits: &ParseLimits) -> Result<Body, DocumentError> {
    let mut parser = Parser::new(json, limits)?;
    let length_at = parser.builder.writer.reserve_length();
    let slot = parser.builder.writer.member(b"");
    parser.values(slot)?;
    parser.end_of_text()?;
    parser.builder.writer.end_document(length_at);
    parser.builder.into_body()
}

struct Parser<'j> {
    json: &'j [u8],
    at: usize,
    builder: Builder,
}

impl<'j> Parser<'j> {
    fn new(json: &'j [u8], limits: &ParseLimits) -> Result<Self, DocumentError> {
        let size_bytes_max = limits.size_max_bytes.min(SIZE_CEILING_BYTES);
        if json.len() > size_bytes_max {
            return Err(DocumentError::TooLarge { size_bytes: json.len(), size_bytes_max });
        }
        if let Err(error) = std::str::from_utf8(json) {
            return Err(DocumentError::InvalidUtf8 { offset: error.valid_up_to() });
        }
        Ok(Parser { json, at: 0, builder: Builder::new(json.len() + json.len() / 8 + 32, limits) })
    }

    /// Reads the value for `slot` and all that follows until every open container is closed.
    fn values(&mut self, mut slot: Slot) -> Result<(), DocumentError> {
        loop {
            let next = match self.value(slot)? {
                Some(inner) => Some(inner),
                None => self.after_value()?,
            };
            match next {
                Some(next) => slot = next,
                None => return Ok(()),
            }
        }
    }

    /// Reads a scalar or an empty container to its end, or opens a container and returns the slot of its first value.
    fn value(&mut self, slot: Slot) -> Result<Option<Slot>, DocumentError> {
        self.skip_space();
        let Some(byte) = self.peek() else {
            return Err(self.syntax("the text ends where a value is expected"));
        };
        match byte {
            b'"' => {
                self.at += 1;
                self.builder.writer.out[slot.type_at] = kind::STRING;
                let length_at = self.builder.writer.reserve_length();
                self.string()?;
                self.builder.writer.end_string(length_at);
            }
            b'{' => {
                self.at += 1;
                return self.open(Shape::Object, Some(slot));
            }
            b'[' => {
                self.at += 1;
                return self.open(Shape::Array, Some(slot));
            }
            b'-' | b'0'..=b'9' => self.number(slot)?,
            b't' => {
                self.word(b"true")?;
                self.builder.writer.bool(slot, true);
            }
            b'f' => {
                self.word(b"false")?;
                self.builder.writer.bool(slot, false);
            }
            b'n' => {
                self.word(b"null")?;
                self.builder.writer.null(slot);
            }
            _ => return Err(self.syntax("a value is expected")),
        }
        self.builder.finish(slot);
        Ok(None)
    }

    /// A value is complete: moves on to the next one of the innermost container, closing containers on the
    /// way.
    fn after_value(&mut self) -> Result<Option<Slot>, DocumentError> {
        loop {
            let Some(shape) = self.builder.innermost() else { return Ok(None) };
            self.skip_space();
            match (self.peek(), shape) {
                (Some(b','), Shape::Object) => {
                    self.at += 1;
                    self.skip_space();
                    return self.name().map(Some);
                }
                (Some(b','), Shape::Array) => {
                    self.at += 1;
                    return Ok(Some(self.builder.element()));
                }
                (Some(b'}'), Shape::Object) | (Some(b']'), Shape::Array) => {
                    self.at += 1;
                    self.builder.close()?;
                }
                (None, _) => return Err(self.syntax("the text ends inside an object or array")),
                (Some(_), Shape::Object) => return Err(self.syntax("',' or '}' is expected")),
                (Some(_), Shape::Array) => return Err(self.syntax("',' or ']' is expected")),
            }
        }
    }

    fn open(&mut self, shape: Shape, slot: Option<Slot>) -> Result<Option<Slot>, DocumentError> {
        self.builder.open(shape, slot, self.at - 1)?;
        self.skip_space();
        match (self.peek(), shape) {
            (Some(b'}'), Shape::Object) | (Some(b']'), Shape::Array) => {
                self.at += 1;
                self.builder.close()?;
                Ok(None)
            }
            (_, Shape::Object) => self.name().map(Some),
            (_, Shape::Array) => Ok(Some(self.builder.element())),
        }
    }

    /// Reads a property name and the colon.
    fn name(&mut self) -> Result<Slot, DocumentError> {
        if self.peek() != Some(b'"') {
            return Err(self.syntax("a property name in double quotes is expected"));
        }
        self.at += 1;
        let type_at = self.builder.begin_name();
        self.string()?;
        self.skip_space();
        if self.peek() != Some(b':') {
            return Err(self.syntax("':' is expected"));
        }
        self.at += 1;
        self.builder.end_name(type_at)
    }

    /// Appends the unescaped string after the opening quote, and reads past the closing one.
    fn string(&mut self) -> Result<(), DocumentError> {
        loop {
            let rest = &self.json[self.at..];
            let plain = find_special(rest);
            self.builder.writer.out.extend_from_slice(&rest[..plain]);
            self.at += plain;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                Some(_) => return Err(self.syntax("a control character in a string must be escaped")),
                None => return Err(self.syntax("the text ends inside a string")),
            }
        }
    }

    fn escape(&mut self) -> Result<(), DocumentError> {
        let start = self.at;
        self.at += 1;
        let byte = match self.peek() {
            Some(byte @ (b'"' | b'\\' | b'/')) => byte,
            Some(b'b') => 0x08,
            Some(b'f') => 0x0C,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => {
                self.at += 1;
                let character = self.unicode_escape(start)?;
                let mut buffer = [0; 4];
                self.builder.writer.out.extend_from_slice(character.encode_utf8(&mut buffer).as_bytes());
                return Ok(());
            }
            _ => return Err(self.syntax("unknown escape in a string")),
        };
        self.at += 1;
        self.builder.writer.out.push(byte);
        Ok(())
    }

    fn unicode_escape(&mut self, start: usize) -> Result<char, DocumentError> {
        let lone = DocumentError::LoneSurrogate { offset: start };
        let unit = self.four_digits()?;
        let code = match unit {
            0xD800..=0xDBFF => {
                if !self.json[self.at..].starts_with(b"\\u") {
                    return Err(lone);
                }
                self.at += 2;
                let low = self.four_digits()?;
                if !(0xDC00..=0xDFFF).contains(&low) {
                    return Err(lone);
                }
                0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00)
            }
            unit => unit,
        };
        char::from_u32(code).ok_or(lone)
    }

    fn four_digits(&mut self) -> Result<u32, DocumentError> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            let Some(digit) = digit else { return Err(self.syntax("four hexadecimal digits are expected")) };
            unit = unit * 16 + digit;
            self.at += 1;
        }
        Ok(unit)
    }

    fn number(&mut self, slot: Slot) -> Result<(), DocumentError> {
        let start = self.at;
        let negative = self.peek() == Some(b'-');
        self.at += usize::from(negative);
        let magnitude = self.integer_part()?;
        let is_double = self.fraction_and_exponent()?;
        let text = std::str::from_utf8(&self.json[start..self.at]).expect("digits are ASCII");
        if !is_double && text != "-0" {
            // The range is not symmetric: -2^63 fits and 2^63 does not.
            let integer = magnitude.and_then(|magnitude| match negative {
                true => 0i64.checked_sub_unsigned(magnitude),
                false => i64::try_from(magnitude).ok(),
            });
            let Some(integer) = integer else { return self.builder.large_integer(slot, text, start) };
            self.builder.writer.int(slot, integer);
            return Ok(());
        }
        let value: f64 = text.parse().expect("the grammar of JSON numbers is a part of what f64 reads");
        if !value.is_finite() {
            return Err(DocumentError::NumberOutOfRange { offset: start });
        }
        self.builder.writer.double(slot, value);
        Ok(())
    }

    /// The digits before any point; `None` when their value does not fit 64 bits.
    fn integer_part(&mut self) -> Result<Option<u64>, DocumentError> {
        let start = self.at;
        let mut magnitude = Some(0u64);
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            let digit = u64::from(digit - b'0');
            magnitude = magnitude.and_then(|value| value.checked_mul(10)?.checked_add(digit));
            self.at += 1;
        }
        match self.at - start {
            0 => Err(self.syntax("a digit is expected")),
            1 => Ok(magnitude),
            _ if self.json[start] == b'0' => {
                self.at = start;
                Err(self.syntax("a number must not start with a needless zero"))
            }
            _ => Ok(magnitude),
        }
    }

    fn fraction_and_exponent(&mut self) -> Result<bool, DocumentError> {
        let mut found = false;
        if self.peek() == Some(b'.') {
            found = true;
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            found = true;
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(found)
    }

    fn digits(&mut self) -> Result<(), DocumentError> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at == start { Err(self.syntax("a digit is expected")) } else { Ok(()) }
    }

    fn word(&mut self, word: &[u8]) -> Result<(), DocumentError> {
        if !self.json[self.at..].starts_with(word) {
            return Err(self.syntax("a value is expected"));
        }
        self.at += word.len();
        Ok(())
    }

    fn end_of_text(&mut self) -> Result<(), DocumentError> {
        self.skip_space();
        if self.at < self.json.len() {
            return Err(self.syntax("the text goes on after the end of the value"));
        }
        Ok(())
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.json.get(self.at).copied()
    }

    fn syntax(&self, what: &'static str) -> DocumentError {
        DocumentError::Syntax { offset: self.at, what }
    }
}
