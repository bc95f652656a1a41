//! The queue of items that run out by a time of their own, against the items: a row for each, and no other.

use std::sync::Arc;

use bytes::Bytes;
use shardlake_model::Result;
use shardlake_storage::{ScanOptions, Snapshot};

use crate::due::own_end;
use crate::item::StoredItem;
use crate::key_list::KeyList;
use crate::keys::{self, EXPIRY, HEADER, ITEMS, PartitionUid};
use crate::shape::ContainerSchema;

/// Expiry times of the items.
#[derive(Debug, Default)]
pub(crate) struct ExpiryVerifier {
    expected: u64,
}

impl ExpiryVerifier {
    pub fn note_item(&mut self, item: &StoredItem) {
        self.expected += u64::from(own_end(item.envelope()).is_some());
    }

    /// Each row belongs to an item; where the queue is whole, the numbers then show whether an item
    /// lacks one.
    pub async fn finish(
        self,
        snapshot: &Snapshot,
        uid: PartitionUid,
        shape: &Arc<ContainerSchema>,
    ) -> Result<Vec<String>> {
        let (mut found, mut is_whole, mut problems) = (0, false, Vec::new());
        let (start, end) = keys::space_range(uid, EXPIRY);
        let mut scan = snapshot.scan(start..end, ScanOptions::SWEEP);
        while let Some(rows) = scan.next_chunk().await.map_err(crate::storage_error)? {
            let (mut ends, mut item_keys) = (Vec::new(), KeyList::default());
            for (key, _) in &rows {
                match keys::parse_expiry_key(&key[HEADER..]) {
                    Some((due, item)) => {
                        ends.push(due);
                        item_keys.push(&[&keys::header(uid, ITEMS, 0), item]);
                    }
                    None => is_whole = true,
                }
            }
            let items = snapshot.get_many(item_keys.finish()).await.map_err(crate::storage_error)?;
            found += ends.len() as u64;
            for (due, item) in ends.into_iter().zip(items) {
                if end_of(item, shape) != Some(due) {
                    problems.push(format!(
                        "the queue of items that run out has one at {due} s that is not there"
                    ));
                }
            }
        }
        if is_whole && found != self.expected {
            let expected = self.expected;
            problems
                .push(format!("{found} items are queued to run out by a time of their own, not {expected}"));
        }
        Ok(problems)
    }
}

fn end_of(item: Option<Bytes>, shape: &Arc<ContainerSchema>) -> Option<u64> {
    own_end(StoredItem::decode(item?, shape).ok()?.envelope())
}
