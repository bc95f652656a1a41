//! How many tests of each suite must pass, from `.ci/minimums.toml`.
//!
//! A suite that silently shrinks (a file not found, a filter that matches nothing, a package that did not install) passes all it
//! runs. The recorded minimum is what catches it. Numbers only go up, except with the reason in the commit that lowers them.

use crate::tally::Tally;
use crate::{Outcome, project};
use std::collections::BTreeMap;

/// Suite → the fewest tests that must pass.
#[derive(Debug, Default)]
pub struct Minimums(BTreeMap<String, u64>);

impl Minimums {
    pub fn read() -> Outcome<Minimums> {
        let path = project::root().join(".ci/minimums.toml");
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Minimums::parse(&text)
    }

    fn parse(text: &str) -> Outcome<Minimums> {
        let numbers = toml::from_str(text).map_err(|error| format!("minimums: {error}"))?;
        Ok(Minimums(numbers))
    }

    /// Why this result is not good enough, if it is not. A suite without a minimum is an error as well.
    pub fn objection(&self, suite: &str, tally: Tally) -> Option<String> {
        let Some(minimum) = self.0.get(suite) else {
            return Some(format!("{suite} has no line in .ci/minimums.toml"));
        };
        if tally.failed > 0 {
            return Some(format!("{suite}: {} failed", tally.failed));
        }
        (tally.passed < *minimum)
            .then(|| format!("{suite}: {} passed, at least {minimum} must", tally.passed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(passed: u64, failed: u64) -> Tally {
        Tally { passed, failed, skipped: 0 }
    }

    #[test]
    fn a_suite_is_held_to_its_number() {
        let minimums =
            Minimums::parse("workspace = 3\n\"python/test_crud.py\" = 2\n").expect("two lines of TOML");
        assert_eq!(minimums.objection("workspace", tally(3, 0)), None);
        assert!(minimums.objection("workspace", tally(2, 0)).is_some());
        assert!(minimums.objection("workspace", tally(9, 1)).is_some());
        assert_eq!(minimums.objection("python/test_crud.py", tally(4, 0)), None);
        assert!(minimums.objection("forgotten", tally(1, 0)).is_some());
    }

    #[test]
    fn only_numbers_are_minimums() {
        assert!(Minimums::parse("workspace = \"many\"").is_err());
    }

    #[test]
    fn the_recorded_file_parses() {
        assert!(!Minimums::read().expect(".ci/minimums.toml").0.is_empty());
    }
}
