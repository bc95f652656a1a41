//! The catalog as operations find it: the definitions in force, and the state that runs for them.
//!
//! Running state (partitions, budgets, background work) is derived from the definitions alone: from all of
//! them when the account is opened, from the difference at each change. So there is no second copy to keep in
//! step. A live catalog never changes; the next one shares all unchanged parts with it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::{FutureExt, OptionFuture};
use futures::stream::{self, StreamExt, TryStreamExt};
use rustc_hash::FxHashMap;
use shardlake_catalog::{Change, Changed, ContainerRecord, Definitions, RangeRecord};
use shardlake_host::{Hosted, HostedContainer, Opening};
use shardlake_model::{
    ContainerRid, Database, DatabaseRid, Error, ErrorKind, Offer, OfferRid, Permission, PermissionRid,
    Result, Rid, User, UserRid,
};
use shardlake_partition::{ContainerSchema, PartitionIdentity};
use shardlake_routing::{KeyRange, PartitionMap};

use crate::Serving;
use crate::container_handle::ContainerEntry;
use crate::generations::layouts_of;
use crate::handle::PartitionHandle;
use crate::index_rows::watch_of;

#[derive(Debug, Clone, Default)]
pub struct LiveCatalog {
    pub definitions: Arc<Definitions>,
    /// By name.
    pub databases: FxHashMap<String, DatabaseEntry>,
    database_names: FxHashMap<DatabaseRid, String>,
    /// By the rid of the resource that the offer is for.
    offers: FxHashMap<String, Arc<Offer>>,
}

#[derive(Debug, Clone)]
pub struct DatabaseEntry {
    pub database: Arc<Database>,
    /// By name.
    pub containers: FxHashMap<String, Arc<ContainerEntry>>,
    containers_by_rid: FxHashMap<ContainerRid, Arc<ContainerEntry>>,
    user_names: Arc<BTreeMap<String, UserRid>>,
}

impl LiveCatalog {
    /// Finds by name, then by rid.
    pub fn database(&self, segment: &str) -> Option<&DatabaseEntry> {
        let by_rid = || self.database_names.get(&DatabaseRid::parse(segment)?);
        self.databases.get(segment).or_else(|| self.databases.get(by_rid()?))
    }

    pub fn container_of_rid(&self, rid: ContainerRid) -> Option<&Arc<ContainerEntry>> {
        let owner = self.databases.get(self.database_names.get(&rid.database)?)?;
        owner.containers_by_rid.get(&rid)
    }

    /// Containers of all databases, in no order.
    pub fn containers(&self) -> impl Iterator<Item = &Arc<ContainerEntry>> {
        self.databases.values().flat_map(|owner| owner.containers.values())
    }

    pub fn offer_of(&self, resource_rid: &str) -> Option<&Arc<Offer>> {
        self.offers.get(resource_rid)
    }

    /// Databases in a stable order: by creation time, then name.
    pub fn databases_in_order(&self) -> Vec<&DatabaseEntry> {
        let mut entries: Vec<_> = self.databases.values().collect();
        entries.sort_by(|a, b| {
            (a.database.timestamp, &a.database.id).cmp(&(b.database.timestamp, &b.database.id))
        });
        entries
    }

    /// Finds by name, then by rid.
    pub fn user(&self, owner: &DatabaseEntry, segment: &str) -> Option<&Arc<User>> {
        let by_rid = || match Rid::parse(segment)? {
            Rid::User(rid) if rid.database == owner.database.rid => Some(rid),
            _ => None,
        };
        let rid = owner.user_names.get(segment).copied().or_else(by_rid)?;
        self.definitions.users.get(&rid)
    }

    pub fn permission(&self, rid: PermissionRid) -> Option<&Arc<Permission>> {
        self.definitions.permissions.get(&rid)
    }

    fn follow_databases(&mut self, changes: &[Changed<DatabaseRid, Database>]) {
        for changed in changes {
            let Some(database) = &changed.new else {
                if let Some(name) = self.database_names.remove(&changed.key) {
                    self.databases.remove(&name);
                }
                continue;
            };
            self.database_names.insert(changed.key, database.id.clone());
            if let Some(known) =
                self.databases.get_mut(&database.id).filter(|known| known.database.rid == changed.key)
            {
                known.database = database.clone();
                continue;
            }
            let entry = DatabaseEntry {
                database: database.clone(),
                containers: FxHashMap::default(),
                containers_by_rid: FxHashMap::default(),
                user_names: Arc::default(),
            };
            self.databases.insert(database.id.clone(), entry);
        }
    }

