//! Times of commits, and which commits readers cannot see yet.
//!
//! A client takes a time, reads, and later asks for everything that was written since that time. It
//! misses nothing if every commit that the read did not show has that time or a later one.
//! [`CommitTimes::seen_before`] gives such a time, because each commit takes its own time from here
//! and counts as under way until readers see it.
//!
//! ```text
//! commit A    begin 10:01 ── plan ── queue ── sync ── shown, ends
//! commit B         begin 10:02 ── plan ── queue ─────────────────── sync ── shown, ends
//! seen_before      10:01            10:01               10:02                10:05 (the clock)
//! ```
//!
//! Times that are given out never go down, even when the clock does, so a commit that begins later
//! has no earlier time than any that was given out before. Two commits may have the same time.
//!
//! One lock guards the list of the times that are under way. It is never held over a wait or a
//! callback. A writer takes it twice. A reader takes it once in a millisecond while no commit is
//! under way; with commits under way, each time.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Clock, Timestamp};

/// Gives commits their times. Clones share everything.
#[derive(Debug, Clone, Default)]
pub struct CommitTimes(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    clock: Clock,
    state: Mutex<State>,
    /// The last answer of [`CommitTimes::seen_before`], which stays true.
    seen_before_ms: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// No time below this is given out.
    last_ms: u64,
    /// The times of commits under way and how many have each; in order, none with zero.
    under_way: VecDeque<(u64, u32)>,
}

impl CommitTimes {
    pub fn new(clock: Clock) -> CommitTimes {
        CommitTimes(Arc::new(Shared { clock, ..Shared::default() }))
    }

    /// Begins a commit. It is under way until the guard is dropped.
    pub fn begin(&self) -> UnderWay {
        let mut state = self.0.state();
        let time_ms = self.0.advance(&mut state, 0);
        match state.under_way.back_mut() {
            Some((last_ms, count)) if *last_ms == time_ms => *count += 1,
            back => {
                let is_later = back.is_none_or(|(last_ms, _)| *last_ms < time_ms);
                assert!(is_later, "commits under way are listed in the order of their times");
                state.under_way.push_back((time_ms, 1));
            }
        }
        drop(state);
        UnderWay { shared: self.0.clone(), time_ms }
    }

    /// Every commit that begins from now on has this time or a later one.
    pub fn latest(&self) -> Timestamp {
        Timestamp(self.0.advance(&mut self.0.state(), 0))
    }

    /// A unique time for an event that is no commit: later than that of every commit that began
    /// before, and not later than that of any that begins from now on. It is above `floor`, too,
    /// which may be ahead of the clock: later commits are not moved above `floor`.
    pub fn between(&self, floor: Timestamp) -> Timestamp {
        let mut state = self.0.state();
        let above_ms = state.last_ms + 1;
        let time_ms = self.0.advance(&mut state, above_ms);
        Timestamp(time_ms.max(floor.milliseconds() + 1))
    }

    /// Reads that begin from now on see every commit with an earlier time. Never decreases.
    pub fn seen_before(&self) -> Timestamp {
        self.seen_before_at(self.0.clock.now())
    }

    /// As [`Self::seen_before`], for a caller that has just read the clock: the result may be
    /// earlier by the age of `now`.
    pub fn seen_before_at(&self, now: Timestamp) -> Timestamp {
        let known_ms = self.0.seen_before_ms.load(Ordering::Acquire);
        if known_ms >= now.milliseconds() {
            return Timestamp(known_ms);
        }
        let mut state = self.0.state();
        let latest_ms = self.0.advance(&mut state, 0);
        let seen_ms = state.under_way.front().map_or(latest_ms, |(first_ms, _)| *first_ms);
        assert!(seen_ms >= known_ms, "commits take times that were not passed yet");
        // Under the lock, so that nothing is stored that a later answer is above.
        self.0.seen_before_ms.fetch_max(seen_ms, Ordering::Release);
        Timestamp(seen_ms)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // The state is whole at every point at which something could panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time now, at least `above_ms`; earlier times are not given out any more.
    fn advance(&self, state: &mut State, above_ms: u64) -> u64 {
        state.last_ms = self.clock.now().milliseconds().max(state.last_ms).max(above_ms);
        state.last_ms
    }

    fn end(&self, time_ms: u64) {
        let mut state = self.state();
        let place = state.under_way.binary_search_by_key(&time_ms, |(time_ms, _)| *time_ms);
        let place = place.expect("a commit under way is in the list");
        let (_, count) = &mut state.under_way[place];
        *count -= 1;
        if *count == 0 {
            state.under_way.remove(place);
        }
    }
}

/// A commit that readers may not see yet. Its writer may be cancelled; the task that shows the commit holds this.
#[derive(Debug)]
#[must_use = "the commit is under way until this goes"]
pub struct UnderWay {
    shared: Arc<Shared>,
    time_ms: u64,
}

impl UnderWay {
    /// The time of the commit.
    pub fn time(&self) -> Timestamp {
        Timestamp(self.time_ms)
    }

