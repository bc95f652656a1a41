//! All definitions of one catalog version. A draft is a copy that is edited; the definitions in
//! force never change under their readers.

use std::sync::Arc;

use shardlake_model::{
    ContainerRid, ContainerScripts, Database, DatabaseRid, Login, Offer, OfferRid, PartitionUid, Permission,
    PermissionRid, Script, User, UserRid,
};

use crate::{
    AnalyticalRecord, Checkpoint, ContainerRecord, DroppedMark, EndedContainer, FunctionRecord, Holder,
    LogHold, Numbers, Placed, ProjectionRecord, RangeRecord, SecondaryIndexRecord, Table,
};

#[derive(Debug, Clone, Default)]
pub struct Definitions {
    pub databases: Table<DatabaseRid, Database>,
    pub containers: Table<ContainerRid, ContainerRecord>,
    /// By container and the script's number.
    pub scripts: Table<(ContainerRid, u64), Script>,
    pub offers: Table<OfferRid, Offer>,
    pub users: Table<UserRid, User>,
    pub permissions: Table<PermissionRid, Permission>,
    /// By number.
    pub logins: Table<u32, Login>,
    /// Partitions with data that is still to be deleted.
    pub dropped: Table<PartitionUid, DroppedMark>,
    /// By number.
    pub projections: Table<u32, ProjectionRecord>,
    pub checkpoints: Table<u32, Checkpoint>,
    /// Analytical stores, by their containers.
    pub analytical: Table<ContainerRid, AnalyticalRecord>,
    /// Global secondary indexes, by the containers that hold their rows.
    pub secondary_indexes: Table<ContainerRid, SecondaryIndexRecord>,
    /// Functions over changes, by number.
    pub functions: Table<u32, FunctionRecord>,
    /// Deleted containers, by the first catalog version without them.
    pub ended: Table<(u64, ContainerRid), EndedContainer>,
    /// By container and follower.
    pub log_holds: Table<(ContainerRid, Holder), LogHold>,
    pub numbers: Numbers,
}

impl Definitions {
    /// A number that no partition ever had.
    pub fn new_partition(&mut self) -> u32 {
        let uid = self.numbers.partition;
        self.numbers.partition = uid.checked_add(1).expect("fewer than 2^32 partitions are ever created");
        uid
    }

    /// An offer's rid that differs from all others by more than letter case: to a client these would be one offer.
    pub fn new_offer(&mut self) -> OfferRid {
        loop {
            let rid = OfferRid(self.numbers.offer);
            // Three bytes; an account holds a few hundred offers at once, so a free number is near.
            self.numbers.offer = (self.numbers.offer + 1) % (1 << 24);
            let text = rid.to_string();
            if self.offers.iter().all(|(taken, _)| !taken.same_text(&text)) {
                return rid;
            }
        }
    }

    pub fn offer_of(&self, resource_rid: &str) -> Option<&Arc<Offer>> {
        self.offers.values().find(|offer| offer.resource_rid == resource_rid)
    }

    pub fn containers_of(&self, database: DatabaseRid) -> impl Iterator<Item = &Arc<ContainerRecord>> {
        let rid = |number| ContainerRid { database, number };
        self.containers.range(rid(0)..=rid(u32::MAX)).map(|(_, record)| record)
    }

    pub fn scripts_of(&self, container: ContainerRid) -> ContainerScripts {
        let scripts = self.scripts.range((container, 0)..=(container, u64::MAX));
        ContainerScripts(
            scripts.map(|(_, script)| ((script.kind, script.id.clone()), script.clone())).collect(),
        )
    }

    pub fn users_of(&self, database: DatabaseRid) -> impl Iterator<Item = &Arc<User>> {
        let rid = |number| UserRid { database, number };
        self.users.range(rid(0)..=rid(u32::MAX)).map(|(_, user)| user)
    }

    pub fn permissions_of(&self, user: UserRid) -> impl Iterator<Item = &Arc<Permission>> {
        let rid = |number| PermissionRid { user, number };
        self.permissions.range(rid(0)..=rid(u64::MAX)).map(|(_, permission)| permission)
    }

    /// With all its permissions.
    pub fn remove_user(&mut self, rid: UserRid) {
        self.users.remove(&rid);
        self.permissions.retain(|permission, _| permission.user != rid);
    }

    /// With its scripts, its offer, its analytical store and the index that it is; its partitions' data is to be
    /// deleted.
    pub fn remove_container(&mut self, rid: ContainerRid) {
        let Some(record) = self.containers.remove(&rid) else { return };
        self.scripts.retain(|(container, _), _| *container != rid);
        self.log_holds.retain(|(container, _), _| *container != rid);
        self.remove_offer_of(&rid.to_string());
        self.analytical.remove(&rid);
        self.remove_secondary_index(rid);
        let ranges: Vec<Placed> = record.all_ranges().map(RangeRecord::placed).collect();
        ranges.into_iter().for_each(|placed| self.drop_data(placed));
    }

