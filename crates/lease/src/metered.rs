//! Store that counts its requests, for the cost of an account and the speed of its store.
//!
//! One request is a request that a cloud charges for, as far as this layer can see: a listing
//! counts once for each thousand objects, a large object once for each part and twice more. Retries
//! below this layer are not seen.

use std::fmt::{Debug, Display, Formatter};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use shardlake_stdx::Clock;
use shardlake_storage::object::object_store::path::Path;
use shardlake_storage::object::object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};

/// Kinds of requests in the clouds' price lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoreOperation {
    Get,
    Put,
    List,
    Delete,
}

/// One completed request.
#[derive(Debug, Clone, Copy)]
pub struct StoreRequest {
    pub operation: StoreOperation,
    /// Also where the store refused: the object does not exist, or exists already.
    pub is_answered: bool,
    /// Size of the object, or of the requested part.
    pub bytes: u64,
    /// Until the answer began.
    pub duration: Duration,
}

/// Callback for each request.
pub type Observe = Arc<dyn Fn(StoreRequest) + Send + Sync>;

const LISTED_AT_ONCE: u64 = 1_000;

#[derive(Clone)]
struct Meter {
    observe: Observe,
    clock: Clock,
}

impl Meter {
    async fn count<T>(
        &self,
        operation: StoreOperation,
        request: impl Future<Output = Result<T>>,
        bytes: impl FnOnce(&T) -> u64,
    ) -> Result<T> {
        let began = self.clock.elapsed();
        let result = request.await;
        let answered = match &result {
            Ok(answer) => Some(bytes(answer)),
            Err(
                Error::NotFound { .. }
                | Error::AlreadyExists { .. }
                | Error::Precondition { .. }
                | Error::NotModified { .. },
            ) => Some(0),
            Err(_) => None,
        };
        (self.observe)(StoreRequest {
            operation,
            is_answered: answered.is_some(),
            bytes: answered.unwrap_or(0),
            duration: self.clock.elapsed().saturating_sub(began),
        });
        result
    }

    /// Counts one of a stream's requests; its duration is not known.
    fn tick(&self, operation: StoreOperation, is_answered: bool) {
        (self.observe)(StoreRequest { operation, is_answered, bytes: 0, duration: Duration::ZERO });
    }

    fn listed(
        self,
        objects: BoxStream<'static, Result<ObjectMeta>>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.tick(StoreOperation::List, true);
        let mut count = 0;
        let each = move |object: Result<ObjectMeta>| {
            count += 1;
            if object.is_err() || count % LISTED_AT_ONCE == 0 {
                self.tick(StoreOperation::List, object.is_ok());
            }
            object
        };
        objects.map(each).boxed()
    }
}

pub(crate) struct Metered {
    store: Arc<dyn ObjectStore>,
    meter: Meter,
}

impl Metered {
    pub fn new(store: Arc<dyn ObjectStore>, observe: Observe, clock: Clock) -> Metered {
        Metered { store, meter: Meter { observe, clock } }
    }
}

impl Debug for Metered {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        Debug::fmt(&self.store, f)
    }
}

impl Display for Metered {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        Display::fmt(&self.store, f)
    }
}

#[async_trait]
impl ObjectStore for Metered {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let bytes = payload.content_length() as u64;
        self.meter.count(StoreOperation::Put, self.store.put_opts(location, payload, opts), |_| bytes).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let begin = self.store.put_multipart_opts(location, opts);
        let upload = self.meter.count(StoreOperation::Put, begin, |_| 0).await?;
        Ok(Box::new(MeteredUpload { upload, meter: self.meter.clone() }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let bytes = |found: &GetResult| found.range.end - found.range.start;
        self.meter.count(StoreOperation::Get, self.store.get_opts(location, options), bytes).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let bytes = |found: &Vec<Bytes>| found.iter().map(|part| part.len() as u64).sum();
        self.meter.count(StoreOperation::Get, self.store.get_ranges(location, ranges), bytes).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let meter = self.meter.clone();
        let each = move |deleted: Result<Path>| {
            meter.tick(StoreOperation::Delete, deleted.is_ok());
            deleted
        };
        self.store.delete_stream(locations).map(each).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.meter.clone().listed(self.store.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.meter.clone().listed(self.store.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.meter.count(StoreOperation::List, self.store.list_with_delimiter(prefix), |_| 0).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.meter.count(StoreOperation::Put, self.store.copy_opts(from, to, options), |()| 0).await
    }
}

#[derive(Debug)]
struct MeteredUpload {
    upload: Box<dyn MultipartUpload>,
    meter: Meter,
}

impl Debug for Meter {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("Meter")
    }
}

#[async_trait]
impl MultipartUpload for MeteredUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (meter, bytes) = (self.meter.clone(), data.content_length() as u64);
        let part = self.upload.put_part(data);
        async move { meter.count(StoreOperation::Put, part, |()| bytes).await }.boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.meter.count(StoreOperation::Put, self.upload.complete(), |_| 0).await
    }

    async fn abort(&mut self) -> Result<()> {
        self.meter.count(StoreOperation::Delete, self.upload.abort(), |()| 0).await
    }
}
