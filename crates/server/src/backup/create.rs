//! `shardlake backup create`: copies the contents that the place lacks, then writes the manifest.

use std::collections::HashMap;
use std::io::{self, Read};
use std::path::Path;

use shardlake_account::{AccountMark, BackupOutcome};
use shardlake_stdx::Random;
use shardlake_storage::TableSum;
use tokio::signal::unix::{SignalKind, signal};

use super::digest::Digest;
use super::identifier::BackupId;
use super::manifest::{ACCOUNT_FILE, FileEntry, KEY_FILE, Manifest, folder_of, is_written_once};
use super::place::{Known, Place};
use super::shelf::{Lock, Spool};
use super::source::{Source, SourceFile};
use super::utc;
use crate::progress::{Progress, Unit};

/// Maximum size of a file with keys; no valid file is longer.
const KEY_FILE_BYTES_MAX: u64 = 64 << 10;

/// The backup that was made, and how much of it was new.
#[derive(Debug)]
pub struct Created {
    pub manifest: Manifest,
    pub new_files: u64,
    pub new_bytes: u64,
}

/// Makes a backup in the place, which the caller has locked. A signal ends it as an error does: nothing is left of it.
pub async fn create(
    place: &Place,
    lock: &Lock,
    source: Source,
    key_file: Option<&Path>,
) -> Result<Created, String> {
    let created = copy_unless_stopped((place, lock), &source, key_file).await;
    // Whatever failed: until its end the source keeps files that would be deleted otherwise.
    let outcome = if created.is_ok() { BackupOutcome::Done } else { BackupOutcome::Failed };
    source.end(Some(outcome), created.as_ref().ok().map(|created| &created.manifest.id)).await;
    created
}

async fn copy_unless_stopped(
    (place, lock): (&Place, &Lock),
    source: &Source,
    key_file: Option<&Path>,
) -> Result<Created, String> {
    let known = place.known().await?;
    let listen = |kind| signal(kind).map_err(|error| format!("signals cannot be received: {error}"));
    let (mut interrupted, mut terminated) =
        (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    let copied = async {
        place.sweep(&known, lock).await?;
        Copying::new((place, lock), source, &known).run(key_file).await
    };
    let created = tokio::select! {
        created = copied => created,
        _ = interrupted.recv() => Err("interrupted: no backup was made".to_owned()),
        _ = terminated.recv() => Err("terminated: no backup was made".to_owned()),
    };
    if created.is_err() {
        // Files that stay are deleted with the next backup.
        let _best_effort = place.sweep(&known, lock).await;
    }
    created
}

/// Tables that earlier backups of the account have.
type Copied = HashMap<(String, u64, String), Digest>;

struct Copying<'a> {
    place: &'a Place,
    lock: &'a Lock,
    source: &'a Source,
    copied: Copied,
    files: Vec<FileEntry>,
    new_files: u64,
    new_bytes: u64,
    progress: Progress,
}

