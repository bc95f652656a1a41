//! States that are kept for backups: data that moves between shards at that time is in them once,
//! and the move continues in a copy.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use shardlake_account::{
    Account, AccountOptions, FeedScope, KeptState, RelocationHooks, RelocationStep, RelocationTicket, Shards,
    SplitAt, verify,
};
use shardlake_model::ErrorKind;
use shardlake_stdx::{Clock, Random};
use shardlake_storage::{Shard, ShardOptions};
use shardlake_testkit::{Logs, expects_log};

use crate::support::json_door::JsonDoor;
use crate::support::{Fixture, eventually, json, memory_shards, none, reach};

const ITEMS: u64 = 120;

/// In memory if possible: power cuts are not tested here.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory")
}

async fn shards_in(directory: &Path, count: usize) -> Shards {
    let mut shards = Vec::new();
    for number in 0..count {
        let options = ShardOptions {
            memtable_bytes: 64 * 1024,
            cache_bytes: 1024 * 1024,
            ..ShardOptions::local(directory.join(number.to_string()))
        };
        shards.push(Shard::open(options).await.expect("a shard opens"));
    }
    shards.into()
}

async fn open(shards: &Shards, hooks: RelocationHooks) -> Fixture {
    let options =
        AccountOptions { hooks, random: Random::seeded(7), reach: reach(), ..AccountOptions::default() };
    let _logs = Logs::watch();
    let account = Account::open(shards.clone(), options).await.expect("opens");
    Fixture { account, clock: Clock::default(), _logs }
}

async fn write(fixture: &Fixture, number: u64, value: u64) {
    let container = fixture.account.router().container("db", "c").expect("there");
    let body = format!(r#"{{"id":"{number}","pk":"k{number}","v":{value}}}"#);
    let written =
        fixture.account.upsert_item(&fixture.ctx(), &container, None, body.as_bytes(), &none()).await;
    written.expect("written");
}

/// Every item with its value; no item occurs twice.
async fn items(fixture: &Fixture) -> BTreeMap<u64, u64> {
    let container = fixture.account.router().container("db", "c").expect("there");
    let mut found = BTreeMap::new();
    let mut token: Option<String> = None;
    loop {
        let (ctx, token_before) = (fixture.ctx(), token.take());
        let page = fixture.account.items().read_feed(
            &ctx,
            &container,
            FeedScope::All,
            Some(50),
            token_before.as_deref(),
        );
        let page = page.await.expect("a page");
        for item in &page.items {
            let item = json(item);
            let id = item["id"].as_str().expect("text").parse().expect("a number");
            assert!(found.insert(id, item["v"].as_u64().expect("a number")).is_none(), "item {id} twice");
        }
        token = page.continuation;
        if token.is_none() {
            return found;
        }
    }
}

/// Copies a state as a client does, through the account.
async fn copy(fixture: &Fixture, kept: &KeptState, to: &Path) {
    let backups = fixture.account.backups();
    for (shard, files) in kept.shards.iter().enumerate() {
        for (number, file) in files.files().iter().enumerate() {
            let mut content = Vec::new();
            while (content.len() as u64) < file.size_bytes {
                let place = (shard, number, content.len() as u64);
                content.extend(backups.read(&fixture.ctx(), &kept.id, place).await.expect("a piece"));
            }
            let target = to.join(shard.to_string()).join(&file.path);
            fs::create_dir_all(target.parent().expect("below the directory")).expect("made");
            fs::write(target, content).expect("writes");
        }
    }
}

/// Moves range 0 to the other of the two shards.
async fn to_the_other_shard(fixture: &Fixture) -> RelocationTicket {
    let container = fixture.account.router().container("db", "c").expect("there");
    match fixture.account.maintenance().move_partition(&container, 0, 0).await {
        Ok(begun) => begun,
        Err(_) => fixture.account.maintenance().move_partition(&container, 0, 1).await.expect("begins"),
    }
}

async fn settle(fixture: &Fixture) {
    eventually("relocations end", async || {
        let container = fixture.account.router().container("db", "c").expect("there");
        container.relocation().is_none()
    })
    .await;
}

async fn verified(shards: &Shards) {
    let report = verify(shards).await.expect("readable");
    assert_eq!(report.problem_count(), 0, "{report:?}");
}

/// The content of a state equals the final content of a restored account, wherever the relocation stood.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_at_every_step_of_a_move_and_of_a_split_goes_on_in_its_copy() {
    for is_split in [false, true] {
        for step in RelocationStep::ALL {
            let directory = directory();
            let shards = shards_in(&directory.path().join("original"), 2).await;
            let hooks = RelocationHooks { goes_on: Some(Arc::new(move |at| at != step)), bug: None };
            let fixture = open(&shards, hooks).await;
            expects_log("a relocation stopped");
            let container = fixture.container(400).await;
            for number in 0..ITEMS {
                write(&fixture, number, 1).await;
            }
            let begun = match is_split {
                true => fixture.account.maintenance().split(&container, 0, SplitAt::Middle).await,
                false => Ok(to_the_other_shard(&fixture).await),
            };
            let stopped = begun.expect("begins").finished().await;
            assert_eq!(stopped.expect_err("stops").kind(), ErrorKind::Unavailable, "{step:?}");
            let kept = fixture.account.backups().begin().await.expect("keeps a state");
            let is_moving = step < RelocationStep::Published;
            assert_eq!(kept.moment.relocations.len(), usize::from(is_moving), "{step:?}");
            let counted: u64 = kept.moment.partitions.iter().map(|partition| partition.items).sum();
            assert_eq!(counted, ITEMS, "{step:?}: {:?}", kept.moment);
            copy(&fixture, &kept, &directory.path().join("copy")).await;
            fixture.account.backups().end(&kept.id, None).await.expect("ends");
            for shard in shards.iter() {
                assert_eq!(shard.checkpoints().await.expect("lists"), [""; 0]);
            }
            let copied = shards_in(&directory.path().join("copy"), 2).await;
            verified(&copied).await;
            let restored = open(&copied, RelocationHooks::default()).await;
            settle(&restored).await;
            let expected: BTreeMap<u64, u64> = (0..ITEMS).map(|number| (number, 1)).collect();
            assert_eq!(items(&restored).await, expected, "{step:?}");
            restored.account.close().await.expect("closes");
        }
    }
}

