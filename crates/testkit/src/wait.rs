//! Waiting for an event, for tests without a runtime. The guard turns a hang into a failure; it is no verdict on speed.

use std::time::{Duration, Instant};

/// Longer than any wait on the busiest machine.
pub const HANG: Duration = Duration::from_secs(600);

/// Asks until the answer is yes.
///
/// # Panics
/// When it hangs.
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < HANG, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}
