//! Compares the sizes of logical partitions with their items, in both directions.
//!
//! Items lie in the order of their logical partitions, so one walk over the items sums each of them up and looks for its
//! entry. Entries without items show in their number; only then are they looked for one by one. A partition whose
//! sizes were never counted has no disagreement: they are counted when it is opened.

use shardlake_model::Result;
use shardlake_storage::{ScanOptions, Snapshot};

use super::{LogicalSize, count::is_counted};
use crate::key_list::KeyList;
use crate::keys::{self, HEADER, PartitionUid};

/// Entries without items that are named.
const NAMED_MAX: usize = 20;
/// Entries read at once.
const ENTRIES_AT_ONCE: usize = 256;

pub(crate) struct SizeVerifier {
    uid: PartitionUid,
    snapshot: Snapshot,
    is_counted: bool,
    current: Option<(Vec<u8>, LogicalSize)>,
    /// Whose entries are still to be looked for.
    done: Vec<(Vec<u8>, LogicalSize)>,
    logical_partitions: u64,
    problems: Vec<String>,
}

impl SizeVerifier {
    pub async fn new(snapshot: &Snapshot, uid: PartitionUid) -> Result<SizeVerifier> {
        let is_counted = is_counted(snapshot, uid).await?;
        Ok(SizeVerifier {
            uid,
            snapshot: snapshot.clone(),
            is_counted,
            current: None,
            done: Vec::new(),
            logical_partitions: 0,
            problems: Vec::new(),
        })
    }

    /// Takes the next item in the order of keys; `key` is without its header.
    pub async fn note_item(&mut self, key: &[u8], size_bytes: u64) -> Result<Vec<String>> {
        // A malformed key is reported by the verifier of the items.
        let Some(logical) = keys::logical_part(key) else { return Ok(vec![]) };
        let mut problems = Vec::new();
        if self.current.as_ref().is_some_and(|(open, _)| open != logical) {
            self.finish_current();
            if self.done.len() >= ENTRIES_AT_ONCE {
                problems = self.compare().await?;
            }
        }
        let (_, size) = self.current.get_or_insert_with(|| (logical.to_vec(), LogicalSize::default()));
        size.items += 1;
        size.size_bytes += size_bytes;
        Ok(problems)
    }

    /// After the last item: the problems of the last logical partition and of entries that have no
    /// items.
    pub async fn finish(mut self) -> Result<Vec<String>> {
        if !self.is_counted {
            return Ok(Vec::new());
        }
        self.finish_current();
        let last = self.compare().await?;
        self.problems.extend(last);
        let (entries, malformed) = self.count_entries().await?;
        if malformed > 0 {
            self.problems.push(format!("{malformed} sizes of logical partitions have malformed keys"));
        }
        if entries != self.logical_partitions {
            let count = self.logical_partitions;
            self.problems.push(format!("there are {entries} sizes for {count} logical partitions"));
            self.name_strays().await?;
        }
        Ok(self.problems)
    }

    fn finish_current(&mut self) {
        let Some(current) = self.current.take() else { return };
        self.logical_partitions += 1;
        if self.is_counted {
            self.done.push(current);
        }
    }

    /// Compares the logical partitions that are summed up with their entries; returns the problems.
    async fn compare(&mut self) -> Result<Vec<String>> {
        let (mut entries, header) = (KeyList::default(), keys::header(self.uid, keys::SIZES, 0));
        self.done.iter().for_each(|(logical, _)| entries.push(&[&header, logical]));
        let stored = self.snapshot.get_many(entries.finish()).await.map_err(crate::storage_error)?;
        let done = std::mem::take(&mut self.done).into_iter();
        Ok(done.zip(stored).filter_map(|(counted, stored)| difference(&counted, stored.as_deref())).collect())
    }

    async fn count_entries(&self) -> Result<(u64, u64)> {
        let (mut entries, mut malformed) = (0, 0);
        let (start, end) = keys::space_range(self.uid, keys::SIZES);
        let mut scan = self.snapshot.scan(start..end, ScanOptions::SWEEP);
        while let Some(rows) = scan.next_chunk().await.map_err(crate::storage_error)? {
            entries += rows.len() as u64;
            let is_malformed = |key: &[u8]| keys::parse_size_key(&key[HEADER..]).is_none();
            malformed += rows.iter().filter(|(key, _)| is_malformed(key)).count() as u64;
        }
        Ok((entries, malformed))
    }

    async fn name_strays(&mut self) -> Result<()> {
        let (start, end) = keys::space_range(self.uid, keys::SIZES);
        let mut scan = self.snapshot.scan(start..end, ScanOptions::SWEEP);
        let mut named = 0;
        while let Some(rows) = scan.next_chunk().await.map_err(crate::storage_error)? {
            for (key, _) in rows {
                let prefix = keys::with_header(self.uid, keys::ITEMS, &key[HEADER..]);
                let end = keys::after_prefix(&prefix);
                let options = ScanOptions { limit: Some(1), ..ScanOptions::default() };
                let mut items = self.snapshot.scan(prefix..end, options);
                if items.next_chunk().await.map_err(crate::storage_error)?.is_none() && named < NAMED_MAX {
                    named += 1;
                    let name = printable(&key[HEADER..]);
                    self.problems.push(format!("logical partition {name}: it has a size and no items"));
                }
            }
        }
        Ok(())
    }
}

/// The problem with the entry of a logical partition.
fn difference((logical, counted): &(Vec<u8>, LogicalSize), stored: Option<&[u8]>) -> Option<String> {
    let name = printable(logical);
    match stored.map(LogicalSize::decode) {
        Some(Ok(recorded)) if recorded == *counted => None,
        Some(Ok(recorded)) => Some(format!(
            "logical partition {name}: {} items of {} bytes are recorded, it holds {} of {}",
            recorded.items, recorded.size_bytes, counted.items, counted.size_bytes
        )),
        Some(Err(_)) => Some(format!("logical partition {name}: its size is malformed")),
        None => Some(format!("logical partition {name}: its size is missing")),
    }
}

fn printable(logical: &[u8]) -> String {
    match keys::parse_size_key(logical) {
        Some(logical) => format!("{:?}", logical.partition_key.0),
        None => format!("{logical:02x?}"),
    }
}
