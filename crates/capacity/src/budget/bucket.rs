//! Token bucket with debt, and with credit for unused throughput.
//!
//! The level rises by the rate up to the capacity, which is the amount of one second: an idle client may
//! spend at once the throughput of a second. An operation is admitted while the level is above zero, and its
//! full cost is deducted, so the level may fall below zero: the debt is paid by waiting. Because the cost is
//! known only afterwards, an estimate is deducted on admission and corrected on settlement. Concurrent
//! operations together overdraw by no more than the last one's cost and the errors of the estimates.
//!
//! With burst credit, the overflow of the capacity is banked, up to 300 seconds' worth. The bank lifts the
//! level while the level is below the capacity, at a speed that keeps rate and lift together at 3,000 RU/s.
//!
//! A refusal carries the time to wait: until the level will be above zero, after the clients that
//! were refused before. If all refused clients got the same time, they would all return at once,
//! one would be admitted, and clients give up after a few attempts. These promises are not
//! reservations: an operation is admitted whenever the level is above zero.
//!
//! Levels are counted in grains, the millionth part of a hundredth of a request unit: a rate times microseconds. Times are
//! readings of one monotonic clock; a reading before the last one counts as no time passed.

use std::time::Duration;

use super::{LOW_PRIORITY_RESERVE_PERCENT, Urgency};

const GRAINS: i64 = 1_000_000;
const CENTI: u64 = 100;

/// The capacity in terms of the rate.
const CAPACITY_MILLISECONDS: u64 = 1000;

/// Faster partitions have no burst credit, and no partition bursts beyond it: 3,000 RU/s.
const BURST_RATE_CENTI: u64 = 3_000 * CENTI;
const BURST_SECONDS: u64 = 300;

/// The longest wait that a refusal asks for; then the client asks again.
const RETRY_AFTER_MS_MAX: u64 = 30_000;
/// The time for which promises are kept apart; further refusals get the end of it.
const PROMISED_MILLISECONDS_MAX: u64 = 4_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Burst {
    #[default]
    Off,
    On,
}

/// The budget is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// When the bucket will admit again if only the clients that were refused before ask; at least 1.
    pub retry_after_ms: u64,
}

#[derive(Debug, Clone)]
pub struct Bucket {
    rate_centi: u64,
    burst: Burst,
    level: i64,
    bank: i64,
    /// Expected costs of the refused operations that are due later, by their urgency.
    promised_high: i64,
    promised_low: i64,
    filled_at_us: u64,
}

impl Bucket {
    /// A full one, without credit.
    pub fn new(rate_centi: u64, burst: Burst, now: Duration) -> Self {
        let level = capacity_of(rate_centi);
        let filled_at_us = microseconds(now);
        Bucket { rate_centi, burst, level, bank: 0, promised_high: 0, promised_low: 0, filled_at_us }
    }

    pub fn rate_centi(&self) -> u64 {
        self.rate_centi
    }

    /// Changes the rate from now on. A debt stays a debt; a level above the new capacity is cut.
    pub fn set_rate(&mut self, rate_centi: u64, burst: Burst, now: Duration) {
        self.refill(now);
        (self.rate_centi, self.burst) = (rate_centi, burst);
        self.level = self.level.min(capacity_of(rate_centi));
        self.bank = self.bank.min(self.bank_max());
        assert!(self.bank <= self.bank_max(), "a new rate never leaves more saved than its burst");
    }

    /// Takes `estimate_centi` if the level allows any operation at all.
    pub fn admit(&mut self, estimate_centi: u64, urgency: Urgency, now: Duration) -> Result<(), Refusal> {
        self.refill(now);
        if self.level <= self.floor(urgency) {
            return Err(self.refuse(estimate_centi, urgency));
        }
        self.level = self.level.saturating_sub(grains(estimate_centi));
        debug_assert!(self.level <= capacity_of(self.rate_centi), "a bucket holds no more than its capacity");
        Ok(())
    }

    /// Replaces the estimate of an admitted operation by its cost; by 0 if it never ran.
    pub fn settle(&mut self, estimate_centi: u64, charge_centi: u64) {
        self.level = self.level.saturating_add(grains(estimate_centi)).saturating_sub(grains(charge_centi));
    }

