//! The worker's side: runs one statement at a time, for as long as the server's end of its socket is open.
//!
//! | file | contents |
//! |---|---|
//! | `serve.rs` | orders from the socket, answers to it |
//! | `run.rs` | one statement: parsed, planned, executed, written |
//! | `names.rs` | hints for columns that are named wrongly |
//! | `values.rs` | parameters as values |
//! | `errors.rs` | errors of the query engine as failures |
//! | `memory.rs` | the greatest use of memory of a query |
//! | `confinement.rs`, `sandbox.rs` | limits of the process, and the system calls that it may make |

mod confinement;
mod errors;
mod memory;
mod names;
mod run;
mod sandbox;
mod serve;
mod values;

pub use serve::worker_main;
