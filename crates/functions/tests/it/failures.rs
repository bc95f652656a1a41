//! Failures: attempts, halving, dead letters, pauses, and the bound on request units.

use std::time::Duration;

use serde_json::{Value, json};
use shardlake_account::Account;
use shardlake_testkit::expects_log;

use crate::shop::{container, context, function, item, items, level, put, report, upsert, with};
use crate::support::json_door::{BatchKind, BatchOperation, JsonDoor, KeyInput};
use crate::support::{Fixture, eventually, none};

/// Copies each item to `target`, and fails for poisoned ones.
const COPY: &str = r#"async function (changes, context) {
  const target = context.container("target");
  for (const { id, current } of changes) {
    if (current?.poison) throw new Error("poisoned " + id);
    const copy = await target.read(id, id);
    target.upsert({ id, n: (copy?.n ?? 0) + 1 });
  }
}"#;

async fn pair() -> Fixture {
    let fixture = Fixture::in_real_time().await;
    container(&fixture, "source", "/pk", 12_000).await;
    container(&fixture, "target", "/id", 12_000).await;
    fixture
}

fn copy(code: &str) -> Value {
    with(function("copy", "source", &["target"], code), "retry", json!({ "firstMs": 1, "maxMs": 2 }))
}

async fn write(account: &Account, id: usize, poison: bool) {
    let (id, pk) = (format!("i{id}"), format!("k{}", id % 3));
    upsert(account, "source", json!({ "id": id, "pk": pk, "poison": poison })).await;
}

async fn letters(account: &Account) -> Vec<Value> {
    let found = account.router().container("db", "copyErrors");
    if found.is_ok() { items(account, "copyErrors").await } else { Vec::new() }
}

fn announce_letters() {
    expects_log("a function could not handle a change");
}

#[tokio::test]
async fn one_poisoned_change_becomes_a_letter_and_all_others_happen_once() {
    announce_letters();
    let fixture = pair().await;
    let account = &fixture.account;
    for id in 0..100 {
        write(account, id, id == 57).await;
    }
    put(account, &copy(COPY)).await.expect("valid");
    level(account, "copy").await;
    let copies = items(account, "target").await;
    assert_eq!(copies.len(), 99);
    assert!(copies.iter().all(|copy| copy["n"] == 1), "each happened once");
    let letters = letters(account).await;
    let [letter] = letters.as_slice() else { panic!("{letters:?}") };
    assert_eq!(
        (&letter["copy"], &letter["kind"], &letter["attempts"]),
        (&json!("copy"), &json!("function"), &json!(5))
    );
    assert_eq!((&letter["source"]["id"], &letter["source"]["partitionKey"]), (&json!("i57"), &json!(["k0"])));
    assert!(letter["reason"].as_str().expect("a reason").contains("poisoned i57"), "{letter}");
    assert!(letter.get("current").is_none(), "no body: {letter}");
    let found = report(account, "copy").await;
    assert_eq!((found.counts.dead_letters, found.counts.applied), (1, 99));
    assert!(found.runs <= 40, "{} runs", found.runs);
    // A later change of the item is given as ever.
    write(account, 57, false).await;
    level(account, "copy").await;
    assert_eq!(item(account, "target", "i57", "i57").await.expect("copied")["n"], 1);
}

#[tokio::test]
async fn changes_of_one_commit_are_sifted() {
    announce_letters();
    let fixture = pair().await;
    let account = &fixture.account;
    let container = account.router().container("db", "source").expect("there");
    let create = |id: usize| BatchOperation {
        kind: BatchKind::Create,
        id: None,
        body: Some(json!({ "id": format!("b{id}"), "pk": "k", "poison": id % 7 == 3 }).to_string().into()),
        patch: None,
        partition_key: None,
        preconditions: none(),
    };
    let operations = (0..20).map(create).collect();
    account
        .json_batch(&context(account), &container, KeyInput("[\"k\"]"), operations)
        .await
        .expect("written");
    put(account, &copy(COPY)).await.expect("valid");
    level(account, "copy").await;
    assert_eq!(items(account, "target").await.len(), 17);
    let mut ids: Vec<Value> =
        letters(account).await.iter().map(|letter| letter["source"]["id"].clone()).collect();
    ids.sort_by_key(Value::to_string);
    assert_eq!(ids, ["b10", "b17", "b3"]);
}

#[tokio::test]
async fn refused_writes_are_tried_again_and_then_become_letters() {
    announce_letters();
    let fixture = pair().await;
    let account = &fixture.account;
    upsert(account, "target", json!({ "id": "taken" })).await;
    let code = r#"async function (changes, context) {
      const target = context.container("target");
      for (const { id } of changes)
        if (id === "i0") target.create({ id: "taken" });
        else if (id === "i1") target.delete("none", "none");
        else if (id === "i2") context.deadLetter(changes.find(c => c.id === id), "not today");
        else target.upsert({ id });
    }"#;
    put(account, &with(copy(code), "batch", json!({ "changes": 1 }))).await.expect("valid");
    for id in 0..4 {
        write(account, id, false).await;
    }
    level(account, "copy").await;
    let mut found: Vec<(String, String)> = letters(account)
        .await
        .iter()
        .map(|letter| {
            let text = |value: &Value| value.as_str().expect("a text").to_owned();
            (text(&letter["source"]["id"]), text(&letter["reason"]))
        })
        .collect();
    found.sort();
    let ids: Vec<&str> = found.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(ids, ["i0", "i1", "i2"], "{found:?}");
    assert!(found[0].1.contains("'target'") && found[2].1 == "not today", "{found:?}");
    assert!(item(account, "target", "i3", "i3").await.is_some());
}

