//! Ranges in front of the engine: never another state than the view's, whatever is written during
//! the scan. `suite.rs` compares them with the model on random histories.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use shardlake_storage::fault::FaultEngine;
use shardlake_storage::{Batch, CachedView, Durability, MemoryEngine, Row, ScanOptions, Shard, ShardOptions};
use shardlake_testkit::{Logs, expects_log};

const TOKENS: u64 = 40;
const PLACES: u64 = 400;

fn key(place: u64) -> Vec<u8> {
    format!("place-{place:03}").into_bytes()
}

async fn rows(view: &CachedView, reverse: bool) -> Vec<Row> {
    let options = ScanOptions { reverse, ..ScanOptions::default() };
    let mut scan = view.scan(key(0)..key(999), options);
    let mut rows = Vec::new();
    while let Some(chunk) = scan.next_rows(16).await.expect("scans") {
        rows.extend(chunk);
    }
    rows
}

/// The same, read where they lie, and whether each chunk had been checked; from now on all have.
async fn rows_in_place(view: &CachedView) -> (Vec<Row>, Vec<bool>) {
    let mut scan = view.scan(key(0)..key(999), ScanOptions::default());
    let (mut rows, mut checked) = (Vec::new(), Vec::new());
    while let Some(chunk) = scan.next_rows_in_place().await.expect("scans") {
        rows.extend_from_slice(chunk.rows());
        checked.push(chunk.was_checked());
        chunk.note_checked();
    }
    (rows, checked)
}

async fn count(view: &CachedView) -> usize {
    let mut scan = view.scan(key(0)..key(999), ScanOptions::default());
    let mut count = 0;
    while let Some(rows) = scan.count_chunk().await.expect("counts") {
        count += rows;
    }
    count
}

fn number((_, value): &Row) -> u64 {
    u64::from_be_bytes(value[..].try_into().expect("a number"))
}

