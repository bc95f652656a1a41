//! Applying rows of a unique index: one row of each key holds the key's name.
//!
//! A row is found under the name of its key or under its own; its stamp decides, as in `apply.rs`. Which row holds the name follows from
//! the rows alone, never from the order of writes: the least rank (`naming.rs`) of those that are there after the commit. So the name
//! passes on in the commit that takes the holder away, and any part of the work may be repeated.
//!
//! The rows of a key are read before the commit, which fails where one of them is not as it was read. An index has one writer, which
//! awaits all answers, so that happens only by mistake. A holder that goes costs a look at all rows of its key.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use shardlake_document::Body;
use shardlake_model::{Error, ErrorKind, Result};
use shardlake_routing::LogicalKey;
use shardlake_stdx::Guid;
use shardlake_storage::ScanOptions;

use super::apply::{RowsApplied, check_batch, other_source, pass_gates};
use super::batch::{CopyBatch, CopyReply, CopyRow, RefusedRow};
use super::naming::{Rank, duplicate_id, key_name, renamed};
use super::stamp::{OtherSource, RowStamp};
use crate::commit::{Done, Task, Work, Writer, acknowledge, carry_out};
use crate::core::Core;
use crate::item::StoredItem;
use crate::keys;
use crate::log::entry::ChangeKind;
use crate::operation::{CommandContext, PreparedBody};
use crate::origin::Origin;
use crate::partition_key::extract_partition_key;
use crate::prepare::prepare;
use crate::read_set::{Plan, ReadSet, Stop};
use crate::shape::ContainerSchema;
use crate::write::{ItemName, PlannedCommit, Transaction};

/// Result of applying rows of a unique index.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct UniqueReply {
    pub reply: CopyReply,
    /// Rows beyond the first of their key: how many more than before.
    pub duplicates: i64,
}

/// Applies rows in one commit; where a key has no room, key by key.
pub(crate) async fn apply_unique(
    core: &Core,
    shape: &Arc<ContainerSchema>,
    command: &CommandContext,
    batch: &CopyBatch,
) -> Result<UniqueReply> {
    check_batch(core, batch)?;
    let mut keys: BTreeMap<Vec<u8>, Vec<(u32, CopyRow)>> = BTreeMap::new();
    for (place, row) in (0u32..).zip(&batch.rows) {
        keys.entry(keys::logical_prefix(core.uid, &row.key)).or_default().push((place, row.clone()));
    }
    let places = pass_gates(core, keys.keys().cloned().collect(), command).await?;
    let at = At { core, shape, command, copy: batch.copy };
    let rows: Vec<Vec<(u32, CopyRow)>> = keys.into_values().collect();
    let outcome = match at.apply(&rows).await {
        Err(error) if error.kind() == ErrorKind::LogicalPartitionFull => at.one_by_one(rows, &error).await,
        outcome => outcome,
    };
    drop(places);
    outcome
}

struct At<'a> {
    core: &'a Core,
    shape: &'a Arc<ContainerSchema>,
    command: &'a CommandContext,
    copy: u32,
}

/// A version of a row, with its name.
struct Version {
    body: Body,
    stamp: RowStamp,
}

/// A change of one stored item.
#[derive(Debug)]
struct Change {
    key: LogicalKey,
    id: String,
    /// Etag of the stored item; `None` where there must be none.
    before: Option<Guid>,
    /// `None`: it is deleted.
    after: Option<(RowStamp, PreparedBody)>,
}

/// Changes of one commit, and their rows.
#[derive(Debug, Default)]
struct Changes {
    list: Vec<Change>,
    applied: RowsApplied,
    duplicates: i64,
}

/// The rows of one key, as far as a batch is about them.
struct KeyRows<'r> {
    key: &'r LogicalKey,
    /// The name that one of them holds.
    name: Option<String>,
    /// Stored items by their ids.
    stored: BTreeMap<String, StoredItem>,
    /// The row of each id after the commit.
    after: BTreeMap<String, Option<Version>>,
}

