//! Reads of operations that are known before they are planned.

use std::sync::Arc;

use bytes::Bytes;
use shardlake_model::Result;
use shardlake_routing::LogicalKey;

use super::transaction::ItemName;
use crate::core::Core;
use crate::cpu_pool::offload;
use crate::item::StoredItem;
use crate::keys;
use crate::operation::Operation;
use crate::origin::Origin;
use crate::read_set::ReadSet;
use crate::shape::ContainerSchema;

/// The keys that operations read, as far as they follow from the operations.
pub(crate) fn footprint(
    origin: Origin,
    shape: &ContainerSchema,
    logical: &LogicalKey,
    operations: &[Operation],
) -> Vec<Bytes> {
    let mut keys = vec![Bytes::from(keys::size_key(origin.uid, logical))];
    for operation in operations {
        keys.push(keys::item_key(origin.uid, logical, operation.id()).into());
        if let Some(item) = operation.item() {
            if item.id != operation.id() {
                keys.push(keys::item_key(origin.uid, logical, &item.id).into());
            }
            let unique = shape.unique_keys_of(origin.uid, logical, item.body.raw());
            keys.extend(unique.into_iter().map(|(_, key)| key));
        }
    }
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Finds out the terms of the heavy items that operations take the place of, as they are now, and about how many rows the
/// commit will have.
pub(crate) async fn look_ahead(
    core: &Core,
    shape: &Arc<ContainerSchema>,
    reads: &mut ReadSet,
    (logical, operations): (&LogicalKey, &[Operation]),
) -> Result<usize> {
    let mut rows = 0;
    for operation in operations.iter().filter(|operation| !matches!(operation, Operation::Read { .. })) {
        let name = ItemName::new(core.uid, logical, operation.id());
        let new = operation.item().map(|item| item.terms.clone());
        let old = core.shard().get_applied(&name.key).await.map_err(crate::storage_error)?;
        let old = old.map(|record| StoredItem::decode(record, shape)).transpose()?;
        let Some(old) = old.filter(StoredItem::is_heavy) else {
            rows += new.map_or(0, |new| new.rows());
            continue;
        };
        let is_patch = matches!(operation, Operation::Patch { .. });
        let (old, changed) = offload(move || {
            let old = old.with_terms();
            // The changes of a patch are not known yet.
            let terms = old.known_terms().filter(|_| !is_patch);
            let changed = terms.map_or(0, |terms| terms.rows_changed_to(new.as_deref()));
            (old, changed)
        })
        .await?;
        rows += changed;
        reads.note_heavy(name.key, old);
    }
    Ok(rows)
}
