//! Answers of queries: batches of rows as JSON, JSON lines, CSV or an Arrow stream.
//!
//! | file | contents |
//! |---|---|
//! | `json.rs` | values, types and rows as JSON |
//! | `csv.rs` | rows as CSV |
//! | `arrow.rs` | an Arrow stream |

mod arrow;
mod csv;
mod json;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use serde_json::Value;

use crate::protocol::{Failure, FailureKind, Format, Limits, Statistics};
use arrow::ArrowReply;
use csv::CsvReply;
use json::{JsonLinesReply, JsonReply};

/// The text or bytes of an answer as they grow, taken out piece by piece.
pub(crate) struct Reply {
    form: Form,
    out: Vec<u8>,
    rows: u64,
    bytes: u64,
    limits: Option<(u64, u64)>,
}

enum Form {
    Json(JsonReply),
    JsonLines(JsonLinesReply),
    Csv(CsvReply),
    Arrow(Box<ArrowReply>),
}

impl Reply {
    pub fn begin(
        format: Format,
        schema: &SchemaRef,
        bigints_as_text: bool,
        limits: &Limits,
    ) -> Result<Reply, Failure> {
        let mut out = Vec::new();
        let form = match format {
            Format::Json => Form::Json(JsonReply::begin(&mut out, schema, bigints_as_text)),
            Format::JsonLines => Form::JsonLines(JsonLinesReply::new(schema, bigints_as_text)),
            Format::Csv => Form::Csv(CsvReply::begin(&mut out, schema)),
            Format::ArrowStream => {
                Form::Arrow(Box::new(ArrowReply::begin(&mut out, schema).map_err(Failure::of_answer)?))
            }
        };
        let limits = (format != Format::ArrowStream).then_some((limits.rows, limits.answer_bytes));
        Ok(Reply { form, out, rows: 0, bytes: 0, limits })
    }

    pub fn rows(&self) -> u64 {
        self.rows
    }

    pub fn push(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        self.rows += batch.num_rows() as u64;
        match &mut self.form {
            Form::Json(reply) => reply.push(&mut self.out, batch)?,
            Form::JsonLines(reply) => reply.push(&mut self.out, batch)?,
            Form::Csv(reply) => reply.push(&mut self.out, batch)?,
            Form::Arrow(reply) => reply.push(&mut self.out, batch).map_err(Failure::of_answer)?,
        }
        let Some((rows_max, bytes_max)) = self.limits else { return Ok(()) };
        if self.rows > rows_max || self.bytes + self.out.len() as u64 > bytes_max {
            let limit = format!("an answer of this form has at most {rows_max} rows and {bytes_max} bytes");
            let hint = "add LIMIT, or accept application/vnd.apache.arrow.stream, which is not limited";
            return Err(Failure::new(FailureKind::TooLarge, format!("{limit}: {hint}")));
        }
        Ok(())
    }

    /// Bytes made since the last [`Reply::take`].
    pub fn made_bytes(&self) -> usize {
        self.out.len()
    }

    /// Everything made since the last call.
    pub fn take(&mut self) -> Vec<u8> {
        let piece = std::mem::take(&mut self.out);
        self.bytes += piece.len() as u64;
        piece
    }

    /// Writes the end. JSON alone has the versions that were read and the figures of the query.
    pub fn finish(&mut self, snapshot: &Value, statistics: &Statistics) -> Result<(), Failure> {
        match &mut self.form {
            Form::Json(_) => JsonReply::finish(&mut self.out, snapshot, statistics),
            Form::JsonLines(_) | Form::Csv(_) => {}
            Form::Arrow(reply) => reply.finish(&mut self.out).map_err(Failure::of_answer)?,
        }
        Ok(())
    }
}
