//! All versions and deletes: the version that each operation of the log wrote and the version that
//! it ended.

use shardlake_model::{Error, ErrorKind, Result};
use shardlake_storage::Snapshot;

use crate::change_feed::{Page, too_old};
use crate::change_sink::Change;
use crate::item::StoredItem;
use crate::key_list::KeyList;
use crate::keys::{self, ITEMS};
use crate::log::entries::Logged;
use crate::log::entry::{ChangeKind, LogOperation};

/// Operations whose versions are read at once.
const OPERATIONS_AT_ONCE: usize = 64;
/// Bytes of the versions of these operations, estimated from the usual size of an item.
const OPERATIONS_BYTES: u64 = 64 * 1024 * 1024;

impl Page<'_> {
    /// Like the latest version's, with everything that the operations did.
    pub async fn take_versions(&mut self, snapshot: &Snapshot, entries: Vec<Logged>) -> Result<bool> {
        let oldest_ms =
            self.look.now.milliseconds().saturating_sub(self.core.past.retention().as_millis() as u64);
        let at_once = self.core.usual_items_in(OPERATIONS_BYTES).min(OPERATIONS_AT_ONCE);
        let mut rest = &entries[..];
        while !rest.is_empty() {
            let together;
            (together, rest) = rest.split_at(read_together(rest, at_once));
            let mut versions = self.versions(snapshot, together).await?.into_iter();
            for (lsn, entry) in together {
                let before = self.out.size_bytes();
                let (mut changes, mut charge_centi) = (0, 0);
                for operation in &entry.operations {
                    if !self.keys.matches(&operation.key)? {
                        continue;
                    }
                    if entry.timestamp_ms() < oldest_ms {
                        return Err(too_old(self.core, self.look.after));
                    }
                    let at = (*lsn, entry.timestamp_ms());
                    charge_centi += self.show_version(at, operation, &mut versions)?;
                    changes += 1;
                }
                let size_bytes = self.out.size_bytes() - before;
                if self.found.changes > 0 && changes > 0 && !self.has_room(changes, size_bytes) {
                    self.out.cut(before);
                    return Ok(false);
                }
                self.found.changes += changes;
                self.found.size_bytes += size_bytes;
                self.found.charge_centi += charge_centi;
                self.found.last_lsn = *lsn;
                if !self.has_room(1, 0) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Returns its charge.
    fn show_version(
        &mut self,
        (lsn, timestamp_ms): (u64, u64),
        operation: &LogOperation,
        versions: &mut impl Iterator<Item = Option<StoredItem>>,
    ) -> Result<u64> {
        let mut version = |lsn: Option<u64>| match lsn {
            None => Ok(None),
            Some(lsn) => versions.next().flatten().ok_or_else(|| missing(lsn)).map(Some),
        };
        let (wrote, ended) = self.lsns_shown(lsn, operation);
        let (current, previous) = (version(wrote)?, version(ended)?);
        let (logical, id) = keys::parse_item_key(&operation.key).ok_or_else(crate::malformed_key)?;
        self.out.push(&Change::Version {
            kind: operation.kind,
            lsn,
            timestamp_ms,
            current: current.as_ref(),
            previous: previous.as_ref(),
            previous_lsn: (operation.kind != ChangeKind::Create).then_some(operation.previous_lsn),
            id,
            epk: &logical.epk,
            partition_key: &logical.partition_key,
            key_paths: &self.look.shape.key_paths,
        });
        let charges = &self.look.shape.charges;
        let read = |item: &StoredItem| charges.read(item.json_size_bytes(), self.look.consistency).0;
        Ok(current.iter().chain(&previous).map(read).sum())
    }

    /// The LSNs of the versions that an operation wrote and ended, as far as they are shown.
    fn lsns_shown(&self, lsn: u64, operation: &LogOperation) -> (Option<u64>, Option<u64>) {
        let images = self.look.images;
        let (exists, shows_ended) = match operation.kind {
            ChangeKind::Create => (true, false),
            ChangeKind::Replace => (true, images.of_replaces),
            ChangeKind::Delete | ChangeKind::Expire => (false, images.of_deletes),
        };
        (exists.then_some(lsn), shows_ended.then_some(operation.previous_lsn))
    }

    /// The versions that the entries wrote and ended and that are shown, in their order: live ones, and those that have ended since.
    async fn versions(&self, snapshot: &Snapshot, entries: &[Logged]) -> Result<Vec<Option<StoredItem>>> {
        let (mut wanted, mut live_keys) = (Vec::new(), KeyList::default());
        let header = keys::header(self.core.uid, ITEMS, 0);
        for (lsn, entry) in entries {
            for operation in &entry.operations {
                if !self.keys.matches(&operation.key)? {
                    continue;
                }
                let (wrote, ended) = self.lsns_shown(*lsn, operation);
                live_keys.push(&[&header, &operation.key]);
                wanted.push((&operation.key, wrote, ended));
            }
        }
        let live = snapshot.get_many(live_keys.finish()).await.map_err(crate::storage_error)?;
        let decode = |bytes| StoredItem::decode(bytes, self.look.shape);
        let (mut versions, mut ended_keys, mut places) = (Vec::new(), KeyList::default(), Vec::new());
        for ((key, wrote, ended), live) in wanted.into_iter().zip(live) {
            let live = live.map(decode).transpose()?;
            for lsn in wrote.into_iter().chain(ended) {
                let version = live.clone().filter(|item| item.lsn() == lsn);
                if version.is_none() {
                    places.push(versions.len());
                    ended_keys.push(&[&keys::version_key(self.core.uid, key, lsn)]);
                }
                versions.push(version);
            }
        }
        let ended = snapshot.get_many(ended_keys.finish()).await.map_err(crate::storage_error)?;
        for (place, ended) in places.into_iter().zip(ended) {
            versions[place] = ended.map(decode).transpose()?;
        }
        Ok(versions)
    }
}

/// How many entries to read the versions of at once; at least one.
fn read_together(entries: &[Logged], operations_max: usize) -> usize {
    let mut operations = 0;
    let fit = entries.iter().take_while(|(_, entry)| {
        operations += entry.operations.len();
        operations <= operations_max
    });
    fit.count().max(1)
}

fn missing(lsn: u64) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the version that LSN {lsn} wrote of an item is missing"))
}
