//! State of a function in memory, shared by its task, the saver and all readers.

use std::sync::{Mutex, MutexGuard};

use shardlake_catalog::Checkpoint;
use shardlake_stdx::Timestamp;

use crate::log::Ring;
use crate::recent::Recent;

#[derive(Debug)]
pub(crate) struct Status(Mutex<Live>);

#[derive(Debug, Default)]
pub(crate) struct Live {
    /// Progress, ahead of the stored progress.
    pub checkpoint: Checkpoint,
    pub saved: Checkpoint,
    /// An obstacle: the task tries again.
    pub waits: Option<String>,
    pub last_error: Option<(String, Timestamp)>,
    /// Runs since the start of the server, and those of them that failed.
    pub runs: u64,
    pub failed_runs: u64,
    /// Holes in the log that the function passed over: it may have missed deletions.
    pub holes: u64,
    /// Spent since the start of the server.
    pub charge_centi: u64,
    pub recent: Recent,
    pub log: Ring,
}

impl Status {
    pub fn new(checkpoint: Checkpoint) -> Status {
        let saved = checkpoint.clone();
        Status(Mutex::new(Live { checkpoint, saved, ..Live::default() }))
    }

    pub fn live(&self) -> MutexGuard<'_, Live> {
        self.0.lock().expect("nothing panics under this lock")
    }

    pub fn note_error(&self, message: String, now: Timestamp) {
        self.live().last_error = Some((message, now));
    }
}
