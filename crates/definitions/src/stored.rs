//! Definitions that the shards of a stopped server store, for reports about them.

use std::collections::BTreeMap;

use shardlake_model::{Container, Result};
use shardlake_router::{Shards, catalog_error};

/// The containers of each database, both in the order of their names.
pub async fn stored_definitions(shards: &Shards) -> Result<BTreeMap<String, Vec<Container>>> {
    let stored = shardlake_catalog::load(shards.first()).await.map_err(catalog_error)?;
    let mut databases: BTreeMap<String, Vec<Container>> =
        stored.databases.values().map(|database| (database.id.clone(), Vec::new())).collect();
    for record in stored.containers.values() {
        let database = stored.databases.get(&record.container.rid.database);
        if let Some(containers) = database.and_then(|database| databases.get_mut(&database.id)) {
            containers.push(record.container.clone());
        }
    }
    for containers in databases.values_mut() {
        containers.sort_by(|left, right| left.definition.id.cmp(&right.definition.id));
    }
    Ok(databases)
}
