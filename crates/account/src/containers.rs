//! Operations on containers.

use std::sync::Arc;

use shardlake_model::{
    Container, ContainerDefinition, ContainerRid, DatabaseRid, Error, Preconditions, RequestContext, Result,
    Throughput,
};
use shardlake_partition::{End, validate_computed_properties};
use shardlake_routing::{initial_ranges, place_together};

use crate::catalog::{Catalog, CatalogBatch, ContainerRecord, RangeRecord};
use crate::container_handle::ContainerEntry;
use crate::databases::{check_preconditions, conflict, not_found, owner_not_found};
use crate::index_build::IndexRecord;
use crate::{Account, CapacityMode, ContainerHandle};

impl Account {
    /// `definition` is as the client wrote it. Without a throughput the container shares the database's, or gets 400 RU/s.
    pub async fn create_container(
        &self,
        ctx: &RequestContext,
        database: &str,
        definition: ContainerDefinition,
        throughput: Option<Throughput>,
    ) -> Result<ContainerHandle> {
        let limits = self.limits();
        let definition = definition.normalise(limits)?;
        validate_computed_properties(&definition)?;
        if let Some(throughput) = throughput {
            self.check_has_throughput()?;
            throughput.validate(limits, throughput.minimum_for_new(limits))?;
        }
        let _writer = self.0.catalog_writer.lock().await;
        let mut catalog = Catalog::clone(&self.0.catalog.load());
        let owner = catalog.database(database).ok_or_else(|| owner_not_found("database", database))?.clone();
        if owner.containers.contains_key(&definition.id) {
            return Err(conflict("container", &definition.id));
        }
        self.check_room(&catalog)?;
        let shared = catalog.offer_of(&owner.database.rid.to_string()).is_some();
        let enforced = throughput.is_some();
        let needs_own = !shared && self.capacity_mode() == CapacityMode::Provisioned;
        let throughput =
            throughput.or_else(|| needs_own.then_some(Throughput::Manual(limits.throughput_min)));
        let rid = self.new_container_rid(owner.database.rid, &catalog);
        let container =
            Container { rid, etag: self.random().guid().0, timestamp: ctx.now.seconds(), definition };
        let record = self.new_record(&mut catalog, container, throughput, ctx);
        let mut batch = CatalogBatch::new();
        batch.put_container(&record);
        if let Some(throughput) = throughput {
            let (resource, rid) = (format!("dbs/{}/colls/{rid}/", rid.database), rid.to_string());
            self.add_offer(&mut catalog, &mut batch, (resource, rid), (throughput, enforced), ctx);
        }
        batch.put_numbers(catalog.numbers);
        let entry = Arc::new(self.open_container(owner.database.clone(), record).await?);
        insert(&mut catalog, entry.clone());
        self.publish(catalog, batch).await?;
        Ok(ContainerHandle { entry, by_rid: false })
    }

    /// Cuts the key space into the physical partitions that the throughput asks for.
    fn new_record(
        &self,
        catalog: &mut Catalog,
        container: Container,
        throughput: Option<Throughput>,
        ctx: &RequestContext,
    ) -> ContainerRecord {
        let count = throughput.map_or(1, |throughput| throughput.partition_count(self.limits()));
        let ranges = initial_ranges(&container.definition.partition_key, count);
        let shards = place_together(&self.shard_loads(catalog), count);
        let ranges = ranges.into_iter().zip(shards).enumerate().map(|(index, (range, shard))| {
            let uid = catalog.numbers.partition;
            catalog.numbers.partition =
                uid.checked_add(1).expect("fewer than 2^32 partitions are ever created");
            let (min, max) = range.to_hex();
            let (range_id, rid_prefix) = (index as u32, index as u32);
            RangeRecord {
                uid,
                range_id,
                min,
                max,
                rid_prefix,
                parents: vec![],
                shard: shard as u16,
                throughput: None,
            }
        });
        let session_version = ctx.now.milliseconds() as i64;
        let index = IndexRecord::of_new(&container);
        ContainerRecord {
            ranges: ranges.collect(),
            container,
            generation: 1,
            session_version,
            index,
            relocation: None,
        }
    }

    /// Random for the same reason as a database's.
    fn new_container_rid(&self, database: DatabaseRid, catalog: &Catalog) -> ContainerRid {
        loop {
            let rid = ContainerRid { database, number: self.random().below(1 << 31) as u32 };
            let mut taken = catalog.databases.values().flat_map(|entry| entry.containers.values());
            if taken.all(|entry| entry.container.rid != rid) {
                return rid;
            }
        }
    }

