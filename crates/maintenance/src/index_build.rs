//! Generations of a container's index: which one serves, which one is being filled, and the work in the background that ends
//! with the second in the place of the first (engine.md §5, last bullets).
//!
//! A new policy gets a generation of its own, so that queries stay right throughout: they read the old one
//! until the new one is complete. Both are in the container's record before anything depends on them. The
//! leftovers of other generations after a crash are deleted when the account is opened.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use shardlake_catalog::{ContainerRecord, Definitions, IndexRecord};
use shardlake_model::{ContainerRid, ErrorKind, Result};
use shardlake_partition::BuildEnd;

use crate::{Held, Upkeep};
use shardlake_router::LiveCatalog;
use shardlake_router::{ContainerEntry, PartitionHandle};

/// Looks at all containers now, and again whenever the catalog changes.
pub(crate) fn start(upkeep: &Upkeep) {
    let held = Held::of(upkeep);
    let mut versions = upkeep.0.router.catalog_version().subscribe();
    tokio::spawn(async move {
        loop {
            let Some(upkeep) = held.upkeep() else { return };
            upkeep.tend_indexes();
            drop(upkeep);
            if versions.changed().await.is_err() {
                return;
            }
        }
    });
}

impl Upkeep {
    /// Starts the work for every index with a new record. A container that never changed its
    /// policies has nothing to fill or delete.
    fn tend_indexes(&self) {
        for entry in self.0.router.catalog().load().containers() {
            let index = &entry.record.index;
            let is_first = index.building.is_none() && index.last_id <= 1;
            if !is_first && !entry.progress.is_tended.swap(true, Ordering::AcqRel) {
                self.tend_index_in_background(entry.clone());
            }
        }
    }

    /// Fills a generation that is being built and deletes data that no generation needs, in the background.
    fn tend_index_in_background(&self, entry: Arc<ContainerEntry>) {
        let upkeep = self.clone();
        tokio::spawn(async move {
            let (rid, definition) = (entry.record.container.rid, &entry.record.container.definition);
            let name = format!("{}/{}", entry.database.id, definition.id);
            if let Err(error) = upkeep.router().patiently(|| upkeep.tend_index(entry.clone())).await {
                // The record stays unchanged, so the next start tries again.
                let has_ended = matches!(error.kind(), ErrorKind::PartitionGone | ErrorKind::OwnerNotFound);
                if !has_ended && !upkeep.router().is_closing() {
                    tracing::warn!(container = name, %rid, %error, "building an index stopped");
                }
            }
        });
    }

    async fn tend_index(&self, entry: Arc<ContainerEntry>) -> Result<()> {
        let motion = entry.motion.clone();
        let _turn = motion.topology.lock().await;
        // The catalog shows a new generation slightly before the partitions maintain it.
        drop(motion.alignment.lock().await);
        // The partitions may have changed while the task waited for the lock.
        let Ok(entry) = self.router().current_entry(&entry) else { return Ok(()) };
        let partitions: Vec<PartitionHandle> = entry.map.iter().cloned().collect();
        drop_unused(&partitions, &entry.record.index).await?;
        let Some(building) = &entry.record.index.building else { return Ok(()) };
        // One container at a time: the work in the foreground shares the machine with it.
        let turn = self.0.index_builds.lock().await;
        if let Some(layout) = &entry.shape.building {
            let done = |items| {
                entry.progress.items_done.fetch_add(items, Ordering::Relaxed);
            };
            for partition in &partitions {
                if partition.hosted().partition().build_index(&entry.shape, layout, &done).await?
                    == BuildEnd::Superseded
                {
                    return Ok(());
                }
            }
        }
        drop(turn);
        self.serve_built_index(entry.record.container.rid, building.id).await
    }

    /// Replaces the serving generation with the built one, unless the container has changed meanwhile.
    async fn serve_built_index(&self, rid: ContainerRid, id: u16) -> Result<()> {
        let entry = self.router().entry_of_rid(rid)?;
        let is_built = move |index: &IndexRecord| index.building.as_ref().is_some_and(|built| built.id == id);
        if !is_built(&entry.record.index) {
            return Ok(());
        }
        let plan = move |_: &LiveCatalog, draft: &mut Definitions| {
            let Some(old) = draft.containers.get(&rid).filter(|old| is_built(&old.index)) else {
                return Ok(());
            };
            let index = IndexRecord {
                serving: old.index.building.clone(),
                building: None,
                last_id: old.index.last_id,
            };
            let record = ContainerRecord { index, ..ContainerRecord::clone(old) };
            draft.containers.put(rid, record);
            Ok(())
        };
        self.router().redefine(rid, entry.shape.retention, plan).await.map(drop)
    }
}

/// Deletes the leftovers of earlier generations. Later ones than the record knows are kept.
async fn drop_unused(partitions: &[PartitionHandle], index: &IndexRecord) -> Result<()> {
    for partition in partitions {
        partition.hosted().partition().drop_indexes_below(index.last_id + 1, &index.ids()).await?;
    }
    Ok(())
}
