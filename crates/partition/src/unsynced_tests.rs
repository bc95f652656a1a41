//! Operations that have to see the last commits, while one of them is applied and not yet synced:
//! the shard shows readers the state before it, and the overlay of queued commits does not hold it
//! any more.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use shardlake_model::{ErrorKind, Preconditions, Result};
use shardlake_stdx::{Clock, CommitTimes, Guid, Timestamp};
use shardlake_storage::{Durability, Shard, ShardOptions};

use crate::test_fixture::{Fixture, command, identity};
use crate::{CommandContext, Operation, Partition, PartitionWrite, Relocation, RelocationTarget};

impl Fixture {
    /// Both in one commit.
    async fn renew_and_create(&self) -> Result<()> {
        let upsert =
            |id| Operation::Upsert { item: self.item(id, "after"), preconditions: Preconditions::default() };
        let context = CommandContext { etags: vec![Guid([2; 16]), Guid([3; 16])], ..command() };
        let operations = vec![upsert("old"), upsert("new")];
        let command = PartitionWrite { key: self.logical(), operations, context };
        self.partition.execute(&self.shape, &Arc::new(command)).await.map(drop)
    }

    /// Begins `work` when a commit with an item `new` and a new version of `old` is applied and not yet synced, and a writer
    /// in vain has come after it. The sync ends when `work` is done or waits for something.
    async fn while_unsynced<T>(&self, work: impl Future<Output = T>) -> T {
        self.upsert("old", "before").await.expect("written");
        self.engine.stall_syncs(true);
        let mut writing = pin!(self.renew_and_create());
        assert!(is_pending(writing.as_mut()).await);
        while !self.engine.is_stalling() {
            tokio::task::yield_now().await;
        }
        let mut in_vain = pin!(self.write(Operation::Create { item: self.item("old", "in vain") }));
        assert!(is_pending(in_vain.as_mut()).await, "what it met is not durable yet");
        let mut work = pin!(work);
        let early = poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await;
        self.engine.stall_syncs(false);
        let outcome = match early {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => work.await,
        };
        writing.await.expect("acknowledged");
        assert_eq!(in_vain.await.expect_err("it is there").kind(), ErrorKind::Conflict);
        outcome
    }
}

async fn is_pending<T>(mut future: std::pin::Pin<&mut impl Future<Output = T>>) -> bool {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await
}

#[tokio::test]
async fn targets_of_a_relocation_get_what_was_applied_and_not_yet_synced() {
    for durability in [Durability::Sync, Durability::Memory] {
        expect_whole_target(durability).await;
    }
}

async fn expect_whole_target(durability: Durability) {
    let fixture = Fixture::with(durability).await;
    let target = Shard::open(ShardOptions::memory()).await.expect("opens");
    let targets = vec![RelocationTarget { identity: identity(4), shard: target.clone() }];
    let (sources, shape) = (vec![fixture.partition.clone()], fixture.shape.clone());
    let layouts = shape.maintained();
    let mut relocation = Relocation::new(sources, targets, shape, layouts, Arc::default());
    relocation.copy().await.expect("copied");
    let clock = Clock::manual(command().now);
    let cutting_over = relocation.cut_over(&clock, Duration::from_secs(60));
    let cutover =
        Box::pin(fixture.while_unsynced(cutting_over)).await.expect("nothing fails").expect("in time");
    cutover.complete();
    assert_eq!(
        fixture.problems_of(&target, 4).await,
        (2, vec![]),
        "every acknowledged item is in the target"
    );
    let moved = Partition::open(
        (target, CommitTimes::new(Clock::manual(Timestamp(0)))),
        identity(4),
        fixture.shape.maintained(),
    )
    .await
    .expect("opens");
    let none = Preconditions::default();
    for id in ["old", "new"] {
        let read = moved.read(&fixture.shape, &command(), &fixture.logical(), id, &none).await;
        let mut json = Vec::new();
        read.expect("it was acknowledged").item.expect("an item").write_json(&mut json);
        let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
        assert_eq!(json["v"], "after", "{id}");
    }
}

#[tokio::test]
async fn deleting_a_logical_partition_takes_what_was_applied_and_not_yet_synced() {
    let fixture = Fixture::new().await;
    let logical = fixture.logical();
    let context = command();
    let deleting = fixture.partition.delete_logical_partition(&fixture.shape, &context, &logical);
    let (deleted, _) = Box::pin(fixture.while_unsynced(deleting)).await.expect("deleted");
    assert_eq!(deleted, 2);
    assert_eq!(fixture.problems_of(&fixture.shard, 3).await, (0, vec![]), "the index agrees with the items");
}
