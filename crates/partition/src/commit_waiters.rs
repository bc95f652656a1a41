//! Tasks that wait for a partition's next change.
//!
//! Writers look at one number, which is zero while no task waits. A waiting task counts itself
//! before it checks for a change. A writer makes its change visible before it looks at the number.
//! All four steps are in one order that both agree on: so either the task sees the change or the
//! writer sees a waiting task.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(crate) struct CommitWaiters {
    waiting: AtomicUsize,
    changed: Notify,
}

/// Counts as waiting until it goes.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl CommitWaiters {
    /// Wakes the waiting tasks. Called after the state that `wait_until` checks has been stored
    /// with [`Ordering::SeqCst`].
    pub fn wake(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.changed.notify_waiters();
        }
    }

    pub async fn wait_until(&self, holds: impl Fn() -> bool) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let _waiting = Waiting(&self.waiting);
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if holds() {
                return;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn nobody_sleeps_through_a_change() {
        let followers = Arc::new((CommitWaiters::default(), AtomicU64::new(0)));
        let waiter = followers.clone();
        let waiting = tokio::spawn(async move {
            for next in 1..=2000 {
                waiter.0.wait_until(|| waiter.1.load(Ordering::SeqCst) >= next).await;
            }
        });
        for _ in 0..2000 {
            followers.1.fetch_add(1, Ordering::SeqCst);
            followers.0.wake();
            tokio::task::yield_now().await;
        }
        waiting.await.expect("it heard of every change");
        assert_eq!(followers.0.waiting.load(Ordering::SeqCst), 0);
    }
}
