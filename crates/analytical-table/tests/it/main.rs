//! Analytical tables: schema, rows and files.
#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod crash;
mod export;
mod fixture;
mod golden;
mod limits;
mod maintenance;
mod object_store;
mod rounds;
mod rows_properties;
mod stores;
mod table_rounds;
mod widening;
