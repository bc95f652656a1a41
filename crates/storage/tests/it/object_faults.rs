//! A store that is slow, fails, cuts answers off after their effect, and sends half of a body:
//! writers get true results, and no acknowledged write is lost.

use std::collections::BTreeMap;
use std::fmt::{Debug, Display, Formatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::{self, BoxStream};
use futures::{StreamExt as _, TryStreamExt as _};
use shardlake_stdx::{Clock, Random};
use shardlake_storage::object::{ObjectEngine, ObjectOptions, SharedCache, WriteMemory};
use shardlake_storage::{Batch, Durability, ScanOptions, Shard, ShardOptions, StorageError};
use slatedb::object_store::memory::InMemory;
use slatedb::object_store::path::Path;
use slatedb::object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

/// Faults of a request, each in so many of a thousand.
#[derive(Debug, Clone, Copy, Default)]
pub struct Weather {
    /// 500, or 503 SlowDown: nothing was done.
    pub fails: u64,
    /// The connection breaks after the request was carried out.
    pub cut_after: u64,
    /// A creation is carried out, and the answer is that the object exists: a client below asked twice.
    pub denied_after: u64,
    /// A creation is refused though nothing exists: another request for the object is under way.
    pub denied: u64,
    /// The body ends in the middle.
    pub half: u64,
    /// Up to so many milliseconds each.
    pub latency_ms: u64,
    pub befalls: Befalls,
}

/// Which objects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Befalls {
    #[default]
    All,
    /// Those of the log.
    Log,
    Data,
}

pub struct Faulty {
    store: InMemory,
    /// Whether objects keep the marks by which SlateDB knows its own again.
    keeps_marks: bool,
    random: Random,
    weather: std::sync::Mutex<Weather>,
    met: [AtomicU64; 5],
}

impl Faulty {
    pub fn new(seed: u64, keeps_marks: bool) -> Arc<Faulty> {
        let (store, random) = (InMemory::new(), Random::seeded(seed));
        Arc::new(Faulty { store, keeps_marks, random, weather: Default::default(), met: Default::default() })
    }

    /// Requests that were refused with a failure.
    pub fn failures(&self) -> u64 {
        self.met[0].load(Ordering::Relaxed)
    }

    pub fn set(&self, weather: Weather) {
        *self.weather.lock().expect("nothing panics") = weather;
    }

    fn weather(&self, location: &Path) -> Weather {
        let weather = *self.weather.lock().expect("nothing panics");
        let is_of_log = location.parts().any(|part| part.as_ref() == "wal");
        match weather.befalls {
            Befalls::Log if !is_of_log => Weather::default(),
            Befalls::Data if is_of_log => Weather::default(),
            _ => weather,
        }
    }

    fn meets(&self, which: usize, of_thousand: u64) -> bool {
        let meets = self.random.below(1000) < of_thousand;
        if meets {
            self.met[which].fetch_add(1, Ordering::Relaxed);
        }
        meets
    }

