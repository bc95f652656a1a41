//! The gateway over an account in memory, spoken to as a driver would: bytes in, bytes out, no socket.
//!
//! `client.rs` makes messages with code of its own.

mod answers;
mod any_bytes;
mod any_message;
mod array_indexes;
mod authentication;
mod change_stream_ends;
mod change_streams;
mod client;
mod cluster_tools;
mod connections;
mod counts;
mod cursors;
mod data;
mod dispatch;
mod endings;
mod expiring;
mod explained;
mod frames;
mod gathered;
mod index_builds;
mod index_or_scan;
mod kept_answers;
mod large_documents;
mod narrowed_indexes;
mod places;
mod points;
mod refused_commands;
mod results;
mod retried;
mod rules;
mod server_stages;
mod sessions;
mod sharded_by_id;
mod spent_budgets;
mod strangers;
mod temporary;
mod throughput;
mod times_of_commits;
mod transaction_histories;
mod transactions;
mod two_doors;
mod updates;
mod users;
