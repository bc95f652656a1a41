//! Log of slow requests, one line each: the request, its charge, its outcome.
//!
//! An operator with a report of a slow application finds its requests here by the activity id, which the SDKs put into every
//! diagnostic. A server in trouble has only slow requests, so that the lines of one second are bounded, and those left out
//! are counted in the next line. A request that waits for changes because its client asked it to is not slow.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::{HeaderMap, Method, Response};
use shardlake_stdx::Guid;

use crate::header_names::REQUEST_CHARGE;

/// The header by which a client asks to wait for the next change.
const FEED_WAIT: &str = "x-shardlake-feed-wait-ms";
/// More lines than a person reads, at a small cost compared with the requests themselves.
const LINES_PER_SECOND_MAX: u64 = 10;

pub(crate) struct SlowLog {
    /// `None`: nothing is logged.
    threshold: Option<Duration>,
    /// The second that is counted, in the upper half, and its lines so far.
    lines: AtomicU64,
    left_out: AtomicU64,
}

/// The fields of a line.
#[derive(Clone, Copy)]
pub(crate) struct Ended<'r> {
    pub activity_id: Guid,
    pub method: &'r Method,
    pub path: &'r str,
    pub asked: &'r HeaderMap,
    pub duration: Duration,
    /// When it ended, by the clock of deadlines.
    pub at: Duration,
}

impl SlowLog {
    pub fn new(threshold: Option<Duration>) -> SlowLog {
        SlowLog { threshold, lines: AtomicU64::new(0), left_out: AtomicU64::new(0) }
    }

    pub fn note<B>(&self, ended: Ended<'_>, answer: &Response<B>) {
        if self.threshold.is_none_or(|threshold| ended.duration < threshold) {
            return;
        }
        if ended.asked.contains_key(FEED_WAIT) {
            return;
        }
        if !self.may_write(ended.at) {
            self.left_out.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let charge = answer.headers().get(&REQUEST_CHARGE).and_then(|charge| charge.to_str().ok());
        let charge = charge.and_then(|charge| charge.parse::<f64>().ok());
        tracing::info!(
            target: "shardlake::slow_request",
            activity_id = %ended.activity_id,
            method = %ended.method,
            path = ended.path,
            status = answer.status().as_u16(),
            charge,
            milliseconds = ended.duration.as_millis() as u64,
            left_out = self.left_out.swap(0, Ordering::Relaxed),
            "slow request"
        );
    }

    fn may_write(&self, at: Duration) -> bool {
        let second = at.as_secs() << 32;
        let count = |lines: u64| if lines >> 32 == at.as_secs() { lines + 1 } else { second + 1 };
        let counted = self.lines.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |lines| {
            Some(count(lines)).filter(|lines| lines & u64::from(u32::MAX) <= LINES_PER_SECOND_MAX)
        });
        counted.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_second_are_bounded() {
        let log = SlowLog::new(Some(Duration::from_secs(1)));
        let written = |second| (0..100).filter(|_| log.may_write(Duration::from_secs(second))).count() as u64;
        assert_eq!(written(7), LINES_PER_SECOND_MAX);
        assert_eq!(written(7), 0);
        assert_eq!(written(8), LINES_PER_SECOND_MAX);
    }
}
