//! The gateway over an account in memory, spoken to as a driver would: bytes in, bytes out, no socket.
//!
//! `client.rs` makes messages with code of its own.

mod any_bytes;
mod authentication;
mod client;
mod cursors;
mod data;
mod dispatch;
mod frames;
mod index_or_scan;
mod sessions;
mod two_doors;