#[tokio::test]
async fn on_error_pause_stops_at_the_change_until_the_code_is_mended() {
    let fixture = pair().await;
    let account = &fixture.account;
    put(account, &with(copy(COPY), "onError", "pause")).await.expect("valid");
    write(account, 1, true).await;
    eventually("it is paused", async || report(account, "copy").await.state.name() == "Paused").await;
    let reason = report(account, "copy").await.state.reason().expect("a reason").to_owned();
    assert!(reason.contains("poisoned i1"), "{reason}");
    assert!(letters(account).await.is_empty() && items(account, "target").await.is_empty());
    let mended = copy(
        "async function (changes, context) { for (const { id } of changes) context.container('target').upsert({ id }); }",
    );
    put(account, &mended).await.expect("valid");
    account.functions().resume("copy").await.expect("there");
    level(account, "copy").await;
    assert_eq!(items(account, "target").await.len(), 1);
}

#[tokio::test]
async fn on_error_retry_waits_and_keeps_no_other_part_waiting() {
    let fixture = pair().await;
    let account = &fixture.account;
    let retry = with(
        with(copy(COPY), "onError", "retry"),
        "retry",
        json!({ "attempts": 1, "firstMs": 1, "maxMs": 1 }),
    );
    put(account, &retry).await.expect("valid");
    write(account, 1, true).await;
    eventually("it waits", async || report(account, "copy").await.state.name() == "Waiting").await;
    upsert(account, "source", json!({ "id": "other", "pk": "k0" })).await;
    let keys = account.router().container("db", "source").expect("there").entry.map.iter().count();
    if keys > 1 {
        eventually("another part goes on", async || {
            item(account, "target", "other", "other").await.is_some()
        })
        .await;
    }
    write(account, 1, false).await;
    level(account, "copy").await;
    assert!(letters(account).await.is_empty());
}

#[tokio::test]
async fn more_than_a_hundred_letters_pause_the_function() {
    announce_letters();
    let fixture = pair().await;
    let account = &fixture.account;
    for id in 0..130 {
        write(account, id, true).await;
    }
    let hasty = with(copy(COPY), "retry", json!({ "attempts": 1, "firstMs": 1, "maxMs": 1 }));
    put(account, &hasty).await.expect("valid");
    eventually("it is paused", async || report(account, "copy").await.state.name() == "Paused").await;
    let found = report(account, "copy").await;
    assert!(found.state.reason().expect("a reason").contains("100 dead letters"), "{:?}", found.state);
    assert_eq!(letters(account).await.len(), 101);
}

#[tokio::test]
async fn a_function_keeps_its_bound_on_request_units() {
    let fixture = Fixture::new().await;
    container(&fixture, "source", "/pk", 400).await;
    container(&fixture, "target", "/id", 400).await;
    let account = &fixture.account;
    let slow = with(with(copy(COPY), "requestUnitsPerSecond", 1), "batch", json!({ "changes": 1 }));
    put(account, &slow).await.expect("valid");
    for id in 0..2 {
        write(account, id * 3, false).await;
    }
    eventually("the first is copied", async || !items(account, "target").await.is_empty()).await;
    let (began, first_centi) = (fixture.clock.elapsed(), report(account, "copy").await.charge_centi);
    assert!(first_centi > 500, "a read and a write cost more than 5 request units: {first_centi}");
    // The clock of the server is moved by hand alone.
    eventually("the second is copied when its time has come", async || {
        fixture.clock.advance(Duration::from_secs(1));
        items(account, "target").await.len() == 2
    })
    .await;
    let waited = fixture.clock.elapsed() - began;
    assert!(waited >= Duration::from_millis(first_centi * 10), "{waited:?} for {first_centi}");
}

#[tokio::test]
async fn a_lost_etag_is_tried_again_with_fresh_reads() {
    let fixture = pair().await;
    let account = &fixture.account;
    upsert(account, "target", json!({ "id": "sum", "n": 0, "by": 0 })).await;
    let code = r#"async function (changes, context) {
      const target = context.container("target");
      const sum = await target.read("sum", "sum");
      target.replace({ ...sum, n: sum.n + changes.length });
    }"#;
    put(account, &with(copy(code), "batch", json!({ "changes": 2 }))).await.expect("valid");
    let container = account.router().container("db", "target").expect("there");
    for id in 0..60 {
        write(account, id, false).await;
        // A client counts in the same item.
        let by = crate::support::json_door::Patch {
            operations: vec![shardlake_account::PatchOperation::Increment {
                path: vec!["by".into()],
                by: shardlake_account::Number::Int(1),
            }],
            condition: None,
        };
        let key = Some(KeyInput("[\"sum\"]"));
        account.patch_item(&context(account), &container, key, "sum", by, &none()).await.expect("patched");
    }
    level(account, "copy").await;
    let sum = item(account, "target", "sum", "sum").await.expect("there");
    assert_eq!((&sum["n"], &sum["by"]), (&json!(60), &json!(60)), "no update is lost");
    assert!(letters(account).await.is_empty());
}

#[tokio::test]
async fn mended_code_is_tried_at_once() {
    let fixture = pair().await;
    let account = &fixture.account;
    let patient =
        with(copy(COPY), "retry", json!({ "attempts": 100, "firstMs": 3_600_000, "maxMs": 3_600_000 }));
    put(account, &patient).await.expect("valid");
    write(account, 1, true).await;
    eventually("it waits", async || report(account, "copy").await.state.name() == "Waiting").await;
    let mended = "async function (changes, context) { for (const { id } of changes) context.container('target').upsert({ id }); }";
    put(account, &with(patient, "code", mended)).await.expect("valid");
    level(account, "copy").await;
    assert_eq!(items(account, "target").await.len(), 1);
    assert_eq!(report(account, "copy").await.record.version, 2);
}
