//! Functions: JavaScript that the server runs over the changes of a container.
//!
//! A task per function reads the change log of its source, gives batches of changes to the function in a worker
//! process, and commits the writes that it made. docs/functions.md describes functions to users.
//!
//! ```text
//! batch ── run: reads now, writes buffered ── commit in each target partition, with a progress row ── position
//! ```
//! *Exactly once*: a progress row in a target partition names the LSN of the source up to which the partition has the
//! function's writes. A batch that is repeated after a crash ends at the least progress above the stored position, and
//! partitions whose progress is at or above the batch's end leave its writes out.
//!
//! | file | contents |
//! |---|---|
//! | `definition.rs`, `filter.rs`, `circle.rs` | checks of a definition, its filter, circles of copies |
//! | `put.rs` | definitions that are created, replaced and deleted |
//! | `entries.rs`, `status.rs`, `report.rs` | functions in memory, their state, and reports |
//! | `batch.rs` | changes of a part of the source, up to an LSN |
//! | `at_work.rs`, `run.rs`, `reads.rs` | surroundings of a step; one run in a worker; its reads |
//! | `writes.rs`, `commits.rs` | its writes, checked and committed with their progress |
//! | `attempt.rs`, `trouble.rs` | one attempt at a batch; attempts after failures, halving |
//! | `letters.rs`, `recent.rs` | dead letters; their rate |
//! | `log.rs` | lines of `console.log` |
//! | `replay.rs` | functions that begin anew; earlier codes |
//! | `trial.rs` | runs on the last changes, whose writes are discarded |
//! | `runner.rs` | the task of a function |
//! | `saver.rs` | positions of all functions, in one change of the catalog a second |

mod at_work;
mod attempt;
mod batch;
mod circle;
mod commits;
mod definition;
mod entries;
mod filter;
mod letters;
mod log;
mod put;
mod reads;
mod recent;
mod replay;
mod report;
mod run;
mod runner;
mod saver;
mod status;
mod trial;
mod trouble;
mod writes;

use std::sync::Arc;

use shardlake_catalog::{Definitions, FunctionRecord};
use shardlake_definitions::Resources;
use shardlake_model::{Error, ErrorKind, Result};
use shardlake_queries::Queries;
use shardlake_router::Serving;
use shardlake_script::Scripts;

use entries::{Entries, FunctionEntry};
pub use log::FunctionLogLine;
pub use put::FunctionPut;
pub use reads::FunctionAsked;
pub use replay::ReplayFrom;
pub use report::{FunctionReport, FunctionState};
pub use trial::{FunctionTrial, TRIAL_CHANGES_MAX};
pub use writes::name_of;

/// Functions of one account: each has a task.
pub const FUNCTIONS_MAX: usize = 50;

/// The functions of an account. Cheap to clone; their tasks hold it weakly.
#[derive(Debug, Clone)]
pub struct Functions(Arc<FunctionsState>);

#[derive(Debug)]
struct FunctionsState {
    router: Serving,
    queries: Queries,
    resources: Resources,
    scripts: Scripts,
    entries: Entries,
    /// Of two savers the later one stores the later position.
    saving: tokio::sync::Mutex<()>,
}

impl Functions {
    /// Continues the stored functions, and follows the catalog from now on.
    pub fn start(queries: Queries, resources: Resources, scripts: Scripts) -> Functions {
        let functions = Functions(Arc::new(FunctionsState {
            router: queries.router().clone(),
            queries,
            resources,
            scripts,
            entries: Entries::default(),
            saving: Default::default(),
        }));
        runner::start(&functions);
        saver::start(&functions);
        functions
    }

    pub fn router(&self) -> &Serving {
        &self.0.router
    }

    /// Every function, in the order of their ids.
    pub async fn functions(&self) -> Vec<FunctionReport> {
        let mut reports = Vec::new();
        for entry in self.entries() {
            reports.extend(self.report(&entry).await);
        }
        reports.sort_by(|a, b| a.record.definition.id.cmp(&b.record.definition.id));
        reports
    }

    pub async fn function(&self, id: &str) -> Result<FunctionReport> {
        let number = record_of(&self.0.router.live_catalog().definitions, id)?.number;
        let entry = self.entries().into_iter().find(|entry| entry.number == number);
        let report = match entry {
            Some(entry) => self.report(&entry).await,
            None => None,
        };
        report.ok_or_else(|| no_such(id))
    }

    /// The latest lines that a function logged.
    pub fn log(&self, id: &str) -> Result<Vec<FunctionLogLine>> {
        let number = record_of(&self.0.router.live_catalog().definitions, id)?.number;
        let entry = self.entries().into_iter().find(|entry| entry.number == number);
        entry.map(|entry| entry.status.live().log.lines()).ok_or_else(|| no_such(id))
    }

    /// Stops a function between two batches, until it is resumed; a restart does not resume it.
    pub async fn pause(&self, id: &str) -> Result<()> {
        self.edit(id, |record| record.is_paused = true).await
    }

    pub async fn resume(&self, id: &str) -> Result<()> {
        let resume = |record: &mut FunctionRecord| {
            record.is_paused = false;
            record.pause_reason = None;
        };
        self.edit(id, resume).await
    }

    /// Stops a function for a reason that its report shows.
    pub(crate) async fn pause_for(&self, number: u32, reason: String) -> Result<()> {
        let plan = move |_: &_, draft: &mut Definitions| {
            let Some(record) = draft.functions.get(&number) else { return Ok(()) };
            let mut record = FunctionRecord::clone(record);
            (record.is_paused, record.pause_reason) = (true, Some(reason));
            draft.functions.put(number, record);
            Ok(())
        };
        self.0.router.change(plan).await?;
        self.entries();
        Ok(())
    }

    async fn edit(&self, id: &str, edit: impl FnOnce(&mut FunctionRecord) + Send + 'static) -> Result<()> {
        let id = id.to_owned();
        let plan = move |_: &_, draft: &mut Definitions| {
            let mut record = record_of(draft, &id)?.clone();
            edit(&mut record);
            draft.functions.put(record.number, record);
            Ok(())
        };
        self.0.router.change(plan).await?;
        self.entries();
        Ok(())
    }

    /// The functions in force. Those that are new get a task.
    fn entries(&self) -> Vec<Arc<FunctionEntry>> {
        let live = self.0.router.live_catalog();
        let (all, new) = self.0.entries.in_line_with(&live.definitions);
        new.iter().for_each(|entry| runner::start_one(self, entry));
        all
    }

    /// Why a function cannot continue: one of its containers was deleted.
    fn gone(&self, record: &FunctionRecord) -> Option<String> {
        let live = self.0.router.live_catalog();
        let source = &record.definition.source;
        let name = format!("{}/{}", source.database, source.container);
        let named = record.definition.access.keys().map(|name| definition::named(name, &source.database));
        let named = named.map(|(database, container)| format!("{database}/{container}"));
        let all = std::iter::once(("source", name, record.source))
            .chain(named.zip(&record.access).map(|(name, rid)| ("'access'", name, *rid)));
        let gone = all.into_iter().find(|(.., rid)| live.container_of_rid(*rid).is_none());
        gone.map(|(role, name, _)| {
            format!("the container '{name}' ({role} of the function) was deleted: delete the function, or put it again")
        })
    }
}

fn record_of<'d>(definitions: &'d Definitions, id: &str) -> Result<&'d FunctionRecord> {
    definitions.function(id).ok_or_else(|| no_such(id))
}

fn no_such(id: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no function '{id}'"))
}
