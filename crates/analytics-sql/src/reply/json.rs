//! Values, types and rows as JSON. Integers are digits, not-a-number and infinities are the texts `NaN`, `Infinity` and `-Infinity`.

use std::io::Write;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use serde_json::{Value, json};

use crate::protocol::{Failure, Statistics};

pub(super) struct JsonReply {
    bigints_as_text: bool,
    is_first: bool,
}

impl JsonReply {
    pub fn begin(out: &mut Vec<u8>, schema: &Schema, bigints_as_text: bool) -> JsonReply {
        let columns: Vec<Value> = schema
            .fields()
            .iter()
            .map(|field| json!({ "name": field.name(), "type": type_name(field.data_type()) }))
            .collect();
        out.extend_from_slice(b"{\"columns\":");
        put_json(out, &columns);
        out.extend_from_slice(b",\"rows\":[");
        JsonReply { bigints_as_text, is_first: true }
    }

    pub fn push(&mut self, out: &mut Vec<u8>, batch: &RecordBatch) -> Result<(), Failure> {
        for row in 0..batch.num_rows() {
            if !std::mem::take(&mut self.is_first) {
                out.push(b',');
            }
            out.push(b'[');
            for (at, column) in batch.columns().iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write_value(out, column, row, self.bigints_as_text)?;
            }
            out.push(b']');
        }
        Ok(())
    }

    pub fn finish(out: &mut Vec<u8>, snapshot: &Value, statistics: &Statistics) {
        out.extend_from_slice(b"],\"snapshot\":");
        put_json(out, snapshot);
        out.extend_from_slice(b",\"statistics\":");
        put_json(out, statistics);
        out.push(b'}');
    }
}

pub(super) struct JsonLinesReply {
    names: Vec<Vec<u8>>,
    bigints_as_text: bool,
}

impl JsonLinesReply {
    pub fn new(schema: &SchemaRef, bigints_as_text: bool) -> JsonLinesReply {
        let names = schema.fields().iter().map(|field| {
            let mut name = Vec::new();
            put_json(&mut name, field.name());
            name.push(b':');
            name
        });
        JsonLinesReply { names: names.collect(), bigints_as_text }
    }

    pub fn push(&mut self, out: &mut Vec<u8>, batch: &RecordBatch) -> Result<(), Failure> {
        for row in 0..batch.num_rows() {
            out.push(b'{');
            for (at, (name, column)) in self.names.iter().zip(batch.columns()).enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                out.extend_from_slice(name);
                write_value(out, column, row, self.bigints_as_text)?;
            }
            out.extend_from_slice(b"}\n");
        }
        Ok(())
    }
}

/// The text in a column of texts.
pub(super) fn text(column: &dyn Array, row: usize) -> Option<&str> {
    match column.data_type() {
        DataType::Utf8 => Some(column.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => Some(column.as_string::<i64>().value(row)),
        DataType::Utf8View => Some(column.as_string_view().value(row)),
        _ => None,
    }
}

pub(super) fn write_value(
    out: &mut Vec<u8>,
    column: &dyn Array,
    row: usize,
    bigints_as_text: bool,
) -> Result<(), Failure> {
    if column.is_null(row) {
        out.extend_from_slice(b"null");
        return Ok(());
    }
    match column.data_type() {
        DataType::Null => out.extend_from_slice(b"null"),
        DataType::Boolean => {
            out.extend_from_slice(if column.as_boolean().value(row) { b"true" } else { b"false" });
        }
        DataType::Int8 => put(out, column.as_primitive::<Int8Type>().value(row)),
        DataType::Int16 => put(out, column.as_primitive::<Int16Type>().value(row)),
        DataType::Int32 => put(out, column.as_primitive::<Int32Type>().value(row)),
        DataType::UInt8 => put(out, column.as_primitive::<UInt8Type>().value(row)),
        DataType::UInt16 => put(out, column.as_primitive::<UInt16Type>().value(row)),
        DataType::UInt32 => put(out, column.as_primitive::<UInt32Type>().value(row)),
        DataType::Int64 => put_bigint(out, column.as_primitive::<Int64Type>().value(row), bigints_as_text),
        DataType::UInt64 => put_bigint(out, column.as_primitive::<UInt64Type>().value(row), bigints_as_text),
        DataType::Float32 => put_double(out, f64::from(column.as_primitive::<Float32Type>().value(row))),
        DataType::Float64 => put_double(out, column.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            put_json(out, text(column, row).unwrap_or_default());
        }
        DataType::Struct(fields) => {
            let members = column.as_struct();
            out.push(b'{');
            for (at, (field, member)) in fields.iter().zip(members.columns()).enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                put_json(out, field.name());
                out.push(b':');
                write_value(out, member, row, bigints_as_text)?;
            }
            out.push(b'}');
        }
        DataType::List(_) => write_elements(out, &column.as_list::<i32>().value(row), bigints_as_text)?,
        DataType::LargeList(_) => write_elements(out, &column.as_list::<i64>().value(row), bigints_as_text)?,
        DataType::FixedSizeList(..) => {
            write_elements(out, &column.as_fixed_size_list().value(row), bigints_as_text)?;
        }
        DataType::Decimal128(..)
        | DataType::Decimal256(..)
        | DataType::Decimal32(..)
        | DataType::Decimal64(..) => {
            out.extend_from_slice(displayed(column, row)?.as_bytes());
        }
        _ => put_json(out, &displayed(column, row)?),
    }
    Ok(())
}

