//! Store in memory that counts written bytes and reads of log and tables, and keeps its state after
//! each write.

use std::fmt::{Debug, Display, Formatter};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use futures::stream::BoxStream;
use slatedb::object_store::memory::InMemory;
use slatedb::object_store::path::Path;
use slatedb::object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

pub struct Counted {
    store: InMemory,
    put_bytes: AtomicU64,
    log_reads: AtomicU64,
    table_reads: AtomicU64,
    keeps_states: AtomicBool,
    states: Mutex<Vec<InMemory>>,
}

impl Counted {
    pub fn over(store: InMemory) -> Counted {
        Counted {
            store,
            put_bytes: AtomicU64::new(0),
            log_reads: AtomicU64::new(0),
            table_reads: AtomicU64::new(0),
            keeps_states: AtomicBool::new(false),
            states: Mutex::default(),
        }
    }

    pub fn put_bytes(&self) -> u64 {
        self.put_bytes.load(Ordering::Relaxed)
    }

    /// Requests to objects of the log, for their heads as well.
    pub fn log_reads(&self) -> u64 {
        self.log_reads.load(Ordering::Relaxed)
    }

    pub fn table_reads(&self) -> u64 {
        self.table_reads.load(Ordering::Relaxed)
    }

    pub fn keep_states(&self, keeps: bool) {
        self.keeps_states.store(keeps, Ordering::Relaxed);
    }

    pub fn states(&self) -> Vec<InMemory> {
        std::mem::take(&mut self.states.lock().expect("nothing panics"))
    }
}

impl Debug for Counted {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("Counted")
    }
}

impl Display for Counted {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("Counted")
    }
}

#[async_trait]
impl ObjectStore for Counted {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.put_bytes.fetch_add(payload.content_length() as u64, Ordering::Relaxed);
        let stored = self.store.put_opts(location, payload, opts).await;
        if self.keeps_states.load(Ordering::Relaxed) {
            self.states.lock().expect("nothing panics").push(self.store.fork());
        }
        stored
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.store.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let is_in = |folder: &str| location.parts().any(|part| part.as_ref() == folder);
        if is_in("wal") {
            self.log_reads.fetch_add(1, Ordering::Relaxed);
        }
        if is_in("compacted") {
            self.table_reads.fetch_add(1, Ordering::Relaxed);
        }
        self.store.get_opts(location, options).await
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