    /// `None` for a deleted container, whose database may be deleted, too.
    fn set_container(&mut self, rid: ContainerRid, entry: Option<ContainerEntry>) -> Result<()> {
        let owner = self.database_names.get(&rid.database).and_then(|name| self.databases.get_mut(name));
        match (entry, owner) {
            (Some(entry), Some(owner)) => {
                let entry = Arc::new(entry);
                owner.forget_name_of(rid);
                owner.containers.insert(entry.record.container.definition.id.clone(), entry.clone());
                owner.containers_by_rid.insert(rid, entry);
            }
            (Some(_), None) => {
                return Err(Error::new(ErrorKind::Corrupt, format!("container {rid} has no database")));
            }
            (None, Some(owner)) => {
                owner.forget_name_of(rid);
                owner.containers_by_rid.remove(&rid);
            }
            (None, None) => {}
        }
        Ok(())
    }

    fn follow_users(&mut self, changes: &[Changed<UserRid, User>]) {
        for changed in changes {
            let name = self.database_names.get(&changed.key.database);
            let Some(owner) = name.and_then(|name| self.databases.get_mut(name)) else { continue };
            let names = Arc::make_mut(&mut owner.user_names);
            if let Some(old) = &changed.old
                && names.get(&old.id) == Some(&changed.key)
            {
                names.remove(&old.id);
            }
            if let Some(new) = &changed.new {
                names.insert(new.id.clone(), changed.key);
            }
        }
    }

    fn follow_offers(&mut self, changes: &[Changed<OfferRid, Offer>]) {
        // A resource may get another offer in the change that removes its old one.
        for old in changes.iter().filter_map(|changed| changed.old.as_ref()) {
            self.offers.remove(&old.resource_rid);
        }
        for new in changes.iter().filter_map(|changed| changed.new.as_ref()) {
            self.offers.insert(new.resource_rid.clone(), new.clone());
        }
    }
}

impl DatabaseEntry {
    /// Forgets the name of a container that is renamed or deleted. Another container may have the name already.
    fn forget_name_of(&mut self, rid: ContainerRid) {
        let Some(old) = self.containers_by_rid.get(&rid) else { return };
        let name = &old.record.container.definition.id;
        if self.containers.get(name).is_some_and(|named| named.record.container.rid == rid) {
            self.containers.remove(name);
        }
    }

    /// Finds by name, then by rid; returns whether the rid matched.
    pub fn container(&self, segment: &str) -> Option<(&Arc<ContainerEntry>, bool)> {
        if let Some(entry) = self.containers.get(segment) {
            return Some((entry, false));
        }
        self.containers_by_rid.get(&ContainerRid::parse(segment)?).map(|entry| (entry, true))
    }

    pub fn containers_in_order(&self) -> Vec<&Arc<ContainerEntry>> {
        let mut entries: Vec<_> = self.containers.values().collect();
        entries.sort_by_key(|entry| {
            let container = &entry.record.container;
            (container.timestamp, container.definition.id.clone())
        });
        entries
    }

    pub fn has_user(&self, id: &str) -> bool {
        self.user_names.contains_key(id)
    }

    pub fn user_of_name(&self, id: &str) -> Option<UserRid> {
        self.user_names.get(id).copied()
    }
}

/// Containers, and partitions of each, that are opened at once.
const CONTAINERS_AT_ONCE: usize = 8;
const PARTITIONS_AT_ONCE: usize = 64;

impl Serving {
    /// The live catalog after a change. Opens the partitions that the change adds; changes nothing that is in force.
    pub async fn derived(&self, live: &LiveCatalog, change: &Change) -> Result<LiveCatalog> {
        let mut next = LiveCatalog { definitions: change.after.clone(), ..live.clone() };
        next.follow_databases(&change.databases);
        let mut entries = Vec::with_capacity(change.containers.len());
        for changed in &change.containers {
            let old = live.container_of_rid(changed.key).map(|entry| &**entry);
            let entry =
                changed.new.clone().map(|record| self.entry_under(&change.after, old, record).boxed());
            entries.push(OptionFuture::from(entry).map(Option::transpose).boxed());
        }
        // A store that answers later is asked for many partitions at once.
        let mut entries = stream::iter(entries).buffered(CONTAINERS_AT_ONCE);
        for changed in &change.containers {
            let entry = entries.next().await.expect("there is one for each container")?;
            next.set_container(changed.key, entry)?;
        }
        let redefined: BTreeSet<ContainerRid> = change.scripts.iter().map(|changed| changed.key.0).collect();
        for rid in redefined {
            if let Some(entry) = next.container_of_rid(rid) {
                let entry = entry.with_scripts(change.after.scripts_of(rid));
                next.set_container(rid, Some(entry))?;
            }
        }
        next.follow_users(&change.users);
        next.follow_offers(&change.offers);
        assert_eq!(next.databases.len(), next.database_names.len(), "each database has one name");
        assert!(
            next.databases.values().all(|owner| owner.containers.len() == owner.containers_by_rid.len()),
            "each container is found by its name and by its rid"
        );
        Ok(next)
    }