/// A partition moves from shard to shard and is written to, while states are kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn states_kept_while_a_partition_moves_and_is_written_lose_and_double_nothing() {
    let directory = directory();
    let shards = shards_in(&directory.path().join("original"), 2).await;
    let fixture = Arc::new(open(&shards, RelocationHooks::default()).await);
    fixture.container(400).await;
    for number in 0..ITEMS {
        write(&fixture, number, 0).await;
    }
    let goes_on = Arc::new(AtomicBool::new(true));
    let acknowledged = Arc::new(Mutex::new(BTreeMap::new()));
    let writer = {
        let (fixture, goes_on, acknowledged) = (fixture.clone(), goes_on.clone(), acknowledged.clone());
        tokio::spawn(async move {
            for round in 1.. {
                for number in 0..ITEMS {
                    write(&fixture, number, round).await;
                    acknowledged.lock().expect("no panic").insert(number, round);
                    if !goes_on.load(Ordering::Relaxed) {
                        return;
                    }
                }
            }
        })
    };
    let mover = {
        let (fixture, goes_on) = (fixture.clone(), goes_on.clone());
        tokio::spawn(async move {
            let mut moves = 0;
            while goes_on.load(Ordering::Relaxed) {
                to_the_other_shard(&fixture).await.finished().await.expect("ends");
                moves += 1;
            }
            moves
        })
    };
    for round in 0..8 {
        let before = acknowledged.lock().expect("no panic").clone();
        let kept = fixture.account.backups().begin().await.expect("keeps a state");
        let after = acknowledged.lock().expect("no panic").clone();
        let place = directory.path().join(format!("copy-{round}"));
        copy(&fixture, &kept, &place).await;
        fixture.account.backups().end(&kept.id, None).await.expect("ends");
        let copied = shards_in(&place, 2).await;
        verified(&copied).await;
        let restored = open(&copied, RelocationHooks::default()).await;
        settle(&restored).await;
        let found = items(&restored).await;
        assert_eq!(found.len() as u64, ITEMS);
        for (number, value) in found {
            let (least, most) = (before.get(&number).copied().unwrap_or(0), after.get(&number).copied());
            let most = most.unwrap_or(0) + 1;
            assert!((least..=most).contains(&value), "item {number}: {value} is not in {least} to {most}");
        }
        restored.account.close().await.expect("closes");
        verified(&copied).await;
    }
    goes_on.store(false, Ordering::Relaxed);
    writer.await.expect("no panic");
    assert!(mover.await.expect("no panic") > 0, "something moved");
}

