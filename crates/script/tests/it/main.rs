//! Scripts in real worker processes.
//!
//! One program for all files, because linking dominates the build time. Each test has its own workers.

mod as_new;
mod changes;
#[cfg(target_os = "linux")]
mod confined;
mod foreseen;
mod functions;
mod hostile;
#[cfg(target_os = "linux")]
mod killed;
mod metered;
mod procedures;
mod queries;
mod support;
