//! Heat of a container from earlier processes, as data that is stored and read again.
//!
//! Heat counts in the elapsed time of its process, which ends with the process. The stored data is therefore
//! in Unix time and holds only the values that a map shows: for each period its operations, its refusals, and
//! the request units of each part of the partition. It uses at most [`EARLIER_BYTES_MAX`] per container:
//! seconds are dropped before minutes.

use serde::{Deserialize, Serialize};

use shardlake_heat::{PARTS, PERIODS};
use shardlake_routing::KeyRange;

use crate::history_event::HistoryEventKind;

pub const EARLIER_BYTES_MAX: usize = 4 << 20;
/// Uninterrupted recording times that are kept apart.
const KNOWN_MAX: usize = 64;
const EPOCHS_MAX: usize = 256;
const EPOCH_RANGES_MAX: usize = 4_096;
const EVENTS_MAX: usize = 256;
const PARTITIONS_MAX: usize = 512;

/// See the head of the module. Everything is oldest first; times are Unix milliseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Earlier {
    /// From when until when heat was counted.
    pub known: Vec<(u64, u64)>,
    pub epochs: Vec<EarlierEpoch>,
    pub events: Vec<EarlierEvent>,
    pub partitions: Vec<EarlierPartition>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EarlierEpoch {
    pub from: u64,
    pub ranges: Vec<EarlierRange>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EarlierRange {
    pub range_id: u32,
    /// Bounds in hexadecimal.
    pub min: String,
    pub max: String,
    /// RU/s in hundredths; `None` where nothing was limited.
    pub budget_centi: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EarlierEvent {
    pub at: u64,
    pub what: HistoryEventKind,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EarlierPartition {
    pub range_id: u32,
    pub min: String,
    pub max: String,
    /// One list for each length of [`PERIODS`].
    pub periods: [Vec<EarlierPeriod>; PERIODS.len()],
}

/// When it began in Unix seconds; operations; refusals; request units of the parts that had any.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EarlierPeriod(pub u64, pub u64, pub u32, pub Vec<(u8, f32)>);

impl EarlierPartition {
    /// `None` where the bounds enclose nothing.
    pub fn range(&self) -> Option<KeyRange> {
        KeyRange::from_hex(&self.min, &self.max).ok().filter(|range| !range.is_empty())
    }

    pub fn is_empty(&self) -> bool {
        self.periods.iter().all(Vec::is_empty)
    }
}

impl EarlierPeriod {
    fn size_bytes(&self) -> usize {
        size_of::<EarlierPeriod>() + self.3.capacity() * size_of::<(u8, f32)>()
    }

    fn is_sound(&self) -> bool {
        self.3.iter().all(|(part, ru)| usize::from(*part) < PARTS && ru.is_finite() && *ru >= 0.0)
    }
}

impl Earlier {
    /// Adds a partition's later heat; merges it into the entry of the same place, if there is one.
    pub fn add(&mut self, partition: EarlierPartition) {
        if partition.is_empty() {
            return;
        }
        let same = |known: &&mut EarlierPartition| {
            (known.range_id, &known.min, &known.max) == (partition.range_id, &partition.min, &partition.max)
        };
        match self.partitions.iter_mut().find(same) {
            Some(known) => {
                for (known, more) in known.periods.iter_mut().zip(partition.periods) {
                    known.extend(more);
                }
            }
            None => self.partitions.push(partition),
        }
    }

    /// Drops data that no map reaches back to or that exceeds the bounds; also unsound data of a damaged file.
    pub fn hold(&mut self, now_ms: u64) {
        for partition in &mut self.partitions {
            for (periods, (seconds, count)) in partition.periods.iter_mut().zip(PERIODS) {
                let reach = u64::from(seconds) * u64::from(count);
                let oldest = (now_ms / 1000).saturating_sub(reach);
                periods.retain(|period| period.0 >= oldest && period.0 <= now_ms / 1000 && period.is_sound());
            }
        }
        self.partitions.retain(|partition| !partition.is_empty() && partition.range().is_some());
        keep_last(&mut self.partitions, PARTITIONS_MAX);
        for finest in 0..PERIODS.len() {
            if self.size_bytes() <= EARLIER_BYTES_MAX {
                break;
            }
            self.partitions.iter_mut().for_each(|partition| partition.periods[finest] = Vec::new());
        }
        let (seconds, count) = PERIODS[PERIODS.len() - 1];
        let oldest = now_ms.saturating_sub(u64::from(seconds) * u64::from(count) * 1000);
        self.known.retain(|(from, to)| from <= to && *to >= oldest && *to <= now_ms);
        self.events.retain(|event| event.at >= oldest && event.at <= now_ms);
        // The first epoch that is still needed began before the oldest known time.
        let before = self.epochs.iter().rposition(|epoch| epoch.from <= oldest).unwrap_or(0);
        self.epochs.drain(..before.min(self.epochs.len()));
        keep_last(&mut self.known, KNOWN_MAX);
        keep_last(&mut self.events, EVENTS_MAX);
        keep_last(&mut self.epochs, EPOCHS_MAX);
        while self.epochs.iter().map(|epoch| epoch.ranges.len()).sum::<usize>() > EPOCH_RANGES_MAX {
            self.epochs.remove(0);
        }
    }

    pub fn size_bytes(&self) -> usize {
        let periods = self.partitions.iter().flat_map(|partition| partition.periods.iter().flatten());
        periods.map(EarlierPeriod::size_bytes).sum::<usize>()
            + self.partitions.len() * size_of::<EarlierPartition>()
    }
}

fn keep_last<T>(list: &mut Vec<T>, count_max: usize) {
    list.drain(..list.len().saturating_sub(count_max));
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_S: u64 = 1_800_000_000;

    fn partition(range_id: u32, seconds: impl Iterator<Item = u64>) -> EarlierPartition {
        let mut periods: [Vec<EarlierPeriod>; PERIODS.len()] = Default::default();
        periods[0] = seconds.map(|at| EarlierPeriod(at, 1, 0, vec![(3, 1.5); 32])).collect();
        periods[1] = vec![EarlierPeriod(NOW_S - 60, 2, 1, vec![(0, 1.0)])];
        EarlierPartition { range_id, min: String::new(), max: "FF".into(), periods }
    }

    #[test]
    fn what_no_map_reaches_is_given_up() {
        let mut earlier = Earlier::default();
        earlier.add(partition(0, [NOW_S - 700, NOW_S - 5, NOW_S + 9].into_iter()));
        earlier.known = vec![(1, 2), (NOW_S * 1000 - 9_000, NOW_S * 1000)];
        earlier.hold(NOW_S * 1000);
        assert_eq!(earlier.partitions[0].periods[0].len(), 1);
        assert_eq!(earlier.known.len(), 1);
        earlier.add(partition(0, [NOW_S - 1].into_iter()));
        assert_eq!((earlier.partitions.len(), earlier.partitions[0].periods[0].len()), (1, 2));
    }

    #[test]
    fn seconds_go_before_minutes_where_it_is_too_much() {
        let mut earlier = Earlier::default();
        for range_id in 0..60 {
            earlier.add(partition(range_id, (0..500).map(|back| NOW_S - 550 + back)));
        }
        assert!(earlier.size_bytes() > EARLIER_BYTES_MAX);
        earlier.hold(NOW_S * 1000);
        assert!(earlier.size_bytes() <= EARLIER_BYTES_MAX);
        assert!(earlier.partitions.iter().all(|partition| partition.periods[0].is_empty()));
        assert_eq!(earlier.partitions.iter().map(|partition| partition.periods[1].len()).sum::<usize>(), 60);
    }

    #[test]
    fn what_is_no_heat_is_left_out() {
        let mut earlier = Earlier::default();
        let mut odd = partition(0, std::iter::empty());
        odd.periods[1] = vec![
            EarlierPeriod(NOW_S, 1, 0, vec![(32, 1.0)]),
            EarlierPeriod(NOW_S, 1, 0, vec![(0, f32::NAN)]),
            EarlierPeriod(NOW_S, 1, 0, vec![(0, -1.0)]),
        ];
        earlier.add(odd);
        earlier.add(EarlierPartition { max: "no".into(), ..partition(1, [NOW_S].into_iter()) });
        earlier.hold(NOW_S * 1000);
        assert_eq!(earlier.partitions, []);
    }
}
