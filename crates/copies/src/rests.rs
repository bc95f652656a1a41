//! Rests between two rounds of an index, so that requests have the machine first.
//!
//! | | rest |
//! |---|---|
//! | a read waits for the index | none |
//! | no request in the last 100 ms | none |
//! | requests | three times the work, at least [`COLLECT`] |
//! | requests, and the index is more than 60 s behind | as long as the work, at least [`COLLECT`] |
//!
//! Under load the index falls behind, and its commits grow: those of many rows cost less for each row.

use std::time::Duration;

use shardlake_router::Serving;
use shardlake_stdx::Timestamp;

/// Time for which changes collect before a round.
pub(crate) const COLLECT: Duration = Duration::from_millis(10);
const REST_MAX: Duration = Duration::from_millis(500);
const BEHIND_MS: u64 = 60_000;

/// The rest after work that began at a time of the clock, and has applied changes up to a time.
pub(crate) fn after(serving: &Serving, begun: Duration, upto: Timestamp) -> Duration {
    let clock = serving.clock();
    let worked = clock.elapsed().saturating_sub(begun);
    let behind_ms = clock.now().milliseconds().saturating_sub(upto.milliseconds());
    rest(worked, behind_ms, serving.stores().have_clients())
}

fn rest(worked: Duration, behind_ms: u64, has_clients: bool) -> Duration {
    let times = match (has_clients, behind_ms > BEHIND_MS) {
        (false, _) => return Duration::ZERO,
        (true, false) => 3,
        (true, true) => 1,
    };
    (worked * times).clamp(COLLECT, REST_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_come_first_until_an_index_is_far_behind() {
        let work = Duration::from_millis(20);
        assert_eq!(rest(work, 0, false), Duration::ZERO);
        assert_eq!(rest(work, 0, true), 3 * work);
        assert_eq!(rest(work, BEHIND_MS + 1, true), work);
        assert_eq!(rest(Duration::from_millis(1), 0, true), COLLECT);
        assert_eq!(rest(Duration::from_secs(9), 0, true), REST_MAX);
    }
}
