//! A store that fails for long: requests fail at once, and succeed again when the store does.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use shardlake_stdx::{Clock, Timestamp};
use shardlake_storage::object::{
    Circuit, CircuitEvent, Circuits, ObjectEngine, ObjectOptions, SharedCache, WriteMemory,
};
use shardlake_storage::{Batch, Durability, Shard, ShardOptions, StorageError};
use tokio::sync::mpsc;

use crate::object_faults::{Befalls, Faulty, Weather};

async fn open(store: &Arc<Faulty>, epoch: u64, circuits: Option<Circuits>) -> Shard {
    let options = ObjectOptions {
        store: store.clone(),
        path: "s/1".into(),
        must_exist: false,
        epoch: Some(epoch),
        lease: None,
        circuits,
        disk_cache: None,
        cache: SharedCache::new(0),
        number: 1,
        memtable_bytes: 1 << 20,
        write_memory: WriteMemory::new(4 * (1 << 20)),
        shards: 1,
        log_kept: Duration::ZERO,
        clock: Clock::System,
        is_scanned: |_| false,
    };
    let engine = ObjectEngine::open(options).await.expect("opens");
    let options = ShardOptions { durability: Durability::Sync, ..ShardOptions::memory() };
    Shard::with_engine(Arc::new(engine), &options).expect("a shard")
}

fn batch(key: &[u8]) -> Batch {
    let mut batch = Batch::new();
    batch.put(key.to_vec(), vec![1; 100]);
    batch
}

fn is_unavailable<T>(outcome: &Result<T, StorageError>) -> bool {
    matches!(outcome, Err(StorageError::Unavailable { .. }))
}

#[tokio::test(start_paused = true)]
async fn while_a_store_fails_reads_and_writes_are_refused_at_once() {
    let store = Faulty::new(3, true);
    let first = open(&store, 1, None).await;
    first.commit(batch(b"0000 stored")).expect("queued").await.expect("acknowledged");
    first.close().await.expect("closes");
    let clock = Clock::manual(Timestamp(1_000_000));
    let (refusals, mut refused) = mpsc::channel(1);
    let observe = move |event| {
        if event == CircuitEvent::Refused {
            let _is_full = refusals.try_send(());
        }
    };
    let circuit = Arc::new(Circuit::new(clock.clone(), observe));
    let shard = open(&store, 2, Some(Circuits::of_one_store(circuit.clone()))).await;
    shard.commit(batch(b"0000 in memory")).expect("queued").await.expect("acknowledged");
    store.set(Weather { fails: 1000, ..Weather::default() });
    // A write that is under way when the store begins to fail is neither given up nor acknowledged.
    let under_way = shard.commit(batch(b"0000 under way")).expect("queued");
    let read = shard.get(b"0000 stored").await;
    assert!(is_unavailable(&read), "{read:?}");
    assert!(circuit.refuses(), "ten attempts have failed");
    let made = store.failures();
    for _ in 0..20 {
        let read = shard.get(b"0000 stored").into_future().now_or_never();
        assert!(is_unavailable(&read.expect("nobody waits")));
        assert!(is_unavailable(&shard.commit(batch(b"0000 refused")).map(drop)));
    }
    let value = shard.get(b"0000 in memory").await.expect("it needs no store");
    assert!(value.is_some());
    assert_eq!(store.failures(), made, "no request is made");
    clock.advance(Duration::from_secs(1));
    // One of those that ask again tries the store, and it still fails.
    tokio::time::timeout(Duration::from_secs(5), circuit.refused()).await.expect("tried");
    while refused.try_recv().is_ok() {}
    for _ in 0..20 {
        refused.recv().await.expect("who waits for the store asks again");
    }
    assert_eq!(store.failures(), made + 1, "one request in a second of the circuit's clock");
    store.set(Weather::default());
    clock.advance(Duration::from_secs(1));
    under_way.await.expect("it is stored when the store answers");
    assert!(!circuit.refuses());
    assert!(shard.get(b"0000 stored").await.expect("reads").is_some());
    shard.commit(batch(b"0000 later")).expect("queued").await.expect("acknowledged");
    let later = open(&store, 3, None).await;
    for (key, is_there) in [(&b"0000 under way"[..], true), (b"0000 refused", false), (b"0000 later", true)] {
        assert_eq!(later.get(key).await.expect("reads").is_some(), is_there);
    }
}

