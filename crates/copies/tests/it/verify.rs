//! Comparison of an index with its source: rows that are damaged below the engine's rules are found and mended.

use serde_json::{Value, json};
use shardlake_account::{DifferenceKind, Repair, VerifyState};
use shardlake_model::ErrorKind;
use shardlake_partition::{
    CommandContext, CopyBatch, CopyRow, ItemRow, RowStamp, StoredItem, item_of_position,
};
use shardlake_testkit::expects_log;

use crate::indexes::seeds;
use crate::store::Store;
use crate::support::{Fixture, eventually};

/// A row as it is stored.
pub struct Row {
    pub copy: CopyRow,
    pub item: StoredItem,
}

/// The rows of an index, in the order of their keys.
pub async fn stored(store: &Store<'_>, index: &str) -> Vec<Row> {
    let (container, mut rows) = (store.container(index), Vec::new());
    for partition in container.entry.map.iter() {
        let partition = partition.hosted().partition();
        let mut round = partition.items_round(&partition.epk_range, usize::MAX).await.expect("begins");
        while let Some(page) = round.next_page().await.expect("read") {
            for ItemRow { key, record } in page {
                let (key, id) = item_of_position(&key).expect("a key");
                let item = StoredItem::decode(record, &container.entry.shape).expect("sound");
                let stamp = RowStamp::of_etag(item.etag());
                let body = Some(item.body().as_bytes().to_vec());
                rows.push(Row { copy: CopyRow { key, id, stamp, body }, item });
            }
        }
    }
    rows
}

/// Writes a row past the rules of the index.
pub async fn damage(store: &Store<'_>, index: &str, row: CopyRow) {
    let container = store.container(index);
    let partition = container.entry.map.iter().find(|partition| partition.epk_range().contains(&row.key.epk));
    let partition = partition.expect("a partition").hosted().partition();
    let context = CommandContext::of(&store.fixture.ctx(), &store.fixture.clock);
    let batch = CopyBatch { copy: 1, rows: vec![row] };
    let reply = partition.apply_copies(&container.entry.shape, &context, &batch).await.expect("applied");
    assert_eq!(reply.written + reply.deleted, 1);
}

/// The body of a row with another member.
pub fn edited(store: &Store<'_>, row: &Row, member: &str, value: Value) -> Option<Vec<u8>> {
    let mut text: Value = serde_json::from_slice(&row.item.json_text()).expect("JSON");
    text[member] = value;
    let limits = store.fixture.account.router().limits();
    let body = shardlake_account::item_of_json(text.to_string().as_bytes(), limits).expect("an item");
    Some(body.as_bytes().to_vec())
}

pub fn later(stamp: RowStamp) -> RowStamp {
    RowStamp { lsn: stamp.lsn + 1, ..stamp }
}

async fn filled(fixture: &Fixture) -> Store<'_> {
    let store = Store::new(fixture, None, 100_000).await;
    store.index("source", "by_k", "/k", "SELECT c.k, c.n FROM c").await;
    for number in 0..200 {
        store.put(&format!("p{}", number % 9), &number.to_string(), &format!("k{}", number % 40)).await;
    }
    store.settled().await;
    store.verify("by_k", 0).await;
    store
}

#[tokio::test]
async fn damaged_rows_are_found_with_both_sides_and_mended() {
    let fixture = Fixture::new().await;
    let store = filled(&fixture).await;
    let rows = stored(&store, "by_k").await;
    // One is lost, one has another content, one is of no item.
    let lost = &rows[3].copy;
    damage(&store, "by_k", CopyRow { body: None, ..lost.clone() }).await;
    let changed = &rows[7];
    let body = edited(&store, changed, "n", json!(77));
    damage(&store, "by_k", CopyRow { body, stamp: later(changed.copy.stamp), ..changed.copy.clone() }).await;
    let template = &rows[11];
    let body = edited(&store, template, "id", json!("of-no-item"));
    damage(&store, "by_k", CopyRow { id: "of-no-item".into(), body, ..template.copy.clone() }).await;

    expects_log("is not that of its definition");
    expects_log("it is built anew");
    let report = store.verified("by_k", Repair::No).await;
    assert_eq!((&report.state, report.differences), (&VerifyState::Done, 3), "{report:#?}");
    assert_eq!((report.items, report.percent()), (200, 100));
    let of = |kind| report.listed.iter().find(|found| found.kind == kind).expect("listed").clone();
    let missing = of(DifferenceKind::Missing);
    assert_eq!((missing.row, missing.found), (lost.id.clone(), None));
    assert!(missing.expected.expect("a side").contains(&lost.id));
    let other = of(DifferenceKind::Other);
    assert!(other.expected.expect("a side").contains("\"n\":1"), "as defined");
    assert!(other.found.expect("a side").contains("\"n\":77"), "as stored");
    let extra = of(DifferenceKind::TooMany);
    assert_eq!((extra.row.as_str(), extra.expected), ("of-no-item", None));

    let report = store.verified("by_k", Repair::Rebuild).await;
    assert_eq!((report.differences, report.repaired_by), (3, Some(2)));
    store.settled().await;
    store.check("source", "by_k").await;
    store.verify("by_k", 0).await;
}

#[tokio::test]
async fn writes_during_a_comparison_are_no_differences() {
    for seed in seeds(4) {
        let fixture = Fixture::new().await;
        let store = filled(&fixture).await;
        let random = shardlake_stdx::Random::seeded(seed);
        let copies = fixture.account.copies();
        for _ in 0..5 {
            copies.verify("db", "by_k", Repair::No).await.expect("it follows");
            let mut is_over = false;
            while !is_over {
                for _ in 0..20 {
                    let (pk, id) = (format!("p{}", random.below(9)), random.below(200).to_string());
                    match random.below(3) {
                        0 => drop(store.delete(&pk, &id).await),
                        _ => store.put(&pk, &id, &format!("k{}", random.below(40))).await,
                    }
                }
                fixture.clock.advance(std::time::Duration::from_millis(50));
                tokio::task::yield_now().await;
                let report = copies.verification("db", "by_k").expect("an index").expect("begun");
                is_over = report.state != VerifyState::Running;
                assert_eq!(report.differences, 0, "seed {seed}: {report:#?}");
            }
            let report = copies.verification("db", "by_k").expect("an index").expect("begun");
            assert_eq!(report.state, VerifyState::Done, "seed {seed}: {report:#?}");
        }
    }
}

#[tokio::test]
async fn only_an_index_that_follows_is_compared() {
    let fixture = Fixture::new().await;
    let store = filled(&fixture).await;
    let copies = fixture.account.copies();
    assert!(copies.verification("db", "by_k").expect("an index").is_some());
    copies.pause("db", "by_k").await.expect("paused");
    let error = copies.verify("db", "by_k", Repair::No).await.expect_err("it is paused");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.message().contains("Paused"), "{error}");
    copies.resume("db", "by_k").await.expect("resumed");
    let error = copies.verify("db", "source", Repair::No).await.expect_err("no index");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    eventually("it follows again", async || store.report("by_k").await.state == "Active").await;
    // A pause ends a comparison.
    copies.verify("db", "by_k", Repair::No).await.expect("begun");
    copies.pause("db", "by_k").await.expect("paused");
    eventually("it ends", async || {
        let report = copies.verification("db", "by_k").expect("an index").expect("begun");
        report.state != VerifyState::Running
    })
    .await;
}