    /// A request that has an effect, or none, and is answered or not.
    async fn request<T>(&self, weather: Weather, work: impl Future<Output = Result<T>>) -> Result<T> {
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

fn exists(location: &Path) -> Error {
    Error::AlreadyExists { path: location.to_string(), source: "412 Precondition Failed".into() }
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
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        mut opts: PutOptions,
    ) -> Result<PutResult> {
        if !self.keeps_marks {
            opts.attributes = Default::default();
        }
        let (weather, creates) = (self.weather(location), matches!(opts.mode, PutMode::Create));
        if creates && self.meets(3, weather.denied) {
            return Err(exists(location));
        }
        let stored = self.request(weather, self.store.put_opts(location, payload, opts)).await;
        match creates && stored.is_ok() && self.meets(4, weather.denied_after) {
            true => Err(exists(location)),
            false => stored,
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.request(self.weather(location), self.store.put_multipart_opts(location, opts)).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let weather = self.weather(location);
        let mut found = self.request(weather, self.store.get_opts(location, options)).await?;
        if self.meets(2, weather.half) && found.range.end > found.range.start + 1 {
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
        let root = Path::default();
        match self.meets(0, self.weather(prefix.unwrap_or(&root)).fails) {
            true => stream::once(async { Err(broken("503 SlowDown")) }).boxed(),
            false => self.store.list(prefix),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let root = Path::default();
        self.request(self.weather(prefix.unwrap_or(&root)), self.store.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.request(self.weather(to), self.store.copy_opts(from, to, options)).await
    }
}

async fn open(store: Arc<dyn ObjectStore>, epoch: u64) -> std::result::Result<Shard, StorageError> {
    let options = ObjectOptions {
        store,
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
        log_kept: std::time::Duration::ZERO,
        clock: Clock::System,
        is_scanned: |_| false,
    };
    let engine = ObjectEngine::open(options).await?;
    let options = ShardOptions { durability: Durability::Sync, ..ShardOptions::memory() };
    Shard::with_engine(Arc::new(engine), &options)
}

fn key(writer: u32, item: u64, half: u8) -> Vec<u8> {
    [&[0, 0, 0, half][..], &writer.to_be_bytes(), &item.to_be_bytes()].concat()
}

const WRITERS: u32 = 16;
const ITEMS: u64 = 8;

/// Writers write both halves of an item in a batch, each time with a higher number. The stored
/// number is at least the acknowledged one and at most the requested one, and both halves agree:
/// also during the run, and for a later owner.
async fn survive(seed: u64, keeps_marks: bool, weather: Weather) -> Vec<u64> {
    let store = Faulty::new(seed, keeps_marks);
    let shard = open(store.clone(), 1).await.expect("opens in good weather");
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

/// Several histories in one weather, in which each of its faults is met; in stores that keep marks and in those that keep none.
async fn survive_all(seeds: std::ops::Range<u64>, weather: Weather) {
    for keeps_marks in [true, false] {
        let mut met = [0; 5];
        for seed in seeds.clone() {
            let of_one = survive(seed, keeps_marks, weather).await;
            of_one.into_iter().zip(&mut met).for_each(|(one, all)| *all += one);
        }
        let Weather { fails, cut_after, half, denied, denied_after, .. } = weather;
        let wanted = [fails, cut_after, half, denied, denied_after];
        assert!(
            met.iter().zip(wanted).all(|(met, wanted)| wanted == 0 || *met > 0),
            "{met:?} of {weather:?}"
        );
    }
}

/// Answers are right; a failed read is repeated later.
async fn read_by_another_owner(store: &Arc<Faulty>) -> BTreeMap<Vec<u8>, u64> {
    for attempt in 0..50 {
        let read = async {
            let later = open(store.clone(), 2 + attempt).await?;
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

/// The shard would take each for an object of a later owner's, and refuse writes from then on.
#[tokio::test(start_paused = true)]
async fn creations_that_are_denied_though_they_were_made_cost_time_and_no_write() {
    survive_all(0..3, Weather { denied_after: 100, latency_ms: 10, ..Weather::default() }).await;
    survive_all(3..6, Weather { denied: 100, latency_ms: 10, ..Weather::default() }).await;
}

#[tokio::test(start_paused = true)]
async fn half_bodies_and_everything_at_once_cost_time_and_no_write() {
    survive_all(0..4, Weather { half: 300, latency_ms: 10, ..Weather::default() }).await;
    let everything = Weather {
        fails: 60,
        cut_after: 60,
        half: 150,
        denied: 30,
        denied_after: 60,
        latency_ms: 60,
        ..Weather::default()
    };
    survive_all(10..16, everything).await;
}

/// A mistake made on purpose: whatever is there under the name is taken for one's own.
struct Gullible(Arc<dyn ObjectStore>);

impl Debug for Gullible {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("Gullible")
    }
}

impl Display for Gullible {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("Gullible")
    }
}

#[async_trait]
impl ObjectStore for Gullible {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        match self.0.put_opts(location, payload, opts).await {
            Err(Error::AlreadyExists { .. }) if location.as_ref().contains("/wal/") => {
                Ok(PutResult { e_tag: None, version: None, extensions: Default::default() })
            }
            answered => answered,
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.0.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.0.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.0.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.0.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.0.copy_opts(from, to, options).await
    }
}

/// Runs an owner that sleeps while another one takes its shard, both in a store that keeps no marks
/// and denies its own effects. Returns the number of rows that were acknowledged to either and are
/// not stored.
async fn rows_lost_by_a_late_owner(is_gullible: bool) -> usize {
    let store = Faulty::new(7, false);
    let of_the_first: Arc<dyn ObjectStore> =
        if is_gullible { Arc::new(Gullible(store.clone())) } else { store.clone() };
    let first = open(of_the_first, 1).await.expect("opens");
    let write = async |shard: &Shard, writer: u32, item: u64| {
        let mut batch = Batch::new();
        batch.put(key(writer, item, 0), item.to_be_bytes().to_vec());
        let committed = async { shard.commit(batch)?.await };
        committed.await.is_ok().then(|| key(writer, item, 0))
    };
    let mut told = Vec::from_iter(write(&first, 1, 1).await);
    let second = open(store.clone(), 2).await.expect("takes over");
    store.set(Weather { denied_after: 300, ..Weather::default() });
    for item in 2..6 {
        told.extend(write(&first, 1, item).await);
        told.extend(write(&second, 2, item).await);
    }
    store.set(Weather::default());
    let rows = read_by_another_owner(&store).await;
    assert!(told.len() >= 5, "the second owner is told of each of its writes");
    told.iter().filter(|key| !rows.contains_key(*key)).count()
}

#[tokio::test(start_paused = true)]
async fn an_object_of_a_later_owner_is_never_taken_for_ones_own() {
    assert_eq!(rows_lost_by_a_late_owner(false).await, 0);
    assert!(rows_lost_by_a_late_owner(true).await > 0, "the mistake made on purpose is noticed");
}
