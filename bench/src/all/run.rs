//! Parameters of every part, and the servers that it measures.

use std::path::PathBuf;
use std::time::Duration;

use crate::Outcome;
use crate::contender::{Contender, Setup};

/// One of the two builds under measurement.
pub struct Build {
    pub name: &'static str,
    pub binary: PathBuf,
}

/// Parameters of every part.
pub struct Run {
    pub builds: Vec<Build>,
    pub rounds: usize,
    pub seconds: u64,
    pub items: u64,
    pub large_items: u64,
    pub moved_items: u64,
}

impl Run {
    pub fn time(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    /// A server of each build, with its name.
    pub fn start(&self, durability: &'static str, items: u64) -> Outcome<Vec<(&'static str, Contender)>> {
        let start = |build: &Build| {
            let setup = Setup { binary: build.binary.clone(), durability, items };
            Ok((build.name, Contender::start(&setup)?))
        };
        self.builds.iter().map(start).collect()
    }
}

/// The contestants of a round, another one first in each.
pub fn in_turn<T>(contestants: &[T], round: usize) -> impl Iterator<Item = &T> {
    let first = round % contestants.len().max(1);
    contestants[first..].iter().chain(&contestants[..first])
}
