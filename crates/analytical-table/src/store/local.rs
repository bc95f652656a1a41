//! Tables in a folder of a local disk: folders 0700, files 0600, each file and its folder synced.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::UNIX_EPOCH;

use bytes::Bytes;

use super::{StoreError, StoreWriter, StoredFile, TableStore};

/// Numbers temporary names within the process.
static TEMPORARY: AtomicU64 = AtomicU64::new(0);

#[derive(Debug, Clone)]
pub struct LocalStore {
    root: Arc<Path>,
}

impl LocalStore {
    /// Creates the folder when it is missing.
    pub fn open(root: &Path) -> Result<LocalStore, StoreError> {
        create_folders(root).map_err(|error| StoreError::of(&root.display().to_string(), &error))?;
        Ok(LocalStore { root: root.into() })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    fn at(&self, path: &str) -> PathBuf {
        let is_inside = path.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
        assert!(is_inside, "a path below the store's folder: {path:?}");
        self.root.join(path)
    }

    fn begin(&self, path: &str) -> io::Result<LocalWriter> {
        let target = self.at(path);
        let folder = target.parent().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        create_folders(&folder)?;
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        let number = TEMPORARY.fetch_add(1, Ordering::Relaxed);
        let temporary = folder.join(format!(".{name}.{}-{number}.tmp", std::process::id()));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        Ok(LocalWriter { path: path.to_owned(), target, folder, temporary: Some(temporary), file })
    }
}

impl TableStore for LocalStore {
    fn read(&self, path: &str) -> Result<Bytes, StoreError> {
        fs::read(self.at(path)).map(Bytes::from).map_err(|error| StoreError::of(path, &error))
    }

    fn read_range(&self, path: &str, offset: u64, length: usize) -> Result<Bytes, StoreError> {
        let mut bytes = vec![0; length];
        let read = File::open(self.at(path)).and_then(|file| file.read_exact_at(&mut bytes, offset));
        read.map_err(|error| StoreError::of(path, &error))?;
        Ok(Bytes::from(bytes))
    }

    fn size(&self, path: &str) -> Result<u64, StoreError> {
        let found = fs::metadata(self.at(path)).map_err(|error| StoreError::of(path, &error))?;
        Ok(found.len())
    }

    fn write(&self, path: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let mut writer = self.begin(path).map_err(|error| StoreError::of(path, &error))?;
        let written = writer.write_all(bytes).and_then(|()| writer.rename());
        written.map_err(|error| StoreError::of(path, &error))
    }

    fn writer(&self, path: &str) -> Result<Box<dyn StoreWriter>, StoreError> {
        Ok(Box::new(self.begin(path).map_err(|error| StoreError::of(path, &error))?))
    }

    fn create_if_absent(&self, path: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let mut writer = self.begin(path).map_err(|error| StoreError::of(path, &error))?;
        let written = writer.write_all(bytes).and_then(|()| writer.link());
        written.map_err(|error| StoreError::of(path, &error))
    }

    fn list(&self, folder: &str) -> Result<Vec<StoredFile>, StoreError> {
        let mut found = Vec::new();
        let start = if folder.is_empty() { self.root.to_path_buf() } else { self.at(folder) };
        list_into(&start, folder, &mut found).map_err(|error| StoreError::of(folder, &error))?;
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    fn delete(&self, path: &str) -> Result<(), StoreError> {
        match fs::remove_file(self.at(path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::of(path, &error)),
            _ => Ok(()),
        }
    }
}

struct LocalWriter {
    path: String,
    target: PathBuf,
    folder: PathBuf,
    temporary: Option<PathBuf>,
    file: File,
}

impl LocalWriter {
    fn rename(&mut self) -> io::Result<()> {
        self.file.sync_all()?;
        if let Some(temporary) = &self.temporary {
            fs::rename(temporary, &self.target)?;
        }
        self.temporary = None;
        sync_folder(&self.folder)
    }

    /// The link fails when the name exists, so one of several writers wins.
    fn link(&mut self) -> io::Result<()> {
        self.file.sync_all()?;
        if let Some(temporary) = &self.temporary {
            fs::hard_link(temporary, &self.target)?;
        }
        sync_folder(&self.folder)
    }
}

impl Write for LocalWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl StoreWriter for LocalWriter {
    fn finish(mut self: Box<Self>) -> Result<(), StoreError> {
        let path = std::mem::take(&mut self.path);
        self.rename().map_err(|error| StoreError::of(&path, &error))
    }
}

impl Drop for LocalWriter {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // A file that stays behind is deleted by vacuum.
            let _ = fs::remove_file(temporary);
        }
    }
}

/// Creates missing folders, and syncs the parent of each one.
fn create_folders(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    if let Some(parent) = folder.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        create_folders(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    match folder.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => sync_folder(parent),
        None => Ok(()),
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn list_into(folder: &Path, prefix: &str, found: &mut Vec<StoredFile>) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
        let metadata = match entry.metadata() {
            Ok(metadata) => metadata,
            // Another file operation deleted it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        if metadata.is_dir() {
            list_into(&entry.path(), &path, found)?;
        } else {
            let modified = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
            found.push(StoredFile { path, size: metadata.len(), modified: modified.as_millis() as i64 });
        }
    }
    Ok(())
}
