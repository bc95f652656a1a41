//! Share of time for background work, derived from foreground latency.
//!
//! The foreground is the work that clients wait for. The background is all other work: the copy of
//! a partition, catching up, dropping ranges, purging, filling an index, compacting a change log.
//! Background work asks one pacer for each shard, in small pieces: after a piece that took `t` it
//! rests for `t × (1 − share) ÷ share`.
//!
//! ```text
//! share
//! 1     ┐ no client: full speed
//! 3/8   └┐            ╱‾│  no more slow writes than usual: a step up
//! 1/4    └ a client  ╱  │ ╱│
//!          comes    ╱   │╱ │    more slow writes than usual: half
//! 1/32 ─────────────────────── the least: the work always ends
//! ```
//!
//! The measure is the latency of clients' writes. The share follows additive increase and
//! multiplicative decrease, as senders do on a network that they share. *Slow* is relative: a write
//! is slow that takes several times as long as writes usually take without background work. Some
//! writes are slow anyway; only the additional ones count. So the pacer needs no setting for the
//! disk and the machine that it runs on.
//!
//! Pure: its caller passes in the time and the measurements. `background.rs` measures and rests.

use std::time::Duration;

/// Shares are counted in parts of this.
const FULL: u32 = 1024;
/// The least share, with which all work ends at last.
const LEAST: u32 = FULL / 32;
/// The largest where clients are there: they need processors, too.
const MOST_BESIDE_CLIENTS: u32 = FULL * 3 / 8;
/// The share that work begins with where clients are there.
const FIRST: u32 = FULL / 4;
/// The increase of the share while clients feel nothing.
const STEP: u32 = FULL / 32;
/// How often the share may change.
const WINDOW: Duration = Duration::from_millis(20);
/// Clients count as absent after this time without a request.
const GONE_AFTER: Duration = Duration::from_millis(100);
/// A write is slow that takes so many times as long as usual, …
const SLOW_TIMES: u64 = 3;
/// … and so many microseconds longer: less than this is the clock and the scheduler.
const SLOW_MORE_US: u64 = 250;
/// The usual time is a moving average over about so many writes, …
const USUAL_OVER: u64 = 64;
/// … in which one counts for at most so many times the usual time, so that one hiccup does not hide others.
const USUAL_TIMES_MAX: u64 = 8;
/// The usual part of slow writes is one over about so many.
const USUAL_SLOW_OVER: u64 = 512;
/// The cost of one slow write, in the unit of the shares of slow writes.
const SLOW: u64 = 1_000_000;
/// Slow writes that are allowed in any case, of [`SLOW`] writes: one in a hundred.
const ALLOWED: u64 = SLOW / 100;
/// The longest rest after one piece: work checks after each rest whether it should stop.
const REST_MAX: Duration = Duration::from_millis(100);

const _: () = assert!(LEAST <= FIRST && FIRST <= MOST_BESIDE_CLIENTS, "background work starts in its bounds");
const _: () = assert!(MOST_BESIDE_CLIENTS < FULL, "background work beside clients always rests");

/// Foreground measurements, and the share for the background that follows from them.
#[derive(Debug)]
pub(crate) struct BackgroundPace {
    share: u32,
    /// Usual latency of a client's write without background work, in microseconds; 0 while unknown.
    usual_us: u64,
    /// How many of [`SLOW`] writes are slow without background work.
    usual_slow: u64,
    /// When a client's request was seen last.
    felt: Option<Duration>,
    /// The remaining allowance of slow writes: each write adds its part, up to one.
    spare: i64,
    /// When the share was looked at last, and whether clients were there then.
    decided: Duration,
    was_alone: bool,
}

impl Default for BackgroundPace {
    fn default() -> Self {
        BackgroundPace {
            share: FULL,
            usual_us: 0,
            usual_slow: 0,
            felt: None,
            spare: 0,
            decided: Duration::ZERO,
            was_alone: true,
        }
    }
}

