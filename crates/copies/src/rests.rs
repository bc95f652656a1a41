//! Rests between two rounds of an index, so that requests have the machine first.
//!
//! | | rest |
//! |---|---|
//! | a read waits for the index | none |
//! | no request in the last 100 ms | none |
//! | requests, and the index is more than 60 s behind | as long as the work |
//! | requests, and there is more than a round takes | fifteen times the work |
//! | requests | three times the work |
//!
//! A rest beside requests is 10 to 500 ms. Commits of many rows cost less for each row: an index that
//! collects more changes needs less of the machine. It falls behind where clients use all of that.

use std::time::Duration;

use shardlake_router::Serving;
use shardlake_stdx::Timestamp;

/// Time for which changes collect before a round.
pub(crate) const COLLECT: Duration = Duration::from_millis(10);
const REST_MAX: Duration = Duration::from_millis(500);
const BEHIND_MS: u64 = 60_000;

/// The rest after a round that began at a time of the clock, and has applied changes up to a time.
pub(crate) fn after(serving: &Serving, begun: Duration, (upto, is_all): (Timestamp, bool)) -> Duration {
    let clock = serving.clock();
    let worked = clock.elapsed().saturating_sub(begun);
    let behind_ms = clock.now().milliseconds().saturating_sub(upto.milliseconds());
    match serving.stores().have_clients() {
        true => beside_clients(worked, behind_ms, is_all),
        false => Duration::ZERO,
    }
}

fn beside_clients(worked: Duration, behind_ms: u64, is_all: bool) -> Duration {
    let times = match is_all {
        _ if behind_ms > BEHIND_MS => 1,
        true => 3,
        false => 15,
    };
    (worked * times).clamp(COLLECT, REST_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_come_first_until_an_index_is_far_behind() {
        let work = Duration::from_millis(20);
        assert_eq!(beside_clients(work, 0, true), 3 * work);
        assert_eq!(beside_clients(work, 0, false), 15 * work);
        assert_eq!(beside_clients(work, BEHIND_MS + 1, false), work);
        assert_eq!(beside_clients(Duration::from_millis(1), 0, true), COLLECT);
        assert_eq!(beside_clients(Duration::from_secs(9), 0, true), REST_MAX);
    }
}
