//! Generations of a container's index: which one serves, which one is being filled, and the work in the background that ends
//! with the second in the place of the first (engine.md §5, last bullets).
//!
//! A new policy gets a generation of its own, so that queries stay right throughout: they read the old one until the new one
//! is whole. Both are in the container's record before anything depends on them; what a crash leaves of any other generation
//! is deleted when the account is opened.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use shardlake_catalog::{ContainerRecord, Definitions, IndexGeneration, IndexRecord};
use shardlake_index::IndexLayout;
use shardlake_model::{Container, ContainerRid, Error, ErrorKind, Result};
use shardlake_partition::{BuildEnd, Partition};

use crate::Account;
use crate::container_handle::ContainerEntry;
use crate::live_catalog::LiveCatalog;

/// How much of a build is done; shared by all handles of a container.
#[derive(Debug, Default)]
pub(crate) struct BuildProgress {
    pub items_done: AtomicU64,
}

pub(crate) type Layouts = (Option<Arc<IndexLayout>>, Option<Arc<IndexLayout>>);

fn generation(id: u16, container: &Container) -> IndexGeneration {
    let definition = &container.definition;
    IndexGeneration {
        id,
        policy: definition.indexing_policy.clone(),
        computed_properties: shardlake_partition::computed_definitions(definition),
    }
}

/// Of a container that has no items yet.
pub(crate) fn index_of_new(container: &Container) -> IndexRecord {
    IndexRecord { serving: Some(generation(1, container)), building: None, last_id: 1 }
}

/// What follows when a container with this index gets the policies of `container`.
pub(crate) fn index_moved_to(index: &IndexRecord, container: &Container) -> Result<IndexRecord> {
    let is_of = |found: &Option<IndexGeneration>| {
        found.as_ref().is_some_and(|found| *found == generation(found.id, container))
    };
    if is_of(&index.serving) {
        return Ok(IndexRecord { building: None, ..index.clone() });
    }
    if is_of(&index.building) {
        return Ok(index.clone());
    }
    let last = index.last_id.max(index.ids().into_iter().max().unwrap_or(0));
    let id = last.checked_add(1).filter(|id| *id < u16::MAX).ok_or_else(|| {
        Error::bad_request(
            "the indexing policy of this container was changed too often: create a new container",
        )
    })?;
    let building = Some(generation(id, container));
    Ok(IndexRecord { serving: index.serving.clone(), building, last_id: id })
}

/// Of the generation that serves, and of the one that is being filled.
pub(crate) fn layouts_of(index: &IndexRecord) -> Result<Layouts> {
    let layout = |generation: &Option<IndexGeneration>| -> Result<Option<Arc<IndexLayout>>> {
        let Some(generation) = generation else { return Ok(None) };
        let computed = shardlake_partition::computed_properties(&generation.computed_properties);
        Ok(IndexLayout::new(generation.id, &generation.policy, computed)?.map(Arc::new))
    };
    Ok((layout(&index.serving)?, layout(&index.building)?))
}

impl Account {
    /// Fills what is to be filled and deletes what no generation needs, in the background.
    pub(crate) fn tend_index_in_background(&self, entry: Arc<ContainerEntry>) {
        let account = self.clone();
        tokio::spawn(async move {
            let name = entry.record.container.rid;
            if let Err(error) = account.tend_index(entry).await {
                // The record stays as it is, so the next start tries again.
                let has_ended = matches!(error.kind(), ErrorKind::PartitionGone | ErrorKind::OwnerNotFound);
                if !has_ended && !account.is_closing() {
                    tracing::warn!(container = %name, %error, "building an index stopped");
                }
            }
        });
    }

    async fn tend_index(&self, entry: Arc<ContainerEntry>) -> Result<()> {
        let motion = entry.motion.clone();
        let _turn = motion.topology.lock().await;
        // The partitions may have been others when the turn was asked for.
        let Ok(entry) = self.current_entry(&entry) else { return Ok(()) };
        let partitions: Vec<Arc<Partition>> = entry.map.iter().cloned().collect();
        drop_unused(&partitions, &entry.record.index).await?;
        let Some(building) = &entry.record.index.building else { return Ok(()) };
        // One container at a time: the work in the foreground shares the machine with it.
        let turn = self.0.index_builds.lock().await;
        if let Some(layout) = &entry.shape.building {
            let done = |items| {
                entry.progress.items_done.fetch_add(items, Ordering::Relaxed);
            };
            for partition in &partitions {
                if partition.build_index(&entry.shape, layout, &done).await? == BuildEnd::Superseded {
                    return Ok(());
                }
            }
        }
        drop(turn);
        self.serve_built_index(entry.record.container.rid, building.id).await
    }

    /// Puts the generation that was built in the place of the serving one, unless something else happened meanwhile.
    async fn serve_built_index(&self, rid: ContainerRid, id: u16) -> Result<()> {
        let entry = self.entry_of_rid(rid)?;
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
        self.redefine(rid, entry.shape.retention, plan).await.map(drop)
    }
}

/// Deletes what is left of earlier generations. Later ones than the record knows are left alone.
async fn drop_unused(partitions: &[Arc<Partition>], index: &IndexRecord) -> Result<()> {
    for partition in partitions {
        partition.drop_indexes_below(index.last_id + 1, &index.ids()).await?;
    }
    Ok(())
}

impl ContainerEntry {
    /// How much of the indexing policy the index follows, in percent.
    pub fn index_progress(&self) -> u64 {
        if self.record.index.building.is_none() {
            return 100;
        }
        let items: u64 = self.map.iter().map(|partition| partition.items()).sum();
        let done = self.progress.items_done.load(Ordering::Relaxed);
        (done * 100).checked_div(items).unwrap_or(0).min(99)
    }
}
