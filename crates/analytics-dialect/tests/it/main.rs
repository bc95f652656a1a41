//! Statements and their translations, from outside of the crate.

mod golden;
mod hostile;
mod tables;
