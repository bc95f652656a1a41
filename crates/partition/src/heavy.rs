//! Heavy items: what a write of one needs is found out before the sequencer is taken, and beside the threads that answer
//! requests.
//!
//! ```text
//! prepare      render, terms of the new body                        beside, no lock
//! look ahead   terms of the version before, rows that the commit changes   beside, no lock
//! turn         until the shard's other large commits are written           (storage/src/turns.rs)
//! sequencer    is it still that version? then the difference               beside; else its terms, too
//! ```
//!
//! An operation that says nothing of an item's size (a deletion, a patch) is planned like any other. Where it meets a heavy
//! item, its transaction is dropped, which leaves no trace, and it begins anew by looking ahead.

use std::borrow::Cow;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use shardlake_document::{Body, PatchOperation, Value};
use shardlake_index::TermSet;
use shardlake_model::Result;

use crate::beside::{HEAVY_BYTES, beside, beside_planning};
use crate::index::{Foreseen, check_terms};
use crate::item::StoredItem;
use crate::keys;
use crate::operation::{LogicalKey, Operation, PreparedBody};
use crate::partition::Partition;
use crate::plan;
use crate::prepare::prepare_body;
use crate::shape::ContainerShape;

/// [`prepare_body`], beside the threads that answer requests where the body is large.
pub async fn prepare(body: Body, shape: &Arc<ContainerShape>) -> Result<PreparedBody> {
    if body.as_bytes().len() <= HEAVY_BYTES {
        return prepare_body(body, shape);
    }
    let shape = shape.clone();
    beside(move || prepare_body(body, &shape).and_then(|prepared| foreseen(prepared, &shape))).await?
}

/// Finds out the terms of a heavy body, and refuses one with too many. Shorter bodies cannot have as many.
pub(crate) fn foreseen(prepared: PreparedBody, shape: &ContainerShape) -> Result<PreparedBody> {
    if prepared.members.len() <= HEAVY_BYTES {
        return Ok(prepared);
    }
    check_terms(prepared.terms.len() as usize, &shape.limits)?;
    let foreseen = Foreseen::with(prepared.terms.clone(), prepared.body.raw(), shape.maintained());
    foreseen.check(&shape.limits)?;
    Ok(PreparedBody { foreseen: Some(Arc::new(foreseen)), ..prepared })
}

/// The body after a patch.
pub(crate) async fn patched_body(
    existing: &StoredItem,
    id: &str,
    operations: &[PatchOperation],
    shape: &Arc<ContainerShape>,
) -> Result<PreparedBody> {
    if !existing.is_heavy() && !operations.iter().any(is_heavy_patch) {
        return plan::patched_body(existing, id, operations, shape);
    }
    let (existing, id, operations, shape) =
        (existing.clone(), id.to_owned(), operations.to_vec(), shape.clone());
    beside_planning(move || plan::patched_body(&existing, &id, &operations, &shape)).await?
}

fn is_heavy_patch(operation: &PatchOperation) -> bool {
    match operation {
        PatchOperation::Add { value, .. }
        | PatchOperation::Set { value, .. }
        | PatchOperation::Replace { value, .. } => size_of(value) > HEAVY_BYTES,
        PatchOperation::Remove { .. } | PatchOperation::Increment { .. } | PatchOperation::Move { .. } => {
            false
        }
    }
}

/// About the bytes that a value takes.
fn size_of(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(elements) => elements.iter().map(|element| 4 + size_of(element)).sum(),
        Value::Object(members) => members.iter().map(|(name, value)| 4 + name.len() + size_of(value)).sum(),
        _ => 8,
    }
}

/// The terms that an item is charged for.
pub(crate) async fn charged_terms<'i>(
    item: &'i StoredItem,
    shape: &Arc<ContainerShape>,
) -> Result<Cow<'i, TermSet>> {
    if let Some(foreseen) = item.foreseen() {
        return Ok(Cow::Borrowed(&foreseen.charged));
    }
    if !item.is_heavy() {
        return Ok(Cow::Owned(TermSet::of(item.body(), &shape.indexed_paths)));
    }
    let (item, shape) = (item.clone(), shape.clone());
    beside_planning(move || TermSet::of(item.body(), &shape.indexed_paths)).await.map(Cow::Owned)
}

/// What is known of the items that operations take the place of, as they were a moment ago.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// Heavy ones, by their key.
    items: FxHashMap<Vec<u8>, StoredItem>,
    /// Rows of the index that the operations change; about.
    pub rows: usize,
}

impl Ahead {
    /// The item under a key, if it is still this record.
    pub fn item(&self, key: &[u8], record: &[u8]) -> Option<&StoredItem> {
        self.items.get(key).filter(|item| item.record_bytes() == record)
    }
}

impl Partition {
    pub(crate) async fn look_ahead(
        &self,
        shape: &Arc<ContainerShape>,
        logical: &LogicalKey,
        operations: &[Operation],
    ) -> Result<Ahead> {
        let mut ahead = Ahead::default();
        for operation in operations.iter().filter(|operation| !matches!(operation, Operation::Read { .. })) {
            let key = keys::item_key(self.uid, logical, operation.id());
            let new = operation.item().and_then(|item| item.foreseen.clone());
            let old = self.shard().get_applied(&key).await.map_err(crate::storage_error)?;
            let old = old.map(|record| StoredItem::decode(record, shape)).transpose()?;
            let Some(old) = old.filter(StoredItem::is_heavy) else {
                ahead.rows += new.map_or(0, |new| new.rows());
                continue;
            };
            let is_patch = matches!(operation, Operation::Patch { .. });
            let (old, rows) = beside(move || {
                let old = old.foreseeing();
                // What a patch changes is not known yet.
                let rows = old.foreseen().filter(|_| !is_patch);
                let rows = rows.map_or(0, |terms| terms.rows_changed_to(new.as_deref()));
                (old, rows)
            })
            .await?;
            ahead.rows += rows;
            ahead.items.insert(key, old);
        }
        Ok(ahead)
    }
}
