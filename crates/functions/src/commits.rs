//! Commits of a batch's writes: one in each target partition, with its progress.
//!
//! Progress rows have the span of the source that they were written for. The source may have been split or merged since, so
//! the task reads all rows when it begins, and leaves out the writes that any of them covers.

use std::collections::BTreeMap;

use futures::future::join_all;
use shardlake_change_log::{LogPart, LogPosition};
use shardlake_host::{ApplyFunction, ForgetFunction, ReadFunctionProgress};
use shardlake_model::{ContainerRid, Error, PartitionUid, RequestContext, Result};
use shardlake_partition::{FunctionBatch, FunctionOutcome, FunctionProgress, FunctionWrite};
use shardlake_router::{PartitionHandle, Serving, partition_of};
use shardlake_routing::{Epk, KeyRange};

use crate::at_work::{FunctionAtWork, context};
use crate::writes::Planned;

/// Progress of a function in all its targets, as it was when its task began.
#[derive(Debug, Default)]
pub(crate) struct Progress(Vec<(ContainerRid, FunctionProgress)>);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Committed {
    pub charge_centi: u64,
    pub writes: u64,
}

impl Progress {
    pub async fn read(at: &FunctionAtWork<'_>) -> Result<Progress> {
        let (mut rows, read) = (Vec::new(), ReadFunctionProgress { function: at.record.number });
        for accessed in at.access.iter().filter(|accessed| accessed.may_write) {
            let mut routing = at.serving().routing_of(accessed.handle.entry.clone());
            let rid = routing.entry.record.container.rid;
            loop {
                let all = routing
                    .entry
                    .map
                    .iter()
                    .map(async |partition| partition.send(&at.context(), &read).await);
                let found: Result<Vec<Vec<FunctionProgress>>> = join_all(all).await.into_iter().collect();
                if routing.has_moved(&found).await? {
                    continue;
                }
                rows.extend(found?.into_iter().flatten().map(|row| (rid, row)));
                break;
            }
        }
        Ok(Progress(rows))
    }

    /// The LSN that the next batch of a part must not pass: the least progress above its position.
    pub fn limit(&self, span: &KeyRange, after: u64) -> Option<u64> {
        let rows = self.0.iter().filter(|(_, row)| !row.source.intersection(span).is_empty());
        rows.map(|(_, row)| row.upto).filter(|upto| *upto > after).min()
    }

    /// The position, with parts that no row covers partly: of a part whose source was split and merged again, the halves may
    /// have different progress.
    pub fn divided(&self, position: &LogPosition) -> LogPosition {
        let mut parts = Vec::new();
        for part in position.parts() {
            let rows = self.0.iter().filter(|(_, row)| row.upto > part.after);
            let mut bounds: Vec<&Epk> =
                rows.flat_map(|(_, row)| [&row.source.min, &row.source.max]).collect();
            bounds.retain(|bound| part.span.min < **bound && **bound < part.span.max);
            bounds.sort();
            bounds.dedup();
            let mut min = part.span.min.clone();
            for max in bounds.into_iter().cloned().chain([part.span.max.clone()]) {
                parts.push(LogPart { span: KeyRange { min, max: max.clone() }, after: part.after });
                min = max;
            }
        }
        LogPosition::new(parts)
    }

    /// Whether a target has a write already.
    fn has(&self, container: ContainerRid, epk: &Epk, (span, upto): (&KeyRange, u64)) -> bool {
        self.0.iter().any(|(rid, row)| {
            *rid == container
                && row.upto >= upto
                && row.source.contains_range(span)
                && row.target.contains(epk)
        })
    }
}

/// Commits all writes, and returns when all are durable. It waits for every answer, also after an error, so that nothing
/// arrives later.
pub(crate) async fn commit(
    at: &FunctionAtWork<'_>,
    progress: &Progress,
    end: (&KeyRange, u64),
    writes: Vec<Planned>,
) -> Result<Committed> {
    let mut by_container: BTreeMap<usize, Vec<FunctionWrite>> = BTreeMap::new();
    for Planned { container, write } in writes {
        let rid = at.access[container].handle.entry.record.container.rid;
        if !progress.has(rid, &write.key.epk, end) {
            by_container.entry(container).or_default().push(write);
        }
    }
    let (mut committed, mut failed) = (Committed::default(), None);
    let sent = by_container.into_iter().map(|(container, writes)| commit_in(at, container, end, writes));
    for (done, outcome) in join_all(sent).await {
        committed.charge_centi += done.charge_centi;
        committed.writes += done.writes;
        failed = failed.or(outcome.err());
    }
    failed.map_or(Ok(committed), Err)
}

