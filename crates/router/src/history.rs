//! Past of a container: its ranges and budgets over time, its relocations, and the heat of ended partitions.
//!
//! A split answers a hot partition. Without the heat from before the split, an operator could not see its
//! reason or its effect. So the heat of replaced partitions is kept, up to [`PAST_HEAT_BYTES_MAX`] per
//! container: seconds are dropped before minutes, and the oldest partitions first. The counts here are of
//! this process; those of earlier processes are in [`Earlier`].
//!
//! It changes with the catalog and with relocations, never with an operation. Times are in the clock's elapsed time.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use shardlake_heat::PastHeat;
use shardlake_routing::KeyRange;

use crate::earlier::Earlier;
use crate::history_event::HistoryEventKind;
use crate::motion::RelocationKind;

pub const PAST_HEAT_BYTES_MAX: usize = 4 << 20;
/// Divisions and events that are kept; the oldest go first.
const EPOCHS_MAX: usize = 256;
/// Bound on the ranges of all epochs together: a container may have hundreds of ranges.
const EPOCH_RANGES_MAX: usize = 4_096;
const EVENTS_MAX: usize = 256;
/// Relocations that are kept with their figures.
const RELOCATIONS_MAX: usize = 32;

/// Past that all entries of one container share.
#[derive(Debug, Default)]
pub struct ContainerHistory(Mutex<Past>);

/// See the head of the module. Everything is oldest first.
#[derive(Debug, Default)]
pub struct Past {
    /// Start of the recorded time, even if older data was dropped since.
    pub known_since: Option<Duration>,
    pub epochs: VecDeque<Epoch>,
    pub events: VecDeque<HistoryEvent>,
    pub relocations: VecDeque<PastRelocation>,
    pub partitions: VecDeque<PastPartition>,
    /// The past of earlier processes.
    pub earlier: Earlier,
}

/// Division of the hash space from a point in time on.
#[derive(Debug, Clone, PartialEq)]
pub struct Epoch {
    pub from: Duration,
    /// In the order of the hash space.
    pub ranges: Vec<EpochRange>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct EpochRange {
    pub range_id: u32,
    pub range: KeyRange,
    /// RU/s in hundredths; `None` where nothing is limited.
    pub budget_centi: Option<u64>,
}

/// An event that an operator marks on a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryEvent {
    pub at: Duration,
    pub what: HistoryEventKind,
}

/// A relocation that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct PastRelocation {
    pub kind: RelocationKind,
    pub sources: Vec<u32>,
    pub targets: Vec<u32>,
    pub started: Duration,
    pub ended: Duration,
    pub items: u64,
    pub pause: Duration,
    /// Why it was given up, where it was.
    pub given_up: Option<String>,
}

/// A partition that other partitions have replaced.
#[derive(Debug, Clone)]
pub struct PastPartition {
    pub range_id: u32,
    pub ended: Duration,
    pub heat: PastHeat,
}

impl ContainerHistory {
    pub fn past(&self) -> MutexGuard<'_, Past> {
        self.0.lock().expect("nothing panics under this lock")
    }

    /// The division and the budgets as they are from now on.
    pub fn note(&self, now: Duration, ranges: Vec<EpochRange>) {
        let mut past = self.past();
        past.known_since.get_or_insert(now);
        debug_assert!(past.epochs.back().is_none_or(|last| last.from <= now), "epochs are in order");
        if let Some(last) = past.epochs.back() {
            if last.ranges == ranges {
                return;
            }
            let is_same_division = last.ranges.len() == ranges.len()
                && last.ranges.iter().zip(&ranges).all(|(old, new)| old.range_id == new.range_id);
            if is_same_division {
                let (from_centi, to_centi) = (total_centi(&last.ranges), total_centi(&ranges));
                // Where the same total is divided differently, the epoch shows the difference.
                if from_centi != to_centi {
                    let what = HistoryEventKind::Throughput { from_centi, to_centi };
                    keep(&mut past.events, HistoryEvent { at: now, what }, EVENTS_MAX);
                }
            }
        }
        keep(&mut past.epochs, Epoch { from: now, ranges }, EPOCHS_MAX);
        let count = |epochs: &VecDeque<Epoch>| -> usize { epochs.iter().map(|one| one.ranges.len()).sum() };
        while past.epochs.len() > 1 && count(&past.epochs) > EPOCH_RANGES_MAX {
            past.epochs.pop_front();
        }
    }

    /// From when on the partition that has a range now counts its heat: a split, a merge or a move begins anew. `None` for a
    /// range that is not served.
    pub fn counted_since(&self, range_id: u32) -> Option<Duration> {
        let past = self.past();
        let has_range = |epoch: &&Epoch| epoch.ranges.iter().any(|range| range.range_id == range_id);
        let divided = past.epochs.iter().rev().take_while(has_range).last()?.from;
        // A move keeps the id.
        let moved = past.partitions.iter().rev().find(|one| one.range_id == range_id).map(|one| one.ended);
        Some(moved.map_or(divided, |moved| moved.max(divided)))
    }

    /// A relocation is done: the heat of its sources is of the past.
    pub fn relocated(&self, now: Duration, event: HistoryEventKind, sources: Vec<PastPartition>) {
        let mut past = self.past();
        keep(&mut past.events, HistoryEvent { at: now, what: event }, EVENTS_MAX);
        past.partitions.extend(sources);
        past.hold_to(PAST_HEAT_BYTES_MAX);
    }

    pub fn ended(&self, relocation: PastRelocation) {
        keep(&mut self.past().relocations, relocation, RELOCATIONS_MAX);
    }
}

