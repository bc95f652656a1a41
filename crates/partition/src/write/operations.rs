//! Effect of each operation on an item within a transaction.

use std::sync::Arc;

use shardlake_document::{Body, Envelope};
use shardlake_index::SYSTEM_TERMS;
use shardlake_model::{Error, ErrorKind, Preconditions};
use shardlake_mql::write::Changed;
use shardlake_routing::LogicalKey;
use shardlake_stdx::{Guid, HybridTime};

use super::transaction::{ItemName, Transaction};
use crate::answers;
use crate::cpu_pool::HEAVY_BYTES;
use crate::item::{StoredItem, rendered_size};
use crate::log::entry::{ChangeKind, OWN_REGION};
use crate::operation::{CommandContext, ItemReply, Operation, Outcome, PreparedBody};
use crate::prepare::{is_heavy_patch, patched_body, prepare_body};
use crate::read_set::{Plan, Stop};
use crate::shape::ContainerSchema;

impl Transaction<'_> {
    /// Adds an operation; after a stop the transaction is good for nothing. A write gives the item `etag`.
    pub fn apply(
        &mut self,
        command: &CommandContext,
        etag: Guid,
        logical: &LogicalKey,
        operation: &Operation,
    ) -> Plan<ItemReply> {
        let name = ItemName::new(self.input.origin.uid, logical, operation.id());
        let (existing, expired) = self.existing(&name)?;
        match operation {
            Operation::Read { preconditions, .. } => {
                let existing = existing.ok_or_else(answers::not_found)?;
                Ok(answers::read_reply(
                    self.input.origin,
                    self.input.shape,
                    command,
                    existing,
                    preconditions,
                )?)
            }
            Operation::Create { item } => match existing {
                Some(existing) => Err(with_item_lsn(answers::conflict(), &existing).into()),
                None => self.create(&name, item, etag, expired),
            },
            Operation::Upsert { item, preconditions } => match existing {
                None => self.create(&name, item, etag, expired),
                Some(existing) => {
                    check(&existing, preconditions)?;
                    self.replace(&name, item, existing, etag)
                }
            },
            Operation::Replace { item, preconditions, .. } => {
                let existing = existing.ok_or_else(answers::not_found)?;
                check(&existing, preconditions)?;
                self.replace(&name, item, existing, etag)
            }
            Operation::Delete { preconditions, .. } => {
                let existing = existing.ok_or_else(answers::not_found)?;
                check(&existing, preconditions)?;
                let charge_centi = self.end_charged(&name, existing, ChangeKind::Delete)?;
                let meta = self.input.origin.meta(charge_centi, self.input.lsn);
                Ok(ItemReply::of(Outcome::Deleted, None, meta))
            }
            Operation::Patch { operations, condition, preconditions, .. } => {
                let existing = existing.ok_or_else(answers::not_found)?;
                check(&existing, preconditions)?;
                if let Some(condition) = condition
                    && !condition.matches(existing.body()).map_err(Error::from)?
                {
                    return Err(with_item_lsn(answers::condition_failed(), &existing).into());
                }
                if !self.input.switches.is_offloaded
                    && (existing.is_heavy() || operations.iter().any(is_heavy_patch))
                {
                    return Err(Stop::Heavy);
                }
                let item = patched_body(&existing, name.id, operations, self.input.shape)?;
                let mut reply = self.replace(&name, &item, existing, etag)?;
                reply.outcome = Outcome::Patched;
                reply.meta.charge_centi +=
                    self.input.shape.charges.patch_operations(operations.len() as u64).0;
                Ok(reply)
            }
            Operation::Change { change, .. } => {
                if !self.input.switches.is_offloaded && existing.as_ref().is_some_and(StoredItem::is_heavy) {
                    return Err(Stop::Heavy);
                }
                let stored = existing.as_ref().map(StoredItem::body);
                let applied = change.apply(stored, &logical.partition_key);
                let (changed, outcome) = applied.map_err(Error::from)?;
                let mut reply = self.changed(command, &name, (existing, expired), changed, etag)?;
                reply.change = outcome.map(Box::new);
                Ok(reply)
            }
        }
    }

    fn changed(
        &mut self,
        command: &CommandContext,
        name: &ItemName<'_>,
        (existing, expired): (Option<StoredItem>, Option<StoredItem>),
        changed: Changed,
        etag: Guid,
    ) -> Plan<ItemReply> {
        match (changed, existing) {
            (Changed::Nothing, Some(item)) => {
                let anything = Preconditions::default();
                Ok(answers::read_reply(self.input.origin, self.input.shape, command, item, &anything)?)
            }
            (Changed::Nothing | Changed::Removed, None) => {
                let meta = self.input.origin.meta(self.input.shape.charges.not_found().0, 0);
                Ok(ItemReply::of(Outcome::NotModified, None, meta))
            }
            (Changed::Removed, Some(item)) => {
                let charge_centi = self.end_charged(name, item, ChangeKind::Delete)?;
                let meta = self.input.origin.meta(charge_centi, self.input.lsn);
                Ok(ItemReply::of(Outcome::Deleted, None, meta))
            }
            (Changed::Altered(body), Some(existing)) => {
                let item = self.prepared(body, name)?;
                let item = PreparedBody { is_altered: true, ..item };
                let reply = self.replace(name, &item, existing, etag);
                reply.map_err(|stop| with_document(stop, &item))
            }
            (Changed::Put(body) | Changed::Altered(body), existing) => {
                let item = self.prepared(body, name)?;
                let reply = match existing {
                    Some(existing) => self.replace(name, &item, existing, etag),
                    None => self.create(name, &item, etag, expired),
                };
                reply.map_err(|stop| with_document(stop, &item))
            }
        }
    }

    /// A body that a change made, ready to be written.
    fn prepared(&self, body: Body, name: &ItemName<'_>) -> Plan<PreparedBody> {
        if !self.input.switches.is_offloaded && body.as_bytes().len() > HEAVY_BYTES {
            return Err(Stop::Heavy);
        }
        let item = prepare_body(body, self.input.shape)?;
        if item.id != name.id {
            return Err(Error::internal("a change gave an item another identity").into());
        }
        Ok(item)
    }

    /// The item of a name: a live one, or an expired one.
    pub fn existing(&mut self, name: &ItemName<'_>) -> Plan<(Option<StoredItem>, Option<StoredItem>)> {
        // Where the logical partition is new, its size has answered already.
        if self.is_empty(name.logical)? {
            debug_assert!(
                !matches!(self.item(&name.key), Ok(Some(_))),
                "a logical partition with items has a size"
            );
            return Ok((None, None));
        }
        Ok(match self.item(&name.key)? {
            Some(item) if item.is_expired(self.input.now.seconds()) => (None, Some(item)),
            other => (other, None),
        })
    }

    pub fn create(
        &mut self,
        name: &ItemName<'_>,
        item: &PreparedBody,
        etag: Guid,
        expired: Option<StoredItem>,
    ) -> Plan<ItemReply> {
        if self.is_step() && self.input.shape.bounds.is_some() {
            let words = "transactions of several steps create no items where only the newest are kept";
            return Err(Error::new(ErrorKind::Unsupported, words).into());
        }
        self.note_created();
        let ordinal = self.new_ordinal();
        let version = new_version(item, self.stamp(etag, ordinal), self.input.shape);
        self.put(name, &version, expired.as_ref(), ChangeKind::Create)?;
        let shape = self.input.shape;
        let terms = item.terms.charged.charged() + system_terms(shape);
        let meta =
            self.input.origin.meta(shape.charges.create(version.json_size_bytes(), terms).0, self.input.lsn);
        Ok(ItemReply::of(Outcome::Created, Some(version), meta))
    }

    /// A new version of an item, perhaps with another id.
    pub fn replace(
        &mut self,
        name: &ItemName<'_>,
        item: &PreparedBody,
        existing: StoredItem,
        etag: Guid,
    ) -> Plan<ItemReply> {
        let existing = self.with_terms(existing)?;
        let version = new_version(item, self.stamp(etag, existing.envelope().ordinal), self.input.shape);
        if item.id == name.id {
            self.put(name, &version, Some(&existing), ChangeKind::Replace)?;
        } else {
            self.rename(name, &existing, &item.id, &version)?;
        }
        let shape = self.input.shape;
        let old_terms = existing.known_terms().map(|terms| &terms.charged);
        let (removed, added) = old_terms.expect("they were found out").difference(&item.terms.charged);
        // `_ts` changes with every write.
        let always = u64::from(shape.indexed_paths.indexes_anything());
        let sizes = (existing.json_size_bytes(), version.json_size_bytes());
        let charge = shape.charges.replace(sizes.0, sizes.1, removed + always, added + always);
        let meta = self.input.origin.meta(charge.0, self.input.lsn);
        Ok(ItemReply::of(Outcome::Replaced, Some(version), meta))
    }

    /// Refuses a version that would make the logical partition, or the partition, too large.
    pub fn check_growth(&mut self, logical: &LogicalKey, item: &PreparedBody, old_bytes: usize) -> Plan<()> {
        let (shape, seconds) = (self.input.shape, self.input.time.seconds());
        let new_bytes = rendered_size(item.members.size_bytes, shape, seconds);
        self.check_size_after(logical, new_bytes as i64 - old_bytes as i64)
    }

    fn rename(
        &mut self,
        name: &ItemName<'_>,
        existing: &StoredItem,
        id: &str,
        version: &StoredItem,
    ) -> Plan<()> {
        let new_name = ItemName::new(self.input.origin.uid, name.logical, id);
        let target = self.item(&new_name.key)?;
        let expired = match target {
            Some(taken) if !taken.is_expired(self.input.now.seconds()) => {
                return Err(with_item_lsn(answers::conflict(), &taken).into());
            }
            other => other,
        };
        self.delete(name, existing, ChangeKind::Delete)?;
        self.put(&new_name, version, expired.as_ref(), ChangeKind::Create)
    }

    /// Deletes an item, and returns the charge of a client for that.
    pub fn end_charged(&mut self, name: &ItemName<'_>, item: StoredItem, kind: ChangeKind) -> Plan<u64> {
        let item = self.with_terms(item)?;
        let terms =
            item.known_terms().map_or(0, |terms| terms.charged.charged()) + system_terms(self.input.shape);
        self.delete(name, &item, kind)?;
        Ok(self.input.shape.charges.delete(item.json_size_bytes(), terms).0)
    }

    fn stamp(&self, etag: Guid, ordinal: u64) -> Stamp {
        Stamp { lsn: self.input.lsn, time: self.input.time, etag, ordinal }
    }
}

