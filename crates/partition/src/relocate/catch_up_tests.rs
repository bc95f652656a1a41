//! Effects of a round that is cut short.

use std::sync::Arc;
use std::time::Duration;

use shardlake_stdx::{Clock, Timestamp};
use shardlake_storage::{Shard, ShardOptions};

use super::catch_up::{Pace, ROUND_ENTRIES};
use super::{Relocation, RelocationTarget};
use crate::test_fixture::{Fixture, identity};

const ROUNDS: usize = 5;
const WRITES: usize = ROUND_ENTRIES * (ROUNDS - 1) + 1;

/// A source that is written to after it was copied, and its target.
async fn behind() -> (Fixture, Shard, Relocation) {
    let fixture = Fixture::new().await;
    fixture.upsert("0", "before").await.expect("written");
    let target = Shard::open(ShardOptions::memory()).await.expect("opens");
    let targets = vec![RelocationTarget { identity: identity(4), shard: target.clone() }];
    let (sources, shape) = (vec![fixture.partition.clone()], fixture.shape.clone());
    let layouts = shape.maintained();
    let mut relocation = Relocation::new(sources, targets, shape, layouts, Arc::default());
    relocation.copy().await.expect("copied");
    for number in 0..WRITES {
        fixture.upsert(&(number % 100).to_string(), "after").await.expect("written");
    }
    (fixture, target, relocation)
}

#[tokio::test]
async fn a_round_that_holds_writers_too_long_goes_on_from_where_it_came_to() {
    let (fixture, target, mut relocation) = behind().await;
    let clock = Clock::manual(Timestamp(0));
    let deadline = clock.elapsed();
    clock.advance(Duration::from_millis(1));
    let mut rounds = 1;
    while !relocation
        .catch_up_round(&mut Pace::Held { clock: clock.clone(), deadline })
        .await
        .expect("applied")
    {
        rounds += 1;
        assert!(rounds <= 2 * ROUNDS, "each brings the end nearer");
    }
    assert!(rounds >= ROUNDS, "{rounds}: none goes on behind its time");
    let within = Duration::from_secs(60);
    let cutover = relocation.cut_over(&Clock::manual(Timestamp(0)), within).await.expect("nothing fails");
    cutover.expect("nothing is left to do").complete();
    assert_eq!(fixture.problems_of(&target, 4).await, (100, vec![]));
}
