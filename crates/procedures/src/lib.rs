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

use std::sync::Arc;

use shardlake_items::Items;
use shardlake_queries::Queries;
use shardlake_router::Serving;
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
    router: Serving,
    items: Items,
    queries: Queries,
    scripts: Scripts,
    foresight: Foresight,
}

impl ScriptRuns {
    pub fn new(queries: Queries, scripts: Scripts) -> ScriptRuns {
        let (router, items) = (queries.router().clone(), queries.items().clone());
        let foresight = Foresight::default();
        ScriptRuns(Arc::new(ScriptRunsState { router, items, queries, scripts, foresight }))
    }

    /// The kernel's confinement of script workers; `None` before the first one was started.
    pub fn script_confinement(&self) -> Option<Confined> {
        self.0.scripts.confined()
    }

    pub fn router(&self) -> &Serving {
        &self.0.router
    }

    pub fn items(&self) -> &Items {
        &self.0.items
    }

    pub fn queries(&self) -> &Queries {
        &self.0.queries
    }
}