    /// A container's entry under a record: running state is kept, and new partitions are opened.
    async fn entry_under(
        &self,
        definitions: &Definitions,
        old: Option<&ContainerEntry>,
        record: Arc<ContainerRecord>,
    ) -> Result<ContainerEntry> {
        let rid = record.container.rid;
        let database = definitions.databases.get(&rid.database);
        let database = database
            .ok_or_else(|| Error::new(ErrorKind::Corrupt, format!("container {rid} has no database")))?;
        let schema = match old {
            Some(old) if old.record.container == record.container && old.record.index == record.index => {
                old.shape.clone()
            }
            _ => {
                let (limits, charges) = (self.0.limits.clone(), self.0.charges.clone());
                let layouts = layouts_of(&record.index)?;
                let schema = ContainerSchema::new(&record.container, layouts, limits, charges)?;
                let watch = watch_of(definitions, rid, &schema);
                Arc::new(schema.watched_by(watch))
            }
        };
        let owner = match old {
            Some(old) if Arc::ptr_eq(&old.shape, &schema) => old.owner.clone(),
            _ => Arc::new(HostedContainer {
                schema,
                budget: old.map(|old| old.budget.clone()).unwrap_or_default(),
                environment: self.0.environment.clone(),
            }),
        };
        let map = match old {
            Some(old) if old.record.ranges == record.ranges && Arc::ptr_eq(&old.owner, &owner) => {
                old.map.clone()
            }
            _ => self.map_of(old, &record, &owner).await?,
        };
        let index = definitions.secondary_indexes.get(&rid);
        let source = index.map(|index| Arc::from(index.source_id.as_str()));
        Ok(ContainerEntry::new(database.clone(), record, owner, map, source, old))
    }

    async fn map_of(
        &self,
        old: Option<&ContainerEntry>,
        record: &ContainerRecord,
        owner: &Arc<HostedContainer>,
    ) -> Result<PartitionMap<PartitionHandle>> {
        let mut opening = Vec::with_capacity(record.ranges.len());
        for range in &record.ranges {
            let known = old.and_then(|old| old.map.iter().find(|known| known.uid() == range.placed().uid));
            opening.push(self.part_of(range, record.session_version, known, owner).boxed());
        }
        let partitions = stream::iter(opening).buffered(PARTITIONS_AT_ONCE).try_collect().await?;
        PartitionMap::new(record.generation, partitions).map_err(|error| {
            Error::new(ErrorKind::Corrupt, format!("stored ranges do not fit together: {error}"))
        })
    }

    /// A partition that runs already, or is opened.
    async fn part_of(
        &self,
        range: &RangeRecord,
        session_version: i64,
        known: Option<&PartitionHandle>,
        owner: &Arc<HostedContainer>,
    ) -> Result<(KeyRange, PartitionHandle)> {
        let bounds = bounds_of(range)?;
        if let Some(known) = known {
            debug_assert_eq!(*known.epk_range(), bounds, "a partition keeps its bounds");
            return Ok((bounds, PartitionHandle::new(known.hosted().under(owner), self.0.reach)));
        }
        let shard = self.0.shards.get(range.shard)?.clone();
        let identity = identity_of(range, session_version)?;
        let opening = Opening { shard, times: self.0.times.clone(), identity };
        Ok((bounds, PartitionHandle::new(Hosted::open(opening, owner.clone()).await?, self.0.reach)))
    }
}

pub fn bounds_of(range: &RangeRecord) -> Result<KeyRange> {
    range
        .bounds()
        .map_err(|error| Error::new(ErrorKind::Corrupt, format!("a stored range is malformed: {error}")))
}

pub fn identity_of(range: &RangeRecord, session_version: i64) -> Result<PartitionIdentity> {
    Ok(PartitionIdentity {
        uid: range.placed().uid,
        range_id: range.range_id,
        epk_range: bounds_of(range)?,
        rid_prefix: range.rid_prefix,
        // A range's prefix is its id.
        inherited_prefixes: range.parents.clone(),
        session_version,
    })
}
