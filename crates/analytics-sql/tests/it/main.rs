//! Statements over tables in folders, in worker processes as the server starts them.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // tests

mod fleet;
mod hostile;
mod limits;
mod nested;
mod statements;
mod support;
mod tables;
#[path = "../../../analytical-table/examples/write_tables.rs"]
#[allow(dead_code)] // its `main` writes the same tables for other readers
mod write_tables;

use write_tables::fixture;
