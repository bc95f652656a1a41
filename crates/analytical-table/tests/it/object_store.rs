//! Tables in an object store that fails, loses answers or is silent: requests are attempted again, within bounds.

use std::collections::VecDeque;
use std::fmt::{Display, Formatter};
use std::io::Write;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt as _, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use serde_json::json;
use shardlake_analytical_table::error::TableError;
use shardlake_analytical_table::store::{ObjectTableStore, Patience, StoreErrorKind, TableStore};
use shardlake_analytical_table::table::Location;
use tokio::runtime::Runtime;

use crate::fixture::{self, Change, Fixture, options};

/// Stores of all tests live on it; the threads of the tests wait for it.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap()
});

/// A new object store in memory.
pub fn in_objects() -> ObjectTableStore {
    over(Arc::new(InMemory::new()))
}

fn over(store: Arc<dyn ObjectStore>) -> ObjectTableStore {
    ObjectTableStore::new(store, Path::default(), RUNTIME.handle().clone())
}

/// Outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Refused,
    /// It has its effect and reports a failure.
    AnswerLost,
    Silent,
}

#[derive(Debug, Default)]
struct Failing {
    store: InMemory,
    faults: Mutex<VecDeque<Option<Fault>>>,
}

impl Failing {
    fn next(&self, faults: impl IntoIterator<Item = Option<Fault>>) {
        *self.faults.lock().unwrap() = faults.into_iter().collect();
    }

    fn left(&self) -> usize {
        self.faults.lock().unwrap().len()
    }

    async fn request<T>(&self, request: impl Future<Output = Result<T>>) -> Result<T> {
        let broken = || Error::Generic { store: "test", source: "the connection broke".into() };
        let fault = self.faults.lock().unwrap().pop_front().flatten();
        match fault {
            None => request.await,
            Some(Fault::Refused) => Err(broken()),
            Some(Fault::AnswerLost) => {
                let _lost = request.await;
                Err(broken())
            }
            Some(Fault::Silent) => std::future::pending().await,
        }
    }
}

impl Display for Failing {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("failing")
    }
}

