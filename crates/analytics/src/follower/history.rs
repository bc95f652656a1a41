//! Rows without an item: history of items that ran out, and rows of a former generation that are taken over.

use std::collections::BTreeSet;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use rustc_hash::FxHashSet;
use shardlake_analytical_table::error::TableError;
use shardlake_analytical_table::log::Reason;
use shardlake_analytical_table::rows::{Documents, Row};
use shardlake_analytical_table::table::{Commit, LiveBatch, Table};
use shardlake_document::{Value, with_non_json};
use shardlake_model::{Container, Rid};
use shardlake_partition::{ChangeKind, Images, RoundError};
use shardlake_routing::KeyRange;

use super::places::{self, span_of};
use super::step::{Step, StepError};
use super::tracked::Tracked;

/// Rows that are looked at together; each takes some 100 bytes.
const CANDIDATES_MAX: usize = 500_000;

/// The system columns of a row.
pub struct RowName {
    pub rid: String,
    pub etag: String,
    pub ordinal: u64,
    pub lsn: u64,
    pub timestamp: u64,
}

/// The system columns of a row of a batch.
pub fn name_of(live: &LiveBatch, row: usize) -> Result<RowName, TableError> {
    let missing = |column: &str| TableError::damaged(&live.path, format!("no column {column}"));
    let text = |column: &str| {
        let texts = live.batch.column_by_name(column).and_then(|array| array.as_string_opt::<i32>());
        texts.map(|texts| texts.value(row).to_owned()).ok_or_else(|| missing(column))
    };
    let number = |column: &str| number_of(&live.batch, column, row).ok_or_else(|| missing(column));
    let rid = text("_rid")?;
    let Some(Rid::Item(item)) = Rid::parse(&rid) else {
        return Err(TableError::damaged(&live.path, format!("'{rid}' is no _rid of an item")));
    };
    Ok(RowName {
        ordinal: item.ordinal,
        rid,
        etag: text("_etag")?,
        lsn: number("_lsn")?,
        timestamp: number("_ts")?,
    })
}

fn number_of(batch: &RecordBatch, column: &str, row: usize) -> Option<u64> {
    let numbers = batch.column_by_name(column)?.as_primitive_opt::<Int64Type>()?;
    u64::try_from(numbers.value(row)).ok()
}

/// The documents of a batch.
pub fn documents_of<'b>(table: &'b Table, live: &'b LiveBatch) -> Result<Documents<'b>, TableError> {
    Documents::new(table.schema(), &live.batch)
        .ok_or_else(|| TableError::damaged(&live.path, "its columns are not the table's"))
}

pub fn document_of(documents: &Documents<'_>, live: &LiveBatch, row: usize) -> Result<Value, TableError> {
    documents.document(row).ok_or_else(|| TableError::damaged(&live.path, "a row is no document"))
}

/// Whether an item of this container has run out by a time, by its own or the container's time to live.
pub fn has_run_out(container: &Container, document: &Value, timestamp: u64, now: u64) -> bool {
    let Some(default) = container.definition.default_ttl else { return false };
    let own = document.get("ttl").and_then(|ttl| match ttl {
        Value::Int(seconds) => Some(*seconds),
        Value::Double(seconds) => Some(*seconds as i64),
        _ => None,
    });
    let seconds = own.unwrap_or(default);
    seconds > 0 && timestamp.saturating_add(seconds as u64) <= now
}

/// The items whose rows were deleted or replaced since the former generation's position, as far as the log has that.
async fn ended_since(step: &Step<'_>, former: &Table) -> Result<FxHashSet<u64>, StepError> {
    let mut ended = FxHashSet::default();
    for (partition, range, place) in places::in_partitions(step.entry, former.places())? {
        let round = match partition.hosted().partition().log_round(&range, place.lsn).await {
            Ok(round) => round,
            Err(RoundError::Failed(error)) => return Err(error.into()),
            // The former generation cannot be compared: all of its rows count.
            Err(RoundError::Hole { .. } | RoundError::Ahead { .. }) => continue,
        };
        let mut round = round.with(Images::None);
        while let Some(page) = round.next_page().await? {
            let ends = page.changes.into_iter().filter(|change| {
                matches!(change.kind, ChangeKind::Replace | ChangeKind::Delete)
                    && change.previous_lsn > 0
                    && change.previous_lsn <= place.lsn
            });
            ended.extend(ends.map(|change| change.ended_ordinal.unwrap_or(change.ordinal)));
        }
    }
    Ok(ended)
}

/// Takes rows of the former generation over whose items have run out: the container has them no more.
pub async fn carry(
    follower: &Tracked,
    step: &Step<'_>,
    former: &Table,
    building: &mut Table,
) -> Result<(), StepError> {
    let container = &step.entry.record.container;
    if container.definition.default_ttl.is_none() {
        return Ok(());
    }
    let now = step.router.clock().now().seconds();
    let ended = ended_since(step, former).await?;
    let mut carried = 0_u64;
    let mut rows = former.read().peekable();
    while rows.peek().is_some() {
        let mut candidates = Vec::new();
        for live in rows.by_ref() {
            let live = live?;
            let documents = documents_of(former, &live)?;
            for row in 0..live.batch.num_rows() {
                let (name, document) = (name_of(&live, row)?, document_of(&documents, &live, row)?);
                let is_ended = ended.contains(&name.ordinal);
                if !is_ended && has_run_out(container, &document, name.timestamp, now) {
                    candidates.push((name, document));
                }
            }
            if candidates.len() >= CANDIDATES_MAX {
                break;
            }
        }
        let mut live: BTreeSet<u64> = candidates.iter().map(|(name, _)| name.ordinal).collect();
        let wanted = live.len();
        for batch in building.read() {
            let batch = batch?;
            for row in 0..batch.batch.num_rows() {
                live.remove(&name_of(&batch, row)?.ordinal);
            }
        }
        assert!(live.len() <= wanted, "items are only taken out");
        // The rest of the set has no item any more.
        candidates.retain(|(name, _)| live.contains(&name.ordinal));
        if candidates.is_empty() {
            continue;
        }
        // Rows give documents of the MongoDB API back in their JSON form.
        let body_of = |document: &Value| match container.is_collection {
            true => document.to_body().map(with_non_json),
            false => document.to_body(),
        };
        let bodies = candidates.iter().map(|(_, document)| body_of(document)).collect::<Result<Vec<_>, _>>();
        let bodies = bodies.map_err(|error| TableError::damaged("the former generation", error))?;
        let batch: Vec<Row<'_>> = candidates
            .iter()
            .zip(&bodies)
            .map(|((name, _), body)| Row {
                rid: &name.rid,
                etag: &name.etag,
                timestamp_seconds: name.timestamp,
                lsn: name.lsn,
                ordinal: name.ordinal,
                body: body.raw(),
            })
            .collect();
        building.begin(span_of(&KeyRange::full()), step.now_ms())?;
        for chunk in batch.chunks(4096) {
            building.append(chunk)?;
        }
        building.prepare(&|_| false)?;
        let commit = Commit::same(building.version(), step.now_ms());
        building.commit(&commit, Reason::Reconcile)?;
        carried += candidates.len() as u64;
    }
    if carried > 0 {
        tracing::info!(container = %follower.rid, rows = carried, "history was taken over by a rebuilt analytical table");
    }
    Ok(())
}
