//! Fixtures for tests that talk to a real server: start it, kill it, speak HTTP to it.
//!
//! [`ServerProcess`] owns one `shardlake` process with a data directory of its own and a port chosen by the
//! system. [`Client`] signs requests with the account key and returns every reply, well-formed or not as far
//! as the HTTP framing allows; [`RawConnection`] below it sends any bytes. [`Logs`] fails tests in whose own
//! process a warning was logged that they did not announce. [`shared_directory`] finds test data that lives
//! outside the repository and reports its absence. [`Counts`] holds deterministic work to recorded numbers.
//! [`bucket`] is an object store with faults, and [`FaultProxy`] injects faults in front of another one.
//! [`history`] checks the results of concurrent clients. Nothing here is compiled into the product, and
//! nothing here but the history interprets a reply: an unexpected status is handled by the test.
#![allow(clippy::disallowed_methods)] // tests read the environment and the clock on purpose
#![allow(clippy::print_stderr)] // a skipped test and a dead server must be visible

pub mod bucket;
mod client;
mod counts;
mod fault_proxy;
pub mod history;
mod link;
mod logs;
mod process;
mod raw;
mod reach;
mod response;
mod shared;
mod signature;
mod wait;

pub use client::{Client, Request};
pub use counts::Counts;
pub use fault_proxy::FaultProxy;
pub use link::{container_path, database_path, item_path, items_path, resource_of_path};
pub use logs::{Logs, expects_log};
pub use process::{ReadyRecord, ServerOptions, ServerProcess};
pub use raw::RawConnection;
pub use reach::reaches_by_loopback;
pub use response::Response;
pub use shared::{SHARED, note_skipped, own_vectors, shared_directory, shared_place};
pub use signature::{EMULATOR_KEY, authorization, http_date_after_epoch, http_date_now};
pub use wait::{HANG, eventually};
