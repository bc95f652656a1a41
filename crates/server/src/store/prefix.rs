//! A prefix of an object store, for commands: its objects by their names below it, and leases in it.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::TryStreamExt as _;
use shardlake_lease::{ClusterError, LeaseHolder, Location, Manner, Node, Register, self_test, take};
use shardlake_stdx::{Clock, Random};
use shardlake_storage::object::object_store::{
    self, ObjectStore as _, ObjectStoreExt as _, PutMode, PutMultipartOptions, PutOptions, PutPayload,
};

use super::StoreUrl;
use crate::config::machine_name;

/// Duration of a command's lease: a killed command holds up the next one for about this time.
const LEASE: Duration = Duration::from_secs(9);
/// Longer contents are sent in parts of this size.
const PART_BYTES: usize = 8 << 20;

#[derive(Debug, Clone)]
pub struct Prefix {
    pub location: Location,
}

/// The lease of a command; others give up while it is held.
#[derive(Debug)]
pub struct Claim {
    lease_holder: LeaseHolder,
    what: String,
}

impl Claim {
    pub fn lease_holder(&self) -> &LeaseHolder {
        &self.lease_holder
    }

    /// Refuses when the lease is over, as after a long sleep.
    pub fn check(&self) -> Result<(), String> {
        match self.lease_holder.lease.is_held() {
            true => Ok(()),
            false => Err(format!("the lease of '{}' is over: begin again", self.what)),
        }
    }

    pub async fn release(self) {
        if let Err(error) = self.lease_holder.release().await {
            tracing::warn!(%error, "a lease was not given back: the next command waits for its end");
        }
    }
}

impl Prefix {
    /// A prefix of any kind. The log of an account may lie elsewhere: [`Prefix::of_account`].
    pub fn new(url: &StoreUrl) -> Result<Prefix, String> {
        let location = Location::parse(url.as_str(), std::env::vars()).map_err(|error| error.to_string())?;
        Ok(Prefix { location })
    }

    /// The URL as it was given.
    pub fn name(&self) -> String {
        self.location.url.clone()
    }

    /// Whether nothing lies there.
    pub async fn is_empty(&self) -> Result<bool, String> {
        let listed = self.location.store.list_with_delimiter(Some(&self.location.prefix)).await;
        let listed = listed.map_err(|error| self.failed("", &error))?;
        Ok(listed.objects.is_empty() && listed.common_prefixes.is_empty())
    }

    /// The contents of an object, up to a maximum size; `None` where there is no object.
    pub async fn get(&self, name: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, String> {
        let Some(size) = self.size(name).await? else { return Ok(None) };
        if size == 0 {
            return Ok(Some(Vec::new()));
        }
        let got = self.location.store.get_range(&self.location.place(name), 0..size.min(bytes_max)).await;
        match got {
            Ok(content) => Ok(Some(content.to_vec())),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed(name, &error)),
        }
    }

    pub async fn size(&self, name: &str) -> Result<Option<u64>, String> {
        match self.location.store.head(&self.location.place(name)).await {
            Ok(found) => Ok(Some(found.size)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed(name, &error)),
        }
    }

    pub async fn read(&self, name: &str, offset: u64, bytes_max: usize) -> Result<Bytes, String> {
        let range = offset..offset.saturating_add(bytes_max as u64);
        let got = self.location.store.get_range(&self.location.place(name), range).await;
        got.map_err(|error| self.failed(name, &error))
    }

    pub async fn put(&self, name: &str, content: Vec<u8>) -> Result<(), String> {
        let put = self.location.store.put(&self.location.place(name), PutPayload::from(content)).await;
        put.map(|_| ()).map_err(|error| self.failed(name, &error))
    }

    /// Writes an object where there is none. A retry accepts the object that the request with the lost answer has written.
    pub async fn create(&self, name: &str, content: Vec<u8>) -> Result<(), String> {
        let create = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let place = self.location.place(name);
        match self.location.store.put_opts(&place, PutPayload::from(content.clone()), create).await {
            Ok(_) => Ok(()),
            Err(error @ object_store::Error::AlreadyExists { .. }) => {
                match self.get(name, content.len() as u64 + 1).await? {
                    Some(found) if found == content => Ok(()),
                    _ => Err(self.failed(name, &error)),
                }
            }
            Err(error) => Err(self.failed(name, &error)),
        }
    }

