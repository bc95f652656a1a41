//! Every way in which a version ends records the rows of copies that end with it.

use std::sync::Arc;

use shardlake_document::{ItemView, PatchOperation, RawValue, Value};
use shardlake_model::{Preconditions, Result};
use shardlake_routing::KeyRange;
use shardlake_stdx::Guid;
use shardlake_storage::{Shard, ShardOptions};

use crate::test_fixture::{Settings, TestContainer, identity};
use crate::{
    BatchReply, ChangeKind, EndedRow, EndedVersion, Operation, Partition, PreparedBody, StoredItem, Watch,
    item_of_position,
};

/// A copy whose row of an item lies under the item's text `k`.
#[derive(Debug)]
pub(crate) struct ByText;

pub(crate) fn text_of(item: &StoredItem) -> Option<String> {
    text_of_view(item.view())
}

fn text_of_view(item: ItemView<'_>) -> Option<String> {
    match item.body.get("k") {
        Some(RawValue::String(text)) => Some(text.to_owned()),
        _ => None,
    }
}

impl Watch for ByText {
    fn ended(&self, ended: &EndedVersion<'_>) -> Vec<EndedRow> {
        let new = ended.new.and_then(text_of_view);
        let old = text_of_view(ended.old).filter(|old| new.as_ref() != Some(old));
        old.map(|old| EndedRow { copy: 7, row: old.into_bytes() }).into_iter().collect()
    }
}

/// A container with a copy.
pub(crate) fn watched(default_ttl: Option<i64>) -> TestContainer {
    let mut container = TestContainer::new(&Settings { default_ttl, is_unique: false, retention: None });
    Arc::get_mut(&mut container.shape).expect("the only holder").watch = Some(Arc::new(ByText));
    container
}

struct Source {
    container: TestContainer,
    partition: Arc<Partition>,
    seen: u64,
}

type Ended = (ChangeKind, String, Vec<String>);

fn ended(kind: ChangeKind, id: &str, rows: &[&str]) -> Ended {
    (kind, id.to_owned(), rows.iter().map(|row| (*row).to_owned()).collect())
}

impl Source {
    async fn new(default_ttl: Option<i64>) -> Source {
        Source::of(watched(default_ttl)).await
    }

    async fn of(container: TestContainer) -> Source {
        let shard = Shard::open(ShardOptions::memory()).await.expect("opens");
        let partition = container.open(&shard, &identity(3)).await;
        Source { container, partition, seen: 0 }
    }