/// Tokens move from place to place, one in each commit, which also writes the commit's number.
/// Every scan finds all of them, and no state older than a commit that its reader knows of.
async fn scans_beside_a_writer(durability: Durability) {
    const READERS: u64 = 3;
    const MOVES: u64 = 600;
    let options = ShardOptions { durability, ..ShardOptions::memory() };
    let shard = Shard::with_engine(Arc::new(MemoryEngine::new()), &options).expect("opens");
    shard.scans_hot(|_| 4, |_| None);
    let mut places: Vec<u64> = (0..TOKENS).map(|token| token * PLACES / TOKENS).collect();
    let mut batch = Batch::new();
    places.iter().for_each(|place| batch.put(key(*place), 0_u64.to_be_bytes().to_vec()));
    shard.commit(batch).expect("room").await.expect("commits");
    let (told, scans) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let reader = |number_of_reader: u64| {
        let (shard, told, scans) = (shard.clone(), told.clone(), scans.clone());
        tokio::spawn(async move {
            while told.load(Ordering::SeqCst) < MOVES {
                let least = told.load(Ordering::SeqCst);
                let view = shard.cached_view();
                for reverse in [false, true] {
                    let rows = rows(&view, reverse).await;
                    assert_eq!(rows.len() as u64, TOKENS, "tokens that reader {number_of_reader} found");
                    let newest = rows.iter().map(number).max().expect("rows");
                    assert!(newest >= least, "found {newest} after {least}");
                    if !reverse {
                        assert_eq!(rows_in_place(&view).await.0, rows);
                    }
                }
                assert_eq!(count(&view).await as u64, TOKENS);
                scans.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
            }
        })
    };
    let readers: Vec<_> = (0..READERS).map(reader).collect();
    for number in 1..=MOVES {
        let token = (number * 7 % TOKENS) as usize;
        let free =
            (0..PLACES).map(|step| (places[token] + 13 + step) % PLACES).find(|to| !places.contains(to));
        let to = free.expect("there are more places than tokens");
        let mut batch = Batch::new();
        batch.delete(key(places[token]));
        batch.put(key(to), number.to_be_bytes().to_vec());
        places[token] = to;
        shard.commit(batch).expect("room").await.expect("commits");
        told.store(number, Ordering::SeqCst);
        // Readers meet ranges that stand still for a while, too.
        let seen = scans.load(Ordering::SeqCst);
        while number % 20 == 0 && number < MOVES && scans.load(Ordering::SeqCst) < seen + 2 * READERS {
            tokio::task::yield_now().await;
        }
    }
    for reader in readers {
        reader.await.expect("every scan found every token");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn scans_beside_a_writer_find_one_moment() {
    let _logs = Logs::watch();
    scans_beside_a_writer(Durability::Sync).await;
    scans_beside_a_writer(Durability::Async).await;
}

#[tokio::test]
async fn rows_that_stay_in_memory_are_checked_once() {
    let shard = Shard::open(ShardOptions::memory()).await.expect("opens");
    shard.scans_hot(|_| 4, |_| None);
    let write = async |places: std::ops::Range<u64>| {
        let mut batch = Batch::new();
        places.for_each(|place| batch.put(key(place), 1_u64.to_be_bytes().to_vec()));
        shard.commit(batch).expect("room").await.expect("commits");
    };
    let checked = async || rows_in_place(&shard.cached_view()).await.1;
    write(0..100).await;
    // Read, read and kept, looked at in memory, and then known to be whole.
    for expected in [false, false, false, true, true] {
        assert_eq!(checked().await, [expected]);
    }
    write(50..51).await;
    for expected in [false, false, false, true] {
        assert_eq!(checked().await, [expected]);
    }
}

#[tokio::test]
async fn range_that_was_scanned_twice_is_not_read_again() {
    let _logs = Logs::watch();
    let engine = FaultEngine::new();
    let shard = Shard::with_engine(Arc::new(engine.clone()), &ShardOptions::local("")).expect("opens");
    let mut batch = Batch::new();
    (0..100).for_each(|place| batch.put(key(place), 1_u64.to_be_bytes().to_vec()));
    shard.commit(batch).expect("room").await.expect("commits");
    for _ in 0..2 {
        assert_eq!(rows(&shard.cached_view(), false).await.len(), 100);
    }
    let first = rows(&shard.cached_view(), false).await;
    let second = rows(&shard.cached_view(), true).await;
    let place_of = |rows: &[Row], key: &[u8]| {
        let row = rows.iter().find(|row| row.0 == key).expect("the row is there");
        row.1.as_ptr()
    };
    assert_eq!(place_of(&first, &key(50)), place_of(&second, &key(50)), "both come from the same memory");
    let mut batch = Batch::new();
    batch.put(key(50), 2_u64.to_be_bytes().to_vec());
    shard.commit(batch).expect("room").await.expect("commits");
    let third = rows(&shard.cached_view(), false).await;
    assert_eq!(number(&third[50]), 2, "the write ended what was kept");
    assert_eq!(place_of(&third, &key(99)), place_of(&first, &key(99)), "and nothing else");
}

#[tokio::test]
async fn write_that_is_not_acknowledged_is_in_no_scan() {
    let _logs = Logs::watch();
    expects_log("refuses writes");
    let engine = FaultEngine::new();
    let shard = Shard::with_engine(Arc::new(engine.clone()), &ShardOptions::local("")).expect("opens");
    let put = |number: u64| {
        let mut batch = Batch::new();
        batch.put(key(1), Bytes::copy_from_slice(&number.to_be_bytes()));
        batch
    };
    shard.commit(put(1)).expect("room").await.expect("commits");
    engine.stall_syncs(true);
    let commit = shard.commit(put(2)).expect("room");
    while shard.applied() < 2 {
        tokio::task::yield_now().await;
    }
    for _ in 0..4 {
        assert_eq!(number(&rows(&shard.cached_view(), false).await[0]), 1, "a crash can undo the second");
    }
    let before = shard.cached_view();
    engine.stall_syncs(false);
    commit.await.expect("commits");
    for _ in 0..4 {
        assert_eq!(number(&rows(&shard.cached_view(), false).await[0]), 2);
        assert_eq!(number(&rows(&before, false).await[0]), 1, "a view stays as it is");
    }
    engine.fail_sync(1);
    shard.commit(put(3)).expect("room").await.expect_err("the sync fails");
    for _ in 0..4 {
        assert_eq!(number(&rows(&shard.cached_view(), true).await[0]), 2, "nobody was told of the third");
    }
}
