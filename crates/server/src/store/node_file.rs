//! `node.json` in the data directory of a server whose account lies in an object store, and `node.lock` next to it.
//!
//! The file names the store that the certificates and keys of the directory belong to, and the name ("incarnation") under which the
//! last run had the lease. A server that holds the lock knows that this run has ended, and need not wait for the end of its lease.
//! A copy of the directory has its own lock file, so the original may still run: the incarnation does not count in a copy.

use std::io::ErrorKind;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::stored_json;

const NAME: &str = "node.json";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NodeFile {
    /// The URL of `--store`.
    store: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_run: Option<LastRun>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LastRun {
    incarnation: String,
    /// The number that the file system gave the lock file.
    lock_inode: u64,
}

/// Refuses a data directory whose account lies in a store, for a server that was started without `--store`.
pub fn check_is_not_of_a_store(data_dir: &Path) -> Result<(), String> {
    match read(data_dir)? {
        Some(file) => Err(format!(
            "the account of the data directory '{}' lies in an object store: start with --store {}, or name another --data-dir",
            data_dir.display(),
            file.store
        )),
        None => Ok(()),
    }
}

fn read(data_dir: &Path) -> Result<Option<NodeFile>, String> {
    let path = data_dir.join(NAME);
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(format!("'{}' cannot be read: {error}", path.display())),
    };
    let remedy = ": remove it, and the next start writes it anew";
    stored_json::read(&text, &format!("'{}'", path.display()), remedy).map(Some)
}

#[cfg(feature = "object-storage")]
pub use locked::LockedNode;

#[cfg(feature = "object-storage")]
mod locked {
    use std::fs::{File, TryLockError};
    use std::os::unix::fs::MetadataExt;
    use std::path::{Path, PathBuf};

    use super::{LastRun, NAME, NodeFile, read};
    use crate::private_file::{self, Secrecy};
    use crate::shards;

    const LOCK: &str = "node.lock";

    /// The data directory of a server, for as long as this is there.
    pub struct LockedNode {
        pub data_dir: PathBuf,
        lock_inode: u64,
        file: NodeFile,
        _lock: File,
    }

    impl LockedNode {
        /// Makes the directory where it is missing. Refuses a directory with data in it, of another store, or in use.
        pub fn open(data_dir: &Path, store: &str) -> Result<LockedNode, String> {
            shards::check_is_no_file(data_dir)?;
            let shown = data_dir.display();
            let cannot = |what: &str, error: &dyn std::fmt::Display| {
                format!("the data directory '{shown}' cannot be {what}: {error}")
            };
            std::fs::create_dir_all(data_dir).map_err(|error| cannot("made", &error))?;
            if shards::count(data_dir)? > 0 {
                return Err(format!(
                    "the data directory '{shown}' holds an account of its own: name another --data-dir for the certificates and keys of this one, or leave out --store"
                ));
            }
            let open = File::options().create(true).truncate(false).write(true).open(data_dir.join(LOCK));
            let lock = open.map_err(|error| cannot("locked", &error))?;
            match lock.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return Err(format!(
                        "another server uses the data directory '{shown}': stop it, or choose another --data-dir"
                    ));
                }
                Err(TryLockError::Error(error)) => return Err(cannot("locked", &error)),
            }
            let lock_inode = lock.metadata().map_err(|error| cannot("locked", &error))?.ino();
            let file = match read(data_dir)? {
                None => NodeFile { store: store.to_owned(), last_run: None },
                Some(file) if file.store == store => file,
                Some(file) => {
                    return Err(format!(
                        "the data directory '{shown}' belongs to the account in {}: name another --data-dir, or remove '{NAME}' where that account was moved",
                        file.store
                    ));
                }
            };
            let node = LockedNode { data_dir: data_dir.to_owned(), lock_inode, file, _lock: lock };
            node.write(&node.file)?;
            Ok(node)
        }

        /// The run before this one, which has ended.
        pub fn former(&self) -> Option<String> {
            let last = self.file.last_run.as_ref();
            last.filter(|last| last.lock_inode == self.lock_inode).map(|last| last.incarnation.clone())
        }

        /// This run has the lease.
        pub fn remember(&self, incarnation: &str) -> Result<(), String> {
            let last = LastRun { incarnation: incarnation.to_owned(), lock_inode: self.lock_inode };
            self.write(&NodeFile { last_run: Some(last), ..self.file.clone() })
        }

        fn write(&self, file: &NodeFile) -> Result<(), String> {
            let mut text = serde_json::to_vec_pretty(file).map_err(|error| error.to_string())?;
            text.push(b'\n');
            let path = self.data_dir.join(NAME);
            private_file::write(&path, &text, Secrecy::Public)
                .map_err(|error| format!("'{}' cannot be written: {error}", path.display()))
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn refused(data_dir: &Path, store: &str) -> String {
            LockedNode::open(data_dir, store).err().expect("refused")
        }

        #[test]
        fn a_directory_has_one_server_and_one_store() {
            let data = tempfile::tempdir().expect("a directory");
            let data_dir = data.path().join("node");
            let first = LockedNode::open(&data_dir, "file:///a").expect("free");
            assert_eq!(first.former(), None);
            first.remember("run 1").expect("written");
            assert!(refused(&data_dir, "file:///a").contains("another server"));
            drop(first);
            assert!(refused(&data_dir, "file:///b").contains("file:///a"));
            let again = LockedNode::open(&data_dir, "file:///a").expect("free");
            assert_eq!(again.former().as_deref(), Some("run 1"));
            assert!(
                super::super::check_is_not_of_a_store(&data_dir).expect_err("of a store").contains("--store")
            );
        }

        #[test]
        fn a_copy_does_not_count_as_ended() {
            let data = tempfile::tempdir().expect("a directory");
            let (original, copy) = (data.path().join("original"), data.path().join("copy"));
            let running = LockedNode::open(&original, "file:///a").expect("free");
            running.remember("run 1").expect("written");
            std::fs::create_dir(&copy).expect("made");
            for name in [NAME, LOCK] {
                std::fs::copy(original.join(name), copy.join(name)).expect("copied");
            }
            assert_eq!(LockedNode::open(&copy, "file:///a").expect("free").former(), None);
        }

        #[test]
        fn a_directory_with_data_is_refused() {
            let data = tempfile::tempdir().expect("a directory");
            std::fs::create_dir(data.path().join("shard")).expect("made");
            assert!(refused(data.path(), "file:///a").contains("of its own"));
        }
    }
}
