//! Copies of containers that the server keeps true: global secondary indexes.
//!
//! An index is a container whose rows follow from the items of its source. A task per index builds it from
//! views of the source, and then follows the source's change log.
//!
//! ```text
//! Initializing ── every commit of the source records ended rows ── build, chunk by chunk ── rounds
//! round        ── write all rows, durable ── end rows, durable ── position, once a second
//! ```
//! Any part of a round may be repeated, to another end: rows carry stamps and never go back
//! (`shardlake_partition::RowStamp`), and the log has the rows that ended. A task sends nothing more before it has
//! the answers to all that it sent, so no write of an earlier round arrives late.
//!
//! | file | contents |
//! |---|---|
//! | `plan.rs` | the steps of a page of the log, as data |
//! | `build.rs` | the first rows: chunks of the source, each of one view |
//! | `follow.rs` | rounds: pages of the log, of several parts of the source at once |
//! | `groups/` | indexes whose rows are aggregates of groups |
//! | `sweep.rs` | the end of a rebuild: rows of earlier generations are deleted |
//! | `at_work.rs` | the surroundings of a step, and applying rows |
//! | `send.rs` | rows to the partitions that store them |
//! | `duplicates.rs` | rows of a unique index beyond the first of their key |
//! | `parts.rs` | which parts of the source's hash space are built |
//! | `entries.rs`, `status.rs` | indexes in memory; their reports |
//! | `saver.rs` | positions of all indexes, in one change of the catalog a second |
//! | `runner.rs`, `rests.rs` | the task of an index; its rests between rounds |
//! | `verify/` | comparison of an index with its definition over its source |
//! | `reads.rs` | reads that wait until an index has writes of its source |

mod at_work;
mod build;
mod duplicates;
mod entries;
mod follow;
mod groups;
mod parts;
mod plan;
mod reads;
mod rests;
mod runner;
mod saver;
mod send;
mod status;
mod sweep;
mod verification;
mod verify;

use std::sync::Arc;

use shardlake_catalog::{Definitions, IndexPhase, SecondaryIndexRecord};
use shardlake_change_log::lag;
use shardlake_model::{ContainerRid, Error, ErrorKind, Result};
use shardlake_router::Serving;

pub use duplicates::{DUPLICATES_LISTED, DuplicateRow, Duplicates};
use entries::{Entries, IndexEntry};
pub use reads::{Awaited, READ_WAIT_MAX};
pub use shardlake_change_log::AtLeast;
pub use status::{IndexReport, REFUSALS_LISTED, Refusal};
pub use verification::{DIFFERENCES_LISTED, Difference, DifferenceKind, IndexVerification, VerifyState};
pub use verify::Repair;

/// The indexes of an account. Cheap to clone; their tasks hold it weakly.
#[derive(Debug, Clone)]
pub struct Copies(Arc<CopiesState>);

#[derive(Debug)]
struct CopiesState {
    router: Serving,
    entries: Entries,
    /// Of two savers the later one stores the later position.
    saving: tokio::sync::Mutex<()>,
}

impl Copies {
    /// Continues the stored indexes, and follows the catalog from now on.
    pub fn start(router: Serving) -> Copies {
        let copies =
            Copies(Arc::new(CopiesState { router, entries: Entries::default(), saving: Default::default() }));
        runner::start(&copies);
        saver::start(&copies);
        copies
    }

    pub fn router(&self) -> &Serving {
        &self.0.router
    }

    /// Every index, in the order of their numbers.
    pub async fn indexes(&self) -> Vec<IndexReport> {
        let mut reports = Vec::new();
        for entry in self.entries() {
            reports.extend(self.report(&entry).await);
        }
        reports
    }

    pub async fn index(&self, database: &str, container: &str) -> Result<IndexReport> {
        let rid = self.rid_of(database, container)?;
        let entry = self.entries().into_iter().find(|entry| entry.index == rid);
        let report = match entry {
            Some(entry) => self.report(&entry).await,
            None => None,
        };
        report.ok_or_else(|| no_such(database, container))
    }

