//! Schemas of containers, kept for a minute: editors ask for them at every key press.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use shardlake_document::{ParseLimits, Value};
use shardlake_model::{ContainerRid, Error, RequestContext, Result};
use shardlake_partition::StoredItem;
use shardlake_router::ContainerHandle;

use crate::Items;
use crate::sample::{SAMPLE_ITEMS_MAX, Sample};
use crate::schema::{SchemaPath, SchemaSketch};

const KEPT_FOR: Duration = Duration::from_secs(60);
/// Containers whose schemas are kept.
const KEPT_MAX: usize = 64;

/// The schema of a sample of a container's items.
#[derive(Debug, Clone)]
pub struct Schema {
    pub sampled: u64,
    pub of_items: u64,
    /// Sizes of the sampled items, ascending.
    pub item_bytes: Vec<u64>,
    pub paths: Vec<SchemaPath>,
    /// There are more paths.
    pub is_cut: bool,
}

/// A container and the size of the sample.
type Key = (ContainerRid, usize);

/// Schemas, with the times when their samples were drawn.
#[derive(Debug, Default)]
pub(crate) struct SchemaCache(Mutex<HashMap<Key, (Duration, Arc<Schema>)>>);

impl Items {
    /// From at most so many items; a schema drawn within the last minute may be returned again.
    pub async fn schema(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        count: usize,
    ) -> Result<Arc<Schema>> {
        if !(1..=SAMPLE_ITEMS_MAX).contains(&count) {
            return Err(Error::bad_request(format!("a sample has 1 to {SAMPLE_ITEMS_MAX} items")));
        }
        let key = (container.entry.record.container.rid, count);
        let now = self.router().clock().elapsed();
        if let Some(known) = self.0.schemas.get(&key, now) {
            return Ok(known);
        }
        let sample = self.sample(ctx, container, count).await?;
        let schema = Arc::new(shardlake_partition::offload(move || schema_of(&sample)).await?);
        self.0.schemas.keep(key, now, schema.clone());
        Ok(schema)
    }
}

impl SchemaCache {
    fn get(&self, key: &Key, now: Duration) -> Option<Arc<Schema>> {
        let kept = self.0.lock().expect("nothing panics under this lock");
        let (drawn, schema) = kept.get(key)?;
        (now.saturating_sub(*drawn) < KEPT_FOR).then(|| schema.clone())
    }

    fn keep(&self, key: Key, now: Duration, schema: Arc<Schema>) {
        let mut kept = self.0.lock().expect("nothing panics under this lock");
        kept.retain(|_, (drawn, _)| now.saturating_sub(*drawn) < KEPT_FOR);
        if kept.len() < KEPT_MAX {
            kept.insert(key, (now, schema));
        }
    }
}

fn schema_of(sample: &Sample) -> Schema {
    let mut sketch = SchemaSketch::default();
    for item in &sample.items {
        // With its system properties, as a query sees it.
        let text = item.json_text();
        let limits = ParseLimits { size_max_bytes: text.len(), ..ParseLimits::default() };
        if let Ok(value) = Value::from_json(&text, &limits) {
            sketch.add(&value);
        }
    }
    let mut item_bytes: Vec<u64> = sample.items.iter().map(size).collect();
    item_bytes.sort_unstable();
    let (paths, is_cut) = sketch.paths();
    Schema {
        sampled: sample.items.len() as u64,
        of_items: sample.of_items.max(sample.items.len() as u64),
        item_bytes,
        paths,
        is_cut,
    }
}

fn size(item: &StoredItem) -> u64 {
    item.json_size_bytes() as u64
}
