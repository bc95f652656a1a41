//! Vacuum: deletes files that no retained version names.

use std::collections::BTreeSet;

use super::core::Core;
use super::files::key_path;
use super::options::Location;
use crate::error::TableError;

/// Files that no log names are deleted at this age: they may belong to work that is not committed.
const UNNAMED_AGE: i64 = 24 * 3_600_000;

/// Numbers of deleted files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Vacuumed {
    pub files: usize,
    pub log_files: usize,
    pub key_files: usize,
}

/// Deletes everything that is out of the retention. `building` is a generation whose files the
/// serving log does not name yet.
pub fn vacuum(core: &mut Core, building: Option<u32>, now: i64) -> Result<Vacuumed, TableError> {
    core.check()?;
    assert!(core.files.base.is_empty(), "generations that are being built need no vacuum");
    // The log as it is in the store decides, not the state in memory.
    let mut version = core.log.newest()?.ok_or(TableError::Missing)?;
    if version.number != core.version.number {
        return Err(TableError::AnotherWriter { version: version.number });
    }
    assert_eq!(version.files, core.version.files, "the log has the files of the table");
    version.forget(now);
    let retention = i64::from(version.metadata.retention_hours) * 3_600_000;
    let mut done = Vacuumed::default();
    for path in core.log.obsolete(&version, now - retention)? {
        core.files.store.delete(&path)?;
        done.log_files += 1;
    }
    let files = version.files.values().map(|file| (&file.path, &file.vector));
    let tombstones = version.tombstones.values().map(|tombstone| (&tombstone.path, &tombstone.vector));
    let named: BTreeSet<&str> = files
        .chain(tombstones)
        .flat_map(|(path, vector)| {
            let vector = vector.as_ref().map(|vector| vector.path.as_str());
            std::iter::once(path.as_str()).chain(vector)
        })
        .collect();
    let building = building.map(|generation| Location::Building(generation).base());
    let mut kept_keys: BTreeSet<String> = named.iter().map(|path| key_path(path)).collect();
    for file in core.files.store.list("")? {
        let is_own_log = file.path.starts_with("_delta_log/") && !file.path.ends_with(".tmp");
        let is_built = building.as_ref().is_some_and(|base| file.path.starts_with(base));
        let is_young = file.modified > now - UNNAMED_AGE.max(retention);
        if is_own_log || is_built || is_young || named.contains(file.path.as_str()) {
            kept_keys.insert(key_path(&file.path));
        } else {
            core.files.store.delete(&file.path)?;
            done.files += 1;
        }
    }
    for file in core.files.keys.list("")? {
        // The follower has files of its own in this folder.
        let is_ours = file.path.ends_with(".keys") || file.path.ends_with(".tmp");
        if is_ours && !kept_keys.contains(&file.path) && file.modified <= now - UNNAMED_AGE {
            core.files.keys.delete(&file.path)?;
            done.key_files += 1;
        }
    }
    Ok(done)
}
