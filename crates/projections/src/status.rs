//! State of a projection, readable while its task is at work.

use std::sync::{Mutex, MutexGuard};

use shardlake_stdx::Timestamp;
use tokio::sync::Notify;

use shardlake_catalog::{Checkpoint, PlaceRecord, ProjectionCounts};

/// Shared by the task and all readers.
#[derive(Debug)]
pub(crate) struct Status {
    live: Mutex<Live>,
    /// Wakes the task: it is to be paused, resumed or ended, or there may be work.
    pub wake: Notify,
}

#[derive(Debug, Default)]
pub(crate) struct Live {
    /// Its progress, ahead of the stored progress.
    pub checkpoint: Checkpoint,
    pub waits: Option<String>,
    /// It will not continue by itself.
    pub failed: Option<String>,
    /// The last error, and its time.
    pub last_error: Option<(String, Timestamp)>,
}

impl Status {
    pub fn new(checkpoint: Checkpoint) -> Status {
        Status { live: Mutex::new(Live { checkpoint, ..Live::default() }), wake: Notify::new() }
    }

    pub fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().expect("nothing panics under this lock")
    }

    pub fn count(&self, change: impl FnOnce(&mut ProjectionCounts)) {
        change(&mut self.live().checkpoint.counts);
    }

    /// Records an error.
    pub fn note_error(&self, words: String, now: Timestamp) {
        self.live().last_error = Some((words, now));
    }
}

/// State of a projection, in a word, and its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProjectionState {
    Running,
    /// An obstacle; the projection tries again by itself.
    Waiting(String),
    Paused,
    /// It will not continue: delete it, or create it anew.
    Failed(String),
}

impl ProjectionState {
    pub fn name(&self) -> &'static str {
        match self {
            ProjectionState::Running => "running",
            ProjectionState::Waiting(_) => "waiting",
            ProjectionState::Paused => "paused",
            ProjectionState::Failed(_) => "failed",
        }
    }

    /// Why it waits or has failed.
    pub fn reason(&self) -> Option<&str> {
        match self {
            ProjectionState::Waiting(words) | ProjectionState::Failed(words) => Some(words),
            ProjectionState::Running | ProjectionState::Paused => None,
        }
    }
}

/// A projection as an operator sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ProjectionReport {
    pub rule: shardlake_catalog::ProjectionRule,
    pub created: u64,
    pub state: ProjectionState,
    /// Some of the changes may concern nothing that it follows.
    pub lag: shardlake_change_log::Lag,
    pub counts: ProjectionCounts,
    pub last_error: Option<(String, Timestamp)>,
    /// Parts of the source's hash space, in hexadecimal, and the last LSN whose copies are written.
    pub places: Vec<(String, String, u64)>,
}

pub(crate) fn triple(place: &PlaceRecord) -> (String, String, u64) {
    (place.min.clone(), place.max.clone(), place.after)
}
