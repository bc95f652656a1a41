//! The local engine: its directory, large values, and the kinds of losses that engines like it have had.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::FutureExt;
use shardlake_stdx::Random;
use shardlake_storage::suite::check_stats;
use shardlake_storage::{Answer, Batch, Durability, ScanOptions, Shard, ShardOptions, StorageError};
use shardlake_testkit::Logs;

/// Memtables so small that sorting and merging run all the time.
fn small(directory: &tempfile::TempDir) -> ShardOptions {
    ShardOptions {
        memtable_bytes: 64 * 1024,
        cache_bytes: 1024 * 1024,
        ..ShardOptions::local(directory.path().join("shard"))
    }
}

async fn open(options: &ShardOptions) -> Shard {
    Shard::open(options.clone()).await.expect("the shard opens")
}

/// In memory where there is such a place: these tests kill nothing, and sync thousands of times.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory")
}

async fn put(shard: &Shard, key: &[u8], value: Vec<u8>) {
    let mut batch = Batch::new();
    batch.put(key.to_vec(), value);
    shard.commit(batch).expect("room").await.expect("commits");
}

#[tokio::test]
async fn a_second_open_is_refused_while_the_first_lasts() {
    let _logs = Logs::watch();
    let directory = directory();
    let options = small(&directory);
    let first = open(&options).await;
    let error = Shard::open(options.clone()).await.expect_err("in use");
    assert!(matches!(&error, StorageError::Locked { .. }), "{error}");
    assert!(error.to_string().contains("in use by another process"), "{error}");
    put(&first, b"key", vec![1]).await;
    drop(first);
    open(&options).await;
}

#[tokio::test]
async fn a_directory_of_another_format_is_refused_and_left_alone() {
    let _logs = Logs::watch();
    let directory = directory();
    let options = small(&directory);
    let file = directory.path().join("shard/FORMAT");
    put(&open(&options).await, b"key", vec![1]).await;
    let format = fs::read_to_string(&file).expect("reads");
    for other in ["shardlake shard 1\n", "shardlake shard 3\n", "", "\u{1b}[31m"] {
        fs::write(&file, other).expect("writes");
        let error = Shard::open(options.clone()).await.expect_err("another format");
        assert!(matches!(&error, StorageError::Format { .. }), "{error}");
        assert!(!error.to_string().contains('\u{1b}'), "the message is safe to print");
    }
    fs::remove_file(&file).expect("removes");
    let error = Shard::open(options.clone()).await.expect_err("no format");
    assert!(matches!(&error, StorageError::Format { .. }), "{error}");
    fs::write(&file, format).expect("writes");
    assert!(open(&options).await.get(b"key").await.expect("reads").is_some());
}

#[tokio::test]
async fn a_creation_that_was_cut_short_is_started_again() {
    let _logs = Logs::watch();
    let directory = directory();
    let options = small(&directory);
    drop(open(&options).await);
    let shard = directory.path().join("shard");
    for leftover in ["db/version", "db/0.jnl", "db"] {
        // The files that a process killed at this point of the creation leaves.
        fs::write(shard.join("FORMAT"), "shardlake shard 1, being created\n").expect("writes");
        let path = shard.join(leftover);
        if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.expect("removes");
        let reopened = open(&options).await;
        put(&reopened, b"key", vec![1]).await;
    }
    assert!(open(&options).await.get(b"key").await.expect("reads").is_some(), "a finished one is kept");
}

#[tokio::test]
async fn large_values_survive_sorting_and_reopening() {
    let _logs = Logs::watch();
    let directory = directory();
    let options = small(&directory);
    let random = Random::seeded(1);
    let mut value = vec![0; 2 * 1024 * 1024];
    random.fill(&mut value);
    let shard = open(&options).await;
    for number in 0..6u8 {
        value[0] = number;
        put(&shard, &[1, number], value.clone()).await;
    }
    put(&shard, &vec![9; 65_535], value.clone()).await;
    shard.flush().await.expect("flushes");
    value[0] = 100;
    put(&shard, &[1, 0], value.clone()).await;
    drop(shard);
    let shard = open(&options).await;
    for (number, first) in [100, 1, 2, 3, 4, 5].into_iter().enumerate() {
        value[0] = first;
        let found = shard.get(&[1, number as u8]).await.expect("reads").expect("is there");
        assert!(found[..] == value[..], "value {number}");
    }
    let mut scan = shard.snapshot().scan(vec![1]..vec![2], ScanOptions::default());
    let first = scan.next_chunk().await.expect("scans").expect("rows");
    assert_eq!(first.len(), 1, "a chunk is bounded by its size, too");
    assert!(shard.get(&vec![9; 65_535]).await.expect("reads").is_some());
}

