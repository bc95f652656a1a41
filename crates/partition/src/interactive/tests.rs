//! Transactions step by step against a model, and their visibility to others meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use shardlake_charge::ChargeTable;
use shardlake_document::parse_item;
use shardlake_index::IndexLayout;
use shardlake_model::{
    ConsistencyLevel, Container, ContainerDefinition, ContainerRid, DatabaseRid, ErrorKind, KeyComponent,
    Limits, PartitionKey, PartitionKeyDefinition, Preconditions, Result, UniqueKey, UniqueKeyPolicy,
};
use shardlake_routing::{KeyRange, effective_partition_key};
use shardlake_sql::ComputedProperties;
use shardlake_stdx::{Clock, CommitTimes, Guid, Timestamp};
use shardlake_storage::{Shard, ShardOptions};

use super::LogicalTransaction;
use crate::{
    CommandContext, ContainerSchema, End, FeedFilter, LogicalKey, Operation, PageLimits, Partition,
    PartitionIdentity, PartitionUid, PartitionWrite, StoredItem, SweepStep, prepare_body, verify_partition,
};

const PAGE: PageLimits = PageLimits { items: 1000, size_bytes: 1 << 20 };

pub(super) struct Fixture {
    pub shard: Shard,
    pub partition: Arc<Partition>,
    pub shape: Arc<ContainerSchema>,
    pub identity: PartitionIdentity,
    clock: Clock,
}

impl Fixture {
    pub async fn new() -> Fixture {
        Fixture::with(Limits::default()).await
    }

    async fn with(limits: Limits) -> Fixture {
        let mut definition = ContainerDefinition::new("c", PartitionKeyDefinition::hash("/pk"));
        definition.unique_key_policy =
            UniqueKeyPolicy { unique_keys: vec![UniqueKey { paths: vec!["/u".to_owned()] }] };
        definition.default_ttl = Some(-1);
        let container = Container {
            rid: ContainerRid { database: DatabaseRid(1), number: 1 },
            etag: [0; 16],
            timestamp: 0,
            definition,
            kept: None,
            is_collection: false,
            narrowings: Vec::new(),
            bounds: None,
        };
        let policy = &container.definition.indexing_policy;
        let layout =
            IndexLayout::new(1, policy, ComputedProperties::default()).expect("compiles").map(Arc::new);
        let layouts = layout.iter().cloned().collect();
        let shape =
            ContainerSchema::new(&container, (layout, None), Arc::new(limits), ChargeTable::default());
        let identity = PartitionIdentity {
            uid: PartitionUid(3),
            range_id: 0,
            epk_range: KeyRange::full(),
            rid_prefix: 0,
            inherited_prefixes: Vec::new(),
            session_version: 0,
        };
        let shard = Shard::open(ShardOptions::memory()).await.expect("opens");
        let clock = Clock::manual(Timestamp(1_700_000_000_000));
        let times = CommitTimes::new(clock.clone());
        Fixture {
            partition: Arc::new(
                Partition::open((shard.clone(), times), identity.clone(), layouts).await.expect("opens"),
            ),
            shard,
            shape: Arc::new(shape.expect("a plain container")),
            identity,
            clock,
        }
    }

    pub fn logical(&self, pk: &str) -> LogicalKey {
        let partition_key = PartitionKey::single(KeyComponent::String(pk.to_owned()));
        let epk = effective_partition_key(&self.shape.key_definition, &partition_key);
        LogicalKey { epk, partition_key }
    }

    pub fn command(&self) -> CommandContext {
        CommandContext {
            now: self.clock.now(),
            consistency: ConsistencyLevel::default(),
            etags: vec![Guid([1; 16])],
            patience: Duration::from_secs(60),
            unwanted: Vec::new(),
            commit: Default::default(),
        }
    }

    pub async fn begin(&self, pk: &str) -> Result<LogicalTransaction> {
        self.partition.begin(&self.shape, self.command(), &self.logical(pk), &self.clock).await
    }

    pub async fn write(&self, pk: &str, operation: &Operation) -> Result<()> {
        let logical = self.logical(pk);
        let (operations, context) = (vec![operation.clone()], self.command());
        let command = PartitionWrite { key: logical, operations, context };
        self.partition.write(&self.shape, &Arc::new(command)).await.map(drop)
    }

