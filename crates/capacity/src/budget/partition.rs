//! Budget of one physical partition, or of a database's containers together: a bucket, the expected
//! cost of an operation, and the recent use.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Bucket, Burst, Refusal, Urgency};

/// Expected cost before any operation was measured: one request unit.
const FIRST_ESTIMATE_CENTI: u64 = 100;
/// The weight of the newest charge in the estimate is one in this many.
const ESTIMATE_WEIGHT: u64 = 8;

/// For many threads at once; one short lock for admission, one for settlement.
#[derive(Debug)]
pub struct PartitionBudget(Mutex<State>);

/// State of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetReport {
    /// Hundredths of a request unit per second.
    pub rate_centi: u64,
    /// The amount that may be spent at once; negative in debt.
    pub level_centi: i64,
    /// Burst credit.
    pub bank_centi: u64,
    /// Use in the busiest second of the last one to two minutes.
    pub peak_centi: u64,
    /// Operations refused so far.
    pub refused: u64,
}

#[derive(Debug)]
struct State {
    bucket: Bucket,
    /// Times [`ESTIMATE_WEIGHT`], so that the mean of small charges is not lost in rounding.
    estimate: u64,
    recent: RecentUse,
    refused: u64,
}

impl PartitionBudget {
    pub fn new(rate_centi: u64, burst: Burst, now: Duration) -> Self {
        PartitionBudget(Mutex::new(State {
            bucket: Bucket::new(rate_centi, burst, now),
            estimate: FIRST_ESTIMATE_CENTI * ESTIMATE_WEIGHT,
            recent: RecentUse::default(),
            refused: 0,
        }))
    }

    /// The budget of a partition that replaces others, or a part of one.
    pub fn succeeding(parents: &[&PartitionBudget], rate_centi: u64, burst: Burst, now: Duration) -> Self {
        let budget = PartitionBudget::new(rate_centi, burst, now);
        let mut state = budget.state();
        let buckets: Vec<Bucket> = parents.iter().map(|parent| parent.bucket(now)).collect();
        state.bucket.fill_like(&buckets);
        if let Some(parent) = parents.first() {
            state.estimate = parent.state().estimate;
        }
        drop(state);
        budget
    }

    fn bucket(&self, now: Duration) -> Bucket {
        let bucket = &mut self.state().bucket;
        bucket.level_centi(now);
        bucket.clone()
    }

    pub fn set_rate(&self, rate_centi: u64, burst: Burst, now: Duration) {
        self.state().bucket.set_rate(rate_centi, burst, now);
    }

    /// Reserves the expected cost of an operation and returns it, for [`PartitionBudget::settle`].
    pub fn admit(&self, urgency: Urgency, now: Duration) -> Result<u64, Refusal> {
        let mut state = self.state();
        let estimate_centi = state.estimate / ESTIMATE_WEIGHT;
        match state.bucket.admit(estimate_centi, urgency, now) {
            Ok(()) => state.recent.move_to(now.as_secs()),
            Err(refusal) => {
                state.refused += 1;
                return Err(refusal);
            }
        }
        Ok(estimate_centi)
    }

    /// Asks again for an operation that has waited for something else since it was admitted, with
    /// its reserved amount. After a refusal nothing is reserved.
    pub fn admit_again(&self, reserved_centi: u64, urgency: Urgency, now: Duration) -> Result<(), Refusal> {
        let mut state = self.state();
        state.bucket.settle(reserved_centi, 0);
        let admitted = state.bucket.admit(reserved_centi, urgency, now);
        state.refused += u64::from(admitted.is_err());
        admitted
    }

    pub fn settle(&self, reserved_centi: u64, charge_centi: u64) {
        let mut state = self.state();
        state.bucket.settle(reserved_centi, charge_centi);
        state.estimate = state.estimate - state.estimate / ESTIMATE_WEIGHT + charge_centi;
        state.recent.add(charge_centi);
    }

    /// Deducts costs that arose next to, or after, a settled operation.
    pub fn debit(&self, charge_centi: u64) {
        let mut state = self.state();
        state.bucket.settle(0, charge_centi);
        state.recent.add(charge_centi);
    }

    /// Gives back the reservation of an operation that never ran.
    pub fn release(&self, reserved_centi: u64) {
        self.state().bucket.settle(reserved_centi, 0);
    }

    pub fn report(&self, now: Duration) -> BudgetReport {
        let mut state = self.state();
        state.recent.move_to(now.as_secs());
        BudgetReport {
            rate_centi: state.bucket.rate_centi(),
            level_centi: state.bucket.level_centi(now),
            bank_centi: state.bucket.bank_centi(now),
            peak_centi: state.recent.peak_centi(),
            refused: state.refused,
        }
    }

    /// Numbers only: a panic elsewhere cannot have left them half changed in a way that matters.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The busiest second of this minute and of the last. A charge counts for the second of the latest admission.
#[derive(Debug, Default)]
struct RecentUse {
    second: u64,
    used_centi: u64,
    peak_centi: u64,
    peak_before_centi: u64,
}

impl RecentUse {
    fn add(&mut self, charge_centi: u64) {
        self.used_centi = self.used_centi.saturating_add(charge_centi);
        self.peak_centi = self.peak_centi.max(self.used_centi);
    }

    fn move_to(&mut self, second: u64) {
        if second <= self.second {
            return;
        }
        let minutes = second / 60 - self.second / 60;
        if minutes > 0 {
            self.peak_before_centi = if minutes == 1 { self.peak_centi } else { 0 };
            self.peak_centi = 0;
        }
        (self.second, self.used_centi) = (second, 0);
    }

    fn peak_centi(&self) -> u64 {
        self.peak_centi.max(self.peak_before_centi)
    }
}
