//! A store that is slow, fails, cuts answers off after their effect, and sends half of a body: whoever writes is told the truth, and
//! nothing acknowledged is lost.

use std::collections::BTreeMap;
use std::fmt::{Debug, Display, Formatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::{self, BoxStream};
use futures::{StreamExt as _, TryStreamExt as _};
use shardlake_stdx::Random;
use shardlake_storage::object::{ObjectEngine, ObjectOptions, SharedCache};
use shardlake_storage::{Batch, Durability, ScanOptions, Shard, ShardOptions, StorageError};
use slatedb::object_store::memory::InMemory;
use slatedb::object_store::path::Path;
use slatedb::object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

/// What a request may meet, each in so many of a thousand.
#[derive(Debug, Clone, Copy, Default)]
struct Weather {
    /// 500, or 503 SlowDown: nothing was done.
    fails: u64,
    /// The connection breaks after the request was carried out.
    cut_after: u64,
    /// The body ends in the middle.
    half: u64,
    /// Up to so many milliseconds each.
    latency_ms: u64,
}

struct Faulty {
    store: InMemory,
    random: Random,
    weather: std::sync::Mutex<Weather>,
    met: [AtomicU64; 3],
}

impl Faulty {
    fn new(seed: u64) -> Arc<Faulty> {
        let (store, random) = (InMemory::new(), Random::seeded(seed));
        Arc::new(Faulty { store, random, weather: Default::default(), met: Default::default() })
    }

    fn set(&self, weather: Weather) {
        *self.weather.lock().expect("nothing panics") = weather;
    }

    fn weather(&self) -> Weather {
        *self.weather.lock().expect("nothing panics")
    }

    fn meets(&self, which: usize, of_thousand: u64) -> bool {
        let meets = self.random.below(1000) < of_thousand;
        if meets {
            self.met[which].fetch_add(1, Ordering::Relaxed);
        }
        meets
    }

    /// A request that has an effect, or none, and is answered or not.
    async fn request<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let weather = self.weather();
        if weather.latency_ms > 0 {
            tokio::time::sleep(Duration::from_millis(self.random.below(weather.latency_ms))).await;
        }
        if self.meets(0, weather.fails) {
            return Err(broken("503 SlowDown"));
        }
        let done = work.await;
        match self.meets(1, weather.cut_after) {
            true => Err(broken("the connection was reset")),
            false => done,
        }
    }
}

fn broken(what: &'static str) -> Error {
    Error::Generic { store: "faulty", source: what.into() }
}

impl Debug for Faulty {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("Faulty")
    }
}

