//! Tables in an object store: every file is one object, and an object is whole or absent.
//!
//! Requests run on the runtime that the store's sockets live on, and the calling thread waits for
//! them. It may block, as that of the follower may.
//!
//! | request | bound in time | after a failure |
//! |---|---|---|
//! | read, write, create, delete | each attempt, and all together | attempted again |
//! | list | each object | attempted again |
//! | part of a large file | the part | the file is given up, and its writer fails |
//!
//! A creation whose answer was lost finds the object of its own first attempt and reports
//! [`StoreErrorKind::Exists`]: the log compares the content (`delta/mod.rs`).

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream;
use object_store::path::Path;
use object_store::{
    Error, MultipartUpload, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload,
};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout};

use super::{StoreError, StoreErrorKind, StoreWriter, StoredFile, TableStore};

/// Parts of large files. All but the last have this size, as some stores demand.
const PART_BYTES: usize = 8 << 20;

/// Bounds of requests in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// For one attempt.
    pub attempt: Duration,
    /// For all attempts together; no attempt begins later.
    pub whole: Duration,
    /// Before the second attempt; it doubles from one to the next.
    pub pause: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            attempt: Duration::from_secs(30),
            whole: Duration::from_secs(60),
            pause: Duration::from_millis(100),
        }
    }
}

/// A folder of an object store.
#[derive(Debug, Clone)]
pub struct ObjectTableStore {
    store: Arc<dyn ObjectStore>,
    folder: Path,
    runtime: Handle,
    patience: Patience,
}

impl ObjectTableStore {
    pub fn new(store: Arc<dyn ObjectStore>, folder: Path, runtime: Handle) -> ObjectTableStore {
        ObjectTableStore { store, folder, runtime, patience: Patience::default() }
    }

    #[must_use]
    pub fn with_patience(self, patience: Patience) -> ObjectTableStore {
        ObjectTableStore { patience, ..self }
    }

    /// A folder in this one.
    #[must_use]
    pub fn below(&self, folder: &str) -> ObjectTableStore {
        ObjectTableStore { folder: self.place(folder), ..self.clone() }
    }

    /// Deletes all objects of this folder, many with one request where the store can.
    pub fn clear(&self) -> Result<(), StoreError> {
        let (store, limit) = (self.store.clone(), self.patience.attempt);
        let found: Vec<_> = self.list("")?.iter().map(|file| Ok(self.place(&file.path))).collect();
        self.wait_for("", async move {
            let mut deleted = store.delete_stream(stream::iter(found).boxed());
            loop {
                match once(limit, async { deleted.next().await.transpose() }).await {
                    Ok(Some(_)) | Err(Error::NotFound { .. }) => {}
                    outcome => return outcome.map(|_| ()),
                }
            }
        })
    }

    /// Names are taken as they are: the library's own conversion escapes `~`.
    fn place(&self, path: &str) -> Path {
        let is_inside = path.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
        assert!(is_inside, "a path below the store's folder: {path:?}");
        let slash = if self.folder.as_ref().is_empty() { "" } else { "/" };
        Path::parse(format!("{}{slash}{path}", self.folder)).expect("parts of a path are names")
    }

    /// Runs a request until it is answered, within the bounds.
    fn ask<T: Send + 'static, R: Future<Output = Result<T, Error>> + Send + 'static>(
        &self,
        path: &str,
        request: impl Fn(Arc<dyn ObjectStore>, Path) -> R + Send + 'static,
    ) -> Result<T, StoreError> {
        let (store, place, patience) = (self.store.clone(), self.place(path), self.patience);
        self.wait_for(path, async move {
            let begun = Instant::now();
            let mut pause = patience.pause;
            loop {
                let attempt = once(patience.attempt, request(store.clone(), place.clone())).await;
                match attempt {
                    Err(error) if !is_answer(&error) && begun.elapsed() + pause < patience.whole => {
                        sleep(pause).await;
                        pause *= 2;
                    }
                    outcome => return outcome,
                }
            }
        })
    }

    /// Waits on this thread for work of the runtime.
    fn wait_for<T: Send + 'static>(
        &self,
        path: &str,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, answered) = mpsc::sync_channel(1);
        self.runtime.spawn(async move { answer.send(work.await) });
        match answered.recv() {
            Ok(outcome) => outcome.map_err(|error| failure(path, &error)),
            Err(_) => Err(failed(path, "the server stops")),
        }
    }
}

async fn once<T>(limit: Duration, request: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let silent = |_| Error::Generic {
        store: "table",
        source: format!("the store did not answer within {} ms", limit.as_millis()).into(),
    };
    timeout(limit, request).await.map_err(silent)?
}

/// Whether another attempt would have the same outcome.
fn is_answer(error: &Error) -> bool {
    !matches!(error, Error::Generic { .. })
}

fn failed(path: &str, reason: &str) -> StoreError {
    StoreError { kind: StoreErrorKind::Failed, path: path.to_owned(), reason: reason.to_owned() }
}

fn failure(path: &str, error: &Error) -> StoreError {
    let kind = match error {
        Error::NotFound { .. } => StoreErrorKind::NotFound,
        Error::AlreadyExists { .. } | Error::Precondition { .. } => StoreErrorKind::Exists,
        _ => StoreErrorKind::Failed,
    };
    StoreError { kind, path: path.to_owned(), reason: error.to_string() }
}

impl TableStore for ObjectTableStore {
    fn read(&self, path: &str) -> Result<Bytes, StoreError> {
        self.ask(path, |store, place| async move { store.get(&place).await?.bytes().await })
    }