    /// Stops an index between two steps, until it is resumed; a restart does not resume it.
    pub async fn pause(&self, database: &str, container: &str) -> Result<()> {
        self.change(database, container, |record| record.state.is_paused = true).await
    }

    pub async fn resume(&self, database: &str, container: &str) -> Result<()> {
        self.change(database, container, |record| record.state.is_paused = false).await
    }

    /// Builds an index anew. It is readable meanwhile.
    pub async fn rebuild(&self, database: &str, container: &str) -> Result<()> {
        let rid = self.rid_of(database, container)?;
        self.begin_anew(rid).await
    }

    async fn change(
        &self,
        database: &str,
        container: &str,
        edit: impl FnOnce(&mut SecondaryIndexRecord) + Send + 'static,
    ) -> Result<()> {
        let rid = self.rid_of(database, container)?;
        self.edit(rid, edit).await?;
        self.entries();
        Ok(())
    }

    fn rid_of(&self, database: &str, container: &str) -> Result<ContainerRid> {
        let rid = self.0.router.container(database, container)?.entry.record.container.rid;
        let live = self.0.router.live_catalog();
        let is_index = live.definitions.secondary_indexes.contains(&rid);
        if is_index { Ok(rid) } else { Err(no_such(database, container)) }
    }

    /// Changes the record of an index, unless it was deleted.
    async fn edit(
        &self,
        index: ContainerRid,
        edit: impl FnOnce(&mut SecondaryIndexRecord) + Send + 'static,
    ) -> Result<()> {
        let plan = move |_: &_, draft: &mut Definitions| {
            let Some(record) = draft.secondary_indexes.get(&index) else { return Ok(()) };
            let mut record = SecondaryIndexRecord::clone(record);
            edit(&mut record);
            draft.secondary_indexes.put(index, record);
            Ok(())
        };
        self.0.router.change(plan).await.map(drop)
    }

    /// Gives an index its next generation, which is built from the source. Rows of the generations before
    /// are replaced one by one, and the rest is deleted at the end.
    async fn begin_anew(&self, index: ContainerRid) -> Result<()> {
        let plan = move |_: &_, draft: &mut Definitions| {
            let Some(record) = draft.secondary_indexes.get(&index) else { return Ok(()) };
            let mut record = SecondaryIndexRecord::clone(record);
            record.generation = record.generation.checked_add(1).ok_or_else(|| {
                Error::bad_request("the index was rebuilt 65,535 times: delete it and create it anew")
            })?;
            record.state.phase = IndexPhase::BuildingAfterRestore;
            record.state.failed_rows = 0;
            record.state.refused.clear();
            draft.checkpoints.remove(&record.number);
            draft.secondary_indexes.put(index, record);
            Ok(())
        };
        self.0.router.change(plan).await?;
        self.entries();
        Ok(())
    }

    /// The indexes in force. Those that are new get a task.
    fn entries(&self) -> Vec<Arc<IndexEntry>> {
        let live = self.0.router.live_catalog();
        let (all, new) = self.0.entries.in_line_with(&live.definitions);
        new.iter().for_each(|entry| runner::start_one(self, entry));
        all
    }

    async fn report(&self, entry: &IndexEntry) -> Option<IndexReport> {
        let live = self.0.router.live_catalog();
        let record = live.definitions.secondary_indexes.get(&entry.index)?.clone();
        let index = live.container_of_rid(entry.index)?;
        let (database, container) = (index.database.id.clone(), index.record.container.definition.id.clone());
        let rows = index.map.iter().map(|partition| partition.items()).sum();
        let mut report = entry.status.report(&record, (database, container), rows);
        if record.state.phase == IndexPhase::Active {
            report.lag = lag(&self.0.router, record.source, &report.places).await;
        } else if let Ok(source) = self.0.router.entry_of_rid(record.source) {
            let items: u64 = source.map.iter().map(|partition| partition.items()).sum();
            report.percent = Some(status::percent(report.items_built, items));
        }
        Some(report)
    }
}

fn no_such(database: &str, container: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("'{database}/{container}' is no global secondary index"))
}
