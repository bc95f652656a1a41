//! Generations of a container's index as its record has them, and what follows when its policies change.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use shardlake_catalog::{IndexGeneration, IndexRecord};
use shardlake_index::IndexLayout;
use shardlake_model::{Container, Error, Result};

/// How much of a build is done; shared by all handles of a container.
#[derive(Debug, Default)]
pub struct BuildProgress {
    pub items_done: AtomicU64,
    /// Somebody fills the new generation, or has looked whether there is one.
    pub is_tended: AtomicBool,
}

pub type Layouts = (Option<Arc<IndexLayout>>, Option<Arc<IndexLayout>>);

fn generation(id: u16, container: &Container) -> IndexGeneration {
    let definition = &container.definition;
    IndexGeneration {
        id,
        policy: definition.indexing_policy.clone(),
        computed_properties: shardlake_partition::computed_definitions(definition),
    }
}

/// Of a container that has no items yet.
pub fn index_of_new(container: &Container) -> IndexRecord {
    IndexRecord { serving: Some(generation(1, container)), building: None, last_id: 1 }
}

/// What follows when a container with this index gets the policies of `container`.
pub fn index_moved_to(index: &IndexRecord, container: &Container) -> Result<IndexRecord> {
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
pub fn layouts_of(index: &IndexRecord) -> Result<Layouts> {
    let layout = |generation: &Option<IndexGeneration>| -> Result<Option<Arc<IndexLayout>>> {
        let Some(generation) = generation else { return Ok(None) };
        let computed = shardlake_partition::computed_properties(&generation.computed_properties);
        Ok(IndexLayout::new(generation.id, &generation.policy, computed)?.map(Arc::new))
    };
    Ok((layout(&index.serving)?, layout(&index.building)?))
}
