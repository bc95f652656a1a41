//! `list`, `check` and `delete`: existing backups, their integrity, and their deletion.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;

use serde_json::{Value, json};

use super::digest::Digest;
use super::identifier::BackupId;
use super::manifest::Manifest;
use super::place::{Damage, Place};
use super::shelf::Lock;
use super::whole;
use crate::progress::{Progress, Unit};

/// One backup in a list.
#[derive(Debug)]
pub struct Listed {
    pub id: BackupId,
    /// The manifest, or the error of a damaged one.
    pub manifest: Result<Manifest, String>,
    /// Files that are missing or have another size; `check` reads the contents of the others.
    pub missing_files: u64,
    /// Bytes that deleting the backup would free.
    pub own_bytes: u64,
}

pub async fn list(place: &Place) -> Result<Vec<Listed>, String> {
    let known = place.known().await?;
    let mut users: HashMap<Digest, u64> = HashMap::new();
    for manifest in known.values().flatten() {
        distinct(manifest).into_keys().for_each(|digest| *users.entry(digest).or_default() += 1);
    }
    let mut listed = Vec::with_capacity(known.len());
    for (id, manifest) in known {
        let (mut missing_files, mut own_bytes) = (0, 0);
        if let Ok(manifest) = &manifest {
            for file in &manifest.files {
                missing_files += u64::from(place.look(file).await.is_err());
            }
            let own = distinct(manifest).into_iter().filter(|(digest, _)| users.get(digest) == Some(&1));
            own_bytes = own.map(|(_, size_bytes)| size_bytes).sum();
        }
        listed.push(Listed { id, manifest, missing_files, own_bytes });
    }
    Ok(listed)
}

/// The contents of a backup, each once, with their sizes.
fn distinct(manifest: &Manifest) -> HashMap<Digest, u64> {
    manifest.files.iter().map(|file| (file.sha256, file.size_bytes)).collect()
}

/// Findings of a check of every byte of backups.
#[derive(Debug, Default)]
pub struct Checked {
    pub backups: u64,
    /// Contents that several backups share are read once.
    pub files: u64,
    pub size_bytes: u64,
    /// Descriptions, with the names of the files.
    pub damages: Vec<String>,
}

impl Checked {
    pub fn to_json(&self) -> Value {
        json!({ "backups": self.backups, "files": self.files, "sizeBytes": self.size_bytes, "damages": self.damages })
    }
}

/// Reads one backup, or all of them.
pub async fn check((at, place): (&Path, &Place), id: Option<&BackupId>) -> Result<Checked, String> {
    let mut known = place.known().await?;
    if let Some(id) = id {
        known.retain(|known, _| known == id);
        if known.is_empty() {
            return Err(place.no_such(id));
        }
    }
    let mut checked = Checked::default();
    let contents: HashMap<Digest, u64> = known.values().flatten().flat_map(distinct).collect();
    let progress = Progress::begin("check", Unit::Bytes, Some(contents.values().sum()));
    let mut read: HashMap<Digest, Option<Damage>> = HashMap::new();
    for (id, manifest) in &known {
        checked.backups += 1;
        let manifest = match manifest {
            Ok(manifest) => manifest,
            Err(what) => {
                checked.damages.push(format!("{id}: {what}"));
                continue;
            }
        };
        let damages = checked.damages.len();
        for file in &manifest.files {
            let damage = match read.entry(file.sha256) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(unread) => {
                    checked.files += 1;
                    checked.size_bytes += file.size_bytes;
                    unread.insert(place.check(file, &|bytes| progress.advance(bytes)).await.err())
                }
            };
            if let Some(damage) = damage {
                checked.damages.push(format!("{id}: {}", damage.of(place, file)));
            }
        }
        if checked.damages.len() == damages
            && let Err(what) = whole::check_contents(at, place, manifest).await
        {
            checked.damages.push(format!("{id}: {what}"));
        }
    }
    progress.finish("");
    Ok(checked)
}

/// Results of `delete`.
#[derive(Debug, Default)]
pub struct Deleted {
    pub ids: Vec<BackupId>,
    pub freed_bytes: u64,
    /// Damaged backups that are left: the files that they need are unknown, so that all files stay.
    pub unknown: Vec<BackupId>,
}

/// Deletes backups, and the contents that no other one needs. The caller has locked the place.
pub async fn delete(place: &Place, lock: &Lock, ids: &[BackupId]) -> Result<Deleted, String> {
    let mut known = place.known().await?;
    for id in ids {
        if !known.contains_key(id) {
            return Err(place.no_such(id));
        }
    }
    for id in ids {
        place.withdraw(id, lock).await?;
        known.remove(id);
    }
    let freed_bytes = place.sweep(&known, lock).await?;
    let unknown = known.into_iter().filter(|(_, manifest)| manifest.is_err()).map(|(id, _)| id).collect();
    Ok(Deleted { ids: ids.to_vec(), freed_bytes, unknown })
}

/// The backups that go when the newest complete ones of each account are kept, so many of them. Damaged ones stay: a person
/// should look at them first.
pub fn beyond_the_newest(listed: &[Listed], count: usize) -> Vec<BackupId> {
    let mut kept: HashMap<Option<&str>, usize> = HashMap::new();
    let mut beyond = Vec::new();
    let mut newest_first: Vec<&Listed> = listed.iter().collect();
    newest_first.sort_by(|left, right| right.id.cmp(&left.id));
    for listed in newest_first {
        let Ok(manifest) = &listed.manifest else { continue };
        if listed.missing_files > 0 {
            continue;
        }
        let kept = kept.entry(manifest.account.as_deref()).or_default();
        if *kept == count {
            beyond.push(listed.id.clone());
        } else {
            *kept += 1;
        }
    }
    beyond
}
