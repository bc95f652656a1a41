//! The place that holds backups, whatever it lies on.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use bytes::Bytes;

use super::digest::{Digest, Sum};
use super::directory::Directory;
use super::identifier::BackupId;
use super::manifest::{FileEntry, Manifest};
use super::shelf::{self, Alone, Lock, Make, Shelf, Spool};
use crate::store::{StoreUrl, url_of};

/// Maximum size of a manifest: half a million files.
const MANIFEST_BYTES_MAX: u64 = 256 << 20;
/// Bytes read at a time.
const PIECE_BYTES: usize = 4 << 20;

pub struct Place(Box<dyn Shelf>);

/// Backups by id; for a damaged one, the error.
pub type Known = BTreeMap<BackupId, Result<Manifest, String>>;

/// Damage of a file of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Damage {
    Missing,
    Size { found: u64 },
    Content,
    Unreadable(String),
}

impl Place {
    pub async fn open(place: &Path) -> Result<Place, String> {
        match url_of(place) {
            Some(url) => in_store(&url, Make::No).await,
            None => Ok(Place(Box::new(Directory::open(place)?))),
        }
    }

    /// Makes it where there is nothing, or an empty directory.
    pub async fn open_or_make(place: &Path) -> Result<Place, String> {
        match url_of(place) {
            Some(url) => in_store(&url, Make::Yes).await,
            None => Ok(Place(Box::new(Directory::open_or_make(place)?))),
        }
    }

    pub async fn lock(&self, alone: Alone) -> Result<Lock, String> {
        self.0.lock(alone).await
    }

    /// All backups there are, also damaged ones.
    pub async fn known(&self) -> Result<Known, String> {
        let mut known = Known::new();
        for id in self.0.manifests().await? {
            let manifest = self.manifest(&id).await;
            known.insert(id, manifest);
        }
        Ok(known)
    }

    /// One backup, or the newest.
    pub async fn find(&self, id: Option<&BackupId>) -> Result<Manifest, String> {
        let id = match id {
            Some(id) => id.clone(),
            None => {
                let newest = self.0.manifests().await?.into_iter().max();
                newest.ok_or_else(|| format!("there is no backup in '{}'", self.0.name()))?
            }
        };
        self.manifest(&id).await
    }

    async fn manifest(&self, id: &BackupId) -> Result<Manifest, String> {
        let path = format!("{}/{}", self.0.name(), shelf::manifest_path(id));
        let content = self.0.manifest(id, MANIFEST_BYTES_MAX).await?;
        let content = content.ok_or_else(|| self.no_such(id))?;
        let manifest = Manifest::decode(&content).map_err(|what| format!("the manifest '{path}' {what}"))?;
        if manifest.id != *id {
            return Err(format!("the manifest '{path}' is that of another backup, '{}'", manifest.id));
        }
        Ok(manifest)
    }

    pub fn no_such(&self, id: &BackupId) -> String {
        format!(
            "there is no backup '{id}' in '{}': `shardlake backup list` shows those there are",
            self.0.name()
        )
    }

    /// Where a content lies.
    pub fn content_at(&self, digest: &Digest) -> String {
        format!("{}/{}", self.0.name(), shelf::content_path(digest))
    }

    /// Whether a content exists with this size. Its bytes are not read.
    pub async fn has(&self, digest: &Digest, size_bytes: u64) -> bool {
        self.0.size(digest).await == Ok(Some(size_bytes))
    }

    pub fn begin(&self) -> Result<Spool, String> {
        self.0.spool()
    }

    /// Puts a content in its place, and returns whether it is new there.
    pub async fn finish(&self, mut spool: Spool) -> Result<(Digest, bool), String> {
        let digest = std::mem::take(&mut spool.sum).finish();
        let is_new = self.0.put(spool, &digest).await?;
        Ok((digest, is_new))
    }

    pub async fn publish(&self, manifest: &Manifest, lock: &Lock) -> Result<(), String> {
        self.0.publish(manifest, lock).await
    }