    /// With everything in it, and the projections that follow a container of it.
    pub fn remove_database(&mut self, rid: DatabaseRid) {
        self.databases.remove(&rid);
        self.remove_offer_of(&rid.to_string());
        let containers: Vec<ContainerRid> =
            self.containers_of(rid).map(|record| record.container.rid).collect();
        containers.into_iter().for_each(|container| self.remove_container(container));
        let users: Vec<UserRid> = self.users_of(rid).map(|user| user.rid).collect();
        users.into_iter().for_each(|user| self.remove_user(user));
        let projections = self.projections.values().filter(|record| record.source.database == rid);
        let projections: Vec<u32> = projections.map(|record| record.number).collect();
        projections.into_iter().for_each(|number| self.remove_projection(number));
    }

    pub fn remove_projection(&mut self, number: u32) {
        self.projections.remove(&number);
        self.checkpoints.remove(&number);
        self.log_holds.retain(|(_, holder), _| *holder != Holder::Projection(number));
    }

    /// The function of an id.
    pub fn function(&self, id: &str) -> Option<&FunctionRecord> {
        self.functions.values().find(|record| record.definition.id == id).map(|record| &**record)
    }

    /// With its progress and its hold on the source's log.
    pub fn remove_function(&mut self, number: u32) {
        assert!(!self.projections.contains(&number), "a number is given once");
        self.functions.remove(&number);
        self.checkpoints.remove(&number);
        self.log_holds.retain(|(_, holder), _| *holder != Holder::Copy(number));
    }

    /// A number for a projection, an index or a function that none ever had.
    pub fn new_copy_number(&mut self) -> u32 {
        self.numbers.projection =
            self.numbers.projection.checked_add(1).expect("fewer than 2^32 copies are ever created");
        let number = self.numbers.projection;
        let is_new = self.secondary_indexes.values().all(|index| index.number != number);
        assert!(
            is_new && !self.projections.contains(&number) && !self.functions.contains(&number),
            "a number is given once"
        );
        number
    }

    /// The indexes of a source, by their containers.
    pub fn secondary_indexes_of(
        &self,
        source: ContainerRid,
    ) -> impl Iterator<Item = (ContainerRid, &SecondaryIndexRecord)> {
        let all = self.secondary_indexes.iter();
        all.filter(move |(_, record)| record.source == source).map(|(rid, record)| (*rid, &**record))
    }

    /// Indexes between a container and the container that clients write: 0 for the latter.
    pub fn secondary_index_depth(&self, mut container: ContainerRid) -> usize {
        let mut depth = 0;
        while let Some(record) = self.secondary_indexes.get(&container) {
            depth += 1;
            // Sources are older than their indexes. Stored definitions may be damaged all the same.
            if depth > self.secondary_indexes.len() {
                return usize::MAX;
            }
            container = record.source;
        }
        depth
    }

    /// The record of an index, with its progress and its hold on the source's log; its container stays.
    fn remove_secondary_index(&mut self, container: ContainerRid) {
        let Some(record) = self.secondary_indexes.remove(&container) else { return };
        self.checkpoints.remove(&record.number);
        self.log_holds.retain(|(_, holder), _| *holder != Holder::Copy(record.number));
    }

    /// The holds on the log of a container.
    pub fn log_holds_of(&self, container: ContainerRid) -> impl Iterator<Item = &Arc<LogHold>> {
        let bounds = (container, Holder::FIRST)..=(container, Holder::LAST);
        self.log_holds.range(bounds).map(|(_, hold)| hold)
    }

    pub fn put_log_hold(&mut self, hold: LogHold) {
        assert!(hold.bound.entries > 0 && hold.bound.age_ms > 0, "a hold without bounds holds nothing");
        self.log_holds.put((hold.container, hold.holder), hold);
    }

    pub fn remove_offer_of(&mut self, resource_rid: &str) {
        if let Some(rid) = self.offer_of(resource_rid).map(|offer| offer.rid) {
            self.offers.remove(&rid);
        }
    }

    /// Marks a partition's data for deletion.
    pub fn drop_data(&mut self, placed: Placed) {
        self.dropped.put(placed.uid, DroppedMark::On { shard: placed.shard });
    }

    /// Databases and containers.
    pub fn resource_count(&self) -> usize {
        self.databases.len() + self.containers.len()
    }
}
