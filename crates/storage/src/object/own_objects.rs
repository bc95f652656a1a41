//! Store that recognises objects of the log which this owner stored before, though the answer was
//! lost. It also repeats reads of small objects whose bodies break off. So lost and broken answers
//! stop no owner.
//!
//! ```text
//! create wal/17 ──▶ stored ──✗ the answer is lost
//! create wal/17 ──▶ "it exists"                 of another owner, or of the request before?
//! read   wal/17 ──▶ its bytes are those to be stored: it is stored
//! ```
//!
//! SlateDB takes an object that it did not store for a later owner's, and ends: it must, since a
//! writer that continues behind another owner would lose the writes that it acknowledges. It marks
//! its objects to recognise them, but some stores keep no such marks.
//!
//! Equal bytes are proof. An owner stores the objects of its log one after the other. A later owner first creates a *fence*, an empty
//! object, behind the last one. So the first object of a later owner that an earlier one meets is the fence, and an empty object is never
//! taken for one's own. Manifests are not recognised: two owners may write them with equal bytes.
//!
//! A name that is refused and free is asked for again, for a fence above all: SlateDB would continue to the next name, and leave a hole that
//! the owner of before may still write to, and that no owner can replay past.
//!
//! SlateDB asks again for a range whose body breaks off, and not for a whole object, as manifests are read: it ends.

use std::fmt::{Debug, Display, Formatter};
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use slatedb::object_store::path::Path;
use slatedb::object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt as _, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    Result,
};

/// The folder of the log, in the folder of a shard.
const LOG: &str = "wal";

pub(super) struct OwnObjects {
    store: Arc<dyn ObjectStore>,
}

impl OwnObjects {
    pub fn over(store: Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore> {
        Arc::new(OwnObjects { store })
    }

    /// The store refused to create an object of the log. An error that is no answer has SlateDB ask again.
    async fn recognise(&self, location: &Path, payload: PutPayload, refused: Error) -> Result<PutResult> {
        let found = match self.store.get(location).await {
            Ok(found) => found,
            // Another request for it is under way, whose outcome is open: some stores refuse both for that time.
            Err(Error::NotFound { .. }) => return Err(open(location, &refused)),
            Err(error) => return Err(open(location, &error)),
        };
        let (e_tag, version) = (found.meta.e_tag.clone(), found.meta.version.clone());
        let is_fence = payload.content_length() == 0;
        if is_fence || found.meta.size != payload.content_length() as u64 {
            return Err(refused);
        }
        let content = found.bytes().await.map_err(|error| open(location, &error))?;
        if content != Bytes::from(payload) {
            return Err(refused);
        }
        tracing::info!(object = %location, "an object of the log was stored by a request whose answer was lost");
        Ok(PutResult { e_tag, version, extensions: Default::default() })
    }
}

fn is_of_the_log(location: &Path) -> bool {
    location.parent().is_some_and(|folder| folder.filename() == Some(LOG))
}

/// Whether an object is a table, or a part of the log: these are large, and read by ranges.
fn is_table(location: &Path) -> bool {
    location.extension() == Some("sst")
}

async fn gather(location: &Path, found: GetResult) -> Result<GetResult> {
    let (meta, range) = (found.meta.clone(), found.range.clone());
    let (attributes, extensions) = (found.attributes.clone(), found.extensions.clone());
    let body = found.bytes().await?;
    if body.len() as u64 != range.end - range.start {
        let source = format!("the body of '{location}' ended after {} bytes", body.len()).into();
        return Err(Error::Generic { store: "shardlake", source });
    }
    let payload = GetResultPayload::Stream(stream::once(async { Ok(body) }).boxed());
    Ok(GetResult { payload, meta, range, attributes, extensions })
}

fn open(location: &Path, error: &Error) -> Error {
    let source = format!("it is not known who created '{location}': {error}").into();
    Error::Generic { store: "shardlake", source }
}

impl Debug for OwnObjects {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        Debug::fmt(&self.store, f)
    }
}

impl Display for OwnObjects {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        Display::fmt(&self.store, f)
    }
}

#[async_trait]
impl ObjectStore for OwnObjects {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let is_created = matches!(opts.mode, PutMode::Create);
        if !is_created || !is_of_the_log(location) {
            return self.store.put_opts(location, payload, opts).await;
        }
        match self.store.put_opts(location, payload.clone(), opts).await {
            Err(refused @ (Error::AlreadyExists { .. } | Error::Precondition { .. })) => {
                self.recognise(location, payload, refused).await
            }
            answered => answered,
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
        let is_whole = options.range.is_none() && !options.head && !is_table(location);
        let found = self.store.get_opts(location, options).await?;
        if is_whole { gather(location, found).await } else { Ok(found) }
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.store.get_ranges(location, ranges).await
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
    use slatedb::object_store::memory::InMemory;

    use super::*;

    #[tokio::test]
    async fn only_equal_bytes_in_the_log_are_ones_own() {
        let store = OwnObjects::over(Arc::new(InMemory::new()));
        let create = async |path: &str, content: &'static [u8]| {
            let opts = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
            store.put_opts(&Path::from(path), PutPayload::from_static(content), opts).await
        };
        for (path, content) in
            [("s/wal/1.sst", &b"rows"[..]), ("s/wal/2.sst", b""), ("s/manifest/1", b"rows")]
        {
            create(path, content).await.expect("created");
        }
        create("s/wal/1.sst", b"rows").await.expect("it is stored");
        for (path, content) in [
            ("s/wal/1.sst", &b"raws"[..]),
            ("s/wal/1.sst", b"more rows"),
            ("s/wal/1.sst", b""),
            ("s/wal/2.sst", b"rows"),
            ("s/wal/2.sst", b""),
            ("s/manifest/1", b"rows"),
        ] {
            let refused = create(path, content).await;
            assert!(matches!(refused, Err(Error::AlreadyExists { .. })), "{path}: {refused:?}");
        }
    }
}
