//! Accumulators: what `$group`, `$bucket` and windows make of many documents.

mod parse;
mod state;

pub(crate) use parse::{Accumulator, parse};
pub(crate) use state::State;
