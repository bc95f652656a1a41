//! Results of the operations of a batch or bulk request.

use crate::Malformed;
use crate::record::{Records, write_record};
use crate::row::{Layout, Value, set, text, write_sparse};

const LAYOUT: Layout<2> = Layout { schema: 0x7fe1_5471 };

const RETRY_AFTER: u32 = 5;
const REQUEST_CHARGE: u32 = 6;

/// The result of one operation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OperationResult<'b> {
    pub status_code: i32,
    pub substatus_code: i32,
    /// In its quotes.
    pub etag: Option<&'b str>,
    /// The item as JSON text or Cosmos binary JSON.
    pub resource_body: Option<&'b [u8]>,
    pub retry_after_milliseconds: Option<u32>,
    pub request_charge: Option<f64>,
}

/// The results of a body, read one by one. It ends after the first error.
#[derive(Debug, Clone)]
pub struct OperationResults<'b> {
    records: Records<'b>,
}

/// The results of an answer. The error is that of the segment row.
pub fn results_in(body: &[u8]) -> Result<OperationResults<'_>, Malformed> {
    Records::new(body).map(|records| OperationResults { records })
}

impl<'b> Iterator for OperationResults<'b> {
    type Item = Result<OperationResult<'b>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        self.records.next().map(|row| OperationResult::read(row?))
    }
}

impl<'b> OperationResult<'b> {
    fn read(row: &'b [u8]) -> Result<OperationResult<'b>, Malformed> {
        let mut row = LAYOUT.read(row)?;
        let [status_code, substatus_code] = row.fixed;
        let [etag, resource_body] = row.variable;
        let mut result = OperationResult {
            status_code: status_code.ok_or(Malformed::Missing("statusCode"))?,
            substatus_code: substatus_code.unwrap_or_default(),
            etag: etag.map(|bytes| text(bytes, "eTag")).transpose()?,
            resource_body,
            ..OperationResult::default()
        };
        while let Some((field, value)) = row.next_sparse()? {
            match field {
                RETRY_AFTER => {
                    let field = &mut result.retry_after_milliseconds;
                    set(field, "retryAfterMilliseconds", value, Value::as_uint32)?;
                }
                REQUEST_CHARGE => {
                    set(&mut result.request_charge, "requestCharge", value, Value::as_float64)?;
                }
                other => return Err(Malformed::UnknownField(other)),
            }
        }
        Ok(result)
    }
}

/// Adds a result to a body that [`start`](crate::start) has begun.
pub fn write_result(out: &mut Vec<u8>, result: &OperationResult<'_>) {
    write_record(out, |out| {
        let fixed = [Some(result.status_code), Some(result.substatus_code)];
        LAYOUT.write(out, fixed, [result.etag.map(str::as_bytes), result.resource_body]);
        let sparse = [
            (RETRY_AFTER, result.retry_after_milliseconds.map(Value::UInt32)),
            (REQUEST_CHARGE, result.request_charge.map(Value::Float64)),
        ];
        for (field, value) in sparse {
            if let Some(value) = value {
                write_sparse(out, field, value);
            }
        }
    });
}
