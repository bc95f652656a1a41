//! One part of the source against the index.

use std::collections::HashMap;

use shardlake_change_log::LogPart;
use shardlake_model::{Error, Result};
use shardlake_partition::{
    CopyBatch, ItemRow, LogicalKey, Rank, RowStamp, StoredItem, item_of_position, logical_name, renamed,
};
use shardlake_routing::{Epk, KeyRange};
use shardlake_stdx::murmur3_128;
use shardlake_storage::PacedWork;

use super::names::Names;
use super::span::{ReadSpan, cut};
use crate::at_work::IndexAtWork;

/// Rows of one part: some 16 MB of names and digests.
const ROWS_MAX: usize = 250_000;
/// Items of one view.
const CHUNK_ITEMS: usize = 64_000;
/// Rows of one part that no item has; more are counted only.
const EXTRAS_MAX: usize = 1_000;

/// Name of a row: a hash of its partition key and its id.
pub(super) type Name = (u64, u64);

/// A row that the view of the source has.
#[derive(Debug, Clone, Copy)]
struct Expected {
    digest: (u64, u64),
    /// Of the item's version.
    lsn: u64,
    is_found: bool,
}

/// A row that no item of the view has.
#[derive(Debug, Clone)]
pub(super) struct Extra {
    pub key: LogicalKey,
    pub id: String,
    pub stamp: RowStamp,
}

/// The rows of a part of the source, and those of the index.
pub(super) struct Pass {
    pub read: ReadSpan,
    expected: HashMap<Name, Expected>,
    items: u64,
    /// Rows that are missing or different, with the LSN of their items: at most those that are expected.
    pub suspects: HashMap<Name, u64>,
    pub extras: Vec<Extra>,
    /// Extras beyond the bound.
    pub uncounted: u64,
}

pub(super) fn name_of(key: &LogicalKey, id: &str) -> Name {
    let mut bytes = logical_name(key);
    bytes.extend_from_slice(id.as_bytes());
    murmur3_128(&bytes)
}

impl Pass {
    /// Reads items from the start of a span on, until memory is full.
    pub async fn read(at: &IndexAtWork<'_>, span: &KeyRange, work: &mut PacedWork) -> Result<Pass> {
        let mut pass = Pass {
            read: ReadSpan::begin(span),
            expected: HashMap::new(),
            items: 0,
            suspects: HashMap::new(),
            extras: Vec::new(),
            uncounted: 0,
        };
        let mut routing = at.serving.routing_of(at.source.clone());
        let (mut next, mut hashes) = (span.min.clone(), Vec::new());
        while next < span.max && (pass.expected.len() < ROWS_MAX || cut(&next) <= span.min) {
            at.check_same()?;
            let rest = KeyRange { min: next.clone(), max: span.max.clone() };
            let partition = {
                let mut found = routing.entry.map.overlapping(&rest);
                found.find(|partition| partition.epk_range().contains(&next)).cloned()
            };
            let partition =
                partition.ok_or_else(|| Error::internal("a part of the hash space that no range has"))?;
            let read = pass.read_chunk(at, partition.hosted().partition(), &rest, &mut hashes, work).await;
            if routing.has_moved(&read).await? {
                // The pages of the chunk are read again: names and digests are the same, or newer.
                continue;
            }
            next = read?;
        }
        // All partitions of the part end where a stamp can show it.
        let max = if next < span.max { cut(&next) } else { next };
        hashes.retain(|(epk, _, _)| *epk >= max);
        for (_, name, items) in hashes {
            pass.expected.remove(&name);
            pass.items -= items;
        }
        pass.read.end(max);
        at.entry.change_verification(|report| report.items += pass.items);
        Ok(pass)
    }

