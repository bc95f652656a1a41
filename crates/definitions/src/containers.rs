//! Operations on containers.

use std::sync::Arc;

use shardlake_catalog::{ContainerRecord, Definitions, RangeRecord};
use shardlake_model::{
    Container, ContainerDefinition, ContainerRid, DatabaseRid, Error, ErrorKind, Preconditions,
    RequestContext, Result, SecondaryIndexDefinition, Throughput,
};
use shardlake_partition::{retention_of, validate_computed_properties};
use shardlake_routing::{initial_ranges, place_together};
use shardlake_stdx::Timestamp;

use crate::Resources;
use crate::index_settings::{self, IndexSettingsChange};
use crate::kept::Keeping;
use crate::secondary_indexes::{
    SecondaryIndexView, check_has_no_indexes, check_replace, check_throughput, new_index_record, touch_source,
};
use shardlake_router::LiveCatalog;
use shardlake_router::{CapacityMode, ContainerHandle};
use shardlake_router::{check_preconditions, conflict, not_found, owner_not_found};
use shardlake_router::{index_moved_to, index_of_new};

/// The reference's sub-status for one container too many in a database with shared throughput.
const SHARED_THROUGHPUT_COUNT_EXCEEDED: u32 = 1019;

impl Resources {
    /// Changes settings of a global secondary index. They hold from the next read, and from the next round of its task.
    pub async fn set_index(
        &self,
        database: &str,
        container: &str,
        change: IndexSettingsChange,
    ) -> Result<()> {
        index_settings::set_index(self, database, container, change).await
    }

    /// `definition` is as the client wrote it. Without a throughput the container shares the database's, or gets 400 RU/s.
    pub async fn create_container(
        &self,
        ctx: &RequestContext,
        database: &str,
        definition: ContainerDefinition,
        throughput: Option<Throughput>,
    ) -> Result<ContainerHandle> {
        self.create_any(ctx, database, definition, throughput, (None, None)).await
    }

    /// As `create_container`, with a front end's data for the container, and the narrowings of its unique keys.
    pub async fn create_container_keeping(
        &self,
        ctx: &RequestContext,
        database: &str,
        definition: ContainerDefinition,
        throughput: Option<Throughput>,
        keeping: Option<Keeping>,
    ) -> Result<ContainerHandle> {
        self.create_any(ctx, database, definition, throughput, (keeping, None)).await
    }

    /// Creates a container whose items are the rows of a query over another container of the database.
    pub async fn create_secondary_index(
        &self,
        ctx: &RequestContext,
        database: &str,
        definition: ContainerDefinition,
        index: SecondaryIndexDefinition,
        throughput: Option<Throughput>,
    ) -> Result<ContainerHandle> {
        check_throughput(self.0.dialect, throughput)?;
        self.create_any(ctx, database, definition, throughput, (None, Some(index))).await
    }

    /// The indexes of a container, and the index that it is.
    pub fn secondary_indexes(&self, container: &ContainerHandle) -> SecondaryIndexView {
        SecondaryIndexView::of(&self.router().live_catalog(), &container.entry)
    }

