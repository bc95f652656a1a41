//! Disk space of the files of a directory.
//!
//! Allocated blocks are counted, not lengths: a journal is as long as it may become from its first byte on, and its holes take
//! nothing. A file with several names, as tables have that a checkpoint keeps, counts once. Files that are removed meanwhile
//! count or do not.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The unit of `st_blocks` for every disk.
const BLOCK_BYTES: u64 = 512;

/// Bytes that everything below a directory takes.
pub(crate) fn allocated_bytes(directory: &Path) -> io::Result<u64> {
    let (mut total, mut seen) = (0, HashSet::new());
    let mut open: Vec<PathBuf> = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        let Some(entries) = found(fs::read_dir(&directory))? else { continue };
        for entry in entries {
            let entry = entry?;
            let Some(metadata) = found(entry.metadata())? else { continue };
            if metadata.is_dir() {
                open.push(entry.path());
            } else if metadata.nlink() == 1 || seen.insert((metadata.dev(), metadata.ino())) {
                total += metadata.blocks() * BLOCK_BYTES;
            }
        }
    }
    Ok(total)
}

fn found<T>(outcome: io::Result<T>) -> io::Result<Option<T>> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        outcome => outcome.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_take_nothing_and_a_file_with_two_names_counts_once() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        fs::create_dir(path("tables")).expect("created");
        fs::write(path("tables/1"), vec![7; 1 << 20]).expect("written");
        let sole = allocated_bytes(directory.path()).expect("counted");
        assert!((1 << 20..2 << 20).contains(&sole), "{sole}");
        fs::hard_link(path("tables/1"), path("kept")).expect("linked");
        let hole = fs::File::create(path("0.jnl")).expect("created");
        hole.set_len(64 << 20).expect("extended");
        assert_eq!(allocated_bytes(directory.path()).expect("counted"), sole);
        assert_eq!(allocated_bytes(&path("none")).expect("nothing is there"), 0);
    }
}
