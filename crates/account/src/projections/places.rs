//! Following the change feed of a container, by parts of its hash space that are each read up to some LSN.
//!
//! Ranges come and go under a place: LSNs hold in the ranges that take another's place, for the same span. A place over
//! several ranges is divided before it is read; neighbours that are level are joined, so that their number stays that of
//! the ranges.

use std::collections::BTreeMap;
use std::sync::Arc;

use shardlake_catalog::PlaceRecord;
use shardlake_model::{ContainerRid, Error, ErrorKind, Result};
use shardlake_partition::{ChangeKind, ChangePage, Partition};
use shardlake_routing::EpkRange;

use super::status::ProjectionLag;
use crate::{Account, ContainerHandle};
use shardlake_serving::ContainerEntry;

/// Commits looked at to find the first that matters.
const LAG_LOOK: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub span: EpkRange,
    pub after: u64,
}

/// What reading a place came to.
pub(crate) enum PlaceRead {
    /// It lies in several ranges, and these are its parts.
    Divided(Vec<Place>),
    Page(ChangePage),
}

impl Place {
    pub fn of_record(record: &PlaceRecord) -> Result<Place> {
        Ok(Place { span: span_of(record)?, after: record.after })
    }

    pub fn record(&self) -> PlaceRecord {
        PlaceRecord::new(&self.span, self.after)
    }
}

fn span_of(record: &PlaceRecord) -> Result<EpkRange> {
    record
        .span()
        .map_err(|error| Error::new(ErrorKind::Corrupt, format!("a stored place is malformed: {error}")))
}

pub(crate) fn handle(account: &Account, rid: ContainerRid) -> Result<ContainerHandle> {
    Ok(ContainerHandle { entry: account.entry_of_rid(rid)?, by_rid: false })
}

pub(crate) async fn read(
    account: &Account,
    rid: ContainerRid,
    place: &Place,
    entries_max: usize,
) -> Result<PlaceRead> {
    let container = handle(account, rid)?;
    let parts = parts(&container.entry, &place.span);
    match parts.as_slice() {
        [(partition, _)] => {
            let range_id = partition.range_id;
            let page = account.changes(&container, range_id, &place.span, place.after, entries_max).await;
            match page {
                // Cut or joined this moment: the next look sees the ranges of now.
                Err(error) if error.kind() == ErrorKind::PartitionGone => {
                    Ok(PlaceRead::Divided(vec![place.clone()]))
                }
                page => Ok(PlaceRead::Page(page?)),
            }
        }
        [] => Err(Error::internal("a part of the hash space that no range has")),
        parts => {
            let part =
                |(_, span): &(Arc<Partition>, EpkRange)| Place { span: span.clone(), after: place.after };
            Ok(PlaceRead::Divided(parts.iter().map(part).collect()))
        }
    }
}

/// The partitions that a place lies in, and how far they were read.
pub(crate) fn followed(account: &Account, rid: ContainerRid, place: &Place) -> Vec<(Arc<Partition>, u64)> {
    let Ok(entry) = account.entry_of_rid(rid) else { return Vec::new() };
    entry.map.overlapping(&place.span).map(|partition| (partition.clone(), place.after)).collect()
}

fn parts(entry: &ContainerEntry, span: &EpkRange) -> Vec<(Arc<Partition>, EpkRange)> {
    let partitions = entry.map.overlapping(span);
    partitions.map(|partition| (partition.clone(), partition.epk_range.intersection(span))).collect()
}

