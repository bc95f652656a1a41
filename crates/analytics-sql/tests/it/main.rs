//! Statements over tables in folders, in worker processes as the server starts them.

#[path = "../../../analytical-table/tests/it/fixture.rs"]
mod fixture;
mod fleet;
mod hostile;
mod limits;
mod statements;
mod support;
mod tables;
#[path = "../../../analytical-table/examples/write_tables.rs"]
#[allow(dead_code)] // its `main` writes the same tables for other readers
mod write_tables;