/// Inserts were lost when sorting, merging and inserting met (lsm-tree 3.0.0), so: readers check every acknowledged key
/// while small memtables are sorted and merged all the time, and again after each kind of restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_insert_is_lost_among_sorting_merging_and_restarts() {
    let _logs = Logs::watch();
    let directory = directory();
    let options = ShardOptions { durability: Durability::Async, ..small(&directory) };
    let mut model = BTreeMap::new();
    let random = Random::seeded(7);
    for round in 0..4u64 {
        let shard = open(&options).await;
        let writers: Vec<_> = (0..4u64)
            .map(|writer| {
                let shard = shard.clone();
                tokio::spawn(async move {
                    for number in 0..1500u64 {
                        let id = (round * 4 + writer) * 10_000 + number;
                        let key = id.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
                        let mut batch = Batch::new();
                        batch.put([&[1][..], &key[..]].concat(), vec![writer as u8; 150]);
                        shard.commit(batch).expect("room").await.expect("commits");
                        assert!(shard.get(&[&[1][..], &key[..]].concat()).await.expect("reads").is_some());
                    }
                })
            })
            .collect();
        for _ in 0..10 {
            shard.flush().await.expect("flushes");
        }
        for writer in writers {
            writer.await.expect("no panic");
        }
        for id in (0..4).flat_map(|writer| (0..1500).map(move |number| (writer, number))) {
            let number: u64 = (round * 4 + id.0) * 10_000 + id.1;
            let key = number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
            model.insert([&[1][..], &key[..]].concat(), vec![id.0 as u8; 150]);
        }
        check_stats(&shard, &model).await;
        if random.below(2) == 0 {
            shard.close().await.expect("closes");
        }
    }
    let shard = open(&options).await;
    check_stats(&shard, &model).await;
    for (key, value) in &model {
        assert_eq!(shard.get(key).await.expect("reads").as_deref(), Some(value.as_slice()));
    }
}

/// Deletions were undone by recovery (fjall's `clear`, and tombstones merged away before the rows
/// that they hide).
#[tokio::test]
async fn nothing_deleted_comes_back() {
    let _logs = Logs::watch();
    let directory = directory();
    let options = ShardOptions { durability: Durability::Async, ..small(&directory) };
    let rows = || (0..3000u32).map(|number| (key(number), vec![number as u8; 100].into()));
    fn key(number: u32) -> bytes::Bytes {
        [&[1][..], &number.to_be_bytes()[..]].concat().into()
    }
    for restarts_cleanly in [true, false] {
        let shard = open(&options).await;
        let mut load = shard.bulk_load();
        load.push(rows().collect()).await.expect("takes rows");
        load.finish().await.expect("loads");
        shard.flush().await.expect("flushes");
        // Held across the deletion, so that nothing can be merged away early.
        let snapshot = shard.snapshot();
        let deleted = shard.drop_range(key(500).to_vec(), key(2500).to_vec()).await.expect("drops");
        assert_eq!(deleted, 2000);
        shard.flush().await.expect("flushes");
        assert!(snapshot.get(&key(1000)).await.expect("reads").is_some(), "the snapshot still sees it");
        drop(snapshot);
        put(&shard, &key(1000), vec![9]).await;
        if restarts_cleanly {
            shard.close().await.expect("closes");
        }
        drop(shard);
        let shard = open(&options).await;
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> =
            rows().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
        model.retain(|found, _| found[..] < key(500)[..] || found[..] >= key(2500)[..]);
        model.insert(key(1000).to_vec(), vec![9]);
        check_stats(&shard, &model).await;
        shard.drop_range(vec![0], vec![0xFF]).await.expect("drops");
        drop(shard);
        check_stats(&open(&options).await, &BTreeMap::new()).await;
    }
}

#[tokio::test]
async fn the_journal_stays_bounded_while_writing() {
    let _logs = Logs::watch();
    let directory = directory();
    let options =
        ShardOptions { memtable_bytes: 4 * 1024 * 1024, durability: Durability::Async, ..small(&directory) };
    let shard = open(&options).await;
    for number in 0..200u32 {
        put(&shard, &(number % 8 + 1).to_be_bytes(), vec![number as u8; 1024 * 1024]).await;
        let journals = fs::read_dir(directory.path().join("shard/db")).expect("lists").flatten();
        let journals = journals.filter(|entry| entry.path().extension().is_some_and(|kind| kind == "jnl"));
        let size_bytes: u64 = journals.filter_map(|entry| entry.metadata().ok()).map(|file| file.len()).sum();
        assert!(size_bytes < 400 << 20, "{size_bytes} bytes of journals");
    }
}

