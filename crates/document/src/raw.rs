//! Reads fields of a BSON document in place: no copy, no allocation, no index.
//!
//! A [`RawDocument`] is a view of bytes that were validated when they were written
//! ([`RawDocument::assume_valid`]) or now ([`RawDocument::validate`]). Every kind of BSON is walked by its
//! right length; [`RawValue::NonJson`] holds values that JSON lacks. On bytes that were never validated
//! reading is still safe: a damaged element ends its document, so members go missing, but nothing panics and
//! nothing reads out of bounds. Stored bodies were validated, and their checksum shows that they are
//! unchanged. Names come out exactly as they were in the JSON text; `bson_writer.rs` describes how a name
//! with U+0000 is stored.
//!
//! Finding a member is a linear walk over its predecessors, which skips values by their length.

use crate::bson_writer::kind;
use crate::error::DocumentError;
use crate::limits::NESTING_CEILING;

/// A view of one BSON document, length field and final zero included.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RawDocument<'a> {
    bytes: &'a [u8],
}

/// A view of one BSON array.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RawArray<'a> {
    bytes: &'a [u8],
}

/// A value inside a document.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RawValue<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
    String(&'a str),
    Array(RawArray<'a>),
    Object(RawDocument<'a>),
    /// A value of a kind that JSON lacks.
    NonJson(NonJson<'a>),
}

/// A value of a kind that JSON lacks, borrowed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NonJson<'a> {
    pub(crate) kind: u8,
    pub(crate) bytes: &'a [u8],
}

/// The kind of a stored value. Unlike [`RawValue`] it distinguishes 32-bit from 64-bit integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum BsonKind {
    Double = kind::DOUBLE,
    String = kind::STRING,
    Document = kind::DOCUMENT,
    Array = kind::ARRAY,
    Binary = kind::BINARY,
    Undefined = kind::UNDEFINED,
    ObjectId = kind::OBJECT_ID,
    Bool = kind::BOOL,
    Date = kind::DATE,
    Null = kind::NULL,
    Regex = kind::REGEX,
    DbPointer = kind::DB_POINTER,
    Code = kind::CODE,
    Symbol = kind::SYMBOL,
    CodeWithScope = kind::CODE_WITH_SCOPE,
    Int32 = kind::INT32,
    Timestamp = kind::TIMESTAMP,
    Int64 = kind::INT64,
    Decimal128 = kind::DECIMAL128,
    MaxKey = kind::MAX_KEY,
    MinKey = kind::MIN_KEY,
}

impl BsonKind {
    pub const ALL: [BsonKind; 21] = {
        use BsonKind::*;
        [
            Double,
            String,
            Document,
            Array,
            Binary,
            Undefined,
            ObjectId,
            Bool,
            Date,
            Null,
            Regex,
            DbPointer,
            Code,
            Symbol,
            CodeWithScope,
            Int32,
            Timestamp,
            Int64,
            Decimal128,
            MaxKey,
            MinKey,
        ]
    };

    #[inline]
    pub(crate) fn of_byte(byte: u8) -> Option<BsonKind> {
        let kind = match byte {
            kind::DOUBLE => BsonKind::Double,
            kind::STRING => BsonKind::String,
            kind::DOCUMENT => BsonKind::Document,
            kind::ARRAY => BsonKind::Array,
            kind::BINARY => BsonKind::Binary,
            kind::UNDEFINED => BsonKind::Undefined,
            kind::OBJECT_ID => BsonKind::ObjectId,
            kind::BOOL => BsonKind::Bool,
            kind::DATE => BsonKind::Date,
            kind::NULL => BsonKind::Null,
            kind::REGEX => BsonKind::Regex,
            kind::DB_POINTER => BsonKind::DbPointer,
            kind::CODE => BsonKind::Code,
            kind::SYMBOL => BsonKind::Symbol,
            kind::CODE_WITH_SCOPE => BsonKind::CodeWithScope,
            kind::INT32 => BsonKind::Int32,
            kind::TIMESTAMP => BsonKind::Timestamp,
            kind::INT64 => BsonKind::Int64,
            kind::DECIMAL128 => BsonKind::Decimal128,
            kind::MAX_KEY => BsonKind::MaxKey,
            kind::MIN_KEY => BsonKind::MinKey,
            _ => return None,
        };
        debug_assert_eq!(kind as u8, byte, "a kind has the number of its type byte");
        Some(kind)
    }
}

impl<'a> RawDocument<'a> {
    /// A view of bytes from a [`crate::Body`] or of a record whose checksum holds.
    pub fn assume_valid(bytes: &'a [u8]) -> Self {
        RawDocument { bytes }
    }

    /// Checks every byte: lengths, types, UTF-8, finite numbers, nesting. Does not look for duplicate names.
    pub fn validate(bytes: &'a [u8]) -> Result<Self, DocumentError> {
        validate_document(bytes, 1)?;
        Ok(RawDocument { bytes })
    }

    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub fn get(&self, name: &str) -> Option<RawValue<'a>> {
        Elements::new(self.bytes).find(|element| element.name == name.as_bytes())?.value()
    }

    /// The value at a path of property names, through objects only. An empty path names nothing.
    pub fn get_path<S: AsRef<str>>(&self, path: &[S]) -> Option<RawValue<'a>> {
        let (last, parents) = path.split_last()?;
        let mut document = *self;
        for name in parents {
            let Some(RawValue::Object(inner)) = document.get(name.as_ref()) else { return None };
            document = inner;
        }
        document.get(last.as_ref())
    }

    /// Members in stored order with the kinds that they are stored as.
    pub fn elements(&self) -> impl Iterator<Item = RawElement<'a>> + use<'a> {
        Elements::new(self.bytes)
    }

    /// Members in stored order.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, RawValue<'a>)> + use<'a> {
        Elements::new(self.bytes)
            .map_while(|element| Some((std::str::from_utf8(element.name).ok()?, element.value()?)))
    }

    /// Counts the members by walking over them.
    pub fn len(&self) -> usize {
        Elements::new(self.bytes).count()
    }

    pub fn is_empty(&self) -> bool {
        Elements::new(self.bytes).next().is_none()
    }
}

