//! The place of all tables: a directory, or a folder of an object store (feature `object-storage`).

use std::fmt;
use std::path::{Path, PathBuf};
#[cfg(feature = "table")]
use std::sync::Arc;

#[cfg(all(feature = "table", feature = "object-storage"))]
use shardlake_analytical_table::store::ObjectTableStore;
#[cfg(feature = "table")]
use shardlake_analytical_table::store::{LocalStore, StoreError, StoreErrorKind, TableStore};

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
            Root::Store { url, .. } => format!("{}/{}", url.trim_end_matches('/'), in_store(folder)),
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

/// Name of the account whose tables lie below a root.
#[cfg(feature = "table")]
const OWNER: &str = "tables-of";

#[cfg(feature = "table")]
impl Root {
    /// Notes the account at its first call; refuses another account, whose tables would take the place of the first one's. The thread
    /// may block.
    pub fn claim(&self, account: &str) -> Result<(), String> {
        let unusable = |error: StoreError| format!("'{self}' cannot be used for tables: {error}");
        let files = self.files().map_err(unusable)?;
        match files.create_if_absent(OWNER, account.as_bytes()) {
            Err(error) if error.kind != StoreErrorKind::Exists => return Err(unusable(error)),
            _ => {}
        }
        match files.read(OWNER).map_err(unusable)? {
            owner if owner == account.as_bytes() => Ok(()),
            _ => Err(format!(
                "'{self}' has the tables of another account: name another --analytics-root; if that account is gone, empty it"
            )),
        }
    }

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
            Root::Store { files, .. } => Ok(Arc::new(files.below(&in_store(folder)))),
        }
    }

    /// Deletes a folder with all its files.
    pub(crate) fn remove(&self, folder: &str) -> Result<(), String> {
        match self {
            Root::Directory(root) => remove_directory(&root.join(folder)),
            #[cfg(feature = "object-storage")]
            Root::Store { files, .. } => {
                files.below(&in_store(folder)).clear().map_err(|error| error.to_string())
            }
        }
    }
}

/// A folder's name in a store. Readers whose library is that of delta-rs escape `~` once more, and then miss the table's vectors.
/// A name has no `@` of its own, because that is escaped.
#[cfg(all(feature = "table", feature = "object-storage"))]
fn in_store(folder: &str) -> String {
    folder.replace('~', "@")
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
