//! MongoDB's language over BSON: values, filters, projections, updates and aggregation, as pure functions.

mod accumulator;
mod collation;
mod decimal;
mod distinct;
mod error;
mod expression;
mod filter;
mod metadata;
mod order;
mod path;
mod pattern;
mod pipeline;
mod projection;
mod sort;
mod time;
mod types;
mod update;
mod value;
mod value_type;
pub mod write;

pub use collation::{collation_of, document_of_collation, kept_collation, strength as collation_strength};
pub use decimal::{Decimal, Rounding};
pub use distinct::DistinctValues;
pub use error::{Error, Result};
pub use expression::{Env, Expression, Scope, Sum, TimeTest, hashed_key, parse as parse_expression};
pub use filter::{Filter, Matched, Near, Places, by_collation, unmet};
pub use order::{collated, compare, compare_by, equal, has_strings, identical, identical_documents};
pub use pipeline::{
    Collections, Context, MergeTarget, Output, Pipeline, Run, WhenMatched, WhenNotMatched, check_stage,
};

pub use projection::{FindProjection, Projection};
pub use shardlake_collation::{Collation, DATA_VERSION as COLLATION_DATA_VERSION, SIMPLE, Unsupported};
pub use sort::{SortKey, SortPattern};
pub use types::Types;
pub use update::{Update, Updated, upsert_base};
pub use value::{Document, Str, Value, bytes_of_members};
