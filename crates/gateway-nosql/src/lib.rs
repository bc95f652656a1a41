//! The NoSQL gateway: the REST protocol that the official SDKs speak, over an [`Account`](shardlake_account::Account).
//!
//! | file | responsibility |
//! |---|---|
//! | `gateway.rs`, `settings.rs` | [`Gateway`]: one request from headers to response; its settings |
//! | `connection_mode.rs`, `addresses.rs`, `call.rs` | where a request came in; addresses for Direct mode; a request that has passed the checks |
//! | `router.rs`, `headers.rs`, `request_key.rs`, `body.rs` | paths and operations, request headers, partition keys, bodies |
//! | `operation_name.rs`, `audit.rs` | names of operations for metrics and logs; one log line for each changed definition |
//! | `auth.rs`, `resource_token.rs`, `access.rs` | who asks: signatures and tokens; who may do what |
//! | `message_space.rs`, `byte_space.rs`, `answer_body.rs` | memory for bodies and answers, bounded; answers in pieces |
//! | `reply.rs`, `item_headers.rs`, `errors.rs`, `session.rs` | response headers, error bodies, session tokens |
//! | `header_names.rs`, `header_text.rs` | names of response headers; their values as text |
//! | `resource_document.rs` | feeds and JSON of metadata resources |
//! | `account_document.rs`, `databases.rs`, `containers.rs`, `pkranges.rs`, `conflicts.rs`, `offers.rs` | metadata operations |
//! | `users.rs`, `permissions.rs` | users, and permissions with their resource tokens |
//! | `throughput.rs`, `metadata_query.rs` | throughput as clients write it; queries over metadata feeds |
//! | `items.rs`, `patch.rs`, `feed.rs`, `batch.rs`, `partition_key_delete.rs` | item operations |
//! | `scripts.rs`, `script_execute.rs`, `triggers.rs` | stored procedures, triggers and user-defined functions; running procedures; triggers in headers |
//! | `query.rs`, `query_body.rs`, `query_headers.rs`, `query_plan.rs` | queries over items, and plans for clients that merge |
//! | `unsupported.rs` | refusals of unsupported features, and their texts |
//!
//! The crate owns no socket, thread or clock: a server hands it requests and writes out the responses. Every operation is
//! parse → call → respond, in a file of its own. Only here do status numbers and header names occur; the meaning of the engine's
//! error kinds is written down once, in `errors.rs`.
//!
//! Anything that is not supported is refused by name before anything is done.

mod access;
mod account_document;
mod activity_ids;
mod addresses;
mod answer_body;
mod audit;
mod auth;
mod batch;
mod body;
mod byte_space;
mod call;
mod change_feed;
mod conflicts;
mod connection_mode;
mod containers;
mod databases;
mod errors;
mod feed;
mod formats;
mod gateway;
mod header_names;
mod header_text;
mod headers;
mod index_reads;
mod item_headers;
mod items;
mod known_members;
mod life;
mod message_space;
mod metadata_query;
mod offers;
mod operation_name;
mod operator_reply;
mod partition_key_delete;
mod patch;
mod permissions;
mod pkranges;
mod query;
mod query_body;
mod query_headers;
mod query_plan;
mod reply;
mod request_key;
mod resource_document;
mod resource_token;
mod router;
mod script_execute;
mod scripts;
mod secondary_index;
mod session;
mod settings;
mod slow_log;
mod throughput;
mod triggers;
mod unsupported;
mod users;

pub use answer_body::{AnswerBody, Text};
pub use connection_mode::{ConnectionMode, Routing};
pub use errors::own_words;
pub use gateway::{Endpoint, Gateway};
pub use message_space::{AnswerHold, ConnectionSpace, MessageSpace};
pub use operation_name::{OperationName, OperationSeen};
pub use settings::{GatewaySettings, Scheme};
pub use shardlake_signature::{Access, AccountKey};
