//! Store of an account with its logs in another store, which is faster or cheaper for small objects.
//!
//! ```text
//! {prefix}/s/00000-1/manifest/…     the store of the data
//! {prefix}/s/00000-1/wal/…     ──▶  {log's prefix}/s/00000-1/wal/… in the store of the log
//! ```
//! All users of this store find the log where it would be without a separate store: the owner of a
//! shard, a backup, a reader, a collector of old objects. So none of them can look in the wrong
//! place. A list shows both, each object once.

use std::fmt::{Debug, Display, Formatter};
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{StreamExt as _, TryStreamExt as _};
use shardlake_storage::object::object_store::path::Path;
use shardlake_storage::object::object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use crate::Location;

/// `s/{shard}/wal/…`
const SHARDS: &str = "s";
const LOG: &str = "wal";
/// The most that a store removes with one request.
const REMOVED_AT_ONCE: usize = 1_000;

#[derive(Clone)]
struct Place {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
}

#[derive(Clone)]
struct SeparateWal {
    data: Place,
    log: Place,
}

/// Store of an object.
enum Side {
    Data,
    /// Under this name.
    Log(Path),
}

impl Location {
    /// With the logs of its shards in another store.
    #[must_use]
    pub fn with_log(self, log: Location) -> Location {
        let of =
            |location: &Location| Place { store: location.store.clone(), prefix: location.prefix.clone() };
        let store = Arc::new(SeparateWal { data: of(&self), log: of(&log) });
        Location { store, ..self }
    }
}

impl SeparateWal {
    fn side(&self, location: &Path) -> Side {
        match below(location, &self.data.prefix) {
            Some(rest) if is_of_a_log(&rest) => {
                let place = joined(&self.log.prefix, &rest);
                debug_assert_eq!(
                    self.name_here(&place).as_ref(),
                    Some(location),
                    "a log's name is reversible"
                );
                Side::Log(place)
            }
            _ => Side::Data,
        }
    }

    /// The name of a log object in this store.
    fn name_here(&self, in_log: &Path) -> Option<Path> {
        let rest = below(in_log, &self.log.prefix).filter(is_of_a_log)?;
        Some(joined(&self.data.prefix, &rest))
    }

    fn meta_here(&self, object: ObjectMeta) -> Option<ObjectMeta> {
        Some(ObjectMeta { location: self.name_here(&object.location)?, ..object })
    }

    /// The part of the log's store that a list of this prefix shows: `None` for nothing.
    fn log_prefix(&self, prefix: Option<&Path>) -> Option<Path> {
        let root = Path::default();
        let prefix = prefix.unwrap_or(&root);
        match below(prefix, &self.data.prefix) {
            Some(rest) => Some(joined(&self.log.prefix, &rest)),
            None if self.data.prefix.prefix_matches(prefix) => Some(self.log.prefix.clone()),
            None => None,
        }
    }

    fn list_log(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let Some(prefix) = self.log_prefix(prefix) else { return stream::empty().boxed() };
        let names = self.clone();
        let listed = self.log.store.list(Some(&prefix));
        listed.try_filter_map(move |object| std::future::ready(Ok(names.meta_here(object)))).boxed()
    }

    fn list_data(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let names = self.clone();
        let is_here =
            move |object: &ObjectMeta| std::future::ready(matches!(names.side(&object.location), Side::Data));
        self.data.store.list(prefix).try_filter(is_here).boxed()
    }

    async fn list_log_by_folder(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let Some(in_log) = self.log_prefix(prefix) else { return Ok(nothing()) };
        let found = self.log.store.list_with_delimiter(Some(&in_log)).await?;
        let folders = found.common_prefixes.iter().filter_map(|folder| {
            let rest = below(folder, &self.log.prefix)?;
            may_lead_to_a_log(&rest).then(|| joined(&self.data.prefix, &rest))
        });
        let objects = found.objects.into_iter().filter_map(|object| self.meta_here(object));
        Ok(ListResult {
            common_prefixes: folders.collect(),
            objects: objects.collect(),
            extensions: Default::default(),
        })
    }
}

