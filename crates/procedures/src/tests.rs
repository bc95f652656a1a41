//! The time of a script's calls, which only a clock that is moved by hand can show.

use std::time::Duration;

use shardlake_capacity::budget::Burst;
use shardlake_model::{
    ConsistencyLevel, ContainerDefinition, ErrorKind, KeyComponent, Limits, PartitionKey,
    PartitionKeyDefinition, Priority, RequestContext, Result, ScriptDefinition, ScriptKind, Throughput,
};
use shardlake_script::{
    Meter, ScriptKey, ScriptSettings, Scripts, Store, StoreOperation, StoreReply, StoreRequest,
};
use shardlake_stdx::{Clock, Random, Timestamp};
use shardlake_storage::{Shard, ShardOptions};

use crate::ScriptRuns;
use crate::script_run::ScriptRun;
use shardlake_definitions::Resources;
use shardlake_host::{OperationKind, Touched};
use shardlake_items::{ItemRead, Items, ReadCommand, WriteCommand, item_of_json};
use shardlake_queries::Asked;
use shardlake_queries::ProcessorTab;
use shardlake_queries::Queries;
use shardlake_router::{
    CapacityMode, ContainerHandle, Enforcement, HeatRecording, PartitionHandle, Reach, Serving,
    ServingOptions, ThroughputRules,
};
use shardlake_router::{key_of_read, partition_of};

/// The parts of an account that the tests need.
struct Rooms {
    runs: ScriptRuns,
    resources: Resources,
}

fn key() -> PartitionKey {
    PartitionKey::single(KeyComponent::String("a".to_owned()))
}

async fn account(clock: &Clock) -> (Rooms, RequestContext, ContainerHandle) {
    account_with(clock, None).await
}

/// Held to 400 RU/s.
async fn enforced_account(clock: &Clock) -> (Rooms, RequestContext, ContainerHandle) {
    account_with(clock, Some(Throughput::Manual(400))).await
}

async fn account_with(
    clock: &Clock,
    throughput: Option<Throughput>,
) -> (Rooms, RequestContext, ContainerHandle) {
    let shard = Shard::open(ShardOptions::memory()).await.expect("opens");
    let options = ServingOptions {
        limits: Limits::default(),
        clock: clock.clone(),
        random: Random::seeded(1),
        consistency: ConsistencyLevel::default(),
        throughput: ThroughputRules {
            enforcement: Enforcement::Enforced,
            capacity: CapacityMode::Provisioned,
            burst: Burst::Off,
        },
        heat: HeatRecording::On,
        reach: Reach::Direct,
    };
    let serving = Serving::open(vec![shard].into(), options).await.expect("opens");
    let scripts = Scripts::new(ScriptSettings { clock: clock.clone(), ..ScriptSettings::default() });
    let resources = Resources::new(serving.clone(), scripts.clone(), Default::default(), Default::default());
    let runs = ScriptRuns::new(Queries::new(Items::new(serving), scripts.clone()), scripts);
    let runs = Rooms { runs, resources };
    let ctx = RequestContext::internal(clock, runs.runs.router().random().guid());
    runs.resources.create_database(&ctx, "db", None).await.expect("created");
    let definition = ContainerDefinition::new("c", PartitionKeyDefinition::hash("/pk"));
    let container =
        runs.resources.create_container(&ctx, "db", definition, throughput).await.expect("created");
    (runs, ctx, container)
}

async fn begin<'a>(
    runs: &'a ScriptRuns,
    ctx: &RequestContext,
    container: &'a ContainerHandle,
) -> Result<ScriptRun<'a>> {
    let logical = key_of_read(container, Some(&key())).expect("a key");
    let partition = partition_of(&container.entry, &logical);
    let touched = Touched::Logical(&logical);
    let mut permit = partition.hosted().admit(ctx, OperationKind::Write, touched)?;
    runs.begin_run(ctx, &container.entry, (partition, &logical), 1, &mut permit).await
}

