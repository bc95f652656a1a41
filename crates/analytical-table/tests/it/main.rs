//! Tests of analytical tables.

mod crash;
mod export;
mod fixture;
mod maintenance;
mod rounds;
