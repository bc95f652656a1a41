//! A value during evaluation. Strings, arrays and objects are borrowed from the document, the query or the
//! parameters where possible; results of operators are owned.

use std::borrow::Cow;
use std::cmp::Ordering;

use shardlake_document::{ItemProperty, ItemView, Number, RawArray, RawDocument, RawValue, Value, compare};

use crate::error::SqlError;
use crate::value::meter::{COPIED_BYTES_PER_STEP, READ_BYTES_PER_STEP};
use crate::value::scalar::Scalar;

/// Limit on a string, array or object made by an evaluation.
pub(crate) const VALUE_SIZE_BYTES_MAX: usize = 4 * 1024 * 1024;

pub(crate) type Evaluated<'s> = Result<Datum<'s>, SqlError>;

#[derive(Debug, Clone)]
pub(crate) enum Datum<'a> {
    Undefined,
    Null,
    Bool(bool),
    Number(Number),
    String(Cow<'a, str>),
    RawArray(RawArray<'a>),
    RawObject(RawDocument<'a>),
    /// A whole item, with the properties that the server owns.
    Item(&'a ItemView<'a>),
    /// An array that is not in a document.
    Array(Cow<'a, [Value]>),
    /// An object that is not in a document.
    Object(Cow<'a, [(String, Value)]>),
}

/// Memory of a value, besides the bytes of its text.
const SCALAR_SIZE_BYTES: usize = 8;

pub(crate) fn value_size(value: &Value) -> usize {
    Datum::from_tree(value).size()
}

/// The types that comparisons distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DatumType {
    Undefined,
    Null,
    Bool,
    Number,
    String,
    Array,
    Object,
}

impl<'a> Datum<'a> {
    pub fn from_raw(raw: RawValue<'a>) -> Self {
        match raw {
            RawValue::Null => Datum::Null,
            RawValue::Bool(value) => Datum::Bool(value),
            RawValue::Int(value) => Datum::Number(Number::Int(value)),
            RawValue::Double(value) => Datum::Number(Number::Double(value)),
            RawValue::String(text) => Datum::String(Cow::Borrowed(text)),
            RawValue::Array(array) => Datum::RawArray(array),
            RawValue::Object(document) => Datum::RawObject(document),
            RawValue::NonJson(value) => Datum::from(Value::from(value.shown().raw())),
        }
    }

    pub fn from_tree(value: &'a Value) -> Self {
        match value {
            Value::Undefined => Datum::Undefined,
            Value::Null => Datum::Null,
            Value::Bool(value) => Datum::Bool(*value),
            Value::Int(value) => Datum::Number(Number::Int(*value)),
            Value::Double(value) => Datum::Number(Number::Double(*value)),
            Value::String(text) => Datum::String(Cow::Borrowed(text)),
            Value::Array(elements) => Datum::Array(Cow::Borrowed(elements)),
            Value::Object(members) => Datum::Object(Cow::Borrowed(members)),
        }
    }

    pub fn to_value(&self) -> Value {
        match self {
            Datum::Undefined => Value::Undefined,
            Datum::Null => Value::Null,
            Datum::Bool(value) => Value::Bool(*value),
            Datum::Number(number) => (*number).into(),
            Datum::String(text) => Value::String(text.to_string()),
            Datum::RawArray(array) => Value::from_raw(RawValue::Array(*array)),
            Datum::RawObject(document) => Value::from_document(*document),
            Datum::Item(item) => item.to_value(),
            Datum::Array(elements) => Value::Array(elements.to_vec()),
            Datum::Object(members) => Value::Object(members.to_vec()),
        }
    }

    /// Approximate bytes of a copy.
    pub fn size(&self) -> usize {
        match self {
            Datum::Undefined | Datum::Null | Datum::Bool(_) | Datum::Number(_) => SCALAR_SIZE_BYTES,
            Datum::String(text) => SCALAR_SIZE_BYTES + text.len(),
            Datum::RawArray(array) => array.iter().map(|value| Datum::from_raw(value).size()).sum(),
            Datum::RawObject(document) => document.as_bytes().len(),
            Datum::Item(item) => item.body.as_bytes().len(),
            Datum::Array(elements) => SCALAR_SIZE_BYTES + elements.iter().map(value_size).sum::<usize>(),
            Datum::Object(members) => {
                SCALAR_SIZE_BYTES
                    + members.iter().map(|(name, value)| name.len() + value_size(value)).sum::<usize>()
            }
        }
    }

    /// The bytes of a text, an array or an object in place.
    fn extent(&self) -> usize {
        match self {
            Datum::Undefined | Datum::Null | Datum::Bool(_) | Datum::Number(_) => 0,
            Datum::String(text) => text.len(),
            Datum::RawArray(array) => array.as_bytes().len(),
            Datum::RawObject(document) => document.as_bytes().len(),
            Datum::Item(item) => item.body.as_bytes().len(),
            Datum::Array(elements) => elements.len() * size_of::<Value>(),
            Datum::Object(members) => members.len() * size_of::<(String, Value)>(),
        }
    }

    /// Extra steps to look up a member or an element, besides the node itself: on average, half of the value
    /// is walked over.
    pub fn walk_steps(&self) -> u64 {
        walk_steps(self.extent())
    }

    /// Steps to read the whole value: every byte of a text, every element of an array.
    pub fn read_steps(&self) -> u64 {
        self.extent() as u64 / COPIED_BYTES_PER_STEP
    }

    /// Steps to make an owned copy.
    pub fn copy_steps(&self) -> u64 {
        match self {
            Datum::String(Cow::Owned(_)) | Datum::Array(Cow::Owned(_)) | Datum::Object(Cow::Owned(_)) => 0,
            Datum::Array(_) | Datum::Object(_) => self.size() as u64 / COPIED_BYTES_PER_STEP,
            _ => self.extent() as u64 / COPIED_BYTES_PER_STEP,
        }
    }

    /// Extra steps to compare with another value, besides the node itself. Arrays and objects are copied for
    /// the comparison.
    pub fn comparison_steps(&self, other: &Datum<'_>) -> u64 {
        match (self, other) {
            (Datum::String(left), Datum::String(right)) => {
                left.len().min(right.len()) as u64 / READ_BYTES_PER_STEP
            }
            (left, right) if left.is_compound() && left.datum_type() == right.datum_type() => {
                let bytes = left.size().saturating_add(right.size());
                2 + bytes as u64 / COPIED_BYTES_PER_STEP
            }
            _ => 0,
        }
    }

    /// Whether it is an array or an object.
    pub fn is_compound(&self) -> bool {
        matches!(self.datum_type(), DatumType::Array | DatumType::Object)
    }

    pub fn datum_type(&self) -> DatumType {
        match self {
            Datum::Undefined => DatumType::Undefined,
            Datum::Null => DatumType::Null,
            Datum::Bool(_) => DatumType::Bool,
            Datum::Number(_) => DatumType::Number,
            Datum::String(_) => DatumType::String,
            Datum::RawArray(_) | Datum::Array(_) => DatumType::Array,
            Datum::RawObject(_) | Datum::Item(_) | Datum::Object(_) => DatumType::Object,
        }
    }

    pub fn is_undefined(&self) -> bool {
        matches!(self, Datum::Undefined)
    }

    /// A borrowed view of the value.
    pub fn view(&self) -> Datum<'_> {
        match self {
            Datum::Undefined => Datum::Undefined,
            Datum::Null => Datum::Null,
            Datum::Bool(value) => Datum::Bool(*value),
            Datum::Number(number) => Datum::Number(*number),
            Datum::String(text) => Datum::String(Cow::Borrowed(text)),
            Datum::RawArray(array) => Datum::RawArray(*array),
            Datum::RawObject(document) => Datum::RawObject(*document),
            Datum::Item(item) => Datum::Item(item),
            Datum::Array(elements) => Datum::Array(Cow::Borrowed(elements)),
            Datum::Object(members) => Datum::Object(Cow::Borrowed(members)),
        }
    }

    /// The same value without borrowing anything.
    pub fn detach<'b>(self) -> Datum<'b> {
        match self {
            Datum::String(text) => Datum::String(Cow::Owned(text.into_owned())),
            Datum::Array(elements) => Datum::Array(Cow::Owned(elements.into_owned())),
            Datum::Object(members) => Datum::Object(Cow::Owned(members.into_owned())),
            other => Datum::from(other.to_value()),
        }
    }

    pub fn into_value(self) -> Value {
        match self {
            Datum::String(text) => Value::String(text.into_owned()),
            Datum::Array(elements) => Value::Array(elements.into_owned()),
            Datum::Object(members) => Value::Object(members.into_owned()),
            other => other.to_value(),
        }
    }

    /// A member, or undefined.
    pub fn property(self, name: &str) -> Datum<'a> {
        match self {
            Datum::Item(item) => match item.get(name) {
                Some(ItemProperty::Stored(raw)) => Datum::from_raw(raw),
                Some(ItemProperty::System(value)) => Datum::from(value),
                None => Datum::Undefined,
            },
            Datum::RawObject(document) => document.get(name).map_or(Datum::Undefined, Datum::from_raw),
            Datum::Object(Cow::Borrowed(members)) => {
                let found = members.iter().find(|(candidate, _)| candidate == name);
                found.map_or(Datum::Undefined, |(_, value)| Datum::from_tree(value))
            }
            Datum::Object(Cow::Owned(members)) => {
                let found = members.into_iter().find(|(candidate, _)| candidate == name);
                found.map_or(Datum::Undefined, |(_, value)| Datum::from(value))
            }
            _ => Datum::Undefined,
        }
    }

    /// An element, or undefined.
    pub fn element(self, index: usize) -> Datum<'a> {
        match self {
            Datum::RawArray(array) => array.get(index).map_or(Datum::Undefined, Datum::from_raw),
            Datum::Array(Cow::Borrowed(elements)) => {
                elements.get(index).map_or(Datum::Undefined, Datum::from_tree)
            }
            Datum::Array(Cow::Owned(elements)) => {
                elements.into_iter().nth(index).map_or(Datum::Undefined, Datum::from)
            }
            _ => Datum::Undefined,
        }
    }

    /// Equality of defined values: different types are unequal, numbers are equal by value, arrays and objects by
    /// structure, in any order of members. `None` where a value is undefined or not a number (NaN).
    pub fn equals(&self, other: &Datum<'_>) -> Option<bool> {
        if let (Datum::Number(_), Datum::Number(_)) = (self, other) {
            return self.order(other).map(Ordering::is_eq);
        }
        let (left, right) = (self.datum_type(), other.datum_type());
        if left == DatumType::Undefined || right == DatumType::Undefined {
            return None;
        }
        if left != right {
            return Some(false);
        }
        match left {
            DatumType::Array | DatumType::Object => {
                Some(compare(&self.to_value(), &other.to_value()).is_eq())
            }
            _ => self.order(other).map(Ordering::is_eq),
        }
    }

    /// `None` for arrays and objects.
    fn scalar(&self) -> Option<Scalar<'_>> {
        Some(match self {
            Datum::Undefined => Scalar::Undefined,
            Datum::Null => Scalar::Null,
            Datum::Bool(value) => Scalar::Bool(*value),
            Datum::Number(number) => Scalar::Number(*number),
            Datum::String(text) => Scalar::String(text),
            _ => return None,
        })
    }

    /// Order of two primitive values of one type; `None` for everything else.
    pub fn order(&self, other: &Datum<'_>) -> Option<Ordering> {
        self.scalar()?.order(other.scalar()?)
    }
}

