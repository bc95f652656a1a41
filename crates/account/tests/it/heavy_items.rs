//! Items with very many properties: their cost for other requests, and the limit of terms per item.
//!
//! Tests here count terms on the thread that answers requests. Each test's runtime has one thread, its own.

use crate::support::json_door::{BatchKind, BatchOperation, JsonDoor, KeyInput, Patch};
use std::sync::Arc;

use crate::support::{Fixture, ended, eventually, json, none};
use shardlake_account::{
    AccountOptions, BulkOnError, ContainerHandle, PatchOperation, Purging, SplitAt, Value, verify,
};
use shardlake_model::{
    ContainerDefinition, Error, ErrorKind, IndexingPolicy, Limits, PartitionKeyDefinition,
};
use shardlake_partition::witness::terms_here;
use shardlake_storage::fault::FaultEngine;
use shardlake_storage::{Durability, OVERSIZE_COMMIT_ROWS, SMALL_COMMIT_ROWS, Shard, ShardOptions};

const A: Option<KeyInput<'static>> = Some(KeyInput(r#"["a"]"#));
/// Numbers of a heavy item here: some 130 KB of text.
const NUMBERS: usize = 20_000;
/// Terms that small items and their surroundings may cost the thread.
const FEW: usize = 200;

fn definition(policy: &str) -> ContainerDefinition {
    let mut definition = ContainerDefinition::new("c", PartitionKeyDefinition::hash("/pk"));
    definition.indexing_policy = serde_json::from_str::<IndexingPolicy>(policy).expect("a policy");
    definition
}

fn numbers(first: usize, count: usize) -> String {
    let numbers: Vec<String> = (first..first + count).map(|number| number.to_string()).collect();
    format!("[{}]", numbers.join(","))
}