    pub async fn remove(&self, name: &str) -> Result<(), String> {
        match self.location.store.delete(&self.location.place(name)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed(name, &error)),
        }
    }

    /// The names below a folder, with the sizes.
    pub async fn list(&self, folder: &str) -> Result<Vec<(String, u64)>, String> {
        let place = self.location.place(folder);
        let listed = self.location.store.list(Some(&place)).map_ok(|object| {
            let rest = object.location.as_ref().strip_prefix(place.as_ref()).unwrap_or_default();
            (rest.trim_start_matches('/').to_owned(), object.size)
        });
        listed.try_collect().await.map_err(|error| self.failed(folder, &error))
    }

    /// Puts an object of so many bytes that come in pieces, of which the last one is empty. After an error of `next` there is none.
    pub async fn upload(
        &self,
        name: &str,
        size_bytes: u64,
        mut next: impl AsyncFnMut() -> Result<Bytes, String>,
    ) -> Result<(), String> {
        if size_bytes <= PART_BYTES as u64 {
            let content = gather(size_bytes as usize, &mut next).await?;
            let _nothing = next().await?;
            return self.put(name, content.to_vec()).await;
        }
        let place = self.location.place(name);
        let upload = self.location.store.put_multipart_opts(&place, PutMultipartOptions::default()).await;
        let mut upload = upload.map_err(|error| self.failed(name, &error))?;
        let sent = async {
            let mut left = size_bytes;
            while left > 0 {
                let part = gather(left.min(PART_BYTES as u64) as usize, &mut next).await?;
                left -= part.len() as u64;
                let part = upload.put_part(PutPayload::from_bytes(part)).await;
                part.map_err(|error| self.failed(name, &error))?;
            }
            // All pieces were read; the last call reports whether the checksum was right.
            next().await.map(|_| ())
        };
        let sent = sent.await;
        let ended = match &sent {
            Ok(()) => upload.complete().await.map(|_| ()),
            Err(_) => upload.abort().await,
        };
        sent?;
        ended.map_err(|error| self.failed(name, &error))
    }

    /// The lease in a folder; `None` where another process holds it.
    pub async fn claim(&self, folder: &str, what: &str) -> Result<Option<Claim>, String> {
        let incarnation = Random::System.guid().to_string();
        self_test(&self.location, &incarnation).await.map_err(|error| error.to_string())?;
        let node = Node {
            name: format!("{what} on {}", machine_name()),
            incarnation,
            former: None,
            ttl: LEASE,
            manner: Manner::Refuse,
            clock: Clock::System,
        };
        let register = Register::new(self.location.store.clone(), self.location.place(folder));
        match take(register, node).await {
            Ok(lease_holder) => Ok(Some(Claim { lease_holder, what: self.name() })),
            Err(ClusterError::Held { .. }) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    fn failed(&self, name: &str, error: &object_store::Error) -> String {
        format!("'{}/{name}': {error}", self.location.url)
    }
}

/// The requested bytes, in one piece.
async fn gather(
    size_bytes: usize,
    next: &mut impl AsyncFnMut() -> Result<Bytes, String>,
) -> Result<Bytes, String> {
    let mut content = BytesMut::with_capacity(size_bytes);
    while content.len() < size_bytes {
        let piece = next().await?;
        if piece.is_empty() || content.len() + piece.len() > size_bytes {
            return Err("a file has another size than was said".to_owned());
        }
        content.extend_from_slice(&piece);
    }
    Ok(content.freeze())
}

#[cfg(test)]
mod tests {
    use super::super::url_of;
    use super::*;

    #[tokio::test]
    async fn objects_of_any_size_are_put_whole_or_not_at_all() {
        let directory = tempfile::tempdir().expect("a directory");
        let url = format!("file://{}", directory.path().display());
        let prefix = Prefix::new(&url_of(url.as_ref()).expect("a URL")).expect("a directory");
        for size in [0, 5, PART_BYTES, 2 * PART_BYTES + 3] {
            let content: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
            for is_good in [false, true] {
                let mut pieces = content.chunks(PART_BYTES / 2);
                let next = async || match pieces.next() {
                    Some(piece) => Ok(Bytes::copy_from_slice(piece)),
                    None if is_good => Ok(Bytes::new()),
                    None => Err("its checksum is another one".to_owned()),
                };
                let put = prefix.upload("a/b", size as u64, next).await;
                assert_eq!(put.is_ok(), is_good, "{size}: {put:?}");
                let found = prefix.get("a/b", u64::MAX).await.expect("reads");
                assert_eq!(found.as_ref(), is_good.then_some(&content), "{size}");
            }
            assert_eq!(prefix.list("a").await, Ok(vec![("b".to_owned(), size as u64)]));
            prefix.remove("a/b").await.expect("removed");
            prefix.remove("a/b").await.expect("there is none");
        }
        prefix.create("c", b"1".to_vec()).await.expect("created");
        prefix.create("c", b"1".to_vec()).await.expect("as good as created");
        assert!(prefix.create("c", b"2".to_vec()).await.is_err());
    }
}
