//! One run of a campaign: its length, its seed, and the choices that the seed decides.

use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Length of a campaign, and its seed.
pub struct Campaign {
    pub binary: PathBuf,
    pub evidence: PathBuf,
    pub seed: u64,
    pub cycles: u64,
    pub time: Duration,
    pub began: Instant,
}

impl Campaign {
    /// Whether another cycle follows after `done` cycles.
    pub fn goes_on(&self, done: u64) -> bool {
        done < self.cycles && self.began.elapsed() < self.time
    }

    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}

/// Numbers that a seed decides.
pub struct Choices(u64);

impl Choices {
    pub fn of(seed: u64) -> Choices {
        Choices(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
}

#[cfg(test)]
mod own_tests {
    use super::*;

    #[test]
    fn seed_decides_all_choices() {
        let first = |seed| {
            let mut choices = Choices::of(seed);
            [(); 8].map(|()| choices.below(1000))
        };
        assert_eq!(first(7), first(7));
        assert_ne!(first(7), first(8));
        assert!(first(7).iter().all(|choice| *choice < 1000));
    }
}
