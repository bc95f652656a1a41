//! SQL over analytical tables, in worker processes.
//!
//! ```text
//! server: Pool ──Order──> worker process: gate ─ plan ─ execute ─ write ──Head, Data …, End──> server: Answer
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `pool/` | the server's side: the queue, workers, running queries, answers |
//! | `protocol.rs` | messages between both |
//! | `worker/` | the worker's side |
//! | `gate.rs` | the statements that a query may be |
//! | `table/` | versions of tables for the query engine |
//! | `reply/` | answers as JSON, CSV or Arrow |
//!
//! A worker is the server's own program, started again. It gets the folders of tables and nothing else of the server: no keys, no
//! shards, no network. The query engine (DataFusion) runs in workers alone, so that a defect of it, or a query that takes all memory, ends
//! a worker and never the server.

mod gate;
mod pool;
mod protocol;
mod reply;
mod table;
mod worker;

pub use pool::{
    Answer, Figures, OUTCOMES, Piece, Pool, PoolSettings, Query, QueryState, RunningQuery, Unlisted, Waits,
    WorkerProgram,
};
pub use protocol::{Failure, FailureKind, Format, Head, Limits, Statistics};
pub use table::{AsOf, ListedTable, Refusal, VersionTable};
pub use worker::worker_main;