impl At<'_> {
    async fn apply(&self, keys: &[Vec<(u32, CopyRow)>]) -> Result<UniqueReply> {
        let mut changes = Changes::default();
        for rows in keys {
            self.plan_key(rows, &mut changes).await?;
        }
        self.commit(changes).await
    }

    /// Each key in a commit of its own. The rows of a key that has no room are refused.
    async fn one_by_one(&self, keys: Vec<Vec<(u32, CopyRow)>>, full: &Error) -> Result<UniqueReply> {
        let mut sum = self.commit(Changes::default()).await?;
        for rows in keys {
            let rows = [rows];
            let one = match self.apply(&rows).await {
                Err(error) if error.kind() == ErrorKind::LogicalPartitionFull => {
                    let refused = rows[0].iter().map(|(place, _)| RefusedRow::new(*place, full));
                    sum.reply.refused.extend(refused);
                    continue;
                }
                one => one?,
            };
            sum.duplicates += one.duplicates;
            sum.reply.written += one.reply.written;
            sum.reply.deleted += one.reply.deleted;
            sum.reply.unchanged += one.reply.unchanged;
            sum.reply.refused.extend(one.reply.refused);
            let charge_centi = sum.reply.meta.charge_centi + one.reply.meta.charge_centi;
            sum.reply.meta = one.reply.meta;
            sum.reply.meta.charge_centi = charge_centi;
        }
        Ok(sum)
    }

    async fn stored(&self, key: &LogicalKey, id: &str) -> Result<Option<StoredItem>> {
        let found = self.core.shard().get(&keys::item_key(self.core.uid, key, id)).await;
        let found = found.map_err(crate::storage_error)?;
        found.map(|record| StoredItem::decode(record, self.shape)).transpose()
    }

    async fn plan_key(&self, rows: &[(u32, CopyRow)], changes: &mut Changes) -> Result<()> {
        let key = &rows[0].1.key;
        let name = key_name(&key.partition_key);
        let mut key_rows = KeyRows { key, name, stored: BTreeMap::new(), after: BTreeMap::new() };
        let holder = match &key_rows.name {
            Some(name) => self.stored(key, name).await?,
            None => None,
        };
        let holder_rank = holder.as_ref().map(rank_of).transpose()?;
        if let (Some(name), Some(holder)) = (&key_rows.name, holder) {
            key_rows.stored.insert(name.clone(), holder);
        }
        let (mut written, mut removed) = (BTreeMap::new(), BTreeSet::new());
        for (place, row) in rows {
            let own = key_rows.own_id(&row.id);
            let is_holder = holder_rank.as_ref().is_some_and(|rank| rank.row == row.id);
            let id = if is_holder { key_rows.name.clone().expect("a holder has a name") } else { own };
            if !is_holder && let Some(found) = self.stored(key, &id).await? {
                key_rows.stored.insert(id.clone(), found);
            }
            let found = key_rows.stored.get(&id);
            match self.due(row, found) {
                Ok(false) => changes.applied.unchanged += 1,
                Err(error) => changes.applied.refused.push(RefusedRow::new(*place, &error)),
                Ok(true) => match &row.body {
                    None => {
                        key_rows.after.insert(id, None);
                        removed.insert(row.id.clone());
                        changes.applied.deleted += 1;
                    }
                    Some(body) => match self.checked(row, body).await {
                        Err(error) => changes.applied.refused.push(RefusedRow::new(*place, &error)),
                        Ok((rank, body)) => {
                            key_rows.after.insert(id, None);
                            written.insert(rank, Version { body, stamp: row.stamp });
                            changes.applied.written += 1;
                        }
                    },
                },
            }
        }
        self.give_names(&mut key_rows, holder_rank, written, &removed).await?;
        self.note(key_rows, changes).await
    }

    fn due(&self, row: &CopyRow, found: Option<&StoredItem>) -> Result<bool> {
        let stored = found.map(|found| RowStamp::of_etag(found.etag()));
        let due = match (stored, &row.body) {
            (None, body) => Ok(body.is_some()),
            (Some(stored), Some(_)) => row.stamp.replaces(stored),
            (Some(stored), None) => row.stamp.ends(stored),
        };
        due.map_err(|OtherSource| other_source(&row.id))
    }

    /// The body of a row that an item can be made of.
    async fn checked(&self, row: &CopyRow, body: &[u8]) -> Result<(Rank, Body)> {
        let body = Body::from_stored(body.to_vec()).map_err(|error| Error::bad_request(error.to_string()))?;
        let own = extract_partition_key(body.raw(), &self.shape.key_paths);
        let rank = Rank::of(body.raw()).filter(|rank| rank.row == row.id);
        let Some(rank) = rank.filter(|_| own.same(&row.key.partition_key)) else {
            return Err(Error::bad_request(
                "a row of a copy has another partition key or name than its body",
            ));
        };
        // Under its longest name.
        let id = key_name(&row.key.partition_key)
            .map_or_else(|| row.id.clone(), |name| duplicate_id(&name, &row.id));
        let longest = renamed(body.raw(), &id).map_err(|error| Error::bad_request(error.to_string()))?;
        prepare(longest, self.shape).await?;
        Ok((rank, body))
    }

    /// Decides which row has the name of the key, and gives all that change their ids.
    async fn give_names(
        &self,
        rows: &mut KeyRows<'_>,
        holder: Option<Rank>,
        written: BTreeMap<Rank, Version>,
        removed: &BTreeSet<String>,
    ) -> Result<()> {
        let Some(name) = rows.name.clone() else {
            let own = written.into_iter().map(|(rank, version)| (rank.row, Some(version)));
            rows.after.extend(own);
            return Ok(());
        };
        let is_removed = holder.as_ref().is_some_and(|holder| removed.contains(&holder.row));
        let left = match (&holder, is_removed) {
            (Some(holder), false) => Some(holder.clone()),
            (Some(_), true) => self.least_of(rows, removed).await?,
            (None, _) => None,
        };
        let first = written.keys().next().cloned();
        let new = match (left, first) {
            (Some(left), Some(first)) => Some(left.min(first)),
            (left, first) => left.or(first),
        };
        // The holder gives way to a lower one.
        if let Some(holder) = holder.filter(|holder| !is_removed && Some(holder) != new.as_ref())
            && !written.contains_key(&holder)
        {
            let stored = rows.stored.get(&name).expect("the holder was read");
            let version = version_of(stored);
            rows.after.insert(name.clone(), None);
            rows.after.insert(duplicate_id(&name, &holder.row), Some(version));
        }
        // A row that was not written comes after the holder that went.
        if let Some(new) = new.as_ref().filter(|new| is_removed && !written.contains_key(new)) {
            let id = duplicate_id(&name, &new.row);
            let stored = rows.stored.get(&id).expect("it was found among the rows of the key");
            let version = version_of(stored);
            rows.after.insert(id, None);
            rows.after.insert(name.clone(), Some(version));
        }
        for (rank, version) in written {
            let id = if Some(&rank) == new.as_ref() { name.clone() } else { duplicate_id(&name, &rank.row) };
            rows.after.insert(id, Some(version));
        }
        Ok(())
    }

    /// The least of the rows that a batch leaves as they are, without the holder.
    async fn least_of(&self, rows: &mut KeyRows<'_>, removed: &BTreeSet<String>) -> Result<Option<Rank>> {
        let prefix = keys::logical_prefix(self.core.uid, rows.key);
        let end = keys::after_prefix(&prefix);
        let mut scan = self.core.shard().snapshot().scan(prefix..end, ScanOptions::default());
        let mut least: Option<(Rank, StoredItem)> = None;
        while let Some(found) = scan.next_chunk().await.map_err(crate::storage_error)? {
            for (_, record) in found {
                let item = StoredItem::decode(record, self.shape)?;
                let rank = rank_of(&item)?;
                if !removed.contains(&rank.row) && least.as_ref().is_none_or(|(least, _)| rank < *least) {
                    least = Some((rank, item));
                }
            }
        }
        Ok(least.map(|(rank, item)| {
            let name = rows.name.as_ref().expect("only rows of a name are looked at");
            rows.stored.entry(duplicate_id(name, &rank.row)).or_insert(item);
            rank
        }))
    }

    /// Turns the ids of a key into changes of items.
    async fn note(&self, rows: KeyRows<'_>, changes: &mut Changes) -> Result<()> {
        let KeyRows { key, name, stored, after } = rows;
        for (id, version) in after {
            let before = stored.get(&id).map(StoredItem::etag);
            if before.is_none() && version.is_none() {
                continue;
            }
            if name.as_ref().is_some_and(|name| *name != id) {
                changes.duplicates += i64::from(version.is_some()) - i64::from(before.is_some());
            }
            let after = match version {
                None => None,
                Some(Version { body, stamp }) => {
                    let body =
                        renamed(body.raw(), &id).map_err(|error| Error::bad_request(error.to_string()))?;
                    Some((stamp, prepare(body, self.shape).await?))
                }
            };
            changes.list.push(Change { key: key.clone(), id, before, after });
        }
        Ok(())
    }

    async fn commit(&self, mut changes: Changes) -> Result<UniqueReply> {
        let core = self.core;
        changes.list.sort_by_cached_key(|change| keys::item_key(core.uid, &change.key, &change.id));
        let rows = changes.list.iter().map(|change| match &change.after {
            Some((_, item)) => item.terms.rows(),
            None => 1,
        });
        let rows = rows.sum();
        let Changes { list, applied, duplicates } = changes;
        let work = Arc::new(Renames { copy: self.copy, list });
        let task = Task {
            is_decided: false,
            shape: self.shape,
            now: self.command.now,
            // It has passed the gates.
            writer: Writer::Holder,
            is_clients: false,
            rows,
            is_heavy: false,
            base: None,
        };
        let Done { outcome, rests_on, commit, .. } = carry_out(core, task, ReadSet::default(), &work).await?;
        let lsn = commit.as_ref().map_or(0, |(lsn, _)| *lsn);
        match commit {
            Some((lsn, commit)) => acknowledge(core, lsn, commit).await?,
            // Rows that are as new already may be so by a commit that is not durable yet.
            None => core.wait_for(rests_on).await?,
        }
        let RowsApplied { written, deleted, unchanged, refused } = applied;
        let meta = core.meta(outcome, lsn);
        Ok(UniqueReply { reply: CopyReply { written, deleted, unchanged, refused, meta }, duplicates })
    }
}

