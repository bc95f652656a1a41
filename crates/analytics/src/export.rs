//! Copies of tables for programs that cannot read them: plain Parquet without deleted rows, or JSON lines.

use std::path::Path;

use shardlake_analytical_table::error::TableError;
use shardlake_analytical_table::store::LocalStore;
use shardlake_analytical_table::table::{ExportFormat, ExportOptions, Exported, TableReader};

use crate::Root;

/// Contents of a copy.
#[derive(Debug, Clone)]
pub struct Export {
    /// JSON lines instead of Parquet.
    pub as_json: bool,
    /// Paths such as `/customer/id` by which the rows of each file are sorted.
    pub sort_by: Vec<String>,
    /// A version within retention; `None`: the newest.
    pub version: Option<u64>,
}

/// Files and rows of a copy, and the version that it is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copied {
    pub files: usize,
    pub rows: u64,
    pub version: u64,
}

/// Copies the table in a folder below the root to a directory, which must be empty or new. Nothing of the table is changed.
/// The thread may block.
pub fn export(root: &Root, folder: &str, target: &Path, wanted: &Export) -> Result<Copied, String> {
    let address = root.address(folder);
    let words = |error: TableError| format!("the table '{address}' cannot be copied: {error}");
    let none = || format!("there is no table in '{address}': see `shardlake analytics status`");
    if root.directory().is_some_and(|root| !root.join(folder).join("_delta_log").is_dir()) {
        return Err(none());
    }
    if std::fs::read_dir(target).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(format!("'{}' is not empty: name a new directory", target.display()));
    }
    let files = root.folder(folder).map_err(|error| words(error.into()))?;
    let mut table = TableReader::open(files).map_err(words)?.ok_or_else(none)?;
    if let Some(version) = wanted.version {
        table.at(version).map_err(words)?;
    }
    let format = if wanted.as_json { ExportFormat::JsonLines } else { ExportFormat::Parquet };
    let members = |path: &String| path.split('/').skip(1).map(str::to_owned).collect();
    let sort_by = wanted.sort_by.iter().map(members).collect();
    let target = LocalStore::open(target).map_err(|error| words(error.into()))?;
    let options = ExportOptions { sort_by, ..ExportOptions::new(format) };
    let Exported { files, rows } = table.export(&target, &options).map_err(words)?;
    Ok(Copied { files, rows, version: table.version().number })
}