    /// The commit failed, but may be visible after a restart. It stays under way: no later time is
    /// given out, so no reader misses it.
    pub fn leave_in_doubt(self) {
        std::mem::forget(self);
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.shared.end(self.time_ms);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn times(start: u64) -> (Clock, CommitTimes) {
        let clock = Clock::manual(Timestamp(start));
        (clock.clone(), CommitTimes::new(clock))
    }

    #[test]
    fn nothing_is_seen_behind_the_first_commit_under_way() {
        let (clock, times) = times(1_000);
        assert_eq!(times.seen_before(), Timestamp(1_000));
        let first = times.begin();
        clock.advance(Duration::from_millis(5));
        let (second, third) = (times.begin(), times.begin());
        assert_eq!(
            (first.time(), second.time(), third.time()),
            (Timestamp(1_000), Timestamp(1_005), Timestamp(1_005))
        );
        clock.advance(Duration::from_millis(5));
        assert_eq!(times.seen_before(), Timestamp(1_000));
        drop(second);
        assert_eq!(times.seen_before(), Timestamp(1_000));
        drop(first);
        assert_eq!(times.seen_before(), Timestamp(1_005));
        drop(third);
        assert_eq!(times.seen_before(), Timestamp(1_010));
        assert!(times.0.state().under_way.is_empty());
    }

    #[test]
    fn a_commit_in_doubt_is_never_passed() {
        let (clock, times) = times(1_000);
        times.begin().leave_in_doubt();
        clock.advance(Duration::from_secs(60));
        drop(times.begin());
        assert_eq!(times.seen_before(), Timestamp(1_000));
        assert_eq!(times.0.state().under_way.len(), 1);
    }

    #[test]
    fn times_do_not_follow_a_clock_that_goes_back() {
        let clock = Clock::manual(Timestamp(5_000));
        let times = CommitTimes::new(clock.clone());
        assert_eq!(times.seen_before(), Timestamp(5_000));
        let Clock::Manual(hands) = &clock else { unreachable!("it was made so") };
        hands.store(2_000, Ordering::SeqCst);
        let commit = times.begin();
        assert_eq!((commit.time(), times.seen_before()), (Timestamp(5_000), Timestamp(5_000)));
        drop(commit);
        assert_eq!((times.latest(), times.seen_before()), (Timestamp(5_000), Timestamp(5_000)));
    }

    #[test]
    fn a_time_between_commits_is_later_than_all_before() {
        let (_, times) = times(1_000);
        let before = times.begin().time();
        let between = times.between(Timestamp(0));
        let after = times.begin().time();
        assert!(before < between && between <= after, "{before:?} {between:?} {after:?}");
        assert_eq!(times.between(Timestamp(7_000)), Timestamp(7_001));
        assert!(times.latest() < Timestamp(7_000), "commits keep to the clock");
    }

    #[test]
    fn writers_and_readers_on_threads_agree() {
        let times = CommitTimes::new(Clock::System);
        let shown: Mutex<Vec<u64>> = Mutex::default();
        let ended = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        let commit = times.begin();
                        shown.lock().expect("whole").push(commit.time().milliseconds());
                        drop(commit);
                    }
                    ended.fetch_add(1, Ordering::SeqCst);
                });
            }
            scope.spawn(|| {
                while ended.load(Ordering::SeqCst) < 3 {
                    let seen = times.seen_before();
                    let before = shown.lock().expect("whole").len();
                    std::thread::yield_now();
                    let later = shown.lock().expect("whole")[before..].to_vec();
                    assert!(later.iter().all(|time| *time >= seen.milliseconds()));
                }
            });
        });
        assert!(times.0.state().under_way.is_empty());
    }
}
