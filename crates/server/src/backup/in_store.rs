//! Backups below a prefix of an object store.
//!
//! The names are those of a directory of backups (`directory.rs`). `lock/` holds the lease to make or delete backups: a
//! command that was killed holds up the next one for some seconds. Readers take no lease, and find a file missing where
//! another command deletes the backup meanwhile. Contents wait in a local file without a name until their checksum is known.

use std::collections::HashSet;
use std::fs;
use std::io::{Read, Seek, SeekFrom};

use bytes::Bytes;
use shardlake_stdx::Random;

use super::digest::Digest;
use super::identifier::BackupId;
use super::manifest::Manifest;
use super::shelf::{self, Alone, ENDING, FORMAT, Lock, Make, Shelf, Spool, Work};
use crate::store::{Prefix, StoreUrl};

/// Bytes of one part of an upload.
const PART_BYTES: usize = 8 << 20;

pub struct InStore(Prefix);

impl InStore {
    pub async fn open(url: &StoreUrl, make: Make) -> Result<InStore, String> {
        let prefix = Prefix::new(url)?;
        match prefix.get("FORMAT", 1024).await? {
            Some(found) if found == FORMAT.as_bytes() => {}
            Some(found) if found.starts_with(b"shardlake backups ") => {
                return Err(format!("'{url}' holds backups of another version of this program"));
            }
            None if make == Make::Yes => {
                if !prefix.is_empty().await? {
                    return Err(format!(
                        "'{url}' holds something else than backups: name a prefix that holds nothing"
                    ));
                }
                prefix.put("FORMAT", FORMAT.as_bytes().to_vec()).await?;
            }
            _ => return Err(format!("'{url}' holds no backups: there is no FORMAT object of theirs in it")),
        }
        Ok(InStore(prefix))
    }
}

impl Shelf for InStore {
    fn name(&self) -> String {
        self.0.name()
    }

    fn lock(&self, alone: Alone) -> Work<'_, Result<Lock, String>> {
        Box::pin(async move {
            if alone == Alone::No {
                return Ok(Lock::None);
            }
            match self.0.claim("lock", "shardlake backup").await? {
                Some(claim) => Ok(Lock::Lease(Box::new(claim))),
                None => Err(shelf::in_use(&self.name())),
            }
        })
    }

    fn manifests(&self) -> Work<'_, Result<Vec<BackupId>, String>> {
        Box::pin(async move {
            let found = self.0.list("backups").await?;
            let id = |(name, _): &(String, u64)| name.strip_suffix(ENDING)?.parse().ok();
            Ok(found.iter().filter_map(id).collect())
        })
    }

    fn manifest(&self, id: &BackupId, bytes_max: u64) -> Work<'_, Result<Option<Vec<u8>>, String>> {
        let name = shelf::manifest_path(id);
        Box::pin(async move { self.0.get(&name, bytes_max).await })
    }

    fn size(&self, digest: &Digest) -> Work<'_, Result<Option<u64>, String>> {
        let name = shelf::content_path(digest);
        Box::pin(async move { self.0.size(&name).await })
    }

    fn read(&self, digest: &Digest, offset: u64, bytes_max: usize) -> Work<'_, Result<Bytes, String>> {
        let name = shelf::content_path(digest);
        Box::pin(async move { self.0.read(&name, offset, bytes_max).await })
    }

    fn spool(&self) -> Result<Spool, String> {
        let number = Random::System.guid();
        let spool = Spool::at(std::env::temp_dir().join(format!("shardlake-backup-{number}")))?;
        // The unlinked file is freed when the process ends, however it ends.
        fs::remove_file(&spool.path).map_err(|error| shelf::unwritten(&spool.path, &error))?;
        Ok(spool)
    }

    fn put<'a>(&'a self, mut spool: Spool, digest: &'a Digest) -> Work<'a, Result<bool, String>> {
        let name = shelf::content_path(digest);
        Box::pin(async move {
            let is_new = self.0.size(&name).await? != Some(spool.size_bytes);
            let (mut left, size_bytes, path) = (spool.size_bytes, spool.size_bytes, spool.path.clone());
            let begun = spool.file.seek(SeekFrom::Start(0));
            begun.map_err(|error| shelf::unreadable(&path.display(), &error))?;
            let next = async || {
                let mut piece = Vec::new();
                let read =
                    Read::by_ref(&mut spool.file).take(left.min(PART_BYTES as u64)).read_to_end(&mut piece);
                read.map_err(|error| shelf::unreadable(&path.display(), &error))?;
                left = left.saturating_sub(piece.len() as u64);
                Ok(Bytes::from(piece))
            };
            self.0.upload(&name, size_bytes, next).await?;
            Ok(is_new)
        })
    }

    fn publish<'a>(&'a self, manifest: &'a Manifest, lock: &'a Lock) -> Work<'a, Result<(), String>> {
        Box::pin(async move {
            let content = manifest.encode()?;
            lock.check()?;
            self.0.create(&shelf::manifest_path(&manifest.id), content).await
        })
    }

    fn withdraw<'a>(&'a self, id: &'a BackupId, lock: &'a Lock) -> Work<'a, Result<(), String>> {
        Box::pin(async move {
            lock.check()?;
            self.0.remove(&shelf::manifest_path(id)).await
        })
    }

    fn sweep<'a>(
        &'a self,
        needed: Option<&'a HashSet<Digest>>,
        lock: &'a Lock,
    ) -> Work<'a, Result<u64, String>> {
        Box::pin(async move {
            let Some(needed) = needed else { return Ok(0) };
            let mut freed = 0;
            for (name, size_bytes) in self.0.list("objects").await? {
                let digest = name.replace('/', "").parse::<Digest>();
                if digest.is_ok_and(|digest| needed.contains(&digest)) {
                    continue;
                }
                lock.check()?;
                self.0.remove(&format!("objects/{name}")).await?;
                freed += size_bytes;
            }
            Ok(freed)
        })
    }
}
