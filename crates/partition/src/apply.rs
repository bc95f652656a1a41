//! What each operation on an item comes to within a transaction.

use shardlake_index::SYSTEM_TERMS;
use shardlake_model::{Error, ErrorKind, Preconditions, Result};
use shardlake_stdx::Guid;

use crate::change_log::ChangeKind;
use crate::heavy;
use crate::item::StoredItem;
use crate::keys;
use crate::operation::{CommandContext, ItemReply, LogicalKey, Operation, Outcome, PreparedBody};
use crate::partition::Partition;
use crate::plan::{self, Stamp};
use crate::shape::ContainerShape;
use crate::transaction::Transaction;

impl Partition {
    /// Adds an operation to a transaction; after an error the transaction is good for nothing. A write gives the item `etag`.
    pub(crate) async fn apply(
        &self,
        transaction: &mut Transaction<'_>,
        command: &CommandContext,
        etag: Guid,
        logical: &LogicalKey,
        operation: &Operation,
    ) -> Result<ItemReply> {
        let shape = transaction.shape;
        let id = operation.id();
        let key = keys::item_key(self.uid, logical, id);
        let existing = existing(transaction, logical, &key).await?;
        if !matches!(operation, Operation::Read { .. }) {
            transaction.check_foreseen(existing.as_ref())?;
        }
        let (expired, existing) = match existing {
            Some(item) if item.is_expired(command.now.seconds()) => (Some(item), None),
            other => (None, other),
        };
        match operation {
            Operation::Read { preconditions, .. } => {
                self.read_reply(shape, command, existing.ok_or_else(plan::not_found)?, preconditions)
            }
            Operation::Create { item } => match existing {
                Some(existing) => Err(with_item_lsn(plan::conflict(), &existing)),
                None => self.create(transaction, logical, item, etag, expired).await,
            },
            Operation::Upsert { item, preconditions } => match existing {
                None => self.create(transaction, logical, item, etag, expired).await,
                Some(existing) => {
                    check(&existing, preconditions)?;
                    self.replace(transaction, logical, id, item, (existing, etag)).await
                }
            },
            Operation::Replace { item, preconditions, .. } => {
                let existing = existing.ok_or_else(plan::not_found)?;
                check(&existing, preconditions)?;
                self.replace(transaction, logical, id, item, (existing, etag)).await
            }
            Operation::Delete { preconditions, .. } => {
                let existing = existing.ok_or_else(plan::not_found)?;
                check(&existing, preconditions)?;
                let terms = heavy::charged_terms(&existing, shape).await?;
                let charge =
                    shape.charges.delete(existing.json_size_bytes(), terms.len() + system_terms(shape));
                transaction.delete(logical, id, &existing, ChangeKind::Delete).await?;
                Ok(ItemReply {
                    outcome: Outcome::Deleted,
                    item: None,
                    meta: self.write_meta(charge.0, transaction.lsn),
                })
            }
            Operation::Patch { operations, condition, preconditions, .. } => {
                let existing = existing.ok_or_else(plan::not_found)?;
                check(&existing, preconditions)?;
                if let Some(condition) = condition {
                    let holds = condition.matches(existing.body())?;
                    if !holds {
                        return Err(with_item_lsn(
                            Error::new(ErrorKind::PreconditionFailed, plan::PRECONDITION),
                            &existing,
                        ));
                    }
                }
                let item = heavy::patched_body(&existing, id, operations, shape).await?;
                let mut reply = self.replace(transaction, logical, id, &item, (existing, etag)).await?;
                reply.outcome = Outcome::Patched;
                reply.meta.charge_centi += shape.charges.patch_operations(operations.len() as u64).0;
                Ok(reply)
            }
        }
    }

    async fn create(
        &self,
        transaction: &mut Transaction<'_>,
        logical: &LogicalKey,
        item: &PreparedBody,
        etag: Guid,
        expired: Option<StoredItem>,
    ) -> Result<ItemReply> {
        let shape = transaction.shape;
        let stamp = Stamp {
            lsn: transaction.lsn,
            timestamp_seconds: transaction.now.seconds(),
            etag,
            ordinal: transaction.new_ordinal(self.rid_prefix),
        };
        let version = plan::new_version(item, stamp, shape)?;
        transaction.put(logical, &item.id, &version, expired.as_ref(), ChangeKind::Create).await?;
        let charge = shape.charges.create(version.json_size_bytes(), item.terms.len() + system_terms(shape));
        let meta = self.write_meta(charge.0, transaction.lsn);
        Ok(ItemReply { outcome: Outcome::Created, item: Some(version), meta })
    }

    /// A new version of `old.0` under the etag `old.1`, perhaps with another id.
    async fn replace(
        &self,
        transaction: &mut Transaction<'_>,
        logical: &LogicalKey,
        id: &str,
        item: &PreparedBody,
        old: (StoredItem, Guid),
    ) -> Result<ItemReply> {
        let shape = transaction.shape;
        let (existing, etag) = old;
        let stamp = Stamp {
            lsn: transaction.lsn,
            timestamp_seconds: transaction.now.seconds(),
            etag,
            ordinal: existing.envelope().ordinal,
        };
        let version = plan::new_version(item, stamp, shape)?;
        if item.id == id {
            transaction.put(logical, id, &version, Some(&existing), ChangeKind::Replace).await?;
        } else {
            self.rename(transaction, logical, (id, &existing), (&item.id, &version)).await?;
        }
        let (removed, added) = heavy::charged_terms(&existing, shape).await?.difference(&item.terms);
        // `_ts` changes with every write.
        let always = u64::from(shape.indexed_paths.indexes_anything());
        let sizes = (existing.json_size_bytes(), version.json_size_bytes());
        let charge = shape.charges.replace(sizes.0, sizes.1, removed + always, added + always);
        let meta = self.write_meta(charge.0, transaction.lsn);
        Ok(ItemReply { outcome: Outcome::Replaced, item: Some(version), meta })
    }

    async fn rename(
        &self,
        transaction: &mut Transaction<'_>,
        logical: &LogicalKey,
        from: (&str, &StoredItem),
        to: (&str, &StoredItem),
    ) -> Result<()> {
        let target = transaction.item(&keys::item_key(self.uid, logical, to.0)).await?;
        let now = transaction.now.seconds();
        let expired = match target {
            Some(taken) if !taken.is_expired(now) => return Err(with_item_lsn(plan::conflict(), &taken)),
            other => other,
        };
        transaction.delete(logical, from.0, from.1, ChangeKind::Delete).await?;
        transaction.put(logical, to.0, to.1, expired.as_ref(), ChangeKind::Create).await
    }
}

/// The item under a key, also when its time to live has run out.
async fn existing(
    transaction: &mut Transaction<'_>,
    logical: &LogicalKey,
    key: &[u8],
) -> Result<Option<StoredItem>> {
    // Where the logical partition is new, its size has answered already.
    if !transaction.is_empty(logical).await? {
        return transaction.item(key).await;
    }
    if cfg!(debug_assertions) {
        assert!(transaction.item(key).await?.is_none(), "a logical partition with items has a size");
    }
    Ok(None)
}

fn check(existing: &StoredItem, preconditions: &Preconditions) -> Result<()> {
    plan::check_write(existing, preconditions).map_err(|error| with_item_lsn(error, existing))
}

fn with_item_lsn(mut error: Error, item: &StoredItem) -> Error {
    error.meta_mut().item_lsn = item.lsn();
    error
}

pub(crate) fn system_terms(shape: &ContainerShape) -> u64 {
    if shape.indexed_paths.indexes_anything() { SYSTEM_TERMS } else { 0 }
}
