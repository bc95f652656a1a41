// Copyright (c) 2024-present, fjall-rs
// This source code is licensed under both the Apache 2.0 and MIT License
// (found in the LICENSE-* files in the repository)

use crate::{
    compaction::state::CompactionState,
    config::{Config, KeyKinds},
    memtable::Memtable,
    tree::sealed::SealedMemtables,
    version::{persist_version, Version},
    SeqNo, SequenceNumberCounter,
};
use std::{
    collections::VecDeque,
    path::Path,
    sync::{Arc, MutexGuard, RwLock},
};

/// A super version is a point-in-time snapshot of memtables and a [`Version`] (list of disk files)
#[derive(Clone)]
pub struct SuperVersion {
    /// Active memtable that is being written to
    #[doc(hidden)]
    pub active_memtable: Arc<Memtable>,

    /// Frozen memtables that are being flushed
    pub(crate) sealed_memtables: Arc<SealedMemtables>,

    /// Current tree version
    pub(crate) version: Version,

    pub(crate) seqno: SeqNo,
}

pub struct SuperVersions(VecDeque<SuperVersion>);

impl SuperVersions {
    pub fn new(version: Version, kinds: KeyKinds) -> Self {
        Self(
            vec![SuperVersion {
                active_memtable: Arc::new(Memtable::of_kinds(0, kinds)),
                sealed_memtables: Arc::default(),
                version,
                seqno: 0,
            }]
            .into(),
        )
    }

    pub fn memtable_size_sum(&self) -> u64 {
        let mut set = crate::HashMap::default();

        for super_version in &self.0 {
            set.entry(super_version.active_memtable.id)
                .and_modify(|bytes| *bytes += super_version.active_memtable.size())
                .or_insert_with(|| super_version.active_memtable.size());

            for sealed in super_version.sealed_memtables.iter() {
                set.entry(sealed.id)
                    .and_modify(|bytes| *bytes += sealed.size())
                    .or_insert_with(|| sealed.size());
            }
        }

        set.into_values().sum()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn free_list_len(&self) -> usize {
        self.len().saturating_sub(1)
    }

    /// Takes off the list what no snapshot at or above the watermark can ask for.
    ///
    /// The caller drops its lock before [`RetiredVersions::delete`]: files are unlinked by that,
    /// and memtables freed, which takes long.
    #[must_use]
    pub fn retire(&mut self, gc_watermark: SeqNo) -> RetiredVersions {
        let newest_needed = if gc_watermark == 0 {
            None
        } else {
            self.0.iter().rposition(|x| x.seqno < gc_watermark)
        };

        RetiredVersions(self.0.drain(..newest_needed.unwrap_or_default()).collect())
    }

    pub fn append_version(&mut self, version: SuperVersion) {
        self.0.push_back(version);
    }

    pub fn replace_latest_version(&mut self, version: SuperVersion) {
        if self.0.pop_back().is_some() {
            self.0.push_back(version);
        }
    }

    pub(crate) fn latest_memtable(&self) -> &Memtable {
        #[expect(clippy::expect_used, reason = "SuperVersion is expected to exist")]
        let latest = self.0.back().expect("should always have a SuperVersion");

        &latest.active_memtable
    }

    pub fn latest_version(&self) -> SuperVersion {
        #[expect(clippy::expect_used, reason = "SuperVersion is expected to exist")]
        self.0
            .iter()
            .last()
            .cloned()
            .expect("should always have a SuperVersion")
    }

    pub fn get_version_for_snapshot(&self, seqno: SeqNo) -> SuperVersion {
        if seqno == 0 {
            #[expect(clippy::expect_used, reason = "SuperVersion is expected to exist")]
            return self
                .0
                .front()
                .cloned()
                .expect("should always find a SuperVersion");
        }

        let version = self
            .0
            .iter()
            .rev()
            .find(|version| version.seqno < seqno)
            .cloned();

        if version.is_none() {
            log::error!("Failed to find a SuperVersion for snapshot with seqno={seqno}");
            log::error!("SuperVersions:");

            for version in self.0.iter().rev() {
                log::error!("-> {}, seqno={}", version.version.id(), version.seqno);
            }
        }

        #[expect(clippy::expect_used, reason = "SuperVersion is expected to exist")]
        version.expect("should always find a SuperVersion")
    }
}

/// Super versions that are off the list
#[must_use = "their files are still there"]
pub struct RetiredVersions(Vec<SuperVersion>);

impl RetiredVersions {
    /// Deletes the files of their lists of tables, and lets go of their memtables and tables.
    pub fn delete(self, folder: &Path) -> crate::Result<()> {
        #[cfg(test)]
        crate::at_the_disk::reached("files of old lists are to be deleted");

        for retired in &self.0 {
            log::trace!(
                "Removing version #{} (seqno={})",
                retired.version.id(),
                retired.seqno,
            );

            let path = folder.join(format!("v{}", retired.version.id()));
            if path.try_exists()? {
                crate::file::retry_transient_io(|| std::fs::remove_file(&path))?;
            }
        }

        Ok(())
    }
}

/// The right to change a tree's list of tables, held from reading the list to showing its successor
///
/// Storing a list takes several syncs. Those who read and write the tree take the lock of the super
/// versions, so that lock is held only before and after:
///
/// ```text
/// list's lock   ├── latest ── next list ── store it, sync ──────── show it ──┤
/// super versions   ├┤                                              ├┤
/// memtables                            may be sealed meanwhile
/// ```
///
/// Lock order: list, super versions. Nobody who holds either waits for a lock of the tree's user.
pub(crate) struct TableList<'a> {
    pub history: &'a RwLock<SuperVersions>,

