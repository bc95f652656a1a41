//! Stores that break a law, each in one way, and the self-test that must name it.

use std::fmt::{Display, Formatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use shardlake_lease::{ClusterError, Location, self_test};
use shardlake_storage::object::object_store::memory::InMemory;
use shardlake_storage::object::object_store::path::Path;
use shardlake_storage::object::object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broken {
    /// It ignores the condition of a conditional write, and stores.
    Overwrites,
    /// It claims that it knows none.
    Refuses,
    /// Its check and its write are two steps.
    Races,
    /// Refused writes are stored.
    StoresRefused,
    /// It does not list existing objects.
    ListsLate,
    /// It does not remove objects.
    Keeps,
    /// Nothing: a good store.
    Nothing,
}

#[derive(Debug)]
struct Store {
    good: InMemory,
    broken: Broken,
    creations: AtomicU32,
}

impl Display for Store {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "a store that is broken: {:?}", self.broken)
    }
}

#[async_trait]
impl ObjectStore for Store {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        if opts.mode != PutMode::Create {
            return self.good.put_opts(location, payload, opts).await;
        }
        let anyway = PutOptions { mode: PutMode::Overwrite, ..opts.clone() };
        match self.broken {
            Broken::Overwrites => self.good.put_opts(location, payload, anyway).await,
            Broken::Refuses => Err(Error::NotImplemented {
                operation: "put_opts with PutMode::Create".into(),
                implementer: "a test".into(),
            }),
            Broken::Races if self.creations.fetch_add(1, Ordering::Relaxed) == 0 => {
                let is_there = self.good.get_opts(location, GetOptions::default()).await.is_ok();
                tokio::task::yield_now().await;
                assert!(!is_there);
                self.good.put_opts(location, payload, anyway).await
            }
            Broken::StoresRefused => {
                let created = self.good.put_opts(location, payload.clone(), opts).await;
                if created.is_err() {
                    self.good.put_opts(location, payload, anyway).await?;
                }
                created
            }
            _ => self.good.put_opts(location, payload, opts).await,
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.good.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.good.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        if self.broken == Broken::Keeps { locations } else { self.good.delete_stream(locations) }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        if self.broken == Broken::ListsLate {
            return futures::stream::empty().boxed();
        }
        self.good.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.good.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.good.copy_opts(from, to, options).await
    }
}

fn tested(broken: Broken) -> std::result::Result<(), ClusterError> {
    let store = Store { good: InMemory::new(), broken, creations: AtomicU32::new(0) };
    let location = Location { store: Arc::new(store), prefix: Path::from("account"), url: "test".into() };
    // Nothing of it waits for anything outside.
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async { self_test(&location, "run").boxed_local().await })
}

#[test]
fn each_broken_law_is_named() {
    for (broken, named) in [
        (Broken::Overwrites, "several requests at the same time created one object"),
        (Broken::Refuses, "no conditional writes"),
        (Broken::Races, "several requests at the same time created one object"),
        (Broken::StoresRefused, "the content of a request that was refused"),
        (Broken::ListsLate, "not listed"),
        (Broken::Keeps, "removed is still there"),
    ] {
        let told = tested(broken).expect_err("broken").to_string();
        assert!(told.contains(named), "{broken:?}: {told}");
    }
}

#[test]
fn good_stores_pass_and_nothing_is_left() {
    tested(Broken::Nothing).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let url = format!("file://{}", directory.path().display());
    let location = Location::parse(&url, std::iter::empty()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(self_test(&location, "run")).unwrap();
    let left = std::fs::read_dir(directory.path().join("probe")).map_or(0, Iterator::count);
    assert_eq!(left, 0);
}
