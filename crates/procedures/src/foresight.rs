//! The scripts that may run with foreseen answers.
//!
//! A misjudged run is repeated. A script whose calls fail now and then on purpose (it creates items that may
//! exist already) therefore runs without foresight for a while after each misjudged run, so that it costs
//! little more than it would otherwise.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use shardlake_model::ContainerRid;

/// Runs without foresight after a misjudged run.
const CAREFUL_RUNS: u32 = 64;
/// Scripts that are known to have been misjudged; all are forgotten when there are more.
const SCRIPTS_MAX: usize = 1024;

/// A script, by its container and its number in it.
type ScriptKey = (ContainerRid, u64);

#[derive(Debug, Default)]
pub(crate) struct Foresight {
    /// The remaining runs without foresight.
    careful: Mutex<HashMap<ScriptKey, u32>>,
}

impl Foresight {
    /// To be called once for each run.
    pub fn may_foresee(&self, script: ScriptKey) -> bool {
        let mut careful = self.careful();
        let Some(runs) = careful.get_mut(&script) else { return true };
        debug_assert!(*runs > 0, "a script whose careful runs are over is forgotten");
        *runs -= 1;
        if *runs == 0 {
            careful.remove(&script);
        }
        false
    }

    pub fn note_misjudged(&self, script: ScriptKey) {
        let mut careful = self.careful();
        if careful.len() >= SCRIPTS_MAX {
            careful.clear();
        }
        careful.insert(script, CAREFUL_RUNS);
    }

    fn careful(&self) -> MutexGuard<'_, HashMap<ScriptKey, u32>> {
        self.careful.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use shardlake_model::DatabaseRid;

    use super::*;

    #[test]
    fn script_is_run_with_care_for_a_while_after_it_was_misjudged() {
        let foresight = Foresight::default();
        let script = |number| (ContainerRid { database: DatabaseRid(1), number: 1 }, number);
        assert!(foresight.may_foresee(script(1)));
        foresight.note_misjudged(script(1));
        let is_careful = |_| !foresight.may_foresee(script(1)) && foresight.may_foresee(script(2));
        assert!((0..CAREFUL_RUNS).all(is_careful));
        assert!(foresight.may_foresee(script(1)));
        (0..10_000).for_each(|number| foresight.note_misjudged(script(number)));
        assert!(foresight.careful().len() <= SCRIPTS_MAX);
    }
}
