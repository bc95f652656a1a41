//! Holds: no operation that a follower has not read is compacted, no expired version is lost to it.

use shardlake_model::{Limits, Preconditions};
use shardlake_routing::KeyRange;
use shardlake_storage::{Shard, ShardOptions};

use crate::test_fixture::{Settings, TestContainer, identity};
use crate::{
    ChangeKind, Compaction, CompactionStep, HeldLsns, Image, Images, LogChange, Operation, Partition,
    RoundError, StoredItem, SweepStep,
};
use std::sync::Arc;
use std::time::Duration;

struct Stopped {
    container: TestContainer,
    shard: Shard,
    partition: Arc<Partition>,
}

impl Stopped {
    async fn new(default_ttl: Option<i64>) -> Stopped {
        let container = TestContainer::new(&Settings { default_ttl, is_unique: false, retention: None });
        let shard = Shard::open(ShardOptions::memory()).await.expect("opens");
        let partition = container.open(&shard, &identity(3)).await;
        Stopped { container, shard, partition }
    }

    async fn execute(&self, operations: Vec<Operation>) -> u64 {
        let reply = self.container.execute(&self.partition, "p", operations).await.expect("answers");
        reply.outcome.expect("written")[0].meta.lsn
    }

    async fn put(&self, id: &str) -> u64 {
        let item = self.container.body(&format!(r#"{{"id":"{id}","pk":"p","v":1}}"#));
        self.execute(vec![Operation::Upsert { item, preconditions: Preconditions::default() }]).await
    }

    async fn delete(&self, ids: impl Iterator<Item = u64>) {
        let of = |id: u64| Operation::Delete { id: id.to_string(), preconditions: Preconditions::default() };
        self.execute(ids.map(of).collect()).await;
    }

    fn hold(&self, entries: Option<u64>, expired: Option<u64>) {
        self.partition.hold_log(HeldLsns { entries, expired });
    }

    async fn changes(&self, after: u64) -> Result<Vec<LogChange>, RoundError> {
        let round = self.partition.log_round(&KeyRange::full(), after).await?;
        let (mut round, mut changes) = (round.with(Images::Latest), Vec::new());
        while let Some(page) = round.next_page().await? {
            changes.extend(page.changes);
        }
        Ok(changes)
    }

    async fn verify(&self) -> u64 {
        self.container.verify(&self.shard, &identity(3)).await.items
    }
}

#[tokio::test]
async fn follower_that_is_stopped_for_5000_deletes_misses_none() {
    let mut stopped = Stopped::new(None).await;
    for number in 0..100u64 {
        let put = |id: u64| {
            let item = stopped.container.body(&format!(r#"{{"id":"{id}","pk":"p","v":1}}"#));
            Operation::Upsert { item, preconditions: Preconditions::default() }
        };
        stopped.execute((number * 60..(number + 1) * 60).map(put).collect()).await;
    }
    let position = stopped.partition.durable_lsn();
    stopped.hold(Some(position), None);
    for number in 0..500 {
        stopped.delete(number * 10..(number + 1) * 10).await;
    }
    for attempt in ["open", "reopened"] {
        stopped.container.compact(&stopped.partition).await;
        let changes = stopped.changes(position).await.expect("no hole above a hold");
        let deleted = changes.iter().filter(|change| change.kind == ChangeKind::Delete).count();
        assert_eq!(deleted, 5_000, "{attempt}");
        assert!(changes.iter().all(|change| change.previous_lsn <= position));
        // Nothing is known of holds after a start until the account gives them again, before it serves.
        stopped.partition = stopped.container.open(&stopped.shard, &identity(3)).await;
        stopped.hold(Some(position), None);
    }
    assert_eq!(stopped.verify().await, 1_000);
    // The follower is half way, then gone.
    stopped.hold(Some(position + 250), None);
    stopped.container.compact(&stopped.partition).await;
    let hole = stopped.changes(position).await;
    assert!(
        matches!(hole, Err(RoundError::Hole { compacted_to }) if compacted_to == position + 250),
        "{hole:?}"
    );
    assert_eq!(stopped.changes(position + 250).await.expect("held").len(), 2_500);
    stopped.hold(None, None);
    stopped.container.compact(&stopped.partition).await;
    assert!(matches!(stopped.changes(position + 250).await, Err(RoundError::Hole { .. })));
    assert_eq!(stopped.verify().await, 1_000);
}

#[tokio::test]
async fn step_of_compaction_that_a_hold_overtakes_removes_nothing() {
    let stopped = Stopped::new(None).await;
    for _ in 0..10 {
        stopped.put("a").await;
    }
    let limits = Limits { change_log_entries_kept: 1, ..Limits::default() };
    let (mut compaction, now) = (Compaction::default(), stopped.container.clock.now());
    let sequencer = stopped.partition.core().sequencer.hold().await;
    let mut step = Box::pin(stopped.partition.compact(&mut compaction, &limits, now));
    assert!(futures::poll!(&mut step).is_pending(), "it waits for the sequencer");
    stopped.hold(Some(4), None);
    drop(sequencer);
    assert_eq!(step.await.expect("a step"), CompactionStep::Idle);
    assert_eq!(stopped.changes(4).await.expect("held").len(), 6);
}

#[tokio::test]
async fn expired_items_wait_for_a_follower_or_leave_their_versions() {
    let stopped = Stopped::new(Some(10)).await;
    let (first, second) = (stopped.put("a").await, stopped.put("b").await);
    stopped.put("c").await;
    stopped.hold(Some(first), Some(first));
    stopped.container.clock.advance(Duration::from_secs(20));
    stopped.container.sweep(&stopped.partition).await;
    let kinds = |changes: &[LogChange]| changes.iter().map(|change| change.kind).collect::<Vec<_>>();
    let changes = stopped.changes(second).await.expect("held");
    assert_eq!(kinds(&changes), [ChangeKind::Create, ChangeKind::Expire], "only the first was swept");
    assert_eq!(changes[1].old, Image::NotKept, "the follower has that version");
    assert_eq!(stopped.verify().await, 2);
    assert_eq!(stopped.partition.expiry_due(Some(10)), None, "no sweep until the follower moves");

    // A write in the place of an expired item.
    let again = stopped.put("b").await;
    stopped.container.compact(&stopped.partition).await;
    let changes = stopped.changes(again - 1).await.expect("held");
    assert_eq!(kinds(&changes), [ChangeKind::Expire, ChangeKind::Create]);
    let Image::Record(kept) = &changes[0].old else { panic!("{changes:?}") };
    let kept = StoredItem::decode(kept.clone(), &stopped.container.shape).expect("intact");
    assert_eq!((kept.lsn(), changes[0].previous_lsn), (second, second));
    assert!(matches!(&changes[1].new, Image::Record(_)));
    assert_eq!(stopped.verify().await, 2);

    // The follower has read everything.
    let end = stopped.partition.durable_lsn();
    stopped.hold(Some(end), Some(end));
    assert!(stopped.partition.expiry_due(Some(10)).is_some());
    stopped.container.sweep(&stopped.partition).await;
    assert_eq!(stopped.verify().await, 1, "the version of the one that was written anew");
    stopped.put("d").await;
    stopped.hold(Some(end + 2), Some(end + 2));
    stopped.container.compact(&stopped.partition).await;
    assert_eq!(
        stopped.partition.log_round_over_holes(&KeyRange::full(), 0).await.expect("a round").upto(),
        end + 2
    );
    let versions = crate::keys::space_range(stopped.partition.uid, crate::keys::VERSIONS);
    let mut scan = stopped.shard.view().scan(versions.0..versions.1, Default::default());
    assert_eq!(scan.next_chunk().await.expect("readable"), None, "no version outlives its operation");
}

#[tokio::test]
async fn sweep_that_a_moving_follower_overtakes_is_repeated() {
    let stopped = Stopped::new(Some(10)).await;
    stopped.put("a").await;
    let second = stopped.put("b").await;
    stopped.container.clock.advance(Duration::from_secs(20));
    stopped.hold(Some(0), Some(0));
    let mut sweep = stopped.partition.begin_sweep().await.expect("begins");
    let now = stopped.container.clock.now();
    while stopped
        .partition
        .sweep_step(&stopped.container.shape, now, &mut sweep, 1024)
        .await
        .expect("goes on")
        != SweepStep::Complete
    {}
    assert_eq!(stopped.partition.purged(), 0);
    stopped.hold(Some(second), Some(second));
    stopped.container.sweep(&stopped.partition).await;
    assert_eq!(stopped.partition.purged(), 2);
}
