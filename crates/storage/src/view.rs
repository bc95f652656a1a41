//! What readers see: what writers were told is stored, and nothing else.
//!
//! An engine shows a group of commits from the moment it is applied, which is before anybody is told that it is stored. So the
//! committer keeps the state *before* a group here for as long as the group is not acknowledged, and readers read that:
//!
//! ```text
//! committer   hold ── apply ── sync ── release ── durable moves ── writers are told
//! readers     │◄─── the state before the group ───►│◄─── the group, too
//! ```
//!
//! A reader neither waits for a sync nor learns of a write that a crash could still undo; whoever was told of a write finds
//! it, because the state is let go first. After a failure nothing is let go: readers go on with the last acknowledged state.
//! Where a commit is acknowledged when it is applied ([`crate::Durability::Async`]), the state is let go then.

use std::sync::{PoisonError, RwLock};

use crate::{Engine, Snapshot};

#[derive(Default)]
pub(crate) struct View {
    /// The state before the group that is being written, or that failed.
    before: RwLock<Option<Snapshot>>,
}

impl View {
    /// What is acknowledged now.
    pub fn snapshot(&self, engine: &dyn Engine) -> Snapshot {
        // Held until the engine has answered: no group is applied between the look and the answer.
        let before = self.before.read().unwrap_or_else(PoisonError::into_inner);
        match &*before {
            Some(before) => before.clone(),
            None => Snapshot::new(engine.snapshot()),
        }
    }

    /// Keeps readers at what is acknowledged; called by whoever writes, before a group is applied.
    pub fn hold(&self, engine: &dyn Engine) {
        let state = Snapshot::new(engine.snapshot());
        let before = self.before.write().unwrap_or_else(PoisonError::into_inner).replace(state);
        assert!(before.is_none(), "after a failure no group is written");
    }

    /// Shows readers the group; called before its writers are told.
    pub fn release(&self) {
        let before = self.before.write().unwrap_or_else(PoisonError::into_inner).take();
        // Not under the lock.
        drop(before);
    }
}