/// Commits the writes of one container.
async fn commit_in(
    at: &FunctionAtWork<'_>,
    container: usize,
    (span, upto): (&KeyRange, u64),
    mut left: Vec<FunctionWrite>,
) -> (Committed, Result<()>) {
    let (mut committed, context) = (Committed::default(), at.context());
    let accessed = &at.access[container];
    let mut routing = at.serving().routing_of(accessed.handle.entry.clone());
    while !left.is_empty() {
        let mut groups: BTreeMap<PartitionUid, (PartitionHandle, Vec<FunctionWrite>)> = BTreeMap::new();
        for write in std::mem::take(&mut left) {
            let partition = partition_of(&routing.entry, &write.key);
            let group = groups.entry(partition.uid()).or_insert_with(|| (partition.clone(), Vec::new()));
            group.1.push(write);
        }
        let sent = groups.into_values().map(async |(partition, writes)| {
            let batch = FunctionBatch { function: at.record.number, span: span.clone(), upto, writes };
            let command = ApplyFunction { batch };
            let outcome = apply(&partition, &context, &accessed.name, &command).await;
            (command.batch.writes, outcome)
        });
        let mut failed = None;
        for (writes, outcome) in join_all(sent).await {
            match routing.has_moved(&outcome).await {
                Ok(true) => left.extend(writes),
                Ok(false) => match outcome {
                    Ok(done) => {
                        committed.charge_centi += done.charge_centi;
                        committed.writes += done.writes;
                    }
                    Err(error) => failed = failed.or(Some(error)),
                },
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        if let Some(error) = failed {
            return (committed, Err(error));
        }
    }
    (committed, Ok(()))
}

/// Commits the writes of one partition.
async fn apply(
    partition: &PartitionHandle,
    context: &RequestContext,
    name: &str,
    command: &ApplyFunction,
) -> Result<Committed> {
    let reply = partition.send(context, command).await?;
    match reply.outcome {
        FunctionOutcome::Applied { left_out } => {
            let writes = (command.batch.writes.len() as u64).saturating_sub(u64::from(left_out));
            Ok(Committed { charge_centi: reply.meta.charge_centi, writes })
        }
        FunctionOutcome::Refused(refused) => {
            let write = &command.batch.writes[refused.place as usize];
            let key = shardlake_document::partition_key_text(&write.key.partition_key);
            let message = format!("a write in '{name}' with the partition key {key}: {}", refused.reason);
            Err(Error::new(refused.kind, message))
        }
    }
}

/// Deletes the progress of functions that are no more. It is never read again, so a failure does no harm.
pub(crate) async fn forget(serving: &Serving, functions: &[u32], containers: &[ContainerRid]) {
    let context = context(serving);
    for rid in containers {
        let Ok(entry) = serving.entry_of_rid(*rid) else { continue };
        for function in functions {
            for partition in entry.map.iter() {
                if let Err(error) = partition.send(&context, &ForgetFunction { function: *function }).await {
                    tracing::debug!(function, %error, "progress of a deleted function stays");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use shardlake_model::DatabaseRid;

    use super::*;

    fn span(min: u8, max: u8) -> KeyRange {
        let bound = |byte: u8| Epk(if byte == 0 { Vec::new() } else { vec![byte] });
        KeyRange { min: bound(min), max: bound(max) }
    }

    fn rid(number: u32) -> ContainerRid {
        ContainerRid { database: DatabaseRid(1), number }
    }

    fn progress(rows: &[(KeyRange, KeyRange, u64)]) -> Progress {
        let row = |(source, target, upto): &(KeyRange, KeyRange, u64)| {
            let (source, target) = (source.clone(), target.clone());
            (rid(1), FunctionProgress { function: 3, source, target, upto: *upto })
        };
        Progress(rows.iter().map(row).collect())
    }

    #[test]
    fn a_batch_ends_at_the_least_progress_above_its_position() {
        let whole = span(0, 0xFF);
        let progress = progress(&[
            (whole.clone(), span(0, 0x40), 5),
            (whole.clone(), span(0x40, 0xFF), 9),
            (span(0, 0x80), whole.clone(), 7),
        ]);
        assert_eq!(progress.limit(&whole, 4), Some(5));
        assert_eq!(progress.limit(&span(0, 0x80), 5), Some(7));
        assert_eq!(progress.limit(&span(0x80, 0xFF), 5), Some(9), "another part's progress does not count");
        assert_eq!(progress.limit(&whole, 9), None);
    }

    #[test]
    fn writes_of_a_split_source_are_left_out_by_the_row_of_the_whole() {
        let whole = span(0, 0xFF);
        let progress = progress(&[(whole.clone(), span(0, 0x40), 5)]);
        let has = |epk: u8, span: &KeyRange, upto| progress.has(rid(1), &Epk(vec![epk]), (span, upto));
        assert!(has(0x20, &span(0, 0x80), 5) && has(0x20, &whole, 4));
        assert!(!has(0x50, &whole, 5), "another part of the target");
        assert!(!has(0x20, &whole, 6), "a later batch");
        assert!(!progress.has(rid(2), &Epk(vec![0x20]), (&whole, 5)), "another container");
    }

    #[test]
    fn halves_of_a_merged_source_keep_their_progress_apart() {
        let whole = span(0, 0xFF);
        let progress = progress(&[(span(0, 0x80), whole.clone(), 8), (span(0x20, 0x30), whole.clone(), 2)]);
        let part = |span: KeyRange, after| LogPart { span, after };
        let divided = progress.divided(&LogPosition::new(vec![part(whole.clone(), 3)]));
        assert_eq!(divided.parts(), [part(span(0, 0x80), 3), part(span(0x80, 0xFF), 3)]);
        let level = LogPosition::new(vec![part(whole, 8)]);
        assert_eq!(progress.divided(&level), level, "rows at or below the position do not matter");
    }
}