    /// Creates a container, with the data of a front end or as an index of another container.
    pub(crate) async fn create_any(
        &self,
        ctx: &RequestContext,
        database: &str,
        definition: ContainerDefinition,
        throughput: Option<Throughput>,
        (keeping, index): (Option<Keeping>, Option<SecondaryIndexDefinition>),
    ) -> Result<ContainerHandle> {
        let limits = self.router().limits();
        let definition = definition.normalise(limits)?;
        validate_computed_properties(&definition)?;
        self.check_analytical(None, &definition)?;
        if let Some(throughput) = throughput {
            self.router().check_has_throughput()?;
            throughput.validate(limits, throughput.minimum_for_new(limits))?;
        }
        let (resources, database, now) = (self.clone(), database.to_owned(), ctx.now);
        let plan = move |live: &LiveCatalog, draft: &mut Definitions| {
            let owner = live.database(&database).ok_or_else(|| owner_not_found("database", &database))?;
            if owner.containers.contains_key(&definition.id) {
                return Err(conflict("container", &definition.id));
            }
            resources.router().check_room(draft)?;
            let dialect = resources.0.dialect;
            let new_index = |index| new_index_record(dialect, draft, owner, (&definition, &index), now);
            let index = index.map(new_index).transpose()?;
            let shared = draft.offer_of(&owner.database.rid.to_string()).is_some();
            if shared && throughput.is_none() {
                resources.check_room_in_shared(draft, owner.database.rid)?;
            }
            let enforced = throughput.is_some();
            let needs_own = !shared && resources.router().capacity_mode() == CapacityMode::Provisioned;
            let least = Throughput::Manual(resources.router().limits().throughput_min);
            let asked = throughput;
            let throughput = asked.or_else(|| needs_own.then_some(least));
            let rid = resources.new_container_rid(owner.database.rid, draft);
            let etag = resources.router().random().guid().0;
            let is_collection = keeping.is_some();
            let bounds = keeping.as_ref().and_then(|keeping| keeping.bounds);
            let (kept, narrowings) = keeping.map(|keeping| (keeping.kept, keeping.narrowings)).unzip();
            let container = Container {
                rid,
                etag,
                timestamp: now.seconds(),
                definition,
                kept,
                is_collection,
                narrowings: narrowings.unwrap_or_default(),
                bounds,
            };
            // Throughput that no client has set is not enforced, so no partitions are needed for it.
            let record = resources.new_record(live, draft, container, asked, now);
            resources.follow_policy(draft, &record.container, now)?;
            draft.containers.put(rid, record);
            if let Some(index) = index {
                touch_source(draft, index.source, resources.router().random());
                draft.secondary_indexes.put(rid, index);
            }
            if let Some(throughput) = throughput {
                let resource = (format!("dbs/{}/colls/{rid}/", rid.database), rid.to_string());
                resources.add_offer(draft, resource, (throughput, enforced), now);
            }
            Ok(rid)
        };
        let (rid, live) = self.router().change(plan).await?;
        handle_of(&live, rid)
    }

    /// Refuses one more container in a database with the maximum number of containers on its shared throughput.
    fn check_room_in_shared(&self, draft: &Definitions, database: DatabaseRid) -> Result<()> {
        let max = self.router().limits().shared_throughput_containers_max;
        let shares =
            |record: &&Arc<ContainerRecord>| draft.offer_of(&record.container.rid.to_string()).is_none();
        if draft.containers_of(database).filter(shares).count() < max {
            return Ok(());
        }
        let message = format!(
            "Collection create forbidden as collection count in database offer has exceeded {max}. Create the container with throughput of its own."
        );
        Err(Error::new(ErrorKind::Forbidden, message).with_substatus(SHARED_THROUGHPUT_COUNT_EXCEEDED))
    }

    /// Cuts the key space into the physical partitions that the requested throughput needs.
    fn new_record(
        &self,
        live: &LiveCatalog,
        draft: &mut Definitions,
        container: Container,
        throughput: Option<Throughput>,
        now: Timestamp,
    ) -> ContainerRecord {
        let count = throughput.map_or(1, |throughput| throughput.partition_count(self.router().limits()));
        let ranges = initial_ranges(&container.definition.partition_key, count);
        let shards = place_together(&self.router().shard_loads(live), count);
        let ranges = ranges.into_iter().zip(shards).enumerate().map(|(index, (range, shard))| {
            let (min, max) = range.to_hex();
            let (range_id, rid_prefix) = (index as u32, index as u32);
            RangeRecord {
                uid: draft.new_partition(),
                range_id,
                min,
                max,
                rid_prefix,
                parents: vec![],
                shard: shard as u16,
                throughput: None,
            }
        });
        ContainerRecord {
            ranges: ranges.collect(),
            generation: 1,
            session_version: now.milliseconds() as i64,
            index: index_of_new(&container, self.router().limits()),
            relocation: None,
            former: Vec::new(),
            container,
        }
    }

    /// Random for the same reason as a database's rid.
    fn new_container_rid(&self, database: DatabaseRid, draft: &Definitions) -> ContainerRid {
        loop {
            let rid = ContainerRid { database, number: self.router().random().below(1 << 31) as u32 };
            if !draft.containers.contains(&rid) {
                return rid;
            }
        }
    }

