//! Tests of analytical tables.

mod fixture;
mod rounds;
