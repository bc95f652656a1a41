//! How far in its source a function has come, for the keys of a partition that it writes to.
//!
//! ```text
//! partition u32 | P | function u32 | span of the source → parts
//! span     length u16 | lower bound | length u16 | upper bound
//! parts    (span of this partition | LSN u64)…, in the order of the hash space
//! ```
//!
//! A row has several parts where partitions with different progress were merged.

use bytes::{Buf, Bytes};
use serde::{Deserialize, Serialize};
use shardlake_model::{Error, ErrorKind, Result};
use shardlake_routing::{Epk, KeyRange};
use shardlake_storage::{Batch, ScanOptions, Shard, Snapshot};

use crate::core::Core;
use crate::keys::{self, HEADER, PROGRESS, PartitionUid};

/// For the keys in `target`, a function's writes for the changes of `source` up to `upto` are durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionProgress {
    pub function: u32,
    pub source: KeyRange,
    pub target: KeyRange,
    pub upto: u64,
}

/// Progress by part of a partition: disjoint, in the order of the hash space.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Parts(Vec<(KeyRange, u64)>);

impl Parts {
    /// The LSN up to which writes to a key are durable.
    pub fn upto(&self, epk: &Epk) -> u64 {
        let part = self.0.iter().find(|(range, _)| range.contains(epk));
        part.map_or(0, |(_, upto)| *upto)
    }

    /// After writes to all keys of a partition up to an LSN.
    pub fn advanced(&self, partition: &KeyRange, upto: u64) -> Parts {
        let mut parts = Parts::default();
        let mut from = partition.min.clone();
        for (range, later) in self.0.iter().filter(|(_, later)| *later > upto) {
            parts.push(KeyRange { min: from, max: range.min.clone() }, upto);
            parts.push(range.clone(), *later);
            from = range.max.clone();
        }
        parts.push(KeyRange { min: from, max: partition.max.clone() }, upto);
        parts
    }

    /// The parts within a range.
    fn within(&self, target: &KeyRange) -> Parts {
        let mut parts = Parts::default();
        for (range, upto) in &self.0 {
            parts.push(range.intersection(target), *upto);
        }
        parts
    }

    /// Adds a part above all others, or enlarges the last one.
    fn push(&mut self, range: KeyRange, upto: u64) {
        if range.is_empty() {
            return;
        }
        match self.0.last_mut() {
            Some((last, same)) if last.max == range.min && *same == upto => last.max = range.max,
            last => {
                debug_assert!(last.is_none_or(|(last, _)| last.max <= range.min), "parts are in order");
                self.0.push((range, upto));
            }
        }
    }

    pub fn encode(&self) -> Bytes {
        let mut bytes = Vec::new();
        for (range, upto) in &self.0 {
            push_span(&mut bytes, range);
            bytes.extend_from_slice(&upto.to_be_bytes());
        }
        bytes.into()
    }

    pub fn decode(mut bytes: &[u8]) -> Result<Parts> {
        let mut parts = Vec::new();
        while !bytes.is_empty() {
            let range = take_span(&mut bytes)?;
            parts.push((range, bytes.try_get_u64().map_err(|_| malformed())?));
        }
        Ok(Parts(parts))
    }
}

fn malformed() -> Error {
    Error::new(ErrorKind::Corrupt, "a row of a function's progress is malformed")
}

fn push_span(bytes: &mut Vec<u8>, span: &KeyRange) {
    for bound in [&span.min, &span.max] {
        let length = u16::try_from(bound.0.len()).expect("a position in the hash space is short");
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(&bound.0);
    }
}

fn take_span(bytes: &mut &[u8]) -> Result<KeyRange> {
    let mut bound = || -> Result<Epk> {
        let length = usize::from(bytes.try_get_u16().map_err(|_| malformed())?);
        let (bound, rest) = bytes.split_at_checked(length).ok_or_else(malformed)?;
        *bytes = rest;
        Ok(Epk(bound.to_vec()))
    };
    Ok(KeyRange { min: bound()?, max: bound()? })
}

pub(super) fn progress_key(uid: PartitionUid, function: u32, span: &KeyRange) -> Bytes {
    let mut key = keys::header(uid, PROGRESS, 16 + span.min.0.len() + span.max.0.len());
    key.extend_from_slice(&function.to_be_bytes());
    push_span(&mut key, span);
    key.into()
}

fn parse_progress_key(key: &[u8]) -> Result<(u32, KeyRange)> {
    let mut rest = key.get(HEADER..).ok_or_else(malformed)?;
    let function = rest.try_get_u32().map_err(|_| malformed())?;
    Ok((function, take_span(&mut rest)?))
}

/// The rows of one function, or of all.
fn rows_range(uid: PartitionUid, function: Option<u32>) -> (Vec<u8>, Vec<u8>) {
    let Some(function) = function else { return keys::space_range(uid, PROGRESS) };
    let mut start = keys::header(uid, PROGRESS, 4);
    start.extend_from_slice(&function.to_be_bytes());
    let end = match function.checked_add(1) {
        Some(next) => {
            let mut end = keys::header(uid, PROGRESS, 4);
            end.extend_from_slice(&next.to_be_bytes());
            end
        }
        None => keys::space_range(uid, PROGRESS).1,
    };
    (start, end)
}

