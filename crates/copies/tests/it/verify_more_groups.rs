//! Comparison of indexes of groups: stamps, many differences, long extremes, groups without rows, repair under writes.

use serde_json::{Value, json};
use shardlake_account::{DifferenceKind, Repair, VerifyState};
use shardlake_model::ErrorKind;
use shardlake_partition::{CopyRow, RowStamp};
use shardlake_testkit::expects_log;

use crate::groups::BOARD;
use crate::store::Store;
use crate::support::{Fixture, eventually};
use crate::verify::{damage, edited, later, stored};
use crate::verify_groups::{filled, item, row_of, upsert};

#[tokio::test]
async fn rows_with_stamps_of_other_versions_are_differences() {
    let fixture = Fixture::new().await;
    let store = filled(&fixture).await;
    let (generation, source) = (row_of(&store, "p1").await, row_of(&store, "p2").await);
    // Neither would be brought up to later changes.
    let stamp = RowStamp { generation: 9, ..generation.copy.stamp };
    damage(&store, "board", CopyRow { stamp, ..generation.copy.clone() }).await;
    damage(&store, "board", CopyRow { body: None, ..source.copy.clone() }).await;
    let stamp = RowStamp { number: 3, ..source.copy.stamp };
    damage(&store, "board", CopyRow { stamp, ..source.copy.clone() }).await;
    expects_log("is not that of its definition");
    let report = store.verified("board", Repair::No).await;
    assert_eq!((&report.state, report.differences), (&VerifyState::Done, 2), "{report:#?}");
    for row in [generation, source] {
        let found = report.listed.iter().find(|found| found.row == row.copy.id).expect("listed");
        assert_eq!(
            (found.kind, &found.expected),
            (DifferenceKind::Other, &found.found),
            "its stamp is wrong"
        );
    }
}

