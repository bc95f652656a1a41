//! BSON bytes to documents, with every length checked.

use super::{Decimal, Document, Value, names};
use crate::error::{Error, OVERFLOW, Result, error, fail};
use shardlake_stdx::codec::{Number, Reader};
use std::sync::Arc;

/// Levels of documents and arrays that a document may have.
pub(crate) const NESTING_MAX: usize = 200;
const INVALID_BSON: i32 = 22;
/// Bytes of a small member.
const MEMBER_BYTES: usize = 24;
const MEMBERS_EXPECTED_MAX: usize = 8;

impl Document {
    /// Reads a document. Damaged bytes are error 22 (spec §1).
    pub fn from_bytes(bytes: &[u8]) -> Result<Document> {
        let mut input = Input(Reader::new(bytes));
        let document = input.document(0)?;
        if !input.0.is_empty() {
            fail!(INVALID_BSON, "the document is shorter than its bytes");
        }
        Ok(document)
    }

    /// Reads only those top-level members that `wanted` names: the ones that a filter or a sort needs.
    pub fn members_from_bytes(bytes: &[u8], wanted: impl Fn(&str) -> bool) -> Result<Document> {
        Input(Reader::new(bytes)).members(0, |_| 0, wanted)
    }
}

/// Whether [`Document::from_bytes`] reads the bytes of a document back.
pub(crate) fn is_within_nesting(document: &Document) -> bool {
    nests_within(document, 0)
}

fn nests_within(document: &Document, depth: usize) -> bool {
    depth <= NESTING_MAX && document.iter().all(|(_, value)| value_nests_within(value, depth + 1))
}

fn value_nests_within(value: &Value, depth: usize) -> bool {
    match value {
        Value::Document(document) => nests_within(document, depth),
        Value::Array(items) => {
            depth <= NESTING_MAX && items.iter().all(|item| value_nests_within(item, depth + 1))
        }
        Value::CodeWithScope(code) => nests_within(&code.1, depth),
        _ => true,
    }
}

/// The unread rest of a document.
struct Input<'a>(Reader<'a>);

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        self.0.take(count).ok_or_else(ends_early)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.0.array().ok_or_else(ends_early)
    }

    fn byte(&mut self) -> Result<u8> {
        self.0.byte().ok_or_else(ends_early)
    }

    fn number<N: Number>(&mut self) -> Result<N> {
        self.0.le().ok_or_else(ends_early)
    }

    /// A length of at least `least` bytes.
    fn length(&mut self, least: i32) -> Result<usize> {
        let length: i32 = self.number()?;
        if length < least {
            fail!(INVALID_BSON, "a length of {length} is too short");
        }
        Ok(length as usize)
    }

    fn cstring(&mut self) -> Result<&'a str> {
        let text = self.0.until_zero().ok_or_else(|| error!(INVALID_BSON, "a name has no end"))?;
        std::str::from_utf8(text).map_err(|_| error!(INVALID_BSON, "a name is not UTF-8"))
    }

    fn string(&mut self) -> Result<&'a str> {
        let length = self.length(1)?;
        match self.take(length)? {
            [text @ .., 0] => {
                std::str::from_utf8(text).map_err(|_| error!(INVALID_BSON, "a string is not UTF-8"))
            }
            _ => fail!(INVALID_BSON, "a string does not end with zero"),
        }
    }

    fn document(&mut self, depth: usize) -> Result<Document> {
        self.members(depth, |bytes| (1 + bytes / MEMBER_BYTES).min(MEMBERS_EXPECTED_MAX), |_| true)
    }

    /// `expected` is the number of members to make room for in a body of so many bytes.
    fn members(
        &mut self,
        depth: usize,
        expected: impl Fn(usize) -> usize,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Document> {
        let mut body = self.body(depth)?;
        let mut document = Document::with_capacity(expected(body.0.rest().len()));
        while !body.0.is_empty() {
            let kind = body.byte()?;
            let name = body.cstring()?;
            let value = body.value(kind, depth + 1)?;
            if wanted(name) {
                document.push(names::shared(name), value);
            }
        }
        Ok(document)
    }

    /// The bytes between the length and the final zero.
    fn body(&mut self, depth: usize) -> Result<Input<'a>> {
        if depth > NESTING_MAX {
            fail!(OVERFLOW, "documents are nested deeper than {NESTING_MAX} levels");
        }
        let length = self.length(5)?;
        match self.take(length - 4)? {
            [body @ .., 0] => Ok(Input(Reader::new(body))),
            _ => fail!(INVALID_BSON, "a document does not end with zero"),
        }
    }

    fn items(&mut self, depth: usize) -> Result<Vec<Value>> {
        let mut body = self.body(depth)?;
        let mut items = Vec::new();
        while !body.0.is_empty() {
            let kind = body.byte()?;
            body.cstring()?;
            items.push(body.value(kind, depth + 1)?);
        }
        Ok(items)
    }

    fn value(&mut self, kind: u8, depth: usize) -> Result<Value> {
        Ok(match kind {
            0x01 => Value::Double(self.number()?),
            0x02 => Value::String(Arc::from(self.string()?)),
            0x03 => Value::document(self.document(depth)?),
            0x04 => Value::array(self.items(depth)?),
            0x05 => self.binary()?,
            0x06 => Value::Undefined,
            0x07 => Value::ObjectId(self.array()?),
            0x08 => match self.byte()? {
                0 => Value::Bool(false),
                1 => Value::Bool(true),
                other => fail!(INVALID_BSON, "a boolean is {other}"),
            },
            0x09 => Value::Date(self.number()?),
            0x0A => Value::Null,
            0x0B => Value::Regex(Arc::new((self.cstring()?.to_owned(), self.cstring()?.to_owned()))),
            0x0C => Value::DbPointer(Arc::new((self.string()?.to_owned(), self.array()?))),
            0x0D => Value::Code(Arc::from(self.string()?)),
            0x0E => Value::Symbol(Arc::from(self.string()?)),
            0x0F => {
                self.length(14)?;
                let code = self.string()?.to_owned();
                Value::CodeWithScope(Arc::new((code, self.document(depth)?)))
            }
            0x10 => Value::Int(self.number()?),
            0x11 => {
                let increment = self.number()?;
                Value::Timestamp(self.number()?, increment)
            }
            0x12 => Value::Long(self.number()?),
            0x13 => Value::Decimal(Decimal::from_bytes(self.array()?)),
            0x7F => Value::MaxKey,
            0xFF => Value::MinKey,
            other => fail!(INVALID_BSON, "{other:#04x} is no type of a value"),
        })
    }

    fn binary(&mut self) -> Result<Value> {
        let length = self.length(0)?;
        let subtype = self.byte()?;
        let mut content = self.take(length)?;
        // The old generic subtype repeats the length inside.
        if subtype == 2 {
            content = content.get(4..).ok_or_else(|| error!(INVALID_BSON, "a binary value is too short"))?;
        }
        Ok(Value::Binary(subtype, Arc::from(content)))
    }
}

fn ends_early() -> Error {
    error!(INVALID_BSON, "the document ends within a value")
}
