//! Versions of analytical tables as tables of the query engine.
//!
//! | file | contents |
//! |---|---|
//! | `provider.rs` | a version as the engine's table: files, deletion vectors, pruning |
//! | `bounds.rs` | bounds of columns in the log, for pruning and plans |
//! | `selection.rs` | deletion vectors as selections of rows |
//! | `reader.rs` | data files, read by position, with their footers kept |
//! | `only_tables.rs` | the engine's file systems: none |
//! | `types.rs` | types of columns as the engine reads them |
//! | `catalog.rs` | databases and containers by name, opened when a statement names them |

mod bounds;
mod catalog;
mod only_tables;
mod provider;
mod reader;
mod selection;
mod types;

pub use catalog::{AsOf, Catalog, ListedTable, Refusal};
pub(crate) use only_tables::OnlyTables;
pub use provider::VersionTable;
pub use reader::{Footers, ReadCounter};
