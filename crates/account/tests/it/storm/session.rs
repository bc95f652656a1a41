//! Session state of a client, from the partitions' answers, kept as an SDK keeps it; and the LSNs of all commits.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};

use shardlake_account::ContainerHandle;
use shardlake_model::{PartitionKeyRange, ReplyMeta, SessionEntry, SessionToken};

/// One client's session: the last LSN seen of every range.
#[derive(Debug, Default, Clone)]
pub struct Session {
    seen: BTreeMap<u32, (i64, i64)>,
}

impl Session {
    /// Records an answer, and returns its problem, if any.
    pub fn note(&mut self, container: &ContainerHandle, meta: &ReplyMeta) -> Option<String> {
        let range_id = meta.range_id?;
        let now = (meta.session_version, meta.lsn as i64);
        let ranges = container.partition_key_ranges();
        let before = match ranges.iter().find(|range| range.id == range_id) {
            Some(range) => self.seen_of(range),
            // The answer is from a range that has ended since.
            None => self.seen.get(&range_id).copied(),
        };
        self.seen.entry(range_id).and_modify(|seen| *seen = now.max(*seen)).or_insert(now);
        let before = before.filter(|before| *before > now)?;
        Some(format!("session: range {range_id} went back from {before:?} to {now:?}"))
    }

    /// The newest position known of a range: its own or a parent's.
    fn seen_of(&self, range: &PartitionKeyRange) -> Option<(i64, i64)> {
        range.parents.iter().chain([&range.id]).filter_map(|id| self.seen.get(id)).max().copied()
    }

    /// The token for a request, by the ranges of now.
    pub fn token(&self, container: &ContainerHandle) -> SessionToken {
        let ranges = container.partition_key_ranges();
        let entry = |range: &PartitionKeyRange| {
            let (version, lsn) = self.seen_of(range)?;
            Some(SessionEntry { range_id: range.id, version, lsn })
        };
        SessionToken { entries: ranges.iter().filter_map(entry).collect() }
    }
}

/// Every commit that was acknowledged, by range and LSN.
#[derive(Debug, Default, Clone)]
pub struct Commits(Arc<Mutex<HashSet<(u32, u64)>>>);

impl Commits {
    /// Records a commit, and returns its problem, if any.
    pub fn note(&self, meta: &ReplyMeta) -> Option<String> {
        let commit = (meta.range_id.unwrap_or(u32::MAX), meta.item_lsn);
        let is_new = self.0.lock().expect("no holder panics").insert(commit);
        (!is_new).then(|| format!("LSN {} of range {} was given out twice", commit.1, commit.0))
    }

    pub fn len(&self) -> usize {
        self.0.lock().expect("no holder panics").len()
    }
}
