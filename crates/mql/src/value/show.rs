//! Values as short text for messages.

use super::{Document, Value};
use std::fmt;

impl fmt::Display for Document {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return out.write_str("{}");
        }
        for (at, (name, value)) in self.iter().enumerate() {
            let lead = if at == 0 { "{ " } else { ", " };
            write!(out, "{lead}{name}: {value}")?;
        }
        out.write_str(" }")
    }
}

impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Missing => out.write_str("MISSING"),
            Value::MinKey => out.write_str("MinKey"),
            Value::MaxKey => out.write_str("MaxKey"),
            Value::Undefined => out.write_str("undefined"),
            Value::Null => out.write_str("null"),
            Value::Double(value) => write!(out, "{value:?}"),
            Value::Int(value) => write!(out, "{value}"),
            Value::Long(value) => write!(out, "{value}"),
            Value::Decimal(value) => write!(out, "{value}"),
            Value::String(text) | Value::Symbol(text) => write!(out, "\"{text}\""),
            Value::Document(document) => write!(out, "{document}"),
            Value::Array(items) => {
                out.write_str("[ ")?;
                for (at, item) in items.iter().enumerate() {
                    write!(out, "{}{item}", if at == 0 { "" } else { ", " })?;
                }
                out.write_str(" ]")
            }
            Value::Binary(subtype, bytes) => write!(out, "BinData({subtype}, {} bytes)", bytes.len()),
            Value::ObjectId(id) => {
                out.write_str("ObjectId('")?;
                id.iter().try_for_each(|byte| write!(out, "{byte:02x}"))?;
                out.write_str("')")
            }
            Value::Bool(value) => write!(out, "{value}"),
            Value::Date(value) => write!(out, "new Date({value})"),
            Value::Timestamp(seconds, increment) => write!(out, "Timestamp({seconds}, {increment})"),
            Value::Regex(regex) => write!(out, "/{}/{}", regex.0, regex.1),
            Value::DbPointer(pointer) => write!(out, "DBPointer(\"{}\")", pointer.0),
            Value::Code(code) => write!(out, "{code}"),
            Value::CodeWithScope(code) => write!(out, "CodeWScope({}, {})", code.0, code.1),
        }
    }
}
