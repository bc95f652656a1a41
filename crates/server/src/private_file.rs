//! Files in the data directory that must be whole and, where they hold secrets, readable by their owner only.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secrecy {
    Secret,
    Public,
}

/// Writes a file so that a crash leaves the old one or the new one, never a part.
pub fn write(path: &Path, content: &[u8], secrecy: Secrecy) -> io::Result<()> {
    replace(path, content, secrecy, sync_directory)?.map_or(Ok(()), Err)
}

/// The same. After an error, the old file is in its place. `Some` error: the new file is, and readers see it, but its
/// directory was not synced, so that a power cut may bring back the old one.
pub fn replace(
    path: &Path,
    content: &[u8],
    secrecy: Secrecy,
    sync: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<Option<io::Error>> {
    let mode = match secrecy {
        Secrecy::Secret => 0o600,
        Secrecy::Public => 0o644,
    };
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let temporary = path.with_file_name(name);
    // A leftover of a crash might have another mode.
    let _none_is_fine = fs::remove_file(&temporary);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    Ok(directory.and_then(|directory| sync(directory).err()))
}

pub fn sync_directory(directory: &Path) -> io::Result<()> {
    fs::File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_not_synced_has_the_new_file_and_an_error_before_leaves_the_old_one() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("file");
        write(&path, b"old", Secrecy::Secret).expect("written");
        let unsynced = replace(&path, b"new", Secrecy::Secret, |_| Err(io::Error::other("no sync")));
        assert_eq!(unsynced.expect("in its place").expect("a reason").to_string(), "no sync");
        assert_eq!(fs::read(&path).expect("there"), b"new");
        // A directory cannot be replaced by a file.
        let taken = place.path().join("taken");
        fs::create_dir(&taken).expect("made");
        assert!(replace(&taken, b"new", Secrecy::Secret, |_| Ok(())).is_err() && taken.is_dir());
    }
}
