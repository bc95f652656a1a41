//! Databases and containers by the names or rids in a request's path.

use std::sync::Arc;

use shardlake_model::{Database, Result};

use crate::Serving;
use crate::container_handle::{ContainerEntry, ContainerHandle};
use crate::refusals::{not_found, owner_not_found};

impl Serving {
    pub fn databases(&self) -> Vec<Arc<Database>> {
        let catalog = self.catalog().load();
        catalog.databases_in_order().into_iter().map(|entry| entry.database.clone()).collect()
    }

    /// `segment` is a name or a rid.
    pub fn database(&self, segment: &str) -> Result<Arc<Database>> {
        let catalog = self.catalog().load();
        let entry = catalog.database(segment).ok_or_else(|| not_found("database", segment))?;
        Ok(entry.database.clone())
    }

    pub fn containers(&self, database: &str) -> Result<Vec<ContainerHandle>> {
        let catalog = self.catalog().load();
        let owner = catalog.database(database).ok_or_else(|| owner_not_found("database", database))?;
        let handle = |entry: &Arc<ContainerEntry>| ContainerHandle { entry: entry.clone(), by_rid: false };
        Ok(owner.containers_in_order().into_iter().map(handle).collect())
    }

    /// Segments are names or rids.
    pub fn container(&self, database: &str, container: &str) -> Result<ContainerHandle> {
        let catalog = self.catalog().load();
        let owner = catalog.database(database).ok_or_else(|| owner_not_found("database", database))?;
        let (entry, by_rid) = owner.container(container).ok_or_else(|| not_found("container", container))?;
        Ok(ContainerHandle { entry: entry.clone(), by_rid })
    }

    /// As [`Serving::container`], for operations on items: their error for a missing container is a missing owner.
    pub fn container_for_items(&self, database: &str, container: &str) -> Result<ContainerHandle> {
        let catalog = self.catalog().load();
        let owner = catalog.database(database).ok_or_else(|| owner_not_found("database", database))?;
        let (entry, by_rid) =
            owner.container(container).ok_or_else(|| owner_not_found("container", container))?;
        Ok(ContainerHandle { entry: entry.clone(), by_rid })
    }
}
