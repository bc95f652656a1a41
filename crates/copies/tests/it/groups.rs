//! An index of groups is the GROUP BY query over its source, for all writes of clients.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use shardlake_account::AccountOptions;
use shardlake_catalog::Holder;
use shardlake_model::Limits;
use shardlake_testkit::expects_log;

use crate::store::Store;
use crate::support::{Fixture, eventually};

pub const BOARD: &str = "SELECT c.pk, 'all' AS board, COUNT(1) AS n, SUM(c.n) AS sum, AVG(c.n) AS average, \
                         MIN(c.n) AS low, MAX(c.k) AS high FROM c GROUP BY c.pk";
pub const BY_K: &str = "SELECT c.pk, c.k, COUNT(1) AS n, COUNTIF(c.n > 3) AS big, MAX(c.n) AS high FROM c \
                        WHERE c.n != 2 GROUP BY c.pk, c.k";
pub const TAGS: &str = "SELECT c.pk, t AS tag, SUM(c.n) AS sum FROM c JOIN t IN c.tags GROUP BY c.pk, t";

/// The rows of the query over the source, by their texts. Its sums are of integers here.
async fn queried(store: &Store<'_>, source: &str, query: &str) -> BTreeMap<String, Value> {
    let answer = store.fixture.answer(&store.container(source), query, 100).await.expect("answered");
    let row = |row: &shardlake_account::Value| {
        let row: Value = serde_json::from_str(&row.to_json().expect("finite")).expect("JSON");
        (row.to_string(), row)
    };
    answer.rows.iter().map(row).collect()
}

/// The rows of the index without the members that the query has not.
async fn outputs(store: &Store<'_>, index: &str) -> BTreeMap<String, Value> {
    let rows = store.rows(index).await.into_values();
    let row = |mut row: Value| {
        row.as_object_mut().expect("an object").retain(|name, _| name != "id");
        (row.to_string(), row)
    };
    rows.map(row).collect()
}

async fn check(store: &Store<'_>, index: &str, query: &str) {
    store.settled().await;
    store.check("source", index).await;
    assert_eq!(outputs(store, index).await, queried(store, "source", query).await, "{index}");
}

#[tokio::test]
async fn groups_are_built_and_follow_their_source() {
    let fixture = Fixture::new().await;
    let store = Store::new(&fixture, Some(-1), 100_000).await;
    for number in 0..300 {
        let tags = vec![format!("t{}", number % 3); number % 4];
        let item = json!({ "id": number.to_string(), "pk": format!("p{}", number % 7),
            "k": format!("k{}", number % 5), "n": number % 11, "tags": tags });
        store.upsert(&item).await.expect("written");
    }
    let indexes = [("board", "/board", BOARD), ("by_k", "/k", BY_K), ("tags", "/tag", TAGS)];
    for (id, key, definition) in indexes {
        store.index("source", id, key, definition).await;
    }
    for (id, _, definition) in indexes {
        check(&store, id, definition).await;
    }
    // Groups that change, end and begin, other extremes, an array.
    store.put("p1", "1", "k9").await;
    store.upsert(&json!({ "id": "2", "pk": "p2", "k": "k2", "n": -99, "ttl": 5 })).await.expect("written");
    store.upsert(&json!({ "id": "3", "pk": "p3", "k": ["array"], "n": "text" })).await.expect("written");
    store.upsert(&json!({ "id": "4", "pk": "p4" })).await.expect("written");
    store.put("new", "1", "k1").await;
    for number in (0..300).filter(|number| number % 7 == 5) {
        store.delete("p5", &number.to_string()).await.expect("deleted");
    }
    for (id, _, definition) in indexes {
        check(&store, id, definition).await;
    }
    fixture.clock.advance(Duration::from_secs(10));
    eventually("the expired item is removed", async || {
        let rows = store.rows("board").await;
        rows.values().any(|row| row["pk"] == "p2" && row["low"] == 0)
    })
    .await;
    use crate::support::json_door::{JsonDoor, KeyInput};
    let (source, key) = (store.container("source"), KeyInput("[\"p1\"]"));
    fixture.account.json_key_delete(&fixture.ctx(), &source, key).await.expect("deleted");
    for (id, _, definition) in indexes {
        check(&store, id, definition).await;
    }
    let rows = store.rows("board").await;
    assert!(rows.values().all(|row| row["pk"] != "p1" && row["pk"] != "p5"), "{rows:?}");
    let report = store.report("board").await;
    assert_eq!((report.state, report.refused), ("Active", 0));
}