    fn read_range(&self, path: &str, offset: u64, length: usize) -> Result<Bytes, StoreError> {
        if length == 0 {
            return Ok(Bytes::new());
        }
        let range = offset..offset.saturating_add(length as u64);
        let found = self.ask(path, move |store, place| {
            let range = range.clone();
            async move { store.get_range(&place, range).await }
        })?;
        if found.len() == length { Ok(found) } else { Err(failed(path, "the file is too short")) }
    }

    fn size(&self, path: &str) -> Result<u64, StoreError> {
        self.ask(path, |store, place| async move { Ok(store.head(&place).await?.size) })
    }

    fn write(&self, path: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let payload = PutPayload::from_bytes(Bytes::copy_from_slice(bytes));
        self.ask(path, move |store, place| {
            let payload = payload.clone();
            async move { store.put(&place, payload).await.map(|_| ()) }
        })
    }

    fn writer(&self, path: &str) -> Result<Box<dyn StoreWriter>, StoreError> {
        let _checked = self.place(path);
        let (store, path) = (self.clone(), path.to_owned());
        Ok(Box::new(ObjectWriter { store, path, buffer: Vec::new(), upload: None }))
    }

    fn create_if_absent(&self, path: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let payload = PutPayload::from_bytes(Bytes::copy_from_slice(bytes));
        self.ask(path, move |store, place| {
            let payload = payload.clone();
            let create = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
            async move { store.put_opts(&place, payload, create).await.map(|_| ()) }
        })
    }

    fn list(&self, folder: &str) -> Result<Vec<StoredFile>, StoreError> {
        let start = if folder.is_empty() { self.folder.clone() } else { self.place(folder) };
        let (store, patience, root) = (self.store.clone(), self.patience, self.folder.clone());
        self.wait_for(folder, async move {
            let begun = Instant::now();
            let mut pause = patience.pause;
            let listed = loop {
                match list_once(&*store, &start, patience.attempt).await {
                    Err(error) if !is_answer(&error) && begun.elapsed() + pause < patience.whole => {
                        sleep(pause).await;
                        pause *= 2;
                    }
                    outcome => break outcome?,
                }
            };
            let file = |object: object_store::ObjectMeta| {
                let path = object.location.as_ref().strip_prefix(root.as_ref())?.trim_start_matches('/');
                let modified = object.last_modified.timestamp_millis();
                Some(StoredFile { path: path.to_owned(), size: object.size, modified })
            };
            let mut found: Vec<StoredFile> = listed.into_iter().filter_map(file).collect();
            found.sort_by(|a, b| a.path.cmp(&b.path));
            Ok(found)
        })
    }

    fn delete(&self, path: &str) -> Result<(), StoreError> {
        let deleted = self.ask(path, |store, place| async move { store.delete(&place).await });
        match deleted {
            Err(error) if !error.is_missing() => Err(error),
            _ => Ok(()),
        }
    }
}

async fn list_once(
    store: &dyn ObjectStore,
    folder: &Path,
    limit: Duration,
) -> Result<Vec<object_store::ObjectMeta>, Error> {
    let mut listing = store.list(Some(folder));
    let mut found = Vec::new();
    while let Some(object) = once(limit, async { listing.next().await.transpose() }).await? {
        found.push(object);
    }
    Ok(found)
}

/// A large file, sent in parts. Nothing is sent before the first part is full.
struct ObjectWriter {
    store: ObjectTableStore,
    path: String,
    buffer: Vec<u8>,
    upload: Option<Box<dyn MultipartUpload>>,
}

impl ObjectWriter {
    /// Sends a part. It is not attempted again beyond the library's own attempts: the parts of an
    /// upload are numbered as they are handed over.
    fn send(&mut self, part: Vec<u8>) -> Result<(), StoreError> {
        let upload = match &mut self.upload {
            Some(upload) => upload,
            none => {
                let begin = |store: Arc<dyn ObjectStore>, place: Path| async move {
                    store.put_multipart(&place).await
                };
                none.insert(self.store.ask(&self.path, begin)?)
            }
        };
        let sent = upload.put_part(PutPayload::from(part));
        self.store.wait_for(&self.path, once(self.store.patience.whole, sent))
    }

    fn complete(&mut self, mut upload: Box<dyn MultipartUpload>) -> Result<(), StoreError> {
        let limit = self.store.patience.whole;
        self.store.wait_for(&self.path, async move {
            let completed = once(limit, upload.complete()).await;
            if completed.is_err() {
                // Otherwise its parts stay in the store, unseen, until a rule of the bucket ends them.
                let _aborted = once(limit, upload.abort()).await;
            }
            completed.map(|_| ())
        })
    }
}

impl Write for ObjectWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(PART_BYTES - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..taken]);
        if self.buffer.len() == PART_BYTES {
            let part = std::mem::take(&mut self.buffer);
            self.send(part).map_err(io::Error::other)?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl StoreWriter for ObjectWriter {
    fn finish(mut self: Box<Self>) -> Result<(), StoreError> {
        let rest = std::mem::take(&mut self.buffer);
        if self.upload.is_none() {
            return self.store.write(&self.path, &rest);
        }
        if !rest.is_empty() {
            self.send(rest)?;
        }
        let upload = self.upload.take().expect("an upload was begun");
        self.complete(upload)
    }
}

impl Drop for ObjectWriter {
    fn drop(&mut self) {
        if let Some(mut upload) = self.upload.take() {
            let limit = self.store.patience.whole;
            self.store.runtime.spawn(async move { once(limit, upload.abort()).await });
        }
    }
}
