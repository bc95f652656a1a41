//! Stray partitions: data under partition numbers that the catalog does not know.
//!
//! Every partition number that has data belongs to a container, to a relocation, or to a deletion
//! in progress. A number is handed out by the change of the catalog that names its owner, and never
//! again. So no client can ever reach data of a number that was handed out and has no owner: a
//! start deletes it. Data of a number that was never handed out means that the catalog is older
//! than its shards: it stays, for `shardlake verify` to report.
//!
//! *Order*: the numbers are read first and compared with the catalog under the lock of the change that marks
//! them. A number that was given an owner in between is known at that time.

use std::collections::HashMap;

use shardlake_catalog::{Definitions, MEMBERSHIP, Placed, key, stamp_key};
use shardlake_model::{PartitionUid, Result};
use shardlake_partition::storage_error;
use shardlake_storage::{ScanOptions, Shard};

use crate::Serving;

/// Partition numbers that have data on a shard.
#[derive(Debug, Default)]
pub struct NumbersOnShard {
    pub numbers: Vec<u32>,
    /// The length of a key that has no partition number.
    pub malformed_key_bytes: Option<usize>,
}

impl NumbersOnShard {
    /// Skips from partition to partition: one read for each. The shard's own records are left out.
    pub async fn read(shard: &Shard, shard_number: u16) -> Result<NumbersOnShard> {
        let snapshot = shard.snapshot();
        let own = [key(MEMBERSHIP, &[]), stamp_key()];
        let mut found = NumbersOnShard::default();
        let mut from = vec![0];
        loop {
            let options = ScanOptions { limit: Some(1), ..ScanOptions::default() };
            let mut scan = snapshot.scan(from..vec![0xFF; 8], options);
            let chunk = scan.next_chunk().await.map_err(storage_error)?;
            let Some((key, _)) = chunk.into_iter().flatten().next() else { return Ok(found) };
            let Some(number) = key.first_chunk().copied().map(u32::from_be_bytes) else {
                found.malformed_key_bytes = Some(key.len());
                return Ok(found);
            };
            if shardlake_partition::is_statement_key(&key) {
                // These keys are of no partition, and the last ones.
                return Ok(found);
            }
            if shard_number > 0 && own.iter().any(|own| *key == **own) {
                from = [&*key, &[0]].concat();
                continue;
            }
            found.numbers.push(number);
            match number.checked_add(1) {
                Some(next) => from = next.to_be_bytes().to_vec(),
                None => return Ok(found),
            }
        }
    }
}

/// The shard of every partition number that the catalog knows. The catalog itself is partition 0 of shard 0.
pub fn known_partitions(definitions: &Definitions) -> HashMap<u32, u16> {
    let dropped = definitions.dropped.iter().map(|(uid, mark)| (uid.0, mark.shard()));
    let ranges = definitions.containers.values().flat_map(|record| record.all_ranges());
    dropped.chain([(0, 0)]).chain(ranges.map(|range| (range.uid, range.shard))).collect()
}

/// Data without an owner among the numbers of all shards, in the order of the shards.
fn strays_among(found: &[Vec<u32>], definitions: &Definitions) -> Vec<Placed> {
    let known = known_partitions(definitions);
    let mut strays: Vec<Placed> = Vec::new();
    for (numbers, shard) in found.iter().zip(0..) {
        let was_handed_out = |number: &&u32| **number < definitions.numbers.partition;
        let has_no_owner = |number: &&u32| !known.contains_key(number);
        for number in numbers.iter().filter(was_handed_out).filter(has_no_owner) {
            let uid = PartitionUid(*number);
            // A mark names one shard. Data of the number on another one is found at the next start.
            if strays.iter().all(|stray| stray.uid != uid) {
                strays.push(Placed { shard, uid });
            }
        }
    }
    strays
}

impl Serving {
    /// Deletes stray partitions in the background.
    pub fn drop_strays_in_background(&self) {
        let serving = self.clone();
        tokio::spawn(async move {
            if let Err(error) = serving.patiently(|| serving.drop_strays()).await
                && !serving.is_closing()
            {
                tracing::warn!(%error, "looking for partitions that belong to no container stopped");
            }
        });
    }

    async fn drop_strays(&self) -> Result<()> {
        // A deletion in progress may end while the shards are read, so that its data is found although its
        // mark is already removed.
        let before = self.0.catalog.load_full();
        let mut found = Vec::new();
        for (shard, number) in self.0.shards.iter().zip(0..) {
            found.push(NumbersOnShard::read(shard, number).await?.numbers);
        }
        let strays = strays_among(&found, &before.definitions);
        if strays.is_empty() {
            return Ok(());
        }
        let marked = self.change(move |_, draft| {
            let known = known_partitions(draft);
            let strays: Vec<Placed> =
                strays.iter().filter(|stray| !known.contains_key(&stray.uid.0)).copied().collect();
            strays.iter().for_each(|stray| draft.drop_data(*stray));
            Ok(strays)
        });
        for Placed { shard, uid } in marked.await?.0 {
            tracing::warn!(partition = uid.0, shard, "data that belongs to no container is deleted");
        }
        Ok(())
    }
}
