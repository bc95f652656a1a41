//! Orders of operators: trials, replays, earlier codes, the log.

use std::time::Duration;

use serde_json::{Value, json};
use shardlake_account::{FunctionPut, FunctionWriteKind, ReplayFrom};
use shardlake_model::ErrorKind;
use shardlake_stdx::Timestamp;

use crate::shop::{container, function, item, items, level, put, report, upsert, with};
use crate::support::Fixture;

/// Counts how often each item was given.
const COUNT: &str = r#"async function (changes, context) {
  const target = context.container("target");
  for (const { id } of changes) {
    const known = await target.read(id, id);
    target.upsert({ id, n: (known?.n ?? 0) + 1 });
    console.log("counted", id);
  }
}"#;

async fn pair() -> Fixture {
    let fixture = Fixture::new().await;
    container(&fixture, "source", "/pk", 12_000).await;
    container(&fixture, "target", "/id", 12_000).await;
    fixture
}

async fn counts(fixture: &Fixture) -> Vec<(String, u64)> {
    let mut counts: Vec<(String, u64)> = items(&fixture.account, "target")
        .await
        .iter()
        .map(|item| (item["id"].as_str().expect("an id").to_owned(), item["n"].as_u64().expect("a count")))
        .collect();
    counts.sort();
    counts
}

#[tokio::test]
async fn a_trial_runs_on_the_last_changes_and_writes_nothing() {
    let fixture = pair().await;
    let account = &fixture.account;
    put(account, &with(function("count", "source", &["target"], COUNT), "start", "now"))
        .await
        .expect("valid");
    account.functions().pause("count").await.expect("there");
    for id in 0..30 {
        upsert(account, "source", json!({ "id": format!("i{id:02}"), "pk": format!("k{}", id % 4) })).await;
        fixture.clock.advance(Duration::from_millis(1));
    }
    let trial = account.functions().try_last("count", None, 5).await.expect("ran");
    assert!(trial.failure.is_none(), "{:?}", trial.failure);
    let given: Vec<Value> =
        trial.changes.iter().map(|text| serde_json::from_str(text).expect("JSON")).collect();
    let ids: Vec<&str> = given.iter().map(|change| change["id"].as_str().expect("an id")).collect();
    assert_eq!(
        ids,
        ["i25", "i26", "i27", "i28", "i29"],
        "the last of all partitions, in the order of their times"
    );
    assert_eq!((&given[0]["operation"], &given[0]["current"]["pk"]), (&json!("create"), &json!("k1")));
    assert_eq!((trial.writes.len(), trial.reads.len(), trial.log.len()), (5, 5, 5));
    let FunctionWriteKind::Upsert { item } = &trial.writes[0].kind else { panic!("{:?}", trial.writes) };
    assert!(item.contains("i25"), "{item}");
    assert!(trial.charge_centi > 0);
    let other = "async function (changes, context) { context.container('target').create({ n: 1 }); throw new Error('no'); }";
    let trial = account.functions().try_last("count", Some(other), 5).await.expect("ran");
    assert!(trial.failure.expect("failed").message().contains("no"));
    let refused = "async function (changes, context) { context.container('target').upsert({ id: 7 }); }";
    let trial = account.functions().try_last("count", Some(refused), 5).await.expect("ran");
    assert!(trial.failure.is_some(), "a write that would be refused");
    assert!(items(account, "target").await.is_empty(), "nothing was written");
    let error = account.functions().try_last("count", Some("1 +"), 5).await.expect_err("no function");
    assert_eq!(error.kind(), ErrorKind::BadRequest);
    let error = account.functions().try_last("count", None, 0).await.expect_err("nothing");
    assert!(error.message().contains("'last'"), "{error}");
}