impl<'a> RawArray<'a> {
    pub fn get(&self, index: usize) -> Option<RawValue<'a>> {
        Elements::new(self.bytes).nth(index)?.value()
    }

    pub fn iter(&self) -> impl Iterator<Item = RawValue<'a>> + use<'a> {
        Elements::new(self.bytes).map_while(|element| element.value())
    }

    /// Elements in order with the kinds that they are stored as.
    pub fn elements(&self) -> impl Iterator<Item = RawElement<'a>> + use<'a> {
        Elements::new(self.bytes)
    }

    /// Counts the elements by walking over them.
    pub fn len(&self) -> usize {
        Elements::new(self.bytes).count()
    }

    pub fn is_empty(&self) -> bool {
        Elements::new(self.bytes).next().is_none()
    }

    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

impl std::fmt::Debug for RawDocument<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_map().entries(self.iter()).finish()
    }
}

impl std::fmt::Debug for RawArray<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}

/// One member: its exact name and the bytes of its value.
#[derive(Clone, Copy)]
pub struct RawElement<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) kind: u8,
    pub(crate) value: &'a [u8],
}

impl<'a> RawElement<'a> {
    pub fn name(&self) -> Option<&'a str> {
        std::str::from_utf8(self.name).ok()
    }

    /// The bytes of the name.
    #[inline]
    pub fn name_bytes(&self) -> &'a [u8] {
        self.name
    }

    #[inline]
    pub fn kind(&self) -> Option<BsonKind> {
        BsonKind::of_byte(self.kind)
    }

    /// The value's bytes in BSON, after the name.
    pub fn bytes(&self) -> &'a [u8] {
        self.value
    }

    #[inline]
    pub fn value(&self) -> Option<RawValue<'a>> {
        Some(match self.kind {
            kind::NULL => RawValue::Null,
            kind::BOOL => RawValue::Bool(self.value.first()? != &0),
            kind::INT32 => RawValue::Int(i64::from(i32::from_le_bytes(*self.value.first_chunk()?))),
            kind::INT64 => RawValue::Int(i64::from_le_bytes(*self.value.first_chunk()?)),
            kind::DOUBLE => match f64::from_le_bytes(*self.value.first_chunk()?) {
                value if value.is_finite() => RawValue::Double(value),
                _ => RawValue::NonJson(NonJson { kind: self.kind, bytes: self.value }),
            },
            kind::STRING => RawValue::String(std::str::from_utf8(string_content(self.value)?).ok()?),
            kind::DOCUMENT => RawValue::Object(RawDocument { bytes: self.value }),
            kind::ARRAY => RawValue::Array(RawArray { bytes: self.value }),
            kind => RawValue::NonJson(NonJson { kind, bytes: self.value }),
        })
    }
}

