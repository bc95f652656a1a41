//! Documents to rows of columns, and back.
//!
//! | file | contents |
//! |---|---|
//! | `row.rs` | one version of an item, as the table takes it |
//! | `shred.rs` | rows to a batch of columns: one walk over each document |
//! | `columns.rs` | columns while they grow |
//! | `rest.rs`, `overflow.rs` | values that columns cannot hold: the text of `_rest`, counts by reason |
//! | `document.rs` | rows of a batch back to documents |
//! | `normal.rs` | the normal form in which documents are compared |
//! | `cast.rs` | a column of a batch from `long` to `double` |
//!
//! A value is in its column exactly, or NULL there and whole in `_rest`. Columns and fields that are NULL in
//! all rows are left out of a batch, because files are smaller without them.

mod cast;
mod columns;
mod document;
mod normal;
mod overflow;
mod rest;
mod row;
mod shred;

pub use cast::with_doubles;
pub use document::{Documents, document_of};
pub use normal::{normal_form, normal_form_of};
pub use overflow::{Overflow, Reason};
pub use row::Row;
pub use shred::{BATCH_BYTES_MAX, Shredded, batches_of, shred};
