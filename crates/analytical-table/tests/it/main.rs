//! Analytical tables: schema, rows and files.
#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod golden;
mod limits;
mod rounds;
mod rows_properties;
