//! States of shards in an object store: kept at one point in time, copied as files, and shards
//! again at another prefix.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use shardlake_stdx::Clock;
use shardlake_storage::object::{
    Moment, ObjectEngine, ObjectOptions, ReadOptions, SharedCache, WithLog, WriteMemory, forget_checkpoints,
    kept_files_of_closed, open_to_read,
};
use shardlake_storage::{Batch, KeptFiles, ScanOptions, Shard, ShardOptions, StorageError};
use slatedb::object_store::memory::InMemory;
use slatedb::object_store::path::Path;
use slatedb::object_store::{ObjectStore, ObjectStoreExt as _, PutPayload};

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

async fn open(store: &Arc<dyn ObjectStore>, path: &str, epoch: u64) -> Shard {
    let options = ObjectOptions {
        store: store.clone(),
        path: path.into(),
        must_exist: false,
        epoch: Some(epoch),
        lease: None,
        circuits: None,
        disk_cache: None,
        cache: SharedCache::new(1 << 20),
        number: 0,
        memtable_bytes: 1 << 20,
        write_memory: WriteMemory::new(4 * (1 << 20)),
        shards: 1,
        log_kept: std::time::Duration::ZERO,
        clock: Clock::System,
        is_scanned: |_| false,
    };
    let engine = ObjectEngine::open(options).await.expect("opens");
    let options = ShardOptions { durability: shardlake_storage::Durability::Sync, ..ShardOptions::memory() };
    Shard::with_engine(Arc::new(engine), &options).expect("starts")
}

async fn reader(store: &Arc<dyn ObjectStore>, path: &str, moment: Moment) -> Result<Shard, StorageError> {
    let cache = SharedCache::new(1 << 20);
    let path = path.to_owned();
    open_to_read(ReadOptions { store: store.clone(), path, moment, cache, number: 0, is_scanned: |_| false })
        .await
}

fn key(number: u32) -> Vec<u8> {
    [&(number % 3).to_be_bytes()[..], &number.to_be_bytes()].concat()
}

async fn put(shard: &Shard, number: u32, value: &[u8]) {
    let mut batch = Batch::new();
    batch.put(key(number), value.to_vec());
    shard.commit(batch).expect("queued").await.expect("acknowledged");
}

async fn rows(shard: &Shard) -> Rows {
    let mut found = Rows::new();
    let mut scan = shard.view().scan(vec![0]..vec![0xff; 9], ScanOptions::default());
    while let Some(rows) = scan.next_chunk().await.expect("reads") {
        found.extend(rows.into_iter().map(|(key, value)| (key.to_vec(), value.to_vec())));
    }
    found
}

/// As a backup and a restore do it, in pieces.
async fn copy(kept: &KeptFiles, to: &Arc<dyn ObjectStore>, path: &str) {
    assert!(kept.is_of_store());
    for (number, file) in kept.files().iter().enumerate() {
        let mut content = Vec::new();
        while (content.len() as u64) < file.size_bytes {
            let piece = kept.read(number, content.len() as u64, 1000).await.expect("reads");
            assert!(!piece.is_empty());
            content.extend(piece);
        }
        assert!(kept.read(number, file.size_bytes, 10).await.expect("nothing").is_empty());
        to.put(&Path::from(format!("{path}/{}", file.path)), PutPayload::from(content))
            .await
            .expect("stored");
    }
    assert!(kept.files().last().expect("one").path.starts_with("manifest/"));
    forget_checkpoints(to, path).await.expect("forgotten");
}

