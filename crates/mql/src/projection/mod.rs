//! Projections: which members of documents are shown, and which are computed (spec §13).
//!
//! | file | purpose |
//! |---|---|
//! | `tree.rs` | the parsed form: the action at each path, and its application |
//! | `parse.rs` | documents to that form, for `$project`, `$addFields`, `$unset` |
//! | `find.rs` | parts for `find` alone: `$slice`, `$elemMatch`, the positional `$` |

mod find;
mod parse;
mod tree;

pub use find::FindProjection;
pub use tree::Projection;
