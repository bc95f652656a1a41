//! Which logical key led each minute, where one did: a key that is a date or a counter shows as leaders that ascend.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

use shardlake_model::{KeyComponent, PartitionKey};
use shardlake_routing::LogicalKey;
use shardlake_stdx::natural_order;

/// Leaders remembered; the same key in following minutes counts once, however long it leads.
pub(super) const LEADERS_MAX: usize = 16;
/// A key with less than this share of a minute's request units does not lead: among evenly busy
/// keys some key is always first by chance.
const LEADING_SHARE: f64 = 0.25;

#[derive(Debug, Clone)]
pub(super) struct Leader {
    /// The first minute that it led.
    pub minute: u32,
    pub key: Arc<LogicalKey>,
    /// Its least weight in that minute, in hundredths of request units.
    pub weight: u64,
    /// Share of the minute's total weight.
    pub share: f64,
}

/// Oldest first.
#[derive(Debug, Clone, Default)]
pub(super) struct Leaders(VecDeque<Leader>);

impl Leaders {
    /// Adds the heaviest key of a minute, with its weight and that of all.
    pub fn note(&mut self, minute: u32, leader: Option<(Arc<LogicalKey>, u64, u64)>) {
        let Some((key, weight, total)) = leader else { return };
        debug_assert!(weight <= total, "a leader is part of the total");
        let share = weight as f64 / total.max(1) as f64;
        let is_same = |last: &Leader| last.key.partition_key.same(&key.partition_key);
        if share < LEADING_SHARE || self.0.back().is_some_and(is_same) {
            return;
        }
        if self.0.len() == LEADERS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Leader { minute, key, weight, share });
        assert!(self.0.len() <= LEADERS_MAX, "the list of leaders is bounded");
    }

    pub fn iter(&self) -> impl Iterator<Item = &Leader> {
        self.0.iter()
    }

    /// How many of the last leaders ascend, each above the one before it: 1 where there is but one.
    pub fn ascending(&self) -> usize {
        let is_above = |later: &Leader, earlier: &Leader| {
            compare(&earlier.key.partition_key, &later.key.partition_key) == Ordering::Less
        };
        let newest_first = self.0.iter().rev().zip(self.0.iter().rev().skip(1));
        let steps = newest_first.take_while(|(later, earlier)| is_above(later, earlier)).count();
        if self.0.is_empty() { 0 } else { steps + 1 }
    }
}

pub(super) fn size_bytes(key: &PartitionKey) -> usize {
    let size = |component: &KeyComponent| match component {
        KeyComponent::String(text) => text.len(),
        _ => size_of::<KeyComponent>(),
    };
    key.0.iter().map(size).sum()
}

/// Component by component: numbers by value, texts as people count, so that `day-9` is below `day-10`.
fn compare(a: &PartitionKey, b: &PartitionKey) -> Ordering {
    let pairs = a.0.iter().zip(&b.0).map(|(a, b)| match (a, b) {
        (KeyComponent::Number(a), KeyComponent::Number(b)) => a.total_cmp(b),
        (KeyComponent::String(a), KeyComponent::String(b)) => natural_order(a, b),
        _ => Ordering::Equal,
    });
    pairs.fold(Ordering::Equal, Ordering::then)
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardlake_routing::Epk;

    fn leaders(keys: &[&str]) -> Leaders {
        let mut leaders = Leaders::default();
        for (minute, key) in keys.iter().enumerate() {
            let partition_key = PartitionKey::single(KeyComponent::String((*key).into()));
            let key = Arc::new(LogicalKey { epk: Epk::default(), partition_key });
            leaders.note(minute as u32, Some((key, 60, 100)));
        }
        leaders
    }

    #[test]
    fn only_the_last_leaders_that_ascend_count() {
        assert_eq!(leaders(&[]).ascending(), 0);
        assert_eq!(leaders(&["a", "a", "a"]).ascending(), 1);
        assert_eq!(leaders(&["day-8", "day-9", "day-9", "day-10"]).ascending(), 3);
        assert_eq!(leaders(&["2026-01-03", "2026-01-02", "2026-01-04"]).ascending(), 2);
        assert_eq!(leaders(&["b", "a"]).ascending(), 1);
    }

    #[test]
    fn who_has_little_does_not_lead_and_old_leaders_are_forgotten() {
        let mut few = leaders(&["a"]);
        let key = few.iter().next().expect("one").key.clone();
        let mut other = (*key).clone();
        other.partition_key = PartitionKey::single(KeyComponent::Null);
        few.note(5, Some((Arc::new(other), 24, 100)));
        assert_eq!(few.iter().count(), 1);
        let names: Vec<String> = (0..40).map(|number| number.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(leaders(&names).iter().count(), LEADERS_MAX);
        assert_eq!(leaders(&names).ascending(), LEADERS_MAX);
    }
}
