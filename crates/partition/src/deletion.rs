//! Deleting items that a scan has found. The scan holds no lock; each item is looked at again under the sequencer.

use std::sync::Arc;

use bytes::Bytes;
use shardlake_model::Result;
use shardlake_stdx::Timestamp;
use shardlake_storage::{LARGE_ROWS_IN_FLIGHT, PendingCommit};

use crate::commit::{Done, Task, Work, Writer, acknowledge, carry_out};
use crate::core::Core;
use crate::due::Due;
use crate::keys::{self, HEADER};
use crate::log::entry::ChangeKind;
use crate::open_transactions::Gates;
use crate::origin::Origin;
use crate::read_set::{Plan, ReadSet};
use crate::shape::ContainerSchema;
use crate::write::{ItemName, PlannedCommit, Transaction};

/// Rows that one commit may delete while a client waits for it: writers of the partition wait for
/// the commit.
pub(crate) const ROWS_MAX: usize = LARGE_ROWS_IN_FLIGHT;

/// Deletes those of the items that are still there.
#[derive(Debug, Clone)]
pub(crate) struct Deletion {
    /// Keys in their order.
    pub found: Arc<[Bytes]>,
    /// Those alone whose time has run out.
    pub only_expired: bool,
    /// Items written above this LSN stay, where a follower of the log needs them.
    pub upto: Option<u64>,
    /// Items held by transactions stay.
    pub spares: Option<Arc<Gates>>,
    /// Rows of the index that one commit takes away, unless they are of one item.
    pub rows_max: usize,
}

/// Result of a deletion.
#[derive(Debug)]
pub(crate) struct Deleted {
    /// Live items, and the charge of a client for deleting them.
    pub live: u64,
    pub live_centi: u64,
    /// Expired items, and the charge of a client for deleting them.
    pub expired: u64,
    pub expired_centi: u64,
    /// The first of the found ones that was not dealt with: there were too many rows.
    pub cut: Option<usize>,
    /// Expiry of the items that were spared.
    pub due: Due,
    /// Expiry of the items that a follower of the log needs.
    pub held: Due,
    /// The container's time to live was changed since the shape was made: nothing was done.
    pub is_superseded: bool,
}

/// One commit. When this returns it is durable.
pub(crate) async fn delete_found(
    core: &Core,
    shape: &Arc<ContainerSchema>,
    now: Timestamp,
    writer: Writer<'_>,
    deletion: &Deletion,
) -> Result<Deleted> {
    let (deleted, commit) = queue_deletion(core, shape, now, writer, deletion).await?;
    if let Some((lsn, commit)) = commit {
        acknowledge(core, lsn, commit).await?;
    }
    Ok(deleted)
}

/// Deletes items, and returns the commit under way.
pub(crate) async fn queue_deletion(
    core: &Core,
    shape: &Arc<ContainerSchema>,
    now: Timestamp,
    writer: Writer<'_>,
    deletion: &Deletion,
) -> Result<(Deleted, Option<(u64, PendingCommit)>)> {
    let task = Task {
        is_decided: false,
        shape,
        now,
        writer,
        is_clients: false,
        rows: deletion.rows_max,
        is_heavy: false,
        base: None,
    };
    let Done { outcome, commit, .. } = carry_out(core, task, ReadSet::default(), deletion).await?;
    Ok((outcome, commit))
}

impl Deletion {
    fn add_to(&self, transaction: &mut Transaction<'_>) -> Plan<Deleted> {
        let mut deleted = Deleted {
            live: 0,
            live_centi: 0,
            expired: 0,
            expired_centi: 0,
            cut: None,
            due: Due::NEVER,
            held: Due::NEVER,
            is_superseded: self.only_expired && !transaction.input.switches.may_expire,
        };
        if deleted.is_superseded {
            return Ok(deleted);
        }
        debug_assert!(self.found.is_sorted(), "the items of a logical partition come together");
        let mut last_owner: Option<&[u8]> = None;
        for (place, key) in self.found.iter().enumerate() {
            if transaction.postings() >= self.rows_max {
                deleted.cut = Some(place);
                break;
            }
            let Some(item) = transaction.item(key)? else { continue };
            let is_expired = item.is_expired(transaction.input.now.seconds());
            if self.only_expired && !is_expired {
                continue;
            }
            if self.upto.is_some_and(|upto| item.lsn() > upto) {
                deleted.held.note(item.envelope());
                continue;
            }
            let (logical, id) = keys::parse_item_key(&key[HEADER..]).ok_or_else(crate::malformed_key)?;
            let prefix = || keys::logical_prefix(transaction.input.origin.uid, &logical);
            if self.spares.as_ref().is_some_and(|gates| gates.place_if_any(prefix).is_some()) {
                deleted.due.note(item.envelope());
                continue;
            }
            // In key order the items of a logical partition come together.
            let owner = keys::logical_part(&key[HEADER..]).ok_or_else(crate::malformed_key)?;
            if last_owner.replace(owner).is_some_and(|last| last != owner) {
                transaction.record_size()?;
            }
            let name = ItemName { logical: &logical, id, key: key.clone() };
            let kind = if is_expired { ChangeKind::Expire } else { ChangeKind::Delete };
            let charge_centi = transaction.end_charged(&name, item, kind)?;
            let (count, sum) = match is_expired {
                true => (&mut deleted.expired, &mut deleted.expired_centi),
                false => (&mut deleted.live, &mut deleted.live_centi),
            };
            *count += 1;
            *sum += charge_centi;
        }
        transaction.record_size()?;
        Ok(deleted)
    }
}

impl Work for Deletion {
    type Outcome = (Deleted, Option<PlannedCommit>);

    fn plan(&self, mut transaction: Transaction<'_>) -> Plan<Self::Outcome> {
        let deleted = self.add_to(&mut transaction)?;
        let changes = transaction.changes_anything();
        let mut planned = changes.then(|| transaction.into_batch());
        if let Some(planned) = planned.as_mut().filter(|_| self.only_expired) {
            // No client waits for it, and a crash that undoes it loses no visible item: the items
            // have expired.
            planned.batch.be_patient();
        }
        Ok((deleted, planned))
    }

    fn owned(&self) -> impl Work<Outcome = Self::Outcome> + Send + 'static {
        self.clone()
    }

    fn footprint(&self, origin: Origin, _shape: &ContainerSchema) -> Vec<Bytes> {
        let mut keys = self.found.to_vec();
        let owners = self.found.iter().filter_map(|key| keys::logical_part(&key[HEADER..]));
        keys.extend(owners.map(|owner| Bytes::from(keys::with_header(origin.uid, keys::SIZES, owner))));
        keys.dedup();
        keys
    }
}