    /// Reads one chunk of one partition. Returns where the next one begins. `hashes` gets the rows of the chunk's last hash prefix,
    /// which the next pass may have to read again.
    async fn read_chunk(
        &mut self,
        at: &IndexAtWork<'_>,
        partition: &shardlake_partition::Partition,
        span: &KeyRange,
        hashes: &mut Vec<(Epk, Name, u64)>,
        work: &mut PacedWork,
    ) -> Result<Epk> {
        let mut round = partition.items_round(span, CHUNK_ITEMS).await?;
        while let Some(items) = round.next_page().await? {
            for items in items.chunks(CopyBatch::ROWS_MAX) {
                for ItemRow { key, record } in items {
                    let (logical, _) = item_of_position(key)?;
                    let item = StoredItem::decode(record.clone(), at.schema())?;
                    if hashes.last().is_some_and(|(last, _, _)| cut(last) < cut(&logical.epk)) {
                        hashes.clear();
                    }
                    let mut items = 1;
                    for row in at.rows.rows_of(&item.view(), &logical.partition_key).rows {
                        let name = name_of(&row.key, &row.row.id);
                        let digest = murmur3_128(row.row.body.as_bytes());
                        self.expected.insert(name, Expected { digest, lsn: item.lsn(), is_found: false });
                        hashes.push((logical.epk.clone(), name, std::mem::take(&mut items)));
                    }
                    self.items += 1;
                }
                work.pause().await;
                at.check_same()?;
            }
        }
        let covered = round.covered().expect("the chunk is read to its end");
        let next = covered.max.clone();
        self.read.parts.push(LogPart { span: covered, after: round.upto() });
        Ok(next)
    }

    /// Looks at every row of the index that may be of the part.
    pub async fn compare(&mut self, at: &IndexAtWork<'_>, work: &mut PacedWork) -> Result<()> {
        let mut rest = KeyRange::full();
        let mut routing = at.serving.routing_of(at.serving.entry_of_rid(at.entry.index)?);
        while rest.min < rest.max {
            let partition = {
                let mut found = routing.entry.map.overlapping(&rest);
                found.find(|partition| partition.epk_range().contains(&rest.min)).cloned()
            };
            let partition =
                partition.ok_or_else(|| Error::internal("a part of the hash space that no range has"))?;
            let read = self.compare_chunk(at, partition.hosted().partition(), &rest, work).await;
            if routing.has_moved(&read).await? {
                continue;
            }
            rest.min = read?;
        }
        let missing = self.expected.iter().filter(|(_, expected)| !expected.is_found);
        self.suspects.extend(missing.map(|(name, expected)| (*name, expected.lsn)));
        // Memory for the second look.
        self.expected = HashMap::new();
        Ok(())
    }

    async fn compare_chunk(
        &mut self,
        at: &IndexAtWork<'_>,
        partition: &shardlake_partition::Partition,
        span: &KeyRange,
        work: &mut PacedWork,
    ) -> Result<Epk> {
        let index = at.serving.entry_of_rid(at.entry.index)?;
        // One look at all names is enough.
        let is_first = self.read.span.min == KeyRange::full().min;
        let mut names = Names::default();
        let mut round = partition.items_round(span, CHUNK_ITEMS).await?;
        while let Some(rows) = round.next_page().await? {
            for rows in rows.chunks(CopyBatch::ROWS_MAX) {
                for ItemRow { key, record } in rows {
                    let (key, id) = item_of_position(key)?;
                    let row = StoredItem::decode(record.clone(), &index.shape)?;
                    if is_first && at.rows.is_unique() {
                        names.add(at, (&key, &id), &row);
                    }
                    self.compare_row((key, id), &row, at.rows.is_unique())?;
                }
                at.entry.change_verification(|report| report.rows += rows.len() as u64);
                work.pause().await;
                at.check_same()?;
            }
        }
        names.end(at);
        let covered = round.covered().expect("the chunk is read to its end");
        Ok(covered.max)
    }

    fn compare_row(
        &mut self,
        (key, id): (LogicalKey, String),
        row: &StoredItem,
        is_unique: bool,
    ) -> Result<()> {
        let (id, digest) = match Rank::of(row.body()).filter(|_| is_unique) {
            None => (id, murmur3_128(row.body().as_bytes())),
            Some(rank) => {
                // Its id is the name of its key, or not: `names.rs` looks at that.
                let body =
                    renamed(row.body(), &rank.row).map_err(|error| Error::internal(error.to_string()))?;
                (rank.row, murmur3_128(body.as_bytes()))
            }
        };
        let name = name_of(&key, &id);
        let stamp = RowStamp::of_etag(row.etag());
        if let Some(expected) = self.expected.get_mut(&name) {
            expected.is_found = true;
            let lsn = expected.lsn;
            if expected.digest != digest {
                self.suspects.insert(name, lsn);
            }
            return Ok(());
        }
        let after = self.read.after(stamp.source);
        if !self.read.has(stamp.source) || after.is_none_or(|after| stamp.lsn > after) {
            return Ok(());
        }
        match self.extras.len() < EXTRAS_MAX {
            true => self.extras.push(Extra { key, id, stamp }),
            false => self.uncounted += 1,
        }
        Ok(())
    }
}
