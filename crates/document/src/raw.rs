//! Reads fields of a BSON document where they lie: no copy, no allocation, no index.
//!
//! A [`RawDocument`] is a view of bytes that were validated when they were written ([`RawDocument::assume_valid`]) or now
//! ([`RawDocument::validate`]). On any other bytes reading is still safe: a damaged element ends its document, so members
//! go missing, but nothing panics and nothing reads out of bounds. Names come out exactly as they were in the JSON text;
//! `bson_writer.rs` tells how a name with U+0000 is stored.
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
struct Element<'a> {
    name: &'a [u8],
    kind: u8,
    value: &'a [u8],
}

impl<'a> Element<'a> {
    fn value(&self) -> Option<RawValue<'a>> {
        Some(match self.kind {
            kind::NULL => RawValue::Null,
            kind::BOOL => RawValue::Bool(self.value.first()? != &0),
            kind::INT32 => RawValue::Int(i64::from(i32::from_le_bytes(*self.value.first_chunk()?))),
            kind::INT64 => RawValue::Int(i64::from_le_bytes(*self.value.first_chunk()?)),
            kind::DOUBLE => RawValue::Double(f64::from_le_bytes(*self.value.first_chunk()?)),
            kind::STRING => RawValue::String(std::str::from_utf8(string_content(self.value)?).ok()?),
            kind::DOCUMENT => RawValue::Object(RawDocument { bytes: self.value }),
            kind::ARRAY => RawValue::Array(RawArray { bytes: self.value }),
            _ => return None,
        })
    }
}

/// Walks over the elements of a document or array and stops at the end or at the first damaged one.
struct Elements<'a> {
    /// What is left, from the next type byte on.
    rest: &'a [u8],
}

impl<'a> Elements<'a> {
    fn new(document: &'a [u8]) -> Self {
        Elements { rest: document.get(4..).unwrap_or_default() }
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        let (&kind, after_kind) = self.rest.split_first()?;
        if kind == kind::END {
            return None;
        }
        let name_length = after_kind.iter().position(|byte| *byte == 0)?;
        let name = &after_kind[..name_length];
        let values = &after_kind[name_length + 1..];
        let (value, rest) = values.split_at_checked(value_length(kind, values)?)?;
        self.rest = rest;
        if kind == kind::CODE_WITH_SCOPE {
            return unwrap_named_element(value);
        }
        Some(Element { name, kind, value })
    }
}

/// Takes the exact name and the value out of a "code with scope". Any other shape than the one we write is damage.
#[cold]
fn unwrap_named_element(wrapper: &[u8]) -> Option<Element<'_>> {
    let strings = wrapper.get(4..)?;
    let (code, scope) = strings.split_at_checked(value_length(kind::STRING, strings)?)?;
    if code.last() != Some(&0) || value_length(kind::DOCUMENT, scope)? != scope.len() {
        return None;
    }
    let [kind, 0, values @ ..] = scope.get(4..)? else { return None };
    let (value, end) = values.split_at_checked(value_length(*kind, values)?)?;
    let is_plain = *kind != kind::CODE_WITH_SCOPE && end == [kind::END];
    is_plain.then_some(Element { name: string_content(code)?, kind: *kind, value })
}

/// How many bytes a value takes, by its type and its own length field.
#[inline]
fn value_length(kind: u8, values: &[u8]) -> Option<usize> {
    let length = || usize::try_from(i32::from_le_bytes(*values.first_chunk()?)).ok();
    match kind {
        kind::NULL => Some(0),
        kind::BOOL => Some(1),
        kind::INT32 => Some(4),
        kind::INT64 | kind::DOUBLE => Some(8),
        kind::STRING => length()?.checked_add(4),
        kind::DOCUMENT | kind::ARRAY | kind::CODE_WITH_SCOPE => length(),
        _ => None,
    }
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
        let stored_kind = elements.rest.first().copied();
        let element = elements.next().ok_or(corrupt("an element is cut off or has an unknown type"))?;
        let is_wrapped = stored_kind == Some(kind::CODE_WITH_SCOPE);
        if is_wrapped != element.name.contains(&0) {
            return Err(corrupt("a name with a zero character is stored wrongly"));
        }
        validate_element(&element, level)?;
    }
    match elements.rest {
        [kind::END] => Ok(()),
        _ => Err(corrupt("a document goes on after its end")),
    }
}

fn validate_element(element: &Element<'_>, level: usize) -> Result<(), DocumentError> {
    let corrupt = |what| DocumentError::CorruptBody { what };
    std::str::from_utf8(element.name).map_err(|_| corrupt("a property name is not UTF-8"))?;
    match element.kind {
        kind::DOCUMENT | kind::ARRAY => validate_document(element.value, level + 1),
        kind::BOOL if element.value.first().is_none_or(|byte| *byte > 1) => {
            Err(corrupt("a boolean is not 0 or 1"))
        }
        kind::STRING if element.value.last() != Some(&0) => Err(corrupt("a string lacks its final zero")),
        _ => match element.value() {
            None => Err(corrupt("a string is not UTF-8")),
            Some(RawValue::Double(value)) if !value.is_finite() => Err(DocumentError::NotFinite),
            Some(_) => Ok(()),
        },
    }
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
    fn names_with_zero_characters_are_exact_and_distinct_from_their_display_form() {
        let body = body(r#"{"a\u0000b":1,"a␀b":2,"\u0000":{"\u0000":[3]},"z":4}"#);
        let document = RawDocument::validate(body.as_bytes()).unwrap();
        assert_eq!(document.get("a\0b"), Some(RawValue::Int(1)));
        assert_eq!(document.get("a␀b"), Some(RawValue::Int(2)));
        assert!(matches!(document.get_path(&["\0", "\0"]), Some(RawValue::Array(array)) if array.len() == 1));
        assert_eq!(document.get("z"), Some(RawValue::Int(4)));
    }
}
