//! Values and documents as the language works with them: every BSON type, exact, and cheap to copy.
//!
//! | file | purpose |
//! |---|---|
//! | `document.rs` | documents: members in order |
//! | `bson_in.rs`, `bson_out.rs` | BSON bytes to documents and back |
//! | `names.rs` | names that documents share |
//! | `encoding.rs` | documents in commands that are sent |
//! | `show.rs` | values as text in messages |
//!
//! Strings, arrays and documents are shared: a copy counts a reference, and a change copies one level first.

mod bson_in;
mod bson_out;
mod document;
mod encoding;
mod names;
mod show;

use crate::decimal::Decimal;
use std::borrow::Cow;
use std::sync::Arc;

pub(crate) use bson_in::{NESTING_MAX, is_within_nesting};
pub use bson_out::bytes_of_members;
pub use document::Document;

/// The subtype of binary values that have their length once more in front of their bytes.
const OLD_BINARY: u8 = 2;

/// Text that copies share.
pub type Str = Arc<str>;

/// One BSON value, or none at all.
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// No value: the result of a path that finds nothing. Never stored in a document or array.
    #[default]
    Missing,
    MinKey,
    Undefined,
    Null,
    Double(f64),
    Int(i32),
    Long(i64),
    Decimal(Decimal),
    String(Str),
    Symbol(Str),
    Document(Arc<Document>),
    Array(Arc<Vec<Value>>),
    Binary(u8, Arc<[u8]>),
    ObjectId([u8; 12]),
    Bool(bool),
    /// Milliseconds since 1970.
    Date(i64),
    /// Seconds since 1970, and a counter within the second.
    Timestamp(u32, u32),
    /// Pattern and options.
    Regex(Arc<(String, String)>),
    /// Namespace and id.
    DbPointer(Arc<(String, [u8; 12])>),
    Code(Str),
    CodeWithScope(Arc<(String, Document)>),
    MaxKey,
}

impl Value {
    pub fn string(text: impl AsRef<str>) -> Value {
        Value::String(Arc::from(text.as_ref()))
    }

    pub fn array(items: Vec<Value>) -> Value {
        Value::Array(Arc::new(items))
    }

    pub fn document(document: Document) -> Value {
        Value::Document(Arc::new(document))
    }

    pub fn is_missing(&self) -> bool {
        matches!(self, Value::Missing)
    }

    /// Null, undefined or missing: operands for which most operators of expressions return null.
    pub fn is_nullish(&self) -> bool {
        matches!(self, Value::Missing | Value::Null | Value::Undefined)
    }

    pub fn is_number(&self) -> bool {
        matches!(self, Value::Double(_) | Value::Int(_) | Value::Long(_) | Value::Decimal(_))
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    pub fn as_document(&self) -> Option<&Arc<Document>> {
        match self {
            Value::Document(document) => Some(document),
            _ => None,
        }
    }

    pub fn as_array(&self) -> Option<&Arc<Vec<Value>>> {
        match self {
            Value::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The bytes of a binary value as BSON has them: those of the old generic subtype begin with their length.
    pub(crate) fn binary_bytes(subtype: u8, bytes: &[u8]) -> Cow<'_, [u8]> {
        match subtype {
            OLD_BINARY => Cow::Owned([&(bytes.len() as i32).to_le_bytes(), bytes].concat()),
            _ => Cow::Borrowed(bytes),
        }
    }

    /// Null in place of nothing.
    pub fn or_null(self) -> Value {
        if self.is_missing() { Value::Null } else { self }
    }

    /// Whether a condition holds: everything but false, null, nothing and zero.
    pub fn is_true(&self) -> bool {
        match self {
            Value::Missing | Value::Null | Value::Undefined => false,
            Value::Bool(value) => *value,
            Value::Int(value) => *value != 0,
            Value::Long(value) => *value != 0,
            Value::Double(value) => *value != 0.0,
            Value::Decimal(value) => !value.is_zero(),
            _ => true,
        }
    }

    /// The name that `$type` answers.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Missing => "missing",
            Value::MinKey => "minKey",
            Value::Undefined => "undefined",
            Value::Null => "null",
            Value::Double(_) => "double",
            Value::Int(_) => "int",
            Value::Long(_) => "long",
            Value::Decimal(_) => "decimal",
            Value::String(_) => "string",
            Value::Symbol(_) => "symbol",
            Value::Document(_) => "object",
            Value::Array(_) => "array",
            Value::Binary(..) => "binData",
            Value::ObjectId(_) => "objectId",
            Value::Bool(_) => "bool",
            Value::Date(_) => "date",
            Value::Timestamp(..) => "timestamp",
            Value::Regex(_) => "regex",
            Value::DbPointer(_) => "dbPointer",
            Value::Code(_) => "javascript",
            Value::CodeWithScope(_) => "javascriptWithScope",
            Value::MaxKey => "maxKey",
        }
    }