impl<'a> NonJson<'a> {
    pub fn kind(&self) -> Option<BsonKind> {
        BsonKind::of_byte(self.kind)
    }

    /// The value's bytes in BSON.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The scope of code with scope.
    pub(crate) fn scope(&self) -> Option<RawDocument<'a>> {
        if self.kind != kind::CODE_WITH_SCOPE {
            return None;
        }
        let (_, scope) = read_string(self.bytes.get(4..)?)?;
        Some(RawDocument::assume_valid(scope))
    }
}

/// Walks over the elements of a document or array and stops at the end or at the first damaged one.
struct Elements<'a> {
    /// The remaining bytes, from the next type byte on.
    rest: &'a [u8],
}

impl<'a> Elements<'a> {
    fn new(document: &'a [u8]) -> Self {
        Elements { rest: document.get(4..).unwrap_or_default() }
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = RawElement<'a>;

    #[inline]
    fn next(&mut self) -> Option<RawElement<'a>> {
        let (&kind, after_kind) = self.rest.split_first()?;
        if kind == kind::END {
            return None;
        }
        let name_length = length_before_zero(after_kind)?;
        let name = &after_kind[..name_length];
        let values = &after_kind[name_length + 1..];
        let (value, rest) = values.split_at_checked(value_length(kind, values)?)?;
        self.rest = rest;
        if kind == kind::CODE_WITH_SCOPE
            && let Some(named) = named_element(name, value)
        {
            return Some(named);
        }
        Some(RawElement { name, kind, value })
    }
}

/// The length of the name that the bytes begin with: it ends at the first zero. One step reads eight bytes,
/// the length of most names.
#[inline]
pub(crate) fn length_before_zero(bytes: &[u8]) -> Option<usize> {
    let Some(first) = bytes.first_chunk() else { return bytes.iter().position(|byte| *byte == 0) };
    match first_zero(u64::from_le_bytes(*first)) {
        Some(length) => Some(length),
        None => bytes[8..].iter().position(|byte| *byte == 0).map(|length| length + 8),
    }
}

/// The place of the first byte that is zero, from the least significant one on.
#[inline]
pub(crate) fn first_zero(word: u64) -> Option<usize> {
    const ONES: u64 = u64::from_le_bytes([0x01; 8]);
    const HIGH_BITS: u64 = u64::from_le_bytes([0x80; 8]);
    // A byte other than zero gets its high bit only after a zero byte.
    let zeros = word.wrapping_sub(ONES) & !word & HIGH_BITS;
    (zeros != 0).then(|| zeros.trailing_zeros() as usize / 8)
}

