//! Sending rows to the partitions that store them.

use std::collections::BTreeMap;

use futures::future::join_all;
use shardlake_host::{ApplyCopies, ApplyUnique};
use shardlake_model::{ContainerRid, PartitionUid, Priority, RequestContext, Result};
use shardlake_partition::{CopyBatch, CopyReply, CopyRow};
use shardlake_router::{PartitionHandle, Serving, partition_of};

/// Rows that were applied, and those that no repetition can write.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    pub written: u64,
    pub deleted: u64,
    pub refused: Vec<(CopyRow, String)>,
    /// How many more rows there are beyond the first of their key, of a unique index.
    pub duplicates: i64,
}

/// The index that rows are of, and how they are applied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    pub index: ContainerRid,
    pub copy: u32,
    pub is_unique: bool,
    pub is_free: bool,
}

/// The request of a step. It pays, and gives way to others.
fn context(serving: &Serving) -> RequestContext {
    let context = RequestContext::internal(serving.clock(), serving.random().guid());
    RequestContext { priority: Priority::Background, ..context }
}

/// Applies rows, and returns when all are durable. It waits for every answer, also after an error, so
/// that nothing arrives later. To be polled to its end. `sent` counts the applied rows, also after an error.
pub(crate) async fn apply(
    serving: &Serving,
    target: Target,
    mut rows: Vec<CopyRow>,
    sent: &mut Sent,
) -> Result<()> {
    let context = context(serving);
    while !rows.is_empty() {
        let mut routing = serving.routing_of(serving.entry_of_rid(target.index)?);
        let mut groups: BTreeMap<PartitionUid, (PartitionHandle, Vec<CopyRow>)> = BTreeMap::new();
        for row in std::mem::take(&mut rows) {
            let partition = partition_of(&routing.entry, &row.key);
            let group = groups.entry(partition.uid()).or_insert_with(|| (partition.clone(), Vec::new()));
            group.1.push(row);
        }
        let groups =
            groups.into_values().map(|(partition, rows)| apply_all(partition, &context, target, rows));
        let mut failed = None;
        for outcome in join_all(groups).await {
            let Group { applied, left, error } = outcome;
            sent.add(applied);
            let Some(error) = error else { continue };
            let outcome: Result<()> = Err(error);
            match routing.has_moved(&outcome).await? {
                true => rows.extend(left),
                false => failed = outcome.err(),
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
    }
    Ok(())
}

impl Sent {
    fn add(&mut self, other: Sent) {
        self.written += other.written;
        self.deleted += other.deleted;
        self.duplicates += other.duplicates;
        self.refused.extend(other.refused);
    }
}

/// Result of the rows of one partition.
struct Group {
    applied: Sent,
    /// Rows that were not applied, because of the error.
    left: Vec<CopyRow>,
    error: Option<shardlake_model::Error>,
}

async fn apply_all(
    partition: PartitionHandle,
    context: &RequestContext,
    target: Target,
    rows: Vec<CopyRow>,
) -> Group {
    let mut batches = batches_of(rows).into_iter();
    let mut applied = Sent::default();
    while let Some(rows) = batches.next() {
        let (rows, outcome) = apply_one(&partition, context, target, rows).await;
        match outcome {
            Ok((reply, duplicates)) => {
                applied.written += u64::from(reply.written);
                applied.deleted += u64::from(reply.deleted);
                applied.duplicates += duplicates;
                let refused = reply.refused.into_iter();
                applied.refused.extend(
                    refused.filter_map(|refused| {
                        Some((rows.get(refused.place as usize)?.clone(), refused.reason))
                    }),
                );
            }
            Err(error) => {
                let left = std::iter::once(rows).chain(batches).flatten().collect();
                return Group { applied, left, error: Some(error) };
            }
        }
    }
    Group { applied, left: Vec::new(), error: None }
}

/// Sends one batch. Returns its rows, and the answer with how many more duplicates there are.
async fn apply_one(
    partition: &PartitionHandle,
    context: &RequestContext,
    target: Target,
    rows: Vec<CopyRow>,
) -> (Vec<CopyRow>, Result<(CopyReply, i64)>) {
    let (batch, is_free) = (CopyBatch { copy: target.copy, rows }, target.is_free);
    match target.is_unique {
        false => {
            let command = ApplyCopies { batch, is_free };
            let outcome = partition.send(context, &command).await;
            (command.batch.rows, outcome.map(|reply| (reply, 0)))
        }
        true => {
            let command = ApplyUnique { batch, is_free };
            let outcome = partition.send(context, &command).await;
            (command.batch.rows, outcome.map(|reply| (reply.reply, reply.duplicates)))
        }
    }
}

/// Rows in commits of their own.
fn batches_of(rows: Vec<CopyRow>) -> Vec<Vec<CopyRow>> {
    let mut batches: Vec<Vec<CopyRow>> = Vec::new();
    let mut size_bytes = 0;
    for row in rows {
        let last = batches.last().map_or(CopyBatch::ROWS_MAX, Vec::len);
        size_bytes += row.size_bytes();
        if last == CopyBatch::ROWS_MAX || size_bytes > CopyBatch::BYTES_MAX {
            batches.push(Vec::new());
            size_bytes = row.size_bytes();
        }
        batches.last_mut().expect("it was just made").push(row);
    }
    batches
}
