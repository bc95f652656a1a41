//! Generations of a container's index in its record, and the next record when its policies change.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use shardlake_catalog::{IndexGeneration, IndexRecord};
use shardlake_index::IndexLayout;
use shardlake_model::{Container, Error, Limits, Result};

/// How much of a build is done; shared by all handles of a container.
#[derive(Debug, Default)]
pub struct BuildProgress {
    pub items_done: AtomicU64,
    /// A task fills the new generation, or has checked whether there is one.
    pub is_tended: AtomicBool,
}

pub type Layouts = (Option<Arc<IndexLayout>>, Option<Arc<IndexLayout>>);

fn generation(id: u16, container: &Container, limits: &Limits) -> IndexGeneration {
    let definition = &container.definition;
    IndexGeneration {
        id,
        policy: definition.indexing_policy.clone(),
        computed_properties: shardlake_partition::computed_definitions(definition),
        exact_terms_max: Some(limits.index_terms_exact_max),
    }
}

/// Index record of a container without items.
pub fn index_of_new(container: &Container, limits: &Limits) -> IndexRecord {
    IndexRecord { serving: Some(generation(1, container, limits)), building: None, last_id: 1 }
}

/// The index record that follows when a container with this index gets the policies of `container`.
pub fn index_moved_to(index: &IndexRecord, container: &Container, limits: &Limits) -> Result<IndexRecord> {
    let is_of = |found: &Option<IndexGeneration>| {
        found.as_ref().is_some_and(|found| found.follows(&generation(found.id, container, limits)))
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
    assert!(!index.ids().contains(&id), "a new index has a number that no index of the container has");
    let building = Some(generation(id, container, limits));
    Ok(IndexRecord { serving: index.serving.clone(), building, last_id: id })
}

/// Layouts of the serving generation and of the generation that is being filled.
pub fn layouts_of(index: &IndexRecord) -> Result<Layouts> {
    let layout = |generation: &Option<IndexGeneration>| -> Result<Option<Arc<IndexLayout>>> {
        let Some(generation) = generation else { return Ok(None) };
        let computed = shardlake_partition::computed_properties(&generation.computed_properties);
        let layout = IndexLayout::new(generation.id, &generation.policy, computed)?;
        Ok(layout.map(|layout| Arc::new(layout.with_exact_terms_max(generation.exact_terms_max))))
    };
    Ok((layout(&index.serving)?, layout(&index.building)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardlake_catalog::{decode, encode};
    use shardlake_model::{
        ContainerDefinition, ContainerRid, DatabaseRid, ExcludedPath, PartitionKeyDefinition,
    };

    #[test]
    fn generation_keeps_its_maximum_of_exact_terms_until_the_policy_changes() {
        let mut container = Container {
            rid: ContainerRid { database: DatabaseRid(1), number: 1 },
            etag: [0; 16],
            timestamp: 0,
            definition: ContainerDefinition::new("c", PartitionKeyDefinition::hash("/pk")),
            kept: None,
            is_collection: false,
            narrowings: Vec::new(),
            bounds: None,
        };
        let limits = Limits::default();
        let mut old = index_of_new(&container, &limits);
        let summarises = |index: &IndexRecord| {
            let (serving, building) = layouts_of(index).expect("compiles");
            (
                serving.is_some_and(|layout| layout.summarises()),
                building.is_some_and(|layout| layout.summarises()),
            )
        };
        assert_eq!(summarises(&old), (true, false));
        // As an earlier version has stored it.
        old.serving.as_mut().expect("there").exact_terms_max = None;
        let stored = encode(&old);
        assert!(!String::from_utf8_lossy(&stored).contains("exact_terms_max"));
        let old: IndexRecord = decode(&stored).expect("an index record");
        assert_eq!(summarises(&old), (false, false));
        assert_eq!(index_moved_to(&old, &container, &limits).expect("moves"), old, "the same policy");
        let excluded = ExcludedPath { path: "/a/*".to_owned() };
        container.definition.indexing_policy.excluded_paths.push(excluded);
        let moved = index_moved_to(&old, &container, &limits).expect("moves");
        assert_eq!(summarises(&moved), (false, true));
    }
}
