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
//! has a later time than any that was given out before: in one millisecond, a counter orders commits.
//! [`CommitTimes::observe`] keeps that true for commits of an earlier run of the program.
//!
//! One lock guards the list of the times that are under way. It is never held over a wait or a
//! callback. A writer takes it twice. A reader takes it once in a millisecond while no commit is
//! under way; with commits under way, each time.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Clock, HybridTime, Timestamp};

/// Times that are further ahead of the clock are not followed: they come of a clock that was wrong.
const OBSERVED_AHEAD_MAX_MS: u64 = 60 * 60 * 1000;

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
    /// No commit that begins from now on gets this time or an earlier one.
    last: HybridTime,
    /// The times of commits under way, in order.
    under_way: VecDeque<HybridTime>,
}

impl CommitTimes {
    pub fn new(clock: Clock) -> CommitTimes {
        CommitTimes(Arc::new(Shared { clock, ..Shared::default() }))
    }

    /// Begins a commit. It is under way until the guard is dropped.
    pub fn begin(&self) -> UnderWay {
        let mut state = self.0.state();
        let time = HybridTime::from(self.0.clock.now()).max(state.last.next());
        assert!(time >= state.last, "times that are given out never go down");
        state.last = time;
        let is_later = state.under_way.back().is_none_or(|last| *last < time);
        assert!(is_later, "commits under way are listed in the order of their times");
        state.under_way.push_back(time);
        drop(state);
        UnderWay { shared: self.0.clone(), time }
    }

    /// Gives later commits times above that of a stored commit, which an earlier run of the program gave
    /// out. Returns whether: a time more than an hour ahead of the clock is ignored, so that one wrong
    /// clock does not move every later commit.
    pub fn observe(&self, time: HybridTime) -> bool {
        let mut state = self.0.state();
        let ahead_ms = time.milliseconds().saturating_sub(self.0.clock.now().milliseconds());
        let follows = ahead_ms <= OBSERVED_AHEAD_MAX_MS;
        if follows {
            state.last = state.last.max(time);
        }
        follows
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
        let above_ms = state.last.milliseconds() + 1;
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
        let seen_ms = state.under_way.front().map_or(latest_ms, |first| first.milliseconds());
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

    /// The millisecond now, at least `above_ms`; times of earlier ones are not given out any more.
    fn advance(&self, state: &mut State, above_ms: u64) -> u64 {
        let now_ms = self.clock.now().milliseconds().max(above_ms);
        state.last = state.last.max(HybridTime::from_milliseconds(now_ms));
        state.last.milliseconds()
    }

    fn end(&self, time: HybridTime) {
        let mut state = self.state();
        let place = state.under_way.binary_search(&time).expect("a commit under way is in the list");
        state.under_way.remove(place);
    }
}

/// A commit that readers may not see yet. Its writer may be cancelled; the task that shows the commit holds this.
#[derive(Debug)]
#[must_use = "the commit is under way until this goes"]
pub struct UnderWay {
    shared: Arc<Shared>,
    time: HybridTime,
}

impl UnderWay {
    /// The time of the commit, which no other commit has.
    pub fn time(&self) -> HybridTime {
        self.time
    }

    /// The commit failed, but may be visible after a restart. It stays under way: no later time is
    /// given out, so no reader misses it.
    pub fn leave_in_doubt(self) {
        std::mem::forget(self);
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.shared.end(self.time);
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
            (first.time().milliseconds(), second.time().milliseconds(), third.time().milliseconds()),
            (1_000, 1_005, 1_005)
        );
        assert!(second.time() < third.time(), "in one millisecond");
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
        let time = Timestamp::from(commit.time());
        assert_eq!((time, times.seen_before()), (Timestamp(5_000), Timestamp(5_000)));
        drop(commit);
        assert_eq!((times.latest(), times.seen_before()), (Timestamp(5_000), Timestamp(5_000)));
    }

    #[test]
    fn times_are_above_those_of_an_earlier_run() {
        let (clock, times) = times(1_000);
        let stored = HybridTime(HybridTime::from_milliseconds(4_000).0 + 9);
        assert!(times.observe(stored));
        assert_eq!(times.begin().time(), stored.next());
        assert!(times.observe(HybridTime::from_milliseconds(2_000)), "an earlier one");
        assert_eq!(times.begin().time(), stored.next().next());
        clock.advance(Duration::from_secs(60));
        assert_eq!(times.begin().time(), HybridTime::from_milliseconds(61_000));
        let wrong = HybridTime::from_milliseconds(61_000 + OBSERVED_AHEAD_MAX_MS + 1);
        assert!(!times.observe(wrong), "the clock was wrong");
        assert!(times.begin().time() < wrong);
        assert!(times.observe(HybridTime::from_milliseconds(61_000 + OBSERVED_AHEAD_MAX_MS)));
    }

    #[test]
    fn many_commits_of_one_millisecond_go_on_in_the_next() {
        let (_, times) = times(1_000);
        let mut last = HybridTime::default();
        for _ in 0..=u32::from(u16::MAX) + 1 {
            let time = times.begin().time();
            assert!(time > last);
            last = time;
        }
        assert_eq!((last.milliseconds(), last.counter()), (1_001, 0));
    }

    #[test]
    fn a_time_between_commits_is_later_than_all_before() {
        let (_, times) = times(1_000);
        let before = Timestamp::from(times.begin().time());
        let between = times.between(Timestamp(0));
        let after = Timestamp::from(times.begin().time());
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
