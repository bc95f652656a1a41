//! CPU pool for work that is too long for the threads that answer requests: on the blocking pool, a
//! few pieces at a time.
//!
//! A thread of the runtime that parses an item of 2 MB answers no other request for some 20 ms. So
//! heavy work waits for a permit and runs on a thread for blocking work. A permit lasts until the
//! work ends, even if the client of the request has disconnected: otherwise clients that hang up
//! could have any number of pieces at work.
//!
//! Work on items ([`offload`]) computes and nothing else: it holds no lock and waits for nothing.
//! So the holder of a partition's sequencer may wait for a permit.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use shardlake_model::{Error, ErrorKind, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinError;

/// JSON bytes from which an item or a request body is heavy. Less is worked on in well under a millisecond.
pub const HEAVY_BYTES: usize = 64 * 1024;
/// Delay until a client may retry that was refused because too many wait already.
const RETRY_AFTER_MS: u64 = 500;

/// Budget for work that only a few tasks may do at a time.
#[derive(Debug)]
pub struct CpuPool {
    units: Arc<Semaphore>,
    units_max: u32,
    waiting: AtomicUsize,
    waiting_max: usize,
}

/// Leave to do it, until it is dropped.
#[derive(Debug)]
pub struct Permit {
    #[expect(dead_code, reason = "held, and given back when it is dropped")]
    permit: OwnedSemaphorePermit,
}

/// Counts a waiting task for as long as it lives.
struct Waiting<'t>(&'t AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl CpuPool {
    /// A pool of so many units; when `waiting_max` tasks wait, others are refused.
    pub fn new(units: u32, waiting_max: usize) -> CpuPool {
        CpuPool {
            units: Arc::new(Semaphore::new(units as usize)),
            units_max: units,
            waiting: AtomicUsize::new(0),
            waiting_max,
        }
    }

    /// A permit for one unit.
    pub async fn permit(&self) -> Result<Permit> {
        self.permit_of(1).await
    }

    /// A permit for several units, or for all where there are not as many.
    pub async fn permit_of(&self, units: u32) -> Result<Permit> {
        let units = units.min(self.units_max);
        if let Ok(permit) = self.units.clone().try_acquire_many_owned(units) {
            return Ok(Permit { permit });
        }
        let _waiting = self.wait()?;
        let permit = self.units.clone().acquire_many_owned(units).await;
        permit.map(|permit| Permit { permit }).map_err(|_| Error::internal("pool are never closed"))
    }

    fn wait(&self) -> Result<Waiting<'_>> {
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let waiting = Waiting(&self.waiting);
        if before < self.waiting_max {
            return Ok(waiting);
        }
        let message = "too many large requests are at work: nothing was done, retry later";
        Err(Error::new(ErrorKind::TooManyRequests, message).with_retry_after_ms(RETRY_AFTER_MS))
    }

    /// How many wait now.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }
}

impl Permit {
    /// Runs work on a thread for blocking work, which releases the permit at its end.
    pub async fn run<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> std::result::Result<T, JoinError> {
        let run = move || {
            let done = work();
            drop(self);
            done
        };
        tokio::task::spawn_blocking(run).await
    }
}

/// For work on items, in the whole process: half of the processors, so that requests find one free.
static PREPARATION: LazyLock<CpuPool> = LazyLock::new(pool_of_processors);
/// For holders of a partition's sequencer: its other writers are not to wait for preparations.
static PLANNING: LazyLock<CpuPool> = LazyLock::new(pool_of_processors);

fn pool_of_processors() -> CpuPool {
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u32 / 2);
    // Waiting tasks are bounded by the resources that they hold: memory for a body, or a
    // partition's sequencer.
    CpuPool::new(processors.max(1), usize::MAX)
}

/// Computes something of the size of an item on the blocking pool.
pub async fn offload<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    compute(&PREPARATION, work).await
}

/// Computes on the blocking pool, for a holder of a partition's sequencer.
pub(crate) async fn offload_planning<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    compute(&PLANNING, work).await
}

async fn compute<T: Send + 'static>(pool: &CpuPool, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    match pool.permit().await?.run(work).await {
        Ok(done) => Ok(done),
        // As if it had happened here: a panic under the sequencer ends the partition.
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(Error::new(ErrorKind::Unavailable, "the server is stopping")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn more_than_may_wait_are_refused_and_told_when_to_come_back() {
        let pool = Arc::new(CpuPool::new(4, 2));
        let first = pool.permit_of(100).await.expect("one that is larger than all units takes all");
        let waiting: Vec<_> = (0..2)
            .map(|_| {
                let pool = pool.clone();
                tokio::spawn(async move { pool.permit_of(3).await.map(drop) })
            })
            .collect();
        while pool.waiting() < 2 {
            tokio::task::yield_now().await;
        }
        let refused = pool.permit().await.expect_err("a third would wait");
        assert_eq!(refused.kind(), ErrorKind::TooManyRequests);
        assert_eq!(refused.retry_after_ms(), Some(RETRY_AFTER_MS));
        drop(first);
        for turn in waiting {
            turn.await.expect("ends").expect("its turn came");
        }
        assert_eq!(pool.waiting(), 0);
        drop(pool.permit().await.expect("free again"));
    }

    #[tokio::test]
    async fn a_waiter_that_gives_up_makes_room_for_another() {
        let pool = CpuPool::new(1, 1);
        let first = pool.permit().await.expect("free");
        assert!(futures_poll(pool.permit()).await.is_none(), "it waits, and is dropped");
        assert_eq!(pool.waiting(), 0);
        drop(first);
        drop(pool.permit().await.expect("free"));
    }

    /// The result of a future that is ready at once.
    async fn futures_poll<T>(future: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = future => Some(done),
            () = std::future::ready(()) => None,
        }
    }

    #[tokio::test]
    async fn a_turn_lasts_as_long_as_its_work_even_when_nobody_waits_for_that() {
        let pool = CpuPool::new(1, 1);
        let (end, ended) = std::sync::mpsc::sync_channel::<()>(1);
        let turn = pool.permit().await.expect("free");
        let work = turn.run(move || ended.recv().expect("the test tells the end"));
        assert!(futures_poll(work).await.is_none(), "the client hangs up");
        assert!(futures_poll(pool.permit()).await.is_none(), "the work goes on");
        end.send(()).expect("the work waits for it");
        drop(pool.permit().await.expect("free when the work has ended"));
    }

    #[tokio::test]
    async fn work_beside_runs_on_another_thread_and_panics_here() {
        let here = std::thread::current().id();
        assert_ne!(offload(|| std::thread::current().id()).await.expect("runs"), here);
        let panicked = tokio::spawn(offload(|| panic!("a bug (expected by this test)"))).await;
        assert!(panicked.expect_err("it panicked").is_panic());
    }
}
