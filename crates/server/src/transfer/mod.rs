//! `shardlake import` and `shardlake export`: items between files and a container of a running server.
//!
//! | file | contents |
//! |---|---|
//! | `formats.rs` | formats of files, and the container that the command names |
//! | `export.rs`, `output.rs` | a container or a query into a file that is whole or not there |
//! | `import.rs` | the plan, the throughput, and the report at the end |
//! | `records.rs`, `splitter.rs` | items out of JSON and JSON lines, in bounded memory |
//! | `quotes.rs` | the quotes of CSV, checked over the raw text |
//! | `columns.rs` | types of CSV columns, and rows as items |
//! | `survey.rs` | the first look at a file: number, size, types, keys |
//! | `writer.rs` | concurrent writes that obey throttling |
//! | `interrupted.rs` | Ctrl-C, SIGTERM and SIGHUP |
//! | `rejects.rs` | refused items and their reasons |

mod columns;
mod export;
mod formats;
mod import;
mod interrupted;
mod output;
mod quotes;
mod records;
mod rejects;
mod splitter;
mod survey;
mod writer;

pub use export::{Export, export};
pub use import::{Import, import};
