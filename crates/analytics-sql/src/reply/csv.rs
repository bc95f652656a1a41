//! Rows as CSV: NULL is an empty field, an empty text is `""`, structs and lists are JSON in one field.

use arrow_array::{Array, RecordBatch};
use arrow_schema::Schema;

use super::json::{text, write_value};
use crate::protocol::Failure;

pub(super) struct CsvReply {
    field: Vec<u8>,
}

impl CsvReply {
    pub fn begin(out: &mut Vec<u8>, schema: &Schema) -> CsvReply {
        for (at, field) in schema.fields().iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            write_field(out, field.name().as_bytes());
        }
        out.push(b'\n');
        CsvReply { field: Vec::new() }
    }

    pub fn push(&mut self, out: &mut Vec<u8>, batch: &RecordBatch) -> Result<(), Failure> {
        for row in 0..batch.num_rows() {
            for (at, column) in batch.columns().iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                if column.is_null(row) {
                    continue;
                }
                self.field.clear();
                if let Some(text) = text(column, row) {
                    self.field.extend_from_slice(text.as_bytes());
                } else {
                    write_value(&mut self.field, column, row, false)?;
                    unquote(&mut self.field);
                }
                write_field(out, &self.field);
            }
            out.push(b'\n');
        }
        Ok(())
    }
}

/// A JSON text without escapes loses its quotes: dates, times and not-a-number.
fn unquote(field: &mut Vec<u8>) {
    if field.len() >= 2 && field[0] == b'"' && !field.contains(&b'\\') {
        field.pop();
        field.remove(0);
    }
}

fn write_field(out: &mut Vec<u8>, field: &[u8]) {
    let needs_quotes =
        field.is_empty() || field.iter().any(|byte| matches!(byte, b',' | b'"' | b'\n' | b'\r'));
    if !needs_quotes {
        return out.extend_from_slice(field);
    }
    out.push(b'"');
    for byte in field {
        if *byte == b'"' {
            out.push(b'"');
        }
        out.push(*byte);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        for (field, text) in
            [("a b", "a b"), ("", "\"\""), ("a,b", "\"a,b\""), ("a\"b", "\"a\"\"b\""), ("a\nb", "\"a\nb\"")]
        {
            let mut out = Vec::new();
            write_field(&mut out, field.as_bytes());
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }
}
