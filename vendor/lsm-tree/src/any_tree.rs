// Copyright (c) 2024-present, fjall-rs
// This source code is licensed under both the Apache 2.0 and MIT License
// (found in the LICENSE-* files in the repository)

use crate::{version::run::Ranged, AbstractTree, BlobTree, InternalValue, Table, Tree};
use enum_dispatch::enum_dispatch;
use std::ops::RangeBounds;

/// May be a standard [`Tree`] or a [`BlobTree`]
#[derive(Clone)]
#[enum_dispatch(AbstractTree)]
pub enum AnyTree {
    /// Standard LSM-tree, see [`Tree`]
    Standard(Tree),

    /// Key-value separated LSM-tree, see [`BlobTree`]
    Blob(BlobTree),
}

impl AnyTree {
    /// Returns the size of the tables that hold nothing but keys of a range: what
    /// [`AbstractTree::drop_range`] drops.
    #[doc(hidden)]
    #[must_use]
    pub fn table_bytes_within<K: AsRef<[u8]>, R: RangeBounds<K>>(&self, range: R) -> u64 {
        let (bounds, _is_empty) = Tree::range_bounds_to_owned_bounds(&range);

        self.current_version()
            .iter_tables()
            .filter(|table| bounds.contains(table.key_range()))
            .map(Table::file_size)
            .sum()
    }

    /// Writes entries into one memtable, and returns how much larger it is then
    ///
    /// See [`Tree::append_entries`].
    #[doc(hidden)]
    #[must_use]
    pub fn append_entries(&self, entries: impl Iterator<Item = InternalValue>) -> u64 {
        match self {
            Self::Standard(tree) => tree.append_entries(entries),
            Self::Blob(tree) => tree.index.append_entries(entries),
        }
    }

    /// Writes a large batch into one memtable, and returns how much larger it is then
    ///
    /// See [`Tree::append_run`].
    #[doc(hidden)]
    #[must_use]
    pub fn append_run(&self, entries: Vec<InternalValue>) -> u64 {
        match self {
            Self::Standard(tree) => tree.append_run(entries),
            Self::Blob(tree) => tree.index.append_run(entries),
        }
    }
}
