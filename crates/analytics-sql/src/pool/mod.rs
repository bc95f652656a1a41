//! The server's side: a queue for few workers, the queries that run, and their answers.
//!
//! | file | contents |
//! |---|---|
//! | `process.rs` | worker processes: started, kept, killed |
//! | `conduct.rs` | one query from its queue to its end |
//! | `query.rs` | queries, and the state that they share |
//! | `running.rs` | queries that wait or run, for lists and cancelling |
//! | `figures.rs` | counts of queries for metrics |
//!
//! A query is a task of its own. The task ends the worker when the client leaves, when an operator cancels, or when the time is over, and
//! deletes the query's spill files in every case.

mod conduct;
mod figures;
mod process;
mod query;
mod running;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::gate;
use crate::protocol::{Failure, FailureKind, Head, Limits};
pub use figures::{Figures, OUTCOMES};
pub use process::WorkerProgram;
use process::Workers;
pub use query::{Piece, PoolSettings, Query, Unlisted, Waits};
use query::{State, Waiting};
use running::Running;
pub use running::{QueryState, RunningQuery};

/// Pieces of an answer that wait for their client.
const PIECES_AHEAD: usize = 4;

/// The answer of a query. Dropping it ends the query.
#[derive(Debug)]
pub struct Answer {
    pub head: Head,
    pieces: mpsc::Receiver<Piece>,
}

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct Pool(Arc<State>);

impl Pool {
    pub fn new(settings: PoolSettings) -> Pool {
        // Spill files of a server that was killed.
        let _ = std::fs::remove_dir_all(&settings.spill_folder);
        Pool(Arc::new(State {
            workers: Workers::new(settings.worker.clone()),
            permits: Semaphore::new(settings.workers_max.max(1)),
            waiting: AtomicUsize::new(0),
            running: Running::default(),
            figures: Figures::default(),
            settings,
        }))
    }

    /// Runs a statement until its answer begins. Must be called in a runtime.
    pub async fn run(&self, query: Query) -> Result<Answer, Failure> {
        if self.0.waiting.load(Ordering::Relaxed) >= self.0.settings.waiting_max {
            self.0.figures.refused();
            return Err(Failure::new(
                FailureKind::Busy,
                format!(
                    "{} queries wait for {} workers already: retry",
                    self.0.settings.waiting_max, self.0.settings.workers_max
                ),
            ));
        }
        let (head, began) = oneshot::channel();
        let (sender, pieces) = mpsc::channel(PIECES_AHEAD);
        let waiting = Waiting::enter(&self.0);
        let template = gate::template(&query.statement);
        let running = self.0.running.enter(&query.id, template, query.database.clone());
        tokio::spawn(conduct::conduct(self.0.clone(), query, (waiting, running), head, sender));
        let lost = |_| Err(Failure::new(FailureKind::Internal, "the query ended without an outcome"));
        let head = began.await.unwrap_or_else(lost)?;
        Ok(Answer { head, pieces })
    }

    /// Queries that wait or run, the oldest first.
    pub fn running(&self) -> Vec<RunningQuery> {
        self.0.running.list()
    }

    /// Ends a query; false where none has this id.
    pub fn cancel(&self, id: &str) -> bool {
        self.0.running.cancel(id)
    }

    pub fn figures(&self) -> &Figures {
        &self.0.figures
    }

    pub fn limits(&self) -> &Limits {
        &self.0.settings.limits
    }
}

impl Answer {
    /// The next piece; `None` after the last one.
    pub async fn next(&mut self) -> Option<Piece> {
        self.pieces.recv().await
    }

    pub fn poll_next(&mut self, context: &mut std::task::Context<'_>) -> std::task::Poll<Option<Piece>> {
        self.pieces.poll_recv(context)
    }
}
