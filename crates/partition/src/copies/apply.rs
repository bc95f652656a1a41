//! Applying rows of a copy: one commit over many logical partitions of a partition.
//!
//! A row is written if its stamp is above the stored one, and ended if the stored one is at or below its
//! stamp. So any part of the work may be repeated, in any order, and no row goes back. A row that cannot
//! be written is refused alone. Rows are ordinary items: index terms, sizes, the log and the change feed
//! follow as for any write.

use std::sync::Arc;

use bytes::Bytes;
use shardlake_document::Body;
use shardlake_model::{Error, ErrorKind, Result};

use super::batch::{CopyBatch, CopyReply, CopyRow, RefusedRow};
use super::stamp::{OtherSource, RowStamp};
use crate::commit::{Done, Task, Work, Writer, acknowledge, carry_out};
use crate::core::Core;
use crate::cpu_pool::{HEAVY_BYTES, offload};
use crate::keys;
use crate::log::entry::ChangeKind;
use crate::open_transactions::Place;
use crate::operation::{CommandContext, PreparedBody};
use crate::origin::Origin;
use crate::partition_key::extract_partition_key;
use crate::prepare::prepare_body;
use crate::read_set::{Plan, ReadSet, Stop};
use crate::shape::ContainerSchema;
use crate::write::{ItemName, PlannedCommit, Transaction};

/// Applies rows in one commit, and returns when it is durable. A caller that is dropped does not learn
/// whether it took place; repeating it does no harm.
pub(crate) async fn apply_copies(
    core: &Core,
    shape: &Arc<ContainerSchema>,
    command: &CommandContext,
    batch: &CopyBatch,
) -> Result<CopyReply> {
    check_batch(core, batch)?;
    let (rows, mut refused) = prepared(shape, batch).await?;
    let work = Arc::new(CopyRows { copy: batch.copy, rows });
    let prefixes = work.rows.iter().map(|ready| keys::logical_prefix(core.uid, &ready.row.key));
    let places = pass_gates(core, prefixes.collect(), command).await?;
    let task = Task {
        is_decided: false,
        shape,
        now: command.now,
        // It has passed the gates.
        writer: Writer::Holder,
        is_clients: false,
        rows: work.rows_of_commit(),
        is_heavy: batch.size_bytes() > HEAVY_BYTES,
        base: None,
    };
    let Done { outcome, rests_on, commit, .. } = carry_out(core, task, ReadSet::default(), &work).await?;
    drop(places);
    let lsn = commit.as_ref().map_or(0, |(lsn, _)| *lsn);
    match commit {
        Some((lsn, commit)) => acknowledge(core, lsn, commit).await?,
        // Rows that are as new already may be so by a commit that is not durable yet.
        None => core.wait_for(rests_on).await?,
    }
    refused.extend(outcome.refused);
    let meta = core.meta(outcome.charge_centi, lsn);
    let Applied { written, deleted, unchanged, .. } = outcome;
    Ok(CopyReply { written, deleted, unchanged, refused, meta })
}

/// Refuses a batch that is too large, or sent to another partition.
pub(super) fn check_batch(core: &Core, batch: &CopyBatch) -> Result<()> {
    check_bounds(batch)?;
    match batch.rows.iter().all(|row| core.epk_range.contains(&row.key.epk)) {
        true => Ok(()),
        false => Err(Error::internal("a row of a copy was sent to another partition than its key's")),
    }
}

fn check_bounds(batch: &CopyBatch) -> Result<()> {
    let (rows, size_bytes) = (batch.rows.len(), batch.size_bytes());
    if rows > CopyBatch::ROWS_MAX || rows > 1 && size_bytes > CopyBatch::BYTES_MAX {
        return Err(Error::bad_request(format!(
            "a batch has at most {} rows and {} bytes, and this one has {rows} rows and {size_bytes} bytes: divide it",
            CopyBatch::ROWS_MAX,
            CopyBatch::BYTES_MAX
        )));
    }
    Ok(())
}