#[tokio::test]
async fn of_many_differences_the_first_are_listed_and_all_are_counted() {
    let fixture = Fixture::new().await;
    let store = Store::new(&fixture, None, 100_000).await;
    store.index("source", "board", "/board", BOARD).await;
    for number in 0..150 {
        upsert(&store, &item(&format!("p{number}"), "1", number)).await;
    }
    store.settled().await;
    for row in stored(&store, "board").await.into_iter().take(120) {
        damage(&store, "board", CopyRow { body: None, ..row.copy }).await;
    }
    expects_log("is not that of its definition");
    let report = store.verified("board", Repair::No).await;
    assert_eq!((report.differences, report.listed.len()), (120, 100));
    assert!(report.listed.iter().all(|found| found.kind == DifferenceKind::Missing));
    assert_eq!((report.items, report.rows), (150, 30));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn groups_with_long_extremes_are_compared_while_they_change() {
    let fixture = Fixture::new().await;
    let store = Store::new(&fixture, None, 100_000).await;
    store.index("source", "board", "/board", BOARD).await;
    let long = |number: u64| format!("{}{}", "long ".repeat(30), number % 5);
    let put = async |number: u64| {
        let mut item = item("p", &(number % 12).to_string(), number);
        item["k"] = json!(long(number * 7));
        upsert(&store, &item).await;
    };
    for number in 0..40 {
        put(number).await;
    }
    store.settled().await;
    let copies = fixture.account.copies();
    let mut number = 40;
    for _ in 0..30 {
        copies.verify("db", "board", Repair::No).await.expect("it follows");
        loop {
            put(number).await;
            number += 1;
            fixture.clock.advance(std::time::Duration::from_millis(1));
            let report = copies.verification("db", "board").expect("an index").expect("begun");
            assert_eq!(report.differences, 0, "{report:#?}");
            if report.state != VerifyState::Running {
                break;
            }
        }
    }
    store.settled().await;
    store.verify("board", 0).await;
    store.check("source", "board").await;
}

#[tokio::test]
async fn groups_that_no_row_can_have_are_no_differences() {
    let fixture = Fixture::new().await;
    let store = Store::new(&fixture, None, 100_000).await;
    store.index("source", "board", "/board", BOARD).await;
    store.put("p", "1", "k").await;
    // A sum that no JSON number has.
    for id in ["a", "b"] {
        store.upsert(&json!({ "id": id, "pk": "q", "n": 1.7e308 })).await.expect("written");
    }
    eventually("it is incomplete", async || store.report("board").await.state == "Incomplete").await;
    let report = store.verified("board", Repair::No).await;
    assert_eq!((&report.state, report.differences), (&VerifyState::Done, 0), "{report:#?}");
    // Unless it has a row all the same.
    let other = row_of(&store, "p").await;
    store.delete("q", "a").await.expect("deleted");
    store.settled().await;
    let row = row_of(&store, "q").await;
    store.upsert(&json!({ "id": "a", "pk": "q", "n": 1.7e308 })).await.expect("written");
    eventually("it is incomplete", async || store.report("board").await.state == "Incomplete").await;
    damage(&store, "board", row.copy.clone()).await;
    expects_log("is not that of its definition");
    let report = store.verified("board", Repair::No).await;
    assert_eq!(report.differences, 1, "{report:#?}");
    assert_eq!((report.listed[0].kind, &report.listed[0].row), (DifferenceKind::TooMany, &row.copy.id));
    assert_ne!(report.listed[0].row, other.copy.id);
}

#[tokio::test]
async fn groups_over_an_index_are_compared_with_that_index() {
    let fixture = Fixture::new().await;
    let store = Store::new(&fixture, None, 100_000).await;
    store.index("source", "rows", "/k", "SELECT c.k, c.n FROM c").await;
    let grouped = "SELECT c.k, 'all' AS board, COUNT(1) AS n, SUM(c.n) AS sum FROM c GROUP BY c.k";
    store.index("rows", "groups", "/board", grouped).await;
    for number in 0..60 {
        store.put(&format!("p{}", number % 7), &number.to_string(), &format!("k{}", number % 4)).await;
    }
    eventually("the second one is level", async || {
        store.settled().await;
        store.rows("groups").await.values().map(|row| row["n"].as_u64().expect("a count")).sum::<u64>() == 60
    })
    .await;
    store.verify("groups", 0).await;
    let rows = stored(&store, "groups").await;
    let body = edited(&store, &rows[0], "sum", json!(1));
    damage(&store, "groups", CopyRow { body, stamp: later(rows[0].copy.stamp), ..rows[0].copy.clone() })
        .await;
    expects_log("is not that of its definition");
    assert_eq!(store.verified("groups", Repair::No).await.differences, 1);
}

#[tokio::test]
async fn a_repair_of_groups_is_right_while_clients_write() {
    let fixture = Fixture::new().await;
    let store = filled(&fixture).await;
    let missing = row_of(&store, "p3").await;
    damage(&store, "board", CopyRow { body: None, ..missing.copy }).await;
    expects_log("is not that of its definition");
    expects_log("it is built anew");
    let copies = fixture.account.copies();
    copies.verify("db", "board", Repair::Rebuild).await.expect("it follows");
    let error = copies.verify("db", "board", Repair::No).await.expect_err("it runs");
    assert_eq!(error.kind(), ErrorKind::InProgress);
    let mut number = 0;
    eventually("it is built anew", async || {
        number += 1;
        upsert(&store, &item(&format!("p{}", number % 3), &(number % 20).to_string(), number)).await;
        fixture.clock.advance(std::time::Duration::from_millis(10));
        let report = store.report("board").await;
        report.generation == 2 && report.state == "Active"
    })
    .await;
    store.settled().await;
    store.check("source", "board").await;
    store.verify("board", 0).await;
    let rows = store.rows("board").await;
    let is_there = |row: &Value| row["pk"] == "p3";
    assert_eq!(rows.values().filter(|row| is_there(row)).count(), 1);
}
