//! Difference between two versions of the catalog. The stored batch and the running state both follow from it.

use std::sync::Arc;

use serde::Serialize;
use shardlake_model::{
    ContainerRid, Database, DatabaseRid, Login, Offer, OfferRid, PartitionUid, Permission, PermissionRid,
    Script, User, UserRid,
};
use shardlake_storage::Batch;

use crate::stored::{self, encode};
use crate::{
    AnalyticalRecord, Changed, Checkpoint, ContainerRecord, Definitions, DroppedMark, EndedContainer,
    FunctionRecord, Holder, LogHold, ProjectionRecord, SecondaryIndexRecord,
};

#[derive(Debug, Clone)]
pub struct Change {
    pub before: Arc<Definitions>,
    pub after: Arc<Definitions>,
    pub databases: Vec<Changed<DatabaseRid, Database>>,
    pub containers: Vec<Changed<ContainerRid, ContainerRecord>>,
    pub scripts: Vec<Changed<(ContainerRid, u64), Script>>,
    pub offers: Vec<Changed<OfferRid, Offer>>,
    pub users: Vec<Changed<UserRid, User>>,
    pub permissions: Vec<Changed<PermissionRid, Permission>>,
    pub logins: Vec<Changed<u32, Login>>,
    pub dropped: Vec<Changed<PartitionUid, DroppedMark>>,
    pub projections: Vec<Changed<u32, ProjectionRecord>>,
    pub checkpoints: Vec<Changed<u32, Checkpoint>>,
    pub analytical: Vec<Changed<ContainerRid, AnalyticalRecord>>,
    pub secondary_indexes: Vec<Changed<ContainerRid, SecondaryIndexRecord>>,
    pub functions: Vec<Changed<u32, FunctionRecord>>,
    pub ended: Vec<Changed<(u64, ContainerRid), EndedContainer>>,
    pub log_holds: Vec<Changed<(ContainerRid, Holder), LogHold>>,
}

impl Change {
    /// A change to `draft`, which gets the next version if it differs at all.
    pub(crate) fn between(before: Arc<Definitions>, mut draft: Definitions) -> Change {
        draft.numbers.version = before.numbers.version + 1;
        let after = Arc::new(draft);
        Change::from(before, after)
    }

    /// The change from nothing to the stored definitions.
    pub fn of_start(definitions: Arc<Definitions>) -> Change {
        Change::from(Arc::default(), definitions)
    }

    fn from(before: Arc<Definitions>, after: Arc<Definitions>) -> Change {
        Change {
            databases: after.databases.changes_since(&before.databases),
            containers: after.containers.changes_since(&before.containers),
            scripts: after.scripts.changes_since(&before.scripts),
            offers: after.offers.changes_since(&before.offers),
            users: after.users.changes_since(&before.users),
            permissions: after.permissions.changes_since(&before.permissions),
            logins: after.logins.changes_since(&before.logins),
            dropped: after.dropped.changes_since(&before.dropped),
            projections: after.projections.changes_since(&before.projections),
            checkpoints: after.checkpoints.changes_since(&before.checkpoints),
            analytical: after.analytical.changes_since(&before.analytical),
            secondary_indexes: after.secondary_indexes.changes_since(&before.secondary_indexes),
            functions: after.functions.changes_since(&before.functions),
            ended: after.ended.changes_since(&before.ended),
            log_holds: after.log_holds.changes_since(&before.log_holds),
            before,
            after,
        }
    }

    /// Whether nothing differs. Numbers that were taken and not used are given out again.
    pub fn is_empty(&self) -> bool {
        self.databases.is_empty()
            && self.containers.is_empty()
            && self.scripts.is_empty()
            && self.offers.is_empty()
            && self.users.is_empty()
            && self.permissions.is_empty()
            && self.logins.is_empty()
            && self.dropped.is_empty()
            && self.projections.is_empty()
            && self.checkpoints.is_empty()
            && self.analytical.is_empty()
            && self.secondary_indexes.is_empty()
            && self.functions.is_empty()
            && self.ended.is_empty()
            && self.log_holds.is_empty()
    }

    /// The batch to store: every record that differs, and the numbers.
    pub(crate) fn batch(&self) -> Batch {
        let mut batch = Batch::new();
        store(&mut batch, &self.databases, stored::database_key);
        store(&mut batch, &self.containers, stored::container_key);
        store(&mut batch, &self.scripts, stored::script_key);
        store(&mut batch, &self.offers, stored::offer_key);
        store(&mut batch, &self.users, stored::user_key);
        store(&mut batch, &self.permissions, stored::permission_key);
        store(&mut batch, &self.logins, stored::login_key);
        store(&mut batch, &self.dropped, stored::dropped_key);
        store(&mut batch, &self.projections, stored::projection_key);
        store(&mut batch, &self.checkpoints, stored::checkpoint_key);
        store(&mut batch, &self.analytical, stored::analytical_key);
        store(&mut batch, &self.secondary_indexes, stored::secondary_index_key);
        store(&mut batch, &self.functions, stored::function_key);
        store(&mut batch, &self.ended, stored::ended_key);
        store(&mut batch, &self.log_holds, stored::log_hold_key);
        batch.put(stored::numbers_key(), encode(&self.after.numbers));
        batch
    }
}

fn store<K: Copy, V: Serialize>(batch: &mut Batch, changes: &[Changed<K, V>], key: fn(K) -> Vec<u8>) {
    for change in changes {
        match &change.new {
            Some(record) => batch.put(key(change.key), encode(&**record)),
            None => batch.delete(key(change.key)),
        }
    }
}
