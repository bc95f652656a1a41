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
    match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => fs::File::open(directory)?.sync_all(),
        _ => Ok(()),
    }
}
