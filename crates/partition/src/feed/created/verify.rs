//! Whether each item has its row in the order of creation, and each row its item.

use shardlake_document::Record;
use shardlake_model::Result;
use shardlake_storage::{ScanOptions, Snapshot};

use super::is_kept;
use crate::key_list::KeyList;
use crate::keys::{self, HEADER, PartitionUid};

/// Reports on a partition with so many items.
pub(crate) async fn verify(snapshot: &Snapshot, uid: PartitionUid, items: u64) -> Result<Vec<String>> {
    let (mut problems, mut entries) = (Vec::new(), 0);
    if items > 0 && !is_kept(snapshot, uid).await? {
        problems.push("the order of creation has no mark that it is whole".to_owned());
    }
    let (start, end) = keys::space_range(uid, keys::CREATED);
    let mut scan = snapshot.scan(start..end, ScanOptions::SWEEP);
    while let Some(mut chunk) = scan.next_chunk().await.map_err(crate::storage_error)? {
        chunk.retain(|(key, _)| key.len() > HEADER);
        entries += chunk.len() as u64;
        let header = keys::header(uid, keys::ITEMS, 0);
        let (mut item_keys, mut ordinals) = (KeyList::default(), Vec::with_capacity(chunk.len()));
        for (key, id) in &chunk {
            let (logical, ordinal) =
                keys::parse_created_key(&key[HEADER..]).ok_or_else(crate::malformed_key)?;
            item_keys.push(&[&header, logical, id]);
            ordinals.push(ordinal);
        }
        let stored = snapshot.get_many(item_keys.finish()).await.map_err(crate::storage_error)?;
        for (ordinal, record) in ordinals.into_iter().zip(stored) {
            let own = record.as_deref().and_then(|record| Record::decode(record).ok());
            if own.map(|record| record.envelope.ordinal) != Some(ordinal) {
                problems.push(format!("the order of creation has ordinal {ordinal}, which its item has not"));
            }
        }
    }
    if entries != items {
        problems.push(format!("the order of creation has {entries} entries for {items} items"));
    }
    Ok(problems)
}
