//! The query plan that SDKs ask for before they fan a query out: what their own merge must do, the text to send to each
//! partition, and the partition keys that the query can match (engine.md §2, wire.md §10).
//!
//! A plan is a function of the query, its parameters and the partition key definition alone; nothing here knows partitions,
//! hashes or the wire's spelling. The rewritten text is the service's to the letter, because SDKs substitute placeholders in it.
//!
//! | file | what it does |
//! |---|---|
//! | `info.rs` | what a plan says |
//! | `keys.rs`, `key_set.rs` | the partition keys that a condition leaves |
//! | `rewrite.rs`, `tree.rs` | what the client merges, and the text for partitions |
//! | `features.rs` | what the asking client can merge, and what a plan needs |

mod features;
mod info;
mod key_set;
mod keys;
mod rewrite;
mod tree;

pub use features::{QueryFeature, SupportedFeatures};
pub use info::{DistinctCount, DistinctKind, KeyFilter, QueryInfo, QueryPlan, SortDirection};