    /// As full, or as deep in debt, as these buckets are together. Their credit is not carried over.
    pub fn fill_like(&mut self, others: &[Bucket]) {
        let level: i128 = others.iter().map(|other| i128::from(other.level)).sum();
        let capacity: i128 = others.iter().map(|other| i128::from(capacity_of(other.rate_centi))).sum();
        if capacity > 0 {
            let own = i128::from(capacity_of(self.rate_centi));
            self.level = i64::try_from(level * own / capacity).unwrap_or(i64::MIN);
            assert!(
                self.level <= capacity_of(self.rate_centi),
                "a successor holds no more than its capacity"
            );
        }
    }

    /// The amount that may be spent at once, in hundredths; negative in debt.
    pub fn level_centi(&mut self, now: Duration) -> i64 {
        self.refill(now);
        self.level.div_euclid(GRAINS)
    }

    /// Burst credit in hundredths.
    pub fn bank_centi(&mut self, now: Duration) -> u64 {
        self.refill(now);
        (self.bank / GRAINS) as u64
    }

    fn refill(&mut self, now: Duration) {
        let now_us = microseconds(now);
        let elapsed_us = now_us.saturating_sub(self.filled_at_us);
        self.filled_at_us = self.filled_at_us.max(now_us);
        let capacity = capacity_of(self.rate_centi);
        let level = self.level.saturating_add(rise(self.rate_centi, elapsed_us));
        let overflow = level.saturating_sub(capacity).max(0);
        self.bank = self.bank.saturating_add(overflow).min(self.bank_max());
        let room = capacity.saturating_sub(level).max(0);
        let lift = self.bank.min(room).min(rise(self.lift_rate_centi(), elapsed_us));
        self.bank -= lift;
        self.level = level.min(capacity) + lift;
        assert!(self.level <= capacity, "a bucket is never filled above its capacity");
        assert!((0..=self.bank_max()).contains(&self.bank), "saved tokens stay between none and the burst");
        self.keep_promises(elapsed_us);
    }

    /// The earliest promises are kept first: of high priority, then of low.
    fn keep_promises(&mut self, elapsed_us: u64) {
        let due = rise(self.speed_centi(), elapsed_us);
        let low_due = due.saturating_sub(self.promised_high).max(0);
        self.promised_high = self.promised_high.saturating_sub(due).max(0);
        self.promised_low = self.promised_low.saturating_sub(low_due).max(0);
    }

    fn refuse(&mut self, estimate_centi: u64, urgency: Urgency) -> Refusal {
        let missing = self.floor(urgency).saturating_sub(self.level).saturating_add(1);
        assert!(missing > 0, "only an operation that lacks tokens is refused");
        let (before, promised) = match urgency {
            Urgency::High => (self.promised_high, &mut self.promised_high),
            Urgency::Low => (self.promised_high + self.promised_low, &mut self.promised_low),
        };
        let most = rise(self.rate_centi, PROMISED_MILLISECONDS_MAX * 1000);
        *promised = promised.saturating_add(grains(estimate_centi)).min(most);
        let missing = missing.saturating_add(before) as u64;
        let wait_us = missing.checked_div(self.speed_centi()).unwrap_or(u64::MAX);
        Refusal { retry_after_ms: (wait_us / 1000 + 1).min(RETRY_AFTER_MS_MAX) }
    }

    /// How fast the level rises below the capacity.
    fn speed_centi(&self) -> u64 {
        self.rate_centi + if self.bank > 0 { self.lift_rate_centi() } else { 0 }
    }

    fn lift_rate_centi(&self) -> u64 {
        match self.burst {
            Burst::Off => 0,
            Burst::On => BURST_RATE_CENTI.saturating_sub(self.rate_centi),
        }
    }

    fn bank_max(&self) -> i64 {
        match self.lift_rate_centi() {
            0 => 0,
            _ => rise(self.rate_centi, BURST_SECONDS * 1_000_000),
        }
    }

    /// The level that must be exceeded.
    fn floor(&self, urgency: Urgency) -> i64 {
        match urgency {
            Urgency::High => 0,
            Urgency::Low => capacity_of(self.rate_centi) / 100 * LOW_PRIORITY_RESERVE_PERCENT as i64,
        }
    }
}

/// At least one request unit, so that the slowest bucket admits an operation when it is full.
fn capacity_of(rate_centi: u64) -> i64 {
    rise(rate_centi, CAPACITY_MILLISECONDS * 1000).max(grains(CENTI))
}

fn rise(rate_centi: u64, elapsed_us: u64) -> i64 {
    i64::try_from(rate_centi.saturating_mul(elapsed_us)).unwrap_or(i64::MAX)
}

fn grains(centi: u64) -> i64 {
    i64::try_from(centi).unwrap_or(i64::MAX).saturating_mul(GRAINS)
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
