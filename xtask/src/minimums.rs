//! How many tests of each suite must pass, from `.ci/minimums.toml`.
//!
//! A suite that silently shrinks (a file not found, a filter that matches nothing, a package that did not
//! install) passes all it runs. The recorded minimum detects that. `[alone]` holds in a clone without shared
//! data; `[with.NAME]` holds in its place where the directory NAME of the shared data exists. Numbers only
//! increase, except with the reason in the commit that lowers them.

use crate::tally::Tally;
use crate::{Outcome, project};
use serde::Deserialize;
use shardlake_testkit::{SHARED, shared_place};
use std::collections::BTreeMap;

type Numbers = BTreeMap<String, u64>;

/// Suite → the fewest tests that must pass.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Minimums {
    times: Times,
    alone: Numbers,
    with: BTreeMap<String, Numbers>,
    /// The existing directories of the shared data.
    #[serde(skip)]
    present: Vec<&'static str>,
}

/// Recorded duration of all suites, on two processors.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Times {
    /// With the dependencies compiled and the packages of the SDKs installed.
    minutes_warm: u64,
    /// From an empty cache.
    minutes_cold: u64,
    /// Time of all suites together, without cargo's builds.
    processor_seconds: f64,
    /// Time of the fixed piece of work that is timed in each run.
    yardstick_seconds: f64,
}

/// Suites that need a quarter more than was recorded are an error: either they were made cheaper, or the record is raised
/// with the reason in the commit.
const PROCESSOR_SECONDS_GROWTH_MAX: f64 = 1.25;

impl Minimums {
    pub fn announcement(&self) -> String {
        let Times { minutes_warm, minutes_cold, .. } = self.times;
        format!(
            "all suites take about {minutes_warm} minutes on two processors, {minutes_cold} from an empty cache; \
             `cargo xtask test quick` runs those for everyday work"
        )
    }

    /// Objection to `seconds` processor seconds, if they are too many for a machine with this time for the yardstick.
    pub fn objection_to_processor_time(&self, seconds: f64, yardstick: f64) -> Option<String> {
        let slowness = (yardstick / self.times.yardstick_seconds).max(1.0);
        let max = self.times.processor_seconds * slowness * PROCESSOR_SECONDS_GROWTH_MAX;
        (seconds > max).then(|| {
            format!(
                "all suites needed {seconds:.0} s of processors, more than {max:.0}; \
                 .ci/minimums.toml records {:.0} at a yardstick of {:.2} s, this run had {yardstick:.2} s",
                self.times.processor_seconds, self.times.yardstick_seconds
            )
        })
    }

    pub fn read() -> Outcome<Minimums> {
        let path = project::root().join(".ci/minimums.toml");
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let present = SHARED.into_iter().filter(|name| shared_place(name).1.is_dir()).collect();
        Minimums::parse(&text, present)
    }

    fn parse(text: &str, present: Vec<&'static str>) -> Outcome<Minimums> {
        let numbers: Minimums = toml::from_str(text).map_err(|error| format!("minimums: {error}"))?;
        for (name, suites) in &numbers.with {
            if !SHARED.contains(&name.as_str()) {
                return Err(format!("minimums: there is no shared data '{name}'").into());
            }
            if let Some(suite) = suites.keys().find(|suite| !numbers.alone.contains_key(*suite)) {
                return Err(format!("minimums: '{suite}' has no number without the data '{name}'").into());
            }
        }
        Ok(Minimums { present, ..numbers })
    }

    /// The minimum for the existing data.
    fn of(&self, suite: &str) -> Option<u64> {
        let with = self.present.iter().filter_map(|name| self.with.get(*name)?.get(suite));
        self.alone.get(suite).into_iter().chain(with).max().copied()
    }

    /// Why this result is not good enough, if it is not. A suite without a minimum is an error as well.
    pub fn objection(&self, suite: &str, tally: Tally) -> Option<String> {
        let Some(minimum) = self.of(suite) else {
            return Some(format!("{suite} has no line in .ci/minimums.toml"));
        };
        if tally.failed > 0 {
            return Some(format!("{suite}: {} failed", tally.failed));
        }
        (tally.passed < minimum).then(|| format!("{suite}: {} passed, at least {minimum} must", tally.passed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: &str =
        "[times]\nminutes_warm = 1\nminutes_cold = 2\nprocessor_seconds = 100\nyardstick_seconds = 2\n";
    const NUMBERS: &str =
        "[alone]\nworkspace = 3\n\"python/test_crud.py\" = 2\n[with.data]\n\"python/test_crud.py\" = 5\n";

    fn parse(numbers: &str, present: Vec<&'static str>) -> Outcome<Minimums> {
        Minimums::parse(&format!("{TIMES}{numbers}"), present)
    }

    #[test]
    fn processor_time_is_held_to_its_record_as_far_as_the_machine_is_as_fast() {
        let minimums = parse(NUMBERS, vec![]).expect("it is well-formed");
        assert_eq!(minimums.objection_to_processor_time(124.0, 2.0), None);
        assert!(minimums.objection_to_processor_time(126.0, 2.0).is_some());
        assert_eq!(minimums.objection_to_processor_time(249.0, 4.0), None, "half as fast");
        assert!(minimums.objection_to_processor_time(126.0, 1.0).is_some(), "a faster machine has no less");
    }

    fn tally(passed: u64, failed: u64) -> Tally {
        Tally { passed, failed, skipped: 0 }
    }

    #[test]
    fn a_suite_is_held_to_its_number() {
        let minimums = parse(NUMBERS, vec![]).expect("it is well-formed");
        assert_eq!(minimums.objection("workspace", tally(3, 0)), None);
        assert!(minimums.objection("workspace", tally(2, 0)).is_some());
        assert!(minimums.objection("workspace", tally(9, 1)).is_some());
        assert_eq!(minimums.objection("python/test_crud.py", tally(4, 0)), None);
        assert!(minimums.objection("forgotten", tally(1, 0)).is_some());
    }

    #[test]
    fn more_must_pass_where_the_data_is_there() {
        let suite = "python/test_crud.py";
        for (present, passed, is_enough) in [
            (vec![], 2, true),
            (vec!["conformance"], 2, true),
            (vec!["data"], 4, false),
            (vec!["data"], 5, true),
        ] {
            let minimums = parse(NUMBERS, present.clone()).expect("it is well-formed");
            assert_eq!(minimums.objection(suite, tally(passed, 0)).is_none(), is_enough, "{present:?}");
            assert_eq!(minimums.objection("workspace", tally(3, 0)), None, "it reads none of the data");
        }
    }

    #[test]
    fn mistakes_in_the_file_are_refused() {
        for text in [
            "[alone]\nworkspace = \"many\"\n[with]",
            "[alone]\n[with.data]\nworkspace = 3",
            "[alone]\n[with.dada]\n",
            "[alone]\n[with]\n[more]\n",
        ] {
            assert!(parse(text, vec![]).is_err(), "{text}");
        }
    }

    #[test]
    fn the_recorded_file_parses() {
        assert!(!Minimums::read().expect(".ci/minimums.toml").alone.is_empty());
    }
}
