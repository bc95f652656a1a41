//! Processor seconds of this process and its children, and a yardstick for the speed of the processors.
//!
//! Wall-clock time shows how busy a machine is; processor seconds show how much work there was.
//! They still depend on the machine and on its other work, so that a fixed piece of work is timed
//! in the same run, before and after the suites.

use std::collections::BTreeMap;
use std::hint::black_box;

/// Linux reports times to programs in this unit on every architecture.
const TICKS_A_SECOND: f64 = 100.0;
const ROUNDS: u64 = 400_000;
/// Some 70 MB of rows: more than a processor's own caches hold.
const KEYS: u64 = 200_000;

/// Seconds that this process, and all children that it waited for, spent on processors. 0 where the
/// system does not report them.
pub fn so_far() -> f64 {
    std::fs::read_to_string("/proc/self/stat").ok().and_then(|stat| of_stat(&stat, 4)).unwrap_or(0.0)
}

/// The first `count` of: user, system, user of children, system of children. The name of the program, in parentheses
/// before them, may hold blanks.
fn of_stat(stat: &str, count: usize) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let times = fields.split_whitespace().skip(11).take(count);
    let ticks: Option<Vec<f64>> = times.map(|field| field.parse().ok()).collect();
    let ticks = ticks.filter(|ticks| ticks.len() == count)?;
    Some(ticks.iter().sum::<f64>() / TICKS_A_SECOND)
}

/// Processor seconds of a fixed piece of work, the mean of two measurements.
#[derive(Debug)]
pub struct Yardstick {
    before: f64,
}

impl Yardstick {
    pub fn start() -> Yardstick {
        Yardstick { before: measure() }
    }

    pub fn end(self) -> f64 {
        f64::midpoint(self.before, measure())
    }
}

/// Like a database and its tests: allocations, an ordered map, copies. Machines that need equal time for arithmetic differ in this.
fn measure() -> f64 {
    let own = || std::fs::read_to_string("/proc/self/stat").ok().and_then(|stat| of_stat(&stat, 2));
    let before = own().unwrap_or(0.0);
    let mut rows = BTreeMap::new();
    let mut state = 1_u64;
    for round in 0..ROUNDS {
        state = (state.rotate_left(7) ^ round).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let bytes = 100 + usize::try_from(state % 500).unwrap_or(0);
        rows.insert((state >> 32) % KEYS, vec![b'x'; bytes]);
    }
    black_box(rows);
    own().unwrap_or(0.0) - before
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_follow_the_name_of_the_program() {
        let stat = "42 (a (b) c) S 1 42 42 0 -1 4194560 100 200 0 0 150 50 300 100 20 0 1 0 5 6 7";
        assert_eq!(of_stat(stat, 2), Some(2.0));
        assert_eq!(of_stat(stat, 4), Some(6.0));
        assert_eq!(of_stat("42 (a) S 1", 2), None);
    }

    #[test]
    fn work_is_seen() {
        if std::path::Path::new("/proc/self/stat").exists() {
            assert!(measure() > 0.0);
        }
    }
}