fn write_elements(out: &mut Vec<u8>, elements: &ArrayRef, bigints_as_text: bool) -> Result<(), Failure> {
    out.push(b'[');
    for row in 0..elements.len() {
        if row > 0 {
            out.push(b',');
        }
        write_value(out, elements, row, bigints_as_text)?;
    }
    out.push(b']');
    Ok(())
}

/// Dates, times, intervals, bytes, and all other values that have a text only.
fn displayed(column: &dyn Array, row: usize) -> Result<String, Failure> {
    let options = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(column, &options).map_err(Failure::of_answer)?;
    formatter.value(row).try_to_string().map_err(Failure::of_answer)
}

fn put(out: &mut Vec<u8>, number: impl std::fmt::Display) {
    write!(out, "{number}").expect("memory takes all bytes");
}

fn put_bigint(out: &mut Vec<u8>, number: impl std::fmt::Display, as_text: bool) {
    if as_text {
        write!(out, "\"{number}\"").expect("memory takes all bytes");
    } else {
        put(out, number);
    }
}

fn put_double(out: &mut Vec<u8>, number: f64) {
    if number.is_finite() {
        put_json(out, &number);
    } else if number.is_nan() {
        out.extend_from_slice(b"\"NaN\"");
    } else {
        out.extend_from_slice(if number > 0.0 { b"\"Infinity\"" } else { b"\"-Infinity\"" });
    }
}

fn put_json(out: &mut Vec<u8>, value: &(impl serde::Serialize + ?Sized)) {
    serde_json::to_writer(out, value).expect("plain data has a JSON form");
}

/// Name of a type, in the words of the table's columns where they have it.
pub(super) fn type_name(data_type: &DataType) -> String {
    let named = |field: &Field| format!("{}: {}", field.name(), type_name(field.data_type()));
    match data_type {
        DataType::Null => "null".into(),
        DataType::Boolean => "boolean".into(),
        DataType::Int32 => "integer".into(),
        DataType::Int64 => "long".into(),
        DataType::Float64 => "double".into(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "string".into(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            "binary".into()
        }
        DataType::Date32 | DataType::Date64 => "date".into(),
        DataType::Timestamp(..) => "timestamp".into(),
        DataType::Time32(_) | DataType::Time64(_) => "time".into(),
        DataType::Interval(_) | DataType::Duration(_) => "interval".into(),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => format!("decimal({precision},{scale})"),
        DataType::Struct(fields) => {
            let members: Vec<String> = fields.iter().map(|field| named(field)).collect();
            format!("struct<{}>", members.join(", "))
        }
        DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _) => {
            format!("list<{}>", type_name(element.data_type()))
        }
        other => other.to_string().to_lowercase(),
    }
}
