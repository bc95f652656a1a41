//! Log lines at the start about the place of the data: a directory with foreign files, a disk that is nearly full.

use std::path::Path;

use crate::shards;

/// Below this, log and tables may fill the disk within minutes of writes.
const FREE_BYTES_MIN: u64 = 2 << 30;
/// Names of this program in a data directory; shards and files that begin with a dot are known otherwise.
const OWN: [&str; 11] = [
    "account.json",
    "keys.json",
    "tls",
    "node.json",
    "node.lock",
    "heat",
    "RESTORING",
    "MOVED",
    "COPIED",
    "last-backup.json",
    // Of the file system.
    "lost+found",
];
const NAMED_MAX: usize = 3;

/// A directory of backups looks new to a server, which would make an empty account between them.
pub fn check_holds_no_backups(data_dir: &Path) -> Result<(), String> {
    match std::fs::read(data_dir.join("FORMAT")) {
        Ok(format) if format.starts_with(b"shardlake backups ") => Err(format!(
            "'{0}' holds backups: `shardlake backup restore --from {0} --data-dir DIRECTORY` makes a data directory of one",
            data_dir.display()
        )),
        _ => Ok(()),
    }
}

/// The state of a data directory before its shards are opened.
pub struct Found {
    foreign: Option<String>,
    is_new: bool,
    free_bytes: Option<u64>,
}

pub fn look(data_dir: &Path) -> Found {
    Found { foreign: foreign(data_dir), is_new: is_new(data_dir), free_bytes: scarce(data_dir) }
}

/// Logs a new account, foreign files and a nearly full disk. Called after the shards are open: a refused start reports only its reason.
pub fn log(found: Found, data_dir: &Path) {
    if let Some(names) = found.foreign {
        tracing::info!(
            directory = %data_dir.display(),
            files = %names,
            "the data directory is new and holds files of other programs: --data-dir names another place"
        );
    }
    if found.is_new {
        tracing::info!(directory = %data_dir.display(), "no data is there: an empty account is made");
    }
    if let Some(free) = found.free_bytes {
        tracing::warn!(
            directory = %data_dir.display(),
            free_megabytes = free / 1_000_000,
            "the disk of the data directory is nearly full: writes are refused when it is full"
        );
    }
}

fn is_new(data_dir: &Path) -> bool {
    match std::fs::read_dir(data_dir) {
        Ok(entries) => !entries.flatten().any(|entry| shards::is_name(&entry.file_name().to_string_lossy())),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// The first names of other programs' files, where no shard lies yet.
fn foreign(data_dir: &Path) -> Option<String> {
    let entries = std::fs::read_dir(data_dir).ok()?;
    let names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    if names.iter().any(|name| shards::is_name(name)) {
        return None;
    }
    let mut foreign: Vec<String> =
        names.into_iter().filter(|name| !OWN.contains(&name.as_str()) && !name.starts_with('.')).collect();
    foreign.sort();
    let more = foreign.len().saturating_sub(NAMED_MAX);
    foreign.truncate(NAMED_MAX);
    match more {
        _ if foreign.is_empty() => None,
        0 => Some(foreign.join(", ")),
        more => Some(format!("{} and {more} more", foreign.join(", "))),
    }
}

/// The free bytes, where they are few. The directory may not exist yet: then its parent's disk counts.
fn scarce(data_dir: &Path) -> Option<u64> {
    let existing = data_dir.ancestors().find(|path| path.exists())?;
    let free = shardlake_stdx::free_disk_bytes(existing).ok()?;
    (free < FREE_BYTES_MIN).then_some(free)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_files_are_named_until_a_shard_lies_there() {
        let directory = tempfile::tempdir().expect("a directory");
        let make = |name: &str| std::fs::write(directory.path().join(name), "x").expect("a file");
        assert_eq!(foreign(directory.path()), None);
        for name in ["account.json", ".profile", "keys.json"] {
            make(name);
        }
        assert_eq!(foreign(directory.path()), None, "its own files are not foreign");
        for name in ["b.txt", "a.txt", "d", "c"] {
            make(name);
        }
        assert_eq!(foreign(directory.path()).as_deref(), Some("a.txt, b.txt, c and 1 more"));
        std::fs::create_dir(directory.path().join("shard")).expect("a shard");
        assert_eq!(foreign(directory.path()), None);
    }

    #[test]
    fn a_directory_that_does_not_exist_is_on_its_parents_disk() {
        let directory = tempfile::tempdir().expect("a directory");
        let free = shardlake_stdx::free_disk_bytes(directory.path()).expect("it says");
        assert_eq!(scarce(&directory.path().join("a/b")).is_some(), free < FREE_BYTES_MIN);
    }
}
