//! Projections: rules kept by the server that keep denormalised copies true.
//!
//! `when productMeta category.name changes, set product.categoryName where categoryId matches`: a
//! rule names the values of a source container and their copies in a target container. A task per rule follows the
//! source's change feed and corrects the copies that differ. Where the rule watches its target, the task follows the
//! target too, and corrects items that were written with outdated copies. docs/projections.md describes projections to
//! users; docs/decisions/2026-11-21-projections.md gives the reasons.
//!
//! | file | contents |
//! |---|---|
//! | `rule.rs`, `path.rs` | the rule, its paths and queries |
//! | `check.rs` | whether a rule can be kept together with the others |
//! | `records.rs` | a projection in memory, and storing its progress |
//! | `status.rs` | the state of a projection, for reports |
//! | `work.rs` | the next work, in small steps that can be repeated |
//! | `apply.rs` | correcting one item's copies |
//! | `dead_letters.rs` | items that could not be corrected |
//! | `runner.rs` | the task |
//!
//! Every step may be repeated: it reads the newest version of the source's item and writes only copies that differ, on
//! condition that no other write has changed the item meanwhile. So the only durable state is the position in the feed,
//! stored after the writes that it led to. Reads and writes pay like a client's of low priority.

mod apply;
mod check;
mod dead_letters;
mod path;
mod records;
mod rule;
mod runner;
mod status;
mod work;

use std::sync::Arc;

use shardlake_catalog::{Checkpoint, Definitions, ProjectionRecord, ProjectionRule, ProjectionStart};
pub use shardlake_change_log::Lag as ProjectionLag;
use shardlake_change_log::{LogPosition, lag};
use shardlake_model::{Error, ErrorKind, RequestContext, Result};

use records::{Entries, ProjectionEntries, ProjectionEntry};
pub use status::{ProjectionReport, ProjectionState};

use shardlake_router::{LiveCatalog, Serving};

use shardlake_definitions::Resources;
use shardlake_items::Items;
use shardlake_queries::Queries;

/// Rules of one account: each has a task.
const PROJECTIONS_MAX: usize = 100;

/// Result of putting a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProjectionPut {
    Created,
    /// It replaced another rule with its id, and begins anew.
    Replaced,
    /// The same rule exists already.
    Unchanged,
}

/// The projections of an account. Cheap to clone; their tasks hold it weakly.
#[derive(Debug, Clone)]
pub struct Projections(Arc<ProjectionsState>);

#[derive(Debug)]
struct ProjectionsState {
    router: Serving,
    queries: Queries,
    resources: Resources,
    entries: ProjectionEntries,
}

impl Projections {
    /// Continues the stored projections, and follows the catalog from now on.
    pub fn start(queries: Queries, resources: Resources) -> Result<Projections> {
        let entries = ProjectionEntries::default();
        let projections = Projections(Arc::new(ProjectionsState {
            router: queries.router().clone(),
            queries,
            resources,
            entries,
        }));
        runner::start(&projections)?;
        Ok(projections)
    }

    pub fn router(&self) -> &Serving {
        &self.0.router
    }

    fn items(&self) -> &Items {
        self.0.queries.items()
    }

    /// Creates a projection, or replaces the rule of one, which then begins anew.
    pub async fn put_projection(&self, ctx: &RequestContext, rule: ProjectionRule) -> Result<ProjectionPut> {
        let compiled = rule::compile(&rule)?;
        let (checkpoint, ends) = {
            let live = self.0.router.catalog().load_full();
            let ends = check::check(&live, &self.entries_in(&live), &rule, &compiled)?;
            (
                first_checkpoint(&rule, &ends),
                (ends.source.rid_text().to_owned(), ends.target.rid_text().to_owned()),
            )
        };
        // A position must not outlive the commits that it counts.
        records::settle(self).await?;
        let created = ctx.now.seconds();
        let projections = self.clone();
        let plan = move |live: &LiveCatalog, draft: &mut Definitions| {
            let entries = projections.entries_in(live);
            let old = entries.get(&rule.id);
            if old.is_some_and(|old| old.record.rule == rule && old.status.live().failed.is_none()) {
                return Ok(ProjectionPut::Unchanged);
            }
            if old.is_none() && entries.len() >= PROJECTIONS_MAX {
                return Err(Error::bad_request(format!(
                    "an account holds at most {PROJECTIONS_MAX} projections"
                )));
            }
            if draft.function(&rule.id).is_some() {
                return Err(Error::bad_request(format!(
                    "there is a function '{}', and names of copies are unique: choose another id",
                    rule.id
                )));
            }
            let now = check::check(live, &entries, &rule, &compiled)?;
            if (now.source.rid_text(), now.target.rid_text()) != (&*ends.0, &*ends.1) {
                return Err(Error::new(
                    ErrorKind::Conflict,
                    "a container of the projection was created anew meanwhile: put the projection again",
                ));
            }
            draft.numbers.projection += 1;
            let record = ProjectionRecord {
                number: draft.numbers.projection,
                source: now.source.record.container.rid,
                target: now.target.record.container.rid,
                is_paused: old.is_some_and(|old| old.record.is_paused),
                created,
                rule,
            };
            if let Some(old) = old {
                draft.remove_projection(old.record.number);
            }
            let holds = records::first_holds(&record, &checkpoint, created * 1000);
            holds.into_iter().for_each(|hold| draft.put_log_hold(hold));
            draft.checkpoints.put(record.number, checkpoint);
            draft.projections.put(record.number, record);
            Ok(if old.is_some() { ProjectionPut::Replaced } else { ProjectionPut::Created })
        };
        let (put, _) = self.router().change(plan).await?;
        self.projection_entries();
        Ok(put)
    }

