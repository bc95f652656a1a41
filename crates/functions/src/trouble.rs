//! A part of the source whose changes fail: attempts, and the halving of a batch until one change is left.

use std::time::Duration;

use shardlake_catalog::FunctionRetry;
use shardlake_stdx::Random;

use crate::batch::Batch;

/// Attempts with fresh reads, after a condition failed.
const CONDITIONS_MAX: u32 = 20;

#[derive(Debug, Default)]
pub(crate) struct Trouble {
    /// Ends of the parts that the batch was cut into, the next one last.
    ends: Vec<u64>,
    pub attempts: u32,
    conditions: u32,
    /// In terms of the clock's elapsed time.
    pub not_before: Duration,
}

/// The next step after a failure.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// At once, with fresh reads.
    Again,
    Wait(Duration),
    /// The next batch is a part of this one.
    Halved,
    /// Several changes of one commit, which has no halves.
    Sift,
    /// One change.
    GiveUp,
}

impl Trouble {
    /// The end that the next batch must not pass.
    pub fn limit(&self) -> Option<u64> {
        self.ends.last().copied()
    }

    pub fn failed(
        &mut self,
        batch: &Batch,
        is_condition: bool,
        retry: &FunctionRetry,
        random: &Random,
    ) -> Then {
        if is_condition && self.conditions < CONDITIONS_MAX {
            self.conditions += 1;
            return Then::Again;
        }
        self.attempts += 1;
        self.conditions = 0;
        let several = batch.changes.len() > 1;
        // A part of a batch is tried once, until one change is left.
        let attempts_max = if several && !self.ends.is_empty() { 1 } else { retry.attempts };
        if self.attempts < attempts_max {
            return Then::Wait(backoff(retry, self.attempts, random));
        }
        match (several, middle(batch)) {
            (false, _) => Then::GiveUp,
            (true, None) => Then::Sift,
            (true, Some(middle)) => {
                if self.ends.last() != Some(&batch.upto) {
                    self.ends.push(batch.upto);
                }
                self.ends.push(middle);
                self.attempts = 0;
                Then::Halved
            }
        }
    }

    /// Everything up to an LSN is done. Returns whether the trouble is over.
    pub fn done(&mut self, upto: u64) -> bool {
        (self.attempts, self.conditions, self.not_before) = (0, 0, Duration::ZERO);
        self.ends.retain(|end| *end > upto);
        self.ends.is_empty()
    }
}

/// Full jitter: between nothing and a time that doubles with each attempt.
pub(crate) fn backoff(retry: &FunctionRetry, attempt: u32, random: &Random) -> Duration {
    let doubled = u64::from(retry.first_ms) << attempt.saturating_sub(1).min(20);
    Duration::from_millis(random.below(doubled.min(u64::from(retry.max_ms)) + 1))
}

/// The LSN of a commit that cuts the batch in two, if it has several commits.
fn middle(batch: &Batch) -> Option<u64> {
    let last = batch.changes.last()?.lsn;
    let lsn = batch.changes[(batch.changes.len() - 1) / 2].lsn;
    if lsn < last {
        return Some(lsn);
    }
    batch.changes.iter().map(|change| change.lsn).rfind(|lsn| *lsn < last)
}

#[cfg(test)]
mod tests {
    use shardlake_model::{KeyComponent, PartitionKey};
    use shardlake_partition::LogicalKey;
    use shardlake_routing::{Epk, KeyRange};

    use super::*;
    use crate::batch::Given;

    fn batch(lsns: &[u64], upto: u64) -> Batch {
        let given = |lsn: &u64| Given {
            lsn: *lsn,
            operation: "create",
            id: lsn.to_string(),
            logical: LogicalKey {
                epk: Epk(vec![1]),
                partition_key: PartitionKey::single(KeyComponent::String("a".into())),
            },
            text: String::new(),
        };
        Batch { span: KeyRange::full(), upto, changes: lsns.iter().map(given).collect() }
    }

    /// Runs until a poisoned change is found among a batch, and those before and after it are done.
    fn runs_with_one_poisoned(changes: u64, poisoned: u64) -> u32 {
        let (retry, random) = (FunctionRetry::default(), Random::seeded(1));
        let (mut trouble, mut after, mut runs, mut letters) = (Trouble::default(), 0, 0, Vec::new());
        while after < changes {
            let upto = trouble.limit().unwrap_or(changes);
            let lsns: Vec<u64> = (after + 1..=upto).collect();
            let batch = batch(&lsns, upto);
            runs += 1;
            if lsns.contains(&poisoned) {
                match trouble.failed(&batch, false, &retry, &random) {
                    Then::GiveUp => letters.push(lsns),
                    Then::Wait(_) | Then::Halved => continue,
                    other => panic!("{other:?}"),
                }
            }
            after = upto;
            trouble.done(upto);
        }
        assert_eq!((letters, trouble.limit()), (vec![vec![poisoned]], None));
        runs
    }

    #[test]
    fn one_poisoned_change_is_found_within_twenty_five_runs() {
        for poisoned in 1..=100 {
            let runs = runs_with_one_poisoned(100, poisoned);
            assert!(runs <= 26, "{poisoned}: {runs}");
        }
    }

    #[test]
    fn changes_of_one_commit_are_sifted_and_conditions_are_tried_again() {
        let (retry, random) = (FunctionRetry { attempts: 1, ..FunctionRetry::default() }, Random::seeded(1));
        let mut trouble = Trouble::default();
        assert_eq!(trouble.failed(&batch(&[4, 4, 4], 4), false, &retry, &random), Then::Sift);
        let mut trouble = Trouble::default();
        assert_eq!(trouble.failed(&batch(&[3, 4, 4, 4], 9), false, &retry, &random), Then::Halved);
        assert_eq!(trouble.limit(), Some(3));
        assert!(!trouble.done(3));
        assert_eq!(trouble.limit(), Some(9));
        let mut trouble = Trouble::default();
        let one = batch(&[4], 4);
        assert!((0..20).all(|_| trouble.failed(&one, true, &retry, &random) == Then::Again));
        assert_eq!(trouble.failed(&one, true, &retry, &random), Then::GiveUp);
    }

    #[test]
    fn waits_grow_up_to_their_bound() {
        let (retry, random) = (FunctionRetry::default(), Random::seeded(1));
        for attempt in 1..100 {
            let wait = backoff(&retry, attempt, &random).as_millis() as u64;
            assert!(wait <= (100u64 << (attempt - 1).min(20)).min(30_000), "{attempt}: {wait}");
        }
    }
}
