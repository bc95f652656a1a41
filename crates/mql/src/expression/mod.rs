//! The expression language of aggregation (spec §15): parsed once, evaluated on each document.
//!
//! | file | purpose |
//! |---|---|
//! | `tree.rs`, `bound.rs` | the parsed form and its evaluation; how large its values may be |
//! | `scope.rs`, `env.rs` | variables while parsing, and their values while evaluating |
//! | `parse.rs` | BSON to the parsed form; the only file that knows all families of operators |
//! | `operator.rs`, `operands.rs`, `arguments.rs` | the form in which a family gives its operators, and how it parses their operands |
//! | `lists.rs`, `branches.rs` | operators that bind variables or evaluate only a part |
//! | the others | operators by family, as functions of evaluated arguments |
//!
//! A missing input behaves as null in most operators; a missing result leaves its field out.

mod arguments;
mod arithmetic;
mod arrays;
mod bits;
mod bound;
mod branches;
mod casts;
mod compare;
mod conversion;
mod convert_binary;
mod date_arguments;
mod date_parts;
mod date_text;
mod dates;
mod env;
mod hashed_key;
mod lists;
mod math;
mod number;
mod objects;
mod operands;
mod operator;
mod parse;
mod percentile;
mod picks;
mod regexes;
mod rounding;
mod scope;
mod sets;
mod sort_array;
mod strings;
mod sums;
mod text;
mod tree;
mod trims;

pub use env::{Env, TimeTest};
pub use hashed_key::hashed_key;
pub use number::Sum;
pub(crate) use parse::meta_name;
pub use parse::parse;
pub use scope::Scope;
pub use tree::Expression;

pub(crate) use arithmetic::{add, add_numbers, divide, multiply, subtract};
pub(crate) use dates::{DateUnit, add_units};
pub(crate) use number::Deviation;
pub(crate) use percentile::{Percentiles, parse_percentiles};
pub(crate) use picks::count_argument;
pub(crate) use scope::check_variable_name;
pub(crate) use tree::path_value;
