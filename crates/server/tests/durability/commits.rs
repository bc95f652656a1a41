//! LSNs: no physical partition gives one out twice, and later commits have higher ones, also after
//! a kill.

use crate::clients::Owner;
use std::collections::{BTreeMap, BTreeSet};

/// The highest LSN ever acknowledged, per physical partition.
#[derive(Debug, Default)]
pub struct CommitNumbers {
    highest: BTreeMap<String, u64>,
}

impl CommitNumbers {
    /// Takes over the commits of one cycle: distinct, and all above those of the cycles before.
    /// Returns how many.
    pub fn record_cycle(&mut self, owners: &mut [Owner]) -> usize {
        let mut seen = BTreeSet::new();
        let mut highest = self.highest.clone();
        for owner in owners {
            // LSNs of a logical partition continue above those of the parents after a split or a merge.
            let mut previous = 0;
            for (partition, lsn) in owner.commits.drain(..) {
                let before_the_kill = self.highest.get(&partition).copied().unwrap_or(0);
                assert!(
                    lsn > before_the_kill,
                    "partition {partition} gave out LSN {lsn} after {before_the_kill}"
                );
                assert!(lsn > previous, "{}'s later commit got LSN {lsn} after {previous}", owner.name);
                previous = lsn;
                assert!(
                    seen.insert((partition.clone(), lsn)),
                    "partition {partition} gave out LSN {lsn} twice"
                );
                let top = highest.entry(partition).or_default();
                *top = lsn.max(*top);
            }
        }
        self.highest = highest;
        seen.len()
    }
}
