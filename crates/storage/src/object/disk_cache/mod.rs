//! A cache of tables on a local disk, in front of a store: one for all shards of a process.
//!
//! | file | content |
//! |---|---|
//! | `mod.rs` | which requests it answers, and how the missing parts are fetched |
//! | `parts.rs` | which parts are kept, by their last use; reading, writing and removing their files |
//! | `part_file.rs` | a part, and the bytes of its file |
//!
//! A table is cut into parts of 256 KiB. A read takes its parts from files, fetches those that are missing from the store in one
//! request, and leaves them to be written behind its back:
//!
//! ```text
//! read 300..500 KiB of a table ─▶ part 1: has a file      ─┐
//!                                 part 2: is fetched, kept ─┴▶ the answer
//! ```
//! Only tables are cached: each is written once, under a name that is never used again, so that no
//! part is ever out of date. Reads of merges and long scans bypass the cache, since they would push
//! out parts that are read again.
//!
//! The cache may be lost, damaged or full at any time. Each file has a checksum over its content
//! and its name; a part whose file is missing or damaged is fetched from the store, and a part that
//! cannot be written is not kept. Files are not synced: a file that a power cut damaged does not
//! have its checksum.

mod part_file;
mod parts;

use std::fmt::{Debug, Display, Formatter};
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use slatedb::object_store::path::Path;
use slatedb::object_store::{
    CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use slatedb::object_store_tag::{ObjectStoreCallTag, SstType, TableStoreKind};

use part_file::{PART_BYTES, Part};
use parts::PartName;
pub use parts::{DiskCache, DiskCacheEvent};

/// Longer reads are not for something that is asked for again.
const READ_BYTES_MAX: u64 = 2 << 20;

/// A store behind the cache.
pub(super) struct Cached {
    store: Arc<dyn ObjectStore>,
    cache: Arc<DiskCache>,
}

impl Cached {
    pub fn over(store: Arc<dyn ObjectStore>, cache: Arc<DiskCache>) -> Arc<dyn ObjectStore> {
        Arc::new(Cached { store, cache })
    }

    async fn read(&self, location: &Path, range: Range<u64>, options: GetOptions) -> Result<GetResult> {
        let is_suspect = tag_of(&options).is_some_and(|tag| tag.retry.is_some());
        let mut numbers = range.start / PART_BYTES..range.end.div_ceil(PART_BYTES);
        let (mut found, mut size) = (BytesMut::new(), None);
        let from = numbers.start * PART_BYTES;
        while let Some(number) = numbers.next() {
            if size.is_some_and(|size| number * PART_BYTES >= size) {
                break;
            }
            let name = PartName::of(location, number);
            // A part that SlateDB could not decode is fetched again.
            if is_suspect {
                self.cache.forget(name);
            }
            let kept = if is_suspect { None } else { self.cache.read(name, location, number).await };
            if let Some(Part { content, object_bytes }) = kept {
                found.extend_from_slice(&content);
                size = Some(object_bytes);
                continue;
            }
            let missing = self.missing(location, number, &mut numbers);
            let (content, object_bytes) = self.fetch(location, missing, options.clone()).await?;
            found.extend_from_slice(&content);
            size = Some(object_bytes);
        }
        let size = size.unwrap_or(0);
        if range.start >= size {
            return Err(failed(format!("'{location}' has {size} bytes, and no byte {}", range.start)));
        }
        let range = range.start..range.end.min(size);
        assert!(
            range.end - from <= found.len() as u64,
            "the parts of an object cover the range that is read"
        );
        let content = found.freeze().slice((range.start - from) as usize..(range.end - from) as usize);
        Ok(answer(location, range, size, content))
    }

    /// The parts from this one on that have no file, without one between them.
    fn missing(&self, location: &Path, first: u64, numbers: &mut Range<u64>) -> Range<u64> {
        let mut missing = first..first + 1;
        while numbers.start < numbers.end && !self.cache.has(PartName::of(location, numbers.start)) {
            missing.end += 1;
            numbers.start += 1;
        }
        missing
    }

    async fn fetch(&self, location: &Path, numbers: Range<u64>, options: GetOptions) -> Result<(Bytes, u64)> {
        let range = numbers.start * PART_BYTES..numbers.end * PART_BYTES;
        let options = GetOptions { range: Some(GetRange::Bounded(range.clone())), ..options };
        let answered = self.store.get_opts(location, options).await?;
        let size = answered.meta.size;
        let content = answered.bytes().await?;
        let expected = size.min(range.end).saturating_sub(range.start);
        if content.len() as u64 != expected {
            return Err(failed(format!(
                "the store sent {} bytes of '{location}' instead of {expected}",
                content.len()
            )));
        }
        for number in numbers.clone() {
            let start = ((number - numbers.start) * PART_BYTES).min(expected) as usize;
            let end = (start as u64 + PART_BYTES).min(expected) as usize;
            self.cache.note(DiskCacheEvent::Miss);
            if start < end {
                let part = Part { content: content.slice(start..end), object_bytes: size };
                self.cache.keep(PartName::of(location, number), location, number, part);
            }
        }
        Ok((content, size))
    }
}

/// A read of a table by the database itself that may come again.
fn cacheable(options: &GetOptions) -> Option<Range<u64>> {
    let tag = tag_of(options)?;
    let is_plain = !options.head
        && options.if_match.is_none()
        && options.if_none_match.is_none()
        && options.if_modified_since.is_none()
        && options.if_unmodified_since.is_none()
        && options.version.is_none();
    let is_reader = matches!(tag.kind, TableStoreKind::Main | TableStoreKind::Reader);
    match &options.range {
        Some(GetRange::Bounded(range))
            if is_plain
                && is_reader
                && tag.sst_type == SstType::Compacted
                && range.start < range.end
                && range.end - range.start <= READ_BYTES_MAX =>
        {
            Some(range.clone())
        }
        _ => None,
    }
}

fn tag_of(options: &GetOptions) -> Option<ObjectStoreCallTag> {
    ObjectStoreCallTag::from_extensions(&options.extensions)
}

fn answer(location: &Path, range: Range<u64>, size: u64, content: Bytes) -> GetResult {
    assert_eq!(
        content.len() as u64,
        range.end - range.start,
        "a read returns the range that it was asked for"
    );
    let meta = ObjectMeta {
        location: location.clone(),
        // Tables never change.
        last_modified: std::time::SystemTime::UNIX_EPOCH.into(),
        size,
        e_tag: None,
        version: None,
    };
    let payload = GetResultPayload::Stream(stream::once(async { Ok(content) }).boxed());
    GetResult { payload, meta, range, attributes: Default::default(), extensions: Default::default() }
}

fn failed(what: String) -> Error {
    Error::Generic { store: "shardlake", source: what.into() }
}

impl Debug for Cached {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        Debug::fmt(&self.store, f)
    }
}

impl Display for Cached {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        Display::fmt(&self.store, f)
    }
}

#[async_trait]
impl ObjectStore for Cached {
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

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        match cacheable(&options) {
            Some(range) => self.read(location, range, options).await,
            None => self.store.get_opts(location, options).await,
        }
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
