//! Comparison of an index of groups with its source: rows that are damaged below the engine's rules are found and mended, and groups
//! that change meanwhile are no differences.

use serde_json::{Value, json};
use shardlake_account::{Difference, DifferenceKind, IndexVerification, Repair, VerifyState};
use shardlake_model::ErrorKind;
use shardlake_partition::{CopyRow, RowStamp};
use shardlake_stdx::Random;
use shardlake_testkit::expects_log;

use crate::groups::{BOARD, BY_K, TAGS};
use crate::indexes::{relocate, seeds};
use crate::store::Store;
use crate::support::{Fixture, eventually};
use crate::verify::{Row, damage, edited, later, stored};

const INDEXES: [(&str, &str, &str); 3] =
    [("board", "/board", BOARD), ("by_k", "/k", BY_K), ("tags", "/tag", TAGS)];

pub fn item(pk: &str, id: &str, number: u64) -> Value {
    let tags = vec![format!("t{}", number % 3); (number % 4) as usize];
    json!({ "id": id, "pk": pk, "k": format!("k{}", number % 5), "n": number % 11, "tags": tags })
}

pub async fn filled(fixture: &Fixture) -> Store<'_> {
    filled_at(fixture, 100_000).await
}

async fn filled_at(fixture: &Fixture, throughput: u64) -> Store<'_> {
    let store = Store::new(fixture, None, throughput).await;
    for (id, key, definition) in INDEXES {
        store.index("source", id, key, definition).await;
    }
    for number in 0..200 {
        let item = item(&format!("p{}", number % 9), &number.to_string(), number);
        upsert(&store, &item).await;
    }
    store.settled().await;
    for (id, _, _) in INDEXES {
        store.verify(id, 0).await;
    }
    store
}

pub async fn upsert(store: &Store<'_>, item: &Value) {
    while let Err(error) = store.upsert(item).await {
        assert_eq!(error.kind(), ErrorKind::TooManyRequests, "{error}");
        store.fixture.clock.advance(std::time::Duration::from_millis(200));
    }
}

/// The row of `board` for a logical partition of the source.
pub async fn row_of(store: &Store<'_>, pk: &str) -> Row {
    let rows = stored(store, "board").await;
    let is_it = |row: &Row| {
        let body: Value = serde_json::from_slice(&row.item.json_text()).expect("JSON");
        body["pk"] == pk
    };
    rows.into_iter().find(is_it).expect("a row of the group")
}

fn of_row<'r>(report: &'r IndexVerification, row: &Row) -> &'r Difference {
    let found = report.listed.iter().find(|found| found.row == row.copy.id);
    found.unwrap_or_else(|| panic!("{} in {report:#?}", row.copy.id))
}

fn number(side: Option<&String>, member: &str) -> Value {
    let side: Value = serde_json::from_str(side.expect("a side")).expect("JSON");
    side[member].clone()
}

#[tokio::test]
async fn damaged_rows_of_groups_are_found_with_both_sides_and_mended() {
    let fixture = Fixture::new().await;
    let store = filled(&fixture).await;
    let [count, state, missing, ahead] = [
        row_of(&store, "p1").await,
        row_of(&store, "p2").await,
        row_of(&store, "p3").await,
        row_of(&store, "p4").await,
    ];
    let body = edited(&store, &count, "n", json!(77));
    damage(&store, "board", CopyRow { body, stamp: later(count.copy.stamp), ..count.copy.clone() }).await;
    // The outputs are right, and the next change would show that the state is another group's.
    let other: Value = serde_json::from_slice(&count.item.json_text()).expect("JSON");
    let body = edited(&store, &state, "_state", other["_state"].clone());
    damage(&store, "board", CopyRow { body, stamp: later(state.copy.stamp), ..state.copy.clone() }).await;
    damage(&store, "board", CopyRow { body: None, ..missing.copy.clone() }).await;
    // A row that would pass over changes which are still to come.
    let stamp = RowStamp { lsn: ahead.copy.stamp.lsn + 1_000_000, ..ahead.copy.stamp };
    damage(&store, "board", CopyRow { stamp, ..ahead.copy.clone() }).await;
    for (id, stamp) in [("of-no-group", count.copy.stamp), ("of-no-group-later", stamp)] {
        let body = edited(&store, &count, "id", json!(id));
        damage(&store, "board", CopyRow { id: id.into(), body, stamp, ..count.copy.clone() }).await;
    }

    expects_log("is not that of its definition");
    expects_log("it is built anew");
    let report = store.verified("board", Repair::No).await;
    assert_eq!((&report.state, report.differences), (&VerifyState::Done, 6), "{report:#?}");
    assert_eq!((report.items, report.percent()), (200, 100));
    let found = of_row(&report, &count);
    assert_eq!(found.kind, DifferenceKind::Other);
    assert_eq!(number(found.expected.as_ref(), "n"), json!(23));
    assert_eq!(number(found.found.as_ref(), "n"), json!(77));
    assert_eq!(of_row(&report, &state).kind, DifferenceKind::Other);
    assert_eq!(of_row(&report, &ahead).kind, DifferenceKind::Other);
    let found = of_row(&report, &missing);
    assert_eq!((found.kind, &found.found), (DifferenceKind::Missing, &None));
    assert_eq!(number(found.expected.as_ref(), "pk"), json!("p3"));
    for id in ["of-no-group", "of-no-group-later"] {
        let found = report.listed.iter().find(|found| found.row == id).expect("listed");
        assert_eq!((found.kind, &found.expected), (DifferenceKind::TooMany, &None));
        assert_eq!(number(found.found.as_ref(), "pk"), json!("p1"));
    }
    let report = store.verified("board", Repair::Rebuild).await;
    assert_eq!((report.differences, report.repaired_by), (6, Some(2)));
    store.settled().await;
    store.check("source", "board").await;
    store.verify("board", 0).await;
}

