//! Unique keys: which values are equal, and that at most one item has one, also with concurrent writers.

use crate::support::json_door::{BatchKind, BatchOperation, JsonDoor, KeyInput, Patch};
use std::sync::Arc;
use std::time::Duration;

use crate::support::{Fixture, none};
use shardlake_account::{AccountOptions, ContainerHandle, PatchOperation, Purging, SplitAt, Value, verify};
use shardlake_model::{
    ContainerDefinition, ErrorKind, PartitionKeyDefinition, Preconditions, Result, UniqueKey,
};
use shardlake_storage::{Shard, ShardOptions};

const A: Option<KeyInput<'static>> = Some(KeyInput(r#"["a"]"#));
const WRITERS: usize = 24;

fn definition(keys: &[&[&str]]) -> ContainerDefinition {
    let mut definition = ContainerDefinition::new("c", PartitionKeyDefinition::hash("/pk"));
    definition.default_ttl = Some(-1);
    let unique = |paths: &&[&str]| UniqueKey { paths: paths.iter().map(|path| (*path).into()).collect() };
    definition.unique_key_policy.unique_keys = keys.iter().map(unique).collect();
    definition
}

async fn create(fixture: &Fixture, c: &ContainerHandle, body: &str) -> Result<()> {
    fixture.account.create_item(&fixture.ctx(), c, None, body.as_bytes()).await.map(drop)
}

#[track_caller]
fn expect_conflict(outcome: Result<()>, what: &str) {
    let error = outcome.expect_err(what);
    assert_eq!(error.kind(), ErrorKind::Conflict, "{what}: {error:?}");
    assert!(error.to_string().contains("Unique index constraint violation"), "{what}: {error}");
}