/// The member that a value of type 0x0F encodes, if its name has U+0000: `bson_writer.rs`.
#[cold]
pub(crate) fn named_element<'a>(shown_name: &[u8], wrapper: &'a [u8]) -> Option<RawElement<'a>> {
    let (name, scope) = read_string(wrapper.get(4..)?)?;
    let is_shown_as = || {
        std::str::from_utf8(name).is_ok_and(|name| name.replace('\0', "\u{2400}").as_bytes() == shown_name)
    };
    if !name.contains(&0) || value_length(kind::DOCUMENT, scope)? != scope.len() || !is_shown_as() {
        return None;
    }
    let [kind, 0, values @ ..] = scope.get(4..)? else { return None };
    let (value, end) = values.split_at_checked(value_length(*kind, values)?)?;
    let is_plain = *kind != kind::CODE_WITH_SCOPE && end == [kind::END];
    is_plain.then_some(RawElement { name, kind: *kind, value })
}

/// The length of a value, by its type and its own length field.
#[inline]
pub(crate) fn value_length(kind: u8, values: &[u8]) -> Option<usize> {
    let length = || usize::try_from(i32::from_le_bytes(*values.first_chunk()?)).ok();
    match kind {
        kind::NULL => Some(0),
        kind::BOOL => Some(1),
        kind::INT32 => Some(4),
        kind::INT64 | kind::DOUBLE => Some(8),
        kind::STRING => length()?.checked_add(4),
        kind::DOCUMENT | kind::ARRAY => length(),
        _ => non_json_length(kind, values),
    }
}

fn non_json_length(kind: u8, values: &[u8]) -> Option<usize> {
    let length = || usize::try_from(i32::from_le_bytes(*values.first_chunk()?)).ok();
    match kind {
        kind::UNDEFINED | kind::MIN_KEY | kind::MAX_KEY => Some(0),
        kind::DATE | kind::TIMESTAMP => Some(8),
        kind::OBJECT_ID => Some(12),
        kind::DECIMAL128 => Some(16),
        kind::CODE | kind::SYMBOL => length()?.checked_add(4),
        kind::CODE_WITH_SCOPE => length(),
        kind::BINARY => length()?.checked_add(5),
        kind::DB_POINTER => length()?.checked_add(4 + 12),
        kind::REGEX => {
            let zero = |bytes: &[u8]| bytes.iter().position(|byte| *byte == 0);
            let pattern = zero(values)? + 1;
            Some(pattern + zero(&values[pattern..])? + 1)
        }
        _ => None,
    }
}

/// The content of the string that `value` begins with, and the bytes after it.
#[inline]
pub(crate) fn read_string(value: &[u8]) -> Option<(&[u8], &[u8])> {
    let (string, rest) = value.split_at_checked(value_length(kind::STRING, value)?)?;
    Some((string_content(string)?, rest))
}

/// The bytes of a string value between its length field and its final zero.
#[inline]
pub(crate) fn string_content(value: &[u8]) -> Option<&[u8]> {
    value.get(4..value.len().checked_sub(1)?)
}

fn validate_document(bytes: &[u8], level: usize) -> Result<(), DocumentError> {
    let corrupt = |what| DocumentError::CorruptBody { what };
    if level > NESTING_CEILING {
        return Err(DocumentError::TooDeep { nesting_max: NESTING_CEILING, offset: 0 });
    }
    let length = bytes.first_chunk().map(|length| i32::from_le_bytes(*length));
    if bytes.len() < 5 || length.and_then(|length| usize::try_from(length).ok()) != Some(bytes.len()) {
        return Err(corrupt("a document's length field disagrees with its size"));
    }
    let mut elements = Elements::new(bytes);
    while elements.rest.first() != Some(&kind::END) {
        let element = elements.next().ok_or(corrupt("an element is cut off or has an unknown type"))?;
        validate_element(&element, level)?;
    }
    match elements.rest {
        [kind::END] => Ok(()),
        _ => Err(corrupt("a document goes on after its end")),
    }
}