#[async_trait]
impl ObjectStore for Failing {
    async fn put_opts(&self, at: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.request(self.store.put_opts(at, payload, opts)).await
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.request(self.store.put_multipart_opts(at, opts)).await
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> Result<GetResult> {
        self.request(self.store.get_opts(at, options)).await
    }

    fn delete_stream(&self, at: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.store.delete_stream(at)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let fault = self.faults.lock().unwrap().pop_front().flatten();
        match fault {
            None => self.store.list(prefix),
            Some(Fault::Silent) => futures::stream::pending().boxed(),
            Some(_) => {
                let broken = Error::Generic { store: "test", source: "the connection broke".into() };
                futures::stream::once(async { Err(broken) }).boxed()
            }
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.store.copy_opts(from, to, options).await
    }
}

/// Attempts follow each other at once, and a silent store is given up soon.
const SOON: Patience = Patience {
    attempt: Duration::from_millis(40),
    whole: Duration::from_secs(60),
    pause: Duration::from_micros(1),
};

#[test]
fn requests_are_attempted_again() {
    let failing = Arc::new(Failing::default());
    let store = over(failing.clone()).with_patience(SOON);
    for fault in [Fault::Refused, Fault::AnswerLost, Fault::Silent] {
        let twice = || failing.next([Some(fault), Some(fault)]);
        twice();
        store.write("a/b", b"content").unwrap();
        twice();
        assert_eq!(&store.read("a/b").unwrap()[..], b"content");
        twice();
        assert_eq!(&store.read_range("a/b", 3, 4).unwrap()[..], b"tent");
        twice();
        assert_eq!(store.size("a/b").unwrap(), 7);
        twice();
        assert_eq!(store.list("a").unwrap().len(), 1);
        assert_eq!(failing.left(), 0, "every fault was met");
        twice();
        assert!(store.read("none").unwrap_err().is_missing());
    }
    // An answer is an answer: it is not asked for again.
    failing.next([None, Some(Fault::Refused)]);
    assert!(store.read("none").unwrap_err().is_missing());
    assert_eq!(failing.left(), 1);
}

#[test]
fn a_silent_store_is_given_up() {
    let failing = Arc::new(Failing::default());
    let patience = Patience { whole: Duration::from_millis(100), ..SOON };
    let store = over(failing.clone()).with_patience(patience);
    let silence = || failing.next([Some(Fault::Silent); 100_000]);
    type Request = fn(&ObjectTableStore) -> Option<shardlake_analytical_table::store::StoreError>;
    let requests: [Request; 5] = [
        |store| store.read("a").err(),
        |store| store.write("a", b"1").err(),
        |store| store.create_if_absent("a", b"1").err(),
        |store| store.size("a").err(),
        |store| store.list("").err(),
    ];
    for request in requests {
        silence();
        let error = request(&store).unwrap();
        assert_eq!(error.kind, StoreErrorKind::Failed);
        assert!(error.reason.contains("did not answer within 40 ms"), "{error}");
    }
}

#[test]
fn large_files_are_sent_in_parts_and_appear_when_they_are_finished() {
    let failing = Arc::new(Failing::default());
    let store = over(failing.clone()).with_patience(SOON);
    let content: Vec<u8> = (0..20_000_000_u32).map(|at| (at / 1_000) as u8).collect();
    let write = || -> std::io::Result<Box<dyn shardlake_analytical_table::store::StoreWriter>> {
        let mut writer = store.writer("g1/large").unwrap();
        for piece in content.chunks(1_234_567) {
            writer.write_all(piece)?;
        }
        Ok(writer)
    };
    let writer = write().unwrap();
    assert!(store.size("g1/large").unwrap_err().is_missing());
    writer.finish().unwrap();
    assert!(store.read("g1/large").unwrap() == content);
    assert_eq!(&store.read_range("g1/large", 16_000_000, 3).unwrap()[..], &content[16_000_000..16_000_003]);
    // The beginning of an upload is attempted again.
    failing.next([Some(Fault::Refused), Some(Fault::Refused)]);
    write().unwrap().finish().unwrap();
    assert_eq!(failing.left(), 0);
    // Exactly two parts, and no third one without content.
    let mut writer = store.writer("exact").unwrap();
    writer.write_all(&content[..16 << 20]).unwrap();
    writer.finish().unwrap();
    assert_eq!(store.size("exact").unwrap(), 16 << 20);
    drop(write().unwrap());
    assert_eq!(store.list("").unwrap().len(), 2, "nothing stays of a file that was not finished");
}

#[test]
fn a_folder_is_cleared_alone() {
    let store = in_objects();
    let (one, other) = (store.below("shop/a"), store.below("shop/ab"));
    for table in [&one, &other] {
        table.write("_delta_log/0.json", b"{}").unwrap();
        table.write("g1/x", b"x").unwrap();
    }
    one.clear().unwrap();
    assert!(one.list("").unwrap().is_empty());
    assert_eq!(other.list("").unwrap().len(), 2);
}

/// Names are the same in the store as in readers' addresses.
#[test]
fn names_are_not_escaped() {
    let memory = Arc::new(InMemory::new());
    over(memory.clone()).below("My~20Shop/c").write("g1/x", b"x").unwrap();
    let listed =
        RUNTIME.block_on(memory.list(None).map(|object| object.unwrap().location).collect::<Vec<_>>());
    assert_eq!(listed.iter().map(Path::as_ref).collect::<Vec<_>>(), ["My~20Shop/c/g1/x"]);
    let found = RUNTIME.block_on(memory.head(&listed[0])).unwrap();
    assert_eq!(found.size, 1);
}

#[test]
fn a_commit_whose_answer_was_lost_is_one_commit() {
    let failing = Arc::new(Failing::default());
    let store = over(failing.clone()).with_patience(SOON);
    let folders = fixture::folders(Arc::new(store), Arc::new(in_objects()), 1);
    let mut table = Fixture::create(folders, Location::Serving, 1, options());
    let put = |number: u64| Change::Put(number, json!({"id": format!("i{number}"), "pk": "k"}));
    for (round, fault) in [Fault::AnswerLost, Fault::Silent, Fault::Refused].into_iter().enumerate() {
        // Data file, then the commit.
        failing.next([None, Some(fault)]);
        let version = table.round(&[put(round as u64)]).unwrap();
        assert_eq!((version, failing.left()), (round as u64 + 1, 0));
    }
    table.check();
    table.reopen();
    table.check();
}

#[test]
fn of_two_writers_one_stops() {
    let store = in_objects();
    let folders = fixture::folders(Arc::new(store), Arc::new(in_objects()), 1);
    let mut first = Fixture::create(folders.clone(), Location::Serving, 1, options());
    let put = |number: u64| [Change::Put(number, json!({"id": format!("i{number}"), "pk": "k"}))];
    first.round(&put(1)).unwrap();
    let folders = fixture::folders(folders.store, Arc::new(in_objects()), 2);
    let table = shardlake_analytical_table::table::Table::open(&folders, Location::Serving, options());
    let mut second = Fixture { folders, table: table.unwrap().unwrap(), items: first.items.clone(), ..first };
    // Key files are local: the second server makes its own.
    second.round(&[Change::Delete(1), put(2)[0].clone()]).unwrap();
    second.check();
    let mut first = Fixture::opened_again(&second);
    let mut third = Fixture::opened_again(&second);
    third.round(&put(3)).unwrap();
    assert_eq!(first.round(&put(4)).unwrap_err(), TableError::AnotherWriter { version: 3 });
    assert_eq!(first.round(&put(4)).unwrap_err(), TableError::AnotherWriter { version: 3 });
    third.check();
}
