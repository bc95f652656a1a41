//! Budget of a container: those of its partitions, and that of its database where the throughput is shared.
//!
//! It outlives every change of the container. Publishing new ranges or a new offer calls
//! [`ContainerBudget::follow`]; partitions that stay keep their level, debt and credit, and new ones begin as
//! full as their sources. Operations find their partition's budget without a lock, by the id of its range. The budget of a
//! partition, or of a database's containers together, is a bucket, the expected cost of an operation, and the recent use.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;

use super::{Bucket, Burst, Refusal, Urgency, shares_of};

/// Throughput that a container may use.
#[derive(Debug, Clone)]
pub enum Allowance {
    /// No limit; nothing is counted here.
    Unlimited,
    /// Its own throughput in RU/s, divided over its partitions.
    Own { throughput: u64 },
    /// The database's throughput, whichever partitions use it.
    Shared(Arc<PartitionBudget>),
}

/// A partition and the throughput that was set for it by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeThroughput<'r> {
    pub range_id: u32,
    /// The ranges that it replaced.
    pub parents: &'r [u32],
    pub by_hand: Option<u64>,
}

/// The rules that hold for all containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetRules {
    pub burst: Burst,
    /// RU/s that no physical partition exceeds.
    pub partition_throughput_max: u64,
}

#[derive(Debug)]
pub struct ContainerBudget(ArcSwap<Plan>);

#[derive(Debug, Default)]
struct Plan {
    is_limited: bool,
    /// By range id, ascending.
    partitions: Vec<(u32, Arc<PartitionBudget>)>,
    shared: Option<Arc<PartitionBudget>>,
}

impl Default for ContainerBudget {
    /// Unlimited until the first [`ContainerBudget::follow`].
    fn default() -> Self {
        ContainerBudget(ArcSwap::from_pointee(Plan::default()))
    }
}

impl ContainerBudget {
    /// Adopts the ranges and their common allowance.
    pub fn follow(
        &self,
        ranges: &[RangeThroughput<'_>],
        allowance: &Allowance,
        rules: BudgetRules,
        now: Duration,
    ) {
        let old = self.0.load();
        let max_centi = rules.partition_throughput_max * 100;
        let (rates, shared) = match allowance {
            Allowance::Unlimited => {
                self.0.store(Arc::new(Plan::default()));
                return;
            }
            Allowance::Own { throughput } => {
                let weights: Vec<_> = ranges.iter().map(|range| range.by_hand).collect();
                (shares_of(throughput * 100, &weights), None)
            }
            Allowance::Shared(budget) => (vec![max_centi; ranges.len()], Some(budget.clone())),
        };
        assert_eq!(rates.len(), ranges.len(), "each range has its share of the throughput");
        // A shared throughput has its credit or debt in one place, so the partitions below it only keep their ceiling.
        let burst = if shared.is_some() { Burst::Off } else { rules.burst };
        let budget_of = |(range, rate): (&RangeThroughput<'_>, u64)| {
            let rate = rate.min(max_centi);
            let budget = match old.partition(range.range_id) {
                Some(budget) => {
                    budget.set_rate(rate, burst, now);
                    budget.clone()
                }
                None => {
                    let parents = range.parents.iter().filter_map(|parent| old.partition(*parent));
                    let parents: Vec<&PartitionBudget> = parents.map(|parent| &**parent).collect();
                    Arc::new(PartitionBudget::succeeding(&parents, rate, burst, now))
                }
            };
            (range.range_id, budget)
        };
        let mut partitions: Vec<_> = ranges.iter().zip(rates).map(budget_of).collect();
        partitions.sort_by_key(|(range_id, _)| *range_id);
        assert!(
            partitions.is_sorted_by(|left, right| left.0 < right.0),
            "each range has one budget, in the order that the binary search needs"
        );
        self.0.store(Arc::new(Plan { is_limited: true, partitions, shared }));
    }

    /// Leave for one operation on a partition: nothing to settle where nothing is limited. `now` is asked only if it matters.
    pub fn admit(
        &self,
        range_id: u32,
        urgency: Urgency,
        now: impl FnOnce() -> Duration,
    ) -> Result<Option<Reservation>, Spent> {
        let plan = self.0.load();
        if !plan.is_limited {
            return Ok(None);
        }
        // A range that the plan does not know has ended or is not yet published: the serving partition reports this.
        let Some(partition) = plan.partition(range_id) else { return Ok(None) };
        let now = now();
        let own_centi = partition.admit(urgency, now).map_err(Spent::Partition)?;
        let shared = match &plan.shared {
            None => None,
            Some(budget) => match budget.admit(urgency, now) {
                Ok(reserved_centi) => Some((budget.clone(), reserved_centi)),
                Err(refusal) => {
                    partition.release(own_centi);
                    return Err(Spent::Database(refusal));
                }
            },
        };
        Ok(Some(Reservation { own: Some((partition.clone(), own_centi)), shared }))
    }

    /// Deducts costs without a reservation, or beyond it: the operation itself is not refused, but
    /// the next ones may be.
    pub fn debit(&self, range_id: u32, charge_centi: u64) {
        let plan = self.0.load();
        for budget in plan.partition(range_id).into_iter().chain(&plan.shared) {
            budget.debit(charge_centi);
        }
    }

    pub fn is_limited(&self) -> bool {
        self.0.load().is_limited
    }

    /// State of each partition's budget; empty without limits.
    pub fn report(&self, now: Duration) -> Vec<(u32, BudgetReport)> {
        let plan = self.0.load();
        plan.partitions.iter().map(|(range_id, budget)| (*range_id, budget.report(now))).collect()
    }
}

impl Plan {
    fn partition(&self, range_id: u32) -> Option<&Arc<PartitionBudget>> {
        let at = self.partitions.binary_search_by_key(&range_id, |(range_id, _)| *range_id).ok()?;
        Some(&self.partitions[at].1)
    }
}

/// Which budget refused, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spent {
    Partition(Refusal),
    /// The one that the containers of the database share.
    Database(Refusal),
}

