//! One version of a table: its columns, files and position.

use std::collections::BTreeMap;

use super::{Change, CommitInfo, DataFile, Metadata, VectorRef};

#[derive(Debug, Clone, PartialEq)]
pub struct Version {
    pub number: u64,
    /// Commit time in milliseconds since 1970.
    pub time: i64,
    pub info: CommitInfo,
    pub metadata: Metadata,
    /// By path.
    pub files: BTreeMap<String, DataFile>,
    pub tombstones: BTreeMap<(String, Option<VectorRef>), Tombstone>,
}

/// A file, or a file with one of its vectors, that earlier versions show.
#[derive(Debug, Clone, PartialEq)]
pub struct Tombstone {
    pub path: String,
    pub vector: Option<VectorRef>,
    pub size: u64,
    /// Milliseconds since 1970.
    pub deleted: i64,
    pub changes_rows: bool,
}

impl Tombstone {
    pub fn of(file: &DataFile, time: i64, changes_rows: bool) -> Tombstone {
        Tombstone {
            path: file.path.clone(),
            vector: file.vector.clone(),
            size: file.size,
            deleted: time,
            changes_rows,
        }
    }
}

impl Version {
    /// The first version; `None` when the commit names no columns.
    pub fn first(number: u64, change: &Change) -> Option<Version> {
        let mut version = Version {
            number,
            time: change.time,
            info: change.info.clone(),
            metadata: change.metadata.clone()?,
            files: BTreeMap::new(),
            tombstones: BTreeMap::new(),
        };
        version.apply(change);
        Some(version)
    }

    /// Becomes the next version.
    pub fn advance(&mut self, change: &Change) {
        self.number += 1;
        self.apply(change);
    }

    fn apply(&mut self, change: &Change) {
        self.time = change.time;
        self.info = change.info.clone();
        if let Some(metadata) = &change.metadata {
            self.metadata = metadata.clone();
        }
        for tombstone in &change.removed {
            self.remove(tombstone.clone());
        }
        for file in &change.added {
            self.add(file.clone());
        }
        self.forget(change.time);
    }

    pub fn remove(&mut self, tombstone: Tombstone) {
        let shown = self.files.get(&tombstone.path);
        if shown.is_some_and(|file| file.vector == tombstone.vector) {
            self.files.remove(&tombstone.path);
        }
        self.tombstones.insert((tombstone.path.clone(), tombstone.vector.clone()), tombstone);
    }

    pub fn add(&mut self, file: DataFile) {
        self.tombstones.remove(&(file.path.clone(), file.vector.clone()));
        self.files.insert(file.path.clone(), file);
    }

    /// Forgets tombstones that are older than the retention at this time.
    pub fn forget(&mut self, time: i64) {
        let oldest = time - i64::from(self.metadata.retention_hours) * 3_600_000;
        self.tombstones.retain(|_, tombstone| tombstone.deleted >= oldest);
    }

    /// Rows in files, deleted ones among them.
    pub fn rows(&self) -> u64 {
        self.files.values().map(DataFile::rows).sum()
    }

    pub fn deleted_rows(&self) -> u64 {
        self.files.values().map(DataFile::deleted_rows).sum()
    }

    pub fn bytes(&self) -> u64 {
        self.files.values().map(|file| file.size).sum()
    }
}
