//! A partition for tests that look inside.

use std::sync::Arc;
use std::time::Duration;

use shardlake_charge::ChargeTable;
use shardlake_document::parse_item;
use shardlake_index::IndexLayout;
use shardlake_model::{
    ConsistencyLevel, Container, ContainerDefinition, ContainerRid, DatabaseRid, KeyComponent, Limits,
    PartitionKey, PartitionKeyDefinition, Preconditions, Result, UniqueKey, UniqueKeyPolicy,
};
use shardlake_routing::{KeyRange, effective_partition_key};
use shardlake_sql::{
    ComputedProperties, GeometryKind, PageLimits as RowLimits, PreparedQuery, QueryEnvironment, parse_query,
    plan_access,
};
use shardlake_stdx::{Clock, CommitTimes, Guid, Timestamp};
use shardlake_storage::fault::FaultEngine;
use shardlake_storage::{Durability, Shard, ShardOptions};

use crate::{
    BatchReply, CommandContext, Compaction, CompactionStep, ContainerSchema, FeedFilter, LogicalKey,
    Operation, PageLimits, PageWork, Partition, PartitionIdentity, PartitionReport, PartitionUid,
    PartitionWrite, QueryPageRequest, StoredItem, SweepStep, prepare_body, verify_partition,
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
        let definition = ContainerDefinition::new("c", PartitionKeyDefinition::hash("/pk"));
        let container = container_of(definition);
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

/// Settings of a container whose partition a test compares with a model.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub default_ttl: Option<i64>,
    /// Items of a logical partition differ in their property `u`.
    pub is_unique: bool,
    pub retention: Option<Duration>,
}

/// A container over shards in memory, at a time that a test decides.
pub(crate) struct TestContainer {
    pub clock: Clock,
    pub definition: ContainerDefinition,
    pub shape: Arc<ContainerSchema>,
    /// The same container without an index: queries scan.
    pub bare: Arc<ContainerSchema>,
    retention: Option<Duration>,
}

pub(crate) const BEGIN: Timestamp = Timestamp(1_700_000_000_000);

impl TestContainer {
    pub fn new(settings: &Settings) -> TestContainer {
        let mut definition = ContainerDefinition::new("c", PartitionKeyDefinition::hash("/pk"));
        if settings.is_unique {
            let keys = vec![UniqueKey { paths: vec!["/u".to_owned()] }];
            definition.unique_key_policy = UniqueKeyPolicy { unique_keys: keys };
        }
        definition.default_ttl = settings.default_ttl;
        let layout = IndexLayout::new(1, &definition.indexing_policy, ComputedProperties::default());
        let layout = layout.expect("compiles").map(Arc::new);
        let shape = |layouts| {
            let container = container_of(definition.clone());
            let shape = ContainerSchema::new(&container, layouts, Arc::default(), ChargeTable::default());
            Arc::new(shape.expect("a plain container"))
        };
        let (bare, shape) = (shape((None, None)), shape((layout, None)));
        TestContainer { clock: Clock::manual(BEGIN), definition, shape, bare, retention: settings.retention }
    }

    pub async fn open(&self, shard: &Shard, identity: &PartitionIdentity) -> Arc<Partition> {
        let times = CommitTimes::new(self.clock.clone());
        let layouts = self.shape.maintained();
        let partition = Partition::open((shard.clone(), times), identity.clone(), layouts).await;
        let partition = partition.expect("opens");
        partition.keep_versions(self.retention).await;
        Arc::new(partition)
    }

    pub fn logical(&self, pk: &str) -> LogicalKey {
        let partition_key = PartitionKey::single(KeyComponent::String(pk.to_owned()));
        let epk = effective_partition_key(&self.shape.key_definition, &partition_key);
        LogicalKey { epk, partition_key }
    }

    pub fn command(&self, operations: usize) -> CommandContext {
        let etags = vec![Guid([1; 16]); operations];
        CommandContext { now: self.clock.now(), etags, ..command() }
    }

    pub fn body(&self, json: &str) -> crate::PreparedBody {
        self.body_for(json, &self.shape)
    }

    pub fn body_for(&self, json: &str, shape: &ContainerSchema) -> crate::PreparedBody {
        let body = parse_item(json.as_bytes(), &Default::default()).expect("a body");
        prepare_body(body, shape).expect("valid")
    }

