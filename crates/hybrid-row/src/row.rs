//! One row: presence bits, fixed and variable fields, then sparse ones.

use crate::Malformed;
use crate::record::{Input, write_varint};

/// The fields that come before the sparse ones. A presence bit is that of the field's place, fixed ones first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout<const VARIABLE: usize> {
    pub schema: u32,
}

/// Both schemas begin with two numbers.
pub(crate) const FIXED: usize = 2;

/// The fields of a row.
#[derive(Debug, Clone)]
pub(crate) struct Row<'b, const VARIABLE: usize> {
    pub fixed: [Option<i32>; FIXED],
    pub variable: [Option<&'b [u8]>; VARIABLE],
    sparse: Input<'b>,
}

/// A sparse value, of those types that batches use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value<'b> {
    Null,
    Bool(bool),
    Int32(i32),
    UInt32(u32),
    Float64(f64),
    Text(&'b [u8]),
}

const NULL: u8 = 1;
const FALSE: u8 = 2;
const TRUE: u8 = 3;
const INT32: u8 = 7;
const UINT32: u8 = 11;
const FLOAT64: u8 = 16;
const TEXT: u8 = 20;

impl<const VARIABLE: usize> Layout<VARIABLE> {
    pub fn read<'b>(self, row: &'b [u8]) -> Result<Row<'b, VARIABLE>, Malformed> {
        let mut input = Input(row);
        input.expect_schema(self.schema)?;
        let bits = input.byte()?;
        if u32::from(bits) >> (FIXED + VARIABLE) != 0 {
            return Err(Malformed::UnknownPresence);
        }
        let is_there = |place: usize| bits >> place & 1 == 1;
        let mut fixed = [None; FIXED];
        for (place, field) in fixed.iter_mut().enumerate() {
            let number = i32::from_le_bytes(input.array()?);
            *field = is_there(place).then_some(number);
        }
        let mut variable = [None; VARIABLE];
        for (place, field) in variable.iter_mut().enumerate() {
            if is_there(FIXED + place) {
                *field = Some(input.sized()?);
            }
        }
        Ok(Row { fixed, variable, sparse: input })
    }

    pub fn write(self, out: &mut Vec<u8>, fixed: [Option<i32>; FIXED], variable: [Option<&[u8]>; VARIABLE]) {
        const { assert!(FIXED + VARIABLE <= 8, "the presence of all fields is in one byte") };
        out.push(crate::VERSION);
        out.extend_from_slice(&self.schema.to_le_bytes());
        let are_there = fixed.iter().map(Option::is_some).chain(variable.iter().map(Option::is_some));
        out.push(are_there.enumerate().fold(0, |bits, (place, is_there)| bits | u8::from(is_there) << place));
        for number in fixed {
            out.extend_from_slice(&number.unwrap_or_default().to_le_bytes());
        }
        variable.into_iter().flatten().for_each(|bytes| write_sized(out, bytes));
    }
}

impl<'b, const VARIABLE: usize> Row<'b, VARIABLE> {
    /// The next sparse field: its number and its value.
    pub fn next_sparse(&mut self) -> Result<Option<(u32, Value<'b>)>, Malformed> {
        if self.sparse.0.is_empty() {
            return Ok(None);
        }
        let code = self.sparse.byte()?;
        let field = self.sparse.varint()?;
        let value = match code {
            NULL => Value::Null,
            FALSE => Value::Bool(false),
            TRUE => Value::Bool(true),
            INT32 => Value::Int32(i32::from_le_bytes(self.sparse.array()?)),
            UINT32 => Value::UInt32(self.sparse.u32()?),
            FLOAT64 => Value::Float64(f64::from_le_bytes(self.sparse.array()?)),
            TEXT => Value::Text(self.sparse.sized()?),
            other => return Err(Malformed::UnknownType(other)),
        };
        Ok(Some((field, value)))
    }
}

/// Adds a sparse field to a row whose other fields are written.
pub(crate) fn write_sparse(out: &mut Vec<u8>, field: u32, value: Value<'_>) {
    out.push(match value {
        Value::Null => NULL,
        Value::Bool(false) => FALSE,
        Value::Bool(true) => TRUE,
        Value::Int32(_) => INT32,
        Value::UInt32(_) => UINT32,
        Value::Float64(_) => FLOAT64,
        Value::Text(_) => TEXT,
    });
    write_varint(out, field);
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Int32(number) => out.extend_from_slice(&number.to_le_bytes()),
        Value::UInt32(number) => out.extend_from_slice(&number.to_le_bytes()),
        Value::Float64(number) => out.extend_from_slice(&number.to_le_bytes()),
        Value::Text(text) => write_sized(out, text),
    }
}

fn write_sized(out: &mut Vec<u8>, bytes: &[u8]) {
    write_varint(out, u32::try_from(bytes.len()).expect("a field is no larger than a body"));
    out.extend_from_slice(bytes);
}

pub(crate) fn text<'b>(bytes: &'b [u8], field: &'static str) -> Result<&'b str, Malformed> {
    std::str::from_utf8(bytes).map_err(|_| Malformed::NotUtf8(field))
}

/// Sets a field from a sparse value, which may be there once. Null leaves it absent.
pub(crate) fn set<'b, T>(
    field: &mut Option<T>,
    name: &'static str,
    value: Value<'b>,
    convert: impl FnOnce(Value<'b>) -> Option<T>,
) -> Result<(), Malformed> {
    if field.is_some() {
        return Err(Malformed::Twice(name));
    }
    if value != Value::Null {
        *field = Some(convert(value).ok_or(Malformed::WrongType(name))?);
    }
    Ok(())
}

/// The same for a text.
pub(crate) fn set_text<'b>(
    field: &mut Option<&'b str>,
    name: &'static str,
    value: Value<'b>,
) -> Result<(), Malformed> {
    let mut bytes = None;
    set(&mut bytes, name, value, Value::as_text)?;
    if field.is_some() {
        return Err(Malformed::Twice(name));
    }
    *field = bytes.map(|bytes| text(bytes, name)).transpose()?;
    Ok(())
}

impl<'b> Value<'b> {
    pub fn as_text(self) -> Option<&'b [u8]> {
        match self {
            Value::Text(bytes) => Some(bytes),
            _ => None,
        }
    }

    pub fn as_bool(self) -> Option<bool> {
        match self {
            Value::Bool(value) => Some(value),
            _ => None,
        }
    }

    pub fn as_int32(self) -> Option<i32> {
        match self {
            Value::Int32(value) => Some(value),
            _ => None,
        }
    }

    pub fn as_uint32(self) -> Option<u32> {
        match self {
            Value::UInt32(value) => Some(value),
            _ => None,
        }
    }

    pub fn as_float64(self) -> Option<f64> {
        match self {
            Value::Float64(value) => Some(value),
            _ => None,
        }
    }
}