    pub async fn replace_container(
        &self,
        ctx: &RequestContext,
        database: &str,
        container: &str,
        definition: ContainerDefinition,
        preconditions: &Preconditions,
    ) -> Result<ContainerHandle> {
        self.replace_with_index(ctx, (database, container), definition, None, preconditions).await
    }

    /// As `replace_container`, with the index member of the request, which may only repeat the stored one.
    pub async fn replace_with_index(
        &self,
        ctx: &RequestContext,
        (database, container): (&str, &str),
        definition: ContainerDefinition,
        index: Option<SecondaryIndexDefinition>,
        preconditions: &Preconditions,
    ) -> Result<ContainerHandle> {
        let definition = definition.normalise(self.router().limits())?;
        validate_computed_properties(&definition)?;
        let old = self.router().container(database, container)?.entry;
        // Before anything is held up for it.
        let replacement = replacement_of(&old.record.container, &definition, preconditions)?;
        self.check_analytical(Some(&old.record.container.definition), &replacement)?;
        let (rid, id) = (old.record.container.rid, container.to_owned());
        let retention = retention_of(&replacement, self.router().limits());
        let (etag, now, preconditions) = (self.router().random().guid().0, ctx.now, preconditions.clone());
        let limits = self.router().limits().clone();
        let resources = self.clone();
        let plan = move |_: &LiveCatalog, draft: &mut Definitions| {
            let old = draft.containers.get(&rid).ok_or_else(|| not_found("container", &id))?.clone();
            let definition = replacement_of(&old.container, &definition, &preconditions)?;
            check_replace(draft, &old.container, &definition, index.as_ref())?;
            let container = Container { etag, timestamp: now.seconds(), definition, ..old.container.clone() };
            let index = index_moved_to(&old.index, &container, &limits)?;
            resources.follow_policy(draft, &container, now)?;
            draft.containers.put(rid, ContainerRecord { index, container, ..ContainerRecord::clone(&old) });
            Ok(())
        };
        let entry = self.router().redefine(rid, retention, plan).await?;
        Ok(ContainerHandle { entry, by_rid: false })
    }

    pub async fn delete_container(
        &self,
        _ctx: &RequestContext,
        database: &str,
        container: &str,
        preconditions: &Preconditions,
    ) -> Result<()> {
        let (database, container) = (database.to_owned(), container.to_owned());
        let (preconditions, random) = (preconditions.clone(), self.router().random().clone());
        let plan = move |live: &LiveCatalog, draft: &mut Definitions| {
            let owner = live.database(&database).ok_or_else(|| owner_not_found("database", &database))?;
            let (entry, _) = owner.container(&container).ok_or_else(|| not_found("container", &container))?;
            check_preconditions(entry.record.container.etag, &preconditions)?;
            let rid = entry.record.container.rid;
            check_has_no_indexes(draft, &entry.record.container)?;
            let source = draft.secondary_indexes.get(&rid).map(|index| index.source);
            draft.remove_container(rid);
            if let Some(source) = source {
                touch_source(draft, source, &random);
            }
            Ok(())
        };
        self.router().change(plan).await?;
        Ok(())
    }
}

/// The definition that replaces `old`'s, if it may.
fn replacement_of(
    old: &Container,
    definition: &ContainerDefinition,
    preconditions: &Preconditions,
) -> Result<ContainerDefinition> {
    check_preconditions(old.etag, preconditions)?;
    let mut definition = definition.clone();
    if definition.change_feed_policy.is_none() {
        // Clients that do not know the policy would delete history that others rely on.
        definition.change_feed_policy = old.definition.change_feed_policy.clone();
    }
    if definition.previous_image_retention_policy.is_none() {
        let kept = old.definition.previous_image_retention_policy.clone();
        definition.previous_image_retention_policy = kept;
    }
    if definition.analytical_storage_ttl.is_none() {
        // Clients that do not know the member would end the analytical store.
        definition.analytical_storage_ttl = old.definition.analytical_storage_ttl;
    }
    old.definition.validate_replace(&definition)?;
    Ok(definition)
}

fn handle_of(live: &LiveCatalog, rid: ContainerRid) -> Result<ContainerHandle> {
    let entry = live.container_of_rid(rid).cloned();
    let entry = entry.ok_or_else(|| Error::internal("the catalog lost a container that it just made"))?;
    Ok(ContainerHandle { entry, by_rid: false })
}
