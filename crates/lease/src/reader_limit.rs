//! Directory as a store, with few threads for reading files.
//!
//! The object-store library reads a file on a thread that may block, and there are as many of these threads
//! as reads. The allocator keeps memory for each: with mimalloc 3, a thread that allocates blocks of 84 to
//! 512 KiB has 4 MiB for them, and 512 KiB for smaller ones (`MI_LARGE_PAGE_SIZE` in its `types.h`). A
//! hundred concurrent reads may keep hundreds of megabytes outside all memory budgets.

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
/// Longer reads are streams, of merges and of backups: a few at a time, and each as slow as its consumer.
const READ_BYTES_MAX: u64 = 2 << 20;

pub(crate) struct ReaderLimit<S> {
    store: S,
    turns: Semaphore,
}

impl<S: ObjectStore> ReaderLimit<S> {
    pub fn of(store: S) -> Arc<dyn ObjectStore> {
        Arc::new(ReaderLimit { store, turns: Semaphore::new(READERS_MAX) })
    }

    async fn turn(&self) -> SemaphorePermit<'_> {
        self.turns.acquire().await.expect("nobody closes it")
    }
}

impl<S: ObjectStore> Debug for ReaderLimit<S> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        Debug::fmt(&self.store, f)
    }
}

impl<S: ObjectStore> Display for ReaderLimit<S> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        Display::fmt(&self.store, f)
    }
}

#[async_trait]
impl<S: ObjectStore> ObjectStore for ReaderLimit<S> {
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
    use shardlake_storage::object::object_store::memory::InMemory;
    use tokio::task::yield_now;

    use super::*;

    const READS: usize = 400;
    const OBJECT_BYTES: usize = 1 << 20;

    /// Counts reads that have begun and whose content is not yet available: each of them may hold a thread.
    #[derive(Debug, Default)]
    struct Counting {
        store: InMemory,
        reading: Arc<AtomicUsize>,
        reading_max: Arc<AtomicUsize>,
    }

    impl Display for Counting {
        fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
            Display::fmt(&self.store, f)
        }
    }

    #[async_trait]
    impl ObjectStore for Counting {
        async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
            let reading = self.reading.fetch_add(1, Ordering::Relaxed) + 1;
            self.reading_max.fetch_max(reading, Ordering::Relaxed);
            yield_now().await;
            let found = self.store.get_opts(location, options).await?;
            let (meta, range) = (found.meta.clone(), found.range.clone());
            let (attributes, extensions) = (found.attributes.clone(), found.extensions.clone());
            let reading = self.reading.clone();
            let content = async move {
                yield_now().await;
                let content = found.bytes().await;
                reading.fetch_sub(1, Ordering::Relaxed);
                content
            };
            let payload = GetResultPayload::Stream(stream::once(content).boxed());
            Ok(GetResult { payload, meta, range, attributes, extensions })
        }

        async fn put_opts(&self, at: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
            self.store.put_opts(at, payload, opts).await
        }

        async fn put_multipart_opts(
            &self,
            at: &Path,
            opts: PutMultipartOptions,
        ) -> Result<Box<dyn MultipartUpload>> {
            self.store.put_multipart_opts(at, opts).await
        }

        fn delete_stream(&self, at: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
            self.store.delete_stream(at)
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

    /// Maximum of concurrent reads when many parts of an object are read.
    async fn reads_at_a_time(store: impl Fn(Counting) -> Arc<dyn ObjectStore>) -> usize {
        let counting = Counting::default();
        let reading_max = counting.reading_max.clone();
        let store = store(counting);
        let location = Path::from("table");
        let content: Vec<u8> = (0..OBJECT_BYTES).map(|place| (place / 1000) as u8).collect();
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
        reading_max.load(Ordering::Relaxed)
    }

    #[tokio::test]
    async fn few_parts_are_read_at_a_time() {
        assert_eq!(reads_at_a_time(|store| ReaderLimit::of(store)).await, READERS_MAX);
        assert_eq!(reads_at_a_time(|store| Arc::new(store)).await, READS, "without permits");
    }
}