    pub fn containers(&self, database: &str) -> Result<Vec<ContainerHandle>> {
        let catalog = self.0.catalog.load();
        let owner = catalog.database(database).ok_or_else(|| owner_not_found("database", database))?;
        let handle = |entry: &Arc<ContainerEntry>| ContainerHandle { entry: entry.clone(), by_rid: false };
        Ok(owner.containers_in_order().into_iter().map(handle).collect())
    }

    /// Segments are names or rids.
    pub fn container(&self, database: &str, container: &str) -> Result<ContainerHandle> {
        let catalog = self.0.catalog.load();
        let owner = catalog.database(database).ok_or_else(|| owner_not_found("database", database))?;
        let (entry, by_rid) = owner.container(container).ok_or_else(|| not_found("container", container))?;
        Ok(ContainerHandle { entry: entry.clone(), by_rid })
    }

    /// Like [`Account::container`] for operations on items, whose missing container is a missing owner.
    pub fn container_for_items(&self, database: &str, container: &str) -> Result<ContainerHandle> {
        let catalog = self.0.catalog.load();
        let owner = catalog.database(database).ok_or_else(|| owner_not_found("database", database))?;
        let (entry, by_rid) =
            owner.container(container).ok_or_else(|| owner_not_found("container", container))?;
        Ok(ContainerHandle { entry: entry.clone(), by_rid })
    }

    pub async fn replace_container(
        &self,
        ctx: &RequestContext,
        database: &str,
        container: &str,
        definition: ContainerDefinition,
        preconditions: &Preconditions,
    ) -> Result<ContainerHandle> {
        let mut definition = definition.normalise(self.limits())?;
        validate_computed_properties(&definition)?;
        let _writer = self.0.catalog_writer.lock().await;
        let mut catalog = Catalog::clone(&self.0.catalog.load());
        let old = self.container(database, container)?.entry;
        check_preconditions(old.container.etag, preconditions)?;
        if definition.change_feed_policy.is_none() {
            // Clients that know nothing of it would end the history that somebody relies on.
            definition.change_feed_policy = old.container.definition.change_feed_policy.clone();
        }
        old.container.definition.validate_replace(&definition)?;
        let new = Container {
            rid: old.container.rid,
            etag: self.random().guid().0,
            timestamp: ctx.now.seconds(),
            definition,
        };
        let index = old.index.moved_to(&new)?;
        let reindexes = index != old.index;
        let record = ContainerRecord { index, ..old.record(new) };
        let mut batch = CatalogBatch::new();
        batch.put_container(&record);
        let entry = Arc::new(self.entry_of(&old, record)?);
        insert(&mut catalog, entry.clone());
        // Nothing is removed any more that the new definition keeps.
        for partition in entry.map.iter() {
            partition.follow_ttl(entry.shape.default_ttl).await;
            partition.keep_versions(entry.shape.retention).await;
        }
        if let Err(error) = self.publish(catalog, batch).await {
            for partition in old.map.iter() {
                partition.follow_ttl(old.shape.default_ttl).await;
                partition.keep_versions(old.shape.retention).await;
            }
            return Err(error);
        }
        if reindexes {
            for partition in entry.map.iter() {
                partition.maintain_indexes(entry.shape.maintained()).await?;
            }
            self.tend_index_in_background(entry.clone());
        }
        Ok(ContainerHandle { entry, by_rid: false })
    }

    pub async fn delete_container(
        &self,
        _ctx: &RequestContext,
        database: &str,
        container: &str,
        preconditions: &Preconditions,
    ) -> Result<()> {
        let _writer = self.0.catalog_writer.lock().await;
        let mut catalog = Catalog::clone(&self.0.catalog.load());
        let entry = self.container(database, container)?.entry;
        check_preconditions(entry.container.etag, preconditions)?;
        let mut batch = CatalogBatch::new();
        batch.delete_container(&entry);
        self.remove_offer(&mut catalog, &mut batch, &entry.container.rid.to_string());
        let owner = catalog.databases.get_mut(&entry.database.id);
        let owner =
            owner.ok_or_else(|| Error::internal("the catalog lost a database that it just showed"))?;
        owner.containers.remove(&entry.container.definition.id);
        entry.motion.state().progress.abort();
        for partition in entry.map.iter() {
            partition.close(End::Deleted).await;
        }
        self.publish(catalog, batch).await?;
        self.drop_container_in_background(&entry);
        Ok(())
    }
}

pub(crate) fn insert(catalog: &mut Catalog, entry: Arc<ContainerEntry>) {
    let owner =
        catalog.databases.get_mut(&entry.database.id).expect("the container's database is in the catalog");
    owner.containers.insert(entry.container.definition.id.clone(), entry);
}
