//! Faults and mistakes that tests ask for. Only with the feature `testing`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use shardlake_analytical_table::store::Faults;

/// A mistake of the follower, to see that checks notice it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeededBug {
    /// Replaced versions keep their rows.
    SkippedVector,
    /// Deleted items keep their rows.
    LostDelete,
    /// The position of a round is committed before the rows are.
    PositionBeforeRows,
    /// A restarted follower goes on at the end of the log, without the rows.
    RestartAhead,
    /// A step panics.
    Panic,
}

/// Hooks of one server's followers. Clones are the same hooks.
#[derive(Debug, Clone, Default)]
pub struct Hooks {
    bug: Arc<Mutex<Option<SeededBug>>>,
    look_every: Option<Duration>,
    /// Of all files of all tables, including the local ones.
    pub faults: Faults,
}

impl Hooks {
    /// Followers that look so often whether something is due: clocks of tests jump.
    pub fn waking_each(look_every: Duration) -> Hooks {
        Hooks { look_every: Some(look_every), ..Hooks::default() }
    }

    pub(crate) fn look_every(&self) -> Option<Duration> {
        self.look_every
    }

    /// Clones of these hooks: the state of a server's tables has one for as long as its follower runs.
    pub fn clones(&self) -> usize {
        Arc::strong_count(&self.bug)
    }

    /// Makes the mistake from now on.
    pub fn seed(&self, bug: SeededBug) {
        *self.bug.lock().unwrap_or_else(PoisonError::into_inner) = Some(bug);
    }

    pub(crate) fn has(&self, bug: SeededBug) -> bool {
        *self.bug.lock().unwrap_or_else(PoisonError::into_inner) == Some(bug)
    }
}

/// Hooks are equal where they are the same ones.
impl PartialEq for Hooks {
    fn eq(&self, other: &Hooks) -> bool {
        Arc::ptr_eq(&self.bug, &other.bug)
    }
}

impl Eq for Hooks {}
