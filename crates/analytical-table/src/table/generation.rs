//! Swap: a generation with a log of its own becomes the content of the serving log.

use super::core::{self, Core};
use super::options::{Commit, Location, TableFolders};
use crate::error::TableError;
use crate::log::{Change, DataFile, Metadata, Reason, Tombstone, VectorRef};

pub fn swap(built: Core, folders: &TableFolders, commit: &Commit) -> Result<Core, TableError> {
    let generation = built.version.info.generation;
    let base = Location::Building(generation).base();
    assert_eq!(built.files.base, base, "a generation that was built apart");
    let serving = Core::open(folders, Location::Serving, built.options.clone())?;
    let time = serving.as_ref().map_or(commit.time, |serving| commit.time.max(serving.version.time));
    let former = serving.as_ref().map(|serving| &serving.version);
    let removed = former.into_iter().flat_map(|former| former.files.values());
    let metadata = Metadata {
        // The table stays the same one for readers that have it open.
        id: former.map_or(&built.version.metadata, |former| &former.metadata).id.clone(),
        ..built.version.metadata.clone()
    };
    let change = Change {
        info: core::info(&built.options, generation, Reason::Swap, commit, &folders.random),
        time,
        metadata: Some(metadata),
        removed: removed.map(|file| Tombstone::of(file, time, true)).collect(),
        added: built.version.files.values().map(|file| moved(file, &base)).collect(),
        changes_rows: true,
    };
    match serving {
        Some(mut serving) => {
            serving.commit_change(&change)?;
        }
        None => match core::log_of(folders, Location::Serving).commit(None, &change) {
            // A first version appeared meanwhile.
            Err(TableError::AnotherWriter { .. }) => return Err(TableError::Exists),
            result => _ = result?,
        },
    }
    let opened = Core::open(folders, Location::Serving, built.options)?;
    opened.ok_or(TableError::Missing)
}

/// The file as the serving log names it.
fn moved(file: &DataFile, base: &str) -> DataFile {
    let vector = file.vector.as_ref();
    DataFile {
        path: format!("{base}{}", file.path),
        vector: vector.map(|vector| VectorRef { path: format!("{base}{}", vector.path), ..vector.clone() }),
        ..file.clone()
    }
}