impl BackgroundPace {
    /// A client's write took so long, with or without background work at that time.
    pub fn note(&mut self, now: Duration, latency: Duration, is_busy: bool) {
        self.note_client(now);
        let us = (latency.as_micros() as u64).max(1);
        let usual = self.usual_us;
        let is_slow = usual > 0 && us > usual * SLOW_TIMES + SLOW_MORE_US;
        self.usual_us = match usual {
            0 => us,
            // Background work makes nothing quicker, so a low time is true also while it is continuing.
            _ if is_busy && us >= usual => usual,
            _ => (usual * (USUAL_OVER - 1) + us.min(usual * USUAL_TIMES_MAX)).div_ceil(USUAL_OVER),
        };
        let slow = if is_slow { SLOW } else { 0 };
        if !is_busy {
            self.usual_slow = (self.usual_slow * (USUAL_SLOW_OVER - 1) + slow) / USUAL_SLOW_OVER;
        }
        // Half as many again as usual are no more than chance brings.
        let allowed = ALLOWED.max(self.usual_slow * 3 / 2);
        self.spare = (self.spare + allowed as i64 - slow as i64).clamp(-(SLOW as i64), SLOW as i64);
    }

    /// A client has asked for something.
    pub fn note_client(&mut self, now: Duration) {
        self.felt = Some(now);
    }

    /// Background work begins after a time without.
    pub fn begin(&mut self, now: Duration) {
        self.was_alone = self.is_alone(now);
        self.share = if self.was_alone { FULL } else { self.share.min(FIRST) };
        (self.decided, self.spare) = (now, 0);
    }

    /// Whether no client has asked for anything lately.
    pub fn is_alone(&self, now: Duration) -> bool {
        self.felt.is_none_or(|felt| now.saturating_sub(felt) > GONE_AFTER)
    }

    /// How long to rest after a piece of work. `patience` divides the share of work that may take its time.
    pub fn rest_after(&mut self, now: Duration, worked: Duration, patience: u32) -> Duration {
        self.decide(now);
        let share = (self.share / patience.max(1)).max(1);
        if share == FULL {
            return Duration::ZERO;
        }
        (worked * (FULL - share) / share).min(REST_MAX)
    }

