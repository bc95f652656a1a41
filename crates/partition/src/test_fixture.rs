//! A partition for tests that look inside.

use std::sync::Arc;
use std::time::Duration;

use shardlake_charge::ChargeTable;
use shardlake_document::parse_item;
use shardlake_index::IndexLayout;
use shardlake_model::{
    ConsistencyLevel, Container, ContainerDefinition, ContainerRid, DatabaseRid, KeyComponent, PartitionKey,
    PartitionKeyDefinition, Preconditions, Result,
};
use shardlake_routing::{KeyRange, effective_partition_key};
use shardlake_sql::ComputedProperties;
use shardlake_stdx::{Clock, CommitTimes, Guid, Timestamp};
use shardlake_storage::fault::FaultEngine;
use shardlake_storage::{Durability, Shard, ShardOptions};

use crate::{
    CommandContext, ContainerSchema, LogicalKey, Operation, Partition, PartitionIdentity, PartitionUid,
    PartitionWrite, prepare_body, verify_partition,
};

/// A partition of a container with a default index, on an engine that can be made to wait.
pub(crate) struct Fixture {
    pub engine: FaultEngine,
    pub shard: Shard,
    pub shape: Arc<ContainerSchema>,
    pub partition: Arc<Partition>,
}

pub(crate) fn identity(uid: u32) -> PartitionIdentity {
    PartitionIdentity {
        uid: PartitionUid(uid),
        range_id: 0,
        epk_range: KeyRange::full(),
        rid_prefix: 0,
        inherited_prefixes: Vec::new(),
        session_version: 0,
    }
}

pub(crate) fn command() -> CommandContext {
    CommandContext {
        now: Timestamp(1_700_000_000_000),
        consistency: ConsistencyLevel::default(),
        etags: vec![Guid([1; 16])],
        patience: Duration::from_secs(60),
        unwanted: Vec::new(),
        commit: Default::default(),
    }
}

impl Fixture {
    pub async fn new() -> Fixture {
        Fixture::with(Durability::Sync).await
    }

    pub async fn with(durability: Durability) -> Fixture {
        let container = Container {
            rid: ContainerRid { database: DatabaseRid(1), number: 1 },
            etag: [0; 16],
            timestamp: 0,
            definition: ContainerDefinition::new("c", PartitionKeyDefinition::hash("/pk")),
            kept: None,
            is_collection: false,
            narrowings: Vec::new(),
            bounds: None,
        };
        let policy = &container.definition.indexing_policy;
        let layout = IndexLayout::new(1, policy, ComputedProperties::default()).expect("compiles");
        let layouts = (layout.map(Arc::new), None);
        let shape = ContainerSchema::new(&container, layouts, Arc::default(), ChargeTable::default());
        let shape = Arc::new(shape.expect("a plain container"));
        let engine = FaultEngine::new();
        let options = ShardOptions { durability, ..ShardOptions::local("unused") };
        let shard = Shard::with_engine(Arc::new(engine.clone()), &options).expect("opens");
        let partition = Partition::open(
            (shard.clone(), CommitTimes::new(Clock::manual(Timestamp(0)))),
            identity(3),
            shape.maintained(),
        )
        .await
        .expect("opens");
        Fixture { engine, shard, shape, partition: Arc::new(partition) }
    }

    pub fn logical(&self) -> LogicalKey {
        let partition_key = PartitionKey::single(KeyComponent::String("p".to_owned()));
        let epk = effective_partition_key(&self.shape.key_definition, &partition_key);
        LogicalKey { epk, partition_key }
    }

    pub async fn write(&self, operation: Operation) -> Result<()> {
        let logical = self.logical();
        let command = PartitionWrite { key: logical, operations: vec![operation], context: command() };
        self.partition.write(&self.shape, &Arc::new(command)).await.map(drop)
    }

    pub fn item(&self, id: &str, value: &str) -> crate::PreparedBody {
        let json = format!(r#"{{"id":"{id}","pk":"p","v":"{value}"}}"#);
        prepare_body(parse_item(json.as_bytes(), &Default::default()).expect("a body"), &self.shape)
            .expect("valid")
    }

    pub async fn upsert(&self, id: &str, value: &str) -> Result<()> {
        let preconditions = Preconditions::default();
        self.write(Operation::Upsert { item: self.item(id, value), preconditions }).await
    }

    pub async fn problems_of(&self, shard: &Shard, uid: u32) -> (u64, Vec<String>) {
        let report = verify_partition(shard, &identity(uid), &self.shape, &|_| ()).await.expect("readable");
        (report.items, report.problems)
    }
}
