//! The directory that holds backups, and what may be done in it at the same time.
//!
//! | path | what it is |
//! |---|---|
//! | `FORMAT` | one line, so that no other directory is taken for one of these |
//! | `LOCK` | held alone by who makes or deletes backups, shared by who reads them; it goes with the process |
//! | `objects/ab/cd…` | a content, by its SHA-256: whichever backups have it, it lies here once |
//! | `backups/ID.manifest` | the list of what a backup consists of, written last and replaced by nobody |
//! | `unfinished/N` | a content on its way here |
//!
//! A crash at any moment leaves complete backups and, beside them, contents that no manifest names. These go when the next
//! backup is made or deleted.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::digest::Digest;
use super::identifier::BackupId;
use super::manifest::Manifest;
use crate::private_file::{self, Secrecy};

const FORMAT: &str = "shardlake backups 1\n";
const ENDING: &str = ".manifest";
/// Of a manifest: half a million files.
const MANIFEST_BYTES_MAX: u64 = 256 << 20;

#[derive(Debug)]
pub struct Place(PathBuf);

/// Keeps others out, or those who change something.
#[derive(Debug)]
pub struct Lock(#[allow(dead_code)] Option<File>); // held until it is dropped

/// Backups by id; of a damaged one, what is wrong with it.
pub type Known = BTreeMap<BackupId, Result<Manifest, String>>;

/// A URL would name a directory of that name otherwise.
pub fn check_is_local(path: &Path) -> Result<(), String> {
    match path.to_string_lossy().contains("://") {
        true => Err(format!(
            "'{}' is a place in an object store, and this command works on local directories only",
            path.display()
        )),
        false => Ok(()),
    }
}

/// Whether a directory says of itself that it holds backups.
pub fn holds_backups(directory: &Path) -> bool {
    fs::read(directory.join("FORMAT")).is_ok_and(|found| found == FORMAT.as_bytes())
}

impl Place {
    pub fn open(directory: &Path) -> Result<Place, String> {
        check_is_local(directory)?;
        match fs::read(directory.join("FORMAT")) {
            Ok(found) if found == FORMAT.as_bytes() => Ok(Place(directory.to_owned())),
            Ok(found) if found.starts_with(b"shardlake backups ") => {
                Err(format!("'{}' holds backups of another version of this program", directory.display()))
            }
            Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                Err(format!("'{}' cannot be read: {error}", directory.join("FORMAT").display()))
            }
            _ => Err(format!(
                "'{}' holds no backups: there is no FORMAT file of theirs in it",
                directory.display()
            )),
        }
    }

    /// Makes it where there is nothing, or an empty directory.
    pub fn open_or_make(directory: &Path) -> Result<Place, String> {
        check_is_local(directory)?;
        let failed =
            |error: io::Error| format!("'{}' cannot be used for backups: {error}", directory.display());
        if !directory.exists() {
            DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
        }
        if !directory.join("FORMAT").exists() {
            // What a crash may have left of the very first step.
            let is_ours = |entry: &fs::DirEntry| entry.file_name() == "FORMAT.new";
            for entry in fs::read_dir(directory).map_err(failed)? {
                if !is_ours(&entry.map_err(failed)?) {
                    return Err(format!(
                        "'{}' holds something else than backups: name an empty directory, or one that does not exist",
                        directory.display()
                    ));
                }
            }
            private_file::write(&directory.join("FORMAT"), FORMAT.as_bytes(), Secrecy::Secret)
                .map_err(failed)?;
        }
        let place = Place::open(directory)?;
        for name in ["objects", "backups", "unfinished"] {
            make_directory(&directory.join(name)).map_err(failed)?;
        }
        Ok(place)
    }

    /// For who makes or deletes backups.
    pub fn lock_alone(&self) -> Result<Lock, String> {
        let lock =
            OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(self.0.join("LOCK"));
        let lock = lock.map_err(|error| self.unusable(&error))?;
        match lock.try_lock() {
            Ok(()) => Ok(Lock(Some(lock))),
            Err(TryLockError::WouldBlock) => Err(self.in_use()),
            Err(TryLockError::Error(error)) => Err(self.unusable(&error)),
        }
    }

    /// For who reads them, perhaps from media that cannot be written.
    pub fn lock_for_reading(&self) -> Result<Lock, String> {
        let lock = match File::open(self.0.join("LOCK")) {
            Ok(lock) => lock,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Lock(None)),
            Err(error) => return Err(self.unusable(&error)),
        };
        match lock.try_lock_shared() {
            Ok(()) => Ok(Lock(Some(lock))),
            Err(TryLockError::WouldBlock) => Err(self.in_use()),
            Err(TryLockError::Error(error)) => Err(self.unusable(&error)),
        }
    }

    /// All backups there are, also damaged ones.
    pub fn known(&self) -> Result<Known, String> {
        let directory = self.0.join("backups");
        let failed = |error: io::Error| format!("'{}' cannot be read: {error}", directory.display());
        let mut known = Known::new();
        for name in names(&directory).map_err(failed)? {
            let id = name.strip_suffix(ENDING).and_then(|id| id.parse().ok());
            if let Some(id) = id {
                let manifest = self.manifest(&id);
                known.insert(id, manifest);
            }
        }
        Ok(known)
    }

    /// One backup, or the newest.
    pub fn find(&self, id: Option<&BackupId>) -> Result<Manifest, String> {
        let id = match id {
            Some(id) => id.clone(),
            None => {
                let newest = self.known()?.into_keys().next_back();
                newest.ok_or_else(|| format!("there is no backup in '{}'", self.0.display()))?
            }
        };
        self.manifest(&id)
    }

    fn manifest(&self, id: &BackupId) -> Result<Manifest, String> {
        let path = self.manifest_path(id);
        let mut content = Vec::new();
        let read = File::open(&path).and_then(|file| file.take(MANIFEST_BYTES_MAX).read_to_end(&mut content));
        match read {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(self.no_such(id));
            }
            read => read.map_err(|error| format!("'{}' cannot be read: {error}", path.display()))?,
        };
        let manifest =
            Manifest::decode(&content).map_err(|what| format!("the manifest '{}' {what}", path.display()))?;
        if manifest.id != *id {
            return Err(format!(
                "the manifest '{}' is that of another backup, '{}'",
                path.display(),
                manifest.id
            ));
        }
        Ok(manifest)
    }

    pub fn no_such(&self, id: &BackupId) -> String {
        format!(
            "there is no backup '{id}' in '{}': `shardlake backup list` shows those there are",
            self.0.display()
        )
    }

    pub fn manifest_path(&self, id: &BackupId) -> PathBuf {
        self.0.join("backups").join(format!("{id}{ENDING}"))
    }

    pub fn object_path(&self, digest: &Digest) -> PathBuf {
        let text = digest.to_string();
        let (folder, rest) = text.split_at(2);
        self.0.join("objects").join(folder).join(rest)
    }

    pub fn unfinished(&self) -> PathBuf {
        self.0.join("unfinished")
    }

    /// Whether a content is there, as far as its size tells.
    pub fn has(&self, digest: &Digest, size_bytes: u64) -> bool {
        fs::metadata(self.object_path(digest)).is_ok_and(|found| found.is_file() && found.len() == size_bytes)
    }

    /// Makes a backup exist: everything that it names is on stable storage.
    pub fn publish(&self, manifest: &Manifest) -> Result<(), String> {
        let path = self.manifest_path(&manifest.id);
        let failed =
            |error: io::Error| format!("the manifest '{}' cannot be written: {error}", path.display());
        let folders: HashSet<PathBuf> = manifest
            .files
            .iter()
            .filter_map(|file| Some(self.object_path(&file.sha256).parent()?.to_owned()))
            .collect();
        for folder in folders.iter().map(PathBuf::as_path).chain([&*self.0.join("objects"), &*self.0]) {
            sync_directory(folder).map_err(failed)?;
        }
        private_file::write(&path, &manifest.encode()?, Secrecy::Secret).map_err(failed)
    }

    /// From here on the backup does not exist; what nobody else needs goes with [`Place::sweep`].
    pub fn withdraw(&self, id: &BackupId) -> Result<(), String> {
        let path = self.manifest_path(id);
        let removed = fs::remove_file(&path).and_then(|()| sync_directory(&self.0.join("backups")));
        removed.map_err(|error| format!("'{}' cannot be removed: {error}", path.display()))
    }

    /// Removes what no backup needs, and gives how many bytes that were. Where a manifest is damaged nobody knows what is
    /// needed: then only what never became a content goes.
    pub fn sweep(&self, known: &Known) -> Result<u64, String> {
        let failed = |error: io::Error| format!("'{}' cannot be cleared: {error}", self.0.display());
        let is_half = |name: &str| name.ends_with(".new");
        let mut freed = remove_files(&self.unfinished(), |_| true).map_err(failed)?;
        freed += remove_files(&self.0.join("backups"), is_half).map_err(failed)?;
        let Some(needed) = needed(known) else { return Ok(freed) };
        let objects = self.0.join("objects");
        for folder in names(&objects).map_err(failed)? {
            let is_needless = |rest: &str| {
                format!("{folder}{rest}").parse::<Digest>().map_or(true, |digest| !needed.contains(&digest))
            };
            freed += remove_files(&objects.join(&folder), is_needless).map_err(failed)?;
        }
        Ok(freed)
    }

    fn in_use(&self) -> String {
        format!("'{}' is in use by another `shardlake backup`: wait for its end", self.0.display())
    }

    fn unusable(&self, error: &io::Error) -> String {
        format!("'{}' cannot be locked: {error}", self.0.join("LOCK").display())
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

/// Makes a directory that may be there, for its owner alone.
pub fn make_directory(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

pub fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

fn names(directory: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

fn remove_files(directory: &Path, is_needless: impl Fn(&str) -> bool) -> io::Result<u64> {
    let mut freed = 0;
    for name in names(directory)?.iter().filter(|name| is_needless(name)) {
        let path = directory.join(name);
        let found = fs::symlink_metadata(&path)?;
        if !found.is_dir() {
            fs::remove_file(&path)?;
            freed += found.len();
        }
    }
    Ok(freed)
}
