//! A directory as a store, whose files are read by few threads.
//!
//! The object-store library reads a file on a thread that may block, and there are as many of them as reads. The allocator keeps memory for
//! each: of mimalloc 3 a thread that allocates blocks of 84 to 512 KiB has 4 MiB for them, and 512 KiB for smaller ones
//! (`MI_LARGE_PAGE_SIZE` in its `types.h`). A hundred reads at a time may keep hundreds of megabytes that no budget knows of.

use std::fmt::{Debug, Display, Formatter};
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use shardlake_storage::object::object_store::path::Path;
use shardlake_storage::object::object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use tokio::sync::{Semaphore, SemaphorePermit};

/// A disk has no use for more at a time, on a machine of this size or another.
const READERS_MAX: usize = 16;
/// Longer reads are streams, of merges and of backups: a few at a time, and each as slow as who takes it.
const READ_BYTES_MAX: u64 = 2 << 20;

pub(crate) struct FewReaders<S> {
    store: S,
    turns: Semaphore,
}

impl<S: ObjectStore> FewReaders<S> {
    pub fn of(store: S) -> Arc<dyn ObjectStore> {
        Arc::new(FewReaders { store, turns: Semaphore::new(READERS_MAX) })
    }

    async fn turn(&self) -> SemaphorePermit<'_> {
        self.turns.acquire().await.expect("nobody closes it")
    }
}

impl<S: ObjectStore> Debug for FewReaders<S> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        Debug::fmt(&self.store, f)
    }
}

impl<S: ObjectStore> Display for FewReaders<S> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        Display::fmt(&self.store, f)
    }
}

#[async_trait]
impl<S: ObjectStore> ObjectStore for FewReaders<S> {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let _turn = self.turn().await;
        let found = self.store.get_opts(location, options).await?;
        if found.range.end - found.range.start > READ_BYTES_MAX {
            return Ok(found);
        }
        let (meta, range) = (found.meta.clone(), found.range.clone());
        let (attributes, extensions) = (found.attributes.clone(), found.extensions.clone());
        let content = found.bytes().await?;
        let payload = GetResultPayload::Stream(stream::once(async { Ok(content) }).boxed());
        Ok(GetResult { payload, meta, range, attributes, extensions })
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let _turn = self.turn().await;
        self.store.get_ranges(location, ranges).await
    }

    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.store.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.store.put_multipart_opts(location, opts).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.store.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.store.copy_opts(from, to, options).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::join_all;
    use shardlake_storage::object::object_store::ObjectStoreExt as _;
    use shardlake_storage::object::object_store::local::LocalFileSystem;

    use super::*;

    const READS: usize = 400;
    const OBJECT_BYTES: usize = 1 << 20;

    /// Threads that a runtime begins while many parts of a file are read at the same time.
    fn threads(store: impl Fn(LocalFileSystem) -> Arc<dyn ObjectStore>) -> usize {
        let threads = Arc::new(AtomicUsize::new(0));
        let counter = threads.clone();
        let count = move || {
            counter.fetch_add(1, Ordering::Relaxed);
        };
        let runtime = tokio::runtime::Builder::new_current_thread().on_thread_start(count).build();
        let directory = tempfile::tempdir().expect("a directory");
        let store = store(LocalFileSystem::new_with_prefix(directory.path()).expect("a store"));
        let location = Path::from("table");
        let content: Vec<u8> = (0..OBJECT_BYTES).map(|place| (place / 1000) as u8).collect();
        runtime.expect("a runtime").block_on(async {
            store.put(&location, content.clone().into()).await.expect("stored");
            let read = |number: usize| {
                let start = number * 1000;
                let (store, location) = (&store, &location);
                async move { (start, store.get_range(location, start as u64..start as u64 + 256_000).await) }
            };
            for (start, part) in join_all((0..READS).map(read)).await {
                assert_eq!(part.expect("read"), content[start..start + 256_000]);
            }
            let whole = store.get(&location).await.expect("found");
            assert_eq!((whole.range.clone(), whole.meta.size), (0..OBJECT_BYTES as u64, OBJECT_BYTES as u64));
            assert_eq!(whole.bytes().await.expect("read"), content);
        });
        threads.load(Ordering::Relaxed)
    }

    #[test]
    fn many_reads_at_a_time_are_made_by_few_threads() {
        let few = threads(|store| FewReaders::of(store));
        let many = threads(|store| Arc::new(store));
        // More than turns: one that gives its answer is not idle yet when the next read asks for a thread.
        assert!(few * 3 < many, "{few} threads, and {many} without turns");
    }
}
