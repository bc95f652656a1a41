//! Operations on databases.

use std::sync::Arc;

use shardlake_model::{
    Database, DatabaseRid, Error, ErrorKind, Preconditions, RequestContext, Result, Throughput,
    validate_resource_id,
};
use shardlake_partition::End;
use shardlake_stdx::Guid;

use crate::Account;
use crate::catalog::{Catalog, CatalogBatch, DatabaseEntry};
use crate::projections::forget_of_database;

impl Account {
    pub async fn create_database(
        &self,
        ctx: &RequestContext,
        id: &str,
        throughput: Option<Throughput>,
    ) -> Result<Arc<Database>> {
        validate_resource_id(id, self.limits())?;
        if let Some(throughput) = throughput {
            self.check_has_throughput()?;
            throughput.validate(self.limits(), throughput.minimum_for_new(self.limits()))?;
        }
        let _writer = self.0.catalog_writer.lock().await;
        let mut catalog = Catalog::clone(&self.0.catalog.load());
        if catalog.databases.contains_key(id) {
            return Err(conflict("database", id));
        }
        self.check_room(&catalog)?;
        let rid = self.new_database_rid(&catalog);
        let etag = self.random().guid().0;
        let database = Arc::new(Database { id: id.to_owned(), rid, etag, timestamp: ctx.now.seconds() });
        let mut batch = CatalogBatch::new();
        batch.put_database(&database);
        if let Some(throughput) = throughput {
            let (resource, rid) = (format!("dbs/{rid}/"), rid.to_string());
            self.add_offer(&mut catalog, &mut batch, (resource, rid), (throughput, true), ctx);
        }
        catalog.databases.insert(id.to_owned(), DatabaseEntry::new(database.clone()));
        self.publish(catalog, batch).await?;
        Ok(database)
    }

    /// Random, so that what clients remember of a dropped database or of another data directory never fits a new one.
    fn new_database_rid(&self, catalog: &Catalog) -> DatabaseRid {
        loop {
            let rid = DatabaseRid(self.random().below(1 << 32) as u32);
            if rid.0 != 0 && catalog.databases.values().all(|entry| entry.database.rid != rid) {
                return rid;
            }
        }
    }

    pub fn databases(&self) -> Vec<Arc<Database>> {
        let catalog = self.0.catalog.load();
        catalog.databases_in_order().into_iter().map(|entry| entry.database.clone()).collect()
    }

    /// `segment` is a name or a rid.
    pub fn database(&self, segment: &str) -> Result<Arc<Database>> {
        let catalog = self.0.catalog.load();
        let entry = catalog.database(segment).ok_or_else(|| not_found("database", segment))?;
        Ok(entry.database.clone())
    }

    pub async fn delete_database(
        &self,
        _ctx: &RequestContext,
        segment: &str,
        preconditions: &Preconditions,
    ) -> Result<()> {
        let _writer = self.0.catalog_writer.lock().await;
        let mut catalog = Catalog::clone(&self.0.catalog.load());
        let entry = catalog.database(segment).ok_or_else(|| not_found("database", segment))?.clone();
        check_preconditions(entry.database.etag, preconditions)?;
        let mut batch = CatalogBatch::new();
        batch.delete_database(entry.database.rid);
        forget_of_database(&mut catalog, &mut batch, entry.database.rid);
        self.remove_offer(&mut catalog, &mut batch, &entry.database.rid.to_string());
        entry.users.iter().for_each(|user| batch.delete_user(user));
        for container in entry.containers.values() {
            batch.delete_container(container);
            self.remove_offer(&mut catalog, &mut batch, &container.container.rid.to_string());
            container.motion.state().progress.abort();
            for partition in container.map.iter() {
                partition.close(End::Deleted).await;
            }
        }
        catalog.databases.remove(&entry.database.id);
        self.publish(catalog, batch).await?;
        entry.containers.values().for_each(|container| self.drop_container_in_background(container));
        Ok(())
    }
}

pub(crate) fn not_found(kind: &str, segment: &str) -> Error {
    Error::new(
        ErrorKind::NotFound,
        format!("Entity with the specified id does not exist in the system. There is no {kind} '{segment}'"),
    )
}

pub(crate) fn owner_not_found(kind: &str, segment: &str) -> Error {
    Error::new(
        ErrorKind::OwnerNotFound,
        format!("Owner resource does not exist. There is no {kind} '{segment}'"),
    )
}

pub(crate) fn conflict(kind: &str, id: &str) -> Error {
    Error::new(
        ErrorKind::Conflict,
        format!("Entity with the specified id already exists in the system. There is a {kind} '{id}'"),
    )
}

pub(crate) fn check_preconditions(etag: [u8; 16], preconditions: &Preconditions) -> Result<()> {
    match &preconditions.if_match {
        Some(condition) if !condition.matches(&Guid(etag)) => Err(Error::new(
            ErrorKind::PreconditionFailed,
            "Operation cannot be performed because one of the specified precondition is not met",
        )),
        _ => Ok(()),
    }
}