    fn item(&self, id: &str, k: &str) -> PreparedBody {
        self.container.body(&format!(r#"{{"id":"{id}","pk":"p","k":"{k}","n":1}}"#))
    }

    fn put(&self, id: &str, k: &str) -> Operation {
        Operation::Upsert { item: self.item(id, k), preconditions: Preconditions::default() }
    }

    async fn execute(&self, operations: Vec<Operation>) -> Result<BatchReply> {
        self.container.execute(&self.partition, "p", operations).await
    }

    async fn write(&self, operation: Operation) {
        self.execute(vec![operation]).await.expect("answers").outcome.expect("written");
    }

    /// The operations of the log since the last look.
    async fn logged(&mut self) -> Vec<Ended> {
        let mut round = self.partition.log_round(&KeyRange::full(), self.seen).await.expect("no hole");
        self.seen = round.upto();
        let mut found = Vec::new();
        while let Some(page) = round.next_page().await.expect("readable") {
            for change in page.changes {
                assert!(change.ended.iter().all(|row| row.copy == 7) && change.origin == 0);
                let rows = change.ended.into_iter().map(|row| String::from_utf8(row.row).expect("a text"));
                let (_, id) = item_of_position(&change.key).expect("a key");
                found.push((change.kind, id, rows.collect()));
            }
        }
        found
    }
}

fn delete(id: &str) -> Operation {
    Operation::Delete { id: id.to_owned(), preconditions: Preconditions::default() }
}

use ChangeKind::{Create, Delete, Expire, Replace};

#[tokio::test]
async fn single_requests_record_ended_rows() {
    let mut source = Source::new(None).await;
    source.write(source.put("1", "a")).await;
    source.write(source.put("1", "a")).await;
    source.write(source.put("1", "b")).await;
    let set = PatchOperation::Set { path: vec!["k".into()], value: Value::String("c".into()) };
    let patch = |operations| Operation::Patch {
        id: "1".to_owned(),
        operations,
        condition: None,
        preconditions: Preconditions::default(),
    };
    source.write(patch(vec![set])).await;
    source.write(patch(vec![PatchOperation::Remove { path: vec!["n".into()] }])).await;
    let renamed = source.item("2", "c");
    let rename = Operation::Replace { id: "1".into(), item: renamed, preconditions: Default::default() };
    source.write(rename).await;
    source.write(delete("2")).await;
    let expected = [
        ended(Create, "1", &[]),
        ended(Replace, "1", &[]),
        ended(Replace, "1", &["a"]),
        ended(Replace, "1", &["b"]),
        ended(Replace, "1", &[]),
        ended(Delete, "1", &["c"]),
        ended(Create, "2", &[]),
        ended(Delete, "2", &["c"]),
    ];
    assert_eq!(source.logged().await, expected);
}

#[tokio::test]
async fn batches_record_the_rows_of_the_version_before_them() {
    let mut source = Source::new(None).await;
    source.write(source.put("1", "a")).await;
    source.logged().await;
    let batches: [(Vec<Operation>, Ended); 6] = [
        // The first replacement moves no row, the second one does.
        (vec![source.put("1", "a"), source.put("1", "b")], ended(Replace, "1", &["a"])),
        (vec![source.put("1", "x"), source.put("1", "c")], ended(Replace, "1", &["b"])),
        (vec![delete("1"), source.put("1", "d")], ended(Replace, "1", &["c"])),
        (vec![delete("1"), source.put("1", "x"), source.put("1", "e")], ended(Replace, "1", &["d"])),
        (vec![source.put("1", "x"), delete("1")], ended(Delete, "1", &["e"])),
        (vec![source.put("2", "x"), source.put("2", "y")], ended(Create, "2", &[])),
    ];
    for (operations, expected) in batches {
        source.execute(operations).await.expect("answers").outcome.expect("written");
        assert_eq!(source.logged().await, [expected]);
    }
    let nothing = vec![source.put("3", "x"), delete("3")];
    source.execute(nothing).await.expect("answers").outcome.expect("written");
    assert_eq!(source.logged().await, []);
}

#[tokio::test]
async fn many_replacements_in_one_commit_record_a_row_once() {
    let mut source = Source::new(None).await;
    source.write(source.put("1", "a")).await;
    source.logged().await;
    let operations = (0..90).map(|number| source.put("1", &format!("k{number}"))).collect();
    source.execute(operations).await.expect("answers").outcome.expect("written");
    assert_eq!(source.logged().await, [ended(Replace, "1", &["a"])]);
}

#[tokio::test]
async fn expired_items_record_ended_rows_by_writes_and_sweeps() {
    let mut source = Source::new(Some(5)).await;
    source.write(source.put("1", "a")).await;
    source.write(source.put("2", "b")).await;
    source.container.clock.advance(std::time::Duration::from_secs(6));
    source.write(source.put("1", "c")).await;
    source.container.sweep(&source.partition).await;
    let expected = [
        ended(Create, "1", &[]),
        ended(Create, "2", &[]),
        ended(Expire, "1", &["a"]),
        ended(Create, "1", &[]),
        ended(Expire, "2", &["b"]),
    ];
    assert_eq!(source.logged().await, expected);
}

#[tokio::test]
async fn deleting_a_logical_partition_records_ended_rows() {
    let mut source = Source::new(None).await;
    for (id, k) in [("1", "a"), ("2", "b"), ("3", "a")] {
        source.write(source.put(id, k)).await;
    }
    source.logged().await;
    let (container, command) = (&source.container, source.container.command(1));
    source
        .partition
        .delete_logical_partition(&container.shape, &command, &container.logical("p"))
        .await
        .expect("deleted");
    let expected = [ended(Delete, "1", &["a"]), ended(Delete, "2", &["b"]), ended(Delete, "3", &["a"])];
    assert_eq!(source.logged().await, expected);
}

#[tokio::test]
async fn transactions_of_scripts_record_ended_rows() {
    let mut source = Source::new(None).await;
    source.write(source.put("1", "a")).await;
    source.write(source.put("2", "b")).await;
    source.logged().await;
    let (container, command) = (&source.container, source.container.command(1));
    let logical = container.logical("p");
    let begun = source.partition.begin(&container.shape, command, &logical, &container.clock).await;
    let mut transaction = begun.expect("begins");
    for operation in [source.put("1", "x"), source.put("1", "c"), delete("2"), source.put("3", "d")] {
        transaction.execute(&operation, Guid([9; 16])).await.expect("a step");
    }
    transaction.commit().await.expect("committed");
    let mut logged = source.logged().await;
    logged.sort_by_key(|(_, id, _)| id.clone());
    assert_eq!(logged, [ended(Replace, "1", &["a"]), ended(Delete, "2", &["b"]), ended(Create, "3", &[])]);
}

#[tokio::test]
async fn snapshot_transactions_record_ended_rows() {
    let mut source = Source::new(None).await;
    source.write(source.put("1", "a")).await;
    source.write(source.put("2", "b")).await;
    source.logged().await;
    let (container, command) = (&source.container, source.container.command(1));
    let mut transaction = source.partition.begin_snapshot(command).expect("open");
    let steps =
        [delete("1"), source.put("1", "x"), source.put("1", "c"), source.put("2", "b"), source.put("3", "d")];
    for operation in steps {
        let (logical, step) = (container.logical("p"), (operation, Guid([9; 16])));
        transaction.execute(&source.partition, &container.shape, &logical, step).await.expect("a step");
    }
    assert!(transaction.commit(None).await.is_ok(), "nothing is in its way");
    let mut logged = source.logged().await;
    logged.sort_by_key(|(_, id, _)| id.clone());
    assert_eq!(logged, [ended(Replace, "1", &["a"]), ended(Replace, "2", &[]), ended(Create, "3", &[])]);
}

#[tokio::test]
async fn commits_under_an_earlier_shape_follow_the_watch() {
    let plain = TestContainer::new(&Settings { default_ttl: None, is_unique: false, retention: None });
    let mut source = Source::of(plain).await;
    source.write(source.put("1", "a")).await;
    source.write(source.put("1", "b")).await;
    assert_eq!(source.logged().await, [ended(Create, "1", &[]), ended(Replace, "1", &[])]);
    let with_copy = watched(None).shape;
    assert!(with_copy.number > source.container.shape.number, "it was made later");
    source.partition.follow_watch(&with_copy).await.expect("follows");
    source.write(source.put("1", "c")).await;
    assert_eq!(source.logged().await, [ended(Replace, "1", &["b"])], "under the earlier shape");
    let without = TestContainer::new(&Settings { default_ttl: None, is_unique: false, retention: None });
    source.container = without;
    source.write(source.put("1", "d")).await;
    assert_eq!(source.logged().await, [ended(Replace, "1", &[])], "under a later shape without a copy");
}
