//! Collections of documents over containers of items: MongoDB's commands on the engine that all front ends share (spec
//! mongo.md). A collection is a container, a document is an item; there is no second copy.
//!
//! | file | purpose |
//! |---|---|
//! | `collections.rs` | finds a collection or a view by its name |
//! | `catalog.rs`, `meta.rs` | databases, collections and views: creation, listing, drops; their metadata |
//! | `indexes.rs`, `index_builds.rs`, `index_rules.rs`, `wildcard_rules.rs`, `index_policy.rs`, `uniqueness.rs`, `narrowing.rs`, `places.rs` | indexes by name, the one policy that serves them, unique and geographic ones, values that they refuse |
//! | `expiry.rs` | removes documents whose time is over by an index |
//! | `validation.rs`, `key_analysis.rs` | read a collection from end to end: its validity, the quality of a shard key |
//! | `names.rs` | names of collections as ids of containers |
//! | `plan.rs`, `collated.rs`, `conditions.rs` | from a filter to queries of the engine; strings under a collation |
//! | `point.rs` | one document by its key |
//! | `reads.rs`, `order.rs`, `aggregate.rs`, `needed.rs`, `output.rs` | finding documents; pipelines, their inputs, and where their results go |
//! | `shown.rs` | keys of indexes and numbers of documents in place of documents |
//! | `capped.rs`, `tail.rs` | capped collections; cursors that wait for the next insert |
//! | `temporary.rs`, `interrupted.rs` | collections that a command makes for its own use; commands that a start finishes |
//! | `insert.rs`, `update.rs`, `change.rs`, `effect.rs` | writes, each document as one step, and their effects |
//! | `ascending.rs` | ObjectIds and timestamps that the server makes |
//! | `answers.rs` | answers of retryable statements |
//! | `change_stream/` | changes, event by event |
//! | `bounds.rs` | `min` and `max` of a find |
//! | `matching.rs` | documents that meet a filter |
//! | `index_locks.rs` | locks of commands that create indexes |
//! | `uses.rs` | how often indexes were used |
//! | `duplicates.rs`, `failure.rs`, `request.rs` | errors in MongoDB's codes; the context of a command |
//!
//! Nothing here knows messages, sessions or cursors. Times to wait, connections and users are the gateway's.

mod aggregate;
mod answers;
mod ascending;
mod bounds;
mod capped;
mod catalog;
mod change;
mod change_stream;
mod collated;
mod collections;
mod conditions;
mod duplicates;
mod effect;
mod expiry;
mod expressions;
mod failure;
mod index_builds;
mod index_locks;
mod index_policy;
mod index_rules;
mod indexes;
mod insert;
mod interrupted;
mod key_analysis;
mod matching;
mod meta;
mod names;
mod narrowing;
mod needed;
mod order;
mod output;
mod own_writes;
mod places;
mod plan;
mod point;
mod reads;
mod request;
mod shown;
mod tail;
mod temporary;
mod uniqueness;
mod update;
mod uses;
mod validation;
mod wildcard_rules;

pub use aggregate::{Aggregating, Aggregation, RESULT_BYTES_MAX, too_large};
pub use answers::{KeptAnswers, NumberedInserts, SessionName, SessionWrite};
pub use bounds::KeyBounds;
pub use capped::{CappedChange, capped_options, change_capped, clone_as_capped, convert_to_capped};
pub use catalog::{Creation, Listed, NAMESPACE_EXISTS, NAMESPACE_NOT_FOUND, policy_of_versions};
pub use change_stream::{
    BeforeChange, ChangeStream, FullDocument, StreamBatch, StreamOptions, StreamRoom, StreamStart, Token,
    Watched, cluster_time_now, milliseconds_of, operation_time,
};
pub use collections::{Asked, Collection, Collections, Found, Namespace};
pub use effect::{Done, Numbered};
pub use expiry::ExpirySweep;
pub use failure::{Failure, Result, refuses_command};
pub use index_builds::IndexChange;
pub use index_rules::is_index_option;
pub use indexes::identity_index;
pub use insert::Inserted;
pub use interrupted::finish_interrupted;
pub use key_analysis::KeyCharacteristics;
pub use meta::{DatabaseMeta, Meta, View, flag};
pub use plan::{Access, Plan, access, plan};
pub use point::Point;
pub use reads::{Find, Finding, MEMORY_BYTES_MAX, Source};
pub use request::{CreationLog, Ending, Request};
pub use shown::{IndexKeys, Shown, reach};
pub use tail::{Tail, TailBatch, TailRoom};
pub use update::Statement;
pub use uses::IndexUses;
pub use validation::Validation;
