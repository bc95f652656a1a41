//! Functions over changes in real worker processes.

mod endings;
mod hostile;
mod language;
pub mod support;
