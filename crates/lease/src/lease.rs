//! Lease rules: when a lease may be relied on, and when it may be taken. Without a store and without a clock.
//!
//! ```text
//! holder    b ── sends a renewal ──▶ stored            relies on it until b + 0.99 ttl − 0.2 s
//! watcher              sees the record for the first time ──▶ takes it after 1.01 ttl + 1 s without another
//! ```
//! A process that takes a lease began to watch after the renewal was stored, thus after `b`. It waits longer
//! than the holder relies on the lease, even if the clocks of two machines differ in speed by up to one
//! percent. Only durations count; times of two machines are never compared. Taking is creating the next
//! record (`register.rs`): a renewal in flight at that time wins or loses the same number.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long a holder may be silent by default.
pub const LEASE_DEFAULT: Duration = Duration::from_secs(9);
/// Shorter leases would be lost whenever a store is slow.
pub const LEASE_MIN: Duration = Duration::from_secs(1);
/// Margin before the end of the time that a holder relies on.
const MARGIN: Duration = Duration::from_millis(200);
/// Margin on top of the time that a watcher waits.
const EXTRA: Duration = Duration::from_secs(1);

const _: () = assert!(MARGIN.as_millis() < LEASE_MIN.as_millis(), "the shortest lease outlasts its margin");
const _: () = assert!(LEASE_MIN.as_millis() <= LEASE_DEFAULT.as_millis(), "the default lease is allowed");

/// Record that the holder writes at each renewal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    pub node: String,
    /// Random, for one run of a process.
    pub incarnation: String,
    /// The number of the record with which this incarnation took the lease.
    pub term: u64,
    pub ttl_ms: u64,
    pub state: State,
}

/// A record with its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub number: u64,
    pub record: Record,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    Held,
    /// The holder ended in good order.
    Free,
}

/// Until when the holder may answer, in its own time; `began` is from before it sent the renewal.
pub fn deadline(began: Duration, ttl: Duration) -> Duration {
    (began + ttl.mul_f64(0.99)).saturating_sub(MARGIN)
}

/// How long a record must have been seen unchanged before the lease may be taken.
pub fn patience(ttl: Duration) -> Duration {
    ttl.mul_f64(1.01) + EXTRA
}

/// Observations of a process that wants the lease.
#[derive(Debug, Default)]
pub struct Watch {
    /// The present record's number, and when it was first seen.
    seen: Option<(u64, Duration)>,
    /// Whether the holder renewed it meanwhile.
    pub is_alive: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Look {
    /// The record of this number may be created now.
    Take { number: u64 },
    /// Not before this time, in the watcher's own time.
    Wait { until: Duration },
}

impl Watch {
    /// `former` is an incarnation that is known to have ended. `now` is from after the record was read.
    pub fn look(&mut self, last: Option<&Entry>, former: Option<&str>, now: Duration) -> Look {
        let Some(last) = last else { return Look::Take { number: 1 } };
        let next = Look::Take { number: last.number + 1 };
        if last.record.state == State::Free || former == Some(last.record.incarnation.as_str()) {
            return next;
        }
        let since = match self.seen {
            Some((number, since)) if number == last.number => since,
            Some(_) => {
                self.is_alive = true;
                now
            }
            None => now,
        };
        self.seen = Some((last.number, since));
        let until = since + patience(Duration::from_millis(last.record.ttl_ms));
        assert!(until >= since, "the wait for a lease ends after it began");
        if now >= until { next } else { Look::Wait { until } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u64, incarnation: &str, state: State) -> Entry {
        let record =
            Record { node: "n".into(), incarnation: incarnation.into(), term: 1, ttl_ms: 9_000, state };
        Entry { number, record }
    }

    #[test]
    fn a_lease_is_taken_when_it_is_free_over_or_ones_own_of_before() {
        let second = Duration::from_secs;
        let take = |number| Look::Take { number };
        let held = entry(7, "a", State::Held);
        assert_eq!(Watch::default().look(None, None, second(0)), take(1));
        assert_eq!(Watch::default().look(Some(&entry(7, "a", State::Free)), None, second(0)), take(8));
        assert_eq!(Watch::default().look(Some(&held), Some("a"), second(0)), take(8));
        let mut watch = Watch::default();
        let until = second(5) + Duration::from_millis(10_090);
        assert_eq!(watch.look(Some(&held), Some("b"), second(5)), Look::Wait { until });
        assert_eq!(watch.look(Some(&held), Some("b"), second(15)), Look::Wait { until });
        assert!(!watch.is_alive);
        assert_eq!(watch.look(Some(&held), Some("b"), until), take(8));
        let renewed = entry(8, "a", State::Held);
        let later = Look::Wait { until: until + Duration::from_millis(10_090) };
        assert_eq!(watch.look(Some(&renewed), Some("b"), until), later);
        assert!(watch.is_alive);
    }

    #[test]
    fn a_watcher_waits_longer_than_a_holder_relies_on_it() {
        for ttl in [LEASE_MIN, LEASE_DEFAULT, Duration::from_secs(60)] {
            // The holder's clock runs one percent slow, the watcher's one percent fast.
            let relied_on = deadline(Duration::ZERO, ttl).mul_f64(1.01);
            assert!(relied_on < patience(ttl).mul_f64(0.99), "{ttl:?}");
        }
    }
}
