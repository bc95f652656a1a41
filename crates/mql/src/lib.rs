//! MongoDB's language over BSON: values, filters, projections, updates and aggregation, as pure functions.

mod accumulator;
mod decimal;
mod error;
mod expression;
mod filter;
mod order;
mod path;
mod pattern;
mod pipeline;
mod projection;
mod sort;
mod time;
mod update;
mod value;
mod value_type;

pub use decimal::{Decimal, Rounding};
pub use error::{Error, Result};
pub use expression::{Env, Expression, Scope, Sum, TimeTest, parse as parse_expression};
pub use filter::{Filter, Matched, Near, Places, unmet};
pub use order::{compare, equal, identical, identical_documents};
pub use pipeline::{Collections, Context, MergeTarget, Output, Pipeline, Run, WhenMatched, WhenNotMatched};
pub use projection::{FindProjection, Projection};
pub use sort::{SortKey, SortPattern};
pub use update::{Update, Updated, upsert_base};
pub use value::{Document, Str, Value, bytes_of_members};
