//! Free space of a disk.

use std::io;
use std::path::Path;

/// Size and free space of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSpace {
    pub size_bytes: u64,
    /// Bytes that this process may still store.
    pub free_bytes: u64,
}

/// The file system on which a file or directory lies.
pub fn disk_space(path: &Path) -> io::Result<DiskSpace> {
    let disk = rustix::fs::statvfs(path)?;
    let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
    Ok(DiskSpace { size_bytes: bytes(disk.f_blocks), free_bytes: bytes(disk.f_bavail) })
}

/// Bytes that this process may still store where a file or directory lies.
pub fn free_disk_bytes(path: &Path) -> io::Result<u64> {
    disk_space(path).map(|space| space.free_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_says_what_is_free_and_a_missing_place_does_not() {
        let space = disk_space(Path::new(".")).expect("a file system");
        assert!(space.free_bytes <= space.size_bytes && space.size_bytes > 0, "{space:?}");
        assert!(free_disk_bytes(Path::new("/nowhere/at/all")).is_err());
    }
}
