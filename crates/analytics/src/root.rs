//! The place of all tables: a directory, or a folder of an object store (feature `object-storage`).

use std::fmt;
use std::path::{Path, PathBuf};
#[cfg(feature = "table")]
use std::sync::Arc;

#[cfg(all(feature = "table", feature = "object-storage"))]
use shardlake_analytical_table::store::ObjectTableStore;
#[cfg(feature = "table")]
use shardlake_analytical_table::store::{LocalStore, StoreError, TableStore};

/// Cheap to clone.
#[derive(Debug, Clone)]
pub enum Root {
    Directory(PathBuf),
    /// With its address, which holds no secrets.
    #[cfg(all(feature = "table", feature = "object-storage"))]
    Store {
        url: String,
        files: ObjectTableStore,
    },
}

impl Root {
    /// Address of a folder for readers.
    pub fn address(&self, folder: &str) -> String {
        match self {
            Root::Directory(root) => root.join(folder).display().to_string(),
            #[cfg(all(feature = "table", feature = "object-storage"))]
            Root::Store { url, .. } => format!("{}/{folder}", url.trim_end_matches('/')),
        }
    }

    /// `None` for a folder of an object store.
    pub fn directory(&self) -> Option<&Path> {
        match self {
            Root::Directory(root) => Some(root),
            #[cfg(all(feature = "table", feature = "object-storage"))]
            Root::Store { .. } => None,
        }
    }
}

#[cfg(feature = "table")]
impl Root {
    /// All files below the root.
    pub(crate) fn files(&self) -> Result<Arc<dyn TableStore>, StoreError> {
        match self {
            Root::Directory(root) => Ok(Arc::new(LocalStore::open(root)?)),
            #[cfg(feature = "object-storage")]
            Root::Store { files, .. } => Ok(Arc::new(files.clone())),
        }
    }

    /// The files of a folder, which exists afterwards.
    pub(crate) fn folder(&self, folder: &str) -> Result<Arc<dyn TableStore>, StoreError> {
        match self {
            Root::Directory(root) => Ok(Arc::new(LocalStore::open(&root.join(folder))?)),
            #[cfg(feature = "object-storage")]
            Root::Store { files, .. } => Ok(Arc::new(files.below(folder))),
        }
    }

    /// Deletes a folder with all its files.
    pub(crate) fn remove(&self, folder: &str) -> Result<(), String> {
        match self {
            Root::Directory(root) => remove_directory(&root.join(folder)),
            #[cfg(feature = "object-storage")]
            Root::Store { files, .. } => files.below(folder).clear().map_err(|error| error.to_string()),
        }
    }
}

/// Deletes a directory; a missing one is no error.
#[cfg(feature = "table")]
pub(crate) fn remove_directory(path: &Path) -> Result<(), String> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {error}", path.display()))
        }
        _ => Ok(()),
    }
}

impl fmt::Display for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Root::Directory(root) => root.display().fmt(f),
            #[cfg(all(feature = "table", feature = "object-storage"))]
            Root::Store { url, .. } => f.write_str(url),
        }
    }
}

/// Roots are equal where they are one place.
impl PartialEq for Root {
    fn eq(&self, other: &Root) -> bool {
        self.directory() == other.directory() && self.to_string() == other.to_string()
    }
}

impl Eq for Root {}
