//! A version reader's state of one part of the hash space: changes that were read and not taken yet.

use shardlake_router::PartitionHandle;
use std::collections::VecDeque;

use shardlake_model::PartitionKey;
use shardlake_partition::{Change, ChangeKind, ChangeSink, StoredItem};
use shardlake_routing::{Epk, KeyRange};

use crate::change_feed_position::FeedPart;
use crate::version_position::InsideCommit;

/// A change of an item, with the version that it wrote and the version that it ended.
#[derive(Debug, Clone)]
pub struct VersionChange {
    pub kind: ChangeKind,
    pub lsn: u64,
    pub timestamp_ms: u64,
    pub current: Option<StoredItem>,
    pub previous: Option<StoredItem>,
    pub id: String,
    pub partition_key: PartitionKey,
    epk: Epk,
    /// Its place among the changes of its commit that have the same hash, from 1 on.
    number: u32,
    /// No other change of the commit follows in this part.
    is_last: bool,
}

/// The changes of a page.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    changes: Vec<(VersionChange, usize)>,
    size_bytes: usize,
}

impl ChangeSink for Collected {
    fn push(&mut self, change: &Change<'_>) {
        let &Change::Version { kind, lsn, timestamp_ms, current, previous, id, epk, partition_key, .. } =
            change
        else {
            return;
        };
        let size = |item: Option<&StoredItem>| item.map_or(0, StoredItem::json_size_bytes);
        let size = size(current) + size(previous) + id.len();
        self.size_bytes += size;
        let change = VersionChange {
            kind,
            lsn,
            timestamp_ms,
            current: current.cloned(),
            previous: previous.cloned(),
            id: id.to_owned(),
            partition_key: partition_key.clone(),
            epk: epk.clone(),
            number: 0,
            is_last: false,
        };
        self.changes.push((change, size));
    }

    fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    fn cut(&mut self, size_bytes: usize) {
        while self.size_bytes > size_bytes
            && let Some((_, size)) = self.changes.pop()
        {
            self.size_bytes -= size;
        }
        debug_assert!(
            !self.changes.is_empty() || self.size_bytes == 0,
            "the bytes of each change are counted"
        );
    }
}

impl Collected {
    /// The changes in the order in which they are taken.
    fn in_order(self) -> VecDeque<VersionChange> {
        let mut changes: Vec<VersionChange> = self.changes.into_iter().map(|(change, _)| change).collect();
        debug_assert!(
            changes.is_sorted_by(|left, right| left.lsn <= right.lsn),
            "changes are collected in the order of the log"
        );
        for commit in changes.chunk_by_mut(|left, right| left.lsn == right.lsn) {
            // Stable: changes of one hash stay in the order of the commit.
            commit.sort_by(|left, right| left.epk.cmp(&right.epk));
            for same in commit.chunk_by_mut(|left, right| left.epk == right.epk) {
                same.iter_mut().zip(1..).for_each(|(change, number)| change.number = number);
            }
            if let Some(last) = commit.last_mut() {
                last.is_last = true;
            }
        }
        changes.into()
    }
}

/// A part of the hash space, within one partition.
#[derive(Debug)]
pub(crate) struct VersionPart {
    pub partition: PartitionHandle,
    pub span: KeyRange,
    /// The last LSN that was read.
    pub read: u64,
    /// Everything up to here was taken, …
    taken: u64,
    /// … and of the next commit, the changes up to here.
    inside: Option<InsideCommit>,
    pub ready: VecDeque<VersionChange>,
    /// All changes from before this time have been read.
    pub passed_ms: u64,
}

impl VersionPart {
    pub fn new(partition: PartitionHandle, place: FeedPart, inside: Option<&InsideCommit>) -> VersionPart {
        let FeedPart { span, after } = place;
        let is_here =
            |inside: &&InsideCommit| span.contains(&inside.epk) && after.checked_add(1) == Some(inside.lsn);
        let inside = inside.filter(is_here).cloned();
        VersionPart {
            partition,
            span,
            read: after,
            taken: after,
            inside,
            ready: VecDeque::new(),
            passed_ms: 0,
        }
    }

    /// Stores the changes of a page, up to an LSN.
    pub fn put(&mut self, collected: Collected, last_lsn: u64) {
        self.ready = collected.in_order();
        self.read = last_lsn;
        if let Some(inside) = &self.inside {
            self.ready.retain(|change| {
                change.lsn != inside.lsn || (&change.epk, change.number) > (&inside.epk, inside.done)
            });
        }
        if self.ready.is_empty() {
            (self.taken, self.inside) = (last_lsn, None);
        }
    }

    pub fn take(&mut self) -> Option<VersionChange> {
        let change = self.ready.pop_front()?;
        if self.ready.is_empty() && change.is_last {
            (self.taken, self.inside) = (self.read, None);
        } else if change.is_last {
            (self.taken, self.inside) = (change.lsn, None);
        } else {
            let VersionChange { lsn, epk, number, .. } = &change;
            self.taken = lsn - 1;
            self.inside = Some(InsideCommit { lsn: *lsn, epk: epk.clone(), done: *number });
        }
        Some(change)
    }

    /// The position inside a commit whose changes were taken partly.
    pub fn inside(&self) -> Option<&InsideCommit> {
        self.inside.as_ref()
    }

    /// The positions taken, by span of hashes.
    pub fn places(&self, out: &mut Vec<FeedPart>) {
        let Some(InsideCommit { lsn, epk, .. }) = &self.inside else {
            out.push(FeedPart { span: self.span.clone(), after: self.taken });
            return;
        };
        let mut rest = self.span.clone();
        if rest.min < *epk {
            let below = KeyRange { min: rest.min.clone(), max: epk.clone() };
            out.push(FeedPart { span: below, after: *lsn });
            rest.min = epk.clone();
        }
        out.push(FeedPart { span: rest, after: lsn - 1 });
    }
}