impl KeyRows<'_> {
    /// The id of a row that does not hold the name.
    fn own_id(&self, row: &str) -> String {
        self.name.as_ref().map_or_else(|| row.to_owned(), |name| duplicate_id(name, row))
    }
}

fn version_of(stored: &StoredItem) -> Version {
    let body = Body::from_stored(stored.body().as_bytes().to_vec()).expect("it was decoded");
    Version { body, stamp: RowStamp::of_etag(stored.etag()) }
}

fn rank_of(stored: &StoredItem) -> Result<Rank> {
    Rank::of(stored.body()).ok_or_else(|| {
        Error::new(ErrorKind::Corrupt, "a row of a unique index has no name: verify the index with --repair")
    })
}

/// Changes of one commit, in the order of their keys.
#[derive(Debug)]
struct Renames {
    copy: u32,
    list: Vec<Change>,
}

impl Renames {
    fn add_to(&self, transaction: &mut Transaction<'_>) -> Plan<u64> {
        transaction.set_origin(self.copy);
        let (mut charge_centi, mut last) = (0, None::<Vec<u8>>);
        for change in &self.list {
            let prefix = keys::logical_prefix(transaction.input.origin.uid, &change.key);
            if last.as_ref().is_some_and(|last| *last != prefix) {
                transaction.record_size()?;
            }
            last = Some(prefix);
            charge_centi += change.add_to(transaction)?;
        }
        transaction.record_size()?;
        Ok(charge_centi)
    }
}