async fn rows(view: &Snapshot, uid: PartitionUid, function: Option<u32>) -> Result<Vec<(Bytes, Bytes)>> {
    let (start, end) = rows_range(uid, function);
    let (mut scan, mut found) = (view.scan(start..end, ScanOptions::default()), Vec::new());
    while let Some(chunk) = scan.next_chunk().await.map_err(crate::storage_error)? {
        found.extend(chunk);
    }
    Ok(found)
}

/// The progress of a function, as durable commits left it.
pub(crate) async fn read_all(core: &Core, function: u32) -> Result<Vec<FunctionProgress>> {
    let last = {
        let sequencer = core.sequencer.hold().await;
        core.check_open()?;
        core.last_queued(&sequencer)
    };
    // A commit whose writer was cancelled counts, too.
    core.wait_for(last).await?;
    let view = core.shard().snapshot();
    // After the view was taken: a partition that ended meanwhile has a successor with newer rows.
    core.check_open()?;
    let mut found = Vec::new();
    for (key, value) in rows(&view, core.uid, Some(function)).await? {
        let (function, source) = parse_progress_key(&key)?;
        let parts = Parts::decode(&value)?.0.into_iter();
        found.extend(parts.map(|(target, upto)| FunctionProgress {
            function,
            source: source.clone(),
            target,
            upto,
        }));
    }
    Ok(found)
}

/// Deletes the progress of a function that is no more.
pub(crate) async fn forget(core: &Core, function: u32) -> Result<()> {
    core.check_open()?;
    let found = rows(&core.shard().snapshot(), core.uid, Some(function)).await?;
    let mut batch = Batch::new();
    found.into_iter().for_each(|(key, _)| batch.delete(key));
    match batch.is_empty() {
        true => Ok(()),
        false => core.shard().commit_in_background(batch).await.map_err(crate::storage_error),
    }
}

/// Adds the progress of all functions in the sources of a relocation, for the keys of a target. The
/// sources are in the order of the hash space, and nothing is written to them meanwhile.
pub(crate) async fn carried(
    sources: impl Iterator<Item = (&Shard, PartitionUid)>,
    (uid, target): (PartitionUid, &KeyRange),
    batch: &mut Batch,
) -> Result<()> {
    let mut by_name: std::collections::BTreeMap<Vec<u8>, Parts> = std::collections::BTreeMap::new();
    for (shard, source) in sources {
        for (key, value) in rows(&shard.snapshot(), source, None).await? {
            let all = by_name.entry(key[HEADER..].to_vec()).or_default();
            for (range, upto) in Parts::decode(&value)?.within(target).0 {
                all.push(range, upto);
            }
        }
    }
    for (name, parts) in by_name {
        if !parts.0.is_empty() {
            batch.put(keys::with_header(uid, PROGRESS, &name), parts.encode());
        }
    }
    Ok(())
}

/// Words for a stored row.
#[cfg(feature = "testing")]
pub(crate) fn described(key: &[u8], value: Option<&[u8]>) -> Option<String> {
    let (function, source) = parse_progress_key(key).ok()?;
    let (min, max) = source.to_hex();
    let name = format!("progress of function {function} in [{min}, {max})");
    let Some(value) = value else { return Some(name) };
    let parts = Parts::decode(value).ok()?.0;
    let parts: Vec<String> =
        parts.iter().map(|(range, upto)| format!("{upto} from {}", range.min.to_hex())).collect();
    Some(format!("{name}: LSN {}", parts.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(min: u8, max: u8) -> KeyRange {
        KeyRange { min: Epk(vec![min]), max: Epk(vec![max]) }
    }

    #[test]
    fn parts_advance_and_are_cut() {
        let all = range(0, 0xFF);
        let parts = Parts(vec![(range(1, 3), 5), (range(3, 4), 9), (range(7, 9), 20)]);
        assert_eq!(parts.upto(&Epk(vec![2])), 5);
        assert_eq!(parts.upto(&Epk(vec![3])), 9);
        assert_eq!(parts.upto(&Epk(vec![5])), 0, "nothing was written there");
        let advanced = parts.advanced(&all, 9);
        assert_eq!(advanced.0, [(range(0, 7), 9), (range(7, 9), 20), (range(9, 0xFF), 9)]);
        assert_eq!(advanced.advanced(&all, 30).0, [(all.clone(), 30)]);
        assert_eq!(parts.within(&range(2, 8)).0, [(range(2, 3), 5), (range(3, 4), 9), (range(7, 8), 20)]);
        assert_eq!(Parts::decode(&parts.encode()).expect("sound"), parts);
        let bytes = parts.encode();
        for end in 1..bytes.len() {
            assert!(
                Parts::decode(&bytes[..end]).is_ok_and(|cut| cut.0.len() < 3)
                    || Parts::decode(&bytes[..end]).is_err()
            );
        }
    }
}