impl Past {
    fn hold_to(&mut self, bytes_max: usize) {
        let size = |partitions: &VecDeque<PastPartition>| -> usize {
            partitions.iter().map(|past| past.heat.size_bytes() + size_of::<PastPartition>()).sum()
        };
        while size(&self.partitions) > bytes_max {
            // Seconds before minutes, the oldest first; an entry with nothing left is removed.
            let finest = |past: &&mut PastPartition| past.heat.finest().unwrap_or(usize::MAX);
            let next = self.partitions.iter_mut().min_by_key(finest);
            if !next.is_some_and(|past| past.heat.shed()) {
                self.partitions.pop_front();
            }
        }
        // Partitions without traffic count no bytes, so their number is bounded as well.
        while self.partitions.len() > EPOCHS_MAX {
            self.partitions.pop_front();
        }
    }
}

fn keep<T>(kept: &mut VecDeque<T>, next: T, count_max: usize) {
    assert!(kept.len() <= count_max, "the history is bounded");
    if kept.len() == count_max {
        kept.pop_front();
    }
    kept.push_back(next);
}

/// `None` where a partition is not limited.
fn total_centi(ranges: &[EpochRange]) -> Option<u64> {
    ranges.iter().map(|range| range.budget_centi).sum()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use shardlake_heat::{Heat, HeatKind, HeatPlace, Sample};
    use shardlake_model::PartitionKeyDefinition;

    use super::*;

    fn range(range_id: u32, budget_centi: Option<u64>) -> EpochRange {
        EpochRange { range_id, range: KeyRange::full(), budget_centi }
    }

    #[test]
    fn a_change_of_budgets_is_an_event_and_a_change_of_ranges_an_epoch() {
        let history = ContainerHistory::default();
        let at = Duration::from_secs;
        history.note(at(1), vec![range(0, None)]);
        history.note(at(2), vec![range(0, None)]);
        history.note(at(3), vec![range(0, Some(40_000))]);
        history.note(at(4), vec![range(1, Some(20_000)), range(2, Some(20_000))]);
        history.note(at(5), vec![range(1, Some(10_000)), range(2, Some(30_000))]);
        let past = history.past();
        assert_eq!(
            past.epochs.iter().map(|epoch| epoch.from).collect::<Vec<_>>(),
            [at(1), at(3), at(4), at(5)]
        );
        let throughput = HistoryEventKind::Throughput { from_centi: None, to_centi: Some(40_000) };
        assert_eq!(past.events, [HistoryEvent { at: at(3), what: throughput }]);
    }

    #[test]
    fn a_partition_counts_since_its_split_or_its_move() {
        let history = ContainerHistory::default();
        let at = Duration::from_secs;
        assert_eq!(history.counted_since(0), None);
        history.note(at(1), vec![range(0, None), range(1, None)]);
        history.note(at(3), vec![range(0, Some(40_000)), range(1, Some(40_000))]);
        history.note(at(4), vec![range(0, None), range(2, None), range(3, None)]);
        let since = [0, 1, 2, 3].map(|range_id| history.counted_since(range_id));
        assert_eq!(since, [Some(at(1)), None, Some(at(4)), Some(at(4))]);
        let definition = PartitionKeyDefinition::hash("/pk");
        let heat = Heat::new(&definition, &KeyRange::full()).past();
        let event = HistoryEventKind::Relocated {
            kind: RelocationKind::Move,
            sources: vec![0],
            targets: vec![0],
            pause: Duration::ZERO,
        };
        history.relocated(at(9), event, vec![PastPartition { range_id: 0, ended: at(9), heat }]);
        assert_eq!(history.counted_since(0), Some(at(9)));
    }

    #[test]
    fn divisions_are_given_up_and_the_beginning_is_not_forgotten() {
        let history = ContainerHistory::default();
        for second in 1..100 {
            let ranges = (0..100).map(|range_id| range(range_id + second * 100, None)).collect();
            history.note(Duration::from_secs(second.into()), ranges);
        }
        let past = history.past();
        assert_eq!(past.known_since, Some(Duration::from_secs(1)));
        assert_eq!(
            (past.epochs.len(), past.epochs.back().map(|last| last.from)),
            (40, Some(Duration::from_secs(99)))
        );
    }

    #[test]
    fn what_is_kept_has_a_bound() {
        let definition = PartitionKeyDefinition::hash("/pk");
        let history = ContainerHistory::default();
        let split = |target| HistoryEventKind::Relocated {
            kind: RelocationKind::Split,
            sources: vec![0],
            targets: vec![target],
            pause: Duration::ZERO,
        };
        for number in 0..300_u32 {
            let mut heat = Heat::new(&definition, &KeyRange::full());
            for second in 0..700 {
                let sample = Sample {
                    kind: HeatKind::Feed,
                    place: HeatPlace::Span(&KeyRange::full()),
                    ru_centi: 100,
                    size_bytes: 1,
                    latency: Duration::ZERO,
                    template: None::<&Arc<str>>,
                };
                heat.record(Duration::from_secs(second), &sample);
            }
            let ended = Duration::from_secs(700);
            let source = PastPartition { range_id: number, ended, heat: heat.past() };
            history.relocated(ended, split(number + 1), vec![source]);
        }
        let past = history.past();
        let bytes: usize = past.partitions.iter().map(|past| past.heat.size_bytes()).sum();
        assert!(bytes <= PAST_HEAT_BYTES_MAX && bytes > PAST_HEAT_BYTES_MAX / 2, "{bytes}");
        assert!(past.partitions.len() > 100, "minutes outlive seconds: {}", past.partitions.len());
        assert_eq!((past.events.len(), past.partitions.back().map(|last| last.range_id)), (256, Some(299)));
    }
}
