//! Stored procedures, and writes with triggers: scripts in a transaction of a logical partition.
//!
//! | file | contents |
//! |---|---|
//! | `script_run.rs` | a run: gate, turn, script, commit |
//! | `foresight.rs` | scripts that may run with foreseen answers |
//! | `script_run_store.rs`, `script_run_links.rs` | a script's data calls, and the links in them |
//! | `trial.rs`, `function_trial.rs` | trials of scripts, with their log and their discarded writes; trials of functions |
//! | `triggers.rs` | a write with the triggers that the request names |
//!
//! [`ScriptRuns`] is the API. It is built on [`Queries`] and dereferences to it.

mod foresight;
mod function_trial;
mod script_run;
mod script_run_links;
mod script_run_store;
#[cfg(test)]
mod tests;
mod trial;
mod triggers;

use std::ops::Deref;
use std::sync::Arc;

use shardlake_queries::Queries;
use shardlake_script::{Confined, Scripts};

use foresight::Foresight;
pub use script_run::ProcedureReply;
pub use script_run_store::ScriptedWrite;
pub use trial::{ScriptTrial, TrialReply, TrialRole, TrialWrite};

/// Scripts that run over items. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ScriptRuns(Arc<ScriptRunsState>);

#[derive(Debug)]
struct ScriptRunsState {
    queries: Queries,
    scripts: Scripts,
    foresight: Foresight,
}

impl Deref for ScriptRuns {
    type Target = Queries;

    fn deref(&self) -> &Queries {
        &self.0.queries
    }
}

impl Deref for ScriptRunsState {
    type Target = Queries;

    fn deref(&self) -> &Queries {
        &self.queries
    }
}

impl ScriptRuns {
    pub fn new(queries: Queries, scripts: Scripts) -> ScriptRuns {
        ScriptRuns(Arc::new(ScriptRunsState { queries, scripts, foresight: Foresight::default() }))
    }

    /// The kernel's confinement of script workers; `None` before the first one was started.
    pub fn script_confinement(&self) -> Option<Confined> {
        self.0.scripts.confined()
    }
}
