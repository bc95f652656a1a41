//! Tests of analytical tables.

mod crash;
mod fixture;
mod maintenance;
mod rounds;