    /// Deletes the manifest: from here on the backup does not exist. [`Place::sweep`] deletes its contents that no other backup needs.
    pub async fn withdraw(&self, id: &BackupId, lock: &Lock) -> Result<(), String> {
        self.0.withdraw(id, lock).await
    }

    /// Deletes the contents that no backup needs, and returns their bytes. Where a manifest is damaged, the needed contents are
    /// unknown: then only unfinished contents are deleted.
    pub async fn sweep(&self, known: &Known, lock: &Lock) -> Result<u64, String> {
        self.0.sweep(needed(known).as_ref(), lock).await
    }

    /// Looks at a file without reading it.
    pub async fn look(&self, file: &FileEntry) -> Result<(), Damage> {
        match self.0.size(&file.sha256).await {
            Ok(Some(found)) if found != file.size_bytes => Err(Damage::Size { found }),
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(Damage::Missing),
            Err(error) => Err(Damage::Unreadable(error)),
        }
    }

    /// Reads all of it. `on_bytes` receives the size of each piece.
    pub async fn check(&self, file: &FileEntry, on_bytes: &(dyn Fn(u64) + Sync)) -> Result<(), Damage> {
        let mut reading = self.reading(file);
        loop {
            let piece = reading.next().await?;
            if piece.is_empty() {
                return Ok(());
            }
            on_bytes(piece.len() as u64);
        }
    }

    pub fn reading<'a>(&'a self, file: &'a FileEntry) -> Reading<'a> {
        Reading { place: self, file, sum: Sum::default(), offset: 0 }
    }
}

/// A file that is read piece by piece. The pieces are verified only when the end has been read.
pub struct Reading<'a> {
    place: &'a Place,
    file: &'a FileEntry,
    sum: Sum,
    offset: u64,
}

impl Reading<'_> {
    /// The next piece; an empty one at the end, if the checksum is right.
    pub async fn next(&mut self) -> Result<Bytes, Damage> {
        if self.offset == 0 {
            self.place.look(self.file).await?;
        }
        if self.offset == self.file.size_bytes {
            return match std::mem::take(&mut self.sum).finish() == self.file.sha256 {
                true => Ok(Bytes::new()),
                false => Err(Damage::Content),
            };
        }
        let piece = self.place.0.read(&self.file.sha256, self.offset, PIECE_BYTES).await;
        let piece = piece.map_err(Damage::Unreadable)?;
        self.offset += piece.len() as u64;
        if piece.is_empty() || self.offset > self.file.size_bytes {
            return Err(Damage::Size { found: self.offset });
        }
        self.sum.add(&piece);
        Ok(piece)
    }
}

impl Damage {
    /// Names the file, and where it lies.
    pub fn of(&self, place: &Place, file: &FileEntry) -> String {
        let what = match self {
            Damage::Missing => "is missing".to_owned(),
            Damage::Size { found } => format!("has {found} bytes instead of {}", file.size_bytes),
            Damage::Content => "is damaged: its SHA-256 is another one".to_owned(),
            Damage::Unreadable(error) => format!("cannot be read: {error}"),
        };
        format!("'{}' {what} ('{}')", file.path, place.content_at(&file.sha256))
    }
}

/// The contents that backups name; `None` where one of them cannot be read.
fn needed(known: &Known) -> Option<HashSet<Digest>> {
    let mut needed = HashSet::new();
    for manifest in known.values() {
        needed.extend(manifest.as_ref().ok()?.files.iter().map(|file| file.sha256));
    }
    Some(needed)
}

#[cfg(feature = "object-storage")]
async fn in_store(url: &StoreUrl, make: Make) -> Result<Place, String> {
    Ok(Place(Box::new(super::in_store::InStore::open(url, make).await?)))
}

#[cfg(not(feature = "object-storage"))]
async fn in_store(url: &StoreUrl, _make: Make) -> Result<Place, String> {
    Err(url.unsupported())
}
