//! Lease of a shard: until when this process may return stored data.
//!
//! Another process may take a shard in an object store while this one sleeps. Acknowledged writes
//! are safe then, since the store refuses writes of an earlier owner. But the answer to a read
//! could be older than writes that the new owner has acknowledged. So answers are given within a
//! time that the store has granted, which is checked after the read was made.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use shardlake_stdx::Clock;

/// Kept by the task that renews the lease, checked by tasks that answer requests.
#[derive(Debug)]
pub struct Lease {
    clock: Clock,
    /// Since the machine was started, sleep included.
    until_ms: AtomicU64,
    /// The end by the wall clock. A machine that was frozen wakes with one of the two right.
    until_wall_ms: AtomicU64,
}

/// When a renewal was begun.
#[derive(Debug, Clone, Copy)]
pub struct Began {
    pub since_boot: Duration,
    wall_ms: u64,
}

impl Lease {
    /// Not held yet.
    pub fn new(clock: Clock) -> Lease {
        Lease { clock, until_ms: AtomicU64::new(0), until_wall_ms: AtomicU64::new(0) }
    }

    pub fn begin(&self) -> Began {
        Began { since_boot: self.clock.since_boot(), wall_ms: self.clock.now().milliseconds() }
    }

    /// The renewal that was begun then is stored; it holds until `deadline` since the machine's start.
    pub fn renew(&self, began: Began, deadline: Duration) {
        let length = deadline.saturating_sub(began.since_boot);
        self.until_wall_ms.store(began.wall_ms + milliseconds(length), Ordering::Release);
        self.until_ms.store(milliseconds(deadline), Ordering::Release);
    }

    /// Ends the lease: another process has it, or it was given back.
    pub fn end(&self) {
        self.until_ms.store(0, Ordering::Release);
    }

    pub fn is_held(&self) -> bool {
        milliseconds(self.clock.since_boot()) < self.until_ms.load(Ordering::Acquire)
            && self.clock.now().milliseconds() < self.until_wall_ms.load(Ordering::Acquire)
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use shardlake_stdx::Timestamp;

    use super::*;

    #[test]
    fn a_lease_is_held_until_its_deadline_or_its_end() {
        let clock = Clock::manual(Timestamp(1_000_000));
        let lease = Lease::new(clock.clone());
        assert!(!lease.is_held());
        let began = lease.begin();
        clock.advance(Duration::from_secs(2));
        lease.renew(began, began.since_boot + Duration::from_secs(9));
        clock.advance(Duration::from_millis(6_999));
        assert!(lease.is_held());
        clock.advance(Duration::from_millis(1));
        assert!(!lease.is_held());
        let began = lease.begin();
        lease.renew(began, began.since_boot + Duration::from_secs(9));
        assert!(lease.is_held());
        lease.end();
        assert!(!lease.is_held());
    }
}