fn memory() -> Arc<dyn ObjectStore> {
    Arc::new(InMemory::new())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kept_state_is_a_shard_again_elsewhere_while_the_original_goes_on() {
    let (store, copies) = (memory(), memory());
    let shard = open(&store, "s/a", 1).await;
    for number in 0..300 {
        put(&shard, number, &[7; 9000]).await;
    }
    let before = rows(&shard).await;
    // Two of them: the second one's manifest knows the first one.
    for name in ["first", "second"] {
        let views = Shard::checkpoint_shards(std::slice::from_ref(&shard), name).await.expect("kept");
        assert_eq!(views.len(), 1);
    }
    let again = Shard::checkpoint_shards(std::slice::from_ref(&shard), "first").await.map(|_| ());
    assert!(matches!(again, Err(StorageError::CheckpointExists)), "{again:?}");
    let mut known = shard.checkpoints().await.expect("listed");
    known.sort();
    assert_eq!(known, ["first", "second"]);
    put(&shard, 1000, b"later").await;
    let kept = shard.kept_files("second").await.expect("files");
    let seen = reader(&store, "s/a", Moment::Checkpoint("second".into())).await.expect("opens");
    assert_eq!(rows(&seen).await, before);
    copy(&kept, &copies, "x/y/b").await;
    for name in ["first", "second"] {
        shard.remove_checkpoint(name).await.expect("removed");
    }
    assert!(matches!(shard.kept_files("second").await, Err(StorageError::CheckpointMissing)));

    assert_eq!(rows(&reader(&copies, "x/y/b", Moment::Latest).await.expect("opens")).await, before);
    let copied = open(&copies, "x/y/b", 1).await;
    assert!(copied.checkpoints().await.expect("listed").is_empty());
    assert_eq!(rows(&copied).await, before);
    put(&copied, 2000, b"its own").await;
    copied.close().await.expect("closes");
    let copied = open(&copies, "x/y/b", 2).await;
    assert_eq!(rows(&copied).await.len(), before.len() + 1);
    assert_eq!(rows(&shard).await.len(), before.len() + 1);
    let none = reader(&copies, "x/y/c", Moment::Latest).await.map(|_| ());
    assert!(matches!(none, Err(StorageError::Missing { .. })), "{none:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn states_of_several_shards_in_a_store_show_no_effect_without_its_cause() {
    let (store, copies) = (memory(), memory());
    let shards = [open(&store, "s/0", 1).await, open(&store, "s/1", 1).await];
    let goes_on = Arc::new(AtomicBool::new(true));
    let writers: Vec<_> = (0..4u32)
        .map(|writer| {
            let (shards, goes_on) = (shards.clone(), goes_on.clone());
            tokio::spawn(async move {
                let mut round = 0;
                while goes_on.load(Ordering::SeqCst) {
                    // The effect lies on either shard.
                    let (cause, effect) = if writer % 2 == 0 { (0, 1) } else { (1, 0) };
                    put(&shards[cause], writer * 1_000_000 + round, b"cause").await;
                    put(&shards[effect], writer * 1_000_000 + round, b"effect").await;
                    round += 1;
                    tokio::task::yield_now().await;
                }
                round
            })
        })
        .collect();
    for attempt in 0..4 {
        let name = format!("state-{attempt}");
        let _views = Shard::checkpoint_shards(&shards, &name).await.expect("kept");
        let mut found = Vec::new();
        for (number, shard) in shards.iter().enumerate() {
            let place = format!("{attempt}/{number}");
            copy(&shard.kept_files(&name).await.expect("files"), &copies, &place).await;
            found.push(rows(&reader(&copies, &place, Moment::Latest).await.expect("opens")).await);
        }
        let keys: [std::collections::BTreeSet<Vec<u8>>; 2] =
            [0, 1].map(|shard: usize| found[shard].iter().map(|(key, _)| key.clone()).collect());
        for shard in [0, 1] {
            let effects = found[shard].iter().filter(|(_, value)| value == b"effect");
            for (key, _) in effects {
                assert!(keys[1 - shard].contains(key), "attempt {attempt}: an effect without its cause");
            }
        }
        assert!(!keys[0].is_empty());
    }
    goes_on.store(false, Ordering::SeqCst);
    for writer in writers {
        assert!(writer.await.expect("writes") > 0);
    }
}

/// Its owner was killed: acknowledged writes that only the log has are copied, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_files_of_a_shard_that_nobody_has_open_have_its_log() {
    let (store, copies) = (memory(), memory());
    let shard = open(&store, "s/a", 1).await;
    for number in 0..200 {
        put(&shard, number, &[3; 9000]).await;
    }
    shard.flush().await.expect("flushed");
    for number in 200..210 {
        put(&shard, number, b"in the log").await;
    }
    let before = rows(&shard).await;
    // Never closed.
    std::mem::forget(shard);
    let kept = kept_files_of_closed(&store, "s/a", WithLog::No).await.expect("files");
    assert!(kept.files().iter().any(|file| file.path.starts_with("wal/")), "{:?}", kept.files());
    copy(&kept, &copies, "b").await;
    assert_eq!(rows(&reader(&copies, "b", Moment::Latest).await.expect("opens")).await, before);
    let copied = open(&copies, "b", 5).await;
    assert_eq!(rows(&copied).await, before);
    put(&copied, 5000, b"its own").await;
    copied.close().await.expect("closes");
    assert!(matches!(
        kept_files_of_closed(&store, "s/b", WithLog::No).await,
        Err(StorageError::Missing { .. })
    ));
    // A missing table is reported, and not left out.
    let table = kept.files().iter().find(|file| file.path.starts_with("compacted/")).expect("a table");
    store.delete(&Path::from(format!("s/a/{}", table.path))).await.expect("removed");
    let damaged = kept_files_of_closed(&store, "s/a", WithLog::No).await.map(|_| ());
    assert!(matches!(damaged, Err(StorageError::Corrupt { .. })), "{damaged:?}");
}
