//! The query language: text → tokens → syntax tree → resolved tree → evaluation over one row.
//!
//! Today it reads what patch conditions (`FROM c WHERE …`) and lookups over metadata feeds (`SELECT * FROM c WHERE …`)
//! need: the whole expression grammar with its precedences, three-valued logic and the first functions. Every other clause
//! and function of the language is recognised and answered with [`SqlError::Unsupported`], never approximated.
//!
//! | file | what it does |
//! |---|---|
//! | `lexer.rs` | tokens with their places |
//! | `expression.rs` | the syntax tree |
//! | `parser.rs`, `clauses.rs` | expressions by precedence; the clauses around them |
//! | `resolve.rs` | names → the row, parameters → values |
//! | `bound.rs` | a query whose names, functions and parameters have their meaning |
//! | `evaluate/`, `functions.rs` | evaluation over the variables of a scope |
//! | `query.rs` | what callers use |
//!
//! Nothing here reads storage. Text length and nesting are bounded, so that no text overflows the stack.

#![allow(dead_code)] // The binder that makes the new kinds of expressions is being built.

mod bound;
mod clauses;
mod error;
mod evaluate;
mod execute;
mod expression;
mod functions;
mod lexer;
mod parser;
mod plan;
mod query;
mod resolve;
mod syntax;

pub use bound::AggregateFunction;
pub use error::{Location, Rule, SqlError};
pub use execute::{DistinctHash, Execution, Flow, Interrupt, PageLimits, PageOutput, Rows, distinct_hash};
pub use functions::GeometryKind;
pub use plan::{
    DistinctCount, DistinctKind, KeyFilter, QueryFeature, QueryInfo, QueryPlan, SortDirection,
    SupportedFeatures,
};
pub use query::{Condition, Filter, FilterQuery, Row, parse_condition, parse_filter_query};
pub use syntax::{ParsedQuery as Query, parse_query};