/// Adds to the size of a value under construction.
pub(crate) fn grow(size: &mut usize, by: usize) -> Result<(), SqlError> {
    *size += by;
    if *size > VALUE_SIZE_BYTES_MAX {
        return Err(SqlError::ResultTooLarge { size_bytes_max: VALUE_SIZE_BYTES_MAX });
    }
    Ok(())
}

/// Steps to look up a member of a document of this size.
pub(crate) fn walk_steps(bytes: usize) -> u64 {
    bytes as u64 / (2 * READ_BYTES_PER_STEP)
}

impl From<Value> for Datum<'_> {
    fn from(value: Value) -> Self {
        match value {
            Value::Undefined => Datum::Undefined,
            Value::Null => Datum::Null,
            Value::Bool(value) => Datum::Bool(value),
            Value::Int(value) => Datum::Number(Number::Int(value)),
            Value::Double(value) => Datum::Number(Number::Double(value)),
            Value::String(text) => Datum::String(Cow::Owned(text)),
            Value::Array(elements) => Datum::Array(Cow::Owned(elements)),
            Value::Object(members) => Datum::Object(Cow::Owned(members)),
        }
    }
}

impl From<Option<bool>> for Datum<'_> {
    fn from(value: Option<bool>) -> Self {
        value.map_or(Datum::Undefined, Datum::Bool)
    }
}