impl Spent {
    pub fn retry_after_ms(self) -> u64 {
        match self {
            Spent::Partition(refusal) | Spent::Database(refusal) => refusal.retry_after_ms,
        }
    }
}

/// Reservations of an admitted operation in its budgets. Dropped unsettled, they are given back.
#[derive(Debug)]
#[must_use = "what the operation cost must be settled"]
pub struct Reservation {
    own: Option<(Arc<PartitionBudget>, u64)>,
    shared: Option<(Arc<PartitionBudget>, u64)>,
}

impl Reservation {
    /// Asks again after a wait: others may have spent the budget meanwhile. After a refusal nothing is held.
    pub fn admit_again(&mut self, urgency: Urgency, now: Duration) -> Result<(), Spent> {
        if let Some((budget, reserved_centi)) = self.own.take() {
            budget.admit_again(reserved_centi, urgency, now).map_err(|refusal| {
                self.release();
                Spent::Partition(refusal)
            })?;
            self.own = Some((budget, reserved_centi));
        }
        if let Some((budget, reserved_centi)) = self.shared.take() {
            budget.admit_again(reserved_centi, urgency, now).map_err(|refusal| {
                self.release();
                Spent::Database(refusal)
            })?;
            self.shared = Some((budget, reserved_centi));
        }
        Ok(())
    }

    fn release(&mut self) {
        for (budget, reserved_centi) in self.own.take().into_iter().chain(self.shared.take()) {
            budget.release(reserved_centi);
        }
    }

    pub fn settle(mut self, charge_centi: u64) {
        for (budget, reserved_centi) in self.own.take().into_iter().chain(self.shared.take()) {
            budget.settle(reserved_centi, charge_centi);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.release();
    }
}

/// Expected cost before any operation was measured: one request unit.
const FIRST_ESTIMATE_CENTI: u64 = 100;
/// The weight of the newest charge in the estimate is one in this many.
const ESTIMATE_WEIGHT: u64 = 8;

/// For many threads at once; one short lock for admission, one for settlement.
#[derive(Debug)]
pub struct PartitionBudget(Mutex<PartitionState>);

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
struct PartitionState {
    bucket: Bucket,
    /// Times [`ESTIMATE_WEIGHT`], so that the mean of small charges is not lost in rounding.
    estimate: u64,
    recent: RecentUse,
    refused: u64,
}

impl PartitionBudget {
    pub fn new(rate_centi: u64, burst: Burst, now: Duration) -> Self {
        PartitionBudget(Mutex::new(PartitionState {
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
    fn state(&self) -> MutexGuard<'_, PartitionState> {
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