/// Keys of the items that a page says were written, each once, with their LSNs and in the order of these. Deletions leave
/// nothing to copy.
pub(crate) fn written(page: &ChangePage) -> Vec<(Vec<u8>, u64)> {
    let mut last: BTreeMap<&[u8], (u64, ChangeKind)> = BTreeMap::new();
    for (lsn, entry) in &page.entries {
        let versions = entry.operations.iter().map(|operation| (&operation.key[..], (*lsn, operation.kind)));
        last.extend(versions);
    }
    let is_written = |kind: ChangeKind| matches!(kind, ChangeKind::Create | ChangeKind::Replace);
    let written = last.into_iter().filter(|(_, (_, kind))| is_written(*kind));
    let mut keys: Vec<(Vec<u8>, u64)> = written.map(|(key, (lsn, _))| (key.to_vec(), lsn)).collect();
    keys.sort_by_key(|(_, lsn)| *lsn);
    keys
}

/// Joins neighbours in one range that are level.
pub(crate) fn join(account: &Account, rid: ContainerRid, places: &mut Vec<Place>) {
    let Ok(entry) = account.entry_of_rid(rid) else { return };
    places.sort_by(|a, b| a.span.min.cmp(&b.span.min));
    let mut joined: Vec<Place> = Vec::with_capacity(places.len());
    for place in places.drain(..) {
        let previous = joined.last_mut().filter(|previous| {
            let is_next = previous.after == place.after && previous.span.max == place.span.min;
            let is_in_one = |partition: &Arc<Partition>| {
                partition.epk_range.contains_range(&previous.span)
                    && partition.epk_range.contains_range(&place.span)
            };
            is_next && entry.map.iter().any(is_in_one)
        });
        match previous {
            Some(previous) => previous.span.max = place.span.max,
            None => joined.push(place),
        }
    }
    *places = joined;
}

/// How far places are behind. What cannot be read counts nothing: the projection's state says what is wrong.
pub(crate) async fn lag(account: &Account, rid: ContainerRid, places: &[PlaceRecord]) -> ProjectionLag {
    let Ok(container) = handle(account, rid) else { return ProjectionLag::default() };
    let mut behind: BTreeMap<u32, u64> = BTreeMap::new();
    let mut oldest_ms = None;
    for place in places {
        let Ok(span) = place.span() else { continue };
        for (partition, part) in parts(&container.entry, &span) {
            let Ok(page) = partition.changes(&part, place.after, LAG_LOOK).await else { continue };
            let first = page.entries.first().map(|(_, entry)| entry.timestamp_ms);
            if first.is_none() && page.is_last {
                continue;
            }
            let commits = partition.durable_lsn().saturating_sub(place.after);
            let known = behind.entry(partition.range_id).or_default();
            *known = commits.max(*known);
            oldest_ms = first.into_iter().chain(oldest_ms).min();
        }
    }
    let now_ms = account.clock().now().milliseconds();
    ProjectionLag {
        changes: behind.values().sum(),
        seconds: oldest_ms.map_or(0, |oldest| now_ms.saturating_sub(oldest) / 1000),
    }
}

#[cfg(test)]
mod tests {
    use shardlake_partition::{Counters, LogEntry, LogOperation};

    use super::*;

    #[test]
    fn the_last_change_of_an_item_decides_whether_it_is_there() {
        let entry = |operations: &[(ChangeKind, &[u8])]| LogEntry {
            timestamp_ms: 0,
            counters: Counters::default(),
            operations: operations
                .iter()
                .map(|(kind, key)| LogOperation {
                    kind: *kind,
                    ordinal: 0,
                    previous_lsn: 0,
                    key: key.to_vec(),
                })
                .collect(),
        };
        use ChangeKind::{Create, Delete, Expire, Replace};
        let page = ChangePage {
            entries: vec![
                (1, entry(&[(Create, b"a"), (Create, b"b"), (Create, b"c")])),
                (2, entry(&[(Delete, b"b"), (Replace, b"a")])),
                (3, entry(&[(Expire, b"d"), (Delete, b"c"), (Create, b"c")])),
            ],
            last_lsn: 3,
            is_last: true,
        };
        assert_eq!(written(&page), [(b"a".to_vec(), 2), (b"c".to_vec(), 3)]);
    }
}