fn first(container: &ContainerHandle) -> PartitionHandle {
    partition_of(&container.entry, &key_of_read(container, Some(&key())).expect("a key")).clone()
}

fn tab(runs: &ScriptRuns, ctx: &RequestContext, container: &ContainerHandle) -> ProcessorTab {
    ProcessorTab::open(runs.router(), ctx, &container.entry, &first(container))
}

async fn create(run: &mut ScriptRun<'_>, id: &str) -> StoreReply {
    let request = StoreRequest {
        operation: StoreOperation::CreateDocument,
        link: "dbs/db/colls/c".to_owned(),
        body: Some(format!(r#"{{"id":"{id}","pk":"a"}}"#)),
        if_match: None,
        if_none_match: None,
        page_size: None,
        continuation: None,
        disables_id_generation: false,
        wants_body: true,
    };
    run.store.call(request).await
}

#[tokio::test]
async fn calls_end_with_the_time_of_their_script() {
    let clock = Clock::manual(Timestamp(1_700_000_000_000));
    let (runs, ctx, container) = account(&clock).await;
    let mut run = begin(&runs.runs, &ctx, &container).await.expect("free");
    // Its time starts when it gets its worker.
    clock.advance(Duration::from_secs(10));
    run.store.begin();
    assert!(create(&mut run, "1").await.accepts_more);
    clock.advance(Duration::from_millis(4100));
    let late = create(&mut run, "2").await;
    assert!(late.outcome.is_ok() && !late.accepts_more, "accepted calls still complete: {late:?}");
    clock.advance(Duration::from_secs(1));
    let too_late = create(&mut run, "3").await;
    assert!(too_late.outcome.is_err() && !too_late.accepts_more, "{too_late:?}");
    let fatal = run.store.take_fatal().expect("the script may not go on");
    assert_eq!(fatal.kind(), ErrorKind::Forbidden);
    let refused = run.finish::<()>(Err(fatal)).await.map(drop).expect_err("given up");
    assert!(refused.meta().charge_centi > 2 * 500, "{refused:?}");
    let read = ItemRead { item: "1".into(), preconditions: Default::default() };
    let read = runs.runs.items().read(&ctx, &container, ReadCommand { key: Some(key()), read }).await;
    assert_eq!(read.expect_err("nothing was written").kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn the_time_of_the_request_counts_before_that_of_the_script() {
    let clock = Clock::manual(Timestamp(1_700_000_000_000));
    let (runs, ctx, container) = account(&clock).await;
    let ctx = RequestContext { deadline: clock.elapsed() + Duration::from_secs(1), ..ctx };
    let mut run = begin(&runs.runs, &ctx, &container).await.expect("free");
    run.store.begin();
    clock.advance(Duration::from_secs(2));
    assert!(create(&mut run, "1").await.outcome.is_err());
    assert_eq!(run.store.take_fatal().expect("no time is left").kind(), ErrorKind::Timeout);
    // Who waits for the logical partition waits no longer than the request may.
    let waited = begin(&runs.runs, &ctx, &container).await.map(drop);
    assert_eq!(waited.expect_err("held").kind(), ErrorKind::Timeout);
    drop(run);
    drop(begin(&runs.runs, &ctx, &container).await.expect("free again"));
}

#[tokio::test]
async fn who_waits_for_a_worker_keeps_nobody_from_writing() {
    let clock = Clock::manual(Timestamp(1_700_000_000_000));
    let (runs, ctx, container) = account(&clock).await;
    let rid = container.entry.record.container.rid;
    let turn = || runs.runs.0.scripts.try_turn(ScriptKey { container: rid, script: 1 }, Meter::default());
    let mut busy: Vec<_> = std::iter::from_fn(turn).collect();
    let mut waiting = Box::pin(begin(&runs.runs, &ctx, &container));
    assert!(futures::poll!(&mut waiting).is_pending());
    let body = item_of_json(br#"{"id":"1","pk":"a"}"#, runs.runs.router().limits()).expect("an item");
    let write = runs.runs.items().write_item(&ctx, &container, WriteCommand::create(body));
    tokio::time::timeout(Duration::from_secs(30), write).await.expect("does not wait").expect("written");
    busy.pop();
    let mut run = waiting.await.expect("has its turn");
    run.store.begin();
    let taken = create(&mut run, "1").await.outcome.expect_err("it sees what was written meanwhile");
    assert_eq!(taken.number, 409);
    drop(run);
    // A request without time left gets an error that names the reason for the wait.
    busy.extend(turn());
    let ctx = RequestContext { deadline: clock.elapsed(), ..ctx };
    let waited = begin(&runs.runs, &ctx, &container).await.map(drop).expect_err("no worker");
    assert_eq!(waited.kind(), ErrorKind::Timeout);
    assert!(waited.message().contains("all workers busy"), "{waited}");
}

#[test]
fn a_run_that_is_dropped_leaves_the_logical_partition_free() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let clock = Clock::manual(Timestamp(1_700_000_000_000));
        let (runs, ctx, container) = account(&clock).await;
        let definition = ScriptDefinition {
            kind: ScriptKind::Procedure,
            id: "p".to_owned(),
            body: "function f() { getContext().getCollection().createDocument('dbs/db/colls/c', {id: '1', pk: 'a'}); }"
                .to_owned(),
            trigger: None,
            spelling: None,
        };
        let script = runs.resources.create_script(&ctx, &container, definition).await.expect("registered");
        let key = key();
        let run = runs.runs.execute_procedure(&ctx, &container, Some(&key), &script, "[]", false);
        // Its first step holds the logical partition, or waits for a worker with it.
        let mut run = Box::pin(run);
        assert!(futures::poll!(&mut run).is_pending());
        drop(run);
        let reply = runs.runs.execute_procedure(&ctx, &container, Some(&key), &script, "[]", false).await;
        assert_eq!(reply.expect("runs").meta.lsn, 1, "the other one has written nothing");
    });
}

#[tokio::test]
async fn procedure_that_expects_failures_is_answered_and_charged_alike_with_and_without_foresight() {
    let clock = Clock::manual(Timestamp(1_700_000_000_000));
    let (runs, ctx, container) = account(&clock).await;
    let body = "function f() {
        const collection = getContext().getCollection(), link = collection.getSelfLink();
        collection.upsertDocument(link, {id: '2', pk: 'a', n: 1}, () => { });
        collection.createDocument(link, {id: '1', pk: 'a'}, (error) =>
            getContext().getResponse().setBody(error ? error.number : 'created'));
    }";
    let definition = ScriptDefinition {
        kind: ScriptKind::Procedure,
        id: "p".to_owned(),
        body: body.to_owned(),
        trigger: None,
        spelling: None,
    };
    let script = runs.resources.create_script(&ctx, &container, definition).await.expect("registered");
    let key = key();
    let mut replies = Vec::new();
    // The first is as foreseen, the second is misjudged and made again, the third is made with care.
    for _ in 0..3 {
        let reply = runs.runs.execute_procedure(&ctx, &container, Some(&key), &script, "[]", false).await;
        let reply = reply.expect("runs");
        replies.push((reply.body.expect("a body"), reply.meta.lsn, reply.meta.charge_centi));
    }
    let told: Vec<(&str, u64)> = replies.iter().map(|(body, lsn, _)| (body.as_str(), *lsn)).collect();
    assert_eq!(told, [("\"created\"", 1), ("409", 2), ("409", 3)]);
    assert_eq!(replies[1].2, replies[2].2, "what was given up is not charged");
}

/// Many wait while one computes; when their turn comes, its bill has come, too.
#[tokio::test]
async fn the_budget_is_asked_again_when_a_turn_comes() {
    let clock = Clock::manual(Timestamp(1_700_000_000_000));
    let (runs, ctx, container) = enforced_account(&clock).await;
    let ctx = RequestContext { priority: Priority::High, ..ctx };
    let rid = container.entry.record.container.rid;
    let mut busy: Vec<_> = std::iter::from_fn(|| {
        runs.runs.0.scripts.try_turn(ScriptKey { container: rid, script: 1 }, Meter::default())
    })
    .collect();
    let mut waiting = Box::pin(begin(&runs.runs, &ctx, &container));
    assert!(futures::poll!(&mut waiting).is_pending());
    let tab = tab(&runs.runs, &ctx, &container);
    tab.meter().add(Duration::from_secs(5));
    drop(tab);
    busy.pop();
    let refused = waiting.await.map(drop).expect_err("the budget is in debt");
    assert_eq!(refused.kind(), ErrorKind::TooManyRequests);
    assert!(refused.retry_after_ms().is_some());
    assert_eq!(refused.meta().charge_centi, 0, "nothing was done");
}

#[tokio::test]
async fn a_tab_that_nobody_paid_is_the_budgets() {
    let clock = Clock::manual(Timestamp(1_700_000_000_000));
    let (runs, ctx, container) = enforced_account(&clock).await;
    let level = || runs.runs.router().throughput_of(&container).partitions[0].1.level_centi;
    let before = level();
    let five_seconds = |priority| {
        let tab = tab(&runs.runs, &RequestContext { priority, ..ctx.clone() }, &container);
        tab.meter().add(Duration::from_secs(5));
        tab
    };
    drop(five_seconds(Priority::System));
    five_seconds(Priority::High).paid();
    assert_eq!(level(), before, "paid, or nobody's to pay");
    assert_eq!(five_seconds(Priority::High).pay_beyond(9_000), 490_000);
    assert_eq!(level(), before - 490_000);
    drop(five_seconds(Priority::High));
    assert_eq!(level(), before - 490_000 - 499_000);
}

/// A batch of a function that does not end takes the page's time; the row that needs it is not given that time again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_that_does_not_end_takes_the_time_of_a_page_once() {
    let (runs, ctx, container) = account(&Clock::System).await;
    let definition = ScriptDefinition {
        kind: ScriptKind::Function,
        id: "f".to_owned(),
        body: "function f(x) { while (x); return x; }".to_owned(),
        trigger: None,
        spelling: None,
    };
    runs.resources.create_script(&ctx, &container, definition).await.expect("registered");
    let container = runs.resources.router().container("db", "c").expect("there");
    let query = runs.runs.queries().parsed("SELECT VALUE udf.f(c.x) FROM c", &[]).expect("a query");
    let asked = Asked { query: &query, parameters: &[], hash: 0 };
    let known = runs.runs.queries().known(&ctx, &container.entry, asked).expect("is bound");
    let running = runs.runs.queries().prepare(&ctx, &container.entry, &known, &[]).expect("prepares");
    let source = running.function_source(&first(&container)).await.expect("a turn");
    let calls = move || {
        let mut functions = source.open_within(Duration::from_millis(300));
        let row = |json: &str| vec![Some(json.to_owned())];
        let batch = functions.call("f", &[row("0"), row("1"), row("0")]).expect_err("does not end");
        let needed = functions.call("f", &[row("1")]).expect_err("does not end");
        (batch, needed, functions.call("f", &[row("0")]).expect("ends"))
    };
    let (batch, needed, ends) = tokio::task::spawn_blocking(calls).await.expect("no panic");
    assert!(batch.message().contains("more than 0.3 s"), "{batch}");
    assert!(needed.message().contains("more than 0.05 s"), "{needed}");
    assert_eq!(ends, [Some("0".to_owned())]);
    // The turn came back, and the container is a known offender.
    assert!(
        runs.runs
            .0
            .scripts
            .try_turn(
                ScriptKey { container: container.entry.record.container.rid, script: 1 },
                Meter::default()
            )
            .is_some()
    );
}
