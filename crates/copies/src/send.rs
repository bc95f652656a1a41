//! Sending rows to the partitions that store them.

use std::collections::BTreeMap;

use futures::future::join_all;
use shardlake_host::ApplyCopies;
use shardlake_model::{ContainerRid, PartitionUid, Priority, RequestContext, Result};
use shardlake_partition::{CopyBatch, CopyRow};
use shardlake_router::{PartitionHandle, Serving, partition_of};

/// Rows that were applied, and those that no repetition can write.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    pub written: u64,
    pub deleted: u64,
    pub refused: Vec<(CopyRow, String)>,
}

/// The request of a step. It pays, and gives way to others.
fn context(serving: &Serving) -> RequestContext {
    let context = RequestContext::internal(serving.clock(), serving.random().guid());
    RequestContext { priority: Priority::Background, ..context }
}

/// Applies rows, and returns when all are durable. It waits for every answer, also after an error, so
/// that nothing arrives later. To be polled to its end.
pub(crate) async fn apply(
    serving: &Serving,
    index: ContainerRid,
    copy: u32,
    mut rows: Vec<CopyRow>,
) -> Result<Sent> {
    let (mut sent, context) = (Sent::default(), context(serving));
    while !rows.is_empty() {
        let mut routing = serving.routing_of(serving.entry_of_rid(index)?);
        let mut groups: BTreeMap<PartitionUid, (PartitionHandle, Vec<CopyRow>)> = BTreeMap::new();
        for row in std::mem::take(&mut rows) {
            let partition = partition_of(&routing.entry, &row.key);
            let group = groups.entry(partition.uid()).or_insert_with(|| (partition.clone(), Vec::new()));
            group.1.push(row);
        }
        let groups = groups.into_values().map(|(partition, rows)| apply_all(partition, &context, copy, rows));
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
    Ok(sent)
}

impl Sent {
    fn add(&mut self, other: Sent) {
        self.written += other.written;
        self.deleted += other.deleted;
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
    copy: u32,
    rows: Vec<CopyRow>,
) -> Group {
    let mut batches = batches_of(rows).into_iter();
    let mut applied = Sent::default();
    while let Some(rows) = batches.next() {
        let command = ApplyCopies(CopyBatch { copy, rows });
        match partition.send(context, &command).await {
            Ok(reply) => {
                applied.written += u64::from(reply.written);
                applied.deleted += u64::from(reply.deleted);
                let rows = command.0.rows;
                let refused = reply.refused.into_iter();
                applied.refused.extend(
                    refused.filter_map(|refused| {
                        Some((rows.get(refused.place as usize)?.clone(), refused.reason))
                    }),
                );
            }
            Err(error) => {
                let left = std::iter::once(command.0.rows).chain(batches).flatten().collect();
                return Group { applied, left, error: Some(error) };
            }
        }
    }
    Group { applied, left: Vec::new(), error: None }
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
