//! Comparison of an index with its definition over its source, both ways, while clients write.
//!
//! ```text
//! for each part of the source's hash space, as many items as memory allows:
//!   source  view at LSN s ── rows of its items ── names and digests            (pass.rs)
//!   index   has passed s ── every row of the part: as expected, or suspected   (pass.rs)
//!   both    a second look at suspects: an item that has changed since s proves nothing    (confirm.rs)
//! ```
//! A row whose stamp is at or below `s` was made from a version that the view has, or that had ended before: so it is among the expected
//! rows or one too many. A stamp above `s` is of a later change.
//!
//! | file | contents |
//! |---|---|
//! | `differences.rs` | differences as they are reported |
//! | `span.rs` | the part of the source that one pass compares |
//! | `pass.rs` | one part of the source against the index |
//! | `confirm.rs` | the second look |
//! | `names.rs` | names of the rows of a unique index |
//! | `groups.rs` | one part of the source against an index of groups |
//! | `judge.rs` | the row of a group against the group as it was counted |
//! | `looks.rs` | looks at groups whose rows are not those of the first view |
//! | `extras.rs` | rows of groups that have begun after the first view |

mod confirm;
mod differences;
mod extras;
mod groups;
mod judge;
mod looks;
mod names;
mod pass;
mod span;

use std::sync::Arc;

use shardlake_catalog::{IndexPhase, SecondaryIndexRecord};
use shardlake_model::{Error, ErrorKind, Result};
use shardlake_router::IndexRows;
use shardlake_routing::KeyRange;
use shardlake_storage::Shard;

use crate::Copies;
use crate::at_work::IndexAtWork;
use crate::entries::IndexEntry;
use crate::verification::{IndexVerification, VerifyState};

/// How a verification treats differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repair {
    /// It reports them.
    No,
    /// It begins the index's next generation, which is built from the source.
    Rebuild,
}

impl Copies {
    /// Begins to compare an index with its source, in the background. One comparison of an index runs at a time.
    pub async fn verify(&self, database: &str, container: &str, repair: Repair) -> Result<IndexVerification> {
        let rid = self.rid_of(database, container)?;
        let entry = self.entry_of(rid)?;
        let record = self.router().live_catalog().definitions.secondary_indexes.get(&rid).cloned();
        let record = record.ok_or_else(|| crate::no_such(database, container))?;
        check_follows(&record, &format!("{database}/{container}"))?;
        let source = self.router().entry_of_rid(record.source)?;
        let items = source.map.iter().map(|partition| partition.items()).sum();
        let began = self.router().clock().now();
        let report = {
            let mut slot = entry.verification.lock().expect("nothing panics under this lock");
            if slot.as_ref().is_some_and(|report| report.state == VerifyState::Running) {
                return Err(Error::new(
                    ErrorKind::InProgress,
                    "the index is being verified: wait for its end, then verify again",
                ));
            }
            let report = IndexVerification::begin(began, items);
            *slot = Some(report.clone());
            report
        };
        let copies = self.clone();
        tokio::spawn(async move {
            let outcome = run(&copies, &entry, &record, repair).await;
            let ended = copies.router().clock().now();
            entry.change_verification(|report| report.end(outcome, ended));
        });
        Ok(report)
    }

    /// The last comparison of an index since the start of the server.
    pub fn verification(&self, database: &str, container: &str) -> Result<Option<IndexVerification>> {
        let entry = self.entry_of(self.rid_of(database, container)?)?;
        let report = entry.verification.lock().expect("nothing panics under this lock").clone();
        Ok(report)
    }
}

fn check_follows(record: &SecondaryIndexRecord, name: &str) -> Result<()> {
    if record.state.phase == IndexPhase::Active && !record.state.is_paused {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Conflict,
        format!(
            "the index '{name}' is {}: it is verified once it follows its source (shardlake copies status {name})",
            record.state.status()
        ),
    ))
}

async fn run(
    copies: &Copies,
    entry: &Arc<IndexEntry>,
    record: &SecondaryIndexRecord,
    repair: Repair,
) -> Result<Option<u16>> {
    let undecided = compare(copies, entry, record).await?;
    let differences = {
        let report = entry.verification.lock().expect("nothing panics under this lock");
        report.as_ref().map_or(0, |report| report.differences)
    };
    if differences > 0 && repair == Repair::Rebuild {
        tracing::warn!(
            index = entry.number,
            differences,
            "an index differs from its source: it is built anew"
        );
        copies.begin_anew(entry.index).await?;
        return Ok(Some(record.generation.saturating_add(1)));
    }
    match undecided {
        0 => Ok(None),
        undecided => Err(Error::new(
            ErrorKind::Conflict,
            format!(
                "{undecided} groups changed during each of {} looks, and all others were compared: verify again when the source has fewer writes",
                looks::LOOKS_MAX
            ),
        )),
    }
}

/// Returns how many groups changed during each look at them.
async fn compare(copies: &Copies, entry: &Arc<IndexEntry>, record: &SecondaryIndexRecord) -> Result<u64> {
    let serving = copies.router();
    let mut work = Shard::paced_work(serving.shards(), 1);
    let (mut rest, mut undecided) = (Some(KeyRange::full()), 0);
    while let Some(span) = rest {
        let source = serving.entry_of_rid(record.source)?;
        // Compiled for each part: the source's schema may change meanwhile.
        let rows =
            IndexRows::of_index(&serving.live_catalog().definitions, entry.index, record, &source.shape)?;
        let at = IndexAtWork { serving, entry, record, source, rows: &rows };
        if rows.is_grouped() {
            let mut pass = groups::GroupPass::compare_groups(copies, &at, &span, &mut work).await?;
            pass.compare_index(copies, &at, &mut work).await?;
            undecided += pass.undecided;
            rest = pass.read.rest();
            continue;
        }
        let mut pass = pass::Pass::read(&at, &span, &mut work).await?;
        copies.reach(entry, pass.read.position()).await?;
        pass.compare(&at, &mut work).await?;
        confirm::confirm(&at, &pass).await?;
        rest = pass.read.rest();
    }
    Ok(undecided)
}