/// An item with `count` properties outside of arrays, which are never summarised.
fn wide(id: &str, count: usize) -> Vec<u8> {
    let members: Vec<String> = (0..count).map(|number| format!("\"p{number}\":0")).collect();
    format!(r#"{{"id":"{id}","pk":"a",{}}}"#, members.join(",")).into_bytes()
}

/// An item with the numbers from `first` on.
fn heavy(id: &str, first: usize, count: usize) -> Vec<u8> {
    format!(r#"{{"id":"{id}","pk":"a","n":{}}}"#, numbers(first, count)).into_bytes()
}

fn operation(kind: BatchKind, id: &str, body: Option<Vec<u8>>) -> BatchOperation {
    BatchOperation {
        kind,
        id: Some(id.to_owned()),
        body,
        patch: None,
        partition_key: None,
        preconditions: none(),
    }
}

fn set(path: &str, value: Value) -> Patch {
    let operations = vec![PatchOperation::Set { path: vec![path.to_owned()], value }];
    Patch { operations, condition: None }
}

struct World {
    engine: FaultEngine,
    shard: Shard,
    fixture: Fixture,
    container: ContainerHandle,
}

/// With a limit of index terms that an item of some 200 KB exceeds.
const TERMS_MAX: usize = 25_000;

impl World {
    async fn new(policy: &str) -> World {
        World::with(policy, Limits::default()).await
    }

    async fn limited(policy: &str) -> World {
        World::with(policy, Limits { item_index_terms_max: TERMS_MAX, ..Limits::default() }).await
    }

    async fn with(policy: &str, limits: Limits) -> World {
        let engine = FaultEngine::new();
        let options = ShardOptions { durability: Durability::Sync, ..ShardOptions::memory() };
        let shard = Shard::with_engine(Arc::new(engine.clone()), &options).expect("opens");
        let options = AccountOptions { limits, purging: Purging::WhenAsked, ..AccountOptions::default() };
        let fixture = Fixture::over_with(&shard, options).await;
        let container = fixture.container_with(definition(policy), 400).await;
        World { engine, shard, fixture, container }
    }

    async fn upsert(&self, body: &[u8]) -> shardlake_model::Result<()> {
        let (ctx, account) = (self.fixture.ctx(), &self.fixture.account);
        account.upsert_item(&ctx, &self.container, A, body, &none()).await.map(drop)
    }

    /// How many items a query finds by one number.
    async fn found(&self, number: usize) -> usize {
        let text = format!("SELECT c.id FROM c WHERE ARRAY_CONTAINS(c.n, {number})");
        self.fixture.answer(&self.container, &text, 100).await.expect("a query").rows.len()
    }

    async fn expect_sound(&self) {
        let report = verify(&self.shard).await.expect("readable");
        assert_eq!(report.problem_count(), 0, "{report:#?}");
    }
}

#[tokio::test]
async fn no_way_of_writing_a_heavy_item_works_on_its_terms_where_requests_are_answered() {
    let world = World::new("{}").await;
    let (account, container, ctx) = (&world.fixture.account, &world.container, || world.fixture.ctx());
    let before = terms_here();
    account.create_item(&ctx(), container, A, &heavy("h", 0, NUMBERS)).await.expect("created");
    world.upsert(&heavy("h", 1, NUMBERS)).await.expect("replaced");
    account
        .replace_item(&ctx(), container, A, "h", &heavy("h", 2, NUMBERS), &none())
        .await
        .expect("replaced");
    let by_one = set("x", Value::from_json(b"1", &Default::default()).expect("a value"));
    account.patch_item(&ctx(), container, A, "h", by_one, &none()).await.expect("patched");
    assert_eq!((world.found(1).await, world.found(2).await, world.found(NUMBERS + 1).await), (0, 1, 1));
    let text = numbers(7, NUMBERS);
    let by_many = set("n", Value::from_json(text.as_bytes(), &Default::default()).expect("a value"));
    account.patch_item(&ctx(), container, A, "h", by_many, &none()).await.expect("patched");
    let operations = vec![
        operation(BatchKind::Replace, "h", Some(heavy("h", 3, NUMBERS))),
        operation(BatchKind::Create, "i", Some(heavy("i", 9, NUMBERS))),
        operation(BatchKind::Delete, "i", None),
    ];
    let batch = account.json_batch(&ctx(), container, KeyInput(r#"["a"]"#), operations).await.expect("runs");
    assert!(batch.outcome.is_ok(), "{:?}", batch.outcome);
    let mut bulk = operation(BatchKind::Upsert, "j", Some(heavy("j", 4, NUMBERS)));
    bulk.partition_key = Some(r#"["a"]"#.to_owned());
    let replies =
        account.json_bulk(&ctx(), container, None, vec![bulk], BulkOnError::Continue).await.expect("runs");
    assert!(replies.iter().all(Result::is_ok));
    world.upsert(br#"{"id":"h","pk":"a","n":[5]}"#).await.expect("a small one in the place of a heavy one");
    account.delete_item(&ctx(), container, A, "j", &none()).await.expect("deleted");
    assert!(terms_here() - before < FEW, "{} terms", terms_here() - before);
    assert_eq!((world.found(5).await, world.found(6).await), (1, 0));
    world.expect_sound().await;
}

#[tokio::test]
async fn neither_sweeps_nor_builds_nor_splits_work_on_heavy_terms_where_requests_are_answered() {
    let world = World::new(r#"{"includedPaths":[{"path":"/id/?"}],"excludedPaths":[{"path":"/*"}]}"#).await;
    let (account, ctx) = (&world.fixture.account, world.fixture.ctx());
    for id in 0..4 {
        world.upsert(&wide(&format!("h{id}"), NUMBERS)).await.expect("written");
    }
    let before = terms_here();
    let groups = world.engine.group_rows().len();
    account
        .definitions()
        .replace_container(&ctx, "db", "c", definition("{}"), &none())
        .await
        .expect("replaced");
    let progress = || account.router().container("db", "c").expect("there").index_progress();
    eventually("the index is built", async || progress() == 100).await;
    let groups = world.engine.group_rows().split_off(groups);
    assert!(groups.iter().sum::<usize>() > 4 * NUMBERS);
    assert!(groups.iter().all(|rows| *rows < NUMBERS / 2), "an item's entries come in pieces: {groups:?}");
    let container = account.router().container("db", "c").expect("there");
    account
        .maintenance()
        .split(&container, 0, SplitAt::Middle)
        .await
        .expect("begins")
        .finished()
        .await
        .expect("ends");
    let mut expiring = definition("{}");
    expiring.default_ttl = Some(10);
    account.definitions().replace_container(&ctx, "db", "c", expiring, &none()).await.expect("replaced");
    world.fixture.clock.advance(std::time::Duration::from_secs(60));
    account
        .maintenance()
        .purge_expired(&account.router().container("db", "c").expect("there"))
        .await
        .expect("purged");
    assert_eq!(account.statistics().items, 0);
    assert!(terms_here() - before < FEW, "{} terms", terms_here() - before);
}

/// An item of nearly 2 MB: a post with some 50,000 comments, of more than 100,000 values.
fn largest(id: &str) -> Vec<u8> {
    const BYTES: usize = 2 * 1024 * 1024 - 1024;
    let mut body = format!(r#"{{"id":"{id}","pk":"a","first":["x"],"comments":["#).into_bytes();
    let mut number = 0;
    while body.len() < BYTES {
        let next = format!(r#"{{"id":"c{number}","by":"u{}","likes":{number}}},"#, number % 800);
        body.extend_from_slice(next.as_bytes());
        number += 1;
    }
    body.extend_from_slice(b"0]}");
    body
}

#[tokio::test]
async fn items_of_2_mb_are_stored_found_and_deleted_in_commits_of_few_rows() {
    let world = World::new("{}").await;
    let (account, container, ctx) = (&world.fixture.account, &world.container, || world.fixture.ctx());
    let found = async |filter: &str| {
        let text = format!("SELECT VALUE c.id FROM c WHERE {filter}");
        world.fixture.answer(container, &text, 100).await.expect("a query").rows.len()
    };
    let present = "EXISTS(SELECT VALUE t FROM t IN c.comments WHERE t['by'] = 'u7')";
    let absent = "ARRAY_CONTAINS(c.comments, {'by':'no'}, true)";
    let before = terms_here();
    let created = account.create_item(&ctx(), container, A, &largest("h")).await.expect("stored");
    // The row of 2 MiB; of the terms below arrays the maximum; and `id`, `pk` and two of the system.
    assert_eq!(
        created.meta.charge_centi,
        125_000 + 20 * (Limits::default().index_terms_exact_max as u64 + 4)
    );
    assert_eq!((found(present).await, found(absent).await), (1, 0));
    assert_eq!((found("ARRAY_CONTAINS(c.first, 'x')").await, found("c.pk = 'a'").await), (1, 1));
    // Checks work on the terms of all items.
    let of_create = terms_here() - before;
    world.expect_sound().await;
    account
        .maintenance()
        .split(container, 0, SplitAt::Middle)
        .await
        .expect("begins")
        .finished()
        .await
        .expect("ends");
    let container = &account.router().container("db", "c").expect("there");
    let found = async |filter: &str| {
        let text = format!("SELECT VALUE c.id FROM c WHERE {filter}");
        world.fixture.answer(container, &text, 100).await.expect("a query").rows.len()
    };
    assert_eq!((found(present).await, found(absent).await), (1, 0), "after a split");
    world.expect_sound().await;
    let before = terms_here() - of_create;
    account.delete_item(&ctx(), container, A, "h", &none()).await.expect("deleted");
    assert_eq!((found(present).await, found("c.pk = 'a'").await), (0, 0));
    assert!(terms_here() - before < FEW, "{} terms where requests are answered", terms_here() - before);
    let most = world.engine.group_rows().into_iter().max().expect("something was written");
    assert!(most <= Limits::default().index_terms_exact_max + FEW, "a commit of {most} rows");
    world.expect_sound().await;
}

#[tokio::test]
async fn heavy_items_are_whole_after_a_crash() {
    let world = World::new("{}").await;
    world.upsert(&largest("h")).await.expect("stored");
    world.upsert(&wide("w", OVERSIZE_COMMIT_ROWS)).await.expect("stored");
    world.upsert(&wide("w", OVERSIZE_COMMIT_ROWS + 1)).await.expect("replaced");
    let engine = world.engine.crash(0);
    let options = ShardOptions { durability: Durability::Sync, ..ShardOptions::memory() };
    let shard = Shard::with_engine(Arc::new(engine), &options).expect("opens");
    assert_eq!(verify(&shard).await.expect("readable").problem_count(), 0);
    let fixture = Fixture::over(shard).await;
    let container = fixture.account.router().container("db", "c").expect("there");
    for filter in
        [format!("c.p{OVERSIZE_COMMIT_ROWS} = 0"), "ARRAY_CONTAINS(c.comments, {'by':'u7'}, true)".to_owned()]
    {
        let text = format!("SELECT VALUE c.id FROM c WHERE {filter}");
        assert_eq!(fixture.answer(&container, &text, 100).await.expect("a query").rows.len(), 1, "{filter}");
    }
}

#[tokio::test]
async fn more_terms_than_an_item_may_have_are_refused_whichever_way_they_come() {
    let world = World::limited("{}").await;
    let (account, container, ctx) = (&world.fixture.account, &world.container, || world.fixture.ctx());
    let max = TERMS_MAX;
    // Besides the numbers: the array, the id and the key.
    world.upsert(&heavy("full", 0, max - 3)).await.expect("as many as there may be");
    let expect = |refused: Error| {
        assert_eq!(refused.kind(), ErrorKind::TooLarge);
        assert!(refused.message().contains("index terms, more than the limit of 25000"), "{refused}");
        assert!(refused.message().contains("exclude paths"), "{refused}");
    };
    let body = heavy("more", 0, max - 2);
    expect(account.create_item(&ctx(), container, A, &body).await.expect_err("too many"));
    expect(world.upsert(&body).await.expect_err("too many"));
    let batch = vec![operation(BatchKind::Create, "more", Some(body.clone()))];
    let batch = account.json_batch(&ctx(), container, KeyInput(r#"["a"]"#), batch).await.expect("runs");
    expect(batch.outcome.expect_err("too many").error);
    let more = Value::from_json(b"[1,2,3]", &Default::default()).expect("a value");
    expect(
        account
            .patch_item(&ctx(), container, A, "full", set("m", more), &none())
            .await
            .expect_err("too many"),
    );
    let full = account.read_item(&ctx(), container, A, "full", &none()).await.expect("there");
    assert_eq!(json(&full.item.expect("an item"))["n"].as_array().map(Vec::len), Some(max - 3));
    let excluding = r#"{"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/n/*"}]}"#;
    account
        .definitions()
        .replace_container(&ctx(), "db", "c", definition(excluding), &none())
        .await
        .expect("replaced");
    let container = || account.router().container("db", "c").expect("there");
    eventually("the new policy is in force", async || container().index_progress() == 100).await;
    account.create_item(&ctx(), &container(), A, &body).await.expect("its paths are excluded");
}

#[tokio::test]
async fn an_item_stored_with_more_terms_than_a_later_policy_allows_stays_whole_and_is_found() {
    let world =
        World::limited(r#"{"includedPaths":[{"path":"/id/?"}],"excludedPaths":[{"path":"/*"}]}"#).await;
    let (account, ctx) = (&world.fixture.account, || world.fixture.ctx());
    let count = 2 * TERMS_MAX;
    world.upsert(&heavy("h", 0, count)).await.expect("written");
    account
        .definitions()
        .replace_container(&ctx(), "db", "c", definition("{}"), &none())
        .await
        .expect("replaced");
    let container = || account.router().container("db", "c").expect("there");
    eventually("the index is built", async || container().index_progress() == 100).await;
    let answer = async |number: usize| {
        let text = format!("SELECT c.id FROM c WHERE ARRAY_CONTAINS(c.n, {number})");
        world.fixture.answer(&container(), &text, 100).await.expect("a query").rows.len()
    };
    assert_eq!((answer(0).await, answer(count - 1).await, answer(count).await), (1, 1, 0));
    world.expect_sound().await;
    let one = set("x", Value::from_json(b"1", &Default::default()).expect("a value"));
    let refused = account.patch_item(&ctx(), &container(), A, "h", one, &none()).await.expect_err("too many");
    assert_eq!(refused.kind(), ErrorKind::TooLarge);
    account.delete_item(&ctx(), &container(), A, "h", &none()).await.expect("it may always go");
    assert_eq!(answer(0).await, 0);
    world.expect_sound().await;
}

#[tokio::test]
async fn small_writes_pass_large_commits_that_wait_and_heavy_requests_beyond_the_room_are_refused() {
    let world = World::new("{}").await;
    let fixture = Arc::new(world.fixture);
    let other = ContainerDefinition::new("other", PartitionKeyDefinition::hash("/pk"));
    let other = fixture.container_with(other, 400).await;
    world.engine.stall_syncs(true);
    // The memory budget holds eight, sixty-four may wait for it.
    let long = "x".repeat(1_000_000);
    let heavy: Vec<_> = (0..100)
        .map(|number| {
            let (fixture, container) = (fixture.clone(), world.container.clone());
            let (many, long) = (numbers(number, 2 * SMALL_COMMIT_ROWS), long.clone());
            tokio::spawn(async move {
                let body = format!(r#"{{"id":"h{number}","pk":"a","n":{many},"long":"{long}"}}"#);
                fixture.account.create_item(&fixture.ctx(), &container, A, body.as_bytes()).await.map(drop)
            })
        })
        .collect();
    // Of the rest, some are at work and others wait for memory.
    let refused = || heavy.iter().filter(|request| request.is_finished()).count();
    eventually("some are refused", async || refused() >= 28).await;
    eventually("the engine is at work", async || world.engine.is_stalling()).await;
    let before = world.engine.group_rows().len();
    let small = {
        let (fixture, other) = (fixture.clone(), other.clone());
        tokio::spawn(async move {
            let body = br#"{"id":"s","pk":"a"}"#;
            fixture.account.create_item(&fixture.ctx(), &other, A, body).await.map(drop)
        })
    };
    world.engine.stall_syncs(false);
    small.await.expect("no panic").expect("written");
    let groups = world.engine.group_rows().split_off(before);
    let large_before = groups.iter().filter(|rows| **rows > SMALL_COMMIT_ROWS).count();
    assert!(large_before <= 4, "{groups:?}: {large_before} large commits went before a small one");
    let mut written = 0;
    for request in heavy {
        match request.await.expect("no panic") {
            Ok(()) => written += 1,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::TooManyRequests);
                assert!(error.retry_after_ms().is_some(), "clients are told when to come back");
            }
        }
    }
    assert_eq!(written, 72, "those at work and those that waited for room");
    let report = verify(&world.shard).await.expect("readable");
    assert_eq!(report.problem_count(), 0, "{report:#?}");
}

/// Writers that look ahead, that meet heavy items unawares, that find out only at the end how large
/// their commit is, and splits that hold all of them: a permit holder may wait for a sequencer, but
/// never the other way round.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heavy_writes_of_every_kind_wait_for_each_other_in_one_order() {
    let world = World::new("{}").await;
    let fixture = Arc::new(world.fixture);
    let padding = Arc::new("x".repeat(70_000));
    let writer = |number: usize| -> tokio::task::JoinHandle<shardlake_model::Result<()>> {
        let (fixture, container, padding) = (fixture.clone(), world.container.clone(), padding.clone());
        tokio::spawn(async move {
            let (account, key) = (&fixture.account, format!(r#"["k{}"]"#, number % 3));
            let key = KeyInput(&key);
            let body = |id: String, first: usize| {
                let (n, pk) = (numbers(first, 2 * SMALL_COMMIT_ROWS), number % 3);
                format!(r#"{{"id":"{id}","pk":"k{pk}","n":{n},"rest":"{padding}"}}"#).into_bytes()
            };
            for step in 0..6 {
                let (id, ctx) = (format!("h{number}"), fixture.ctx());
                account.upsert_item(&ctx, &container, Some(key), &body(id.clone(), step), &none()).await?;
                let moved = Value::from_json(numbers(9000 * step, 1500).as_bytes(), &Default::default());
                let patch = set("n", moved.expect("a value"));
                account.patch_item(&fixture.ctx(), &container, Some(key), &id, patch, &none()).await?;
                let small: Vec<_> = (0..60)
                    .map(|item| {
                        let body = format!(
                            r#"{{"id":"s{number}-{item}","pk":"k{}","n":{}}}"#,
                            number % 3,
                            numbers(step * 40, 40)
                        );
                        operation(BatchKind::Upsert, &format!("s{number}-{item}"), Some(body.into_bytes()))
                    })
                    .collect();
                let batch = account.json_batch(&fixture.ctx(), &container, key, small).await?;
                batch.outcome.map_err(|failure| failure.error)?;
                account.delete_item(&fixture.ctx(), &container, Some(key), &id, &none()).await?;
            }
            Ok::<_, shardlake_model::Error>(())
        })
    };
    let writers: Vec<_> = (0..6).map(writer).collect();
    for _ in 0..2 {
        let current = fixture.account.router().container("db", "c").expect("there");
        let range = current.partition_key_ranges()[0].id;
        let split =
            fixture.account.maintenance().split(&current, range, SplitAt::Middle).await.expect("begins");
        ended("a split", split.finished()).await.expect("ends");
    }
    for writer in writers {
        ended("a writer", writer).await.expect("no panic").expect("written");
    }
    let report = verify(&world.shard).await.expect("readable");
    assert_eq!(report.problem_count(), 0, "{report:#?}");
}
