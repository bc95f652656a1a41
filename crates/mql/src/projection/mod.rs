//! Projections: which members of documents are shown, and which are computed (spec §13).
//!
//! | file | what it does |
//! |---|---|
//! | `tree.rs` | the parsed form: what happens at each path, and its application |
//! | `parse.rs` | documents to that form, for `$project`, `$addFields`, `$unset` |
//! | `find.rs` | what only `find` knows: `$slice`, `$elemMatch`, the positional `$` |

mod find;
mod parse;
mod tree;

pub use find::FindProjection;
pub use tree::Projection;