fn below(path: &Path, prefix: &Path) -> Option<Path> {
    Some(path.prefix_match(prefix)?.collect())
}

fn joined(prefix: &Path, rest: &Path) -> Path {
    prefix.parts().chain(rest.parts()).collect()
}

/// Whether a path is in the folder of a log, or the folder itself.
fn is_of_a_log(rest: &Path) -> bool {
    let mut parts = rest.parts();
    parts.next().is_some_and(|part| part.as_ref() == SHARDS)
        && parts.next().is_some()
        && parts.next().is_some_and(|part| part.as_ref() == LOG)
}

/// A log, or a folder above one.
fn may_lead_to_a_log(rest: &Path) -> bool {
    let mut parts = rest.parts();
    parts.next().is_none_or(|part| part.as_ref() == SHARDS)
        && parts.next().is_none_or(|_| parts.next().is_none_or(|part| part.as_ref() == LOG))
}

fn nothing() -> ListResult {
    ListResult { common_prefixes: Vec::new(), objects: Vec::new(), extensions: Default::default() }
}

impl Debug for SeparateWal {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        Display::fmt(self, f)
    }
}

impl Display for SeparateWal {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} with its logs in {}", self.data.store, self.log.store)
    }
}

#[async_trait]
impl ObjectStore for SeparateWal {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        match self.side(location) {
            Side::Data => self.data.store.put_opts(location, payload, opts).await,
            Side::Log(place) => self.log.store.put_opts(&place, payload, opts).await,
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        match self.side(location) {
            Side::Data => self.data.store.put_multipart_opts(location, opts).await,
            Side::Log(place) => self.log.store.put_multipart_opts(&place, opts).await,
        }
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        match self.side(location) {
            Side::Data => self.data.store.get_opts(location, options).await,
            Side::Log(place) => {
                let mut found = self.log.store.get_opts(&place, options).await?;
                found.meta.location = location.clone();
                Ok(found)
            }
        }
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        match self.side(location) {
            Side::Data => self.data.store.get_ranges(location, ranges).await,
            Side::Log(place) => self.log.store.get_ranges(&place, ranges).await,
        }
    }