impl Display for Faulty {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("Faulty")
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.request(self.store.put_opts(location, payload, opts)).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.request(self.store.put_multipart_opts(location, opts)).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let mut found = self.request(self.store.get_opts(location, options)).await?;
        if self.meets(2, self.weather().half) && found.range.end > found.range.start + 1 {
            let half = (found.range.end - found.range.start) as usize / 2;
            let GetResultPayload::Stream(body) =
                std::mem::replace(&mut found.payload, GetResultPayload::Stream(stream::empty().boxed()))
            else {
                return Err(broken("no stream"));
            };
            let body = body.map_ok(move |piece| piece.slice(..piece.len().min(half))).take(1);
            let cut = stream::once(async { Err(broken("the body ended early")) });
            found.payload = GetResultPayload::Stream(body.chain(cut).boxed());
        }
        Ok(found)
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.store.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.meets(0, self.weather().fails) {
            true => stream::once(async { Err(broken("503 SlowDown")) }).boxed(),
            false => self.store.list(prefix),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.request(self.store.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.request(self.store.copy_opts(from, to, options)).await
    }
}

async fn open(store: &Arc<Faulty>, epoch: u64) -> std::result::Result<Shard, StorageError> {
    let options = ObjectOptions {
        store: store.clone(),
        path: "s/1".into(),
        must_exist: false,
        epoch: Some(epoch),
        lease: None,
        cache: SharedCache::new(1 << 20),
        number: 1,
        memtable_bytes: 1 << 20,
        log_kept: std::time::Duration::ZERO,
        is_scanned: |_| false,
    };
    let engine = ObjectEngine::open(options).await?;
    let options = ShardOptions { durability: Durability::Sync, ..ShardOptions::memory() };
    Shard::with_engine(Arc::new(engine), &options)
}

fn key(writer: u32, item: u64, half: u8) -> Vec<u8> {
    [&[0, 0, 0, half][..], &writer.to_be_bytes(), &item.to_be_bytes()].concat()
}

const WRITERS: u32 = 4;
const ITEMS: u64 = 8;

/// Writers write both halves of an item in a batch, each time with a higher number. What is stored is at least what they were told,
/// at most what they asked for, and both halves agree: also while it goes on, and for a later owner.
async fn survive(seed: u64, weather: Weather) -> Vec<u64> {
    let store = Faulty::new(seed);
    let shard = open(&store, 1).await.expect("opens in good weather");
    store.set(weather);
    let refused = Arc::new(AtomicU32::new(0));
    let writing = (0..WRITERS).map(|writer| {
        let (shard, refused) = (shard.clone(), refused.clone());
        tokio::spawn(async move {
            let (mut told, mut asked) = (BTreeMap::new(), BTreeMap::new());
            for round in 1..=60u64 {
                let item = round % ITEMS;
                let mut batch = Batch::new();
                for half in [0, 1] {
                    let value = [&round.to_be_bytes()[..], &vec![half; 3000]].concat();
                    batch.put(key(writer, item, half), value);
                }
                asked.insert(item, round);
                let committed = match shard.commit(batch) {
                    Ok(commit) => commit.await,
                    Err(error) => Err(error),
                };
                match committed {
                    Ok(()) => drop(told.insert(item, round)),
                    Err(error) => {
                        assert!(!matches!(error, StorageError::Corrupt { .. }), "{error}");
                        refused.fetch_add(1, Ordering::Relaxed);
                        break;
                    }
                }
                if let Ok(found) = shard.get(&key(writer, item, 0)).await {
                    let found = found.map(|value| number(&value));
                    assert_eq!(found, told.get(&item).copied(), "writer {writer} reads what it was told");
                }
            }
            (writer, told, asked)
        })
    });
    let mut claims = Vec::new();
    for writer in writing.collect::<Vec<_>>() {
        claims.push(writer.await.expect("writes"));
    }
    shard.flush().await.expect("faults that pass cost time alone");
    // A later owner has nothing in memory, and the weather stays as it is.
    let rows = read_by_another_owner(&store).await;
    for (writer, told, asked) in claims {
        for item in 0..ITEMS {
            let halves = [0, 1].map(|half| rows.get(&key(writer, item, half)).copied().unwrap_or(0));
            let (told, asked) =
                (told.get(&item).copied().unwrap_or(0), asked.get(&item).copied().unwrap_or(0));
            assert_eq!(halves[0], halves[1], "seed {seed}: a batch is torn");
            assert!(
                (told..=asked).contains(&halves[0]),
                "seed {seed}: writer {writer} was told of {told}, asked for {asked}, and {} is stored",
                halves[0]
            );
        }
    }
    let met: Vec<u64> = store.met.iter().map(|met| met.load(Ordering::Relaxed)).collect();
    let refused = refused.load(Ordering::Relaxed);
    assert_eq!(refused, 0, "seed {seed}, {weather:?}: faults that pass cost time alone");
    met
}

/// Several histories in one weather, in which each of its faults is met.
async fn survive_all(seeds: std::ops::Range<u64>, weather: Weather) {
    let mut met = [0; 3];
    for seed in seeds {
        survive(seed, weather).await.into_iter().zip(&mut met).for_each(|(one, all)| *all += one);
    }
    let wanted = [weather.fails, weather.cut_after, weather.half];
    assert!(met.iter().zip(wanted).all(|(met, wanted)| wanted == 0 || *met > 0), "{met:?} of {weather:?}");
}

/// What is told is right; what cannot be told now is told later.
async fn read_by_another_owner(store: &Arc<Faulty>) -> BTreeMap<Vec<u8>, u64> {
    for attempt in 0..50 {
        let read = async {
            let later = open(store, 2 + attempt).await?;
            let mut rows = BTreeMap::new();
            let mut scan = later.view().scan(vec![0]..vec![1], ScanOptions::default());
            while let Some(chunk) = scan.next_chunk().await? {
                rows.extend(chunk.into_iter().map(|(key, value)| (key.to_vec(), number(&value))));
            }
            Ok(rows)
        };
        match read.await {
            Ok(rows) => return rows,
            Err(error @ StorageError::Corrupt { .. }) => panic!("a fault that passes is no damage: {error}"),
            Err(_) => {}
        }
    }
    panic!("50 owners could not read it");
}

fn number(value: &[u8]) -> u64 {
    u64::from_be_bytes(value[..8].try_into().expect("eight bytes"))
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_costs_time_and_no_write() {
    survive_all(0..3, Weather { fails: 100, latency_ms: 40, ..Weather::default() }).await;
}

#[tokio::test(start_paused = true)]
async fn answers_that_are_cut_off_after_their_effect_cost_time_and_no_write() {
    survive_all(0..3, Weather { cut_after: 100, latency_ms: 10, ..Weather::default() }).await;
}

#[tokio::test(start_paused = true)]
async fn half_bodies_and_everything_at_once_cost_time_and_no_write() {
    survive_all(0..4, Weather { half: 300, latency_ms: 10, ..Weather::default() }).await;
    survive_all(10..16, Weather { fails: 60, cut_after: 60, half: 150, latency_ms: 60 }).await;
}