impl Change {
    fn add_to(&self, transaction: &mut Transaction<'_>) -> Plan<u64> {
        let name = ItemName::new(transaction.input.origin.uid, &self.key, &self.id);
        let (existing, expired) = transaction.existing(&name)?;
        if existing.as_ref().or(expired.as_ref()).map(StoredItem::etag) != self.before {
            let text = "rows of a unique key changed while others were applied: they are applied again";
            return Err(Stop::Error(Error::new(ErrorKind::Unavailable, text)));
        }
        let Some((stamp, item)) = &self.after else {
            let old = existing.or(expired).expect("a row that ends is stored");
            return transaction.end_charged(&name, old, ChangeKind::Delete);
        };
        let old_bytes = existing.as_ref().map_or(0, |item| item.json_size_bytes());
        transaction.check_growth(&self.key, item, old_bytes)?;
        let reply = match existing {
            Some(existing) => transaction.replace(&name, item, existing, stamp.etag())?,
            None => transaction.create(&name, item, stamp.etag(), expired)?,
        };
        Ok(reply.meta.charge_centi)
    }
}

impl Work for Arc<Renames> {
    type Outcome = (u64, Option<PlannedCommit>);

    fn plan(&self, mut transaction: Transaction<'_>) -> Plan<Self::Outcome> {
        let charge_centi = self.add_to(&mut transaction)?;
        let changes = transaction.changes_anything();
        Ok((charge_centi, changes.then(|| transaction.into_batch())))
    }

    fn owned(&self) -> impl Work<Outcome = Self::Outcome> + Send + 'static {
        self.clone()
    }

    fn footprint(&self, origin: Origin, _shape: &ContainerSchema) -> Vec<Bytes> {
        let keys = self.list.iter().flat_map(|change| {
            let Change { key, id, .. } = change;
            [keys::item_key(origin.uid, key, id).into(), keys::size_key(origin.uid, key).into()]
        });
        keys.collect()
    }
}