    fn decide(&mut self, now: Duration) {
        if now.saturating_sub(self.decided) < WINDOW {
            return;
        }
        self.decided = now;
        let is_alone = self.is_alone(now);
        let has_come = std::mem::replace(&mut self.was_alone, is_alone) && !is_alone;
        self.share = if is_alone {
            FULL
        } else if self.spare < 0 {
            self.spare = 0;
            (self.share / 2).max(LEAST)
        } else if has_come {
            self.share.min(FIRST)
        } else {
            (self.share + STEP).min(MOST_BESIDE_CLIENTS)
        };
        assert!(
            (LEAST..=FULL).contains(&self.share),
            "background work neither stops nor takes more than all"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const USUAL: Duration = Duration::from_micros(300);

    /// A shard with a clock set by hand.
    #[derive(Default)]
    struct Simulated {
        pacer: BackgroundPace,
        now: Duration,
    }

    impl Simulated {
        /// A second of clients alone, 500 writes.
        fn quiet_second(&mut self, latency: Duration) {
            for _ in 0..500 {
                self.now += 2 * MS;
                self.pacer.note(self.now, latency, false);
            }
        }

        /// Works in pieces of a millisecond for some time. A client writes every two milliseconds;
        /// `latency` gives the duration of the write by whether a piece was at work. Returns the
        /// share of the time that was worked.
        fn work(&mut self, time: Duration, latency: impl Fn(Duration) -> Option<Duration>) -> f64 {
            self.pacer.begin(self.now);
            let (end, began) = (self.now + time, self.now);
            let (mut worked, mut due) = (Duration::ZERO, self.now);
            while self.now < end {
                self.now += MS;
                worked += MS;
                let rest = self.pacer.rest_after(self.now, MS, 1);
                self.now += rest;
                while due < self.now {
                    due += 2 * MS;
                    // By the share of the time that is worked now.
                    let busy = MS.as_secs_f64() / (MS + rest).as_secs_f64();
                    if let Some(latency) = latency(Duration::from_secs_f64(busy)) {
                        self.pacer.note(due, latency, true);
                    }
                }
            }
            worked.as_secs_f64() / (self.now - began).as_secs_f64()
        }
    }

    #[test]
    fn work_goes_at_full_speed_where_no_client_is_there() {
        let mut simulated = Simulated::default();
        assert!(simulated.work(Duration::from_secs(1), |_| None) > 0.999);
        // Also some time after the last client has left.
        simulated.quiet_second(USUAL);
        simulated.now += Duration::from_secs(1);
        assert!(simulated.work(Duration::from_secs(1), |_| None) > 0.999);
    }

    #[test]
    fn work_begins_slowly_beside_clients_and_takes_all_that_they_do_not_feel() {
        let mut simulated = Simulated::default();
        simulated.quiet_second(USUAL);
        let first = simulated.work(100 * MS, |_| Some(USUAL));
        assert!(first < 0.35, "{first}");
        let later = simulated.work(Duration::from_secs(5), |_| Some(USUAL));
        assert!(later > 0.35 && later < 0.376, "{later}");
    }

    #[test]
    fn work_that_clients_feel_goes_down_to_the_least_and_never_stops() {
        let mut simulated = Simulated::default();
        simulated.quiet_second(USUAL);
        let share = simulated.work(Duration::from_secs(10), |_| Some(20 * MS));
        let least = f64::from(LEAST) / f64::from(FULL);
        assert!(share >= least * 0.99 && share < least * 1.5, "{share}");
    }

    #[test]
    fn work_finds_the_share_that_clients_do_not_feel() {
        let mut simulated = Simulated::default();
        simulated.quiet_second(USUAL);
        // Clients are held up where more than 0.3 of the time is worked.
        let feels = |busy: Duration| Some(if busy.as_secs_f64() > 0.3 { 5 * MS } else { USUAL });
        let share = simulated.work(Duration::from_secs(20), feels);
        assert!((0.12..0.3).contains(&share), "{share}");
    }

    #[test]
    fn slow_is_what_this_disk_does_not_do_by_itself() {
        let mut slow_disk = Simulated::default();
        slow_disk.quiet_second(15 * MS);
        let share = slow_disk.work(Duration::from_secs(5), |_| Some(20 * MS));
        assert!(share > 0.35, "writes take no longer than on that disk anyway: {share}");
        // The usual latency is learned without background work, or from lower latencies.
        let usual = slow_disk.pacer.usual_us;
        slow_disk.work(Duration::from_secs(5), |_| Some(200 * MS));
        assert_eq!(slow_disk.pacer.usual_us, usual);
    }

    #[test]
    fn one_hiccup_does_not_become_usual() {
        let mut simulated = Simulated::default();
        simulated.quiet_second(USUAL);
        simulated.pacer.note(simulated.now, Duration::from_secs(9), false);
        assert!(simulated.pacer.usual_us < 350, "{}", simulated.pacer.usual_us);
    }

    #[test]
    fn writes_that_are_slow_anyway_do_not_count() {
        let mut simulated = Simulated::default();
        // One in twenty is slow on this disk, with background work or without.
        let latency = |number: u32| if number.is_multiple_of(20) { 20 * MS } else { USUAL };
        for number in 0..2000 {
            simulated.now += 2 * MS;
            simulated.pacer.note(simulated.now, latency(number), false);
        }
        let number = std::cell::Cell::new(0);
        let next = |_| {
            number.set(number.get() + 1);
            Some(latency(number.get()))
        };
        let share = simulated.work(Duration::from_secs(20), next);
        assert!(share > 0.3, "{share}");
    }

    #[test]
    fn clients_that_come_while_work_goes_at_full_speed_slow_it_down_at_once() {
        let mut pacer = BackgroundPace::default();
        pacer.begin(Duration::ZERO);
        assert_eq!(pacer.rest_after(30 * MS, MS, 1), Duration::ZERO);
        pacer.note_client(31 * MS);
        assert_eq!(pacer.rest_after(51 * MS, MS, 1), 3 * MS);
    }

    #[test]
    fn patient_work_takes_less_and_rests_are_bounded() {
        let mut pacer = BackgroundPace::default();
        assert_eq!(pacer.rest_after(MS, MS, 4), 3 * MS);
        assert_eq!(pacer.rest_after(MS, Duration::from_secs(60), 4), REST_MAX);
    }
}
