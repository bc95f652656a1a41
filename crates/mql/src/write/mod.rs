//! Writes of documents as data: a step from a stored document to its next version, the rules that a document has to meet,
//! and the answer of a statement.
//!
//! | file | purpose |
//! |---|---|
//! | `names.rs`, `identity.rs`, `stored.rs` | documents to bodies of items and back, one for one |
//! | `shard_key.rs` | the partition key as documents name it |
//! | `rules.rs`, `arrays.rs` | the rules of a collection: validator, geographic indexes, arrays in indexes, shard key |
//! | `step.rs` | filter and action of a statement, with their sources |
//! | `change.rs` | the change of one document, and its outcome |
//! | `answer.rs` | the answer of a statement, which is stored with its write |
//!
//! Commands consist of sources that can be encoded, and of values derived from them ([`shardlake_model::Derived`]).

mod answer;
mod arrays;
mod change;
mod identity;
mod names;
mod refusal;
mod rules;
mod shard_key;
mod step;
mod stored;

pub use answer::{AnswerForm, ProjectionSource, ShownDocument, Summary, inserted_answer};
pub use arrays::ArrayRules;
pub use change::{ChangeOutcome, Changed, DocumentChange};
pub use identity::{Identity, identity_text, identity_value};
pub use names::{shown_name, shown_path, stored_name, stored_path};
pub use refusal::Refusal;
pub use rules::{DocumentRules, PlaceRules, Rules, RulesSource, Strictness};
pub use shard_key::{ShardKey, UNSHARDED_PATH};
pub use step::{Action, ActionSource, DocumentStep, Step, StepSource};
pub use stored::{DOCUMENT_BYTES_MAX, body_of, document_bytes_of, document_of, id_first, members_of};
