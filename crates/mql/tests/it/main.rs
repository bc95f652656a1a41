//! The language as its users meet it: MongoDB's recorded cases over collections in memory.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // helpers of tests are tests

mod answers;
mod cases;
mod commands;
mod compare;
mod constants;
mod harness;
mod sent_changes;
mod tagged;
mod updates;
mod writes;
