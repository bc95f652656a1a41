//! The engine of a shard in a store ends by itself. Writers notice no failure where it can be
//! opened again, and get an error that names the damage where it cannot.

use std::fmt::{Debug, Display, Formatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::join_all;
use futures::stream::{self, BoxStream};
use shardlake_stdx::Clock;
use shardlake_storage::object::{ObjectEngine, ObjectOptions, SharedCache, WriteMemory};
use shardlake_storage::{Batch, Durability, Engine, ScanOptions, Shard, ShardOptions, StorageError};
use slatedb::object_store::memory::InMemory;
use slatedb::object_store::path::Path;
use slatedb::object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use tokio::time::{sleep, timeout};

/// By a clock that skips idle time: turns a hang into a failure.
const GUARD: Duration = Duration::from_mins(10);

/// A store that reports new manifests as existing, and returns manifests with wrong bytes.
#[derive(Default)]
struct Garbling {
    store: InMemory,
    garbles: AtomicBool,
    garbled: AtomicU64,
}

impl Debug for Garbling {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("Garbling")
    }
}

impl Display for Garbling {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("Garbling")
    }
}

#[async_trait]
impl ObjectStore for Garbling {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        mut opts: PutOptions,
    ) -> Result<PutResult> {
        // The marks by which SlateDB would know its own manifest again.
        opts.attributes = Default::default();
        let stored = self.store.put_opts(location, payload, opts).await?;
        match self.garbles.load(Ordering::SeqCst) && location.extension() == Some("manifest") {
            true => Err(Error::AlreadyExists { path: location.to_string(), source: "412".into() }),
            false => Ok(stored),
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.store.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let found = self.store.get_opts(location, options).await?;
        if !self.garbles.load(Ordering::SeqCst) || location.extension() != Some("manifest") {
            return Ok(found);
        }
        self.garbled.fetch_add(1, Ordering::SeqCst);
        let (meta, range) = (found.meta.clone(), found.range.clone());
        let (attributes, extensions) = (found.attributes.clone(), found.extensions.clone());
        let body = Bytes::from(vec![0xee; found.bytes().await?.len()]);
        let payload = GetResultPayload::Stream(stream::once(async { Ok(body) }).boxed());
        Ok(GetResult { payload, meta, range, attributes, extensions })
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.store.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.store.copy_opts(from, to, options).await
    }
}

async fn open(
    store: &Arc<Garbling>,
    epoch: u64,
) -> std::result::Result<(Shard, Arc<ObjectEngine>), StorageError> {
    let options = ObjectOptions {
        store: store.clone(),
        path: "s/1".into(),
        must_exist: false,
        epoch: Some(epoch),
        lease: None,
        circuits: None,
        disk_cache: None,
        cache: SharedCache::new(1 << 20),
        number: 1,
        memtable_bytes: 1 << 20,
        write_memory: WriteMemory::new(4 * (1 << 20)),
        shards: 1,
        log_kept: Duration::ZERO,
        clock: Clock::System,
        is_scanned: |_| false,
    };
    let engine = Arc::new(ObjectEngine::open(options).await?);
    let options = ShardOptions { durability: Durability::Sync, ..ShardOptions::memory() };
    Ok((Shard::with_engine(engine.clone(), &options)?, engine))
}

fn key(writer: u32, number: u32) -> Vec<u8> {
    [1u32.to_be_bytes(), writer.to_be_bytes(), number.to_be_bytes()].concat()
}

async fn put(shard: &Shard, writer: u32, number: u32) -> std::result::Result<(), StorageError> {
    let mut batch = Batch::new();
    batch.put(key(writer, number), vec![7; 2000]);
    // Each overwrites the row of the commit before.
    batch.put(key(writer, u32::MAX), number.to_be_bytes().to_vec());
    shard.commit(batch)?.await
}

async fn rows(shard: &Shard) -> usize {
    let mut scan = shard.view().scan(key(0, 0)..key(u32::MAX, 0), ScanOptions::default());
    let mut rows = 0;
    while let Some(chunk) = scan.next_chunk().await.expect("reads") {
        rows += chunk.len();
    }
    rows
}