fn validate_element(element: &RawElement<'_>, level: usize) -> Result<(), DocumentError> {
    let corrupt = |what| DocumentError::CorruptBody { what };
    let value = element.value;
    std::str::from_utf8(element.name).map_err(|_| corrupt("a property name is not UTF-8"))?;
    match element.kind {
        kind::DOCUMENT | kind::ARRAY => validate_document(value, level + 1),
        kind::BOOL if value.first().is_none_or(|byte| *byte > 1) => Err(corrupt("a boolean is not 0 or 1")),
        kind::STRING | kind::CODE | kind::SYMBOL => validate_string(value),
        kind::DB_POINTER => validate_string(&value[..value.len() - 12]),
        kind::REGEX => {
            std::str::from_utf8(value).map(drop).map_err(|_| corrupt("a regular expression is not UTF-8"))
        }
        kind::CODE_WITH_SCOPE => {
            let strings = value.get(4..).unwrap_or_default();
            let length = value_length(kind::STRING, strings).filter(|length| *length <= strings.len());
            let (code, scope) = strings.split_at(length.ok_or(corrupt("code with scope is cut off"))?);
            validate_string(code)?;
            validate_document(scope, level + 1)
        }
        _ => Ok(()),
    }
}

fn validate_string(value: &[u8]) -> Result<(), DocumentError> {
    let corrupt = |what| DocumentError::CorruptBody { what };
    if value.len() < 5 || value.last() != Some(&0) {
        return Err(corrupt("a string lacks its final zero"));
    }
    let content = string_content(value).unwrap_or_default();
    std::str::from_utf8(content).map(drop).map_err(|_| corrupt("a string is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ParseLimits, parse_document};

    fn body(json: &str) -> crate::Body {
        parse_document(json.as_bytes(), &ParseLimits::default()).unwrap()
    }

    #[test]
    fn members_paths_and_elements_are_found() {
        let body = body(r#"{"a":1,"b":{"c":[true,null,"x",2.5]},"":-3000000000}"#);
        let document = RawDocument::validate(body.as_bytes()).unwrap();
        assert_eq!(document.get("a"), Some(RawValue::Int(1)));
        assert_eq!(document.get(""), Some(RawValue::Int(-3_000_000_000)));
        assert_eq!(document.get("nothing"), None);
        assert_eq!(document.len(), 3);
        let Some(RawValue::Array(array)) = document.get_path(&["b", "c"]) else { panic!() };
        assert_eq!(array.get(2), Some(RawValue::String("x")));
        assert_eq!(array.get(4), None);
        assert_eq!(array.len(), 4);
        assert_eq!(document.get_path(&["a", "c"]), None);
        assert_eq!(document.get_path::<&str>(&[]), None);
    }

    #[test]
    fn names_end_at_their_first_zero() {
        for length in 0..20 {
            let mut bytes = vec![b'\x01'; length];
            assert_eq!(length_before_zero(&bytes), None);
            bytes.extend([0, 0x01, 0x80, 0, 0xFF, 0, 0, 0, 0]);
            assert_eq!(length_before_zero(&bytes), Some(length));
            bytes[..length].fill(0x80);
            assert_eq!(length_before_zero(&bytes), Some(length));
        }
    }

    #[test]
    fn names_with_zero_characters_are_exact_and_distinct_from_their_display_form() {
        let body = body(r#"{"a\u0000b":1,"a␀b":2,"\u0000":{"\u0000":[3]},"z":4}"#);
        let document = RawDocument::validate(body.as_bytes()).unwrap();
        assert_eq!(document.get("a\0b"), Some(RawValue::Int(1)));
        assert_eq!(document.get("a␀b"), Some(RawValue::Int(2)));
        assert!(matches!(document.get_path(&["\0", "\0"]), Some(RawValue::Array(array)) if array.len() == 1));
        assert_eq!(document.get("z"), Some(RawValue::Int(4)));
    }
}
