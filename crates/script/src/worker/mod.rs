//! The worker's side: serves one order at a time from a socket until that ends.
//!
//! A worker process has one socket and a processor. It gives up all other kernel services before it reads its
//! first order (`sandbox.rs`), and it has limits (`confinement.rs`). No state of an order outlives it: the
//! memory of the engine is restored (`engine.rs`).

mod budget;
mod calls;
mod changes;
mod channel;
mod confinement;
mod engine;
mod entry;
mod exception;
mod functions;
mod heap;
mod images;
mod invocation;
mod model;
mod rejections;
mod sandbox;
mod serve;
mod source;

pub use sandbox::confine;
pub(crate) use serve::serve_on_thread;
pub use serve::worker_main;
