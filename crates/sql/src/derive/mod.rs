//! Queries that define global secondary indexes: the rows that an index holds for an item.
//!
//! | file | contents |
//! |---|---|
//! | `derivation.rs` | a definition, bound to its source; its rows |
//! | `types.rs` | rows, dialects, errors and bounds |
//! | `refusals.rs` | parts of the language that a definition may not use, with their places |
//! | `walk.rs` | all expressions of a query, those of subqueries included |
//! | `row.rs` | a row's id and members |
//! | `groups/` | definitions with GROUP BY: contributions of items, states and rows of groups |
//!
//! A row is a function of one version of one item, so the same version gives the same bytes: after a restart, a
//! rebuild or a restore. The language is that of queries, so an index holds the rows of its query over the source.
//!
//! ```text
//! SELECT c.email FROM c                      {"id":"1","email":"e"}      → {"id":"<hash>","_id":"1","email":"e"}
//! SELECT i.sku FROM c JOIN i IN c.items      {"id":"1","items":[…2…]}    → "<hash>.0" and "<hash>.1"
//! ```
//!
//! Nothing here reads storage or knows where rows are stored.

mod derivation;
mod groups;
mod refusals;
mod row;
#[cfg(test)]
mod tests;
mod types;
mod walk;

pub use derivation::{Derivation, derive};
pub use groups::{Argument, Contribution, GroupState, Lost};
pub use types::{
    DeriveError, DeriveSource, DerivedRow, Dialect, GROUP_STATE, OUTPUTS_MAX, ROWS_MAX, RowError,
};
