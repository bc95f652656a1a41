//! Counts of work, held to recorded numbers: allocations and engine calls of a request.
//!
//! A count has no noise, so a test can refuse a growth that a measurement of time would not notice.
//! The record is a small file next to the test: a table for each request, a line for each count. A
//! count that grows by more than 2 % fails the test, and so does one that falls by more, until the
//! record is lowered. `UPDATE=1` lowers the record and never raises it: a higher number is written
//! by hand, with the reason in the commit.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Per cent by which a count may differ from its record.
const SPREAD: f64 = 2.0;

type Record = BTreeMap<String, BTreeMap<String, f64>>;

/// Counts that were measured, and the file that they are held to.
#[derive(Debug)]
pub struct Counts {
    file: PathBuf,
    measured: Record,
}

impl Counts {
    /// Held to a file below the directory of a crate.
    pub fn held_to(crate_directory: &str, file: &str) -> Counts {
        Counts { file: Path::new(crate_directory).join(file), measured: Record::new() }
    }

    /// Records the mean of the middle half of the counts of equal requests. Tables in memory grow
    /// now and then, at hashes that differ from run to run, and another thread may finish a write.
    pub fn note(&mut self, request: &str, count: &str, numbers: impl Iterator<Item = u64>) {
        let mut numbers: Vec<u64> = numbers.collect();
        numbers.sort_unstable();
        let middle = &numbers[numbers.len() / 4..=numbers.len() * 3 / 4];
        let mean = middle.iter().sum::<u64>() as f64 / middle.len() as f64;
        let tenths = (mean * 10.0).round() / 10.0;
        self.measured.entry(request.to_owned()).or_default().insert(count.to_owned(), tenths);
    }

    /// Panics unless an equal run has equal counts.
    #[track_caller]
    pub fn expect_equal(&self, other: &Counts) {
        let findings = findings(&self.measured, &other.measured);
        assert!(findings.is_empty(), "two equal runs differ:\n  {}", findings.join("\n  "));
    }

    /// Panics unless each count is as recorded. With `UPDATE` in the environment it lowers the
    /// record before.
    #[track_caller]
    pub fn check(&self) {
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        let mut record: Record = toml::from_str(&text).expect("the record is TOML");
        if std::env::var_os("UPDATE").is_some() {
            record = lowered(&record, &self.measured);
            std::fs::write(&self.file, written(&record)).expect("the record is written");
        }
        let findings = findings(&record, &self.measured);
        let file = self.file.display();
        assert!(findings.is_empty(), "counts of {file}:\n  {}", findings.join("\n  "));
    }
}

fn findings(record: &Record, measured: &Record) -> Vec<String> {
    let mut findings = Vec::new();
    for (request, counts) in measured {
        for (count, number) in counts {
            let recorded = record.get(request).and_then(|counts| counts.get(count)).copied();
            let advice = match recorded {
                None => "is not recorded: UPDATE=1 records it",
                Some(recorded) if number * 100.0 > recorded * (100.0 + SPREAD) => {
                    "has grown: find out why; a higher record is written by hand, with the reason in the commit"
                }
                Some(recorded) if number * 100.0 < recorded * (100.0 - SPREAD) => {
                    "has fallen: UPDATE=1 lowers the record"
                }
                Some(_) => continue,
            };
            findings.push(format!("[{request}] {count} = {number}, recorded {recorded:?}: {advice}"));
        }
    }
    for (request, counts) in record {
        let is_gone =
            |count: &&String| measured.get(request).is_none_or(|counts| !counts.contains_key(*count));
        let gone = counts.keys().filter(is_gone);
        findings.extend(
            gone.map(|count| format!("[{request}] {count} is not counted any more: UPDATE=1 removes it")),
        );
    }
    findings
}

/// The lower one of the recorded and the measured number of each count that is measured.
fn lowered(record: &Record, measured: &Record) -> Record {
    let lower = |request: &str, count: &str, number: f64| {
        let recorded = record.get(request).and_then(|counts| counts.get(count)).copied();
        recorded.map_or(number, |recorded| recorded.min(number))
    };
    let request = |(request, counts): (&String, &BTreeMap<String, f64>)| {
        let counts = counts.iter().map(|(count, number)| (count.clone(), lower(request, count, *number)));
        (request.clone(), counts.collect())
    };
    measured.iter().map(request).collect()
}

fn written(record: &Record) -> String {
    let mut text = "# Work of one request, counted by tests: docs/testing.md, section Ratchets.\n".to_owned();
    for (request, counts) in record {
        write!(text, "\n[{request}]\n").expect("memory");
        for (count, number) in counts {
            writeln!(text, "{count} = {number}").expect("memory");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(counts: &[(&str, f64)]) -> Record {
        let counts = counts.iter().map(|(count, number)| ((*count).to_owned(), *number)).collect();
        Record::from([("read".to_owned(), counts)])
    }

    #[test]
    fn a_count_may_differ_by_two_per_cent() {
        let recorded = record(&[("allocations", 100.0)]);
        for (number, is_kept) in [(97.0, false), (98.0, true), (100.0, true), (102.0, true), (103.0, false)] {
            let findings = findings(&recorded, &record(&[("allocations", number)]));
            assert_eq!(findings.is_empty(), is_kept, "{number}: {findings:?}");
        }
        assert_eq!(
            findings(&record(&[("keys", 3.0)]), &record(&[("keys", 4.0)])).len(),
            1,
            "few calls are exact"
        );
        assert_eq!(findings(&record(&[("keys", 0.0)]), &record(&[("keys", 1.0)])).len(), 1);
        let other = record(&[("keys", 3.0)]);
        assert_eq!(findings(&recorded, &other).len(), 2, "one is gone, one is not recorded");
    }

    #[test]
    fn updating_lowers_and_never_raises() {
        let recorded = record(&[("falls", 100.0), ("grows", 100.0), ("gone", 5.0)]);
        let measured = record(&[("falls", 90.0), ("grows", 110.0), ("new", 7.0)]);
        let lowered = lowered(&recorded, &measured);
        assert_eq!(lowered, record(&[("falls", 90.0), ("grows", 100.0), ("new", 7.0)]));
        assert_eq!(toml::from_str::<Record>(&written(&lowered)).expect("TOML"), lowered);
    }

    #[test]
    fn the_middle_half_of_the_requests_counts() {
        let mut counts = Counts::held_to("", "");
        counts.note("read", "allocations", [1, 24, 24, 25, 24, 25, 25, 900].into_iter());
        assert_eq!(counts.measured, record(&[("allocations", 24.6)]));
        let mut other = Counts::held_to("", "");
        other.note("read", "allocations", [24, 24, 25, 25, 25].into_iter());
        counts.expect_equal(&other);
    }
}
