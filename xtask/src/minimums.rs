//! How many tests of each suite must pass, from `.ci/minimums.toml`.
//!
//! A suite that silently shrinks (a file not found, a filter that matches nothing, a package that did not install) passes all
//! it runs. The recorded minimum is what catches it. `[alone]` holds in a clone that has nothing beside it; `[with.NAME]` holds
//! in its place where the directory NAME of the shared data is there. Numbers only go up, except with the reason in the commit
//! that lowers them.

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
    alone: Numbers,
    with: BTreeMap<String, Numbers>,
    /// The directories of the shared data that are there.
    #[serde(skip)]
    present: Vec<&'static str>,
}

impl Minimums {
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

    /// The number for the data that is there.
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

    const TEXT: &str =
        "[alone]\nworkspace = 3\n\"python/test_crud.py\" = 2\n[with.data]\n\"python/test_crud.py\" = 5\n";

    fn tally(passed: u64, failed: u64) -> Tally {
        Tally { passed, failed, skipped: 0 }
    }

    #[test]
    fn a_suite_is_held_to_its_number() {
        let minimums = Minimums::parse(TEXT, vec![]).expect("it is well-formed");
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
            let minimums = Minimums::parse(TEXT, present.clone()).expect("it is well-formed");
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
            assert!(Minimums::parse(text, vec![]).is_err(), "{text}");
        }
    }

    #[test]
    fn the_recorded_file_parses() {
        assert!(!Minimums::read().expect(".ci/minimums.toml").alone.is_empty());
    }
}
