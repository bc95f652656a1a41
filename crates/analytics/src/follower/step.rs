//! Parameters of every step of a follower, and the reasons for an early end.

use std::sync::Arc;
use std::time::Duration;

use shardlake_analytical_table::error::TableError;
use shardlake_model::{Error, ErrorKind, Result as AccountResult};
use shardlake_router::{ContainerEntry, Serving};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::paced::Pace;
use super::rests::Rests;
use super::rows::RowsError;
use crate::AnalyticsOptions;

/// The server's own threads. Changes of the catalog run there: they must not wait for columns that are encoded here.
#[derive(Debug, Clone)]
pub struct Server {
    pub runtime: Handle,
    /// Of all tables together.
    pub pace: Arc<Pace>,
    pub rewrites: Rewrites,
}

impl Server {
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = AccountResult<T>> + Send + 'static,
    ) -> AccountResult<T> {
        let done = self.runtime.spawn(work).await;
        done.unwrap_or_else(|_| Err(Error::new(ErrorKind::Unavailable, "the server stops")))
    }
}

/// Rewrites that are under way at a time, over all tables. Each holds the rows of up to 128 MB of files.
const AT_A_TIME: usize = 1;

/// Bounds the rewrites of all tables. Clones are the same bound.
#[derive(Debug, Clone)]
pub struct Rewrites(Arc<Semaphore>);

impl Default for Rewrites {
    fn default() -> Rewrites {
        Rewrites(Arc::new(Semaphore::new(AT_A_TIME)))
    }
}

impl Rewrites {
    /// Whether one more may begin.
    pub fn are_free(&self) -> bool {
        self.0.available_permits() > 0
    }

    /// The right to one, until it is dropped.
    pub fn try_begin(&self) -> Option<OwnedSemaphorePermit> {
        self.0.clone().try_acquire_owned().ok()
    }
}

/// One step, with everything that it needs.
pub struct Step<'s> {
    pub router: &'s Serving,
    pub options: &'s AnalyticsOptions,
    pub entry: &'s ContainerEntry,
    pub server: &'s Server,
}

impl Step<'_> {
    /// Milliseconds since 1970.
    pub fn now_ms(&self) -> i64 {
        self.router.clock().now().milliseconds() as i64
    }

    /// The rests of this step, for a table that was last level at this time, in milliseconds since 1970.
    pub fn rests(&self, level_ms: i64) -> Rests {
        let behind = u64::try_from(self.now_ms() - level_ms).unwrap_or(0);
        Rests::begin(self.router, Duration::from_millis(behind))
    }
}

/// Why a step ended early.
#[derive(Debug)]
pub enum StepError {
    /// The shards, or the catalog.
    Account(Error),
    Table(TableError),
    /// The change log does not reach back to the table's position: table and items are compared.
    Hole,
    /// The table is of another life of the container: it is made anew.
    Apart(&'static str),
}

impl From<Error> for StepError {
    fn from(error: Error) -> StepError {
        StepError::Account(error)
    }
}

impl From<TableError> for StepError {
    fn from(error: TableError) -> StepError {
        StepError::Table(error)
    }
}

impl From<RowsError> for StepError {
    fn from(error: RowsError) -> StepError {
        match error {
            RowsError::Item(error) => StepError::Account(error),
            RowsError::Table(error) => StepError::Table(error),
        }
    }
}

/// Time until the next step.
pub type Stepped = Result<Duration, StepError>;
