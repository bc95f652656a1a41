//! The expression language of aggregation (spec §15): parsed once, evaluated on each document.
//!
//! | file | purpose |
//! |---|---|
//! | `tree.rs`, `bound.rs` | the parsed form and its evaluation; how large its values may be |
//! | `scope.rs`, `env.rs` | variables while parsing, and their values while evaluating |
//! | `parse.rs`, `arguments.rs` | BSON to the parsed form |
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

use crate::error::Result;
use crate::value::Value;
use shardlake_collation::Collation;

/// An operator of evaluated arguments.
#[derive(Clone, Copy)]
enum Function {
    Plain(fn(&mut Env, &[Value]) -> Result<Value>),
    /// A function that compares strings.
    Comparing(fn(&Collation, &[Value]) -> Result<Value>),
}

/// An operator whose arguments have names; a missing argument is `None`.
type NamedFunction = fn(&mut Env, &[Option<Value>]) -> Result<Value>;

/// An operator with arguments by place: how many it takes at least and at most.
struct Operator {
    least: usize,
    most: usize,
    function: Function,
}

const MANY: usize = usize::MAX;

const fn exactly(count: usize, function: fn(&mut Env, &[Value]) -> Result<Value>) -> Option<Operator> {
    between(count, count, function)
}

const fn between(
    least: usize,
    most: usize,
    function: fn(&mut Env, &[Value]) -> Result<Value>,
) -> Option<Operator> {
    Some(Operator { least, most, function: Function::Plain(function) })
}

/// An operator that compares strings.
const fn comparing(
    least: usize,
    most: usize,
    function: fn(&Collation, &[Value]) -> Result<Value>,
) -> Option<Operator> {
    Some(Operator { least, most, function: Function::Comparing(function) })
}

/// The operators that evaluate all their arguments.
fn operator(name: &str) -> Option<Operator> {
    arithmetic::operator(name)
        .or_else(|| math::operator(name))
        .or_else(|| bits::operator(name))
        .or_else(|| compare::operator(name))
        .or_else(|| strings::operator(name))
        .or_else(|| text::operator(name))
        .or_else(|| arrays::operator(name))
        .or_else(|| sets::operator(name))
        .or_else(|| objects::operator(name))
        .or_else(|| casts::operator(name))
        .or_else(|| sums::operator(name))
}
