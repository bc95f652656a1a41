//! Writes over an engine with latency: their reads, their waits, and that latency changes only the
//! time.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use shardlake_charge::ChargeTable;
use shardlake_document::{Number, PatchOperation, parse_item};
use shardlake_index::{IndexLayout, path_hash};
use shardlake_model::{
    Bounds, ConsistencyLevel, Container, ContainerDefinition, ContainerRid, DatabaseRid, IndexPathSegment,
    KeyComponent, PartitionKey, PartitionKeyDefinition, Preconditions, Result, UniqueKey, UniqueKeyPolicy,
};
use shardlake_routing::{KeyRange, effective_partition_key};
use shardlake_sql::ComputedProperties;
use shardlake_stdx::{Clock, CommitTimes, Guid, Timestamp};
use shardlake_storage::slow::SlowEngine;
use shardlake_storage::{Row, ScanOptions, Shard, ShardOptions};
use tokio::time::Instant;

use crate::{
    BatchReply, CommandContext, ContainerSchema, LogicalKey, Operation, Partition, PartitionIdentity,
    PartitionUid, PartitionWrite, partition_range, prepare_body, read_in_order, verify_partition,
};

struct Fixture {
    shard: Shard,
    shape: Arc<ContainerSchema>,
    partition: Arc<Partition>,
}

fn identity() -> PartitionIdentity {
    PartitionIdentity {
        uid: PartitionUid(3),
        range_id: 0,
        epk_range: KeyRange::full(),
        rid_prefix: 0,
        inherited_prefixes: Vec::new(),
        session_version: 0,
    }
}

fn shape(bounds: Option<Bounds>) -> Arc<ContainerSchema> {
    let mut definition = ContainerDefinition::new("c", PartitionKeyDefinition::hash("/pk"));
    definition.unique_key_policy =
        UniqueKeyPolicy { unique_keys: vec![UniqueKey { paths: vec!["/u".to_owned()] }] };
    let container = Container {
        rid: ContainerRid { database: DatabaseRid(1), number: 1 },
        etag: [0; 16],
        timestamp: 0,
        definition,
        kept: None,
        is_collection: false,
        narrowings: Vec::new(),
        bounds,
    };
    let policy = &container.definition.indexing_policy;
    let layout = IndexLayout::new(1, policy, ComputedProperties::default()).expect("compiles");
    let layouts = (layout.map(Arc::new), None);
    let shape = ContainerSchema::new(&container, layouts, Arc::default(), ChargeTable::default());
    Arc::new(shape.expect("a plain container"))
}

fn logical(shape: &ContainerSchema, pk: &str) -> LogicalKey {
    let partition_key = PartitionKey::single(KeyComponent::String(pk.to_owned()));
    let epk = effective_partition_key(&shape.key_definition, &partition_key);
    LogicalKey { epk, partition_key }
}

fn command(etags: &[u8]) -> CommandContext {
    CommandContext {
        now: Timestamp(1_700_000_000_000),
        consistency: ConsistencyLevel::default(),
        etags: etags.iter().map(|etag| Guid([*etag; 16])).collect(),
        patience: Duration::from_secs(60),
        unwanted: Vec::new(),
        commit: Default::default(),
    }
}

impl Fixture {
    async fn over(shard: Shard) -> Fixture {
        Fixture::bounded(shard, None).await
    }

    async fn bounded(shard: Shard, bounds: Option<Bounds>) -> Fixture {
        let shape = shape(bounds);
        let partition = Partition::open(
            (shard.clone(), CommitTimes::new(Clock::manual(Timestamp(0)))),
            identity(),
            shape.maintained(),
        )
        .await
        .expect("opens");
        Fixture { shard, shape, partition: Arc::new(partition) }
    }

    async fn far(engine: &SlowEngine) -> Fixture {
        let shard = Shard::with_engine(Arc::new(engine.clone()), &ShardOptions::local("unused"));
        Fixture::over(shard.expect("opens")).await
    }

