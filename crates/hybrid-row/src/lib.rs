//! HybridRow, as far as the batches and bulk requests of the .NET SDK use it: operations in, results out.
//!
//! | file | contents |
//! |---|---|
//! | `operation.rs` | [`Operation`]: one operation of a request |
//! | `result.rs` | [`OperationResult`]: the result of one operation |
//! | `record.rs` | the stream of records around the rows |
//! | `row.rs` | the bytes of one row |
//! | `malformed.rs` | [`Malformed`]: the reason why bytes are refused |
//!
//! A body is one segment row, then for each operation or result a record row and the row itself. Integers are
//! little-endian:
//!
//! ```text
//! 81 f0 d8 ff 7f  01  0a 00 00 00              segment: schema, presence bits, length of this row
//! 81 f1 d8 ff 7f  23 00 00 00  91 c1 a9 b2     record: schema, length and CRC-32 of the next row
//! 81 70 54 e1 7f  43  …                        operation: schema, presence bits, then the fields
//! ```
//!
//! A row has fields of three kinds: fixed ones of four bytes, which have their place also when they are absent; variable
//! ones, a length and bytes; and sparse ones, a type, a number that names the field, and a value.
//!
//! Readers borrow from the body and allocate nothing, so that announced lengths cost no memory. Every length is checked
//! against the bytes that are there. Rows do not nest: nested types are refused, and no reader recurses.

mod malformed;
mod operation;
mod record;
mod result;
mod row;

pub use malformed::Malformed;
pub use operation::{Operation, OperationKind, Operations, operations_in, write_operation};
pub use record::start;
pub use result::{OperationResult, OperationResults, results_in, write_result};

/// The first byte of every row, the version of the format. No JSON text begins with it, since it is no UTF-8.
pub const VERSION: u8 = 0x81;

/// Whether `bytes` are HybridRow, and neither JSON text nor Cosmos binary JSON.
pub fn is_hybrid_row(bytes: &[u8]) -> bool {
    bytes.first() == Some(&VERSION)
}
