//! Values of queries, and the work on values alone. Expressions are above: nothing here names one.
//!
//! | file | contents |
//! |---|---|
//! | `datum.rs` | a value, borrowed from the document or the query where possible |
//! | `scalar.rs` | a value that is neither an array nor an object |
//! | `column.rs` | columns of scalar values over many items |
//! | `plain_filter.rs` | conditions over scalar values alone |
//! | `arithmetic.rs`, `operators.rs`, `like.rs` | operators on numbers, values and texts |
//! | `aggregate.rs` | state and results of aggregates |
//! | `constant_set.rs` | constant lists, hashed once for a query |
//! | `json_text.rs` | values as text |
//! | `meter.rs` | counting work, and when to check the clock |
//! | `user_functions.rs` | calls of user-defined functions, many at once |
//! | `context.rs` | the context of an evaluation: inputs of functions, meter, calls |

pub(crate) mod aggregate;
pub(crate) mod arithmetic;
pub(crate) mod column;
pub(crate) mod constant_set;
pub(crate) mod context;
pub(crate) mod datum;
pub(crate) mod json_text;
pub(crate) mod like;
pub(crate) mod meter;
pub(crate) mod operators;
pub(crate) mod plain_filter;
pub(crate) mod scalar;
pub(crate) mod user_functions;
