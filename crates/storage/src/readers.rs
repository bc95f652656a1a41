//! Threads that wait for the disk, so that no thread of a runtime does.
//!
//! They are started when there is work that no idle one takes, up to a bound, and end when they have been idle for a while.
//! Their work never waits for other work, so that the bound cannot lead to a standstill.

use std::collections::VecDeque;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

/// A disk answers so many reads at a time better than fewer; more only wait in its queue instead of ours.
const THREADS_MAX: usize = 32;
const IDLE_MAX: Duration = Duration::from_secs(10);

type Work = Box<dyn FnOnce() + Send>;

struct Readers {
    state: Mutex<State>,
    work_came: Condvar,
    idle_max: Duration,
}

#[derive(Default)]
struct State {
    work: VecDeque<Work>,
    threads: usize,
    idle: usize,
}

static READERS: LazyLock<Readers> = LazyLock::new(|| Readers::new(IDLE_MAX));

/// Does the work on a thread that may block. The receiver fails only when the work panics.
pub(crate) fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> oneshot::Receiver<T> {
    let (sender, receiver) = oneshot::channel();
    let work: Work = Box::new(move || {
        // Skip the read if its caller went away while the work was queued.
        if !sender.is_closed() {
            let _ = sender.send(work());
        }
    });
    READERS.take(work);
    receiver
}

impl Readers {
    fn new(idle_max: Duration) -> Readers {
        Readers { state: Mutex::default(), work_came: Condvar::new(), idle_max }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&'static self, work: Work) {
        let mut state = self.lock();
        state.work.push_back(work);
        if state.work.len() <= state.idle || state.threads >= THREADS_MAX {
            drop(state);
            return self.work_came.notify_one();
        }
        state.threads += 1;
        drop(state);
        let started = std::thread::Builder::new().name("reader".into()).spawn(|| self.work());
        if started.is_err() {
            // No thread is to be had: here, rather than never.
            self.lock().threads -= 1;
            while let Some(work) = self.next_now() {
                work();
            }
        }
    }

    fn next_now(&self) -> Option<Work> {
        self.lock().work.pop_front()
    }

    fn work(&self) {
        let panics = Panics(self);
        while let Some(work) = self.next() {
            work();
        }
        std::mem::forget(panics);
    }

    /// Waits for work; `None` after a while. A thread that gets none is not counted any more from
    /// the time at which it found none: later work must not count on it.
    fn next(&self) -> Option<Work> {
        let mut state = self.lock();
        state.idle += 1;
        assert!(state.idle <= state.threads, "each idle reader is a counted thread");
        let waited = self.work_came.wait_timeout_while(state, self.idle_max, |state| state.work.is_empty());
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.idle -= 1;
        let work = state.work.pop_front();
        state.threads -= usize::from(work.is_none());
        work
    }
}

/// Takes a thread whose work panics out of the count.
struct Panics<'a>(&'a Readers);

impl Drop for Panics<'_> {
    fn drop(&mut self) {
        self.0.lock().threads -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::Barrier;

    use super::*;

    /// Else work that comes when as many threads as there may be are about to end would wait for further work.
    #[test]
    fn thread_that_finds_no_work_is_not_counted_any_more() {
        let readers = Readers::new(Duration::ZERO);
        readers.lock().threads = THREADS_MAX;
        for ended in 1..=THREADS_MAX {
            assert!(readers.next().is_none());
            let state = readers.lock();
            assert_eq!((state.threads, state.idle), (THREADS_MAX - ended, 0));
        }
    }

    #[tokio::test]
    async fn work_goes_on_side_by_side_and_outlives_a_panic() {
        let panicking = run(|| panic!("a bug in an engine (expected by this test)"));
        let _: Result<(), _> = panicking.await;
        // Each waits for all the others. The thread of the panic may be ending still, and counts until then.
        const THREADS: usize = THREADS_MAX - 1;
        let all = Arc::new(Barrier::new(THREADS));
        let work: Vec<_> = (0..THREADS)
            .map(|number| {
                let all = all.clone();
                run(move || {
                    all.wait();
                    number
                })
            })
            .collect();
        for (number, done) in work.into_iter().enumerate() {
            assert_eq!(done.await, Ok(number));
        }
    }
}
