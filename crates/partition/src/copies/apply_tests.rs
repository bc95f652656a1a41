//! Rows of a copy against a model: applied in any order they never go back, and the copy of a source that
//! is split and joined ends as its definition over the source.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use shardlake_document::parse_item;
use shardlake_model::{ErrorKind, Limits, Preconditions};
use shardlake_routing::KeyRange;
use shardlake_storage::{Shard, ShardOptions};

use super::watch_tests::{ByText, text_of};
use crate::relocate::cut_tests::{Move, Run};
use crate::test_fixture::{Settings, TestContainer, block_on, identity};
use crate::{
    CopyBatch, CopyReply, CopyRow, Image, Images, LogChange, Operation, Partition, RowStamp, StoredItem,
    item_of_position,
};

fn plain() -> TestContainer {
    TestContainer::new(&Settings { default_ttl: None, is_unique: false, retention: None })
}

fn stamp(lsn: u64) -> RowStamp {
    RowStamp { lsn, source: [1; 4], generation: 0, number: 0 }
}

fn body(json: &str) -> Option<Vec<u8>> {
    Some(parse_item(json.as_bytes(), &Default::default()).expect("a body").as_bytes().to_vec())
}

fn row(container: &TestContainer, pk: &str, id: &str, lsn: u64) -> CopyRow {
    let json = format!(r#"{{"id":"{id}","pk":"{pk}","v":{lsn}}}"#);
    CopyRow { key: container.logical(pk), id: id.to_owned(), stamp: stamp(lsn), body: body(&json) }
}

fn end(container: &TestContainer, pk: &str, id: &str, lsn: u64) -> CopyRow {
    CopyRow { body: None, ..row(container, pk, id, lsn) }
}

async fn apply(container: &TestContainer, partition: &Partition, rows: Vec<CopyRow>) -> CopyReply {
    let batch = CopyBatch { copy: 7, rows };
    partition.apply_copies(&container.shape, &container.command(0), &batch).await.expect("applied")
}

fn counts(reply: &CopyReply) -> (u32, u32, u32, usize) {
    (reply.written, reply.deleted, reply.unchanged, reply.refused.len())
}

async fn stamps(container: &TestContainer, partition: &Partition) -> BTreeMap<String, u64> {
    let items = container.items(partition).await;
    let of = |item: &StoredItem| {
        let json: serde_json::Value = serde_json::from_slice(&item.json_text()).expect("JSON");
        let stamp = RowStamp::of_etag(item.etag());
        assert_eq!(json["v"].as_u64(), Some(stamp.lsn), "a row is of one version");
        (
            format!("{}/{}", json["pk"].as_str().expect("a text"), json["id"].as_str().expect("a text")),
            stamp.lsn,
        )
    };
    items.iter().map(of).collect()
}

#[tokio::test]
async fn rows_of_many_keys_are_one_commit_and_never_go_back() {
    let (container, shard) = (plain(), Shard::open(ShardOptions::memory()).await.expect("opens"));
    let partition = container.open(&shard, &identity(3)).await;
    let keys = ["a", "b", "c", "d", "e"];
    let rows = |lsn: u64| -> Vec<CopyRow> { keys.iter().map(|pk| row(&container, pk, "1", lsn)).collect() };
    let first = apply(&container, &partition, rows(5)).await;
    assert_eq!((counts(&first), partition.durable_lsn()), ((5, 0, 0, 0), 1));
    assert!(first.meta.charge_centi > 0, "rows cost their container");
    assert_eq!(counts(&apply(&container, &partition, rows(5)).await), (0, 0, 5, 0));
    assert_eq!(counts(&apply(&container, &partition, rows(4)).await), (0, 0, 5, 0));
    assert_eq!(partition.durable_lsn(), 1, "equal and older rows write nothing");
    let mixed = vec![
        row(&container, "a", "1", 6),
        end(&container, "b", "1", 4),
        end(&container, "c", "1", 5),
        end(&container, "d", "1", 9),
        end(&container, "x", "1", 9),
    ];
    assert_eq!(counts(&apply(&container, &partition, mixed).await), (1, 2, 2, 0));
    let expected = [("a/1", 6), ("b/1", 5), ("e/1", 5)].map(|(name, lsn)| (name.to_owned(), lsn));
    assert_eq!(stamps(&container, &partition).await, BTreeMap::from(expected));
    let mut round = partition.log_round(&KeyRange::full(), 1).await.expect("no hole");
    let page = round.next_page().await.expect("readable").expect("a page");
    assert!(page.changes.iter().all(|change| change.origin == 7), "commits name their copy");
    container.verify(&shard, &identity(3)).await;
}

#[tokio::test]
async fn rows_that_cannot_be_written_are_refused_alone() {
    let mut container = plain();
    let limits =
        Limits { item_size_bytes_max: 2000, logical_partition_size_bytes_max: 4000, ..Limits::default() };
    Arc::get_mut(&mut container.shape).expect("the only holder").limits = Arc::new(limits);
    let shard = Shard::open(ShardOptions::memory()).await.expect("opens");
    let partition = container.open(&shard, &identity(3)).await;
    let long = |pk: &str, id: &str, bytes: usize| {
        let json = format!(r#"{{"id":"{id}","pk":"{pk}","v":5,"t":"{}"}}"#, "x".repeat(bytes));
        CopyRow { body: body(&json), ..row(&container, pk, id, 5) }
    };
    let rows = vec![
        row(&container, "a", "1", 5),
        long("b", "1", 2500),
        CopyRow { id: "2".into(), ..row(&container, "c", "1", 5) },
        CopyRow { key: container.logical("e"), ..row(&container, "d", "1", 5) },
        long("f", "1", 1500),
        long("f", "2", 1500),
        long("f", "3", 1500),
        row(&container, "g", "1", 5),
    ];
    let reply = apply(&container, &partition, rows).await;
    assert_eq!(counts(&reply), (4, 0, 0, 4));
    let mut refused: Vec<_> = reply.refused.iter().map(|refused| (refused.place, refused.kind)).collect();
    refused.sort_by_key(|(place, _)| *place);
    let expected = [
        (1, ErrorKind::TooLarge),
        (2, ErrorKind::BadRequest),
        (3, ErrorKind::BadRequest),
        (6, ErrorKind::LogicalPartitionFull),
    ];
    assert_eq!(refused, expected);
    let other = CopyRow { stamp: RowStamp { source: [2; 4], ..stamp(9) }, ..row(&container, "a", "1", 9) };
    let reply = apply(&container, &partition, vec![other]).await;
    assert_eq!((counts(&reply), reply.refused[0].kind), ((0, 0, 0, 1), ErrorKind::Conflict));
    container.verify(&shard, &identity(3)).await;
}

#[tokio::test]
async fn batches_have_bounds_and_name_a_row_once() {
    let (container, shard) = (plain(), Shard::open(ShardOptions::memory()).await.expect("opens"));
    let partition = container.open(&shard, &identity(3)).await;
    let many = (0..=CopyBatch::ROWS_MAX).map(|id| row(&container, "a", &id.to_string(), 1)).collect();
    let twice = vec![row(&container, "a", "1", 1), end(&container, "a", "1", 2)];
    for rows in [many, twice] {
        let batch = CopyBatch { copy: 7, rows };
        let refused = partition.apply_copies(&container.shape, &container.command(0), &batch).await;
        assert_eq!(refused.expect_err("refused").kind(), ErrorKind::BadRequest);
    }
    assert_eq!(partition.items(), 0);
}

#[tokio::test]
async fn rows_wait_for_a_script_on_their_logical_partition() {
    let (container, shard) = (plain(), Shard::open(ShardOptions::memory()).await.expect("opens"));
    let partition = container.open(&shard, &identity(3)).await;
    apply(&container, &partition, vec![row(&container, "a", "1", 1)]).await;
    let logical = container.logical("a");
    let begun = partition.begin(&container.shape, container.command(1), &logical, &container.clock).await;
    let script = begun.expect("begins");
    let impatient = crate::CommandContext { patience: Duration::ZERO, ..container.command(0) };
    let try_with = |pk: &str| {
        let batch = CopyBatch { copy: 7, rows: vec![row(&container, pk, "1", 2)] };
        let (partition, shape, impatient) = (&partition, &container.shape, &impatient);
        async move { partition.apply_copies(shape, impatient, &batch).await }
    };
    assert_eq!(try_with("a").await.expect_err("it is held").kind(), ErrorKind::Timeout);
    assert_eq!(counts(&try_with("b").await.expect("free")), (1, 0, 0, 0));
    drop(script);
    assert_eq!(counts(&try_with("a").await.expect("free")), (1, 0, 0, 0));
}

#[derive(Debug, Clone)]
enum Act {
    /// One transaction on a logical partition: new texts, or deletions.
    Write(u8, Vec<(u8, Option<u8>)>),
    /// A round of a part, which is cut short after so many steps.
    Round(u8, Option<u8>),
    SplitSource(u8, u8),
    JoinSource,
    SplitTarget(u8, u8),
    JoinTarget,
}

fn act() -> impl Strategy<Value = Act> {
    let one = (0..3u8, prop_oneof![3 => (0..5u8).prop_map(Some), 1 => Just(None)]);
    prop_oneof![
        8 => (0..4u8, prop::collection::vec(one, 1..4)).prop_map(|(pk, writes)| Act::Write(pk, writes)),
        6 => (any::<u8>(), prop::option::of(0..6u8)).prop_map(|(part, end)| Act::Round(part, end)),
        1 => (any::<u8>(), 1..63u8).prop_map(|(number, at)| Act::SplitSource(number, at)),
        1 => Just(Act::JoinSource),
        1 => (any::<u8>(), 1..63u8).prop_map(|(number, at)| Act::SplitTarget(number, at)),
        1 => Just(Act::JoinTarget),
    ]
}

/// A copy whose rows have the items' texts `k` as their keys.
struct Copy {
    source: Run,
    target: Run,
    /// Parts of the source's hash space, each read up to an LSN.
    parts: Vec<(KeyRange, u64)>,
    /// Texts by logical partition and id.
    model: BTreeMap<(String, String), String>,
    /// The highest LSN that each row was seen with.
    highest: BTreeMap<String, u64>,
}

impl Copy {
    async fn new() -> Copy {
        let settings = || Settings { default_ttl: None, is_unique: false, retention: None };
        let (mut source, target) = (Run::with(settings()).await, Run::with(settings()).await);
        Arc::get_mut(&mut source.container.shape).expect("the only holder").watch = Some(Arc::new(ByText));
        let parts = vec![(KeyRange::full(), 0)];
        Copy { source, target, parts, model: BTreeMap::new(), highest: BTreeMap::new() }
    }

    async fn write(&mut self, pk: u8, writes: &[(u8, Option<u8>)]) {
        let pk = format!("key {pk}");
        let mut operations = Vec::new();
        for (id, text) in writes {
            let (id, preconditions) = (format!("i{id}"), Preconditions::default());
            let name = (pk.clone(), id.clone());
            match text {
                Some(text) => {
                    let json = format!(r#"{{"id":"{id}","pk":"{pk}","k":"k{text}"}}"#);
                    operations
                        .push(Operation::Upsert { item: self.source.container.body(&json), preconditions });
                    self.model.insert(name, format!("k{text}"));
                }
                None if self.model.remove(&name).is_some() => {
                    operations.push(Operation::Delete { id, preconditions });
                }
                None => {}
            }
        }
        if operations.is_empty() {
            return;
        }
        let place = self.source.owner(&self.source.container.logical(&pk));
        let reply = self.source.container.execute(&place.partition, &pk, operations).await.expect("answers");
        assert!(reply.outcome.is_ok(), "{:?}", reply.outcome);
    }

    /// Parts follow the partitions of the source.
    fn divide(&mut self) {
        let ranges: Vec<KeyRange> =
            self.source.places.iter().map(|place| place.identity.epk_range.clone()).collect();
        let parts = std::mem::take(&mut self.parts);
        for (span, after) in parts {
            let spans = ranges.iter().map(|range| range.intersection(&span));
            self.parts.extend(spans.filter(|span| !span.is_empty()).map(|span| (span, after)));
        }
    }

    async fn round(&mut self, part: u8, steps: Option<u8>) {
        self.divide();
        let number = usize::from(part) % self.parts.len();
        let (span, after) = self.parts[number].clone();
        let owner = self.source.places.iter().find(|place| place.identity.epk_range.contains_range(&span));
        let round = owner.expect("it has an owner").partition.log_round(&span, after).await.expect("no hole");
        let (mut round, mut budget) = (round.with(Images::Current).in_pages_of(3), steps);
        let mut spend = move || match &mut budget {
            None => true,
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
        };
        while let Some(page) = round.next_page().await.expect("readable") {
            let (rows, ends) = self.rows_of(&page.changes);
            for row in rows.into_iter().chain(ends) {
                if !spend() {
                    return;
                }
                self.apply(row).await;
            }
            if !spend() {
                return;
            }
            self.parts[number].1 = page.upto;
        }
    }

    fn rows_of(&self, changes: &[LogChange]) -> (Vec<CopyRow>, Vec<CopyRow>) {
        let (mut rows, mut ends) = (Vec::new(), Vec::new());
        for change in changes {
            let (logical, id) = item_of_position(&change.key).expect("a key");
            let row = |k: &str, lsn: u64| CopyRow {
                key: self.target.container.logical(k),
                id: format!("{} {id}", serde_json::to_string(&logical.partition_key).expect("JSON")),
                stamp: RowStamp { source: RowStamp::source_of(&logical), ..stamp(lsn) },
                body: None,
            };
            if let Image::Record(record) = &change.new {
                let item = StoredItem::decode(record.clone(), &self.source.container.shape).expect("sound");
                if let Some(k) = text_of(&item) {
                    let row = row(&k, item.lsn());
                    let id = serde_json::to_string(&row.id).expect("JSON");
                    let json = format!(r#"{{"id":{id},"pk":"{k}","v":{}}}"#, item.lsn());
                    rows.push(CopyRow { body: body(&json), ..row });
                }
            }
            for ended in &change.ended {
                let row = row(std::str::from_utf8(&ended.row).expect("a text"), change.lsn);
                ends.push(CopyRow { stamp: row.stamp.before(), ..row });
            }
        }
        (rows, ends)
    }

    async fn apply(&mut self, row: CopyRow) {
        let place = self.target.owner(&row.key);
        let reply = apply(&self.target.container, &place.partition, vec![row]).await;
        assert_eq!(reply.refused, []);
    }

    async fn rows(&self) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        for place in &self.target.places {
            all.extend(stamps(&self.target.container, &place.partition).await);
        }
        all
    }

    async fn check_never_back(&mut self) {
        for (name, lsn) in self.rows().await {
            let highest = self.highest.entry(name.clone()).or_default();
            assert!(lsn >= *highest, "{name} went back from {highest} to {lsn}");
            *highest = lsn;
        }
    }

    async fn run(mut self, acts: Vec<Act>) {
        for act in acts {
            let one = |number: u8, at| Move {
                splits: Some(usize::from(number)),
                at,
                writes: [vec![], vec![], vec![]],
            };
            let all = || Move { splits: None, at: 1, writes: [vec![], vec![], vec![]] };
            match act {
                Act::Write(pk, writes) => self.write(pk, &writes).await,
                Act::Round(part, steps) => self.round(part, steps).await,
                Act::SplitSource(number, at) => self.source.relocate(&one(number, at)).await,
                Act::JoinSource => self.source.relocate(&all()).await,
                Act::SplitTarget(number, at) => self.target.relocate(&one(number, at)).await,
                Act::JoinTarget => self.target.relocate(&all()).await,
            }
            self.check_never_back().await;
        }
        self.divide();
        for number in 0..self.parts.len() {
            self.round(u8::try_from(number).expect("few"), None).await;
        }
        let mut found: Vec<String> = self.rows().await.into_keys().collect();
        let name = |((pk, id), k): (&(String, String), &String)| {
            let key = self.source.container.logical(pk).partition_key;
            format!("{k}/{} {id}", serde_json::to_string(&key).expect("JSON"))
        };
        let mut expected: Vec<String> = self.model.iter().map(name).collect();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn a_copy_is_its_definition_over_a_source_that_is_split_and_joined(
        acts in prop::collection::vec(act(), 1..40),
    ) {
        block_on(async { Copy::new().await.run(acts).await });
    }
}

#[tokio::test]
async fn an_item_is_at_a_key_while_its_row_moves() {
    let mut copy = Copy::new().await;
    copy.write(0, &[(0, Some(1))]).await;
    copy.round(0, None).await;
    copy.write(0, &[(0, Some(2))]).await;
    copy.write(0, &[(0, Some(3))]).await;
    // Only the first row of the round: the newest version, under its new key.
    copy.round(0, Some(1)).await;
    let rows: Vec<String> = copy.rows().await.into_keys().collect();
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert!(rows[0].starts_with("k1/") && rows[1].starts_with("k3/"), "{rows:?}");
}
