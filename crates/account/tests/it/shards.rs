//! An account over several shards: placement of partitions, missing shards, and leftovers of deletions.

use crate::support::json_door::JsonDoor;
use std::sync::Arc;

use crate::support::{Fixture, eventually, memory_shards, none, reach};
use shardlake_account::{
    Account, AccountOptions, FeedScope, RelocationHooks, RelocationStep, Shards, verify,
};
use shardlake_model::ErrorKind;
use shardlake_stdx::{Clock, Random, Timestamp};
use shardlake_storage::fault::FaultEngine;
use shardlake_storage::{Durability, ScanOptions, Shard, ShardOptions};
use shardlake_testkit::{Logs, expects_log};

/// On every shard of an account with several.
const MARK: [u8; 5] = [0, 0, 0, 0, b'S'];

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
    let container = fixture.account.router().container("db", "c").expect("there");
    for number in from..to {
        let body = format!(r#"{{"id":"{number}","pk":"key {number}"}}"#);
        let ctx = fixture.ctx();
        fixture.account.create_item(&ctx, &container, None, body.as_bytes()).await.expect("created");
    }
}

async fn count(fixture: &Fixture) -> usize {
    let container = fixture.account.router().container("db", "c").expect("there");
    let page =
        fixture.account.items().read_feed(&fixture.ctx(), &container, FeedScope::All, Some(-1), None).await;
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
    assert_eq!(on, [vec![0, 1, 3, 5], vec![0, 2, 4]]);
    assert_eq!(
        keys_of(shards.get(1).expect("there")).await[0],
        MARK,
        "the only record that is not a partition's"
    );
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
    // Existing partitions stay where they were; new ones are placed where there is space.
    let fixture = Fixture::over(three.clone()).await;
    assert_eq!(count(&fixture).await, 20);
    let c = fixture.account.router().container("db", "c").expect("there");
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

async fn account_of_three(seed: u64) -> Vec<Shard> {
    let shards = memory_shards(3).await;
    let clock = Clock::manual(Timestamp(1_700_000_000_000));
    let options = AccountOptions {
        clock: clock.clone(),
        random: Random::seeded(seed),
        reach: reach(),
        ..AccountOptions::default()
    };
    let fixture = Fixture {
        _logs: Logs::watch(),
        account: Account::open(shards.clone(), options).await.expect("opens"),
        clock,
    };
    fixture.container(30_000).await;
    fill(&fixture, 0, 50).await;
    shards.iter().cloned().collect()
}

#[tokio::test]
async fn shards_that_do_not_belong_together_are_refused() {
    let (mine, other) = (account_of_three(1).await, account_of_three(2).await);
    let empty = memory_shards(1).await.get(0).expect("there").clone();
    let cases = [
        ([&mine[0], &mine[2], &mine[1]], "shard 1 cannot be used: it is shard 2"),
        ([&mine[1], &mine[0], &mine[2]], "shard 0 cannot be used: it is shard 1"),
        ([&mine[0], &mine[1], &empty], "shard 2 cannot be used: it has lost what was on it"),
        ([&mine[0], &other[1], &mine[2]], "shard 1 cannot be used: it belongs to another account"),
    ];
    for (shards, expected) in cases {
        let shards: Shards = shards.map(Shard::clone).to_vec().into();
        let refused = Account::open(shards.clone(), AccountOptions::default()).await.expect_err(expected);
        assert!(refused.message().contains(expected), "{expected}: {refused}");
        let problems = verify(&shards).await.expect("readable").problems;
        assert!(problems.iter().any(|problem| problem.contains(expected)), "{expected}: {problems:?}");
    }
    assert_eq!(verify(mine.as_slice()).await.expect("readable").problem_count(), 0);
}

/// State after a start that was interrupted between the two marks.
#[tokio::test]
async fn a_shard_that_was_never_counted_is_new() {
    let (mine, begun) = (memory_shards(1).await, memory_shards(2).await);
    drop(Fixture::over(begun.clone()).await);
    let shards: Shards =
        vec![mine.get(0).expect("there").clone(), begun.get(1).expect("there").clone()].into();
    for _ in 0..2 {
        let fixture = Fixture::over(shards.clone()).await;
        assert_eq!(fixture.account.statistics().shards, 2);
        assert_eq!(verify(&shards).await.expect("readable").problem_count(), 0);
    }
}

/// Otherwise a crash could keep data on another shard and lose its partition number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_shows_before_the_catalog_is_durable_even_when_writes_are_not() {
    let engines = [FaultEngine::new(), FaultEngine::new()].map(Arc::new);
    let over = |engine: &Arc<FaultEngine>| {
        let options = ShardOptions { durability: Durability::Async, ..ShardOptions::memory() };
        Shard::with_engine(engine.clone(), &options).expect("opens")
    };
    let fixture = Arc::new(Fixture::over(engines.iter().map(over).collect::<Vec<_>>()).await);
    fixture.account.definitions().create_database(&fixture.ctx(), "db", None).await.expect("created");
    engines[0].stall_syncs(true);
    let applies = engines[0].applies();
    let creating = tokio::spawn({
        let fixture = fixture.clone();
        async move { fixture.container(12_000).await }
    });
    // The change of the catalog is written; only its sync is missing.
    eventually("the change is applied", async || engines[0].applies() > applies).await;
    let shows = creating.is_finished() || fixture.account.router().container("db", "c").is_ok();
    // First of all, or a failure would wait for the shard to end, and that for its sync.
    engines[0].stall_syncs(false);
    assert!(!shows);
    creating.await.expect("created");
    fixture.account.router().container("db", "c").expect("there");
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
    fixture
        .account
        .definitions()
        .delete_container(&fixture.ctx(), "db", "c", &none())
        .await
        .expect("deleted");
    // The marks go last, in the background.
    let is_marked = async || keys_of(shards.get(0).expect("there")).await.iter().any(|key| key[4] == b'X');
    eventually("the marks go", async || !is_marked().await).await;
    assert_eq!(partitions_of(&keys_of(shards.get(0).expect("there")).await), [0]);
    for number in [1, 2] {
        assert_eq!(keys_of(shards.get(number).expect("there")).await, [MARK]);
    }
}

