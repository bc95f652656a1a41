//! The server as a whole, as those see it who watch it: what it is, who asks, how busy it is, what it has logged.
//!
//! | file | what it does |
//! |---|---|
//! | `installation.rs` | what the program tells of itself, which the engine does not know |
//! | `server.rs`, `caller.rs` | what is running, with which limits and features; what a key or token is good for |
//! | `pulse.rs` | load over time, of all containers and of the busiest ones |
//! | `process.rs` | connections, latency, processor and memory over time, in rings as heat has them |
//! | `log.rs`, `log_ring.rs` | the latest lines of the log |

mod caller;
mod installation;
mod log;
mod log_ring;
mod process;
mod pulse;
mod server;

pub(crate) use caller::caller;
pub use caller::{CallerAccess, TokenAccess};
pub use installation::Installation;
pub(crate) use log::log;
pub use log_ring::{LogLine, LogRing};
pub use process::{ProcessGauges, ProcessRings, RequestCounts};
pub(crate) use pulse::pulse;
pub(crate) use server::server;