/// A row ready for its commit.
#[derive(Debug)]
struct ReadyRow {
    place: u32,
    row: CopyRow,
    item: Option<PreparedBody>,
}

/// The rows in the order of their keys, and those that are no items.
async fn prepared(
    shape: &Arc<ContainerSchema>,
    batch: &CopyBatch,
) -> Result<(Vec<ReadyRow>, Vec<RefusedRow>)> {
    let (shape, batch, is_heavy) = (shape.clone(), batch.clone(), batch.size_bytes() > HEAVY_BYTES);
    let prepare = move || prepare_all(&shape, batch);
    if is_heavy { offload(prepare).await? } else { prepare() }
}

fn prepare_all(shape: &ContainerSchema, batch: CopyBatch) -> Result<(Vec<ReadyRow>, Vec<RefusedRow>)> {
    let (mut ready, mut refused) = (Vec::with_capacity(batch.rows.len()), Vec::new());
    for (place, mut row) in (0u32..).zip(batch.rows) {
        let item = match row.body.take() {
            None => None,
            Some(body) => match prepare_row(shape, &row, body) {
                Ok(item) => Some(item),
                Err(error) => {
                    refused.push(RefusedRow::new(place, &error));
                    continue;
                }
            },
        };
        ready.push(ReadyRow { place, row, item });
    }
    ready.sort_by_cached_key(|ready| keys::item_key(keys::PartitionUid(0), &ready.row.key, &ready.row.id));
    let name = |ready: &ReadyRow| keys::item_key(keys::PartitionUid(0), &ready.row.key, &ready.row.id);
    if ready.windows(2).any(|pair| name(&pair[0]) == name(&pair[1])) {
        return Err(Error::bad_request("a batch names a row of a copy twice: send the last one alone"));
    }
    Ok((ready, refused))
}

fn prepare_row(shape: &ContainerSchema, row: &CopyRow, body: Vec<u8>) -> Result<PreparedBody> {
    let body = Body::from_stored(body).map_err(|error| Error::bad_request(error.to_string()))?;
    let own = extract_partition_key(body.raw(), &shape.key_paths);
    if !own.same(&row.key.partition_key) {
        return Err(Error::bad_request("a row of a copy has another partition key than its body"));
    }
    let item = prepare_body(body, shape)?;
    if item.id != row.id {
        return Err(Error::bad_request("a row of a copy has another id than its body"));
    }
    Ok(item)
}

impl RefusedRow {
    pub(super) fn new(place: u32, error: &Error) -> RefusedRow {
        RefusedRow { place, kind: error.kind(), reason: error.message().to_owned() }
    }
}

/// Waits for scripts that keep logical partitions of the rows to themselves.
pub(crate) async fn pass_gates(
    core: &Core,
    mut prefixes: Vec<Vec<u8>>,
    command: &CommandContext,
) -> Result<Vec<Place>> {
    // In the order of the keys, as all that pass several gates do.
    prefixes.dedup();
    debug_assert!(prefixes.is_sorted(), "rows are in the order of their keys");
    let mut places = Vec::with_capacity(prefixes.len());
    for prefix in prefixes {
        let mut place = core.transactions.gates.place(prefix);
        place.pass(command.patience).await?;
        places.push(place);
    }
    Ok(places)
}

/// The rows of one commit, in the order of their keys.
#[derive(Debug)]
struct CopyRows {
    copy: u32,
    rows: Vec<ReadyRow>,
}

/// Rows of a batch by their outcomes.
#[derive(Debug, Default)]
pub(super) struct RowsApplied {
    pub written: u32,
    pub deleted: u32,
    pub unchanged: u32,
    pub refused: Vec<RefusedRow>,
}