    pub fn item(&self, pk: &str, id: &str, value: i64, unique: i64) -> crate::PreparedBody {
        let ttl = if value == 9 { r#","ttl":5"# } else { "" };
        let json = format!(r#"{{"id":"{id}","pk":"{pk}","v":{value},"u":{unique}{ttl}}}"#);
        prepare_body(parse_item(json.as_bytes(), &Default::default()).expect("a body"), &self.shape)
            .expect("valid")
    }

    /// The state that every reader sees.
    async fn stored(&self, pk: &str) -> Model {
        let filter = FeedFilter::Logical(self.logical(pk));
        let page = self.partition.read_page(&self.shape, &self.command(), &filter, None, PAGE).await;
        model_of(&page.expect("readable").items)
    }

    async fn check(&self) {
        let report =
            verify_partition(&self.shard, &self.identity, &self.shape, &|_| ()).await.expect("readable");
        assert_eq!(report.problems, Vec::<String>::new());
    }
}

/// Value and unique value, by id.
type Model = BTreeMap<String, (i64, i64)>;

fn model_of(items: &[StoredItem]) -> Model {
    let of = |item: &StoredItem| {
        let mut json = Vec::new();
        item.write_json(&mut json);
        let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
        let number = |name: &str| json[name].as_i64().expect("a number");
        (json["id"].as_str().expect("an id").to_owned(), (number("v"), number("u")))
    };
    items.iter().map(of).collect()
}

fn none() -> Preconditions {
    Preconditions::default()
}

#[derive(Debug, Clone)]
enum Act {
    Create(u8, i64, i64),
    Upsert(u8, i64, i64),
    /// Also under another id.
    Replace(u8, u8, i64, i64),
    Delete(u8),
    Read(u8),
}

fn act() -> impl Strategy<Value = Act> {
    let (id, value, unique) = (|| 0..5u8, || 7..10i64, || 0..6i64);
    prop_oneof![
        3 => (id(), value(), unique()).prop_map(|(id, value, unique)| Act::Create(id, value, unique)),
        3 => (id(), value(), unique()).prop_map(|(id, value, unique)| Act::Upsert(id, value, unique)),
        3 => (id(), id(), value(), unique()).prop_map(|(id, to, value, unique)| Act::Replace(id, to, value, unique)),
        2 => id().prop_map(Act::Delete),
        1 => id().prop_map(Act::Read),
    ]
}

fn name(id: u8) -> String {
    format!("i{id}")
}

/// Applies an act to a model, or returns the kind of its failure.
fn apply(model: &mut Model, act: &Act) -> Result<(), ErrorKind> {
    let (from, to) = match *act {
        Act::Create(id, value, unique) => {
            if model.contains_key(&name(id)) {
                return Err(ErrorKind::Conflict);
            }
            (None, Some((name(id), (value, unique))))
        }
        Act::Upsert(id, value, unique) => (Some(name(id)), Some((name(id), (value, unique)))),
        Act::Replace(id, to, value, unique) => {
            if !model.contains_key(&name(id)) {
                return Err(ErrorKind::NotFound);
            }
            if id != to && model.contains_key(&name(to)) {
                return Err(ErrorKind::Conflict);
            }
            (Some(name(id)), Some((name(to), (value, unique))))
        }
        Act::Delete(id) | Act::Read(id) if !model.contains_key(&name(id)) => return Err(ErrorKind::NotFound),
        Act::Delete(id) => (Some(name(id)), None),
        Act::Read(_) => return Ok(()),
    };
    let mut after = model.clone();
    after.retain(|id, _| Some(id) != from.as_ref());
    if let Some((to, version)) = to {
        if after.values().any(|(_, unique)| *unique == version.1) {
            return Err(ErrorKind::Conflict);
        }
        after.insert(to, version);
    }
    *model = after;
    Ok(())
}

fn operation(fixture: &Fixture, pk: &str, act: &Act) -> Operation {
    match *act {
        Act::Create(id, value, unique) => {
            Operation::Create { item: fixture.item(pk, &name(id), value, unique) }
        }
        Act::Upsert(id, value, unique) => {
            let item = fixture.item(pk, &name(id), value, unique);
            Operation::Upsert { item, preconditions: none() }
        }
        Act::Replace(id, to, value, unique) => {
            let item = fixture.item(pk, &name(to), value, unique);
            Operation::Replace { id: name(id), item, preconditions: none() }
        }
        Act::Delete(id) => Operation::Delete { id: name(id), preconditions: none() },
        Act::Read(id) => Operation::Read { id: name(id), preconditions: none() },
    }
}

#[derive(Debug, Clone)]
struct Round {
    /// The time of items with the value 9 runs out before it.
    waits: bool,
    acts: Vec<Act>,
    /// After so many acts it expires for all others, and a sweep runs.
    sweeps_after: Option<usize>,
    commits: bool,
}

fn round() -> impl Strategy<Value = Round> {
    let acts = prop::collection::vec(act(), 0..10);
    let sweeps_after = prop::option::weighted(0.3, 0..10usize);
    (prop::bool::weighted(0.3), acts, sweeps_after, prop::bool::weighted(0.7))
        .prop_map(|(waits, acts, sweeps_after, commits)| Round { waits, acts, sweeps_after, commits })
}

impl Fixture {
    async fn sweep(&self) {
        let mut sweep = self.partition.begin_sweep().await.expect("begins");
        let now = self.clock.now();
        while self.partition.sweep_step(&self.shape, now, &mut sweep, 1024).await.expect("goes on")
            != SweepStep::Complete
        {}
    }
}

async fn transactions_are_as_a_model_says(rounds: Vec<Round>, keeps_versions: bool) {
    let fixture = Fixture::new().await;
    if keeps_versions {
        fixture.partition.keep_versions(Some(Duration::from_secs(3600))).await;
    }
    let mut committed = Model::new();
    for Round { waits, acts, sweeps_after, commits } in rounds {
        let run_out = |model: &mut Model| {
            fixture.clock.advance(Duration::from_secs(10));
            model.retain(|_, (value, _)| *value != 9);
        };
        if waits {
            run_out(&mut committed);
        }
        let mut model = committed.clone();
        let mut transaction = fixture.begin("a").await.expect("free");
        for (at, act) in acts.iter().enumerate() {
            let reply = transaction.execute(&operation(&fixture, "a", act), Guid([7; 16])).await;
            assert_eq!(reply.map(drop).map_err(|error| error.kind()), apply(&mut model, act), "{act:?}");
            if sweeps_after == Some(at) {
                run_out(&mut committed);
                fixture.sweep().await;
            }
            let page = transaction.read_page(None, PAGE).await.expect("readable");
            assert_eq!(model_of(&page.items), model, "{act:?}");
        }
        // No other reader sees any of it, and others write on.
        assert_eq!(fixture.stored("a").await, committed);
        let other = Operation::Upsert { item: fixture.item("b", "i0", 1, 1), preconditions: none() };
        fixture.write("b", &other).await.expect("free");
        if commits {
            transaction.commit().await.expect("committed");
            committed = model;
            if sweeps_after.is_some_and(|at| at < acts.len()) {
                run_out(&mut committed);
            }
        }
        assert_eq!(fixture.stored("a").await, committed);
    }
    fixture.sweep().await;
    assert_eq!(fixture.stored("a").await, committed);
    fixture.check().await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn steps_see_each_other_and_their_end_is_all_or_nothing(
        rounds in prop::collection::vec(round(), 1..6), keeps_versions in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(transactions_are_as_a_model_says(rounds, keeps_versions));
    }
}

#[tokio::test]
async fn writers_wait_for_the_end_and_others_do_not() {
    let fixture = Arc::new(Fixture::new().await);
    let mut transaction = fixture.begin("a").await.expect("free");
    let create = |pk: &str, id: &str, unique| Operation::Create { item: fixture.item(pk, id, 1, unique) };
    transaction.execute(&create("a", "i1", 1), Guid([7; 16])).await.expect("created");
    let mut waiting: Vec<_> = (0..3)
        .map(|number| {
            let (fixture, write) = (fixture.clone(), create("a", &format!("w{number}"), 10 + number));
            tokio::spawn(async move { fixture.write("a", &write).await })
        })
        .collect();
    let own = fixture.clone();
    let next = tokio::spawn(async move { own.begin("a").await.map(LogicalTransaction::commit)?.await });
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert!(waiting.iter().all(|task| !task.is_finished()) && !next.is_finished());
    // Another logical partition is as free as ever, also for transactions.
    fixture.write("b", &create("b", "i1", 1)).await.expect("free");
    fixture.begin("b").await.expect("free").commit().await.expect("empty");
    let impatient = CommandContext { patience: Duration::ZERO, ..fixture.command() };
    let logical = fixture.logical("a");
    let operations = vec![create("a", "late", 20)];
    let late = Arc::new(PartitionWrite { key: logical, operations, context: impatient });
    let late = fixture.partition.write(&fixture.shape, &late).await;
    assert_eq!(late.expect_err("held").kind(), ErrorKind::Timeout);
    let meta = transaction.commit().await.expect("committed");
    assert_eq!(meta.lsn, meta.item_lsn);
    for task in waiting.drain(..) {
        task.await.expect("ends").expect("written");
    }
    next.await.expect("ends").expect("nothing to commit");
    assert_eq!(fixture.stored("a").await.len(), 4);
    assert!(fixture.partition.core().transactions.gates.place_if_any(Vec::new).is_none(), "no gate is left");
    fixture.check().await;
}

#[tokio::test]
async fn what_was_told_of_a_write_is_what_is_committed() {
    let fixture = Fixture::new().await;
    let mut transaction = fixture.begin("a").await.expect("free");
    let create = Operation::Create { item: fixture.item("a", "i1", 1, 1) };
    let reply = transaction.execute(&create, Guid([7; 16])).await.expect("created");
    let told = reply.item.expect("a create has an item");
    // Others take ordinals meanwhile.
    for number in 0..3 {
        let write = Operation::Create { item: fixture.item("b", &format!("i{number}"), 1, number) };
        fixture.write("b", &write).await.expect("free");
    }
    let lsn = transaction.commit().await.expect("committed").lsn;
    let logical = fixture.logical("a");
    let command = fixture.command();
    let read = fixture.partition.read(&fixture.shape, &command, &logical, "i1", &none()).await;
    let stored = read.expect("there").item.expect("a read has an item");
    assert_eq!(stored.lsn(), lsn);
    let json = |item: &StoredItem| {
        let mut text = Vec::new();
        item.write_json(&mut text);
        text
    };
    assert_eq!(json(&stored), json(&told), "rid, etag, and time are final from the first");
    fixture.check().await;
}

#[tokio::test]
async fn an_ended_partition_ends_its_transactions() {
    let fixture = Fixture::new().await;
    let mut transaction = fixture.begin("a").await.expect("free");
    let create = Operation::Create { item: fixture.item("a", "i1", 1, 1) };
    transaction.execute(&create, Guid([7; 16])).await.expect("created");
    fixture.partition.close(End::Moved).await;
    let gone = |error: shardlake_model::Error| assert_eq!(error.kind(), ErrorKind::PartitionGone);
    gone(transaction.execute(&create, Guid([8; 16])).await.expect_err("ended"));
    gone(transaction.read_page(None, PAGE).await.expect_err("ended"));
    gone(transaction.commit().await.expect_err("ended"));
    gone(fixture.begin("a").await.expect_err("ended"));
}

#[tokio::test]
async fn transactions_have_bounds() {
    let limits = Limits { transaction_operations_max: 3, ..Limits::default() };
    let fixture = Fixture::with(limits).await;
    let mut transaction = fixture.begin("a").await.expect("free");
    let upsert = |value| Operation::Upsert { item: fixture.item("a", "i1", value, 1), preconditions: none() };
    for value in 0..3 {
        transaction.execute(&upsert(value), Guid([7; 16])).await.expect("within bounds");
    }
    let refused = transaction.execute(&upsert(4), Guid([7; 16])).await.expect_err("one too many");
    assert_eq!(refused.kind(), ErrorKind::TooLarge);
    let read = Operation::Read { id: "i1".to_owned(), preconditions: none() };
    transaction.execute(&read, Guid([7; 16])).await.expect("reads are no writes");
    transaction.commit().await.expect("committed");
    assert_eq!(fixture.stored("a").await["i1"].0, 2);

    // A full logical partition refuses the step, not the transaction.
    let limits = Limits { logical_partition_size_bytes_max: 700, ..Limits::default() };
    let fixture = Fixture::with(limits).await;
    let mut transaction = fixture.begin("a").await.expect("free");
    let create = |id: &str, unique| Operation::Create { item: fixture.item("a", id, 1, unique) };
    transaction.execute(&create("i1", 1), Guid([7; 16])).await.expect("fits");
    transaction.execute(&create("i2", 2), Guid([7; 16])).await.expect("fits");
    let full = transaction.execute(&create("i3", 3), Guid([7; 16])).await.expect_err("full");
    assert_eq!(full.kind(), ErrorKind::LogicalPartitionFull);
    transaction.commit().await.expect("committed");
    assert_eq!(fixture.stored("a").await.len(), 2);
    fixture.check().await;
}
