//! The server as a whole, for monitoring: its configuration, the caller's rights, its load, its log.
//!
//! | file | contents |
//! |---|---|
//! | `installation.rs` | the program's description of itself, which the engine does not know |
//! | `server.rs`, `caller.rs` | the running server with its limits and features; the rights of a key or token |
//! | `pulse.rs` | load over time, of all containers and of the busiest ones |
//! | `process.rs` | connections, latency, processor and memory over time, in rings as heat has them |
//! | `diagnostics.rs` | settings, formats, limits and definitions, for reports of problems |
//! | `log.rs`, `log_ring.rs` | the latest lines of the log |

mod caller;
mod diagnostics;
mod installation;
mod log;
mod log_ring;
mod process;
mod pulse;
mod server;

pub(crate) use caller::caller;
pub use caller::{CallerAccess, TokenAccess};
pub(crate) use diagnostics::diagnostics;
pub use installation::Installation;
pub(crate) use log::log;
pub use log_ring::{LogLine, LogRing};
pub use process::{ProcessGauges, ProcessRings, RequestCounts};
pub(crate) use pulse::pulse;
pub(crate) use server::server;