impl<'a> Copying<'a> {
    fn new((place, lock): (&'a Place, &'a Lock), source: &'a Source, known: &Known) -> Copying<'a> {
        let mut copied = Copied::new();
        let of_account =
            |manifest: &&Manifest| manifest.account.is_some() && manifest.account == source.state.account;
        for manifest in known.values().filter_map(|known| known.as_ref().ok()).filter(of_account) {
            for file in &manifest.files {
                if let Some(content) = content_of(&file.path, file.table_checksum.as_ref()) {
                    copied.insert((file.path.clone(), file.size_bytes, content), file.sha256);
                }
            }
        }
        let size_bytes = source.state.shards.iter().flatten().map(|file| file.size_bytes).sum();
        let progress = Progress::begin("backup", Unit::Bytes, Some(size_bytes));
        Copying { place, lock, source, copied, files: Vec::new(), new_files: 0, new_bytes: 0, progress }
    }

    async fn run(mut self, key_file: Option<&Path>) -> Result<Created, String> {
        let state = &self.source.state;
        if let Some(account) = &state.account {
            let mark = AccountMark { account: account.clone(), shards: state.shards.len() as u16 };
            let mut text = serde_json::to_vec(&mark).map_err(|error| error.to_string())?;
            text.push(b'\n');
            self.add_content(ACCOUNT_FILE, &text).await?;
        }
        if let Some(key_file) = key_file {
            self.add_content(KEY_FILE, &read_keys(key_file)?).await?;
        }
        for (number, files) in state.shards.iter().enumerate() {
            let folder = folder_of(number, state.is_of_store);
            for (place, file) in files.iter().enumerate() {
                let path = format!("{folder}/{}", file.path);
                let digest = match self.found_before(&path, file).await {
                    Some(digest) => {
                        self.progress.advance(file.size_bytes);
                        digest
                    }
                    None => {
                        self.copy((number, place), file).await.map_err(|what| format!("'{path}': {what}"))?
                    }
                };
                self.files.push(FileEntry {
                    path,
                    size_bytes: file.size_bytes,
                    sha256: digest,
                    table_checksum: file.table_checksum.clone(),
                });
            }
        }
        let manifest = Manifest {
            id: BackupId::new(state.time, &Random::System),
            time: utc::readable(state.time),
            time_ms: state.time.milliseconds(),
            version: state.version.clone(),
            account: state.account.clone(),
            shards: state.shards.len() as u16,
            partitions: state.partitions.clone(),
            relocations: state.relocations.clone(),
            stamps: state.stamps.clone(),
            files: self.files,
        };
        // Decode the manifest as a restore will.
        Manifest::decode(&manifest.encode()?)
            .map_err(|what| format!("the manifest {what}: nothing was made of it"))?;
        self.place.publish(&manifest, self.lock).await?;
        self.progress.finish("");
        Ok(Created { manifest, new_files: self.new_files, new_bytes: self.new_bytes })
    }

    /// A table that an earlier backup has needs neither be read nor be sent.
    async fn found_before(&self, path: &str, file: &SourceFile) -> Option<Digest> {
        let content = content_of(path, file.table_checksum.as_ref())?;
        let digest = self.copied.get(&(path.to_owned(), file.size_bytes, content)).copied()?;
        self.place.has(&digest, file.size_bytes).await.then_some(digest)
    }

    async fn copy(&mut self, (shard, place): (usize, usize), file: &SourceFile) -> Result<Digest, String> {
        let mut content = self.place.begin()?;
        let (mut offset, mut table) = (0, TableSum::default());
        while offset < file.size_bytes {
            let piece = self.source.piece(shard, place, offset).await?;
            if piece.is_empty() || piece.len() as u64 > file.size_bytes - offset {
                return Err("it has another size than was said".to_owned());
            }
            offset += piece.len() as u64;
            content.add(&piece)?;
            table.add(&piece);
            self.progress.advance(piece.len() as u64);
        }
        let is_good = |expected: &String| *expected == format!("{:032x}", table.checksum());
        if !file.table_checksum.as_ref().is_none_or(is_good) {
            return Err(
                "it is damaged where it is copied from: its checksum is not the one that its shard has for it; `shardlake verify` tells more"
                    .to_owned(),
            );
        }
        self.finish(content, file.size_bytes).await
    }

    async fn finish(&mut self, content: Spool, size_bytes: u64) -> Result<Digest, String> {
        let (digest, is_new) = self.place.finish(content).await?;
        if is_new {
            self.new_files += 1;
            self.new_bytes += size_bytes;
        }
        Ok(digest)
    }

    async fn add_content(&mut self, path: &str, content: &[u8]) -> Result<(), String> {
        let mut unfinished = self.place.begin()?;
        unfinished.add(content)?;
        let size_bytes = content.len() as u64;
        let digest = self.finish(unfinished, size_bytes).await?;
        self.files.push(FileEntry {
            path: path.to_owned(),
            size_bytes,
            sha256: digest,
            table_checksum: None,
        });
        Ok(())
    }
}

/// The part of a content's identity besides path and size; `None` for files that change.
fn content_of(path: &str, table_checksum: Option<&String>) -> Option<String> {
    table_checksum.cloned().or_else(|| is_written_once(path).then(String::new))
}

fn read_keys(path: &Path) -> Result<Vec<u8>, String> {
    let unreadable = |error: &io::Error| format!("the key file '{}' cannot be read: {error}", path.display());
    let mut content = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| unreadable(&error))?;
    file.take(KEY_FILE_BYTES_MAX + 1).read_to_end(&mut content).map_err(|error| unreadable(&error))?;
    if content.len() as u64 > KEY_FILE_BYTES_MAX {
        return Err(format!("'{}' is larger than any file with keys", path.display()));
    }
    // The restored server reads it as its keys.
    let keys: Option<serde_json::Value> = serde_json::from_slice(&content).ok();
    if !keys.is_some_and(|keys| keys["primary"].is_string()) {
        return Err(format!("'{}' is no keys.json of a server: it has no primary key", path.display()));
    }
    Ok(content)
}