/// Has the engine meet manifests that do not parse, until it has ended.
async fn end(store: &Garbling, shard: &Shard) {
    store.garbles.store(true, Ordering::SeqCst);
    let before = store.garbled.load(Ordering::SeqCst);
    // It makes a manifest, gets the error that another one has its number, and reads that manifest.
    let _perhaps = timeout(Duration::from_millis(1500), shard.flush()).await;
    while store.garbled.load(Ordering::SeqCst) == before {
        sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_ends_is_opened_again_and_no_writer_sees_it() {
    timeout(GUARD, end_and_open_again()).await.expect("it goes on");
}

async fn end_and_open_again() {
    const WRITERS: u32 = 8;
    const ROUNDS: u32 = 2;
    let store = Arc::new(Garbling::default());
    let (shard, engine) = open(&store, 1).await.expect("opens");
    put(&shard, 1000, 0).await.expect("acknowledged");
    let mut written = 0;
    for round in 0..ROUNDS {
        let is_over = Arc::new(AtomicBool::new(false));
        let writing: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (shard, is_over) = (shard.clone(), is_over.clone());
                tokio::spawn(async move {
                    let mut number = round * 1_000_000;
                    while !is_over.load(Ordering::SeqCst) || number % 1_000_000 < 20 {
                        put(&shard, writer, number).await.expect("a writer sees nothing of it");
                        let found = shard.get(&key(writer, u32::MAX)).await;
                        match found {
                            Ok(found) => assert_eq!(found.as_deref(), Some(&number.to_be_bytes()[..])),
                            // The view is one of the database that ended.
                            Err(error) => {
                                assert!(matches!(error, StorageError::Unavailable { .. }), "{error}")
                            }
                        }
                        number += 1;
                        sleep(Duration::from_millis(5)).await;
                    }
                    number % 1_000_000
                })
            })
            .collect();
        end(&store, &shard).await;
        // Attempts to open it were made already, and one of the next succeeds.
        store.garbles.store(false, Ordering::SeqCst);
        while engine.moment() <= u64::from(round) {
            sleep(Duration::from_millis(10)).await;
        }
        is_over.store(true, Ordering::SeqCst);
        for writer in join_all(writing).await {
            written += writer.expect("writes") as usize;
        }
    }
    assert!(engine.moment() >= u64::from(ROUNDS));
    let expected = written + WRITERS as usize + 2;
    assert_eq!(rows(&shard).await, expected);
    shard.flush().await.expect("flushed");
    shard.close().await.expect("closes");
    let (later, _) = open(&store, 2).await.expect("opens");
    assert_eq!(rows(&later).await, expected);
}

#[tokio::test(start_paused = true)]
async fn damage_that_stays_is_told_by_name_and_nothing_more_is_acknowledged() {
    timeout(GUARD, end_for_good()).await.expect("it is told");
}

async fn end_for_good() {
    let store = Arc::new(Garbling::default());
    let (shard, _) = open(&store, 1).await.expect("opens");
    for number in 0..10 {
        put(&shard, 1, number).await.expect("acknowledged");
    }
    end(&store, &shard).await;
    let mut acknowledged = 10;
    let refused = loop {
        match put(&shard, 1, acknowledged).await {
            Ok(()) => acknowledged += 1,
            Err(error) => break error,
        }
        sleep(Duration::from_millis(10)).await;
    };
    assert!(matches!(refused, StorageError::Ended { .. }), "{refused}");
    assert!(refused.to_string().contains("the shard 's/1'"), "{refused}");
    store.garbles.store(false, Ordering::SeqCst);
    let (later, _) = open(&store, 2).await.expect("opens");
    assert!(rows(&later).await > acknowledged as usize, "{acknowledged} were acknowledged");
}

/// Another owner has it by the time at which the first one would open it again.
#[tokio::test(start_paused = true)]
async fn an_owner_that_was_replaced_opens_nothing_again() {
    let store = Arc::new(Garbling::default());
    let (shard, engine) = open(&store, 1).await.expect("opens");
    put(&shard, 1, 0).await.expect("acknowledged");
    let (later, _) = open(&store, 2).await.expect("opens");
    put(&later, 2, 0).await.expect("acknowledged");
    let refused = loop {
        if let Err(error) = put(&shard, 1, 1).await {
            break error;
        }
    };
    assert!(matches!(refused, StorageError::Fenced { .. }), "{refused}");
    assert_eq!(engine.moment(), 0);
    put(&later, 2, 1).await.expect("nobody is in its way");
    assert_eq!(rows(&later).await, 5);
}