    fn upsert(&self, pk: &str, id: &str, unique: usize) -> Operation {
        let json = format!(r#"{{"id":"{id}","pk":"{pk}","u":{unique},"n":0,"text":"t{unique}"}}"#);
        let body = parse_item(json.as_bytes(), &Default::default()).expect("a body");
        let item = prepare_body(body, &self.shape).expect("valid");
        Operation::Upsert { item, preconditions: Preconditions::default() }
    }

    async fn write(&self, pk: &str, operation: Operation) {
        let written = self.execute(pk, &[operation], &[1]).await;
        written.expect("carried out").outcome.expect("written");
    }

    async fn execute(&self, pk: &str, operations: &[Operation], etags: &[u8]) -> Result<BatchReply> {
        let key = logical(&self.shape, pk);
        let command = PartitionWrite { key, operations: operations.to_vec(), context: command(etags) };
        self.partition.execute(&self.shape, &Arc::new(command)).await
    }

    async fn expect_sound(&self) {
        let report =
            verify_partition(&self.shard, &identity(), &self.shape, &|_| ()).await.expect("readable");
        assert_eq!(report.problems, Vec::<String>::new());
    }

    /// All rows but the counts of paths, which are no part of any transaction.
    async fn rows(&self) -> Vec<Row> {
        let (start, end) = partition_range(identity().uid);
        let mut scan = self.shard.view().scan(start..end, ScanOptions::default());
        let mut rows = Vec::new();
        while let Some(chunk) = scan.next_chunk().await.expect("readable") {
            rows.extend(chunk.into_iter().filter(|(key, _)| key[4] != b'C'));
        }
        rows
    }
}

#[tokio::test(start_paused = true)]
async fn writers_to_different_keys_of_one_partition_do_not_wait_for_each_others_reads() {
    const WRITERS: usize = 64;
    const WRITES: usize = 20;
    let fixture = &Fixture::far(&SlowEngine::new()).await;
    let write_all = async |writer: usize| {
        for number in 0..WRITES {
            fixture.write(&format!("k{writer}"), fixture.upsert(&format!("k{writer}"), "i", number)).await;
        }
    };
    write_all(0).await;
    let begun = Instant::now();
    write_all(0).await;
    let alone = begun.elapsed();
    let begun = Instant::now();
    futures_of(&mut (1..=WRITERS).map(|writer| Box::pin(write_all(writer))).collect::<Vec<_>>()).await;
    let together = begun.elapsed();
    // In writes per second.
    let scale = WRITERS as f64 * alone.as_secs_f64() / together.as_secs_f64();
    assert!(scale >= 20.0, "{WRITERS} writers are {scale} times one: {alone:?} and {together:?}");
    fixture.expect_sound().await;
}

/// All of them at the same time.
async fn futures_of(futures: &mut [std::pin::Pin<Box<impl Future<Output = ()>>>]) {
    let mut done = vec![false; futures.len()];
    std::future::poll_fn(|context| {
        for (future, done) in futures.iter_mut().zip(&mut done) {
            *done = *done || future.as_mut().poll(context).is_ready();
        }
        if done.iter().all(|done| *done) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_a_write_reads_is_fetched_in_one_round_trip_or_two() {
    let engine = SlowEngine::new();
    let fixture = Fixture::far(&engine).await;
    let trips_of = async |pk: &str, operations: &[Operation]| {
        let before = engine.round_trips();
        let etags = vec![1; operations.len()];
        fixture.execute(pk, operations, &etags).await.expect("carried out").outcome.expect("written");
        engine.round_trips() - before
    };
    assert_eq!(
        trips_of("a", &[fixture.upsert("a", "1", 1)]).await,
        1,
        "size, item and unique value together"
    );
    let many: Vec<_> = (2..12).map(|number| fixture.upsert("a", &number.to_string(), number)).collect();
    assert_eq!(trips_of("a", &many).await, 1, "of all operations together");
    assert_eq!(trips_of("a", &[fixture.upsert("a", "1", 20)]).await, 2, "then the unique value of the item");
    let delete = |id: &str| Operation::Delete { id: id.to_owned(), preconditions: Preconditions::default() };
    assert_eq!(trips_of("a", &[delete("2"), delete("3"), delete("4")]).await, 2, "of all items together");
    let key = logical(&fixture.shape, "a");
    let before = engine.round_trips();
    let deleted = fixture.partition.delete_logical_partition(&fixture.shape, &command(&[]), &key).await;
    assert_eq!(deleted.expect("deleted").0, 8);
    assert_eq!(engine.round_trips() - before, 4, "a page, its items, their unique values, no more pages");
    fixture.expect_sound().await;
}

#[tokio::test(start_paused = true)]
async fn deleting_a_whole_key_and_counting_a_path_hold_up_no_writer() {
    let engine = SlowEngine::new();
    let fixture = &Fixture::far(&engine).await;
    for number in 0..20 {
        fixture.write("a", fixture.upsert("a", &number.to_string(), number)).await;
    }
    let v = IndexPathSegment::Name("n".to_owned());
    let hash = path_hash(&[v]);
    let (key, context) = (logical(&fixture.shape, "a"), command(&[]));
    let write = async {
        fixture.write("b", fixture.upsert("b", "1", 1)).await;
        let begun = Instant::now();
        fixture.write("b", fixture.upsert("b", "1", 2)).await;
        begun.elapsed()
    };
    let alone = write.await;
    let work = async {
        fixture.partition.count_path(1, hash).await.expect("counted");
        let deleted = fixture.partition.delete_logical_partition(&fixture.shape, &context, &key).await;
        assert_eq!(deleted.expect("deleted").0, 20);
        fixture.partition.largest_logical_partitions(3).await.expect("found");
    };
    let writes = async {
        for number in 0..30 {
            let begun = Instant::now();
            fixture.write("b", fixture.upsert("b", "1", number)).await;
            // A sync may have begun before.
            let longest = alone + 2 * SlowEngine::SYNC;
            assert!(begun.elapsed() <= longest, "{:?} instead of {alone:?}", begun.elapsed());
        }
    };
    tokio::join!(work, writes);
    fixture.expect_sound().await;
}

#[tokio::test]
async fn waiting_for_the_engine_with_the_sequencer_in_hand_is_a_panic() {
    let fixture = Fixture::far(&SlowEngine::new()).await;
    let waiting = tokio::spawn(async move {
        let _sequencer = fixture.partition.core().sequencer.hold().await;
        drop(fixture.shard.get(b"key").await);
    });
    assert!(waiting.await.expect_err("it panics").is_panic());
}

/// Action of one writer, and its delay before.
#[derive(Debug, Clone)]
struct Act {
    pk: u8,
    id: u8,
    unique: u8,
    kind: u8,
    pause_ms: u64,
}

fn act() -> impl Strategy<Value = Act> {
    (0..2u8, 0..3u8, 0..3u8, 0..7u8, 0..90u64).prop_map(|(pk, id, unique, kind, pause_ms)| Act {
        pk,
        id,
        unique,
        kind,
        pause_ms,
    })
}

impl Act {
    fn pk(&self) -> &'static str {
        ["p", "q"][usize::from(self.pk)]
    }

    fn operations(&self, fixture: &Fixture) -> Vec<Operation> {
        let (id, preconditions) = (self.id.to_string(), Preconditions::default());
        let other = ((self.id + 1) % 3).to_string();
        let upsert = |id: &str| fixture.upsert(self.pk(), id, usize::from(self.unique));
        let body = |id: &str| match upsert(id) {
            Operation::Upsert { item, .. } => item,
            _ => unreachable!("an upsert"),
        };
        let patch = |id: String| Operation::Patch {
            id,
            operations: vec![PatchOperation::Increment { path: vec!["n".into()], by: Number::Int(1) }],
            condition: None,
            preconditions: Preconditions::default(),
        };
        match self.kind {
            0 => vec![upsert(&id)],
            1 => vec![Operation::Create { item: body(&id) }],
            2 => vec![Operation::Replace { item: body(&other), id, preconditions }],
            3 => vec![Operation::Delete { id, preconditions }],
            4 => vec![
                Operation::Delete { id: id.clone(), preconditions },
                Operation::Create { item: body(&id) },
            ],
            5 => vec![patch(id), patch(other)],
            _ => vec![patch(id)],
        }
    }
}

/// Concurrent writers over a slow engine leave, row by row, the same state as the same commits one
/// after the other in memory.
async fn is_as_one_after_the_other(writers: Vec<Vec<Act>>, read_ms: u64, sync_ms: u64) {
    let engine = SlowEngine::new();
    engine.set_delays(Duration::from_millis(read_ms), Duration::from_millis(sync_ms));
    let fixture = Arc::new(Fixture::far(&engine).await);
    let mut tasks = Vec::new();
    for (writer, acts) in writers.into_iter().enumerate() {
        let fixture = fixture.clone();
        tasks.push(tokio::spawn(async move {
            let mut commits = Vec::new();
            for (number, act) in acts.into_iter().enumerate() {
                tokio::time::sleep(Duration::from_millis(act.pause_ms)).await;
                let operations = act.operations(&fixture);
                let etags = [(writer * 16 + number) as u8 + 1; 2];
                let reply = fixture.execute(act.pk(), &operations, &etags).await.expect("carried out");
                if reply.outcome.is_ok() {
                    commits.push((reply.meta.lsn, act, etags, reply.meta.charge_centi));
                }
            }
            commits
        }));
    }
    let hash = path_hash(&[IndexPathSegment::Name("n".to_owned())]);
    fixture.partition.count_path(1, hash).await.expect("counted");
    let mut commits = Vec::new();
    for task in tasks {
        commits.extend(task.await.expect("no panic"));
    }
    commits.sort_by_key(|(lsn, ..)| *lsn);
    let memory = Fixture::over(Shard::open(ShardOptions::memory()).await.expect("opens")).await;
    for (lsn, act, etags, charge_centi) in commits {
        let reply = memory.execute(act.pk(), &act.operations(&memory), &etags).await.expect("carried out");
        assert!(reply.outcome.is_ok(), "{act:?} at {lsn}: {:?}", reply.outcome);
        assert_eq!((reply.meta.lsn, reply.meta.charge_centi), (lsn, charge_centi), "{act:?}");
    }
    assert_eq!(fixture.rows().await, memory.rows().await);
    fixture.expect_sound().await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn writers_over_a_slow_engine_plan_on_all_commits_before_them(
        writers in prop::collection::vec(prop::collection::vec(act(), 1..8), 2..7),
        read_ms in 1..60u64,
        sync_ms in 0..60u64,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.expect("starts").block_on(is_as_one_after_the_other(writers, read_ms, sync_ms));
    }
}

/// Reopened now and then, so that the oldest items are looked for in the engine.
#[tokio::test(start_paused = true)]
async fn creates_beyond_the_bounds_remove_the_oldest_items() {
    const ROUND: usize = 60;
    let engine = SlowEngine::new();
    let shard = Shard::with_engine(Arc::new(engine.clone()), &ShardOptions::local("unused")).expect("opens");
    for (items_max, writers) in [(40, 1), (7, 4), (2000, 1)] {
        let bounds = Some(Bounds { size_bytes_max: 2000, items_max: Some(items_max) });
        let mut last = Vec::new();
        for round in 0..3 {
            let fixture = &Fixture::bounded(shard.clone(), bounds).await;
            let write = async |writer: usize| {
                for number in (writer..ROUND).step_by(writers) {
                    let unique = 1000 * items_max as usize + ROUND * round + number;
                    fixture.write("a", fixture.upsert("a", &format!("i{unique}"), unique)).await;
                }
            };
            futures::future::join_all((0..writers).map(write)).await;
            fixture.expect_sound().await;
            let limits = crate::PageLimits { items: 1000, size_bytes: 1 << 20 };
            let (logical, from) = (logical(&fixture.shape, "a"), Default::default());
            let page = read_in_order(&fixture.partition, &fixture.shape, 0, (&logical, from), limits).await;
            let items = page.expect("read").items;
            let added = crate::item::rendered_size(0, &fixture.shape, 1_700_000_000);
            let bodies = items.iter().map(|item| item.json_text().len() - added).sum::<usize>();
            assert!(!items.is_empty() && items.len() <= items_max as usize && bodies <= 2000, "{bodies}");
            let is_full = items.len() == items_max as usize || bodies > 1900;
            assert!(is_full, "{} items of {bodies} bytes", items.len());
            assert!(items.is_sorted_by_key(|item| item.envelope().ordinal));
            let newest = 1000 * items_max as usize + ROUND * (round + 1) - 1;
            let text = String::from_utf8(items[items.len() - 1].json_text().to_vec()).expect("JSON");
            assert!(writers > 1 || text.contains(&format!(r#""i{newest}""#)), "{text}");
            last = items;
        }
        assert!(last.len() > 5, "{}", last.len());
    }
}
