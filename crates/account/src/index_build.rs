//! Generations of a container's index: which one serves, which one is being filled, and the work in the background that ends
//! with the second in the place of the first (engine.md §5, last bullets).
//!
//! A new policy gets a generation of its own, so that queries stay right throughout: they read the old one until the new one
//! is whole. Both are in the container's record before anything depends on them; what a crash leaves of any other generation
//! is deleted when the account is opened.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use shardlake_model::{Container, ContainerRid, Error, IndexingPolicy, Result};
use shardlake_partition::{BuildEnd, IndexLayout, Partition};

use crate::Account;
use crate::catalog::{Catalog, CatalogBatch, ContainerRecord};
use crate::container_handle::ContainerEntry;

/// The generations of one container's index.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct IndexRecord {
    pub serving: Option<IndexGeneration>,
    pub building: Option<IndexGeneration>,
    /// The last id given to a generation. None is given twice: of an abandoned one there may be something left.
    #[serde(default)]
    pub last_id: u16,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct IndexGeneration {
    pub id: u16,
    pub policy: IndexingPolicy,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub computed_properties: Vec<(String, String)>,
}

/// How much of a build is done; shared by all handles of a container.
#[derive(Debug, Default)]
pub(crate) struct BuildProgress {
    pub items_done: AtomicU64,
}

pub(crate) type Layouts = (Option<Arc<IndexLayout>>, Option<Arc<IndexLayout>>);

impl IndexGeneration {
    fn new(id: u16, container: &Container) -> IndexGeneration {
        let definition = &container.definition;
        IndexGeneration {
            id,
            policy: definition.indexing_policy.clone(),
            computed_properties: shardlake_partition::computed_definitions(definition),
        }
    }

    fn layout(&self) -> Result<Option<Arc<IndexLayout>>> {
        let computed = shardlake_partition::computed_properties(&self.computed_properties);
        Ok(IndexLayout::new(self.id, &self.policy, computed)?.map(Arc::new))
    }

    fn is_of(&self, container: &Container) -> bool {
        *self == IndexGeneration::new(self.id, container)
    }
}

impl IndexRecord {
    /// Of a container that has no items yet.
    pub fn of_new(container: &Container) -> IndexRecord {
        IndexRecord { serving: Some(IndexGeneration::new(1, container)), building: None, last_id: 1 }
    }

    /// What follows when a container with this record gets the policies of `container`.
    pub fn moved_to(&self, container: &Container) -> Result<IndexRecord> {
        if self.serving.as_ref().is_some_and(|serving| serving.is_of(container)) {
            return Ok(IndexRecord { building: None, ..self.clone() });
        }
        if self.building.as_ref().is_some_and(|building| building.is_of(container)) {
            return Ok(self.clone());
        }
        let last = self.last_id.max(self.ids().into_iter().max().unwrap_or(0));
        let id = last.checked_add(1).filter(|id| *id < u16::MAX).ok_or_else(|| {
            Error::bad_request(
                "the indexing policy of this container was changed too often: create a new container",
            )
        })?;
        let building = Some(IndexGeneration::new(id, container));
        Ok(IndexRecord { serving: self.serving.clone(), building, last_id: id })
    }

    pub fn layouts(&self) -> Result<Layouts> {
        let layout = |generation: &Option<IndexGeneration>| match generation {
            Some(generation) => generation.layout(),
            None => Ok(None),
        };
        Ok((layout(&self.serving)?, layout(&self.building)?))
    }

    fn ids(&self) -> Vec<u16> {
        self.serving.iter().chain(&self.building).map(|generation| generation.id).collect()
    }
}

impl Account {
    /// Fills what is to be filled and deletes what no generation needs, in the background.
    pub(crate) fn tend_index_in_background(&self, entry: Arc<ContainerEntry>) {
        let account = self.clone();
        tokio::spawn(async move {
            let name = entry.container.rid;
            if let Err(error) = account.tend_index(entry).await {
                // The record stays as it is, so the next start tries again.
                tracing::warn!(container = %name, %error, "building an index stopped");
            }
        });
    }

    async fn tend_index(&self, entry: Arc<ContainerEntry>) -> Result<()> {
        let motion = entry.motion.clone();
        let _turn = motion.topology.lock().await;
        // The partitions may have been others when the turn was asked for.
        let Ok(entry) = self.current_entry(&entry) else { return Ok(()) };
        let partitions: Vec<Arc<Partition>> = entry.map.iter().cloned().collect();
        drop_unused(&partitions, &entry.index).await?;
        let Some(building) = &entry.index.building else { return Ok(()) };
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
        match self.serve_built_index(entry.container.rid, building.id).await? {
            Some(entry) => drop_unused(&partitions, &entry.index).await,
            None => Ok(()),
        }
    }

    /// Puts the generation that was built in the place of the serving one; `None` when something else happened meanwhile.
    /// What partitions maintain changes under the catalog's lock only, so that the last record is what counts.
    async fn serve_built_index(&self, rid: ContainerRid, id: u16) -> Result<Option<Arc<ContainerEntry>>> {
        let _writer = self.0.catalog_writer.lock().await;
        let mut catalog = Catalog::clone(&self.0.catalog.load());
        let owners = catalog.databases.values();
        let found =
            owners.flat_map(|owner| owner.containers.values()).find(|entry| entry.container.rid == rid);
        let Some(old) =
            found.filter(|entry| entry.index.building.as_ref().is_some_and(|building| building.id == id))
        else {
            return Ok(None);
        };
        let index =
            IndexRecord { serving: old.index.building.clone(), building: None, last_id: old.index.last_id };
        let record = ContainerRecord { index, ..old.record(old.container.clone()) };
        let entry = Arc::new(self.entry_of(old, record.clone())?);
        let mut batch = CatalogBatch::new();
        batch.put_container(&record);
        crate::containers::insert(&mut catalog, entry.clone());
        self.publish(catalog, batch).await?;
        for partition in entry.map.iter() {
            // Queries that still see the old entry must not read what is about to be dropped.
            partition.retire_indexes_below(id);
            partition.maintain_indexes(entry.shape.maintained()).await?;
        }
        Ok(Some(entry))
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
        if self.index.building.is_none() {
            return 100;
        }
        let items: u64 = self.map.iter().map(|partition| partition.items()).sum();
        let done = self.progress.items_done.load(Ordering::Relaxed);
        (done * 100).checked_div(items).unwrap_or(0).min(99)
    }
}
