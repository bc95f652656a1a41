//! Queries, and the state that they share.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;

use super::figures::Figures;
use super::process::{WorkerProgram, Workers};
use super::running::Running;
use crate::protocol::{Failure, Format, Limits, Statistics};
use crate::table::{AsOf, ListedTable, Refusal};

#[derive(Debug, Clone)]
pub struct PoolSettings {
    pub worker: WorkerProgram,
    pub workers_max: usize,
    /// Queries that wait for a worker; further ones are refused.
    pub waiting_max: usize,
    pub limits: Limits,
    /// Folder of spill files, which is this pool's alone: it is emptied at the start.
    pub spill_folder: PathBuf,
}

/// Waits until the tables that a statement names are as new as the answer must be, and lists the account's tables again.
pub type Waits =
    Box<dyn FnOnce(Vec<(String, String)>) -> BoxFuture<'static, Result<Vec<ListedTable>, Failure>> + Send>;

/// Why a table that no list has cannot be read, by database and container; `None` where there is no such container.
pub type Unlisted = Box<dyn Fn(&str, &str) -> Option<Refusal> + Send>;

/// A statement to run.
pub struct Query {
    /// Names the query to clients; unique.
    pub id: String,
    pub statement: String,
    pub parameters: Map<String, Value>,
    pub database: Option<String>,
    pub tables: Vec<ListedTable>,
    pub as_of: AsOf,
    pub format: Format,
    pub bigints_as_text: bool,
    /// Seconds since 1970.
    pub now: i64,
    pub waits: Option<Waits>,
    pub unlisted: Option<Unlisted>,
    /// From the request to the last byte, waiting included.
    pub time: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    Data(Bytes),
    End(Statistics),
    Failed(Failure),
}

#[derive(Debug)]
pub(super) struct State {
    pub settings: PoolSettings,
    pub workers: Workers,
    pub permits: Semaphore,
    pub waiting: AtomicUsize,
    pub running: Running,
    pub figures: Figures,
}

/// A query that waits for a worker.
pub(super) struct Waiting(Arc<State>);

impl Waiting {
    pub fn enter(state: &Arc<State>) -> Waiting {
        state.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(state.clone())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let before = self.0.waiting.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "each waiting query is counted");
    }
}
