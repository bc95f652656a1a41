//! Arguments of a command, read once and checked: its own fields by a table, generic fields, names.

mod concerns;
mod fields;
mod generic;
mod generic_names;
mod namespace;

mod variables;

pub use concerns::ReadLevel;
pub use fields::{Arguments, Field, hint, optional, required, truncated, wrong_type};
pub use generic::{Generic, SessionId, TransactionPart};
pub use namespace::{NAMESPACE_SIZE_BYTES_MAX, check_collection, check_database, collection};
pub use shardlake_mql::Types;
pub use variables::check_variables;