#[tokio::test]
async fn a_replay_gives_changes_again_from_its_time() {
    let fixture = pair().await;
    let account = &fixture.account;
    put(account, &function("count", "source", &["target"], COUNT)).await.expect("valid");
    let mut second = Timestamp(0);
    for id in 0..3 {
        if id == 1 {
            second = fixture.clock.now();
        }
        upsert(account, "source", json!({ "id": format!("i{id}"), "pk": format!("k{id}") })).await;
        fixture.clock.advance(Duration::from_secs(10));
    }
    level(account, "count").await;
    let counted = |counts: [u64; 3]| -> Vec<(String, u64)> {
        counts.iter().enumerate().map(|(id, n)| (format!("i{id}"), *n)).collect()
    };
    assert_eq!(counts(&fixture).await, counted([1, 1, 1]));
    let ctx = fixture.ctx();
    account.functions().replay(&ctx, "count", ReplayFrom::Time(second)).await.expect("begun");
    level(account, "count").await;
    assert_eq!(counts(&fixture).await, counted([1, 2, 2]));
    account.functions().replay(&ctx, "count", ReplayFrom::Beginning).await.expect("begun");
    level(account, "count").await;
    assert_eq!(counts(&fixture).await, counted([2, 3, 3]));
    let found = report(account, "count").await;
    assert_eq!((found.record.number, found.record.former_numbers), (3, vec![1, 2]));
}

#[tokio::test]
async fn own_commits_of_an_earlier_life_do_not_come_back() {
    let fixture = pair().await;
    let account = &fixture.account;
    let code = r#"async function (changes, context) {
      for (const { current } of changes)
        context.container("source").upsert({ id: current.id + "x", pk: current.pk });
    }"#;
    put(account, &function("own", "source", &["source"], code)).await.expect("valid");
    upsert(account, "source", json!({ "id": "a", "pk": "k" })).await;
    level(account, "own").await;
    account.functions().replay(&fixture.ctx(), "own", ReplayFrom::Beginning).await.expect("begun");
    level(account, "own").await;
    let mut ids: Vec<Value> = items(account, "source").await.iter().map(|item| item["id"].clone()).collect();
    ids.sort_by_key(Value::to_string);
    assert_eq!(ids, ["a", "ax"]);
}

#[tokio::test]
async fn an_earlier_code_is_put_as_a_new_version() {
    let fixture = pair().await;
    let account = &fixture.account;
    let first = function("count", "source", &["target"], COUNT);
    put(account, &first).await.expect("valid");
    let (ctx, functions) = (fixture.ctx(), account.functions());
    let error = functions.rollback(&ctx, "count", None).await.expect_err("there is one version");
    assert!(error.message().contains("earlier versions are none"), "{error}");
    put(account, &with(first, "code", "async function (changes, context) { }")).await.expect("valid");
    assert_eq!(functions.rollback(&ctx, "count", None).await.expect("known"), FunctionPut::Replaced);
    let versions = functions.versions("count").expect("there");
    let numbers: Vec<u64> = versions.iter().map(|version| version.version).collect();
    assert_eq!((numbers, versions[2].code.as_str()), (vec![1, 2, 3], COUNT));
    let error = functions.rollback(&ctx, "count", Some(9)).await.expect_err("unknown");
    assert!(error.message().contains("1, 2"), "{error}");
    functions.rollback(&ctx, "count", Some(2)).await.expect("known");
    assert_eq!(report(account, "count").await.record.version, 4);
}

#[tokio::test]
async fn lines_of_runs_are_kept_with_their_batch_and_version() {
    let fixture = pair().await;
    let account = &fixture.account;
    put(account, &function("count", "source", &["target"], COUNT)).await.expect("valid");
    upsert(account, "source", json!({ "id": "a", "pk": "k" })).await;
    level(account, "count").await;
    let lines = account.functions().log("count").expect("there");
    let [line] = lines.as_slice() else { panic!("{lines:?}") };
    assert_eq!((line.text.as_str(), line.version, line.attempt), ("counted a", 1, 1));
    assert!(line.upto > 0);
    assert_eq!(item(account, "target", "a", "a").await.expect("counted")["n"], 1);
    assert_eq!(account.functions().log("none").expect_err("unknown").kind(), ErrorKind::NotFound);
}