#[tokio::test]
async fn groups_by_other_keys_follow_an_index_by_these_keys() {
    let fixture = Fixture::new().await;
    let store = Store::new(&fixture, None, 100_000).await;
    for number in 0..60 {
        store.put(&format!("p{}", number % 7), &number.to_string(), &format!("k{}", number % 4)).await;
    }
    let grouped = "SELECT c.k, 'all' AS board, COUNT(1) AS n, SUM(c.n) AS sum FROM c GROUP BY c.k";
    let error = store.create_index("source", "groups", "/board", grouped).await.expect_err("another key");
    assert!(error.message().contains("GROUP BY without the partition key of the source, /pk"), "{error}");
    store.index("source", "rows", "/k", "SELECT c.k, c.n FROM c").await;
    store.index("rows", "groups", "/board", grouped).await;
    let level = async || {
        eventually("the second one is level", async || {
            store.settled().await;
            outputs(&store, "groups").await == queried(&store, "source", grouped).await
        })
        .await;
    };
    level().await;
    for number in 0..30 {
        match number % 3 {
            0 => store.delete(&format!("p{}", number % 7), &number.to_string()).await.expect("deleted"),
            _ => store.put(&format!("p{}", number % 7), &number.to_string(), "k3").await,
        }
    }
    level().await;
    store.check("rows", "groups").await;
}

#[tokio::test]
async fn groups_continue_after_a_hole_and_a_rebuild() {
    let limits = Limits { change_log_entries_kept: 8, ..Limits::default() };
    let fixture = Fixture::with_options(AccountOptions { limits, ..AccountOptions::default() }).await;
    let store = Store::new(&fixture, None, 400).await;
    store.index("source", "board", "/board", BOARD).await;
    for number in 0..60 {
        store.put(&format!("p{}", number % 3), &number.to_string(), &format!("k{}", number % 3)).await;
    }
    check(&store, "board", BOARD).await;
    fixture.account.copies().pause("db", "board").await.expect("paused");
    for number in 0..60 {
        if number % 3 == 0 || number % 5 == 0 {
            store.delete(&format!("p{}", number % 3), &number.to_string()).await.expect("deleted");
        }
    }
    // As if the index had been too slow.
    let (router, number) = (fixture.account.router(), store.report("board").await.number);
    let source = store.container("source").entry.record.container.rid;
    router.release_hold(source, Holder::Copy(number)).await.expect("released");
    fixture.account.maintenance().compact_change_logs().await.expect("compacted");
    expects_log("built anew");
    fixture.account.copies().resume("db", "board").await.expect("resumed");
    eventually("it is built anew", async || store.report("board").await.generation == 2).await;
    check(&store, "board", BOARD).await;
    assert_eq!(store.rows("board").await.len(), 2, "the group of p0 has ended");
    fixture.account.copies().rebuild("db", "board").await.expect("begun");
    check(&store, "board", BOARD).await;
    store.put("p0", "again", "k").await;
    check(&store, "board", BOARD).await;
}

#[tokio::test]
async fn rows_that_cannot_be_written_are_named_and_come_back() {
    let fixture = Fixture::new().await;
    let store = Store::new(&fixture, None, 100_000).await;
    store.index("source", "by_k", "/k", BY_K).await;
    store.put("p", "1", "short").await;
    store.put("p", "2", &"x".repeat(3000)).await;
    eventually("it is incomplete", async || store.report("by_k").await.state == "Incomplete").await;
    let report = store.report("by_k").await;
    assert_eq!((report.refused, report.refusals[0].id.as_str(), report.rows), (1, "2", 1));
    store.put("p", "2", "short").await;
    check(&store, "by_k", BY_K).await;
    // A sum that no JSON number has.
    store.index("source", "board", "/board", BOARD).await;
    for id in ["a", "b"] {
        let item = json!({ "id": id, "pk": "q", "n": 1.7e308 });
        store.upsert(&item).await.expect("written");
    }
    eventually("it is incomplete", async || store.report("board").await.state == "Incomplete").await;
    let rows = store.rows("board").await;
    assert!(rows.values().all(|row| row["pk"] == "p"), "{rows:?}");
    store.delete("q", "a").await.expect("deleted");
    check(&store, "board", BOARD).await;
    let rows = store.rows("board").await;
    assert!(rows.values().any(|row| row["sum"] == 1.7e308), "{rows:?}");
}