#[tokio::test]
async fn a_wrong_group_that_changes_all_the_time_is_found() {
    let fixture = Fixture::new().await;
    let store = filled(&fixture).await;
    let before = row_of(&store, "p1").await;
    store.upsert(&item("p1", "new", 3)).await.expect("written");
    store.settled().await;
    // As if the update of the group was lost.
    let stamp = later(row_of(&store, "p1").await.copy.stamp);
    // One more commit, so that this LSN is of the past.
    store.upsert(&item("p2", "new", 3)).await.expect("written");
    store.settled().await;
    let lost = CopyRow { stamp, ..before.copy.clone() };
    damage(&store, "board", lost).await;
    expects_log("is not that of its definition");
    let copies = fixture.account.copies();
    copies.verify("db", "board", Repair::No).await.expect("it follows");
    let mut number = 0;
    let report = loop {
        for _ in 0..3 {
            number += 1;
            store.upsert(&item("p1", "changes", number)).await.expect("written");
        }
        fixture.clock.advance(std::time::Duration::from_millis(50));
        tokio::task::yield_now().await;
        let report = copies.verification("db", "board").expect("an index").expect("begun");
        if report.state != VerifyState::Running {
            break report;
        }
    };
    assert_eq!((&report.state, report.differences), (&VerifyState::Done, 1), "{report:#?}");
    assert_eq!(of_row(&report, &before).kind, DifferenceKind::Other);
}

/// A write to one of a few small groups, so that groups begin and end all the time.
async fn write(store: &Store<'_>, random: &Random) {
    let (pk, id) = (format!("p{}", random.below(6)), random.below(6).to_string());
    match random.below(2) {
        0 => drop(store.delete(&pk, &id).await),
        _ => upsert(store, &item(&pk, &id, random.below(1000))).await,
    }
}

async fn compare_while_writing(store: &Store<'_>, random: &Random, (index, seed): (&str, u64)) {
    let copies = store.fixture.account.copies();
    copies.verify("db", index, Repair::No).await.expect("it follows");
    let report = loop {
        write(store, random).await;
        store.fixture.clock.advance(std::time::Duration::from_millis(1));
        let report = copies.verification("db", index).expect("an index").expect("begun");
        assert_eq!(report.differences, 0, "seed {seed}: {report:#?}");
        if report.state != VerifyState::Running {
            break report;
        }
    };
    assert_eq!(report.state, VerifyState::Done, "seed {seed}, {index}: {report:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn groups_that_change_during_a_comparison_are_no_differences() {
    for seed in seeds(4) {
        let fixture = Fixture::new().await;
        let store = filled(&fixture).await;
        for number in 0..200 {
            store.delete(&format!("p{}", number % 9), &number.to_string()).await.expect("deleted");
        }
        let random = Random::seeded(seed);
        for (index, _, _) in INDEXES.into_iter().cycle().take(90) {
            compare_while_writing(&store, &random, (index, seed)).await;
        }
        store.settled().await;
        for (index, _, _) in INDEXES {
            store.verify(index, seed).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn partitions_that_move_during_a_comparison_are_no_differences() {
    for seed in seeds(2) {
        let fixture = Fixture::new().await;
        let store = filled_at(&fixture, 400).await;
        let random = Random::seeded(seed);
        for (place, (index, _, _)) in INDEXES.into_iter().cycle().take(18).enumerate() {
            let moved = if place % 2 == 0 { "source" } else { index };
            tokio::join!(compare_while_writing(&store, &random, (index, seed)), relocate(&store, moved));
        }
        store.settled().await;
        for (index, _, _) in INDEXES {
            store.verify(index, seed).await;
        }
    }
}

#[tokio::test]
async fn a_pause_a_rebuild_and_a_deletion_end_a_comparison() {
    let fixture = Fixture::new().await;
    let store = filled(&fixture).await;
    let copies = fixture.account.copies();
    let ended = async || {
        eventually("it ends", async || {
            let report = copies.verification("db", "board").expect("an index").expect("begun");
            report.state != VerifyState::Running
        })
        .await;
        copies.verification("db", "board").expect("an index").expect("begun")
    };
    copies.verify("db", "board", Repair::No).await.expect("begun");
    copies.pause("db", "board").await.expect("paused");
    let report = ended().await;
    let is_named = |report: &IndexVerification| matches!(&report.state, VerifyState::Failed(reason) if reason.contains("again") || reason.contains("resume"));
    assert!(is_named(&report), "{report:#?}");
    let error = copies.verify("db", "board", Repair::No).await.expect_err("it is paused");
    assert!(error.message().contains("Paused"), "{error}");
    copies.resume("db", "board").await.expect("resumed");
    store.settled().await;
    copies.verify("db", "board", Repair::No).await.expect("begun");
    copies.rebuild("db", "board").await.expect("begun");
    let report = ended().await;
    assert!(is_named(&report), "{report:#?}");
    assert_eq!(report.differences, 0, "{report:#?}");
    store.settled().await;
    store.verify("board", 0).await;
    copies.verify("db", "board", Repair::No).await.expect("begun");
    let definitions = fixture.account.definitions();
    let none = crate::support::none();
    definitions.delete_container(&fixture.ctx(), "db", "board", &none).await.expect("deleted");
    copies.verification("db", "board").expect_err("no index");
}
