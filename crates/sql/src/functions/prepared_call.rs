//! Constant arguments of a call, compiled once for a query.

use crate::functions::regex;
use crate::value::constant_set::ConstantSet;

/// The compiled constant arguments of a call, made once for a query.
#[derive(Debug)]
pub(crate) enum PreparedCall {
    Pattern(regex::Pattern),
    /// The array that `ARRAY_CONTAINS` looks in.
    Set(ConstantSet),
}
