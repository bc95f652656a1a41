//! The end of a copy that fails: the copy is the last writer of every target.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use shardlake_document::parse_item;
use shardlake_model::{KeyComponent, PartitionKey, Preconditions};
use shardlake_routing::{Epk, KeyRange, effective_partition_key};
use shardlake_storage::fault::FaultEngine;
use shardlake_storage::{Batch, Shard, ShardOptions};

use super::{Relocation, RelocationTarget};
use crate::test_fixture::{Fixture, command, identity};
use crate::{LogicalKey, Operation, PartitionIdentity, PartitionWrite, prepare_body};

/// Polls of a copy that waits for nothing but a stalled target.
const POLLS: usize = 1000;

impl Fixture {
    /// One item of each key. Returns the greatest hash of a key: the others lie below it.
    async fn with_keys(&self, keys: &[&str]) -> Epk {
        let mut hashes = Vec::new();
        for key in keys {
            let partition_key = PartitionKey::single(KeyComponent::String((*key).to_owned()));
            let epk = effective_partition_key(&self.shape.key_definition, &partition_key);
            let json = format!(r#"{{"id":"1","pk":"{key}"}}"#);
            let body = parse_item(json.as_bytes(), &Default::default()).expect("a body");
            let item = prepare_body(body, &self.shape).expect("valid");
            let operation = Operation::Upsert { item, preconditions: Preconditions::default() };
            let key = LogicalKey { epk: epk.clone(), partition_key };
            let write = PartitionWrite { key, operations: vec![operation], context: command() };
            self.partition.write(&self.shape, &Arc::new(write)).await.expect("written");
            hashes.push(epk);
        }
        hashes.into_iter().max().expect("there are keys")
    }
}

fn shard_over(engine: &FaultEngine) -> Shard {
    Shard::with_engine(Arc::new(engine.clone()), &ShardOptions::local("unused")).expect("opens")
}

/// Has a shard refuse every write from now on.
async fn poison(shard: &Shard, engine: &FaultEngine) {
    engine.fail_sync(1);
    let mut batch = Batch::new();
    batch.put(b"lost".to_vec(), b"".to_vec());
    shard.commit(batch).expect("queued").await.expect_err("the sync failed");
}

#[tokio::test]
async fn copy_ends_the_load_of_each_target_also_where_another_one_fails() {
    for failing in [0, 1] {
        let fixture = Fixture::new().await;
        let middle = fixture.with_keys(&["a", "b"]).await;
        let engines = [FaultEngine::new(), FaultEngine::new()];
        let shards = engines.each_ref().map(shard_over);
        poison(&shards[failing], &engines[failing]).await;
        let stalled = &engines[1 - failing];
        stalled.stall_syncs(true);
        let ranges = [
            KeyRange { min: Epk::default(), max: middle.clone() },
            KeyRange { min: middle, max: KeyRange::full().max },
        ];
        let target = |(place, epk_range): (usize, KeyRange)| RelocationTarget {
            identity: PartitionIdentity { epk_range, ..identity(4 + place as u32) },
            shard: shards[place].clone(),
        };
        let targets = ranges.into_iter().enumerate().map(target).collect();
        let (sources, shape) = (vec![fixture.partition.clone()], fixture.shape.clone());
        let layouts = shape.maintained();
        let mut relocation = Relocation::new(sources, targets, shape, layouts, Arc::default());
        let mut copying = pin!(relocation.copy());
        let mut outcome = None;
        while outcome.is_none() && !stalled.is_stalling() {
            outcome = polled(copying.as_mut()).await;
        }
        for _ in 0..POLLS {
            if outcome.is_none() {
                outcome = polled(copying.as_mut()).await;
            }
        }
        let was_early = outcome.is_some();
        stalled.stall_syncs(false);
        let outcome = match outcome {
            Some(outcome) => outcome,
            None => copying.await,
        };
        outcome.expect_err("a target cannot be stored");
        assert!(!was_early, "the copy ended before the load of target {}", 1 - failing);
    }
}

/// Polls once, and lets the tasks that it waits for run.
async fn polled<T>(mut work: std::pin::Pin<&mut impl Future<Output = T>>) -> Option<T> {
    let outcome = poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
        Poll::Pending => Poll::Ready(None),
    });
    let outcome = outcome.await;
    tokio::task::yield_now().await;
    outcome
}