    pub async fn execute(
        &self,
        partition: &Arc<Partition>,
        pk: &str,
        operations: Vec<Operation>,
    ) -> Result<BatchReply> {
        let context = self.command(operations.len());
        let write = PartitionWrite { key: self.logical(pk), operations, context };
        partition.execute(&self.shape, &Arc::new(write)).await
    }

    /// Removes every item whose time has run out.
    pub async fn sweep(&self, partition: &Partition) {
        let now = self.clock.now();
        if partition.expiry_due(self.shape.default_ttl).is_none_or(|due| due > now.seconds()) {
            return;
        }
        let mut sweep = partition.begin_sweep().await.expect("begins");
        loop {
            match partition.sweep_step(&self.shape, now, &mut sweep, 1024).await.expect("goes on") {
                SweepStep::Went { .. } => {}
                SweepStep::Complete => return,
                other => panic!("nothing comes between: {other:?}"),
            }
        }
    }

    /// Compacts all of the log that may be.
    pub async fn compact(&self, partition: &Partition) {
        let limits = Limits { change_log_entries_kept: 1, ..Limits::default() };
        let mut compaction = Compaction::default();
        let now = self.clock.now();
        while partition.compaction_due(&limits, now) {
            let step = partition.compact(&mut compaction, &limits, now).await.expect("a step");
            if step == CompactionStep::Idle {
                return;
            }
        }
    }

    /// The live items of a partition in the order of its feed.
    pub async fn items(&self, partition: &Partition) -> Vec<StoredItem> {
        let (mut items, mut after) = (Vec::new(), None::<Vec<u8>>);
        let filter = FeedFilter::Range(KeyRange::full());
        loop {
            let limits = PageLimits { items: 7, size_bytes: 1 << 20 };
            let page = partition
                .read_page(&self.shape, &self.command(1), &filter, after.as_deref(), limits)
                .await
                .expect("readable");
            items.extend(page.items);
            after = page.next;
            if after.is_none() {
                return items;
            }
        }
    }

    /// The ids that a query finds, in its order, page by page; with the index or without one.
    pub async fn ids(&self, partition: &Partition, text: &str, shape: &Arc<ContainerSchema>) -> Vec<String> {
        let query = parse_query(text).expect("parses");
        let environment = QueryEnvironment {
            computed: &shape.computed,
            geometry: GeometryKind::Geography,
            now: self.clock.now(),
            random_seed: 1,
            scripts: None,
        };
        let query = PreparedQuery::prepare(&query, &[], &environment).expect("binds");
        let access = plan_access(&query, &shape.index_schema(), &[]).expect("plans");
        let (mut ids, mut resume) = (Vec::new(), None::<Vec<u8>>);
        loop {
            let request = QueryPageRequest {
                query: &query,
                access: &access,
                filter: &FeedFilter::Range(KeyRange::full()),
                own: None,
                within: None,
                resume: resume.as_deref(),
                resume_filter: None,
                limits: RowLimits { rows: 5, size_bytes: 1 << 20 },
                collects: None,
                kept: None,
                functions: None,
                is_page_time_spent: &|| false,
                is_interrupted: &|| false,
                work: &PageWork::default(),
                clock: None,
            };
            let page = partition.query_page(shape, &self.command(1), request).await.expect("answers");
            ids.extend(page.rows.iter().map(|row| String::from_utf8_lossy(row).into_owned()));
            resume = page.next;
            if resume.is_none() {
                return ids;
            }
        }
    }

    pub async fn verify(&self, shard: &Shard, identity: &PartitionIdentity) -> PartitionReport {
        let report = verify_partition(shard, identity, &self.shape, &|_| ()).await.expect("readable");
        assert_eq!(report.problems, Vec::<String>::new());
        report
    }
}

pub(crate) fn container_of(definition: ContainerDefinition) -> Container {
    Container {
        rid: ContainerRid { database: DatabaseRid(1), number: 1 },
        etag: [0; 16],
        timestamp: 0,
        definition,
        kept: None,
        is_collection: false,
        narrowings: Vec::new(),
        bounds: None,
    }
}

/// Runs a test of an asynchronous function on this thread.
pub(crate) fn block_on<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(test)
}
