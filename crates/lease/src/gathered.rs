//! Read-only store of objects that lie in another store under other names, such as a backup that is
//! read as the original account.

use std::collections::BTreeMap;
use std::fmt::{Debug, Display, Formatter};
use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use shardlake_storage::object::object_store::path::Path;
use shardlake_storage::object::object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use crate::Location;

pub struct Gathered {
    store: Arc<dyn ObjectStore>,
    objects: BTreeMap<Path, Object>,
}

/// Place and size of an object.
struct Object {
    place: Path,
    size: u64,
}

impl Gathered {
    /// `objects` by their names, each with its place below `location` and its size. `url` is for
    /// messages.
    pub fn over(location: &Location, objects: BTreeMap<String, (String, u64)>, url: String) -> Location {
        let object = |(name, (place, size)): (String, (String, u64))| {
            (Path::from(name), Object { place: location.place(&place), size })
        };
        let objects = objects.into_iter().map(object).collect();
        let store = Arc::new(Gathered { store: location.store.clone(), objects });
        Location { store, prefix: Path::default(), url }
    }

    fn listed(&self, prefix: Option<&Path>) -> Vec<ObjectMeta> {
        let is_below =
            |name: &Path| prefix.is_none_or(|prefix| name.prefix_matches(prefix) && name != prefix);
        let meta = |(name, object): (&Path, &Object)| ObjectMeta {
            location: name.clone(),
            // Objects never change, so their modification times need not differ.
            last_modified: std::time::SystemTime::UNIX_EPOCH.into(),
            size: object.size,
            e_tag: None,
            version: None,
        };
        self.objects.iter().filter(|(name, _)| is_below(name)).map(meta).collect()
    }
}

impl Debug for Gathered {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        Display::fmt(self, f)
    }
}

impl Display for Gathered {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} objects of {}", self.objects.len(), self.store)
    }
}

fn read_only() -> Error {
    Error::NotSupported { source: "a backup takes no writes".into() }
}

#[async_trait]
impl ObjectStore for Gathered {
    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        Err(read_only())
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(read_only())
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let missing = || Error::NotFound { path: location.to_string(), source: "the backup has none".into() };
        let object = self.objects.get(location).ok_or_else(missing)?;
        let mut found = self.store.get_opts(&object.place, options).await?;
        found.meta.location = location.clone();
        Ok(found)
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        locations.map(|_| Err(read_only())).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        stream::iter(self.listed(prefix).into_iter().map(Ok)).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let root = Path::default();
        let depth = prefix.unwrap_or(&root).parts().count();
        let (mut folders, mut objects) = (Vec::new(), Vec::new());
        for object in self.listed(prefix) {
            let parts: Vec<_> = object.location.parts().collect();
            if parts.len() == depth + 1 {
                objects.push(object);
            } else {
                folders.push(parts.into_iter().take(depth + 1).collect::<Path>());
            }
        }
        folders.dedup();
        Ok(ListResult { common_prefixes: folders, objects, extensions: Default::default() })
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(read_only())
    }
}