#[tokio::test]
async fn values_are_the_same_or_not_as_items_hold_them() {
    let long = "x".repeat(100_000);
    let quoted = |text: &str| format!("\"{text}\"");
    let member = |value: &str| format!(r#","u":{value}"#);
    let (long_a, long_b) = (member(&quoted(&format!("{long}a"))), member(&quoted(&format!("{long}b"))));
    // Lists of members; values within a list are equal, values of different lists are not.
    let classes: Vec<Vec<String>> = vec![
        vec![String::new(), member("null"), member("[]"), member("[1]"), member("{}"), member(r#"{"a":1}"#)],
        vec![member("1"), member("1.0"), member("1e0"), member("10e-1")],
        vec![member("0"), member("-0.0"), member("0e5")],
        vec![member("9007199254740993")],
        vec![member("9007199254740992"), member("9007199254740992.0")],
        vec![member("1e300")],
        vec![member("true")],
        vec![member("false")],
        vec![member("\"1\"")],
        vec![member("\"a\""), member("\"\\u0061\"")],
        vec![member("\"A\"")],
        vec![member("\"a \"")],
        vec![member("\"\"")],
        vec![member("\"null\"")],
        // One character, or a letter and its accent: different values.
        vec![member("\"é\"")],
        vec![member("\"e\u{301}\"")],
        vec![member("\"a\\u0000b\"")],
        vec![member("\"a\\u0000\"")],
        vec![long_a],
        vec![long_b],
    ];
    let fixture = Fixture::new().await;
    let c = fixture.container_with(definition(&[&["/u"]]), 400).await;
    for (number, class) in classes.iter().enumerate() {
        let shown: String = class[0].chars().take(40).collect();
        let first = format!(r#"{{"id":"{number}","pk":"a"{}}}"#, class[0]);
        create(&fixture, &c, &first).await.unwrap_or_else(|error| panic!("{shown} is of its own: {error}"));
        for same in class {
            let other = format!(r#"{{"id":"other","pk":"a"{same}}}"#);
            expect_conflict(create(&fixture, &c, &other).await, same);
            let elsewhere = format!(r#"{{"id":"{number}","pk":"b{number}"{same}}}"#);
            fixture
                .account
                .upsert_item(&fixture.ctx(), &c, None, elsewhere.as_bytes(), &none())
                .await
                .expect("another logical partition");
            // An item may keep its value.
            let same = format!(r#"{{"id":"{number}","pk":"a"{same},"more":1}}"#);
            fixture
                .account
                .upsert_item(&fixture.ctx(), &c, None, same.as_bytes(), &none())
                .await
                .expect("kept");
        }
    }
}

#[tokio::test]
async fn several_paths_are_unique_together_and_several_keys_each_for_itself() {
    let fixture = Fixture::new().await;
    let c = fixture.container_with(definition(&[&["/a", "/deep/b"], &["/c"]]), 400).await;
    let body = |id: &str, more: &str| format!(r#"{{"id":"{id}","pk":"a",{more}}}"#);
    let first = body("1", r#""a":1,"deep":{"b":2},"c":3"#);
    create(&fixture, &c, &first).await.expect("created");
    create(&fixture, &c, &body("2", r#""a":1,"deep":{"b":3},"c":4"#)).await.expect("one path differs");
    create(&fixture, &c, &body("3", r#""a":2,"deep":{"b":1},"c":5"#)).await.expect("crossed");
    create(&fixture, &c, &body("4", r#""a":"1,2","c":6"#)).await.expect("not a matter of text");
    for more in [r#""a":1,"deep":{"b":2},"c":9"#, r#""a":9,"c":3"#, r#""a":"1,2","deep":{"x":1},"c":9"#] {
        expect_conflict(create(&fixture, &c, &body("9", more)).await, more);
    }
}

/// One way to claim the value `wanted`, for the writer with a number.
#[derive(Debug, Clone, Copy)]
enum Way {
    Create,
    Upsert,
    Replace,
    Rename,
    Patch,
    Batch,
}

const WAYS: [Way; 6] = [Way::Create, Way::Upsert, Way::Replace, Way::Rename, Way::Patch, Way::Batch];

async fn claim(fixture: &Fixture, c: &ContainerHandle, way: Way, number: usize) -> Result<()> {
    let (account, ctx) = (&fixture.account, fixture.ctx());
    let own = format!("own{number}");
    let with_id = |id: &str| format!(r#"{{"id":"{id}","pk":"a","u":"wanted"}}"#).into_bytes();
    match way {
        Way::Create => account.create_item(&ctx, c, A, &with_id(&format!("new{number}"))).await.map(drop),
        Way::Upsert => {
            account.upsert_item(&ctx, c, A, &with_id(&format!("new{number}")), &none()).await.map(drop)
        }
        Way::Replace => account.replace_item(&ctx, c, A, &own, &with_id(&own), &none()).await.map(drop),
        Way::Rename => {
            let renamed = with_id(&format!("renamed{number}"));
            account.replace_item(&ctx, c, A, &own, &renamed, &none()).await.map(drop)
        }
        Way::Patch => {
            let set = PatchOperation::Set { path: vec!["u".into()], value: Value::String("wanted".into()) };
            let patch = Patch { operations: vec![set], condition: None };
            account.patch_item(&ctx, c, A, &own, patch, &none()).await.map(drop)
        }
        Way::Batch => {
            let operation = |kind, id: &str, body| BatchOperation {
                kind,
                id: Some(id.into()),
                body,
                patch: None,
                partition_key: None,
                preconditions: Preconditions::default(),
            };
            let operations = vec![
                operation(BatchKind::Delete, &own, None),
                operation(BatchKind::Create, &own, Some(with_id(&own))),
            ];
            let reply = account.json_batch(&ctx, c, A.expect("a key"), operations).await?;
            reply.outcome.map(drop).map_err(|failure| failure.error)
        }
    }
}

/// Every writer in its way, all at once. Gives how many won.
async fn race(fixture: &Arc<Fixture>, c: &ContainerHandle, way: impl Fn(usize) -> Way) -> usize {
    let mut writers = Vec::new();
    for number in 0..WRITERS {
        let (fixture, c, way) = (fixture.clone(), c.clone(), way(number));
        writers.push(tokio::spawn(async move { claim(&fixture, &c, way, number).await }));
    }
    let mut won = 0;
    for writer in writers {
        match writer.await.expect("nothing panics") {
            Ok(()) => won += 1,
            lost => expect_conflict(lost, "lost"),
        }
    }
    won
}

async fn with_own_items() -> (Arc<Fixture>, ContainerHandle, Shard) {
    let shard = Shard::open(ShardOptions::memory()).await.expect("opens");
    let options = AccountOptions { purging: Purging::WhenAsked, ..AccountOptions::default() };
    let fixture = Fixture::over_with(&shard, options).await;
    let c = fixture.container_with(definition(&[&["/u"]]), 400).await;
    for number in 0..WRITERS {
        create(&fixture, &c, &format!(r#"{{"id":"own{number}","pk":"a","u":{number}}}"#))
            .await
            .expect("created");
    }
    (Arc::new(fixture), c, shard)
}

async fn holders(fixture: &Fixture, c: &ContainerHandle) -> usize {
    fixture.answer(c, "SELECT c.id FROM c WHERE c.u = 'wanted'", 100).await.expect("a query").rows.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_who_claim_a_value_one_wins_whichever_way() {
    let mixed = |number: usize| WAYS[number % WAYS.len()];
    for round in 0..=WAYS.len() {
        let (fixture, c, shard) = with_own_items().await;
        let won = match WAYS.get(round) {
            Some(way) => race(&fixture, &c, |_| *way).await,
            None => race(&fixture, &c, mixed).await,
        };
        assert_eq!((won, holders(&fixture, &c).await), (1, 1), "{:?}", WAYS.get(round));
        assert_eq!(verify(shard).await.expect("readable").problem_count(), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_who_claim_what_an_expired_item_had_one_wins_while_it_is_removed() {
    for round in 0..8 {
        let (fixture, c, shard) = with_own_items().await;
        create(&fixture, &c, r#"{"id":"old","pk":"a","u":"wanted","ttl":5}"#).await.expect("created");
        assert_eq!(race(&fixture, &c, |_| Way::Create).await, 0, "it is taken");
        fixture.clock.advance(Duration::from_secs(5));
        let (sweeper, swept) = (fixture.clone(), c.clone());
        let purge = tokio::spawn(async move { sweeper.account.maintenance().purge_expired(&swept).await });
        let won = race(&fixture, &c, |number| WAYS[(number + round) % WAYS.len()]).await;
        assert_eq!(purge.await.expect("nothing panics").expect("purged"), 1);
        assert_eq!((won, holders(&fixture, &c).await), (1, 1));
        // The removal did not release the value of its present owner.
        expect_conflict(create(&fixture, &c, r#"{"id":"late","pk":"a","u":"wanted"}"#).await, "late");
        assert_eq!(verify(shard).await.expect("readable").problem_count(), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_wins_through_splits_and_merges() {
    let shard = Shard::open(ShardOptions::memory()).await.expect("opens");
    let fixture = Arc::new(Fixture::over_with(&shard, AccountOptions::default()).await);
    let c = fixture.container_with(definition(&[&["/u"]]), 400).await;
    // Each round claims a value per logical partition from two sides, before, while and after the ranges change.
    let claims = |from: usize| {
        let mut claims = Vec::new();
        for number in (from..from + 400).flat_map(|number| [(number, "x"), (number, "y")]) {
            let (fixture, c) = (fixture.clone(), c.clone());
            let (number, side) = number;
            claims.push(tokio::spawn(async move {
                let body = format!(r#"{{"id":"{number}{side}","pk":"k{}","u":{number}}}"#, number % 40);
                create(&fixture, &c, &body).await
            }));
        }
        claims
    };
    let mut won = 0;
    for step in 0..3 {
        let claims = claims(step * 400);
        let current = fixture.account.router().container("db", "c").expect("there");
        let relocation = match step {
            0 => fixture.account.maintenance().split(&current, 0, SplitAt::Middle).await,
            1 => fixture.account.maintenance().split(&current, 1, SplitAt::Middle).await,
            _ => fixture.account.maintenance().merge(&current, &[4, 2]).await,
        };
        relocation.expect("begins").finished().await.expect("ends");
        for claim in claims {
            match claim.await.expect("nothing panics") {
                Ok(()) => won += 1,
                lost => expect_conflict(lost, "lost"),
            }
        }
        assert_eq!(won, (step + 1) * 400);
    }
    let again = claims(0);
    for claim in again {
        let error = claim.await.expect("nothing panics").expect_err("taken long ago");
        assert_eq!(error.kind(), ErrorKind::Conflict);
    }
    assert_eq!(verify(shard).await.expect("readable").problem_count(), 0);
}