    /// Everybody who changes the list holds it.
    pub _changes: &'a MutexGuard<'a, CompactionState>,
}

impl TableList<'_> {
    /// The list now, and until it is changed through this.
    pub fn latest(&self) -> SuperVersion {
        #[expect(clippy::expect_used, reason = "lock is expected to not be poisoned")]
        self.history
            .read()
            .expect("lock is poisoned")
            .latest_version()
    }

    /// Stores the next list of tables and then shows it.
    ///
    /// `with_memtables` changes the memtables in the same moment.
    ///
    /// Snapshots up to the sequence number that is returned do not see the list.
    pub fn replace(
        &self,
        tree_path: &Path,
        next: Version,
        with_memtables: impl FnOnce(&mut SuperVersion),
        seqno: &SequenceNumberCounter,
    ) -> crate::Result<SeqNo> {
        let base = self.latest().version.id();
        assert!(next.id() > base, "a list of tables follows a newer one");

        persist_version(tree_path, &next)?;

        #[expect(clippy::expect_used, reason = "lock is expected to not be poisoned")]
        let mut history = self.history.write().expect("lock is poisoned");

        // Memtables may have been sealed since, so it is the latest ones that stay.
        let mut super_version = history.latest_version();
        assert_eq!(
            super_version.version.id(),
            base,
            "the list of tables changed while its successor was stored",
        );

        super_version.version = next;
        with_memtables(&mut super_version);

        // Under the lock, so that the list of super versions is ordered by sequence number.
        super_version.seqno = seqno.next();
        let shown_from = super_version.seqno;
        history.append_version(super_version);

        Ok(shown_from)
    }

    /// Like [`TableList::replace`], for a list that holds the same data: snapshots may see it at once.
    pub fn replace_and_publish(
        &self,
        config: &Config,
        next: Version,
        with_memtables: impl FnOnce(&mut SuperVersion),
    ) -> crate::Result<()> {
        let seqno = self.replace(&config.path, next, with_memtables, &config.seqno)?;
        config.visible_seqno.fetch_max(seqno + 1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_log::test;

    #[test]
    fn super_version_gc_above_watermark() -> crate::Result<()> {
        let mut history = SuperVersions(
            vec![
                SuperVersion {
                    active_memtable: Arc::new(Memtable::new(0)),
                    sealed_memtables: Arc::default(),
                    version: Version::new(0, crate::TreeType::Standard),
                    seqno: 0,
                },
                SuperVersion {
                    active_memtable: Arc::new(Memtable::new(0)),
                    sealed_memtables: Arc::default(),
                    version: Version::new(0, crate::TreeType::Standard),
                    seqno: 1,
                },
                SuperVersion {
                    active_memtable: Arc::new(Memtable::new(0)),
                    sealed_memtables: Arc::default(),
                    version: Version::new(0, crate::TreeType::Standard),
                    seqno: 2,
                },
            ]
            .into(),
        );

        history.retire(0).delete(Path::new("."))?;

        assert_eq!(history.free_list_len(), 2);

        Ok(())
    }

    #[test]
    fn super_version_gc_below_watermark_simple() -> crate::Result<()> {
        let mut history = SuperVersions(
            vec![
                SuperVersion {
                    active_memtable: Arc::new(Memtable::new(0)),
                    sealed_memtables: Arc::default(),
                    version: Version::new(0, crate::TreeType::Standard),
                    seqno: 0,
                },
                SuperVersion {
                    active_memtable: Arc::new(Memtable::new(0)),
                    sealed_memtables: Arc::default(),
                    version: Version::new(0, crate::TreeType::Standard),
                    seqno: 1,
                },
                SuperVersion {
                    active_memtable: Arc::new(Memtable::new(0)),
                    sealed_memtables: Arc::default(),
                    version: Version::new(0, crate::TreeType::Standard),
                    seqno: 2,
                },
            ]
            .into(),
        );

        history.retire(3).delete(Path::new("."))?;

        assert_eq!(history.len(), 1);

        Ok(())
    }

    #[test]
    fn super_version_gc_below_watermark_simple_2() -> crate::Result<()> {
        let mut history = SuperVersions(
            vec![
                SuperVersion {
                    active_memtable: Arc::new(Memtable::new(0)),
                    sealed_memtables: Arc::default(),
                    version: Version::new(0, crate::TreeType::Standard),
                    seqno: 0,
                },
                SuperVersion {
                    active_memtable: Arc::new(Memtable::new(0)),
                    sealed_memtables: Arc::default(),
                    version: Version::new(0, crate::TreeType::Standard),
                    seqno: 1,
                },
                SuperVersion {
                    active_memtable: Arc::new(Memtable::new(0)),
                    sealed_memtables: Arc::default(),
                    version: Version::new(0, crate::TreeType::Standard),
                    seqno: 2,
                },
                SuperVersion {
                    active_memtable: Arc::new(Memtable::new(0)),
                    sealed_memtables: Arc::default(),
                    version: Version::new(0, crate::TreeType::Standard),
                    seqno: 8,
                },
            ]
            .into(),
        );

        history.retire(3).delete(Path::new("."))?;

        assert_eq!(history.len(), 2);

        Ok(())
    }

    #[test]
    fn super_version_gc_below_watermark_keep() -> crate::Result<()> {
        let mut history = SuperVersions(
            vec![
                SuperVersion {
                    active_memtable: Arc::new(Memtable::new(0)),
                    sealed_memtables: Arc::default(),
                    version: Version::new(0, crate::TreeType::Standard),
                    seqno: 0,
                },
                SuperVersion {
                    active_memtable: Arc::new(Memtable::new(0)),
                    sealed_memtables: Arc::default(),
                    version: Version::new(0, crate::TreeType::Standard),
                    seqno: 8,
                },
            ]
            .into(),
        );

        history.retire(3).delete(Path::new("."))?;

        assert_eq!(history.len(), 2);

        Ok(())
    }

    #[test]
    fn super_version_gc_below_watermark_shadowed() -> crate::Result<()> {
        let mut history = SuperVersions(
            vec![
                SuperVersion {
                    active_memtable: Arc::new(Memtable::new(0)),
                    sealed_memtables: Arc::default(),
                    version: Version::new(0, crate::TreeType::Standard),
                    seqno: 0,
                },
                SuperVersion {
                    active_memtable: Arc::new(Memtable::new(0)),
                    sealed_memtables: Arc::default(),
                    version: Version::new(0, crate::TreeType::Standard),
                    seqno: 2,
                },
            ]
            .into(),
        );

        history.retire(3).delete(Path::new("."))?;

        assert_eq!(history.len(), 1);

        Ok(())
    }
}