    pub async fn delete_projection(&self, id: &str) -> Result<()> {
        let id = id.to_owned();
        let plan = move |_: &LiveCatalog, draft: &mut Definitions| {
            let number = record_of(draft, &id)?.number;
            draft.remove_projection(number);
            Ok(())
        };
        self.router().change(plan).await?;
        self.projection_entries();
        Ok(())
    }

    /// Stops a projection between two steps, until it is resumed; a restart does not resume it.
    pub async fn pause_projection(&self, id: &str) -> Result<()> {
        self.set_paused(id, true).await
    }

    pub async fn resume_projection(&self, id: &str) -> Result<()> {
        self.set_paused(id, false).await
    }

    async fn set_paused(&self, id: &str, is_paused: bool) -> Result<()> {
        let id = id.to_owned();
        let plan = move |_: &LiveCatalog, draft: &mut Definitions| {
            let record = ProjectionRecord { is_paused, ..record_of(draft, &id)?.clone() };
            draft.projections.put(record.number, record);
            Ok(())
        };
        self.router().change(plan).await?;
        self.projection_entries();
        Ok(())
    }

    /// Every projection, in the order of their ids.
    pub async fn projections(&self) -> Vec<ProjectionReport> {
        let entries = self.projection_entries();
        let mut reports = Vec::with_capacity(entries.len());
        for entry in entries.values() {
            reports.push(self.report_projection(entry).await);
        }
        reports
    }

    pub async fn projection(&self, id: &str) -> Result<ProjectionReport> {
        let entries = self.projection_entries();
        let entry = entries.get(id).ok_or_else(|| no_such(id))?;
        Ok(self.report_projection(entry).await)
    }

    /// The projections in force. Those that are new get a task.
    fn projection_entries(&self) -> Entries {
        self.entries_in(&self.0.router.catalog().load_full())
    }

    fn entries_in(&self, live: &LiveCatalog) -> Entries {
        let in_line = self.0.entries.in_line_with(&live.definitions);
        let (entries, new) = in_line.expect("a rule was compiled before the catalog took it");
        new.iter().for_each(|entry| runner::start_one(self, entry));
        entries
    }

    async fn report_projection(&self, entry: &ProjectionEntry) -> ProjectionReport {
        let (checkpoint, waits, failed, last_error) = {
            let live = entry.status.live();
            (live.checkpoint.clone(), live.waits.clone(), live.failed.clone(), live.last_error.clone())
        };
        let state = match (failed, entry.record.is_paused, waits) {
            (Some(words), ..) => ProjectionState::Failed(words),
            (None, true, _) => ProjectionState::Paused,
            (None, false, Some(words)) => ProjectionState::Waiting(words),
            (None, false, None) => ProjectionState::Running,
        };
        let mut behind = lag(self.router(), entry.record.source, &checkpoint.source).await;
        let of_target = lag(self.router(), entry.record.target, &checkpoint.target).await;
        behind.changes += of_target.changes;
        behind.seconds = behind.seconds.max(of_target.seconds);
        ProjectionReport {
            rule: entry.record.rule.clone(),
            created: entry.record.created,
            state,
            lag: behind,
            counts: checkpoint.counts,
            last_error,
            places: checkpoint.source.iter().map(status::triple).collect(),
        }
    }
}

/// Start of a new projection. Older items of the target need no watching: the source's items lead to them.
fn first_checkpoint(rule: &ProjectionRule, ends: &check::Ends) -> Checkpoint {
    let source = match rule.start {
        ProjectionStart::Beginning => LogPosition::beginning().records(),
        ProjectionStart::Now => LogPosition::now(&ends.source).records(),
    };
    let target = if rule.watch_target { LogPosition::now(&ends.target).records() } else { Vec::new() };
    Checkpoint { source, target, counts: Default::default() }
}

fn record_of<'d>(draft: &'d Definitions, id: &str) -> Result<&'d ProjectionRecord> {
    let record = draft.projections.values().find(|record| record.rule.id == id);
    record.map(|record| &**record).ok_or_else(|| no_such(id))
}

fn no_such(id: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no projection '{id}'"))
}
