//! An account over several shards: where partitions go, what is missing, and what is left after deletions.

mod support;

use shardlake_account::{Account, AccountOptions, FeedScope, Shards, verify};
use shardlake_model::ErrorKind;
use shardlake_storage::{ScanOptions, Shard};
use support::{Fixture, memory_shards, none};

async fn keys_of(shard: &Shard) -> Vec<Vec<u8>> {
    let mut scan = shard.snapshot().scan(vec![0]..vec![0xFF; 8], ScanOptions::default());
    let mut keys = Vec::new();
    while let Some(rows) = scan.next_chunk().await.expect("readable") {
        keys.extend(rows.into_iter().map(|(key, _)| key.to_vec()));
    }
    keys
}

fn partitions_of(keys: &[Vec<u8>]) -> Vec<u8> {
    let mut numbers: Vec<u8> = keys.iter().map(|key| key[3]).collect();
    numbers.dedup();
    numbers
}

async fn fill(fixture: &Fixture, from: u32, to: u32) {
    let container = fixture.account.container("db", "c").expect("there");
    for number in from..to {
        let body = format!(r#"{{"id":"{number}","pk":"key {number}"}}"#);
        let ctx = fixture.ctx();
        fixture.account.create_item(&ctx, &container, None, body.as_bytes()).await.expect("created");
    }
}

async fn count(fixture: &Fixture) -> usize {
    let container = fixture.account.container("db", "c").expect("there");
    let page = fixture.account.read_feed(&fixture.ctx(), &container, FeedScope::All, Some(-1), None).await;
    page.expect("a page").items.len()
}

#[tokio::test]
async fn partitions_spread_over_the_shards_and_the_catalog_stays_on_the_first() {
    let shards = memory_shards(2).await;
    let fixture = Fixture::over(shards.clone()).await;
    fixture.container(30_000).await;
    fill(&fixture, 0, 100).await;
    let mut on = Vec::new();
    for shard in shards.iter() {
        on.push(partitions_of(&keys_of(shard).await));
    }
    assert_eq!(on, [vec![0, 1, 3, 5], vec![2, 4]]);
    assert_eq!(verify(&shards).await.expect("readable").problem_count(), 0);
    let statistics = fixture.account.statistics();
    assert_eq!((statistics.shards, statistics.partitions, statistics.items), (2, 5, 100));
}

#[tokio::test]
async fn a_shard_can_be_added_and_one_that_is_missing_is_named() {
    let three = memory_shards(3).await;
    let first = three.get(0).expect("there").clone();
    let fixture = Fixture::over(first.clone()).await;
    fixture.container(400).await;
    fill(&fixture, 0, 20).await;
    drop(fixture);
    // What was there stays where it was; what is new goes where there is room.
    let fixture = Fixture::over(three.clone()).await;
    assert_eq!(count(&fixture).await, 20);
    let c = fixture.account.container("db", "c").expect("there");
    let mut definition = c.container().definition.clone();
    definition.id = "d".into();
    fixture.container_with(definition, 30_000).await;
    drop(fixture);
    let two: Shards = three.iter().take(2).cloned().collect::<Vec<_>>().into();
    let refused =
        Account::open(two.clone(), AccountOptions::default()).await.expect_err("a shard is missing");
    assert_eq!(refused.kind(), ErrorKind::Corrupt);
    assert!(refused.message().contains("shard 2 is missing: start with --shards 3 or more"), "{refused}");
    let report = verify(&two).await.expect("readable");
    assert!(
        report.problems.iter().any(|problem| problem.contains("shard 2, which is not there")),
        "{report:?}"
    );
    assert_eq!(count(&Fixture::over(three).await).await, 20);
}

#[tokio::test]
async fn none_or_too_many_shards_are_refused() {
    for shards in [Vec::new(), vec![memory_shards(1).await.get(0).expect("there").clone(); 65]] {
        let refused = Account::open(shards, AccountOptions::default()).await.expect_err("refused");
        assert_eq!(refused.kind(), ErrorKind::BadRequest);
    }
}

#[tokio::test]
async fn deletions_reach_every_shard() {
    let shards = memory_shards(3).await;
    let fixture = Fixture::over(shards.clone()).await;
    fixture.container(30_000).await;
    fill(&fixture, 0, 100).await;
    fixture.account.delete_container(&fixture.ctx(), "db", "c", &none()).await.expect("deleted");
    // The marks go last, in the background.
    for _ in 0..10_000 {
        if keys_of(shards.get(0).expect("there")).await.iter().all(|key| key[4] != b'X') {
            break;
        }
        tokio::task::yield_now().await;
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    assert_eq!(partitions_of(&keys_of(shards.get(0).expect("there")).await), [0]);
    for number in [1, 2] {
        assert!(keys_of(shards.get(number).expect("there")).await.is_empty());
    }
}

#[tokio::test]
async fn data_on_a_shard_where_it_does_not_belong_is_found() {
    let shards = memory_shards(2).await;
    let fixture = Fixture::over(shards.clone()).await;
    fixture.container(12_000).await;
    fill(&fixture, 0, 50).await;
    for (number, key) in [(1, vec![0, 0, 0, 0, b'N']), (1, vec![0, 0, 0, 1, 9]), (0, vec![0, 0, 1, 0, 9])] {
        let mut batch = shardlake_storage::Batch::new();
        batch.put(key, b"stray".to_vec());
        let shard = shards.get(number).expect("there");
        shard.commit(batch).expect("queued").await.expect("stored");
    }
    let problems = verify(&shards).await.expect("readable").problems;
    for expected in [
        "partition number 0 of shard 0 has data on shard 1",
        "partition number 1 of shard 0 has data on shard 1",
        "data of partition number 256 on shard 0 belongs to no container",
    ] {
        assert!(problems.iter().any(|problem| problem.contains(expected)), "{expected}: {problems:?}");
    }
    assert_eq!(problems.len(), 3, "{problems:?}");
}
