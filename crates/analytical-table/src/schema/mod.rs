//! Schema of an analytical table: inference of typed columns, limits, names, Delta's JSON form.
//!
//! | file | contents |
//! |---|---|
//! | `column_type.rs` | types of columns, fields of an object, members of full fidelity |
//! | `names.rs` | column names: escapes, comparison, reserved names |
//! | `exclude.rs` | paths that are never copied |
//! | `table_schema.rs` | the schema: mode, limits, columns |
//! | `learn.rs`, `makes.rs` | inference of new columns from a chunk of documents |
//! | `met.rs` | the member of full fidelity that holds a value |
//! | `column_path.rs` | path of a column, widening of a column |
//! | `delta_json.rs` | schema to Delta's JSON and back |
//! | `arrow_types.rs` | schema as Arrow types |
//! | `numbers.rs` | numbers that a column holds exactly |
//!
//! Columns are only added. A path has the type of its first non-null value; a `long` column may be widened to `double`.
//! Every struct has at least one field and every list an element type, because Parquet holds no others.

mod arrow_types;
mod column_path;
mod column_type;
mod delta_json;
mod exclude;
mod learn;
mod makes;
mod met;
mod names;
mod numbers;
mod table_schema;

pub use arrow_types::{ELEMENT, arrow_type};
pub use column_path::ColumnPath;
pub use column_type::{ColumnType, Field, Fields, Member, Members, Scalar};
pub use delta_json::SchemaError;
pub use exclude::Exclusions;
pub use learn::Learned;
pub use makes::{Rules, inner_exclusions};
pub use met::{binary_of, member_of, microseconds_of};
pub use names::{column_name, is_system_column, lower_case, property_name};
pub use numbers::{EXACT_MAX, double_of_long, is_whole, long_of_double};
pub use table_schema::{SYSTEM_COLUMNS_AFTER, SYSTEM_COLUMNS_BEFORE, SchemaLimits, SchemaMode, TableSchema};