fn fails(befalls: Befalls) -> Weather {
    Weather { fails: 1000, befalls, ..Weather::default() }
}

async fn two_stores() -> (Arc<Faulty>, Circuits, Shard) {
    let store = Faulty::new(5, true);
    let first = open(&store, 1, None).await;
    first.commit(batch(b"0000 stored")).expect("queued").await.expect("acknowledged");
    first.close().await.expect("closes");
    let circuit = || Arc::new(Circuit::new(Clock::manual(Timestamp(1_000_000)), |_| {}));
    let circuits = Circuits { data: circuit(), log: circuit() };
    let shard = open(&store, 2, Some(circuits.clone())).await;
    (store, circuits, shard)
}

/// Writes need the log, and memory until tables can be stored again.
#[tokio::test(start_paused = true)]
async fn while_the_store_of_the_data_fails_writes_go_on_until_memory_is_full() {
    let (store, circuits, shard) = two_stores().await;
    store.set(fails(Befalls::Data));
    let read = shard.get(b"0000 stored").await;
    assert!(is_unavailable(&read), "{read:?}");
    assert!(circuits.data.refuses() && !circuits.log.refuses());
    let mut written = 0;
    let mut waiting = Vec::new();
    // Four buffers of one mebibyte, and the commits queued before the first refusal.
    while let Ok(pending) = shard.commit(large(written)) {
        let mut pending = Box::pin(pending);
        match tokio::time::timeout(Duration::from_secs(5), &mut pending).await {
            Ok(stored) => stored.expect("the log takes it"),
            Err(_) => waiting.push(pending),
        }
        written += 1;
        assert!(written < 1000, "memory is bounded");
    }
    assert!(written >= 16, "{written} writes of 64 KiB went on");
    assert!(is_unavailable(&shard.commit(batch(b"0000 refused")).map(drop)));
    assert!(shard.get(large_key(0).as_bytes()).await.expect("it is in memory").is_some());
    assert!(!circuits.log.refuses());
    store.set(Weather::default());
    circuits.data.note_answer();
    for pending in waiting {
        pending.await.expect("it goes on when tables can be stored");
    }
    shard.commit(batch(b"0000 later")).expect("queued").await.expect("acknowledged");
    assert!(shard.get(b"0000 stored").await.expect("reads").is_some());
}

fn large_key(number: u64) -> String {
    format!("0000 large {number}")
}

fn large(number: u64) -> Batch {
    let mut batch = Batch::new();
    let mut value = vec![0; 64 << 10];
    shardlake_stdx::Random::seeded(number).fill(&mut value);
    batch.put(large_key(number).into_bytes(), value);
    batch
}

#[tokio::test(start_paused = true)]
async fn while_the_store_of_the_log_fails_reads_go_on() {
    let (store, circuits, shard) = two_stores().await;
    store.set(fails(Befalls::Log));
    let under_way = shard.commit(batch(b"0000 under way")).expect("queued");
    tokio::time::timeout(Duration::from_secs(60), circuits.log.refused()).await.expect("it opens");
    assert!(circuits.log.refuses() && !circuits.data.refuses());
    assert!(is_unavailable(&shard.commit(batch(b"0000 refused")).map(drop)));
    // From tables, in the other store.
    assert!(shard.get(b"0000 stored").await.expect("reads").is_some());
    assert!(!circuits.data.refuses());
    store.set(Weather::default());
    circuits.log.note_answer();
    under_way.await.expect("it is stored when the log's store answers");
    assert!(shard.get(b"0000 refused").await.expect("reads").is_none());
}
