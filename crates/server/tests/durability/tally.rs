//! Counts of a run, and the promises that were found broken.

use crate::difference::{BREACHES, Breach};
use std::collections::BTreeMap;

#[derive(Debug, Default, Clone)]
pub struct Tally {
    pub counts: BTreeMap<&'static str, u64>,
    pub acknowledged: BTreeMap<&'static str, u64>,
    pub breaches: BTreeMap<Breach, u64>,
    /// Information for the analysis of a breach.
    pub findings: Vec<String>,
}

impl Tally {
    pub fn count(&mut self, what: &'static str) {
        self.add(what, 1);
    }

    pub fn add(&mut self, what: &'static str, number: u64) {
        *self.counts.entry(what).or_default() += number;
    }

    pub fn breach(&mut self, breach: Breach, finding: String) {
        *self.breaches.entry(breach).or_default() += 1;
        self.findings.push(format!("{}: {finding}", breach.word()));
    }

    pub fn take_over(&mut self, other: Tally) {
        for (what, number) in other.counts {
            self.add(what, number);
        }
        for (kind, number) in other.acknowledged {
            *self.acknowledged.entry(kind).or_default() += number;
        }
        for (breach, number) in other.breaches {
            *self.breaches.entry(breach).or_default() += number;
        }
        self.findings.extend(other.findings);
    }

    pub fn acknowledged_in_all(&self) -> u64 {
        self.acknowledged.values().sum()
    }

    pub fn get(&self, what: &str) -> u64 {
        self.counts.get(what).copied().unwrap_or(0)
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(formatter, "  {} acknowledged: {:?}", self.acknowledged_in_all(), self.acknowledged)?;
        for (what, number) in &self.counts {
            writeln!(formatter, "  {number} {what}")?;
        }
        for breach in BREACHES {
            writeln!(formatter, "  {} {}", self.breaches.get(&breach).unwrap_or(&0), breach.word())?;
        }
        Ok(())
    }
}