    /// Deletes in one request for each group of names that arrive together; those of one side first.
    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let here = self.clone();
        let removed = locations.ready_chunks(REMOVED_AT_ONCE).map(move |chunk| {
            let (mut data, mut log) = (Vec::new(), Vec::new());
            for location in chunk {
                match location.as_ref().map(|location| here.side(location)) {
                    Ok(Side::Log(place)) => log.push(Ok(place)),
                    _ => data.push(location),
                }
            }
            let names = here.clone();
            let of_log = here.log.store.delete_stream(stream::iter(log).boxed());
            let of_log = of_log.map_ok(move |place| names.name_here(&place).unwrap_or(place));
            here.data.store.delete_stream(stream::iter(data).boxed()).chain(of_log)
        });
        removed.flatten().boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match prefix.map(|prefix| self.side(prefix)) {
            Some(Side::Log(_)) => self.list_log(prefix),
            _ => self.list_data(prefix).chain(self.list_log(prefix)).boxed(),
        }
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        if let (Some(Side::Log(place)), Side::Log(offset)) =
            (prefix.map(|prefix| self.side(prefix)), self.side(offset))
        {
            let names = self.clone();
            let listed = self.log.store.list_with_offset(Some(&place), &offset);
            return listed
                .try_filter_map(move |object| std::future::ready(Ok(names.meta_here(object))))
                .boxed();
        }
        let offset = offset.clone();
        self.list(prefix).try_filter(move |object| std::future::ready(object.location > offset)).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        if let Some(Side::Log(_)) = prefix.map(|prefix| self.side(prefix)) {
            return self.list_log_by_folder(prefix).await;
        }
        let mut found = self.data.store.list_with_delimiter(prefix).await?;
        found.common_prefixes.retain(|folder| matches!(self.side(folder), Side::Data));
        let of_log = self.list_log_by_folder(prefix).await?;
        found.common_prefixes.extend(of_log.common_prefixes);
        found.common_prefixes.sort();
        found.common_prefixes.dedup();
        found.objects.extend(of_log.objects);
        Ok(found)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        match (self.side(from), self.side(to)) {
            (Side::Data, Side::Data) => self.data.store.copy_opts(from, to, options).await,
            (Side::Log(from), Side::Log(to)) => self.log.store.copy_opts(&from, &to, options).await,
            _ => {
                let source = "no object is copied between the data and the log".into();
                Err(Error::NotSupported { source })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use shardlake_storage::object::object_store::ObjectStoreExt as _;
    use shardlake_storage::object::object_store::memory::InMemory;

    use super::*;

    fn memory(prefix: &str) -> Location {
        Location { store: Arc::new(InMemory::new()), prefix: Path::from(prefix), url: "memory".into() }
    }

    async fn names(store: &Arc<dyn ObjectStore>, prefix: Option<&str>) -> Vec<String> {
        let listed = store.list(prefix.map(Path::from).as_ref());
        let mut names: Vec<String> =
            listed.map_ok(|object| object.location.to_string()).try_collect().await.expect("listed");
        names.sort();
        names
    }

    async fn put(location: &Location, name: &str) {
        let content = PutPayload::from(name.as_bytes().to_vec());
        location.store.put(&location.place(name), content).await.expect("stored");
    }

    #[tokio::test]
    async fn the_log_lies_in_its_own_store_under_the_names_of_the_account() {
        let (data, log) = (memory("a/b"), memory("x"));
        let account = data.clone().with_log(log.clone());
        for name in ["account.json", "s/0-1/manifest/1", "s/0-1/wal/1.sst", "s/0-1/wal/2.sst", "wal/no"] {
            put(&account, name).await;
        }
        put(&log, "log.json").await;
        assert_eq!(
            names(&data.store, None).await,
            ["a/b/account.json", "a/b/s/0-1/manifest/1", "a/b/wal/no"]
        );
        assert_eq!(names(&log.store, None).await, ["x/log.json", "x/s/0-1/wal/1.sst", "x/s/0-1/wal/2.sst"]);

        let all = names(&account.store, None).await;
        assert_eq!(all.len(), 5, "{all:?}");
        assert_eq!(names(&account.store, Some("a/b")).await, all);
        let of_log = ["a/b/s/0-1/wal/1.sst", "a/b/s/0-1/wal/2.sst"];
        assert_eq!(names(&account.store, Some("a/b/s/0-1/wal")).await, of_log);
        let found = account.store.get(&account.place("s/0-1/wal/1.sst")).await.expect("found");
        assert_eq!(found.meta.location, account.place("s/0-1/wal/1.sst"));
        assert_eq!(found.bytes().await.expect("read"), "s/0-1/wal/1.sst");

        let later = account.store.list_with_offset(Some(&account.place("s/0-1/wal")), &Path::from(of_log[0]));
        let later: Vec<_> = later.map_ok(|object| object.location).try_collect().await.expect("listed");
        assert_eq!(later, [Path::from(of_log[1])]);
        let folders = account.store.list_with_delimiter(Some(&account.place("s/0-1"))).await.expect("listed");
        let folders: Vec<_> = folders.common_prefixes.iter().map(Path::to_string).collect();
        assert_eq!(folders, ["a/b/s/0-1/manifest", "a/b/s/0-1/wal"]);
        let shards = account.store.list_with_delimiter(Some(&account.place("s"))).await.expect("listed");
        assert_eq!(shards.common_prefixes, [Path::from("a/b/s/0-1")]);

        let gone = [of_log[0], "a/b/s/0-1/manifest/1"].map(|name| Ok(Path::from(name)));
        let gone = account.store.delete_stream(stream::iter(gone).boxed());
        assert_eq!(gone.try_collect::<Vec<_>>().await.expect("removed").len(), 2);
        assert_eq!(names(&account.store, None).await, ["a/b/account.json", of_log[1], "a/b/wal/no"]);
    }
}