    /// The number of the type in BSON, as `$type` of filters takes it.
    pub fn type_number(&self) -> i32 {
        match self {
            Value::Missing => 0,
            Value::MinKey => -1,
            Value::Double(_) => 1,
            Value::String(_) => 2,
            Value::Document(_) => 3,
            Value::Array(_) => 4,
            Value::Binary(..) => 5,
            Value::Undefined => 6,
            Value::ObjectId(_) => 7,
            Value::Bool(_) => 8,
            Value::Date(_) => 9,
            Value::Null => 10,
            Value::Regex(_) => 11,
            Value::DbPointer(_) => 12,
            Value::Code(_) => 13,
            Value::Symbol(_) => 14,
            Value::CodeWithScope(_) => 15,
            Value::Int(_) => 16,
            Value::Timestamp(..) => 17,
            Value::Long(_) => 18,
            Value::Decimal(_) => 19,
            Value::MaxKey => 127,
        }
    }

    /// The number as a double; `None` for anything that is no number.
    pub fn to_f64(&self) -> Option<f64> {
        match self {
            Value::Double(value) => Some(*value),
            Value::Int(value) => Some(f64::from(*value)),
            Value::Long(value) => Some(*value as f64),
            Value::Decimal(value) => Some(value.to_f64()),
            _ => None,
        }
    }

    /// The integer that a number is exactly, if it fits 64 bits.
    pub fn to_i64_exact(&self) -> Option<i64> {
        match self {
            Value::Int(value) => Some(i64::from(*value)),
            Value::Long(value) => Some(*value),
            Value::Double(value) => double_to_i64(*value),
            Value::Decimal(value) => value.to_integer().and_then(|value| i64::try_from(value).ok()),
            _ => None,
        }
    }

    /// The integer that a number is exactly, if it fits 32 bits.
    pub fn to_i32_exact(&self) -> Option<i32> {
        self.to_i64_exact().and_then(|value| i32::try_from(value).ok())
    }

    /// A number as a decimal; doubles with 15 digits.
    pub fn to_decimal(&self) -> Option<Decimal> {
        match self {
            Value::Int(value) => Some(Decimal::from_i64(i64::from(*value))),
            Value::Long(value) => Some(Decimal::from_i64(*value)),
            Value::Double(value) => Some(Decimal::from_f64(*value)),
            Value::Decimal(value) => Some(*value),
            _ => None,
        }
    }

    /// Whether the value is a number that is not a number.
    pub fn is_nan(&self) -> bool {
        match self {
            Value::Double(value) => value.is_nan(),
            Value::Decimal(value) => value.is_nan(),
            _ => false,
        }
    }
}

/// The integer that a double is exactly.
pub fn double_to_i64(value: f64) -> Option<i64> {
    let in_range = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value);
    (in_range && value.fract() == 0.0).then_some(value as i64)
}

/// A number in the narrowest integer type that holds it.
pub fn int_or_long(value: i64) -> Value {
    i32::try_from(value).map_or(Value::Long(value), Value::Int)
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Bool(value)
    }
}

impl From<i32> for Value {
    fn from(value: i32) -> Value {
        Value::Int(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Value {
        Value::Long(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Value {
        Value::Double(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Value {
        Value::string(value)
    }
}

impl From<Document> for Value {
    fn from(value: Document) -> Value {
        Value::document(value)
    }
}

impl From<Vec<Value>> for Value {
    fn from(value: Vec<Value>) -> Value {
        Value::array(value)
    }
}