#[tokio::test]
async fn data_on_a_shard_where_it_does_not_belong_is_found() {
    let shards = memory_shards(2).await;
    let fixture = Fixture::over(shards.clone()).await;
    fixture.container(12_000).await;
    fill(&fixture, 0, 50).await;
    for (number, key) in [(1, vec![0, 0, 0, 0, b'X']), (1, vec![0, 0, 0, 1, 9]), (0, vec![0, 0, 1, 0, 9])] {
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

/// A relocation that failed may have left rows of its targets.
#[tokio::test]
async fn a_start_deletes_data_that_belongs_to_no_container() {
    expects_log("data that belongs to no container is deleted");
    let shards = memory_shards(2).await;
    let fixture = Fixture::over(shards.clone()).await;
    fixture.container(12_000).await;
    fill(&fixture, 0, 50).await;
    fixture
        .account
        .definitions()
        .delete_container(&fixture.ctx(), "db", "c", &none())
        .await
        .expect("deleted");
    let problems = async || verify(&shards).await.expect("readable").problems;
    let of_marks = [0, 0, 0, 0, b'X'];
    let is_marked =
        async || keys_of(shards.get(0).expect("there")).await.iter().any(|key| key.starts_with(&of_marks));
    eventually("the marks go", async || !is_marked().await).await;
    fixture.container(12_000).await;
    fill(&fixture, 0, 50).await;
    drop(fixture);
    for (number, partition) in [(0, 1), (1, 1), (1, 2), (0, NEVER_HANDED_OUT)] {
        let mut batch = shardlake_storage::Batch::new();
        for row in 0..3000u16 {
            let key = [&u32::to_be_bytes(partition)[..], b"I", &row.to_be_bytes()].concat();
            batch.put(key, b"stray".to_vec());
        }
        let shard = shards.get(number).expect("there");
        shard.commit_in_background(batch).await.expect("stored");
    }
    assert_eq!(problems().await.len(), 4);
    // Each start deletes the data of a number on one shard.
    for left in [2, 1] {
        let fixture = Fixture::over(shards.clone()).await;
        eventually("the strays go", async || problems().await.len() == left).await;
        eventually("the marks go", async || !is_marked().await).await;
        let report = verify(&shards).await.expect("readable");
        assert_eq!(report.partitions.iter().map(|partition| partition.report.items).sum::<u64>(), 50);
        drop(fixture);
    }
    // The catalog is older than such data, which may be the only remaining data.
    let never = format!("data of partition number {NEVER_HANDED_OUT} on shard 0 belongs to no container");
    assert_eq!(problems().await, [never]);
}

const NEVER_HANDED_OUT: u32 = 256;

/// A relocation may be stopped at every step; its copies belong to it at that time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_relocation_has_copied_is_no_stray() {
    for last in RelocationStep::ALL {
        expects_log(&format!("stopped after '{}'", last.name()));
        let shards = memory_shards(2).await;
        let clock = Clock::manual(Timestamp(1_700_000_000_000));
        let hooks = RelocationHooks {
            goes_on: Some(Arc::new(move |step| step != last)),
            ..RelocationHooks::default()
        };
        let options =
            AccountOptions { clock: clock.clone(), hooks, reach: reach(), ..AccountOptions::default() };
        let fixture = Fixture {
            _logs: Logs::watch(),
            account: Account::open(shards.clone(), options).await.expect("opens"),
            clock,
        };
        let container = fixture.container(400).await;
        fill(&fixture, 0, 100).await;
        let moving = fixture.account.maintenance().move_partition(&container, 0, 1).await.expect("begins");
        let _stopped = moving.finished().await;
        let report = verify(&shards).await.expect("readable");
        assert_eq!(report.problem_count(), 0, "after {last:?}: {report:?}");
    }
}