#[derive(Debug, Default)]
struct Applied {
    written: u32,
    deleted: u32,
    unchanged: u32,
    refused: Vec<RefusedRow>,
    charge_centi: u64,
}

impl CopyRows {
    fn rows_of_commit(&self) -> usize {
        self.rows.iter().map(|ready| ready.item.as_ref().map_or(1, |item| item.terms.rows())).sum()
    }

    fn add_to(&self, transaction: &mut Transaction<'_>) -> Plan<Applied> {
        transaction.set_origin(self.copy);
        let (mut applied, mut last) = (Applied::default(), None::<Vec<u8>>);
        for ready in &self.rows {
            let prefix = keys::logical_prefix(transaction.input.origin.uid, &ready.row.key);
            if last.as_ref().is_some_and(|last| *last != prefix) {
                transaction.record_size()?;
            }
            last = Some(prefix);
            ready.add_to(transaction, &mut applied)?;
        }
        transaction.record_size()?;
        Ok(applied)
    }
}

impl ReadyRow {
    fn add_to(&self, transaction: &mut Transaction<'_>, applied: &mut Applied) -> Plan<()> {
        let CopyRow { key, id, stamp, .. } = &self.row;
        let name = ItemName::new(transaction.input.origin.uid, key, id);
        let (existing, expired) = transaction.existing(&name)?;
        let stored = existing.as_ref().or(expired.as_ref()).map(|item| RowStamp::of_etag(item.etag()));
        let is_due = match (stored, &self.item) {
            (None, item) => Ok(item.is_some()),
            (Some(stored), Some(_)) => stamp.replaces(stored),
            (Some(stored), None) => stamp.ends(stored),
        };
        match is_due {
            Ok(true) => {}
            Ok(false) => {
                applied.unchanged += 1;
                return Ok(());
            }
            Err(OtherSource) => {
                applied.refused.push(RefusedRow::new(self.place, &other_source(id)));
                return Ok(());
            }
        }
        let Some(item) = &self.item else {
            let old = existing.or(expired).expect("a row that is due to end is stored");
            applied.charge_centi += transaction.end_charged(&name, old, ChangeKind::Delete)?;
            applied.deleted += 1;
            return Ok(());
        };
        let old_bytes = existing.as_ref().map_or(0, |item| item.json_size_bytes());
        match transaction.check_growth(key, item, old_bytes) {
            Err(Stop::Error(error)) if error.kind() == ErrorKind::LogicalPartitionFull => {
                applied.refused.push(RefusedRow::new(self.place, &error));
                return Ok(());
            }
            checked => checked?,
        }
        let reply = match existing {
            Some(existing) => transaction.replace(&name, item, existing, stamp.etag())?,
            None => transaction.create(&name, item, stamp.etag(), expired)?,
        };
        applied.charge_centi += reply.meta.charge_centi;
        applied.written += 1;
        Ok(())
    }
}

pub(super) fn other_source(id: &str) -> Error {
    Error::new(
        ErrorKind::Conflict,
        format!("the row '{id}' is of another item of the source: delete the copy and create it anew"),
    )
}

impl Work for Arc<CopyRows> {
    type Outcome = (Applied, Option<PlannedCommit>);

    fn plan(&self, mut transaction: Transaction<'_>) -> Plan<Self::Outcome> {
        let applied = self.add_to(&mut transaction)?;
        let changes = transaction.changes_anything();
        Ok((applied, changes.then(|| transaction.into_batch())))
    }

    fn owned(&self) -> impl Work<Outcome = Self::Outcome> + Send + 'static {
        self.clone()
    }

    fn footprint(&self, origin: Origin, _shape: &ContainerSchema) -> Vec<Bytes> {
        let keys = self.rows.iter().flat_map(|ready| {
            let CopyRow { key, id, .. } = &ready.row;
            [keys::item_key(origin.uid, key, id).into(), keys::size_key(origin.uid, key).into()]
        });
        keys.collect()
    }
}
