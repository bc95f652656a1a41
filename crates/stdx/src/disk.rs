//! Free space of a disk.

use std::io;
use std::path::Path;

/// Bytes that this process may still store where a file or directory lies.
pub fn free_disk_bytes(path: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(path)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_says_what_is_free_and_a_missing_place_does_not() {
        assert!(free_disk_bytes(Path::new(".")).is_ok());
        assert!(free_disk_bytes(Path::new("/nowhere/at/all")).is_err());
    }
}