fn check(existing: &StoredItem, preconditions: &Preconditions) -> Plan<()> {
    Ok(answers::check_write(existing, preconditions).map_err(|error| with_item_lsn(error, existing))?)
}

/// A conflict with the body that was refused: its message quotes the values.
fn with_document(stop: Stop, item: &PreparedBody) -> Stop {
    match stop {
        Stop::Error(error) if error.kind() == ErrorKind::Conflict => {
            Stop::Error(error.with_document(item.body.as_bytes()))
        }
        stop => stop,
    }
}

fn with_item_lsn(mut error: Error, item: &StoredItem) -> Error {
    error.meta_mut().item_lsn = item.lsn();
    error
}

fn system_terms(shape: &ContainerSchema) -> u64 {
    if shape.indexed_paths.indexes_anything() { SYSTEM_TERMS } else { 0 }
}

/// The state a new version gets from the command and the partition rather than from its body.
#[derive(Debug, Clone, Copy)]
struct Stamp {
    lsn: u64,
    time: HybridTime,
    etag: Guid,
    ordinal: u64,
}

/// The new version of an item with a given body.
fn new_version(item: &PreparedBody, stamp: Stamp, shape: &Arc<ContainerSchema>) -> StoredItem {
    let json_size_bytes = rendered_size(item.members.size_bytes, shape, stamp.time.seconds());
    let envelope = Envelope {
        lsn: stamp.lsn,
        time: stamp.time,
        region: OWN_REGION,
        etag: stamp.etag,
        ordinal: stamp.ordinal,
        ttl_seconds: item.ttl_seconds,
        json_size_bytes: json_size_bytes as u32,
        is_altered: item.is_altered,
    };
    StoredItem::new(envelope, item.body.raw(), shape).with(item.members.text.clone(), item.terms.clone())
}