#[tokio::test]
async fn owner_with_a_lower_epoch_is_refused_and_changes_nothing() {
    let _logs = Logs::watch();
    let directory = directory();
    let at = |epoch| ShardOptions { epoch, ..small(&directory) };
    put(&open(&at(Some(3))).await, b"key", vec![1]).await;
    for lower in [0, 1, 2] {
        let refused = Shard::open(at(Some(lower))).await.expect_err("a later owner is known");
        assert!(matches!(refused, StorageError::Fenced { epoch: 3 }), "{refused}");
    }
    for epoch in [Some(3), None, Some(4)] {
        assert!(open(&at(epoch)).await.get(b"key").await.expect("reads").is_some(), "{epoch:?}");
    }
    assert!(matches!(Shard::open(at(Some(3))).await, Err(StorageError::Fenced { epoch: 4 })));
}

#[tokio::test]
async fn reads_of_a_slow_disk_leave_the_call_and_those_of_a_quick_one_do_not() {
    let _logs = Logs::watch();
    let directory = directory();
    for (slow_read, is_quick) in [(Duration::ZERO, false), (Duration::MAX, true)] {
        let shard = open(&ShardOptions { slow_read, ..small(&directory) }).await;
        for number in 0..200u8 {
            put(&shard, &[1, number], vec![number]).await;
        }
        let view = shard.view();
        assert_eq!(view.reads_at_once(), is_quick);
        assert_eq!(matches!(view.get(&[1, 7]), Answer::Now(_)), is_quick);
        assert_eq!(matches!(shard.lookup_applied(&[1, 7]), Answer::Now(_)), is_quick);
        let keys: Vec<_> = (0..200).map(|number| vec![1, number].into()).collect();
        let many = view.get_many(keys);
        assert_eq!(matches!(many, Answer::Now(_)), is_quick);
        let many = many.await.expect("reads");
        assert!(many.iter().enumerate().all(|(number, value)| value.as_deref() == Some(&[number as u8][..])));
    }
}

#[tokio::test]
async fn scan_of_a_slow_disk_goes_on_for_a_reader_that_stopped_waiting() {
    let _logs = Logs::watch();
    let directory = directory();
    let shard = open(&ShardOptions { slow_read: Duration::ZERO, ..small(&directory) }).await;
    let mut load = shard.bulk_load();
    let rows = (0..2000u32).map(|number| (number.to_be_bytes().to_vec().into(), vec![7].into()));
    load.push(rows.collect()).await.expect("takes rows");
    load.finish().await.expect("loads");
    for options in [ScanOptions::default(), ScanOptions::SWEEP] {
        let mut scan = shard.view().scan(vec![0]..vec![1], options);
        let mut seen = 0;
        loop {
            let chunk = match scan.next_chunk().now_or_never() {
                Some(chunk) => chunk,
                None => scan.next_chunk().await,
            };
            let Some(chunk) = chunk.expect("scans") else { break };
            for (key, _) in chunk {
                assert_eq!(key[..], u32::to_be_bytes(seen));
                seen += 1;
            }
        }
        assert_eq!(seen, 2000);
    }
}

/// Small memtables, so that tables are sorted and merged while their names are linked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checkpoint_holds_what_was_acknowledged_while_writers_go_on() {
    let _logs = Logs::watch();
    let directory = directory();
    let options = small(&directory);
    let shard = open(&options).await;
    let acknowledged = Arc::new(AtomicU32::new(0));
    let (writes_on, told) = (shard.clone(), acknowledged.clone());
    let writer = tokio::spawn(async move {
        for number in 1..=1000u32 {
            // Two keys of one commit, which no checkpoint may part.
            let mut batch = Batch::new();
            batch.put([&[1], &number.to_be_bytes()[..]].concat(), vec![7; 200]);
            batch.put([&[2], &number.to_be_bytes()[..]].concat(), vec![7; 200]);
            writes_on.commit(batch).expect("room").await.expect("commits");
            told.store(number, Ordering::SeqCst);
        }
    });
    let mut made = Vec::new();
    while !writer.is_finished() && made.len() < 6 {
        let (name, before) = (format!("at-{}", made.len()), acknowledged.load(Ordering::SeqCst));
        shard.checkpoint(&name).await.expect("makes a checkpoint");
        made.push((name, before, acknowledged.load(Ordering::SeqCst)));
    }
    writer.await.expect("no panic");
    shard.close().await.expect("closes");
    drop(shard);
    let shard = open(&options).await;
    for (name, before, after) in made {
        let kept = shard.open_checkpoint(&name).await.expect("opens");
        let [first, second] = [1, 2].map(|prefix| kept.stats(vec![prefix], vec![prefix + 1]));
        let (first, second) = (first.await.expect("reads").keys, second.await.expect("reads").keys);
        assert_eq!(first, second, "commits are whole");
        assert!((u64::from(before)..=u64::from(after) + 1).contains(&first), "{before} {first} {after}");
    }
    assert!(matches!(shard.checkpoint("../x").await, Err(StorageError::CheckpointName)));
    // It is a shard like any other.
    let copy = ShardOptions::local(directory.path().join("shard/checkpoints/at-0"));
    open(&copy).await.close().await.expect("closes");
}
