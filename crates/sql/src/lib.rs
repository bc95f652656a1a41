//! The query language: text → syntax tree → bound query → evaluation, execution, plans.
//!
//! | module | what it does |
//! |---|---|
//! | `syntax/` | text to a tree, and back |
//! | `builder.rs` | queries made of values instead of text |
//! | `bind/` | a tree to a bound query: names, parameters, functions, constants, every rule that needs no data |
//! | `bound.rs` | bound queries and their expressions |
//! | `value/` | values, and the work on values alone: operators, aggregates, plain filters |
//! | `functions/` | the built-in functions |
//! | `evaluate/` | values of expressions, rows of sources |
//! | `filter.rs` | conditions over one row: patches, lookups in metadata |
//! | `hint.rs` | advice for frequent mistakes, next to the reference's error |
//! | `derive/` | queries that define indexes: the rows of an item |
//! | `access/` | which entries of the index cover the condition and give the order |
//! | `execute/` | rows, pages and the state between them |
//! | `prepared.rs` | a query that is ready to run for one request |
//! | `plan/` | what clients need to know to merge a query over partitions |
//! | `envelope.rs`, `sort_keys.rs` | rows of rewritten queries, and their order |
//! | `vocabulary.rs` | keywords and names of functions, for editors |
//! | `merge/` | for tests: that merge, as clients make it |
//!
//! Layers, each of which uses only those before it: `syntax`, `value`, `functions`, `bound`, `evaluate`, `bind`;
//! then `access`, `plan` and `execute`.
//!
//! Nothing here reads storage. Text length and nesting are bounded, so that no text overflows the stack.

mod access;
mod bind;
mod bound;
mod builder;
mod derive;
mod envelope;
mod error;
mod evaluate;
mod execute;
mod filter;
mod functions;
mod hint;
#[cfg(feature = "testing")]
mod merge;
mod plan;
mod prepared;
mod resources;
mod sort_keys;
mod syntax;
mod value;
mod vocabulary;

pub use access::{
    AccessPlan, Advice, CompositeIndexUse, CompositeSchema, IndexFilter, IndexRef, IndexSchema, IndexUses,
    IndexUtilization, KeyValue, Leaf, LookupClass, OrderAccess, SingleIndexUse, ValueRange, ValueTest,
    index_utilization, plan_access, query_advice,
};
pub use bind::{ComputedProperties, check_parameters};
pub use builder::{BuiltQuery, Compared, ItemQuery, Predicate, SortKey, ValuePath};
pub use derive::{
    Argument, Contribution, Derivation, DeriveError, DeriveSource, DerivedRow, Dialect, GROUP_STATE,
    GroupState, Lost, OUTPUTS_MAX, ROWS_MAX, RowError, derive,
};
pub use error::{LanguageLimit, Location, QueryFeature, Rule, SqlError};
pub use execute::{
    Alike, Collected, DistinctHash, Execution, Flow, KeptRows, PageLimits, PageOutput, ResumeFilter, Rows,
    SortValue, compare_sort_keys, distinct_hash, resumes_at,
};
pub use filter::{Condition, Filter, FilterQuery, Row, parse_condition, parse_filter_query};
pub use hint::with_hint;
#[cfg(feature = "testing")]
pub use merge::{MergedPage, Merger, Opening};
#[cfg(feature = "testing")]
pub use plan::plan_query;
pub use plan::{
    DistinctCount, DistinctKind, KeyFilter, QueryInfo, QueryPlan, SortDirection, SupportedFeatures,
    plan_prepared,
};
pub use prepared::{PreparedQuery, QueryEnvironment};
pub use resources::{Resource, ResourcePage, ResourcePosition, query_resources};
pub use sort_keys::SortKeys;
pub use syntax::{ParsedQuery as Query, QueryOutline, TEMPLATE_BYTES_MAX, parse_query, template};
pub use value::aggregate::AggregateFunction;
pub use value::column::ScalarColumn;
pub use value::context::GeometryKind;
pub use value::meter::{Interrupt, Meter};
pub use value::plain_filter::Tested;
pub use value::user_functions::{Arguments, UserFunctions};
pub use vocabulary::{function_names, keywords};
