//! Accumulators of `$group`, `$bucket` and windows over many documents.

mod parse;
mod state;

pub(crate) use parse::{Accumulator, parse};
pub(crate) use state::State;
