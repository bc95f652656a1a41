//! Snapshot transactions against concurrent writes, and the stored result.

use std::sync::Arc;

use shardlake_model::{ErrorKind, Preconditions, Result};
use shardlake_stdx::Guid;

use super::tests::Fixture;
use super::{SnapshotTransaction, Uncommitted};
use crate::{End, Operation, Outcome, StoredItem, verify_partition};

impl Fixture {
    fn begin_snapshot(&self) -> SnapshotTransaction {
        self.partition.begin_snapshot(self.command()).expect("the partition is open")
    }

    async fn step(
        &self,
        transaction: &mut SnapshotTransaction,
        pk: &str,
        operation: Operation,
    ) -> Result<Outcome> {
        let (logical, etag) = (self.logical(pk), Guid([2; 16]));
        let step = transaction.execute(&self.partition, &self.shape, &logical, (operation, etag));
        Ok(step.await?.outcome)
    }

    async fn seen(&self, transaction: &SnapshotTransaction, pk: &str, id: &str) -> Option<StoredItem> {
        let logical = self.logical(pk);
        transaction.read(&self.partition, &self.shape, &logical, id).await.ok()?.item
    }

    fn create(&self, pk: &str, id: &str, value: i64, unique: i64) -> Operation {
        Operation::Create { item: self.item(pk, id, value, unique) }
    }

    fn upsert(&self, pk: &str, id: &str, value: i64, unique: i64) -> Operation {
        Operation::Upsert { item: self.item(pk, id, value, unique), preconditions: Preconditions::default() }
    }

    async fn verified(&self) {
        let report =
            verify_partition(&self.shard, &self.identity, &self.shape, &|_| ()).await.expect("readable");
        assert_eq!(report.problems, Vec::<String>::new());
    }
}

fn kind<T>(outcome: Result<T>) -> Option<ErrorKind> {
    outcome.err().map(|error| error.kind())
}

fn refused(outcome: Result<(), Uncommitted>) -> Option<ErrorKind> {
    outcome.err().map(|failure| failure.error.kind())
}

#[tokio::test]
async fn keys_of_one_partition_are_committed_together() {
    let fixture = Fixture::new().await;
    let mut transaction = fixture.begin_snapshot();
    for (pk, id) in [("a", "1"), ("b", "1"), ("a", "2"), ("c", "1")] {
        let unique = if id == "1" { 1 } else { 2 };
        let created = fixture.step(&mut transaction, pk, fixture.create(pk, id, 1, unique)).await;
        assert_eq!(created.expect("a new item"), Outcome::Created);
    }
    assert!(fixture.seen(&transaction, "b", "1").await.is_some());
    assert!(fixture.seen(&fixture.begin_snapshot(), "b", "1").await.is_none());
    let taken = fixture.step(&mut transaction, "a", fixture.create("a", "3", 1, 2)).await;
    assert_eq!(kind(taken), Some(ErrorKind::Conflict), "the unique value is its own");
    let before = fixture.partition.durable_lsn();
    transaction.commit(None).await.expect("nothing is in its way");
    assert_eq!(fixture.partition.durable_lsn(), before + 1, "one commit");
    assert_eq!(fixture.partition.items(), 4);
    fixture.verified().await;
}

#[tokio::test]
async fn items_and_unique_values_are_the_first_writers() {
    let fixture = Fixture::new().await;
    let (mut one, mut two) = (fixture.begin_snapshot(), fixture.begin_snapshot());
    fixture.step(&mut one, "a", fixture.create("a", "1", 1, 7)).await.expect("free");
    let same_item = fixture.step(&mut two, "a", fixture.create("a", "1", 2, 8)).await;
    assert_eq!(kind(same_item), Some(ErrorKind::PreconditionFailed));
    let same_value = fixture.step(&mut two, "a", fixture.create("a", "2", 2, 7)).await;
    assert_eq!(kind(same_value), Some(ErrorKind::PreconditionFailed));
    fixture.step(&mut two, "a", fixture.create("a", "2", 2, 8)).await.expect("free");
    drop(one);
    two.commit(None).await.expect("the other has gone");
    // A transaction with an earlier view must not overwrite items written since.
    let mut late = fixture.begin_snapshot();
    fixture.write("a", &fixture.upsert("a", "2", 3, 9)).await.expect("free");
    let stale = fixture.step(&mut late, "a", fixture.upsert("a", "2", 4, 9)).await;
    assert_eq!(kind(stale), Some(ErrorKind::PreconditionFailed));
    assert!(late.commit(None).await.is_ok(), "it has written nothing");
    fixture.verified().await;
}

#[tokio::test]
async fn a_writer_waits_for_a_claim_and_a_script_does_not() {
    let fixture = Arc::new(Fixture::new().await);
    fixture.write("a", &fixture.create("a", "1", 1, 1)).await.expect("free");
    let mut transaction = fixture.begin_snapshot();
    fixture.step(&mut transaction, "a", fixture.upsert("a", "1", 2, 1)).await.expect("free");
    fixture.write("a", &fixture.create("a", "2", 1, 2)).await.expect("another item is free");
    let writer = fixture.clone();
    let waiting = tokio::spawn(async move { writer.write("a", &writer.upsert("a", "1", 3, 1)).await });
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    assert!(!waiting.is_finished());
    transaction.commit(None).await.expect("nothing is in its way");
    waiting.await.expect("ends").expect("its turn has come");
    let mut transaction = fixture.begin_snapshot();
    fixture.step(&mut transaction, "a", fixture.upsert("a", "1", 4, 1)).await.expect("free");
    let mut script = fixture.begin("a").await.expect("the gate is free");
    script.execute(&fixture.upsert("a", "1", 5, 1), Guid([3; 16])).await.expect("it knows no claims");
    script.commit().await.expect("it knows no claims");
    assert_eq!(refused(transaction.commit(None).await), Some(ErrorKind::PreconditionFailed));
    fixture.verified().await;
}

#[tokio::test]
async fn a_partition_that_has_ended_takes_no_commit() {
    let fixture = Fixture::new().await;
    let mut transaction = fixture.begin_snapshot();
    fixture.step(&mut transaction, "a", fixture.create("a", "1", 1, 1)).await.expect("free");
    fixture.partition.close(End::Moved).await;
    assert_eq!(refused(transaction.commit(None).await), Some(ErrorKind::PartitionGone));
}
