//! The MongoDB wire protocol: messages, sessions, cursors and commands over the account.
//!
//! # The path of a request
//!
//! ```text
//! connection_loop   reads a message within its bounds (`memory`)
//!   wire            frame, checksum, compression, sections → one document, the command
//!   dispatch        finds its row in the `table`, checks the common rules, enters the session → a [`call::Call`]
//!     commands/     without documents: handshake, sessions, cursors, server status
//!     data/         with the engine: documents, collections, indexes
//!   dispatch        `ok`, write concern, or the error with its code, name and labels → bytes
//!   wire            a message again, in the compression of the request
//! ```
//!
//! # A command
//!
//! A row `command!("count", count).read()` and an `async fn count(call: &Call) -> Result<Reply>`. The row states the rules that are checked
//! before the command runs: who may run it, in a transaction or not, with which concerns ([`call::Command`]). The function first reads its
//! fields by a table, `call.arguments(FIELDS)?`, which refuses unknown, missing and mistyped fields. Generic fields are in `call.generic`.
//! The function returns a `Document` (`.into()`), to which the dispatcher adds `ok`. Errors are [`errors::CommandError`], made of a code
//! and words, or by `?` from an error of the engine or the language.
//!
//! # A cursor
//!
//! A command that reads makes a [`cursors::BatchSource`], which returns the next documents up to a number, a size and a deadline. The
//! command hands the source to `call.open_cursor(namespace, source, options)`, which reads the first batch, keeps the source for `getMore`
//! unless that was all, and makes the reply. Documents are handed over as BSON. An idle source holds its position and nothing else.
//! `Listed` is a source of documents that are in memory.
//!
//! # A retryable write
//!
//! `call.retryable` is there where the command has a `txnNumber`. Before a statement runs, `replay(statement)` returns its answer if it has
//! run before. After its write is acknowledged, `record(statement, result)` keeps the result in memory. `call.numbered(statement, form)`
//! accompanies the write to its commit, and stores the result with it.
//!
//! # A transaction
//!
//! `call.transaction` is there where the command is part of one, and `call.collections()` reads and writes in it. A command that fails
//! aborts it. An error of one statement of several goes through `call.check_goes_on(&error)?`, which fails the command if the error ends
//! the transaction.

mod access;
mod arguments;
mod audit;
mod call;
mod cluster_time;
mod command_metrics;
mod commands;
mod connection_loop;
mod cursors;
mod data;
mod deployment;
mod dispatch;
pub mod errors;
mod expressions;
mod fail_points;
mod gateway;
mod last_request;
mod latencies;
mod memory;
mod offload;
mod operations;
mod reply;
mod sessions;
mod shares;
mod stable;
mod table;
mod transactions;
mod unauthenticated;
/// Messages as bytes; open for the fuzzer and for tests.
pub mod wire;

pub use access::{Access, Key};
pub use command_metrics::CommandReport;
pub use cursors::CursorLimits;
pub use deployment::MongoSettings;
pub use gateway::{MongoGateway, Place};
pub use sessions::{SessionLimits, TransactionLimits};
