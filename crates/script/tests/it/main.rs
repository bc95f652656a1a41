//! Scripts in real worker processes.
//!
//! One program for all files, because linking is what takes the time. Each test has workers of its own.

mod functions;
mod hostile;
mod procedures;
mod queries;
mod support;