#[tokio::test]
async fn states_are_few_end_with_the_account_and_with_the_next_start() {
    let directory = directory();
    let shards = shards_in(directory.path(), 2).await;
    let fixture = open(&shards, RelocationHooks::default()).await;
    fixture.container(400).await;
    let backups = fixture.account.backups();
    let first = backups.begin().await.expect("keeps a state");
    for _ in 1..4 {
        backups.begin().await.expect("keeps a state");
    }
    let fifth = backups.begin().await.expect_err("too many");
    assert_eq!(fifth.kind(), ErrorKind::InProgress);
    assert!(fifth.message().contains("4 backups are being copied"), "{fifth}");
    backups.end(&first.id, None).await.expect("ends");
    let again = backups.end(&first.id, None).await.expect_err("has ended");
    assert_eq!(again.kind(), ErrorKind::NotFound);
    let gone = backups.read(&fixture.ctx(), &first.id, (0, 0, 0)).await.expect_err("has ended");
    assert_eq!(gone.kind(), ErrorKind::NotFound);
    let next = backups.begin().await.expect("there is room again");
    for place in [(2, 0, 0), (0, usize::MAX, 0), (usize::MAX, 0, 0)] {
        let missing = backups.read(&fixture.ctx(), &next.id, place).await.expect_err("no such file");
        assert_eq!(missing.kind(), ErrorKind::NotFound, "{place:?}");
    }
    let behind = backups.read(&fixture.ctx(), &next.id, (0, 0, u64::MAX)).await;
    assert!(behind.expect("nothing").is_empty());
    // Names of others are left alone.
    shards.first().checkpoint("mine").await.expect("makes a checkpoint");
    drop(fixture);
    let shard_1 = shards.get(1).expect("there");
    assert_eq!(shard_1.checkpoints().await.expect("lists").len(), 4, "as after a kill");
    let fixture = open(&shards, RelocationHooks::default()).await;
    assert_eq!(shard_1.checkpoints().await.expect("lists"), [""; 0]);
    fixture.account.backups().begin().await.expect("keeps a state");
    fixture.account.close().await.expect("closes");
    assert_eq!(shard_1.checkpoints().await.expect("lists"), [""; 0]);
    assert_eq!(shards.first().checkpoints().await.expect("lists"), ["mine"]);
}

#[tokio::test]
async fn a_state_that_nobody_asks_for_is_given_up_and_one_that_is_read_is_not() {
    let directory = directory();
    let shards = shards_in(directory.path(), 1).await;
    let fixture = Fixture::over(&shards).await;
    fixture.container(400).await;
    let backups = fixture.account.backups();
    let silent = backups.begin().await.expect("keeps a state");
    let read = backups.begin().await.expect("keeps a state");
    fixture.clock.advance(Duration::from_secs(599));
    backups.read(&fixture.ctx(), &read.id, (0, 0, 0)).await.expect("a piece");
    fixture.clock.advance(Duration::from_secs(1));
    expects_log("its client has asked for nothing for 10 minutes");
    expects_log("a backup ends");
    backups.begin().await.expect("keeps a state");
    assert_eq!(shards.first().checkpoints().await.expect("lists").len(), 2);
    let gone = backups.read(&fixture.ctx(), &silent.id, (0, 0, 0)).await.expect_err("given up");
    assert_eq!(gone.kind(), ErrorKind::NotFound);
    backups.read(&fixture.ctx(), &read.id, (0, 0, 0)).await.expect("a piece");
}

#[tokio::test]
async fn an_account_without_files_is_refused_and_keeps_nothing() {
    let shards = memory_shards(2).await;
    let fixture = Fixture::over(&shards).await;
    fixture.container(400).await;
    let refused = fixture.account.backups().begin().await.expect_err("no files");
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert!(refused.message().contains("no files on a local disk"), "{refused}");
    assert_eq!(fixture.account.backups().begin().await.expect_err("again").kind(), ErrorKind::Unsupported);
}
